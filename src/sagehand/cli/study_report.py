"""``sagehand study report``: the page of a run, with its tables and figures beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sagehand.cli.common import AsJson, announce, emit, progress, table

if TYPE_CHECKING:
    from sagehand.study.report.build import ReportFiles

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(report)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The page; tables and figures go into the folder of its name without .html. Default: RUN/report.html.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The labelled pictures, for galleries and counts. Default: where the run found them."
        ),
    ] = None,
    main: Annotated[
        str | None,
        typer.Option(metavar="ARM", help="The arm the report is about. Default: of the method that does most."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write one page: every table and figure of paper A by number, the paper's figures beside, and the failures."""
    from sagehand.study.report.build import write_report

    with progress("reporting") as told:
        done = write_report(run, out or run / "report.html", data=data, main=main, on_progress=told)
    for warning in done.warnings:
        announce(f"warning: {warning}")
    emit(done.to_dict(), as_json, lambda: _text(done))


def _text(done: ReportFiles) -> str:
    lines = [f"{done.page}, and {len(done.files)} tables and figures in {done.page.with_suffix('')}"]
    if done.arms:
        lines += ["", table(list(done.arms.items()), ["arm", "items"])]
    if done.missing:
        lines += [
            "",
            "not in this run, not possible in it, or shown by what stands nearest:",
            *(f"  {k}: {v}" for k, v in done.missing.items()),
        ]
    return "\n".join(lines)
