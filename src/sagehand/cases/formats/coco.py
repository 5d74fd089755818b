"""COCO annotations: one JSON file with images, annotations and categories (cocodataset.org, "Data format").

A category is a device, its ``supercategory`` the family; where a tool has no supercategories, the category is called
``family/device`` or ``family/device/step``. Polygons become the outline; where there are none, the ``bbox``.
Labels that COCO does not know stand under ``sagehand`` (or ``attributes``) of an image or an annotation, with the keys of a
``metadata.jsonl``; the annotation's go before the image's, and its category goes before both. In ``attributes``, which tools
fill in as text, an empty one says nothing and a list is ``a;b``. A run-length mask is refused.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sagehand.cases.formats.labels import LISTS, agreed, listed, named
from sagehand.cases.formats.outline import (
    Points,
    area,
    bounds,
    check_range,
    corners,
    flat,
    is_number,
    one_outline,
    pairs,
    shown,
)
from sagehand.cases.formats.strict import BadRow, strict_json
from sagehand.errors import InputError

__all__ = ["FILE", "NAMES", "document", "find", "read", "refuse_spoilt"]

FILE = "annotations.json"
"""What an export is called."""

NAMES = (
    FILE,
    "_annotations.coco.json",
    "result.json",
    "instances_*.json",
    "annotations/instances_*.json",
    f"annotations/{FILE}",
)
"""Where the annotations are looked for in a folder."""

_Found = tuple[int, dict[str, Any] | BadRow, None, tuple[int, int] | None]


def find(folder: Path) -> Path | None:
    """The folder's COCO file, or None.

    Raises:
        InputError: There are several.
    """
    found = sorted({p for name in NAMES for p in folder.glob(name) if p.is_file() and b'"images"' in _bytes(p)})
    if len(found) > 1:
        names = ", ".join(p.relative_to(folder).as_posix() for p in found)
        raise InputError(f"{folder}: holds several COCO files: {names}", hint="keep the one that counts")
    return found[0] if found else None


def refuse_spoilt(folder: Path) -> None:
    """Tell what is wrong with a file that is called as COCO's are, where :func:`find` found none.

    Raises:
        InputError: There is such a file: it is no JSON, or no COCO object.
    """
    for path in sorted({p for name in NAMES for p in folder.glob(name) if p.is_file()}):
        try:
            doc = strict_json(_bytes(path).decode("utf-8-sig"))
        except (UnicodeDecodeError, BadRow) as error:
            raise InputError(f"{path}: is not valid JSON: {str(error).removeprefix('not JSON: ')}",
                             hint="save it as UTF-8 JSON") from None  # fmt: skip
        what = "has no list of images" if isinstance(doc, dict) else "holds no JSON object"
        raise InputError(f"{path}: {what}, so this is no COCO file", hint="export the annotations as COCO again")


def read(folder: Path, path: Path) -> list[_Found]:
    """Its rows, one an image, numbered from 1 as they stand in the file.

    Raises:
        InputError: The file as a whole cannot be used.
    """
    try:
        doc = strict_json(_bytes(path).decode("utf-8-sig"))
    except (UnicodeDecodeError, BadRow) as error:
        raise InputError(f"{path}: {error}", hint="save it as UTF-8 JSON") from None
    images, annotations = _objects(path, doc, "images"), _objects(path, doc, "annotations")
    categories: dict[str | None, dict[str, Any]] = {}
    for category in _objects(path, doc, "categories"):
        if _device(categories.setdefault(_id(category), category)) != _device(category):
            raise InputError(f"{path}: two categories have the id {category.get('id')!r}", hint="give each its own")
    categories.pop(None, None)
    of_image: dict[str | None, list[dict[str, Any]]] = {}
    for annotation in annotations:
        of_image.setdefault(_id(annotation, "image_id"), []).append(annotation)
    rows = list(_rows(folder, path, images, of_image, categories))
    known = {_id(image) for image in images} - {None}
    lost = [a for i, of in of_image.items() if i not in known for a in of]
    return rows + [
        (
            len(rows) + n,
            BadRow(f"annotation {a.get('id')!r} is of image {a.get('image_id')!r}, which is not there"),
            None,
            None,
        )
        for n, a in enumerate(lost, 1)
    ]


def document(entries: Iterable[tuple[Mapping[str, Any], tuple[int, int] | None]]) -> dict[str, Any]:
    """The COCO file of some rows.

    Args:
        entries: Each row, and the size of its picture (width, height), None where it cannot be told.
    """
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    categories: dict[tuple[str, str], int] = {}
    for number, (row, size) in enumerate(entries, 1):
        label = {key: value for key, value in row.items() if key not in ("file_name", "polygon")}
        image = {"id": number, "file_name": row["file_name"]}
        if size is not None:
            image |= {"width": size[0], "height": size[1]}
        images.append({**image, "sagehand": label})
        category = categories.setdefault((row["family"], row["device"]), len(categories) + 1)
        polygon = row.get("polygon")
        if polygon is not None:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": category,
                    "segmentation": [flat(polygon)],
                    "bbox": list(bounds(polygon)),
                    "area": area(polygon),
                    "iscrowd": 0,
                }
            )
    return {
        "info": {"description": "Cases of a sagehand case base"},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": n, "name": d, "supercategory": f} for (f, d), n in categories.items()],
    }


def _objects(path: Path, doc: Any, name: str) -> list[dict[str, Any]]:
    value = doc.get(name, []) if isinstance(doc, dict) else None
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError(f"{path}: {name!r} is no list of objects, so this is no COCO file")
    return value


def _rows(
    folder: Path,
    path: Path,
    images: Sequence[dict[str, Any]],
    of_image: Mapping[str | None, list[dict[str, Any]]],
    categories: Mapping[str | None, dict[str, Any]],
) -> Iterator[_Found]:
    bearers = Counter(_id(image) for image in images)
    for number, image in enumerate(images, 1):
        name, id_ = image.get("file_name"), _id(image)
        try:
            if not isinstance(name, str) or not name:
                raise BadRow("the image has no file_name")
            if id_ is not None and bearers[id_] > 1:
                raise BadRow(
                    f"{bearers[id_]} images have the id {image['id']!r}, so whose annotations they are is not told"
                )
            row = _row(image, [] if id_ is None else of_image.get(id_, []), categories)
            yield number, {"file_name": _place(folder, path, name), **row}, None, _size(image)
        except BadRow as bad:
            yield number, BadRow(str(bad), name if isinstance(name, str) else ""), None, None


def _row(
    image: Mapping[str, Any], annotations: Sequence[Mapping[str, Any]], categories: Mapping[str | None, dict[str, Any]]
) -> dict[str, Any]:
    row = _label(image) | agreed(map(_label, annotations))
    row = {key: value for key, value in row.items() if key not in ("file_name", "polygon")}
    shown: list[tuple[Any, Any]] = []
    for annotation in annotations:
        category = categories.get(_id(annotation, "category_id"))
        if category is None:
            raise BadRow(f"category {annotation.get('category_id')!r} is not among the categories")
        shown.append(_device(category))
    if any(one != shown[0] for one in shown[1:]):
        devices = sorted({f"{family}/{device}" for family, device in shown})
        raise BadRow(
            f"annotations of several devices ({', '.join(devices)}); a case shows one: keep those of the device"
        )
    if shown:
        row |= _category_label(*shown[0], alone="family" not in row)
    if not {"family", "device"} <= row.keys():
        what = (
            f"its category {shown[0][1]!r} names no family: give it a supercategory, or call it family/device"
            if shown
            else "it has no annotation and no label"
        )
        raise BadRow(what)
    outline = one_outline([piece for annotation in annotations for piece in _pieces(annotation)])
    return row if outline is None else {**row, "polygon": outline}


def _device(category: Mapping[str, Any]) -> tuple[Any, Any]:
    return category.get("supercategory"), category.get("name")


def _category_label(family: Any, device: Any, *, alone: bool) -> dict[str, Any]:
    """What a category says; ``alone`` where nothing else names a family."""
    told = {key: value for key, value in (("family", family), ("device", device)) if value not in (None, "", "none")}
    return named(device) if alone and "family" not in told and isinstance(device, str) and "/" in device else told


def _label(entry: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in ("attributes", "sagehand"):
        value = entry.get(key)
        if value is None:
            continue
        if not isinstance(value, dict):
            raise BadRow(f"{key!r} is no object of labels")
        found |= _filled_in(value) if key == "attributes" else value
    return found


def _filled_in(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's attributes: text that is not empty, lists as ``a;b``."""
    told = {key: value for key, value in attributes.items() if value != ""}
    return {k: listed(v) if k in LISTS and isinstance(v, str) else v for k, v in told.items()}


