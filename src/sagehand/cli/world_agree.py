"""``sagehand world agree``: the same grasps by statics and in physics, and how often the two say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sagehand.cli.common import AsJson, announce, emit, progress
from sagehand.cli.world_picture import RobotOption
from sagehand.errors import InputError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(agree)


def agree(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Records and summary; it is gone on with where it is there.")
    ],
    grasps: Annotated[int, typer.Option(metavar="N", min=1, help="Grasps, spread from good to hopeless.")] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Draws objects, poses and grasps.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes at once; by default one a processor.")
    ] = None,
    objects: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Only these: objects, object/instance, groups, or files.")
    ] = None,
    robot: RobotOption = "panda",
    pictures: Annotated[
        int, typer.Option(metavar="N", min=0, help="Pictures of the worst disagreements; 0 needs no renderer.")
    ] = 12,
    resume: Annotated[
        bool,
        typer.Option("--resume/--no-resume", help="Go on with what DIR holds, or refuse a DIR that holds records."),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Measure how often statics and physics agree on a grasp.

    Written are one record a grasp, a summary with the confusion of failures and the ROC of the quality Q, and pictures
    of the worst disagreements. Run it again to go on after a stop.
    """
    from sagehand.world.agree.run import run_agreement

    names = None if objects is None else [n.strip() for n in objects.split(",") if n.strip()]
    if names == []:
        raise InputError(f"--objects is {objects!r}", hint="write names with commas between, as in cup,apple")
    with progress("grasps") as told:
        report = run_agreement(
            out,
            grasps=grasps,
            seed=seed,
            jobs=jobs,
            objects=names,
            robot=robot,
            pictures=pictures,
            resume=resume,
            on_progress=told,
        )
    for note in report.notes:
        announce(note)
    emit(report.to_dict(), as_json, lambda: str(report.summary))
