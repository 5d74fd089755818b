"""``sagehand study render | split``: data sets; ``record`` has a file of its own."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli import study_record
from sagehand.cli.common import AsJson, announce, emit, finish, progress, table

if TYPE_CHECKING:
    from sagehand.study.dataset.sample import StudyData
    from sagehand.study.dataset.split import Fold, Split

__all__ = ["register"]

_SHOWN = 20  # devices in the text; --json has them all


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    app.command()(render)
    app.command()(split)
    study_record.register(app)


def render(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder; run again to go on after a stop.")],
    images: Annotated[int, typer.Option(help="Pictures in all, spread evenly over the steps.")] = 196,
    per_step: Annotated[int | None, typer.Option(help="Pictures of each step, in place of --images.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other pictures.")] = 1,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="As kalo,qundis, or random:20 for devices that nobody has seen. Default: all six."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one a processor.")] = None,
    as_json: AsJson = False,
) -> None:
    """Render the data set: devices being taken apart, with depth, outline and labels. Needs MuJoCo and a GL driver."""
    from sagehand.study.dataset.render import render_study

    try:
        with progress("rendering") as report:
            done = render_study(
                out, images=images, per_step=per_step, seed=seed, devices=devices, jobs=jobs, on_progress=report
            )
    except KeyboardInterrupt:
        announce("stopped; what was rendered is kept. Run the same command again to go on")
        finish(130)
        return
    doc = done.to_dict()

    def text() -> str:
        rows: list[list[Any]] = [[name, count] for name, count in islice(done.devices.items(), _SHOWN)]
        if len(done.devices) > _SHOWN:
            rows.append([f"… and {len(done.devices) - _SHOWN} more", None])
        return (
            f"{done.images} pictures of {done.steps} steps in {done.folder}: {done.made} rendered, {done.kept} there already"
            f"\n{done.images_per_second:.1f} pictures a second\ndigest {done.digest}\n\n{table(rows, ['device', 'pictures'])}"
        )

    emit(doc, as_json, text)


def split(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Labelled pictures with a metadata.jsonl.")],
    per_step: Annotated[int, typer.Option(help="Pictures of each step for the retrieval base.")] = 2,
    seed: Annotated[int, typer.Option(help="Another seed, another draw.")] = 0,
    certify: Annotated[int, typer.Option(help="Pictures of each step kept apart to certify a risk.")] = 0,
    folds: Annotated[int | None, typer.Option(help="Also make so many folds by device, about 70/10/20.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also write the split as JSON.")] = None,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR2", help="Also copy the base into a new folder, for `cases import`."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw the retrieval base: two pictures of each step, by a seed; near-duplicates (group) stay on one side."""
    from sagehand.files import write_whole
    from sagehand.study.dataset.sample import StudyData
    from sagehand.study.dataset.split import device_folds
    from sagehand.study.dataset.split import split as draw
    from sagehand.study.dataset.subset import write_subset

    data = StudyData.load(folder)
    for name, reason in data.problems:
        announce(f"{folder}: {name}: left out: {reason}")
    done = draw(data.samples, per_step, seed, certify)
    made = device_folds([(s.family, s.device) for s in data.samples], folds, seed) if folds is not None else []
    doc = _split_doc(data, done, made, per_step=per_step, seed=seed)
    for step in done.short:
        announce(
            f"{step.device}, {'no step' if step.step is None else f'step {step.step}'}: {step.images} pictures: "
            f"{step.base} in the base, {step.query} left to ask about"
        )
    if into is not None:
        write_subset(data, done.base, into)
        doc["into"] = str(into)
    if out is not None:
        write_whole(out, (json.dumps(doc, indent=2, ensure_ascii=False) + "\n").encode())
    emit(doc, as_json, lambda: _split_text(doc))


def _split_doc(
    data: StudyData, done: Split, folds: list[Fold[tuple[str, str]]], *, per_step: int, seed: int
) -> dict[str, Any]:
    sides = done.to_dict()
    counts = {name: len(keys) for name, keys in sides.items() if name != "short"}
    doc = {"folder": str(data.folder), "digest": data.digest, "per_step": per_step, "seed": seed, "counts": counts}
    if folds:
        names = ("train", "validation", "test")
        doc["folds"] = [{name: [device for _, device in getattr(fold, name)] for name in names} for fold in folds]
    return doc | sides


def _split_text(doc: dict[str, Any]) -> str:
    names = {
        "base": "in the base",
        "certify": "to certify",
        "query": "to ask about",
        "aside": "aside: a near-duplicate stands on a side",
    }
    lines = [f"{doc['counts'][name]} {what}" for name, what in names.items() if doc["counts"][name] or name == "base"]
    if doc["short"]:
        count = len(doc["short"])
        lines.append(f"{count} {'step has' if count == 1 else 'steps have'} too few pictures")
    if "folds" in doc:
        rows = [
            [n, *(", ".join(fold[k]) for k in ("train", "validation", "test"))] for n, fold in enumerate(doc["folds"])
        ]
        lines += ["", table(rows, ["fold", "train", "validation", "test"])]
    return "\n".join(lines)
