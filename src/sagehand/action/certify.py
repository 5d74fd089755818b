"""Certify a risk with labelled pictures outside the case base (SPEC C3).

59 answers without an error bound a risk by 0.05, and half of all answers only choose the threshold: a small case base,
answered case by case without the case itself, can never certify it. Labelled pictures that are no cases can. Each is
decided on the whole base as ``predict`` would: the same crop, embedder and weights, no guard. The answers take the place
of the left-out ones in the calibration; its weights are learnt from the cases alone, so no answer has seen its own truth.

What is certified holds for pictures drawn as these were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sagehand.action.decision import Known
from sagehand.cases import CaseBase, DepthUnit, Index, crop_and_embed, parse_row, read_table
from sagehand.embed import Embedder, get_embedder
from sagehand.errors import InputError, PictureError
from sagehand.judge.calibration import OUTSIDE, Calibration
from sagehand.judge.domain import NEAR_DUPLICATE
from sagehand.judge.leaveout import LeaveOut
from sagehand.judge.model import most_believed
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Judge, Query
from sagehand.judge.risk import Answer
from sagehand.picture import DEFAULT_LIMITS, Box, Limits, Picture, load
from sagehand.recall.build import calibrate
from sagehand.recall.crop import cropper
from sagehand.recall.rank import rank

__all__ = ["CertifyItem", "certify_items", "certify_on"]


@dataclass(frozen=True)
class CertifyItem:
    """A labelled picture that certifies.

    Attributes:
        picture: The picture's file.
        depth: Its depth image, or None.
        known: What is known beside it when it is decided on.
        next_action: The true next action.
        unit: What is one thing for the statistics: a picture with its near-duplicates, or, where the robot meets new devices
            (a calibration that leaves devices out), a device. One answer a unit counts.
        key: Its own name.
        group: Its group of near-duplicates, if it has one; a group of which a case is in the base certifies nothing.
        family: Its true family, where a calibration that leaves devices out must see that the device is a new one.
        device: Its true device, for the same.
        box: The crop, for a base of crop ``truth`` (pixels of the original).
        polygon: The outline, for the same.
    """

    picture: Path
    depth: Path | None
    known: Known
    next_action: str
    unit: str
    key: str
    group: str | None = None
    family: str | None = None
    device: str | None = None
    box: Box | None = None
    polygon: tuple[tuple[float, float], ...] | None = None


def certify_on(
    base: CaseBase,
    items: Sequence[CertifyItem],
    *,
    embedder: Embedder | None = None,
    judge: Judge | None = None,
    depth_unit: DepthUnit = "mm",
    limits: Limits | None = None,
    on_refused: Callable[[CertifyItem, str], None] | None = None,
    on_failed: Callable[[CertifyItem, str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Answer labelled pictures outside the base, and keep the answers as those that certify.

    A picture that is a case, or almost one, is refused: to answer it is no test. Pictures that are near-duplicates of each
    other count as one unit. A base whose calibration is missing or stale is calibrated
    first. When a case changes, the calibration is stale, and this has to be done again.

    Args:
        base: The case base; the calibration is stored into it.
        items: The pictures.
        embedder: The base's embedder, when it is at hand already.
        judge: Who crops, for a base of crop "grid" or "box"; the perceptual judge by default.
        depth_unit: Unit of integer depth images.
        limits: Caps on pictures and depth images.
        on_refused: Called with each item that certifies nothing, because the base knows it, and why.
        on_failed: Called with each item whose files cannot be used, and why.
        on_progress: Called with (done, all).

    Returns:
        The base's calibration with the new answers; its ``refused`` counts what the base knew.

    Raises:
        InputError: Two items have the same key, or none is left; nothing was stored then.
        EmbedderMismatch: The embedder is not the base's.
        ReadOnlyCaseBase: The base cannot be written.
    """
    twice = [key for key, count in Counter(i.key for i in items).items() if count > 1]
    if twice:
        raise InputError(
            f"{len(twice)} keys stand twice, the first is {twice[0]!r}", hint="give each picture one of its own"
        )
    embedder = embedder or get_embedder(base.embedder.name)
    base.require(embedder.identity)
    learnt = _calibration(base)
    index = base.index()
    cut = cropper(base.crop, judge or PerceptualJudge())
    answers: list[Answer] = []
    vectors: list[NDArray[np.float32]] = []
    told: list[str] = []
    refused = 0
    for done, item in enumerate(items, 1):
        try:
            seen = _seen(item, depth_unit, limits or DEFAULT_LIMITS)
            why = _known_by_name(index, item, learnt.leave_out, seen.pixel_id)
            if why is None:
                made = crop_and_embed(seen, {"box": item.box, "polygon": item.polygon}, cut, embedder)
                why = _near(index, made.vector)
            if why is None:
                previous = None if item.known.previous_failed else item.known.last
                query = Query(made.vector, None, made.depth_vector, previous, item.known.place, item.known.family)
                answers.append(_answer(index, query, learnt, item))
                vectors.append(made.vector)
            else:
                refused += 1
                told.append(why)
                if on_refused:
                    on_refused(item, why)
        except PictureError as error:
            told.append(str(error))
            if on_failed:
                on_failed(item, str(error))
        if on_progress:
            on_progress(done, len(items))
    if not answers:
        what = f"none of {len(items)} pictures can certify anything: {told[0]}" if told else "there is no picture"
        raise InputError(
            what, hint="give labelled pictures that are not in the case base, nor near-duplicates of its cases"
        )
    merged = [replace(a, unit=unit) for a, unit in zip(answers, _units(answers, vectors), strict=True)]
    certified = replace(learnt, answers=tuple(merged), answers_from=OUTSIDE, refused=refused)
    base.set_calibration(certified.to_dict())
    return certified


