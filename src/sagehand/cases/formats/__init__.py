"""Annotations of other tools, in and out: COCO (one file a folder) and LabelMe (one file a picture).

Both give the rows of a ``metadata.jsonl``. What such a file has no place for (steps, actions, our own keys) travels in a
key ``sagehand``, which the tools keep; so a case base that is exported and imported again is the same. One picture is one
case, so one device: several pieces of its outline become their convex hull, and nothing of the device is lost.
"""
