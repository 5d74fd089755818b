"""A disassembly cell, drawn from a seed: devices as tables of parts, three places, and pictures with exact labels.

The rooms, from the bottom up: ``shapes``, ``textures`` and ``materials`` (what things are made of), ``parts`` and
``components`` (the rows of the tables), ``device``, ``smoke_detectors``, ``heat_cost_allocators`` and ``strangers`` (what
stands in the cell), ``places`` (where), ``scene`` (one seeded draw of all that; no GL), ``render`` and ``sensor`` (MuJoCo:
colour, depth, mask), ``outline`` (mask → polygon) and ``dataset`` (views → a folder of labelled pictures). Only ``render``
needs MuJoCo.
"""
