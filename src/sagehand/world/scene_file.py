"""Scenes as data: which objects, where or in what relation to each other; of one's own in YAML, and those that ship."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagehand.errors import InputError, UnknownName
from sagehand.world.data_file import check_format, is_number, is_yaml_name, read_yaml_file

__all__ = ["CAMERA_FIELDS", "OBJECT_FIELDS", "SCENES", "SCENE_FIELDS", "parse_scene", "read_scene"]

RELATIONS = ("beside", "behind", "on_top_of")
SCENE_FIELDS = {
    "format": "version of the form of the file",
    "title": "what it shows, in a line",
    "camera": "the camera",
    "objects": "what stands on the table; what is to be taken first first",
}
OBJECT_FIELDS = {
    "object": "its name, object/instance, or the path of an object's file, from the scene's folder",
    "name": "what it is called in the scene; by default as the object",
    "at_m": "[x, y] on the table [m]; drawn where it is not given",
    "yaw_deg": "turn about the vertical [°]; drawn where it is not given",
    "filled": "how far a vessel is filled with water, 0 to 1 of its height",
    "beside": "stands beside this one of the scene, at gap_m",
    "behind": "stands behind this one, seen from the camera, at gap_m",
    "on_top_of": "stands on this one",
    "gap_m": "gap between the footprints [m], or [from, to] to draw from",
}
CAMERA_FIELDS = {
    "eye_m": "where it is [m]",
    "look_at_m": "what is in the middle of its picture [m]",
    "fovy_deg": "full vertical field of view [°]",
    "size_px": "columns and rows [px]",
}
_COUNTS = {"eye_m": 3, "look_at_m": 3, "fovy_deg": 1, "size_px": 2}

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
        "title": "a box with a cube on it, which rides along or falls when the box is taken first (GRASPING §8)",
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

    Objects' files that it names by a relative path are looked for from its own folder.

    Raises:
        InputError: It cannot be read, or a field is missing, unknown or wrong; the message names it.
    """
    doc = read_yaml_file(path, "a scene file")
    if isinstance(doc, Mapping) and "parts" in doc and "objects" not in doc:
        return None
    scene = parse_scene(doc, str(path))
    for row in scene["objects"]:
        if _is_file(row["object"]):
            row["object"] = str(path.parent / row["object"])
    return scene


def parse_scene(doc: Any, where: str) -> dict[str, Any]:
    """A scene's document, checked and with every name filled in.

    Args:
        doc: What the file holds.
        where: Its name, for errors.

    Raises:
        InputError: A field is missing, unknown or wrong; the message names it.
    """
    if isinstance(doc, Mapping):
        check_format(doc, where)
    if not isinstance(doc, Mapping) or not isinstance(doc.get("objects"), list) or not doc["objects"]:
        raise InputError(
            f"{where}: a scene holds a list of objects", hint="as in `objects: [{object: cup, at_m: [0.5, 0]}]`"
        )
    for key in doc:
        if key not in SCENE_FIELDS:
            raise UnknownName(f"field of {where}", str(key), SCENE_FIELDS)
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(doc["objects"]):
        rows.append(_row(row, f"{where}: objects[{number}]"))
    names = [row["name"] for row in rows]
    for number, row in enumerate(rows):
        if names.count(row["name"]) > 1:
            raise InputError(f"{where}: two objects are called {row['name']!r}", hint="give each a `name` of its own")
        for relation in RELATIONS:
            if relation in row:
                _check_relation(
                    row[relation], [n for n in names if n != row["name"]], f"{where}: objects[{number}]", relation
                )
    return {"camera": _camera(doc.get("camera"), where), "objects": rows}


def _check_relation(other: Any, names: list[str], where: str, relation: str) -> None:
    if not names:
        raise InputError(
            f"{where}: {relation} is {other!r}, but the scene holds no other object",
            hint="list the other one, too, before this one or after it",
        )
    if not isinstance(other, str):
        raise InputError(
            f"{where}: {relation} is {other!r}; it must be the name of another object of the scene",
            hint=f"one of {', '.join(names)}",
        )
    if other not in names:
        raise UnknownName(f"{relation} of {where}", other, names)


def _row(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not isinstance(row.get("object"), str) or not row["object"].isprintable():
        raise InputError(f"{where}: names no object", hint="as in `{object: cup, at_m: [0.5, 0], yaw_deg: 30}`")
    for key in row:
        if key not in OBJECT_FIELDS:
            raise UnknownName(f"field of {where}", str(key), OBJECT_FIELDS)
    placed = [key for key in ("at_m", *RELATIONS) if key in row]
    if len(placed) > 1:
        raise InputError(f"{where}: {' and '.join(placed)} cannot stand together", hint="give one of them")
    done: dict[str, Any] = {**row, "name": row.get("name", _called(row["object"]))}
    if not isinstance(done["name"], str):
        raise InputError(f"{where}: name is {done['name']!r}; it must be text")
    _check_name(done["name"], where)
    if "at_m" in row:
        done["at_m"] = _numbers(row["at_m"], 2, f"{where}: at_m")
    for key in ("yaw_deg", "filled"):
        if key in row:
            (done[key],) = _numbers(row[key], 1, f"{where}: {key}")
    if not 0 <= done.get("filled", 0.0) <= 1:
        raise InputError(f"{where}: filled is {done['filled']}; it must be from 0 to 1")
    gap = row.get("gap_m", NEAR_GAP)
    if not is_number(gap) and not (isinstance(gap, list) and len(gap) == 2 and all(is_number(v) for v in gap)):
        raise InputError(f"{where}: gap_m is {gap!r}; it must be a number, or [from, to]")
    done["gap_m"] = [float(v) for v in gap] if isinstance(gap, list) else [float(gap)] * 2
    if not 0 <= done["gap_m"][0] <= done["gap_m"][1] <= 1:
        raise InputError(f"{where}: gap_m is {gap}; it must be from 0 to 1 m, or [from, to]")
    return done


def _check_name(name: str, where: str) -> None:
    from sagehand.world.scene import check_name

    try:
        check_name(name)
    except InputError as error:
        raise InputError(f"{where}: {error.message}", hint=error.hint) from error


def _called(name: str) -> str:
    """As in: cup for cup, cup-small for cup/small, jar for ~/things/jar.yaml, jar-small for ~/things/jar.yaml/small."""
    from sagehand.world.objects.load import object_and_instance

    which, instance = object_and_instance(name)
    stem = Path(which).stem if is_yaml_name(which) else which
    return stem if instance is None else f"{stem}-{instance}".replace("/", "-")


def _is_file(name: str) -> bool:
    from sagehand.world.objects.load import object_and_instance

    return is_yaml_name(object_and_instance(name)[0])


def _camera(row: Any, where: str) -> dict[str, list[float]]:
    if row is None:
        return {}
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: camera holds fields: {', '.join(CAMERA_FIELDS)}")
    done = {}
    for key, value in row.items():
        if key not in CAMERA_FIELDS:
            raise UnknownName(f"field of {where}: camera", str(key), CAMERA_FIELDS)
        done[str(key)] = _numbers(value, _COUNTS[key], f"{where}: camera.{key}")
    return done


def _numbers(value: Any, count: int, where: str) -> list[float]:
    """The numbers of a list, or of a number by itself where it is one that is asked for."""
    values = [value] if count == 1 else value
    if not isinstance(values, list) or len(values) != count or not all(is_number(v) for v in values):
        raise InputError(f"{where} is {value!r}; it must be {'a number' if count == 1 else f'{count} numbers'}")
    return [float(v) for v in values]
