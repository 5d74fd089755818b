"""Fixtures that every test may use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that starts the tests in the background ignores Ctrl-C for them and all that they start
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
