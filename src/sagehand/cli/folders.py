"""``sagehand cases import | export``: folders of labelled pictures in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sagehand.cli.common import (
    Actions,
    AsJson,
    CasesFile,
    announce,
    announce_warnings,
    emit,
    finish,
    library_at,
    open_base,
    progress,
    settings,
)
from sagehand.cli.model import BaseUrl, Model, crop_judge, crop_of

__all__ = ["export", "import_"]


def import_(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Pictures with a metadata.jsonl, or another --format.")
    ],
    into: Annotated[Path, typer.Option("--into", metavar="CASES", help="The case base; made when it is not there.")],
    format_: Annotated[
        str, typer.Option("--format", help="auto, or jsonl, csv, coco or labelme: how the labels are written.")
    ] = "auto",
    actions: Actions = None,
    crop: Annotated[
        str | None,
        typer.Option(
            help="none, perceptual, relief, truth, or by a model's moves grid or box; for a new base. [setting: crop]"
        ),
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="For a new case base; see `sagehand embedders`. [setting: embedder]")
    ] = None,
    depth_unit: Annotated[
        str | None, typer.Option(help="m, mm or um: unit of integer depth images. [setting: depth_unit]")
    ] = None,
    leave_out: Annotated[
        str | None,
        typer.Option(help="What is left out to calibrate: case or device. Default: as before; case for a new base."),
    ] = None,
    base_url: BaseUrl = None,
    model: Model = None,
    as_json: AsJson = False,
) -> None:
    """Import a folder of labelled pictures. Run it again to go on after a stop: what is there is not done twice."""
    from sagehand.action.labels import label_check
    from sagehand.cases import ImportInterrupted
    from sagehand.picture import Limits
    from sagehand.recall.build import build
    from sagehand.study.check import leave_out_of

    reading = _format(format_, "auto")
    set_ = settings(crop=crop, embedder=embedder, depth_unit=depth_unit, base_url=base_url, vlm_model=model)
    library = library_at(actions or set_.actions)
    announce_warnings(library)
    interrupted = False
    try:
        with crop_judge(set_, crop_of(into, set_)) as judge, progress("importing") as report:
            done = build(
                folder,
                into,
                format=reading,
                embedder=set_.embedder if embedder or not into.exists() else None,
                crop=set_.crop if crop or not into.exists() else None,
                check=label_check(library) if library else None,
                depth_unit=set_.depth_unit,
                limits=Limits(max_pixels=set_.max_pixels),
                leave_out=None if leave_out is None else leave_out_of(leave_out),
                judge=judge,
                asked_at_once=set_.vlm_concurrency,
                on_progress=report,
            )
    except ImportInterrupted as stop:
        done, interrupted = {**stop.report.to_dict(), "into": str(into)}, True
        announce("stopped; what was read is kept. Run the same command again to go on")
    failed = [*done["failed"], *done["conflicts"]]
    for problem in sorted(failed, key=lambda p: p["line"]):
        name = f"{problem['file_name']}: " if problem["file_name"] else ""
        place = "line" if done["format"] in ("jsonl", "csv") else "picture"
        announce(f"{folder}: {place} {problem['line']}: {name}{problem['reason']}")
    emit(done, as_json, lambda: _imported(done))
    nothing = not (done["added"] or done["unchanged"] or done["conflicts"])
    finish(130 if interrupted else 2 if failed and nothing else 1 if failed else 0)


def _imported(done: dict[str, Any]) -> str:
    lines = [
        f"{done['added']} cases added, {done['unchanged']} there already, "
        f"{len(done['conflicts'])} conflicts, {len(done['failed'])} failed"
    ]
    if done["skipped"]:
        lines.append(f"{len(done['skipped'])} pictures have no row: {', '.join(done['skipped'][:5])}")
    learnt = done.get("calibration")
    if learnt and learnt["queries"]:
        lines.append(
            f"calibrated on {learnt['queries']} cases, each left out: next action right {learnt['right']:.1%} of the time"
        )
    elif learnt:
        lines.append("nothing to calibrate on yet: it takes labelled cases that differ")
    where = done["into"] if Path(done["into"]).exists() else "none was made"
    return "\n".join([*lines, f"case base: {where}"])


def export(
    cases: CasesFile,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")],
    format_: Annotated[str, typer.Option("--format", help="jsonl, csv, coco or labelme.")] = "jsonl",
    as_json: AsJson = False,
) -> None:
    """Write the cases as a folder again: the same files, names and unknown keys."""
    from sagehand.cases import export_folder

    writing = _format(format_)
    with open_base(cases) as base:
        done = export_folder(base, folder, format=writing).to_dict()
        for renamed in done["renamed"]:
            announce(_renamed(renamed))
        for reason in done["left_out"]:
            announce(f"left out: {reason}")
        emit(done, as_json, f"{done['cases']} cases in {folder}")
    finish(1 if done["left_out"] else 0)


def _renamed(file: dict[str, Any]) -> str:
    """What became of a file's name, and why."""
    from sagehand.cases.table import path_problem

    if not file["old"]:
        return f"case {file['case_id']}: a file of it had no name: it is {file['new']} now"
    why = "another file has that name" if path_problem(file["old"]) is None else "it can be no name in a folder"
    return f"case {file['case_id']}: {file['old']} is {file['new']} now: {why}"


def _format(name: str, *more: str) -> Any:
    """A format that there is."""
    from sagehand.cases.table import FORMATS
    from sagehand.errors import UnknownName

    if name not in (*more, *FORMATS):
        raise UnknownName("format", name, (*more, *FORMATS))
    return name
