"""Studies: ``cases check``, ``evaluate``, their scores, the demo, the doctor, and the rendered cell (``cell/``)."""
