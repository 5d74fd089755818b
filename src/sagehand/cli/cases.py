"""``sagehand cases …``: build, look at, correct and check a case base."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sagehand.cli import edit, learn
from sagehand.cli.common import (
    Actions,
    AsJson,
    CasesFile,
    announce,
    announce_warnings,
    emit,
    fields_text,
    finish,
    library_at,
    open_base,
    progress,
    settings,
    table,
)
from sagehand.cli.model import BaseUrl, Model, crop_judge, crop_of

__all__ = ["app"]

app = typer.Typer(help="Build, look at, correct and check a case base.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(edit.app, name="edit")
learn.register(app)

CaseId = Annotated[str, typer.Argument(metavar="ID", help="The case's id, or enough of its beginning.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the history.")]
Labels = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="A field of the label; repeat it. VALUE is JSON or plain text."),
]


@app.command("import")
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


@app.command()
def add(
    cases: CasesFile,
    picture: Annotated[Path, typer.Argument(metavar="PICTURE", help="The picture.")],
    labels: Labels,
    depth: Annotated[Path | None, typer.Option(help="Its depth image.")] = None,
    depth_unit: Annotated[str | None, typer.Option(help="m, mm or um. [setting: depth_unit]")] = None,
    actions: Actions = None,
    base_url: BaseUrl = None,
    model: Model = None,
    as_json: AsJson = False,
) -> None:
    """Add one picture, as in: add p.cases photo.jpg --set family=phone --set device=x --set step=2 --set next_action=pry."""
    from sagehand.picture import Limits
    from sagehand.recall.build import add_picture

    set_ = settings(depth_unit=depth_unit, base_url=base_url, vlm_model=model)
    with open_base(cases) as base, crop_judge(set_, base.crop) as judge:
        case = add_picture(
            base,
            picture,
            _row(labels),
            depth=depth,
            depth_unit=set_.depth_unit,
            check=_label_check(actions or set_.actions),
            limits=Limits(max_pixels=set_.max_pixels),
            judge=judge,
        )
        emit(
            case_doc(case),
            as_json,
            f"added {case.id}: {case.label}\nthe calibration is older than the cases now: `sagehand cases calibrate`",
        )


@app.command()
def correct(
    cases: CasesFile,
    case: CaseId,
    labels: Labels,
    reason: Reason = "",
    actions: Actions = None,
    as_json: AsJson = False,
) -> None:
    """Correct fields of a case; an empty VALUE takes the field away."""
    check = _label_check(actions or settings().actions)
    with open_base(cases) as base:
        before = base.revision
        changed = base.correct(base.get(case).id, _row(labels), reason=reason, check=check)
        said = f"corrected {changed.id}" if base.revision != before else f"nothing to change in {changed.id}"
        emit(case_doc(changed), as_json, f"{said}: {changed.label}")


@app.command()
def retire(cases: CasesFile, case: CaseId, reason: Reason = "", as_json: AsJson = False) -> None:
    """Take a case out of use; it stays in the history and can come back by undo."""
    with open_base(cases) as base:
        gone = base.retire(base.get(case).id, reason=reason)
        emit(case_doc(gone), as_json, f"retired {gone.id}: {gone.label}")


@app.command()
def undo(
    cases: CasesFile,
    steps: Annotated[int, typer.Option(min=1, help="How many changes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Take the last change back: an import, an add, a correction, a retirement, an edit."""
    with open_base(cases) as base:
        entries = [_entry(e) for e in base.undo(steps)]
        emit(entries, as_json, lambda: _undone(entries))


