"""A disassembly cell, drawn from a seed: devices as tables of parts, three places, and pictures with exact labels.

The rooms, from the bottom up: ``shapes`` and ``textures`` (what things are made of), ``parts`` (the rows of the tables),
``device``, ``smoke_detectors``, ``heat_cost_allocators``, ``strangers`` (what stands in the cell), ``places`` (where), ``scene``
(one seeded draw of all that; no GL), ``render`` (MuJoCo: colour, depth, mask), ``outline`` (mask → polygon) and ``dataset``
(views → a folder of labelled pictures). Only ``render`` needs MuJoCo.
"""
