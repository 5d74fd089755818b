"""Hand-made outcomes and pairs, for tests of the agreement study."""

from __future__ import annotations

from typing import Any

from sagehand.world.agree.outcome import Outcome
from sagehand.world.agree.store import Entry
from sagehand.world.failures import Failure
from sagehand.world.quality import WEIGHTS, Quality


def outcome(
    number: int,
    executor: str,
    success: bool,
    failure: Failure | None = None,
    *,
    q: float | None = None,
    seconds: float = 0.01,
    error: str | None = None,
    margin: float | None = None,
) -> Outcome:
    """An outcome with every factor at ``q``."""
    quality = None if q is None else Quality(**dict.fromkeys(WEIGHTS, q)).to_dict()
    why = "" if success else f"because of {failure}"
    seen = {"reached": failure is not Failure.UNREACHABLE}
    truth = {"slip_m": 0.001, "turn_rad": 0.1}
    name = None if success or failure is None else str(failure)
    return Outcome(
        number, executor, success, name, None, why, quality, margin, truth, seen, seconds, seconds / 2, error
    )


def sample(number: int, object_: str = "cube", kind: str = "good", sub: str = "") -> dict[str, Any]:
    """A sample as plain data."""
    pose = {"position_m": [0.5, 0.0, 0.02], "quat_xyzw": [1.0, 0.0, 0.0, 0.0]}
    places = {"target": {"object": object_, "position_m": [0.5, 0.0, 0.0], "quat_xyzw": [0.0, 0.0, 0.0, 1.0]}}
    command = {
        "target": "target",
        **pose,
        "width_m": 0.05,
        "force_n": 8.0,
        "type": "pinch",
        "speed_scale": 1.0,
        "pregrasp_m": 0.1,
        "region": None,
        "lift_m": 0.15,
        "lift_acceleration": 2.0,
    }
    return {
        "number": number,
        "object": object_,
        "kind": kind,
        "turn": number,
        "sub": sub,
        "places": places,
        "command": command,
        "reachable": True,
        "required_n": 1.0,
    }


def both(
    number: int,
    analytic: bool | Failure,
    physics: bool | Failure,
    *,
    q: float | None = 0.5,
    object_: str = "cube",
    kind: str = "good",
    sub: str = "",
) -> list[Entry]:
    """Two entries: True for success, or the failure."""
    doc = sample(number, object_, kind, sub)
    entries = []
    for name, said in (("analytic", analytic), ("physics", physics)):
        failure = said if isinstance(said, Failure) else None
        made = outcome(number, name, said is True, failure, q=q if name == "analytic" else None)
        entries.append(Entry(doc, made, "code"))
    return entries
