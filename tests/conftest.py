"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def _folder(name: str) -> Path:
    folder = SHARED_DATA / name
    if not folder.is_dir():
        pytest.skip(f"no folder {name} in the shared data beside the checkout")
    return folder


@pytest.fixture
def phones() -> Path:
    """38 labelled photos of phones being taken apart; skips where the folder is missing."""
    return _folder("phones")


@pytest.fixture
def rgbd() -> Path:
    """Two RGB-D scenes of a RealSense D435; skips where the folder is missing."""
    return _folder("rgbd")
