"""Build the memory that recall leans on: import with crop and calibration, single additions, embedding anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from sagehand.cases import Case, CaseBase, CaseDraft, import_folder, parse_row
from sagehand.embed import DEFAULT_EMBEDDER, depth_vector, get_embedder
from sagehand.errors import InputError
from sagehand.judge.calibration import Calibration, learn
from sagehand.judge.leaveout import LeaveOut
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.picture import Picture, load
from sagehand.recall.crop import cropper

__all__ = ["add_picture", "build", "calibrate", "reembed"]

Progress = Callable[[int, int], None]
LabelCheck = Callable[[Mapping[str, Any]], None]


def build(
    folder: str | Path,
    into: str | Path,
    *,
    embedder: str | None = None,
    crop: str | None = None,
    check: LabelCheck | None = None,
    depth_unit: Literal["m", "mm", "um"] = "mm",
    leave_out: LeaveOut = "case",
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Import a folder into a case base, made when it is not there, and calibrate it.

    Args:
        folder: Pictures with ``metadata.jsonl`` or ``metadata.csv``.
        into: The case base.
        embedder: For a new base; must be the base's own for an old one; None for the default, or the base's.
        crop: The same of the crop strategy.
        check: Called with each label's fields; raises an InputError for a label that must not come in.
        depth_unit: Unit of integer depth images.
        leave_out: What is left out to calibrate.
        on_progress: Called with (done, all).

    Returns:
        The import report as plain data, with ``into`` and ``calibration`` {queries, right}.
    """
    into = Path(into)
    with _open_or_create(into, folder, embedder, crop) as base:
        cut = cropper(base.crop, PerceptualJudge())
        one_thread = get_embedder(base.embedder.name, threads=1)
        report = import_folder(
            folder, base, one_thread, cropper=cut, check=check, depth_unit=depth_unit, on_progress=on_progress
        ).to_dict()
        learnt = None
        doc = base.calibration()
        # an import that was stopped before it calibrated is finished here
        if report["added"] or doc is None or Calibration.from_dict(doc).stale(base.revision):
            learnt = calibrate(base, leave_out)
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
    depth_unit: Literal["m", "mm", "um"] | None = None,
) -> Case:
    """Add one picture with its label, cropped and embedded as the base is.

    Args:
        base: The case base.
        picture: The picture's file.
        row: Its label, as in ``metadata.jsonl``; ``file_name`` is the file's own name when absent.
        depth: Its depth image.
        depth_unit: Unit of an integer depth image.

    Raises:
        CaseConflict: The same pixels are there already.
    """
    path = Path(picture)
    row = {"file_name": path.name, **row}
    if depth is not None:
        row = {**row, "depth_file_name": Path(depth).name}
    fields = parse_row(row)
    seen = load(
        path, depth=None if depth is None else Path(depth), depth_unit=depth_unit if depth is not None else None
    )
    if seen.data is None:
        raise TypeError("a picture loaded from a file keeps its bytes")
    cut = cropper(base.crop, PerceptualJudge())
    box = cut(seen, fields) if cut else None
    view = seen.crop(box).picture if box else seen
    return base.add(
        CaseDraft(
            image=seen.data,
            pixel_id=seen.pixel_id,
            vector=get_embedder(base.embedder.name).embed([view.pixels])[0],
            row=row,
            depth_image=None if depth is None else Path(depth).read_bytes(),
            depth_vector=None if view.depth is None else depth_vector(view.depth),
            box=box,
        )
    )


def calibrate(base: CaseBase, leave_out: LeaveOut = "case") -> Calibration:
    """Learn a calibration from the base's cases and store it with the base."""
    learnt = learn(base.index(), leave_out)
    base.set_calibration(learnt.to_dict())
    return learnt


def reembed(
    base: CaseBase, *, embedder: str | None = None, crop: str | None = None, on_progress: Progress | None = None
) -> int:
    """Embed every case anew and calibrate; nothing is written unless all of them can be.

    Args:
        base: The case base.
        embedder: The new embedder, or None for the one of the same name.
        crop: The new crop strategy, or None for the same.
        on_progress: Called with (done, all).

    Returns:
        Number of cases.
    """
    new = get_embedder(embedder or base.embedder.name)
    strategy = crop or base.crop
    cut = cropper(strategy, PerceptualJudge())
    cases = base.cases(retired=True)

    def vectors() -> Iterator[tuple[str, Any, Any]]:
        for done, case in enumerate(cases, 1):
            seen: Picture = load(base.image(case.id), name=case.file_name)
            box = cut(seen, parse_row(base.row(case.id))) if cut else None
            view = seen.crop(box).picture if box else seen
            yield case.id, new.embed([view.pixels])[0], box
            if on_progress:
                on_progress(done, len(cases))

    count = base.reembed(new.identity, vectors(), strategy)
    calibrate(base, _regime(base))
    return count


def _regime(base: CaseBase) -> LeaveOut:
    doc = base.calibration()
    return "device" if doc and doc.get("leave_out") == "device" else "case"


def _open_or_create(into: Path, folder: str | Path, embedder: str | None, crop: str | None) -> CaseBase:
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

    read_table(folder)  # a folder that cannot be used must not leave an empty case base behind
    strategy = crop or "none"
    cropper(strategy, PerceptualJudge())
    identity = get_embedder(embedder or DEFAULT_EMBEDDER).identity
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"the folder {into.parent} cannot be made: {error.strerror or error}"
        raise InputError(what, hint="name another place") from error
    if not os.access(into.parent, os.W_OK):
        raise InputError(f"the folder {into.parent} cannot be written", hint="name another place")
    return CaseBase.create(into, embedder=identity, crop=strategy)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
