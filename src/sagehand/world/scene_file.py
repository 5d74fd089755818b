"""Scenes as data: which objects, where or in what relation to each other; of one's own in YAML, and those that ship."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagehand.errors import InputError, UnknownName

__all__ = ["OBJECT_FIELDS", "SCENES", "parse_scene", "read_scene"]

RELATIONS = ("beside", "behind", "on_top_of")
OBJECT_FIELDS = {
    "object": "its name, or object/instance",
    "name": "what it is called in the scene; by default as the object",
    "at": "[x, y] on the table [m]; drawn where it is not given",
    "yaw_deg": "turn about the vertical [°]; drawn where it is not given",
    "filled": "how far a vessel is filled with water, 0 to 1 of its height",
    "beside": "stands beside this one of the scene, at gap_m",
    "behind": "stands behind this one, seen from the camera, at gap_m",
    "on_top_of": "stands on this one",
    "gap_m": "gap between the footprints [m], or [from, to] to draw from",
}
CAMERA_FIELDS = {"eye": 3, "look_at": 3, "fovy_deg": 1, "size": 2}

NEAR_GAP = [0.05, 0.10]
"""What stands beside another is no farther than what counts as adjacent [m] (GRASPING §4), and no hand's breadth nearer."""

SCENES: dict[str, dict[str, Any]] = {
    "cup-near-vase": {
        "title": "a cup beside a fragile vase (paper B §V-A, interactive a)",
        "objects": [{"object": "cup"}, {"object": "vase", "beside": "cup", "gap_m": NEAR_GAP}],
    },
    "ball-behind-box": {
        "title": "a ball that a box hides from the camera (interactive b)",
        "objects": [{"object": "ball", "behind": "box", "gap_m": NEAR_GAP}, {"object": "box"}],
    },
    "phone-near-wine-glass": {
        "title": "a phone beside a wine glass (interactive c)",
        "objects": [{"object": "phone"}, {"object": "wine-glass", "beside": "phone", "gap_m": NEAR_GAP}],
    },
    "screwdriver": {
        "title": "a screwdriver that lies (interactive d)",
        "objects": [{"object": "screwdriver"}],
    },
    "clear-table": {
        "title": "cup, apple and cube, to be cleared one after the other (long-horizon a)",
        "objects": [{"object": "cup"}, {"object": "apple"}, {"object": "cube"}],
    },
    "sort-three": {
        "title": "wine glass, banana and cube, to be sorted by fragility (long-horizon b; the paper does not name the three)",
        "objects": [{"object": "wine-glass"}, {"object": "banana"}, {"object": "cube"}],
    },
    "filled-cup": {
        "title": "a cup filled with water to 60 % (GRASPING §8)",
        "objects": [{"object": "cup", "filled": 0.6}],
    },
    "box-under-cube": {
        "title": "a box with a cube on it, which falls when the box is taken first (GRASPING §8)",
        "objects": [{"object": "box"}, {"object": "cube", "on_top_of": "box"}],
    },
    "clear-two-cups": {
        "title": "two cups and an apple: a category twice (GRASPING §8)",
        "objects": [{"object": "cup"}, {"object": "cup", "name": "cup2"}, {"object": "apple"}],
    },
}
"""The scenes that ship, in the form of a scene file; the first object is what is to be taken first."""


