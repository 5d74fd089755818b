"""The finished folder of a rendering: metadata, actions, ``dataset.json``, sums, and a card; and whether it is the same set.

``SHA256SUMS`` lists every picture, depth image and table (``sha256sum -c SHA256SUMS`` checks the folder), and its own
SHA-256 is the folder's digest: the same that :func:`~sagehand.study.cell.dataset.folder_digest` finds by reading all files.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from sagehand.cases import NOTHING_DONE, read_table
from sagehand.errors import InputError
from sagehand.files import write_whole
from sagehand.study.cell.dataset import View
from sagehand.study.dataset.journal import NAME, Entry, Journal

__all__ = ["SUMS", "adopt", "check_same", "header_of", "missing", "sweep", "whole", "write_set"]

SUMS = "SHA256SUMS"
FORMAT = 1
_DRAFT = re.compile(r"\.[0-9a-f]{12}\.tmp")
_PACKAGES = ("sagehand", "numpy", "scipy", "pillow", "mujoco")


def header_of(views: Sequence[View], parameters: Mapping[str, Any], actions: Path) -> dict[str, Any]:
    """What decides every byte of a rendering but the GL driver: parameters, views, generator, and the renderer's version."""
    told = hashlib.sha256()
    for v in views:
        device, course = v.device.name if v.device else None, v.course.name if v.course else None
        told.update(json.dumps([v.file_name, v.place, v.seed, device, v.step, v.hand, course]).encode() + b"\n")
    return {
        "format": FORMAT,
        "parameters": dict(parameters),
        "views": told.hexdigest(),
        "actions": hashlib.sha256(actions.read_bytes()).hexdigest(),
        "generator": _generator(),
        "renderer": {name: _version(name) for name in ("mujoco", "numpy", "pillow")},
    }


