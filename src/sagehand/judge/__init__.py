"""The questions of paper A, and who answers them without a VLM."""
