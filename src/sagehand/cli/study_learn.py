"""``sagehand study export-chat``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sagehand.cli.common import Actions, AsJson, announce, emit, library_at, progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    app.command("export-chat")(export_chat)


def export_chat(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Labelled pictures with a metadata.jsonl.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The JSONL.")],
    part: Annotated[
        str,
        typer.Option(
            "--split", metavar="PART", help="all; base or query of the draw; train, validation or test of --fold."
        ),
    ] = "all",
    fold: Annotated[int, typer.Option(min=0, help="Which of the folds by device, from 0.")] = 0,
    folds: Annotated[int, typer.Option(min=2, help="Folds by device.")] = 5,
    per_step: Annotated[int, typer.Option(min=1, help="Pictures of each step in the base.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw and of the folds.")] = 0,
    crop: Annotated[str, typer.Option(help="none, perceptual or truth; a cut picture is written as PNG.")] = "none",
    guard: Annotated[bool, typer.Option(help="Offer only the actions that are possible by what is known.")] = True,
    previous: Annotated[bool, typer.Option(help="Tell the previous action.")] = True,
    place: Annotated[bool, typer.Option(help="Tell the place.")] = True,
    actions: Actions = None,
    as_json: AsJson = False,
) -> None:
    """Write labelled pictures as chat JSONL, to fine-tune a vision-language model elsewhere.

    Each line asks what the zero-shot method of a study asks, and answers with the labels, as one call in sagehand's wire format.
    """
    from sagehand.study.dataset.sample import StudyData
    from sagehand.study.learn.dialogue import Teacher
    from sagehand.study.learn.dialogue import export_chat as run
    from sagehand.study.learn.parts import part_of, teaching_bench

    data = StudyData.load(folder)
    for name, reason in data.problems:
        announce(f"{folder}: {name}: left out: {reason}")
    samples = part_of(data.samples, part, fold=fold, folds=folds, per_step=per_step, seed=seed)
    library = library_at(actions or data.actions)
    teacher = Teacher(teaching_bench(library, crop=crop, guard=guard, previous=previous, place=place))
    try:
        with progress("exporting") as report:
            done = run(samples, teacher, out, on_progress=report)
    finally:
        teacher.close()
    for _, reason in done.problems:
        announce(f"left out: {reason}")

    def text() -> str:
        beside = f"; {done.pictures} cut pictures beside it" if done.pictures else ""
        return f"{done.written} dialogues in {done.file}{beside}"

    emit(done.to_dict(), as_json, text)