@app.command()
def log(
    cases: CasesFile,
    limit: Annotated[int, typer.Option(min=1, help="How many entries.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print the history, newest first."""
    with open_base(cases) as base:
        entries = [_entry(e) for e in base.log(limit)]
        rows = [
            [e["revision"], e["time"], e["operation"], (e["case"] or "")[:8], _words(e["changes"]), e["reason"]]
            for e in entries
        ]
        emit(entries, as_json, lambda: table(rows, ["rev", "time", "what", "case", "changes", "why"]))


@app.command()
def tree(
    cases: CasesFile,
    family: Annotated[str | None, typer.Option(help="This family only.")] = None,
    device: Annotated[str | None, typer.Option(help="This device only.")] = None,
    thin: Annotated[
        bool, typer.Option("--thin", help="Only what is thinly covered: steps with fewer than two cases.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the knowledge tree: families, devices, steps, and how well each is covered."""
    from sagehand.errors import UnknownName

    with open_base(cases) as base:
        grown = base.tree()
        within = [family] if family is not None else grown.families()
        known = {name for each in within for name in grown.devices(each)}
        if device is not None and device not in known:
            raise UnknownName("device", device, known)
        rows, doc = [], []
        for f in grown.nodes:
            for d in f.devices:
                if family not in (None, f.name) or device not in (None, d.name):
                    continue
                steps = [s for s in d.steps if s.thin or not thin]
                doc.append(
                    {
                        "family": f.name,
                        "device": d.name,
                        "cases": d.cases,
                        "steps": [
                            {
                                "step": s.number,
                                "name": s.name,
                                "cases": s.cases,
                                "next_actions": list(s.next_actions),
                                "thin": s.thin,
                            }
                            for s in steps
                        ],
                    }
                )
                rows += [
                    [f.name, d.name, s.number, s.name, s.cases, ", ".join(s.next_actions), "thin" if s.thin else ""]
                    for s in steps
                ]
        emit(doc, as_json, lambda: table(rows, ["family", "device", "step", "name", "cases", "next", ""]))


@app.command()
def show(
    cases: CasesFile,
    case: CaseId,
    picture: Annotated[Path | None, typer.Option(help="Also write the picture's file here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print one case, and write its picture if asked."""
    with open_base(cases) as base:
        found = base.get(case)
        if picture is not None:
            from sagehand.files import write_whole

            write_whole(picture, base.image(found.id))
        doc = case_doc(found)
        emit(doc, as_json, lambda: fields_text(doc))


@app.command()
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
            announce(f"two cases are called {renamed['old']}: one is {renamed['new']} now")
        for reason in done["left_out"]:
            announce(f"left out: {reason}")
        emit(done, as_json, f"{done['cases']} cases in {folder}")
    finish(1 if done["left_out"] else 0)


def _format(name: str, *more: str) -> Any:
    """A format that there is."""
    from sagehand.cases.table import FORMATS
    from sagehand.errors import UnknownName

    if name not in (*more, *FORMATS):
        raise UnknownName("format", name, (*more, *FORMATS))
    return name


def case_doc(case: Any) -> dict[str, Any]:
    """A case as plain data."""
    names = (
        "id",
        "family",
        "device",
        "step",
        "state",
        "previous_action",
        "history",
        "next_action",
        "remaining_actions",
        "is_last",
        "end_state",
        "group",
        "place",
        "polygon",
        "file_name",
        "has_depth",
        "retired",
    )
    doc = {name: getattr(case, name) for name in names}
    return {
        **doc,
        "box": list(case.box.as_tuple()) if case.box else None,
        "derived": sorted(case.derived),
        "extra": dict(case.extra),
    }


def _row(labels: list[str]) -> dict[str, Any]:
    from sagehand.errors import LabelError

    row: dict[str, Any] = {}
    for label in labels:
        key, equals, value = label.partition("=")
        if not equals or not key:
            raise LabelError(f"--set {label!r} is no KEY=VALUE", hint="as in --set next_action=pry")
        row[key] = _value(key, value)
    return row


def _value(key: str, text: str) -> Any:
    """JSON where it reads as a number, a list, true, false or null; else the text itself; nothing for an empty one."""
    from sagehand.errors import LabelError

    if text == "":
        return None
    try:
        return json.loads(text, parse_constant=lambda _: text)
    except json.JSONDecodeError:
        return text
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or lists thousands deep
        what = "nested too deeply" if isinstance(error, RecursionError) else "a number of too many digits"
        raise LabelError(f"--set {key}={text[:20]}… is {what}", hint="as in --set step=2") from None


def _label_check(actions: Path | None) -> Any:
    """The function that refuses labels outside an action library, if one was named."""
    from sagehand.action.labels import label_check

    library = library_at(actions)
    return label_check(library) if library else None


def _entry(entry: Any) -> dict[str, Any]:
    changes = {key: {"before": old, "after": new} for key, (old, new) in entry.changes().items()}
    return {
        "revision": entry.seq,
        "batch": entry.batch,
        "time": entry.time,
        "operation": entry.operation,
        "case": entry.case_id,
        "changes": changes,
        "reason": entry.reason,
        "undoes": entry.undoes,
    }


def _undone(entries: list[dict[str, Any]]) -> str:
    """A line for each change that was taken back; a long one, such as an import, in a single line."""
    lines = []
    for _, group in itertools.groupby(entries, key=lambda e: e["batch"]):
        batch = list(group)
        what = str(batch[0]["reason"]).removeprefix("undo of ")
        if len(batch) > 5:
            lines.append(f"took back {what} of {len(batch)} cases")
        else:
            lines += [f"took back {what} of {e['case'] or 'the tree'}" for e in batch]
    return "\n".join(lines)


def _words(changes: dict[str, Any]) -> str:
    if len(changes) > 3:
        return f"{len(changes)} fields"
    return ", ".join(f"{key}: {c['before']} → {c['after']}" for key, c in changes.items())
