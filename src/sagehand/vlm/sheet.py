"""Several pictures in one, for servers that take fewer than a question shows (FIELD_REPORTS S20)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from sagehand.vlm.base import ImagePart

__all__ = ["SHEET_SIDE", "contact_sheet"]

SHEET_SIDE = 1536
"""Longest side of a sheet [px]: each picture of a pair keeps most of what it would have alone."""

_CELL = 768
_GUTTER = 16


def contact_sheet(parts: Sequence[ImagePart]) -> ImagePart:
    """The pictures side by side on white, row by row; the label says which is where.

    Args:
        parts: At least one picture.
    """
    from PIL import Image

    columns = math.ceil(math.sqrt(len(parts)))
    rows = math.ceil(len(parts) / columns)
    size = (columns * _CELL + (columns - 1) * _GUTTER, rows * _CELL + (rows - 1) * _GUTTER)
    sheet = Image.new("RGB", size, (255, 255, 255))
    places = []
    for i, part in enumerate(parts):
        row, column = divmod(i, columns)
        image = Image.fromarray(np.ascontiguousarray(part.pixels))
        image.thumbnail((_CELL, _CELL), Image.Resampling.BILINEAR)
        left, top = column * (_CELL + _GUTTER), row * (_CELL + _GUTTER)
        sheet.paste(image, (left + (_CELL - image.width) // 2, top + (_CELL - image.height) // 2))
        where = f"column {column + 1}" if rows == 1 else f"row {row + 1}, column {column + 1}"
        places.append(f"{where}: {part.label}")
    name = hashlib.sha256("|".join(part.pixel_id for part in parts).encode()).hexdigest()[:32]
    label = f"{len(parts)} pictures on one sheet ({'; '.join(places)})"
    return ImagePart(np.asarray(sheet), name, label)
