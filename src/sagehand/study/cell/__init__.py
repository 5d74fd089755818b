"""A disassembly cell, drawn from a seed: devices as tables of parts, four places, and pictures with exact labels.

The rooms, from the bottom up: ``shapes``, ``textures`` and ``materials`` (what things are made of), ``parts``,
``components`` and ``clutter`` (the rows of the tables), ``device``, ``smoke_detectors``, ``heat_cost_allocators``,
``padded_detectors``, ``blade_allocators``, ``damage``, ``random_devices`` and ``strangers`` (what stands in the cell), ``wear``
(what the years did to it), ``places`` (where), ``scene`` (one seeded draw of all that; no GL), ``render`` and ``sensor`` (MuJoCo:
colour, depth, mask), ``outline`` (mask → polygon), ``dataset`` (views → a folder of labelled pictures) and ``ewaste`` (the views
of the study's data set). Only ``render`` needs MuJoCo.
"""