def certify_items(folder: str | Path, leave_out: LeaveOut = "case") -> tuple[list[CertifyItem], list[tuple[str, str]]]:
    """The labelled pictures of a folder, known with their previous action and place, as ``evaluate`` knows them.

    Args:
        folder: Pictures with ``metadata.jsonl`` or ``metadata.csv``.
        leave_out: What is one unit: "case" takes a picture or its group, "device" a device.

    Returns:
        The items, and (file name, reason) of each row that cannot be used or has no next action.

    Raises:
        InputError: The folder cannot be used.
    """
    table = read_table(folder)
    items, left = [], [(p.file_name or f"line {p.line}", p.reason) for p in table.problems]
    for row in table.rows:
        try:
            label = parse_row(row.values)
        except InputError as error:
            left.append((row.file_name, error.message))
            continue
        if label["next_action"] is None:
            left.append((row.file_name, "its row has no next_action"))
            continue
        depth = row.values.get("depth_file_name")
        device = f"{label['family']}/{label['device']}"
        items.append(
            CertifyItem(
                picture=Path(folder, row.file_name),
                depth=None if depth is None else Path(folder, depth),
                known=Known(previous=label["previous_action"], place=label["place"]),
                next_action=label["next_action"],
                unit=device if leave_out == "device" else label["group"] or row.file_name,
                key=row.file_name,
                group=label["group"],
                family=label["family"],
                device=label["device"],
                polygon=label["polygon"],
            )
        )
    return items, left


def _calibration(base: CaseBase) -> Calibration:
    doc = base.calibration()
    learnt = Calibration.from_dict(doc) if doc else Calibration()
    return calibrate(base) if learnt.stale(base.revision) else learnt


def _seen(item: CertifyItem, depth_unit: DepthUnit, limits: Limits) -> Picture:
    return load(item.picture, depth=item.depth, depth_unit=None if item.depth is None else depth_unit, limits=limits)


def _answer(index: Index, query: Query, learnt: Calibration, item: CertifyItem) -> Answer:
    """What the cases alone say, as ``abstain`` holds it against a certificate."""
    beliefs = rank(index, query, learnt).actions
    best = most_believed(beliefs)
    return Answer(round(beliefs[best], 6) if best else 0.0, best == item.next_action, item.unit, item.key)


def _known_by_name(index: Index, item: CertifyItem, leave_out: LeaveOut, pixel_id: str) -> str | None:
    """Why the base knows this picture already, by its pixels or its label; None where it does not."""
    if index.row(pixel_id) is not None:
        return "it is in the case base"
    codes, names = index.codes("group")
    if item.group in names and bool((codes == names.index(item.group)).any()):
        return f"its group {item.group!r} is in the case base"
    if leave_out == "device" and item.device is not None:
        same = np.ones(len(index), dtype=np.bool_)
        for field, value in (("family", item.family), ("device", item.device)):
            codes, names = index.codes(field)
            same &= codes == (names.index(value) if value in names else -2)
        if same.any():
            return f"its device {item.device!r} is in the case base, whose calibration is for new devices"
    return None


def _near(index: Index, vector: NDArray[np.float32]) -> str | None:
    if not len(index):
        return None
    (row,), (cosine,) = index.top(vector, 1)
    if cosine < NEAR_DUPLICATE:
        return None
    case = index.cases[int(row)]
    return f"a near-duplicate is in the case base: {case.file_name or case.id} (cosine {cosine:.3f})"


def _units(answers: Sequence[Answer], vectors: Sequence[NDArray[np.float32]]) -> list[str]:
    """The unit of each answer: near-duplicates, and what shares a unit with them, are one, named by the smallest name."""
    owner = {a.unit: a.unit for a in answers}

    def root(name: str) -> str:
        while owner[name] != name:
            owner[name] = owner[owner[name]]
            name = owner[name]
        return name

    for one, other in _near_pairs(np.stack(vectors)):
        first, second = sorted((root(answers[one].unit), root(answers[other].unit)))
        owner[second] = first
    return [root(a.unit) for a in answers]


def _near_pairs(vectors: NDArray[np.float32], block: int = 256) -> Iterator[tuple[int, int]]:
    for start in range(0, len(vectors), block):
        near, other = np.nonzero(vectors[start : start + block] @ vectors.T >= NEAR_DUPLICATE)
        for one, two in zip((start + near).tolist(), other.tolist(), strict=True):
            if one < two:
                yield one, two
