"""Named scenes, one's own from YAML, and single objects: drawn from a seed, in reach, without overlaps (GRASPING §3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sagehand.errors import InputError, UnknownName
from sagehand.world.data_file import is_yaml_name
from sagehand.world.footprints import footprint, footprint_gap
from sagehand.world.frames import Pose, axis_rotation, translation
from sagehand.world.noise import stream
from sagehand.world.scene import CAMERA, TABLE, Camera, Placed, Scene
from sagehand.world.scene_file import SCENES, parse_scene, read_scene

if TYPE_CHECKING:
    from sagehand.world.objects.model import ObjectModel

__all__ = ["REACH_X_M", "REACH_Y_M", "load_scene", "scene_names", "scene_objects", "scene_title", "single"]

REACH_X_M = (0.38, 0.62)
"""From and to, away from the robot, where objects are drawn [m]: the Panda reaches all of it from above and from the side."""
REACH_Y_M = (-0.25, 0.25)
"""And to its right and left [m]."""
APART_M = 0.06
"""Objects that are drawn and in no relation stand so far apart [m]: a finger and a little more go between."""
_TRIES = 60
_LAYOUTS = 20


def scene_names() -> list[str]:
    """The scenes that ship."""
    return list(SCENES)


def scene_objects(name: str) -> list[str]:
    """What stands in a scene that ships, what is to be taken first first.

    Raises:
        UnknownName: There is none of this name.
    """
    if name not in SCENES:
        raise UnknownName("scene", name, SCENES)
    return [row["name"] for row in parse_scene(SCENES[name], name)["objects"]]


def scene_title(name: str) -> str:
    """What a scene that ships shows, in a line.

    Raises:
        UnknownName: There is none of this name.
    """
    if name not in SCENES:
        raise UnknownName("scene", name, SCENES)
    return str(SCENES[name]["title"])


def single(name: str, seed: int | None = None) -> Scene:
    """One object alone: in the middle of the table, or at a pose drawn from a seed.

    Raises:
        UnknownName: There is no object of this name.
    """
    return _build(parse_scene({"objects": [{"object": name}]}, name), seed)


def load_scene(name: str, seed: int | None = None) -> Scene:
    """A scene: one that ships, an object by itself, or a scene file of one's own (YAML).

    Args:
        name: Of a scene, an object or object/instance, or the path of a file of either kind, ``*.yaml``; ``my.yaml/small`` is
            an instance of an object's file.
        seed: Draws the poses that are not given; without one the first object stands in the middle of the table.

    Raises:
        UnknownName: There is no such scene, nor object.
        InputError: The file cannot be used, or there is no room for all objects; the message names the field.
    """
    if name in SCENES:
        return _build(parse_scene(SCENES[name], name), seed)
    if is_yaml_name(name):
        doc = read_scene(Path(name))
        return single(name, seed) if doc is None else _build(doc, seed, name)
    from sagehand.world.objects.load import object_and_instance, object_names

    if is_yaml_name(object_and_instance(name)[0]):
        return single(name, seed)
    # names of objects are taken with any case, and with blanks or underscores
    if name.split("/")[0].strip().lower().replace("_", "-").replace(" ", "-") not in object_names():
        raise UnknownName(
            "scene or object", name, [*SCENES, *object_names()], hint="or give the path of a scene file, *.yaml"
        )
    return single(name, seed)


def _build(doc: Mapping[str, Any], seed: int | None, where: str = "the scene") -> Scene:
    from sagehand.world.objects.load import resolve

    models = {row["name"]: resolve(row["object"]) for row in doc["objects"]}
    camera = _camera(doc["camera"])
    rows = _in_order(doc["objects"], where)
    for layout in range(_LAYOUTS):
        placed: dict[str, Placed] = {}
        below = {row["name"]: row["on_top_of"] for row in rows if "on_top_of" in row}
        for row in rows:
            # a stream of its own for each object: one more in the scene moves none of the others
            rng = stream(seed or 0, "scene", row["name"], layout)
            T = _place(row, models[row["name"]], placed, below, camera, rng, seed is None and not placed)
            if T is None:
                stuck = row["name"]
                break
            placed[row["name"]] = Placed(row["name"], models[row["name"]], T, row.get("filled", 0.0))
        else:
            return Scene(tuple(placed[row["name"]] for row in doc["objects"]), TABLE, camera)
    raise InputError(
        f"{where}: no room was found for {stuck!r} in {_LAYOUTS} layouts", hint="use fewer objects, or give it `at_m`"
    )


def _in_order(rows: Sequence[Mapping[str, Any]], where: str) -> list[Mapping[str, Any]]:
    """Those first whose place is given; then those that hang on no other; then the rest, each after what it hangs on."""
    left = sorted(rows, key=lambda row: "at_m" not in row)
    done: list[Mapping[str, Any]] = []
    while left:
        ready = [r for r in left if _anchor(r) is None or _anchor(r) in {d["name"] for d in done}]
        if not ready:
            names = ", ".join(r["name"] for r in left)
            raise InputError(f"{where}: {names} hang on each other in a circle", hint="give one of them `at_m`")
        done.append(ready[0])
        left.remove(ready[0])
    return done


def _anchor(row: Mapping[str, Any]) -> str | None:
    return row.get("beside") or row.get("behind") or row.get("on_top_of")


def _place(
    row: Mapping[str, Any],
    model: ObjectModel,
    placed: Mapping[str, Placed],
    below: Mapping[str, str],
    camera: Camera,
    rng: np.random.Generator,
    middle: bool,
) -> Pose | None:
    """A pose that is free, or None where none was found."""
    # behind another only gap and turn are drawn: what does not fit soon needs another layout
    for _ in range(_TRIES // 6 if "behind" in row else _TRIES):
        yaw = float(rng.uniform(-math.pi, math.pi))  # drawn always, so that what is given moves no other draw
        x, y = float(rng.uniform(*REACH_X_M)), float(rng.uniform(*REACH_Y_M))
        bearing, gap = float(rng.uniform(-math.pi, math.pi)), float(rng.uniform(*row["gap_m"]))
        if middle:
            x, y, yaw = 0.5, 0.0, 0.0
        if "yaw_deg" in row:
            yaw = math.radians(row["yaw_deg"])
        turn = axis_rotation("z", yaw)
        if "at_m" in row:
            return _fixed(row, model, translation(*row["at_m"]) @ turn, placed)
        if "on_top_of" in row:
            T = _on(row, placed, below, turn)
            if _clear(model, T, placed):
                return T
            continue
        anchor = _anchor(row)
        if anchor is None:
            T = translation(x, y) @ turn
        else:
            if "behind" in row:
                away = np.array(camera.look_at_m[:2]) - np.array(camera.eye_m[:2])
                bearing = math.atan2(away[1], away[0])
            T = _at_gap(model, turn, placed[anchor], bearing, gap)
        if _free(model, T, placed, anchor):
            return T
    return None


def _fixed(row: Mapping[str, Any], model: ObjectModel, T: Pose, placed: Mapping[str, Placed]) -> Pose:
    if not TABLE.holds(*row["at_m"]):
        raise InputError(
            f"{row['name']!r} is at {row['at_m']}, which is not on the table",
            hint=f"x from {TABLE.x_m[0]} to {TABLE.x_m[1]}, y from {TABLE.y_m[0]} to {TABLE.y_m[1]} m",
        )
    mine = footprint(model, T)
    for other in placed.values():
        if footprint_gap(mine, footprint(other.model, other.T_world_object)) <= 0:
            raise InputError(f"{row['name']!r} stands in {other.name!r}", hint="move one of them, or use `on_top_of`")
    return T


def _on(row: Mapping[str, Any], placed: Mapping[str, Placed], below: Mapping[str, str], turn: Pose) -> Pose:
    base = placed[row["on_top_of"]]
    for name in placed:
        if below.get(name) == base.name:
            raise InputError(f"{row['name']!r} cannot stand on {base.name!r}: {name!r} stands there already")
    T = base.T_world_object.copy()
    T[:3, :3] = turn[:3, :3]
    T[2, 3] = _top(base)
    return T


def _clear(model: ObjectModel, T: Pose, placed: Mapping[str, Placed]) -> bool:
    """Whether it stands in none of those that reach as high as it."""
    mine, foot = footprint(model, T), float(T[2, 3])
    return not any(
        other.T_world_object[2, 3] < foot + model.bounds_m[1][2] - 1e-6
        and _top(other) > foot + 1e-6
        and footprint_gap(mine, footprint(other.model, other.T_world_object)) <= 0
        for other in placed.values()
    )


def _top(placed: Placed) -> float:
    return float(placed.T_world_object[2, 3] + placed.model.bounds_m[1][2])


def _at_gap(model: ObjectModel, turn: Pose, other: Placed, bearing: float, gap: float) -> Pose:
    """Moved outwards along a bearing until the gap between the footprints is as asked."""
    theirs = footprint(other.model, other.T_world_object)
    origin = other.T_world_object[:2, 3]

    def at(distance: float) -> Pose:
        return translation(origin[0] + distance * math.cos(bearing), origin[1] + distance * math.sin(bearing)) @ turn

    near, far = 0.0, 1.5
    for _ in range(23):  # to a micrometre
        half = (near + far) / 2
        near, far = (half, far) if footprint_gap(footprint(model, at(half)), theirs) < gap else (near, half)
    return at(far)


def _free(model: ObjectModel, T: Pose, placed: Mapping[str, Placed], anchor: str | None) -> bool:
    x, y = float(T[0, 3]), float(T[1, 3])
    slack = 0.05 if anchor else 0.0  # a neighbour may stand a little outside of where targets do
    if not (REACH_X_M[0] - slack <= x <= REACH_X_M[1] + slack and REACH_Y_M[0] - slack <= y <= REACH_Y_M[1] + slack):
        return False
    mine = footprint(model, T)
    if not all(TABLE.holds(*corner) for corner in mine):
        return False
    return all(
        footprint_gap(mine, footprint(other.model, other.T_world_object)) >= APART_M
        for other in placed.values()
        if other.name != anchor
    )


def _camera(row: Mapping[str, Sequence[float]]) -> Camera:
    changes: dict[str, Any] = {}
    for key, values in row.items():
        if key == "size_px":
            width, height = values
            if not all(16 <= v <= 4096 and v == int(v) for v in values):
                raise InputError(
                    f"camera.size_px is {width:g}x{height:g}; each side must be a whole number from 16 to 4096"
                )
            changes |= {"width": int(width), "height": int(height)}
        elif key == "fovy_deg":
            if not 1 <= values[0] <= 150:
                raise InputError(f"camera.fovy_deg is {values[0]}; it must be from 1 to 150")
            changes["fovy_deg"] = values[0]
        else:
            changes[key] = tuple(values)
    return replace(CAMERA, **changes)
