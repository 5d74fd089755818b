"""``sagehand study …``: a data set, a run of methods on it, a report, comparisons. The commands are in files of their own."""

from __future__ import annotations

import typer

from sagehand.cli import study_compare, study_data, study_learn, study_report, study_run

__all__ = ["app"]

app = typer.Typer(
    name="study",
    help="Reproduce, ablate and extend the papers' experiments: data sets, methods, runs, reports.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for part in (study_data, study_run, study_report, study_compare, study_learn):
    part.register(app)
