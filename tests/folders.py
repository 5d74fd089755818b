"""Small seeded pictures and folders of cases, for the tests of import and export."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def jpeg(seed: int, size: tuple[int, int] = (32, 24)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1] // 4, size[0] // 4, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize(size).save(file, "JPEG", quality=90)
    return file.getvalue()


def png(pixels: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_rows(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
