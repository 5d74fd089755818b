"""``sagehand world try``: one grasp of one object, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.common import AsJson, announce, emit, table
from sagehand.cli.world_picture import RobotOption, size_of
from sagehand.errors import InputError

if TYPE_CHECKING:
    from sagehand.world.robot.description import Robot
    from sagehand.world.scene import Scene
    from sagehand.world.tries import TryResult

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command("try")(try_)


def try_(
    target: Annotated[
        str, typer.Argument(metavar="OBJECT", help="An object, object/instance or file; with --scene its name there.")
    ],
    grasp: Annotated[
        str,
        typer.Option(metavar="REGION|auto|FILE", help="A region (see `world show`), the first that suits, or *.json."),
    ] = "auto",
    scene: Annotated[
        str | None, typer.Option(metavar="SCENE", help="Where it stands (see `world scenes`); by default alone.")
    ] = None,
    executor: Annotated[
        str, typer.Option(metavar="NAME", help="analytic (statics, milliseconds) or physics (MuJoCo, half a second).")
    ] = "analytic",
    force: Annotated[
        float | None,
        typer.Option(metavar="NEWTON", help="Force of each finger [N]; by default 1.5 times what the lift requires."),
    ] = None,
    width: Annotated[
        float | None, typer.Option(metavar="MM", help="Opening before closing [mm]; by default the region's and 10.")
    ] = None,
    yaw: Annotated[float, typer.Option(metavar="DEG", help="Turns the grasp about the object's z [degrees].")] = 0.0,
    offset: Annotated[
        str, typer.Option(metavar="X,Y,Z", help="Moves the grasp in the object's frame [mm], as in 0,5,-10.")
    ] = "0,0,0",
    noise: Annotated[
        float, typer.Option(metavar="SCALE", help="Noise of the motion: 1 is 1 mm, 0.5 degrees, force 5 %.")
    ] = 0.0,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Draws pose and noise; without it the pose is the middle.")
    ] = None,
    animate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A film of it, *.gif or *.mp4 (needs a GL driver).")
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="WxH", help="Across and down, of the film [px]; by default 480x360.")
    ] = None,
    robot: RobotOption = "panda",
    faithful: Annotated[
        bool, typer.Option("--faithful", help="Judge by the paper's seven factors alone (analytic only).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Try a grasp: approach, close, lift, hold, shake.

    A failed grasp is a result: exit code 0. Printed are outcome, failure and why, the seven quality factors, what the
    robot noticed, and the time it took. The grasp in the --json output can be edited and handed back with --grasp FILE.json.
    There lengths are in m, forces in N, angles in rad, times in s, as the ends of the keys say.
    """
    from sagehand.world.noise import ExecutionNoise
    from sagehand.world.robot.description import load_robot
    from sagehand.world.tries import adjusted, chosen_grasp, executor_for, try_grasp

    shift, film, arm = _offset(offset), _film(animate, size), load_robot(robot)
    placed, name = _placed(target, scene, seed)
    shaken = ExecutionNoise(seed or 0, "try", scale=noise) if noise else None
    where = executor_for(executor, arm, faithful=faithful)
    wanted = adjusted(
        chosen_grasp(placed, name, grasp, arm, force),
        arm,
        width_m=None if width is None else width / 1000,
        yaw_rad=_radians(yaw),
        offset_m=shift,
    )
    tried = partial(try_grasp, placed, name, wanted, noise=shaken)
    if film is None:
        result = tried(where)
    elif executor == "physics":
        result = _recorded(film, tried, placed, name, arm)
    else:
        result = _drawn(film, tried(where), arm)
    doc = result.to_dict() | {"film": None if film is None else str(film.path), "seed": seed, "noise": noise}
    emit(doc, as_json, lambda: _text(doc))


def _placed(target: str, scene: str | None, seed: int | None) -> tuple[Scene, str]:
    """Where the object stands, alone or in a scene, and its name there; named wrongly it is told before anything is done."""
    from sagehand.world.scenes import load_scene, single

    placed = single(target, seed) if scene is None else load_scene(scene, seed)
    name = placed.objects[0].name if scene is None else target
    placed[name]
    return placed, name


@dataclass(frozen=True)
class _Film:
    path: Path
    size: tuple[int, int]


