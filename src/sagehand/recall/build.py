"""Build the memory that recall leans on: import with crop and calibration, single additions, embedding anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from sagehand.cases import Case, CaseBase, CaseDraft, DepthUnit, Embedded, crop_and_embed, import_folder, parse_row
from sagehand.cases.table import Format
from sagehand.embed import DEFAULT_EMBEDDER, get_embedder
from sagehand.errors import InputError
from sagehand.judge.calibration import Calibration, learn
from sagehand.judge.leaveout import LeaveOut
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Judge
from sagehand.picture import DEFAULT_LIMITS, Limits, load
from sagehand.recall.crop import TURNS, Cropper, cropper
from sagehand.recall.crop_trace import CropResult

__all__ = ["add_picture", "build", "calibrate", "reembed"]

Progress = Callable[[int, int], None]
LabelCheck = Callable[[Mapping[str, Any]], None]


def build(
    folder: str | Path,
    into: str | Path,
    *,
    format: Format | Literal["auto"] = "auto",
    embedder: str | None = None,
    crop: str | None = None,
    check: LabelCheck | None = None,
    depth_unit: DepthUnit = "mm",
    limits: Limits | None = None,
    leave_out: LeaveOut | None = None,
    judge: Judge | None = None,
    asked_at_once: int | None = None,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Import a folder into a case base, and calibrate it. One that is not there is made when the first case goes in.

    Args:
        folder: Pictures with ``metadata.jsonl`` or ``metadata.csv``, or with COCO or LabelMe annotations.
        into: The case base.
        format: As for :func:`~sagehand.cases.table.read_table`.
        embedder: For a new base; must be the base's own for an old one; None for the default, or the base's.
        crop: The same of the crop strategy.
        check: Called with each label's fields; raises an InputError for a label that must not come in.
        depth_unit: Unit of integer depth images.
        limits: Caps on pictures and depth images.
        leave_out: What is left out to calibrate; None for what the base's calibration left out ("case" for a new base).
        judge: Who makes the moves of the crops "grid" and "box"; the perceptual judge by default. A picture that it
            fails on is a failed row: run the import again for those.
        asked_at_once: Pictures that are cropped at once by a judge that answers over a network.
        on_progress: Called with (done, all).

    Returns:
        The import report as plain data, with ``into`` and ``calibration`` {queries, right}.
    """
    into = Path(into)
    with _open_or_create(into, folder, format, embedder, crop) as base:
        cut = _cropper(base.crop, judge)
        one_thread = get_embedder(base.embedder.name, threads=1)
        report = import_folder(
            folder,
            base,
            one_thread,
            format=format,
            cropper=cut,
            check=check,
            depth_unit=depth_unit,
            limits=limits,
            workers=asked_at_once if base.crop in TURNS else None,
            on_progress=on_progress,
        ).to_dict()
        # an import that was stopped before it calibrated is finished here
        learnt = calibrate(base, leave_out) if base.on_disk and _wants_calibrating(base, leave_out) else None
        return {
            **report,
            "into": str(into),
            "cases": len(base),
            "calibration": {"queries": learnt.queries, "right": _rounded(learnt.accuracy)} if learnt else None,
        }


def add_picture(
    base: CaseBase,
    picture: str | Path,
    row: Mapping[str, Any],
    *,
    depth: str | Path | None = None,
    depth_unit: DepthUnit | None = None,
    check: LabelCheck | None = None,
    limits: Limits | None = None,
    judge: Judge | None = None,
) -> Case:
    """Add one picture with its label, cropped and embedded as the base is.

    Args:
        base: The case base.
        picture: The picture's file.
        row: Its label, as in ``metadata.jsonl``; ``file_name`` is the file's own name when absent.
        depth: Its depth image.
        depth_unit: Unit of an integer depth image; None for a float one in metres.
        check: Called with the label's fields; raises an InputError for a label that must not come in.
        limits: Caps on the picture.
        judge: As for :func:`build`.

    Raises:
        EmbedderMismatch: The base holds vectors of another version of the embedder.
        CaseConflict: The same pixels are there already.
    """
    embedder = get_embedder(base.embedder.name)
    base.require(embedder.identity)
    path = Path(picture)
    row = {"file_name": path.name, **row}
    if depth is not None:
        row = {**row, "depth_file_name": Path(depth).name}
    fields = parse_row(row)
    if check is not None:
        check(fields)
    measured = None if depth is None else Path(depth)
    unit = None if measured is None else depth_unit
    seen = load(path, depth=measured, depth_unit=unit, limits=limits or DEFAULT_LIMITS)
    if seen.data is None:
        raise TypeError("a picture loaded from a file keeps its bytes")
    made = crop_and_embed(seen, fields, _cropper(base.crop, judge), embedder)
    return base.add(
        CaseDraft(
            image=seen.data,
            pixel_id=seen.pixel_id,
            vector=made.vector,
            row=row,
            depth_image=None if measured is None else measured.read_bytes(),
            depth_vector=made.depth_vector,
            box=made.box,
            depth_unit=None if measured is None else unit or "m",
        )
    )


