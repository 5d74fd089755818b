"""A sample: one labelled picture of a study's folder (paper A §3.1)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sagehand.action.decision import Known
from sagehand.cases import NOTHING_DONE, parse_row, read_table
from sagehand.errors import InputError

__all__ = ["Sample", "StudyData"]


@dataclass(frozen=True)
class Sample:
    """One labelled picture. ``None`` means not known.

    Attributes:
        key: Its file name in the folder: the key of its records.
        path: The picture.
        depth: Its depth image, or None.
        family: The true family: the device class (paper A §3.1).
        device: The true device.
        step: The true step, from 1.
        place: Where it was taken.
        previous_action: The action done last; "none" when nothing was done yet.
        history: All actions done, oldest first.
        next_action: The true next action.
        remaining_actions: What is left to do, the next action first.
        is_last: Whether the next action is the last one.
        end_state: Whether nothing remains.
        group: Name shared by near-duplicates.
        polygon: Outline of the device with its fixture, (x, y) [px].
        row: The whole row as it stood in the metadata.
    """

    key: str
    path: Path
    depth: Path | None
    family: str
    device: str
    step: int | None
    place: str | None
    previous_action: str | None
    history: tuple[str, ...] | None
    next_action: str | None
    remaining_actions: tuple[str, ...] | None
    is_last: bool | None
    end_state: bool | None
    group: str | None
    polygon: tuple[tuple[float, float], ...] | None
    row: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    @property
    def known(self) -> Known:
        """What a method may know beside the picture: the previous action (paper A §3.3) and the place, never more."""
        return Known(previous=self.previous_action, place=self.place)

    @property
    def place_in_tree(self) -> tuple[str, str, int | None]:
        """(family, device, step): what a correct result shares with it (paper A §3.2.3)."""
        return self.family, self.device, self.step


@dataclass(frozen=True)
class StudyData:
    """The labelled pictures of one folder.

    Attributes:
        folder: Where they lie.
        samples: All of them, in the order of the metadata.
        actions: The folder's own action library, or None.
        digest: SHA-256 over the labels and the pictures' names, hex: what a run's records are held against.
        problems: (file name, reason) of rows that could not be used.
        pictures: SHA-256 over the pictures' names and sizes, hex; another one when a picture was mended.
    """

    folder: Path
    samples: tuple[Sample, ...]
    actions: Path | None
    digest: str
    problems: tuple[tuple[str, str], ...] = ()
    pictures: str = ""

    @classmethod
    def load(cls, folder: str | Path) -> StudyData:
        """Read a folder of labelled pictures, in any format that cases come in; rows that are unlabelled are left out.

        Raises:
            InputError: The folder cannot be used, or no row has a next action.
        """
        folder = Path(folder)
        table = read_table(folder)
        problems = [(p.file_name or f"line {p.line}", p.reason) for p in table.problems]
        samples = []
        for row in table.rows:
            try:
                samples.append(_sample(folder, row.file_name, row.values))
            except InputError as error:
                problems.append((row.file_name, error.message))
        labelled = tuple(s for s in samples if s.next_action is not None)
        if not labelled:
            raise InputError(
                f"no picture in {folder} has a next_action, so nothing can be studied",
                hint="label the pictures in metadata.jsonl, or render a set: sagehand study render --out FOLDER",
            )
        actions = folder / "actions.yaml"
        digest = _digest(folder, table.path, labelled)
        own = actions if actions.exists() else None
        return cls(folder, labelled, own, digest, tuple(problems), _pictures(folder, labelled))


def _sample(folder: Path, file_name: str, row: Mapping[str, Any]) -> Sample:
    label = parse_row(row)
    depth = row.get("depth_file_name")
    remaining = label["remaining_actions"]
    return Sample(
        key=file_name,
        path=folder / file_name,
        depth=folder / str(depth) if depth else None,
        family=label["family"],
        device=label["device"],
        step=label["step"],
        place=label["place"],
        previous_action=label["previous_action"] or _previous(label["history"]),
        history=label["history"],
        next_action=label["next_action"],
        remaining_actions=remaining,
        is_last=label["is_last"],
        end_state=label["end_state"],
        group=label["group"],
        polygon=label["polygon"],
        row=dict(row),
    )


def _previous(history: Sequence[str] | None) -> str | None:
    if history is None:
        return None
    return history[-1] if history else NOTHING_DONE


def _digest(folder: Path, table: Path, samples: Sequence[Sample]) -> str:
    """Over the contents of the labels and the names of the pictures, whether or not these are there."""
    total = hashlib.sha256()
    labels = sorted(table.rglob("*.json")) if table.is_dir() else [table]
    for path in [*labels, folder / "actions.yaml"]:
        if path.exists():
            total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    for sample in sorted(samples, key=lambda s: s.key):
        for picture in (sample.path, sample.depth):
            if picture is not None:
                total.update(_name(folder, picture) + b"\n")
    return total.hexdigest()


def _pictures(folder: Path, samples: Sequence[Sample]) -> str:
    """Over names and sizes (reading 100,000 pictures takes too long); one that is missing has no size."""
    total = hashlib.sha256()
    for sample in sorted(samples, key=lambda s: s.key):
        for picture in (sample.path, sample.depth):
            if picture is not None:
                size = str(picture.stat().st_size) if picture.exists() else "missing"
                total.update(_name(folder, picture) + f"\0{size}\n".encode())
    return total.hexdigest()


def _name(folder: Path, picture: Path) -> bytes:
    return os.fsencode(os.path.relpath(picture, folder))