def read_scene(path: Path) -> dict[str, Any] | None:
    """A scene file (YAML), checked; None if it holds the description of one object instead.

    Raises:
        InputError: It cannot be read, or a field is missing, unknown or wrong; the message names it.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {why}", hint="name a scene file, *.yaml") from error
    try:
        doc = yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        raise InputError(f"{path}{line}: this is no YAML: {getattr(error, 'problem', error)}") from error
    if isinstance(doc, Mapping) and "parts" in doc and "objects" not in doc:
        return None
    return parse_scene(doc, str(path))


def parse_scene(doc: Any, where: str) -> dict[str, Any]:
    """A scene's document, checked and with every name filled in.

    Args:
        doc: What the file holds.
        where: Its name, for errors.

    Raises:
        InputError: A field is missing, unknown or wrong; the message names it.
    """
    if not isinstance(doc, Mapping) or not isinstance(doc.get("objects"), list) or not doc["objects"]:
        raise InputError(
            f"{where}: a scene holds a list of objects", hint="as in `objects: [{object: cup, at: [0.5, 0]}]`"
        )
    for key in doc:
        if key not in ("title", "camera", "objects"):
            raise UnknownName(f"field of {where}", str(key), ["title", "camera", "objects"])
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(doc["objects"]):
        rows.append(_row(row, f"{where}: objects[{number}]"))
    names = [row["name"] for row in rows]
    for number, row in enumerate(rows):
        if names.count(row["name"]) > 1:
            raise InputError(f"{where}: two objects are called {row['name']!r}", hint="give each a `name` of its own")
        for relation in RELATIONS:
            other = row.get(relation)
            if other is not None and (other not in names or other == row["name"]):
                raise UnknownName(
                    f"{relation} of {where}: objects[{number}]", str(other), [n for n in names if n != row["name"]]
                )
    return {"camera": _camera(doc.get("camera"), where), "objects": rows}


def _row(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not isinstance(row.get("object"), str):
        raise InputError(f"{where}: names no object", hint="as in `{object: cup, at: [0.5, 0], yaw_deg: 30}`")
    for key in row:
        if key not in OBJECT_FIELDS:
            raise UnknownName(f"field of {where}", str(key), OBJECT_FIELDS)
    placed = [key for key in ("at", *RELATIONS) if key in row]
    if len(placed) > 1:
        raise InputError(f"{where}: {' and '.join(placed)} cannot stand together", hint="give one of them")
    done: dict[str, Any] = {**row, "name": str(row.get("name", _called(row["object"])))}
    if "at" in row:
        done["at"] = _numbers(row["at"], 2, f"{where}: at")
    for key in ("yaw_deg", "filled"):
        if key in row:
            (done[key],) = _numbers([row[key]], 1, f"{where}: {key}")
    if not 0 <= done.get("filled", 0.0) <= 1:
        raise InputError(f"{where}: filled is {done['filled']}; it must be from 0 to 1")
    gap = row.get("gap_m", NEAR_GAP)
    done["gap_m"] = _numbers(gap if isinstance(gap, list) else [gap, gap], 2, f"{where}: gap_m")
    if not 0 <= done["gap_m"][0] <= done["gap_m"][1] <= 1:
        raise InputError(f"{where}: gap_m is {gap}; it must be from 0 to 1 m, or [from, to]")
    return done


def _called(name: str) -> str:
    """As in: cup for cup, cup-small for cup/small, jar for ~/things/jar.yaml."""
    return Path(name).stem if name.lower().endswith((".yaml", ".yml")) else name.replace("/", "-")


def _camera(row: Any, where: str) -> dict[str, list[float]]:
    if row is None:
        return {}
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: camera holds fields: {', '.join(CAMERA_FIELDS)}")
    done = {}
    for key, value in row.items():
        if key not in CAMERA_FIELDS:
            raise UnknownName(f"field of {where}: camera", str(key), CAMERA_FIELDS)
        done[str(key)] = _numbers(
            value if isinstance(value, list) else [value], CAMERA_FIELDS[key], f"{where}: camera.{key}"
        )
    return done


def _numbers(values: Any, count: int, where: str) -> list[float]:
    import math

    right = isinstance(values, list) and len(values) == count
    if not right or any(isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v) for v in values):
        shown = values[0] if count == 1 and isinstance(values, list) and values else values
        raise InputError(f"{where} is {shown!r}; it must be {'a number' if count == 1 else f'{count} numbers'}")
    return [float(v) for v in values]