def calibrate(base: CaseBase, leave_out: LeaveOut | None = None) -> Calibration:
    """Learn a calibration from the base's cases and store it with the base.

    Args:
        base: The case base.
        leave_out: What is left out; None for what the base's calibration left out ("case" where there is none).
    """
    learnt = learn(base.index(), leave_out or _regime(base))
    base.set_calibration(learnt.to_dict())
    return learnt


def reembed(
    base: CaseBase,
    *,
    embedder: str | None = None,
    crop: str | None = None,
    limits: Limits | None = None,
    judge: Judge | None = None,
    on_progress: Progress | None = None,
) -> int:
    """Embed every case anew and calibrate; nothing is written unless all of them can be.

    Args:
        base: The case base.
        embedder: The new embedder, or None for the one of the same name.
        crop: The new crop strategy, or None for the same.
        limits: Caps on the pictures.
        judge: As for :func:`build`.
        on_progress: Called with (done, all).

    Returns:
        Number of cases.
    """
    new = get_embedder(embedder or base.embedder.name)
    strategy = crop or base.crop
    cut = _cropper(strategy, judge)
    cases = base.cases(retired=True)

    def vectors() -> Iterator[Embedded]:
        for done, case in enumerate(cases, 1):
            seen = load(
                base.image(case.id),
                name=case.file_name or None,
                depth=base.depth_image(case.id),
                depth_unit=base.depth_unit(case.id),
                limits=limits or DEFAULT_LIMITS,
            )
            made = crop_and_embed(seen, parse_row(base.row(case.id)), cut, new)
            yield made._replace(case_id=case.id)
            if on_progress:
                on_progress(done, len(cases))

    regime = _regime(base)  # which goes with the old calibration
    count = base.reembed(new.identity, vectors(), strategy)
    calibrate(base, regime)
    return count


def _cropper(strategy: str, judge: Judge | None) -> Cropper | None:
    """A judge that fails fails the picture: one that is left whole among crops would be found by its background."""

    def check(result: CropResult) -> None:
        if result.error is not None:
            raise result.error

    return cropper(strategy, judge or PerceptualJudge(), on_result=check)


def _wants_calibrating(base: CaseBase, leave_out: LeaveOut | None) -> bool:
    """Whether a case was added since the calibration was learnt, or another one is asked for."""
    doc = base.calibration()
    return (
        doc is None
        or Calibration.from_dict(doc).stale(base.revision)
        or (leave_out is not None and leave_out != _regime(base))
    )


def _regime(base: CaseBase) -> LeaveOut:
    doc = base.calibration()
    return "device" if doc and doc.get("leave_out") == "device" else "case"


def _open_or_create(
    into: Path, folder: str | Path, format: Format | Literal["auto"], embedder: str | None, crop: str | None
) -> CaseBase:
    if into.exists():
        base = CaseBase.open(into)
        if embedder is not None or crop is not None:
            identity = get_embedder(embedder).identity if embedder else base.embedder
            try:
                base.require(identity, crop)
            except BaseException:
                base.close()
                raise
        return base
    from sagehand.cases import read_table

    read_table(folder, format)  # a folder that cannot be used must not leave an empty case base behind
    strategy = crop or "none"
    _cropper(strategy, None)
    identity = get_embedder(embedder or DEFAULT_EMBEDDER).identity
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"the folder {into.parent} cannot be made: {error.strerror or error}"
        raise InputError(what, hint="name another place") from error
    if not os.access(into.parent, os.W_OK):
        raise InputError(f"the folder {into.parent} cannot be written", hint="name another place")
    return CaseBase.create(into, embedder=identity, crop=strategy, at_first_write=True)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
