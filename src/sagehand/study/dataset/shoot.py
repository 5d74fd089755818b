"""One view → its files in the folder, its row, and the sums of its files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sagehand.study.cell.dataset import View, write_view

if TYPE_CHECKING:
    from sagehand.study.cell.render import CellRenderer

__all__ = ["Shot", "shoot"]


@dataclass(frozen=True)
class Shot:
    """What one view became.

    Attributes:
        row: Its row of ``metadata.jsonl``.
        sums: File, relative to the folder → SHA-256 of its bytes, in hex.
    """

    row: dict[str, Any]
    sums: dict[str, str]


def shoot(folder: Path, view: View, renderer: CellRenderer) -> Shot:
    """Render a view and write its picture and its depth image (16-bit PNG, millimetres).

    Args:
        folder: Where to; folders are made as needed, and files of the same name are replaced.
        view: What to render.
        renderer: Renders it, and decides the size.

    Raises:
        OSError: A file cannot be written.
    """
    row = write_view(folder, view, renderer, depth=True)
    names = [str(row[column]) for column in ("file_name", "depth_file_name")]
    return Shot(row, {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names})
