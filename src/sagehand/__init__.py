"""Sagehand: a robot's old hand. It looks, recalls the past cases that matter, and says what to do next.

>>> import sagehand
>>> predictor = sagehand.Predictor.open("p.cases", "actions.yaml")  # doctest: +SKIP
>>> predictor.predict("photo.jpg", sagehand.Known(previous="pry")).next_action  # doctest: +SKIP
'unscrew'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sagehand.version import __version__

if TYPE_CHECKING:
    from sagehand.action.decision import Decision, Known
    from sagehand.action.library import ActionLibrary
    from sagehand.action.page import write_page
    from sagehand.action.predict import Predictor
    from sagehand.cases import Case, CaseBase, export_folder, import_folder
    from sagehand.embed import get_embedder, list_embedders
    from sagehand.errors import SagehandError
    from sagehand.picture import Picture, load
    from sagehand.recall.build import add_picture, build, calibrate, reembed
    from sagehand.recall.crop import crop_picture
    from sagehand.study.check import check
    from sagehand.study.evaluate import evaluate
    from sagehand.vlm.ask import Vlm
    from sagehand.vlm.local import LocalBackend
    from sagehand.vlm.server import OpenAiBackend

_HOME = {
    "crop_picture": "sagehand.recall.crop",
    "Vlm": "sagehand.vlm.ask",
    "OpenAiBackend": "sagehand.vlm.server",
    "LocalBackend": "sagehand.vlm.local",
    "ActionLibrary": "sagehand.action.library",
    "Case": "sagehand.cases",
    "CaseBase": "sagehand.cases",
    "Decision": "sagehand.action.decision",
    "Known": "sagehand.action.decision",
    "Picture": "sagehand.picture",
    "Predictor": "sagehand.action.predict",
    "SagehandError": "sagehand.errors",
    "add_picture": "sagehand.recall.build",
    "build": "sagehand.recall.build",
    "calibrate": "sagehand.recall.build",
    "check": "sagehand.study.check",
    "evaluate": "sagehand.study.evaluate",
    "export_folder": "sagehand.cases",
    "get_embedder": "sagehand.embed",
    "import_folder": "sagehand.cases",
    "list_embedders": "sagehand.embed",
    "load": "sagehand.picture",
    "reembed": "sagehand.recall.build",
    "write_page": "sagehand.action.page",
}

__all__ = [
    "ActionLibrary",
    "Case",
    "CaseBase",
    "Decision",
    "Known",
    "LocalBackend",
    "OpenAiBackend",
    "Picture",
    "Predictor",
    "SagehandError",
    "Vlm",
    "__version__",
    "add_picture",
    "build",
    "calibrate",
    "check",
    "crop_picture",
    "evaluate",
    "export_folder",
    "get_embedder",
    "import_folder",
    "list_embedders",
    "load",
    "reembed",
    "write_page",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562): importing sagehand must stay quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'sagehand' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
