"""LabelMe annotations: one JSON file beside each picture, as the tool of that name writes it.

A shape's label names the device: ``family/device`` or ``family/device/step``. Polygons and rectangles become the outline;
points and lines are left alone. A flag that is set and reads ``key=value`` is a field of the label, as in
``next_action=unscrew`` (lists with ``;``); ``is_last`` and ``end_state`` stand for themselves, other flags are kept by name.
Everything else travels under ``sagehand``, which LabelMe keeps; a label that was changed in the tool goes before it.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from sagehand.cases.formats.labels import LISTS, agreed, listed, named
from sagehand.cases.formats.outline import Points, corners, one_outline, polygon
from sagehand.cases.formats.strict import BadRow, strict_json

__all__ = ["document", "find", "read"]

_VERSION = "5.5.0"
_MARKS = ("point", "points", "line", "linestrip")  # they mark something on the device, and are no outline of it
_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
_Found = tuple[int, dict[str, Any] | BadRow, None, tuple[int, int] | None]


def find(folder: Path) -> list[Path]:
    """The LabelMe files in a folder and below it, in order; with them those that lie in the place of one, but are spoilt."""
    found = []
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(top, name) for name in files if name.endswith(".json") and not name.startswith(".")]
    return [path for path in sorted(found) if _is_labelme(path) or _is_spoilt(path)]


def read(folder: Path, files: Sequence[Path]) -> Iterator[_Found]:
    """Their rows, one a file, numbered from 1."""
    for number, path in enumerate(files, 1):
        name = path.relative_to(folder).as_posix()
        try:
            doc = strict_json(path.read_bytes().decode("utf-8-sig"))
            if not isinstance(doc, dict) or not isinstance(doc.get("shapes"), list):
                raise BadRow("is no LabelMe file: it has no list of shapes")
            picture = _picture(folder, path, doc.get("imagePath"))
            name = picture
            yield number, {"file_name": picture, **_row(doc)}, None, _size(doc)
        except OSError as error:
            yield number, BadRow(f"cannot be read: {error.strerror or error}", name), None, None
        except UnicodeDecodeError:
            yield number, BadRow("not UTF-8 text", name), None, None
        except BadRow as bad:
            yield number, BadRow(str(bad), name), None, None


def document(row: Mapping[str, Any], size: tuple[int, int] | None) -> dict[str, Any]:
    """The LabelMe file of one row.

    Args:
        row: The row; its file lies beside the JSON file.
        size: Width and height of the picture; None where they cannot be told.
    """
    outline = row.get("polygon")
    shape: dict[str, Any] = {
        "label": _label_of(row),
        "points": outline,
        "group_id": None,
        "description": "",
        "shape_type": "polygon",
        "flags": {},
    }
    return {
        "version": _VERSION,
        "flags": {},
        "shapes": [] if outline is None else [shape],
        "imagePath": PurePosixPath(row["file_name"]).name,
        "imageData": None,
        "imageHeight": None if size is None else size[1],
        "imageWidth": None if size is None else size[0],
        "sagehand": {key: value for key, value in row.items() if key not in ("file_name", "polygon")},
    }


def _is_labelme(path: Path) -> bool:
    try:
        return b'"shapes"' in path.read_bytes()
    except OSError:
        return False


def _is_spoilt(path: Path) -> bool:
    """Whether it lies beside a picture of its name, as LabelMe's do, and holds no JSON object: it is a row that failed."""
    if not any(path.with_suffix(suffix).is_file() for end in _PICTURES for suffix in (end, end.upper())):
        return False
    try:
        return not isinstance(strict_json(path.read_bytes().decode("utf-8-sig")), dict)
    except (OSError, UnicodeDecodeError, BadRow):
        return True


def _picture(folder: Path, path: Path, named: object) -> str:
    """The picture relative to the folder; one of that name beside the file where the path is another machine's."""
    if not isinstance(named, str) or not named:
        raise BadRow("has no imagePath")
    beside = path.parent.relative_to(folder).as_posix()
    plain = named.replace("\\", "/") if not os.path.exists(path.parent / named) else named
    place = posixpath.normpath(posixpath.join(beside, plain))
    if place.startswith(("../", "/")) or not os.path.isfile(folder / place):
        near = posixpath.normpath(posixpath.join(beside, posixpath.basename(plain)))
        if os.path.isfile(folder / near):
            return near
    return place


def _row(doc: Mapping[str, Any]) -> dict[str, Any]:
    stored = doc.get("sagehand") or {}
    if not isinstance(stored, dict):
        raise BadRow("'sagehand' is no object of labels")
    row = {key: value for key, value in stored.items() if key not in ("file_name", "polygon")}
    row |= _flagged(doc.get("flags"))
    labels, pieces, flagged = [], [], []
    for shape in doc["shapes"]:
        if not isinstance(shape, dict):
            raise BadRow("a shape is no object")
        outline = _outline(shape)
        if outline is not None:
            pieces.append(outline)
            labels.append(shape.get("label"))
            flagged.append(_flagged(shape.get("flags")))
    row |= agreed(flagged)
    different = sorted({str(label) for label in labels})
    if len(different) > 1:
        raise BadRow(
            f"shapes of several labels ({', '.join(different)}); a case shows one device: keep those of the device"
        )
    if labels and labels[0] != _label_of(stored):
        row |= named(labels[0])
    if not {"family", "device"} <= row.keys():
        what = (
            f"label {labels[0]!r} names no family: write family/device" if labels else "it has no outline and no label"
        )
        raise BadRow(what)
    outline = one_outline(pieces)
    return row if outline is None else {**row, "polygon": outline}


def _label_of(row: Mapping[str, Any]) -> str:
    parts = [row.get("family"), row.get("device"), row.get("step")]
    return "/".join(str(part) for part in parts if part is not None)


def _flagged(flags: object) -> dict[str, Any]:
    """Labels from the flags that are set; one that is not set says nothing."""
    if flags is None:
        return {}
    if not isinstance(flags, dict):
        raise BadRow("'flags' is no object")
    row: dict[str, Any] = {}
    others = []
    for name, on in flags.items():
        key, equals, value = name.partition("=")
        if on is not True:
            continue
        if equals and key.strip() in LISTS:
            row[key.strip()] = listed(value)
        elif equals and key.strip():
            row[key.strip()] = value.strip()
        elif name in ("is_last", "end_state"):
            row[name] = True
        else:
            others.append(name)
    return {**row, "flags": others} if others else row


def _outline(shape: Mapping[str, Any]) -> Points | None:
    kind, points = shape.get("shape_type") or "polygon", shape.get("points")
    if kind in _MARKS:
        return None
    if kind not in ("polygon", "rectangle"):
        raise BadRow(f"a shape is a {kind}, which is not read: draw a polygon or a rectangle")
    if kind == "rectangle" and isinstance(points, list) and len(points) == 2:
        return corners(points[0], points[1])
    return polygon(points)


def _size(doc: Mapping[str, Any]) -> tuple[int, int] | None:
    width, height = doc.get("imageWidth"), doc.get("imageHeight")
    return (width, height) if isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0 else None
