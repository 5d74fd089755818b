"""The disagreements in which the analytic executor was surest, and pictures of them."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sagehand.errors import InputError, MissingExtra, SettingsError
from sagehand.files import write_whole
from sagehand.world.agree.measure import Pair
from sagehand.world.agree.sample import Load, Sample
from sagehand.world.robot.description import Robot

__all__ = ["WORST", "caption", "draw_worst", "told", "worst_pairs"]

WORST = 12
"""So many are told of."""
_AN_OBJECT = 2  # at most so many of one object


def worst_pairs(pairs: Sequence[Pair], limit: int) -> list[Pair]:
    """Disagreements, those first in which Q spoke loudest for the analytic verdict; two of an object at most.

    How loud is Q where the analytic executor foresaw success, and 1 − Q where it foresaw failure; both kinds take turns.
    """
    sure = [(p, q if p.analytic.success else 1 - q) for p in pairs if not p.agree for q in [p.analytic.total or 0.0]]
    sides: list[list[Pair]] = []
    for held in (True, False):
        those = [(p, loud) for p, loud in sure if p.analytic.success is held]
        sides.append([p for p, _ in sorted(those, key=lambda row: (-row[1], row[0].analytic.number))])
    seen: Counter[str] = Counter()
    found: list[Pair] = []
    while any(sides) and len(found) < limit:
        for side in sides:
            while side:
                pair = side.pop(0)
                if seen[pair.object] < _AN_OBJECT:
                    seen[pair.object] += 1
                    found.append(pair)
                    break
    return found[:limit]


def caption(pair: Pair) -> str:
    """What was tried, what the analytic executor said and what the physics did, in a few lines."""
    s, a, p = pair.sample, pair.analytic, pair.physics
    c = s["command"]
    q = "" if a.total is None else f", Q {a.total:.2f}"
    region = f" at its {c['region']}" if c.get("region") else ""
    return "\n".join(
        [
            f"grasp {s['number']}: {s['object']}{region}, {s['kind']}{': ' + s['sub'] if s['sub'] else ''}, "
            f"{c['force_n']:.1f} N a finger, opened {c['width_m'] * 1000:.0f} mm",
            f"analytic: {a.verdict}{q}; {a.why or 'no reason given'}",
            f"physics: {p.verdict}; {p.why or 'no reason given'} (slipped {_mm(p)}, turned {_deg(p)})",
        ]
    )


def told(pair: Pair) -> dict[str, Any]:
    """A disagreement as plain data: what was tried, both verdicts and what both say of it, Q, and the caption."""
    s, a, p = pair.sample, pair.analytic, pair.physics
    return {
        "number": s["number"],
        "object": s["object"],
        "kind": s["kind"],
        "sub": s["sub"],
        "region": s["command"]["region"],
        "force_n": s["command"]["force_n"],
        "width_m": s["command"]["width_m"],
        "q": a.total,
        "analytic": a.verdict,
        "analytic_why": a.why,
        "physics": p.verdict,
        "physics_why": p.why,
        "caption": caption(pair),
    }


def draw_worst(folder: Path, pairs: Sequence[Pair], robot: Robot, load: Load) -> tuple[list[Path], str]:
    """Render the scenes of pairs with the hand where it was told to be, as ``worst/NN.png``.

    Returns:
        The pictures, and why there are none, or "".
    """
    try:
        from sagehand.world.render import SceneRenderer
    except ImportError as error:
        return [], f"no pictures: {error}"
    from sagehand.world.robot.kinematics import Kinematics

    made: list[Path] = []
    try:
        kinematics = Kinematics(robot)
        for place, pair in enumerate(pairs, 1):
            sample = Sample.from_dict(pair.sample, load)
            q = kinematics.inverse(sample.command.T_world_grasp).q
            path = folder / "worst" / f"{place:02d}.png"
            with SceneRenderer(_close_up(sample), robot) as renderer:
                frame = renderer.frame(q=q, width=sample.command.width_m)
            write_whole(path, _png(frame.rgb))
            made.append(path)
    except (MissingExtra, SettingsError, InputError) as error:
        return made, f"no pictures{' of the others' if made else ''}: {error}"
    return made, ""


def _close_up(sample: Sample) -> Any:
    """The scene with the camera near the target."""
    from dataclasses import replace

    from sagehand.world.scene import Camera

    target = sample.scene["target"]
    x, y, z = (float(v) for v in target.T_world_object[:3, 3])
    middle = z + float(target.model.size_m[2]) / 2
    far = 1.0 + float(target.model.size_m.max())
    eye = (x + 0.45 * far, y - 0.40 * far, middle + 0.28 * far)
    camera = Camera(eye_m=eye, look_at_m=(x, y, middle + 0.05), fovy_deg=45.0)
    return replace(sample.scene, camera=camera)


def _png(rgb: Any) -> bytes:
    from PIL import Image

    target = io.BytesIO()
    Image.fromarray(rgb).save(target, "PNG", optimize=True)
    return target.getvalue()


def _mm(pair: Any) -> str:
    slip = pair.truth.get("slip_m")
    return f"{slip * 1000:.0f} mm" if isinstance(slip, int | float) else "?"


def _deg(pair: Any) -> str:
    turn = pair.truth.get("turn_rad")
    return f"{turn * 57.29578:.0f}°" if isinstance(turn, int | float) else "?"