def _pieces(annotation: Mapping[str, Any]) -> list[Points]:
    segmentation, box = annotation.get("segmentation"), annotation.get("bbox")
    if isinstance(segmentation, dict):
        raise BadRow(
            "its outline is a run-length mask (RLE), which is not read: export polygons, or leave the segmentation out to "
            "use the bbox"
        )
    if segmentation:
        if not isinstance(segmentation, list):
            raise BadRow("its segmentation is no list of polygons")
        pieces = [pairs(piece) for piece in segmentation if piece != []]
        if pieces:
            return pieces
    if box is None:
        return []
    check_range("its bbox", box)
    if not isinstance(box, list) or len(box) != 4 or not all(map(is_number, box)):
        raise BadRow(f"its bbox is {shown(box)}; valid: [x, y, width, height]")
    return [corners(box[:2], [box[0] + box[2], box[1] + box[3]])]


def _size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    width, height = image.get("width"), image.get("height")
    return (width, height) if isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0 else None


def _place(folder: Path, path: Path, name: str) -> str:
    """The picture relative to the folder: as named, or in the folders that the tools put pictures in.

    Of a path of another machine, or out of the folder, the last part alone can be meant.
    """
    part = path.stem.removeprefix("instances_")
    plain = name.replace("\\", "/")
    away = plain.startswith("/") or plain[1:2] == ":" or ".." in plain.split("/")
    names = [plain.rpartition("/")[2]] if away else [name, plain]
    found = (f"{place}{one}" for one in names for place in ("", "images/", f"{part}/", f"images/{part}/"))
    return next((place for place in found if os.path.isfile(folder / place)), name)


def _id(entry: Mapping[str, Any], key: str = "id") -> str | None:
    """An id as text, for some tools write 7, some "7", and some 7.0; None where there is none."""
    value = entry.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int | str) and not isinstance(value, bool) and value != "" else None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
