"""``sagehand doctor``: is everything here that sagehand needs, and does it work?"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from sagehand.errors import MissingExtra, SagehandError

if TYPE_CHECKING:
    from sagehand.settings import Settings

__all__ = ["Finding", "examine"]

_CORE = ("jinja2", "numpy", "onnxruntime", "pillow", "pydantic", "pyyaml", "rich", "scipy", "typer")
_EXTRAS = {"heic": "pillow_heif", "render": "mujoco", "torch": "torch", "vlm": "openai", "world": "frankik"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: The thing.
        state: "ok", "note" (works without it) or "fail".
        detail: What was found.
        remedy: What to do, or "".
    """

    what: str
    state: Literal["ok", "note", "fail"]
    detail: str
    remedy: str = ""


def examine(cases: Path | None = None) -> list[Finding]:
    """Look at Python, packages, embedder, settings, the VLM that they name, and a case base; nothing is sent anywhere.

    Args:
        cases: The case base to check; the one of the settings by default.
    """
    found = [
        Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        Finding("sqlite", "ok", sqlite3.sqlite_version),
        *[_package(name) for name in _CORE],
        *[_extra(extra, module) for extra, module in _EXTRAS.items()],
        _guarded("panda", _panda),
        _guarded("embedder", _embedder),
    ]
    read: list[Settings] = []

    def settings() -> Finding:
        from sagehand.settings import load_settings

        resolved = load_settings()
        read.append(resolved.settings)
        return Finding(
            "settings", "ok", f"from {resolved.file}" if resolved.file else "no sagehand.toml here; defaults"
        )

    found.append(_guarded("settings", settings))
    path = cases
    if read:
        found.append(_guarded("vlm", lambda: _vlm(read[0])))
        path = cases or read[0].cases
    if path is not None:
        found.append(_guarded("case base", lambda: _case_base(path)))
    return found


def _guarded(what: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except SagehandError as error:
        return Finding(what, "fail", error.message, error.hint)
    except OSError as error:
        return Finding(what, "fail", str(error), "check the path and its permissions")


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "fail", "not installed", f"pip install {name}")


def _extra(extra: str, module: str) -> Finding:
    if importlib.util.find_spec(module) is not None:
        return Finding(module, "ok", "installed")
    return Finding(module, "note", "not installed (optional)", f"pip install 'sagehand[{extra}]'")


def _panda() -> Finding:
    from sagehand.world.robot.description import load_robot

    try:
        load_robot("panda").model_file("arm")
    except MissingExtra as error:
        return Finding("panda", "note", "the arm's model is not installed (optional)", error.hint)
    return Finding("panda", "ok", "the arm's model is installed")


def _embedder() -> Finding:
    from sagehand.embed import get_embedder

    embedder = get_embedder()
    picture = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    embedder.embed([picture])
    started = time.perf_counter()
    length = float(np.linalg.norm(embedder.embed([picture])[0]))
    took = (time.perf_counter() - started) * 1000
    state: Literal["ok", "fail"] = "ok" if abs(length - 1) < 1e-3 else "fail"
    return Finding("embedder", state, f"{embedder.identity}, {took:.0f} ms a picture")


def _vlm(settings: Settings) -> Finding:
    """What is known of the model that the settings name; the server is not asked."""
    if settings.base_url is None:
        return Finding(
            "vlm", "note", "no server is named; sagehand works without one", "set base_url, or OPENAI_BASE_URL"
        )
    from sagehand.vlm.profile import load_profile, normal_url, profile_for

    url, model = normal_url(settings.base_url), settings.vlm_model
    if model is None:
        return Finding("vlm", "note", f"{url}: no model is named", "set vlm_model to a model's name on that server")
    profile = profile_for(url, model)
    known = f"boxes {profile.boxes}, {' > '.join(profile.modes)}, at most {profile.max_images} pictures a request"
    if load_profile(url, model) is None:
        remedy = f"sagehand vlm probe --base-url {url} --model {model}"
        return Finding("vlm", "note", f"{model} at {url} was not probed; taken as {profile.family}: {known}", remedy)
    return Finding("vlm", "ok", f"{model} at {url}: {known}")


def _case_base(path: Path) -> Finding:
    from sagehand.cases import CaseBase
    from sagehand.embed import get_embedder
    from sagehand.judge.calibration import Calibration

    with CaseBase.open(path) as base:
        base.require(get_embedder(base.embedder.name).identity)
        problems = base.problems(thorough=True)
        if problems:
            return Finding(
                "case base",
                "fail",
                f"{path}: {problems[0]} ({len(problems)} in all)",
                "export what is readable and import it anew",
            )
        doc = base.calibration()
        if doc is None or Calibration.from_dict(doc).stale(base.revision):
            return Finding(
                "case base",
                "note",
                f"{path}: {len(base)} cases; the calibration is missing or old",
                f"sagehand cases calibrate {path}",
            )
        written = "read-only" if base.read_only else "writable"
        return Finding("case base", "ok", f"{path}: {len(base)} cases, {written}, calibrated")