def check_same(folder: Path, found: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> None:
    """Refuse to go on in a folder that was made otherwise.

    Args:
        folder: The folder.
        found: What is made in it; None reads it from its ``dataset.json``.
        wanted: What is asked for now.

    Raises:
        InputError: They differ; names in what, and the remedy.
    """
    if found is None:
        found = _read_card(folder)
    old, new = found.get("parameters", {}), wanted["parameters"]
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if names:
        told = ", ".join(f"{name} {_shown(old.get(name))}, not {_shown(new.get(name))}" for name in names)
        raise InputError(f"{folder}: was made with {told}", hint="ask for the same again, or render into a new folder")
    kinds = {"format": "format", "generator": "version of the generator", "renderer": "version", "actions": "library"}
    for name, what in kinds.items():
        if found.get(name) != wanted[name]:
            told = f"{_shown(found.get(name))}, not {_shown(wanted[name])}"
            raise InputError(f"{folder}: was made with another {what}: {told}", hint="render into a new folder")
    if found.get("views") != wanted["views"]:
        raise InputError(f"{folder}: was made of other views", hint="render into a new folder")


def whole(folder: Path, views: Sequence[View]) -> dict[str, Any] | None:
    """The card of a finished folder whose files are all there; else None."""
    if not (folder / "dataset.json").exists() or (folder / NAME).exists():
        return None
    sums = _sums(folder)
    names = [*sums, "actions.yaml", "README.md"]
    if len(sums) != 2 * len(views) + 1 or not all((folder / name).exists() for name in names):
        return None
    return _read_card(folder)


def sweep(folder: Path) -> None:
    """Take away what a killed process had half written; only while the journal is locked."""
    for path in folder.rglob(".*.tmp"):
        if _DRAFT.fullmatch(path.name):
            path.unlink(missing_ok=True)


def adopt(folder: Path, views: Sequence[View], journal: Journal) -> None:
    """Take over into a new journal what a finished folder holds, when some of its files are gone."""
    if len(journal) or not (folder / "metadata.jsonl").exists():
        return
    sums = _sums(folder)
    places = {view.file_name: place for place, view in enumerate(views)}
    for row in read_table(folder).rows:
        place = places.get(row.file_name)
        names = [str(row.values[key]) for key in ("file_name", "depth_file_name") if row.values.get(key)]
        if place is not None and all(name in sums for name in names):
            journal.add(place, Entry(row.values, {name: sums[name] for name in names}))


def missing(folder: Path, journal: Journal) -> list[int]:
    """Places in a journal whose files are not in the folder."""
    return [place for place, entry in journal.entries() if not all((folder / name).exists() for name in entry.sums)]


def write_set(
    folder: Path, header: Mapping[str, Any], entries: Iterable[tuple[int, Entry]], actions: Path, gl: str | None
) -> dict[str, Any]:
    """Write all that stands beside the pictures; ``dataset.json`` comes last, and says that the folder is whole.

    Args:
        folder: The folder.
        header: What was made.
        entries: (place, entry) of every view, in the order of the set; gone through once.
        actions: The action library to copy.
        gl: Name of the GL driver, if it told it.

    Returns:
        What ``dataset.json`` holds.
    """
    sums: dict[str, str] = {}
    devices: dict[str, dict[str, Any]] = {}
    count = 0
    table = hashlib.sha256()
    with _draft(folder / "metadata.jsonl") as file:
        for _, entry in entries:
            line = json.dumps(entry.row, ensure_ascii=False).encode() + b"\n"
            file.write(line)
            table.update(line)
            sums.update(entry.sums)
            _count(devices, entry.row)
            count += 1
    sums["metadata.jsonl"] = table.hexdigest()
    listing = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums, key=PurePosixPath)).encode()
    card = {
        **header,
        "images": count,
        "devices": devices,
        "digest": hashlib.sha256(listing).hexdigest(),
        "digest_note": f"SHA-256 of {SUMS}; labels and scenes are the same everywhere, pixels on the same GL driver",
        "gl": gl,
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
    }
    write_whole(folder / "actions.yaml", actions.read_bytes())
    write_whole(folder / SUMS, listing)
    write_whole(folder / "README.md", _readme(card).encode())
    write_whole(folder / "dataset.json", (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode())
    return card


def _count(devices: dict[str, dict[str, Any]], row: Mapping[str, Any]) -> None:
    own = devices.setdefault(str(row["device"]), {"family": row["family"], "images": 0, "steps": {}})
    own["images"] += 1
    if row.get("step") is not None:
        step = own["steps"].setdefault(
            str(row["step"]), {"state": row.get("state"), "next_action": row.get("next_action"), "images": 0}
        )
        step["images"] += 1


def _readme(card: Mapping[str, Any]) -> str:
    rows = [
        f"| {name} | {own['family']} | {len(own['steps'])} | {own['images']} |" for name, own in card["devices"].items()
    ]
    shown = rows if len(rows) <= 50 else [*rows[:50], f"| … and {len(rows) - 50} more | | | |"]
    asked = ", ".join(f"{name} {value}" for name, value in card["parameters"].items() if value is not None)
    return "\n".join(
        [
            "# Rendered devices being taken apart",
            "",
            f"{card['images']} rendered pictures with depth image (16-bit PNG, millimetres), outline and labels, made by",
            f"`sagehand study render` ({asked}).",
            "",
            "No photo is in this folder and no real device was measured: the devices are procedural, their sizes public",
            "figures or estimates. What holds on these pictures need not hold on photos. sagehand's `docs/data-card.md` says",
            "what varies, which look-alikes are in it on purpose, and where the set ends.",
            "",
            "| device | family | steps | pictures |",
            "|---|---|---|---|",
            *shown,
            "",
            f"* `metadata.jsonl`: a row a picture; `previous_action` {NOTHING_DONE!r} means that nothing was done yet; `polygon`",
            "  [px] is the device with the part of the fixture that it sits in; `intrinsics` [px].",
            "* `actions.yaml`: the actions that the labels name, with their preconditions and effects.",
            "* `dataset.json`: parameters, versions and counts.",
            f"* `{SUMS}`: `sha256sum -c {SUMS}` checks the files; digest `{card['digest']}`.",
            "",
        ]
    )


@contextmanager
def _draft(path: Path) -> Iterator[BinaryIO]:
    """A file written through another beside it, as ``files.write_whole``, for what is too long to be held in memory."""
    draft = path.with_name(f".{secrets.token_hex(6)}.tmp")
    try:
        with draft.open("xb") as file:
            yield file
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _sums(folder: Path) -> dict[str, str]:
    path = folder / SUMS
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name: total for total, _, name in (line.partition("  ") for line in lines)}


def _read_card(folder: Path) -> dict[str, Any]:
    path = folder / "dataset.json"
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}", hint="render into a new folder") from error
    if not isinstance(doc, dict):
        raise InputError(f"{path}: is no card of a rendered set", hint="render into a new folder")
    return doc


@cache  # what was imported when the process began is what draws
def _generator() -> str:
    """16 hex digits that stand for the sources that draw: the package's own files."""
    import sagehand.study.cell as cell
    from sagehand.study.dataset import shoot

    total = hashlib.sha256()
    for path in [*sorted(Path(str(cell.__file__)).parent.glob("*.py")), Path(shoot.__file__)]:
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