def _film(path: Path | None, size: str | None) -> _Film | None:
    """The film that is asked for, if one is."""
    if path is None:
        if size is not None:
            raise InputError("--size is the film's, and none is asked for", hint="add --animate FILE, or leave it out")
        return None
    from sagehand.world.animate import check_suffix

    pixels = size_of(size or "480x360")
    check_suffix(path)
    return _Film(path, pixels)


def _recorded(film: _Film, tried: Callable[..., TryResult], scene: Scene, name: str, robot: Robot) -> TryResult:
    """A try in the physics, filmed as they run; what the drawing takes is not the try's time."""
    from sagehand.world.animate import Recorder
    from sagehand.world.tries import executor_for

    drawn_s = 0.0
    with Recorder(scene, robot, name, film.size) as recorder:

        def watch(data: Any, model: Any, t: float) -> None:
            nonlocal drawn_s
            begun = time.perf_counter()
            recorder(data, model, t)
            drawn_s += time.perf_counter() - begun

        result = tried(executor_for("physics", robot, watch=watch), clock=lambda: time.perf_counter() - drawn_s)
        frames = recorder.finish(result)
    _write(film, frames)
    return result


def _drawn(film: _Film, result: TryResult, robot: Robot) -> TryResult:
    """A try without physics, and the way of the hand drawn afterwards."""
    from sagehand.world.animate import film_path

    _write(film, film_path(result, robot, film.size))
    return result


def _write(film: _Film, frames: list[Any]) -> None:
    from sagehand.world.animate import animate

    animate(film.path, frames, 20)
    announce(f"wrote {film.path}, {len(frames) / 20:.1f} s")


def _offset(text: str) -> tuple[float, float, float]:
    import math

    try:
        x, y, z = (float(part) / 1000 for part in text.split(","))
    except ValueError:
        raise InputError(f"--offset is {text!r}", hint="write three numbers in mm, as in 0,5,-10") from None
    if not all(math.isfinite(v) and abs(v) <= 1 for v in (x, y, z)):
        raise InputError(f"--offset is {text!r}", hint="each from -1000 to 1000 mm")
    return x, y, z


def _radians(degrees: float) -> float:
    import math

    if not math.isfinite(degrees):
        raise InputError(f"--yaw is {degrees}", hint="write degrees, as in 30")
    return math.radians(degrees)


def _text(doc: dict[str, Any]) -> str:
    grasp, seen = doc["grasp"], doc["observation"]
    outcome = "success" if doc["success"] else f"failure: {doc['failure']}"
    if doc["terminal"]:
        outcome += f" ({doc['terminal']})"
    lines = [f"{doc['target']}, {grasp['region'] or 'a grasp of your own'}, {doc['executor']}: {outcome}"]
    if doc["why"]:
        lines.append(doc["why"])
    required = "unknown" if doc["required_n"] is None else f"{doc['required_n']:.1f} N"
    rows = [
        ["force", f"{grasp['force_n']:.1f} N commanded", f"{required} required, {doc['safe_n']:g} N safe"],
        [
            "opening",
            f"{1000 * grasp['width_m']:.0f} mm commanded",
            f"{1000 * (seen['finger_width_m'] or 0):.1f} mm closed",
        ],
        [
            "moved in the hand",
            f"{1000 * (doc['slip_m'] or 0):.1f} mm",
            f"{57.29578 * (doc['turn_rad'] or 0):.1f} degrees",
        ],
        ["robot's clock", f"{seen['clock_s'] or 0:.1f} s", f"{doc['run_s']:.3f} s to work out"],
    ]
    if doc["neighbours_m"]:
        moved = ", ".join(f"{name} {1000 * m:.0f} mm" for name, m in doc["neighbours_m"].items())
        rows.append(["pushed", moved])
    lines += ["", "\n".join(table(rows, ["", "", ""]).split("\n")[1:])]
    if doc["quality"]:
        lines += ["", "quality  " + "  ".join(f"{k} {v:.2f}" for k, v in doc["quality"].items())]
    noticed = [k for k in ("reached", "touched", "contact", "lifted_in_view", "held_in_view") if seen[k]]
    lines.append("noticed  " + (", ".join(n.replace("_", " ") for n in noticed) or "nothing"))
    if doc["film"]:
        lines.append(f"film     {doc['film']}")
    return "\n".join(lines)
