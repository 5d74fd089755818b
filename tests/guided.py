"""A case base with pictures that can be shown, and scripted models for whole decisions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from builders import ACTIONS, VectorEmbedder, base_of, draft, near, picture_of, png, unit
from sagehand.action.library import ActionLibrary
from sagehand.action.predict import Predictor
from sagehand.cases import CaseBase, CaseDraft
from sagehand.judge.calibration import learn
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import Request
from sagehand.vlm.scripted import ScriptedBackend, offered, prompt_text

LIBRARY = ActionLibrary.parse(ACTIONS, source="test.yaml")
D0 = picture_of(unit([1, 0.05, 0.02]))
VALID = re.compile(r"- next_action: .* Valid: (.*), cannot_tell\. ")


@cache
def _drafts(devices: int, steps: int, views: int) -> tuple[CaseDraft, ...]:
    rng = np.random.default_rng(0)
    drafts = []
    for device in range(devices):
        for step in range(1, steps + 1):
            for view in range(views):
                row = {
                    "family": "f", "device": f"d{device}", "step": step,
                    "previous_action": "none" if step == 1 else f"a{step - 1}",
                    "next_action": "end" if step == steps else f"a{step}",
                }  # fmt: skip
                one = draft(f"{device}-{step}-{view}", near(np.eye(8)[device] * 3, 0.7, rng), row)
                drafts.append(replace(one, image=png(len(drafts))))
    return tuple(drafts)


@cache
def _learnt(devices: int, steps: int, views: int) -> Mapping[str, Any]:
    return learn(base_of(_drafts(devices, steps, views)).index()).to_dict()


def pictured(devices: int = 3, steps: int = 4, views: int = 3) -> CaseBase:
    """Devices whose steps look alike; every picture can be decoded; calibrated."""
    base = base_of(_drafts(devices, steps, views))
    base.set_calibration(_learnt(devices, steps, views))
    return base


Model = Callable[[str, str], Mapping[str, Any]]
"""Name of the tool, text of the prompt → its arguments."""


def call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"reasoning": "location: agrees. The same table.", "call": {"tool": name, **arguments}}


def sees(text: str, tool: str, **more: Any) -> Mapping[str, Any]:
    """A model that knows device d1, step 2: it grades that best, and copies the next action of the case it is shown."""
    device, step = re.search(r"Which device is it\? A: (\w+)", text), re.search(r"executed last\? A: (\w+)", text)
    right = bool(device and step and device[1] == "d1" and step[1] == "a1")
    answers = {
        "BoolGradeImage": {"match": right},
        "GradeImage": {"score": 9 if right else 3 if device and device[1] == "d1" else 1},
        "LeafFinalScore": {"score": 8 if "grade 9" in text else 2, "summary": "as graded"},
        "ExpandSearch": {"expand": False},
        "CompareImages": {"better": "first"},
    }
    if tool in answers:
        return answers[tool] | more
    valid = VALID.search(text)
    names = valid[1].split(", ") if valid else []
    following = re.search(r"Which action comes next\? A: (\w+)", text)
    known = re.search(r"previously executed action is: (\w+)", text)
    action = following[1] if following and following[1] in names else "cannot_tell"
    return {
        "previous_action": known[1] if known and known[1] != "not" else "not_known",
        "next_action": action,
        "remaining_actions": [action] if action not in ("cannot_tell", "end") else [],
        "is_last": False,
        "device_class": "f",
        **more,
    }


def model(answer: Callable[[str, str], Any] | None = None, **options: Any) -> tuple[Vlm, ScriptedBackend]:
    """A VLM over a scripted backend; ``answer(tool, text)`` gives arguments, or a reply of its own."""

    def reply(request: Request) -> Any:
        name, text = offered(request)[0], prompt_text(request)
        given = answer(name, text) if answer else None
        if given is None:
            given = sees(text, name)
        return call(name, given) if isinstance(given, Mapping) and "call" not in given else given

    backend = ScriptedBackend(reply, seconds=options.pop("reply_seconds", 0.0))
    return Vlm(backend, **options), backend


def guided(vlm: Vlm | None, base: CaseBase | None = None, **options: Any) -> Predictor:
    """A predictor on :func:`pictured`."""
    return Predictor(
        base or pictured(), LIBRARY, embedder=VectorEmbedder(), vlm=vlm, **({"domain_level": 0, "log": False} | options)
    )
