"""One normaliser for every picture: from a path, bytes or an array to RGB pixels with an identity.

Only NumPy is imported here; Pillow comes in with the first file or bytes to decode, so arrays alone never need it.
"""

from __future__ import annotations

from sagehand.picture.depth import DEPTH_UNITS
from sagehand.picture.encode import to_jpeg
from sagehand.picture.header import DEFAULT_LIMITS, Limits
from sagehand.picture.load import load
from sagehand.picture.model import Box, Crop, Picture

__all__ = ["DEFAULT_LIMITS", "DEPTH_UNITS", "Box", "Crop", "Limits", "Picture", "load", "to_jpeg"]
