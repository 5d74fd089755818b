"""Data that ships with sagehand, so that it can be tried without a camera, a GPU or a download."""

from __future__ import annotations

from pathlib import Path

__all__ = ["cell_folder"]


def cell_folder() -> Path:
    """The demo cell: ``metadata.jsonl``, ``images/``, ``actions.yaml``, and test material apart in ``queries/``."""
    return Path(__file__).resolve().parent / "cell"
