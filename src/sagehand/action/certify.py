"""Certify a risk with labelled pictures outside the case base (SPEC C3).

59 answers without an error bound a risk by 0.05, and half of all answers only choose the threshold: a small case base,
answered case by case without the case itself, can never certify it. Labelled pictures that are no cases can. Each is
decided on the whole base as ``predict`` would: the same crop, embedder and weights, no guard. The answers take the place
of the left-out ones in the calibration; its weights are learnt from the cases alone, so no answer has seen its own truth.

What is certified holds for pictures drawn as these were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sagehand.action.certify_items import CertifyItem, certify_items
from sagehand.action.certify_units import units
from sagehand.cases import CaseBase, DepthUnit, Index, crop_and_embed
from sagehand.embed import Embedder, get_embedder
from sagehand.errors import InputError, PictureError
from sagehand.judge.calibration import OUTSIDE, Calibration
from sagehand.judge.domain import NEAR_DUPLICATE
from sagehand.judge.leaveout import LeaveOut
from sagehand.judge.model import most_believed
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Judge, Query
from sagehand.judge.risk import Answer
from sagehand.picture import DEFAULT_LIMITS, Limits, load
from sagehand.recall.build import calibrate
from sagehand.recall.crop import Cropper, cropper
from sagehand.recall.rank import rank

__all__ = ["CertifyItem", "certify_items", "certify_on"]


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
    _keys_differ(items)
    embedder = embedder or get_embedder(base.embedder.name)
    base.require(embedder.identity)
    learnt = _calibration(base)
    cut = cropper(base.crop, judge or PerceptualJudge())
    examine = _Examiner(base.index(), embedder, cut, learnt, depth_unit, limits or DEFAULT_LIMITS)
    answers: list[Answer] = []
    vectors: list[NDArray[np.float32]] = []
    told: list[str] = []
    refused = 0
    for done, item in enumerate(items, 1):
        try:
            found = examine(item)
            if isinstance(found, str):
                refused += 1
                told.append(found)
                if on_refused:
                    on_refused(item, found)
            else:
                answers.append(found.answer)
                vectors.append(found.vector)
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
    merged = [replace(a, unit=unit) for a, unit in zip(answers, units(answers, vectors), strict=True)]
    certified = replace(learnt, answers=tuple(merged), answers_from=OUTSIDE, refused=refused)
    base.set_calibration(certified.to_dict())
    return certified


def _keys_differ(items: Sequence[CertifyItem]) -> None:
    twice = [key for key, count in Counter(i.key for i in items).items() if count > 1]
    if twice:
        raise InputError(
            f"{len(twice)} keys stand twice, the first is {twice[0]!r}", hint="give each picture one of its own"
        )


def _calibration(base: CaseBase) -> Calibration:
    doc = base.calibration()
    learnt = Calibration.from_dict(doc) if doc else Calibration()
    return calibrate(base) if learnt.stale(base.revision) else learnt


@dataclass(frozen=True, eq=False)
class _Examined:
    answer: Answer
    vector: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Examiner:
    """Decides on one picture as ``predict`` would, unless the base knows it; then tells why."""

    index: Index
    embedder: Embedder
    cut: Cropper | None
    learnt: Calibration
    depth_unit: DepthUnit
    limits: Limits

    def __call__(self, item: CertifyItem) -> _Examined | str:
        unit = None if item.depth is None else self.depth_unit
        seen = load(item.picture, depth=item.depth, depth_unit=unit, limits=self.limits)
        if why := _known_by_name(self.index, item, self.learnt.leave_out, seen.pixel_id):
            return why
        made = crop_and_embed(seen, {"box": item.box, "polygon": item.polygon}, self.cut, self.embedder)
        if why := _near(self.index, made.vector):
            return why
        previous = None if item.known.previous_failed else item.known.last
        query = Query(made.vector, None, made.depth_vector, previous, item.known.place, item.known.family)
        return _Examined(_answer(self.index, query, self.learnt, item), made.vector)


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
