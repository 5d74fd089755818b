"""``sagehand evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sagehand.cli.ask import AskBelow, PromptsFolder, Seconds
from sagehand.cli.common import (
    Actions,
    AsJson,
    CasesOption,
    announce,
    announce_warnings,
    emit,
    finish,
    progress,
    settings,
    table,
)
from sagehand.cli.model import BaseUrl, Model, open_vlm
from sagehand.cli.predictor import DomainLevel, Risk, open_predictor
from sagehand.errors import InputError

if TYPE_CHECKING:
    from sagehand.action.predict import Predictor
    from sagehand.vlm.ask import Vlm

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(evaluate)


def evaluate(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Labelled pictures with a metadata.jsonl or metadata.csv.")
    ],
    cases: CasesOption = None,
    actions: Actions = None,
    method: Annotated[str, typer.Option(help="single, guided or zero-shot. The last two need a VLM.")] = "single",
    base_url: BaseUrl = None,
    model: Model = None,
    ask_below: AskBelow = None,
    seconds: Seconds = None,
    prompts: PromptsFolder = None,
    cost: Annotated[
        bool, typer.Option("--estimate", help="Only say how many calls and tokens it would take; nothing is asked.")
    ] = False,
    risk: Risk = None,
    domain_level: DomainLevel = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write one JSON line for each picture.")] = None,
    as_json: AsJson = False,
) -> None:
    """Decide on every picture of a labelled folder as `predict` would, and score the decisions."""
    from sagehand.cli.learn import figures_text, write_items
    from sagehand.picture import Limits
    from sagehand.study.evaluate import evaluate as run

    set_ = settings(
        cases=cases,
        actions=actions,
        risk=risk,
        domain_level=domain_level,
        base_url=base_url,
        vlm_model=model,
        ask_below=ask_below,
        decision_seconds=seconds,
        prompts=prompts,
    )
    with (
        open_vlm(set_) as vlm,
        open_predictor(set_, log=False, vlm=vlm) as predictor,
        progress("evaluating") as say,
    ):
        announce_warnings(predictor.library)
        if cost:
            _tell_cost(folder, predictor, method, vlm, as_json)
            return
        limits = Limits(max_pixels=set_.max_pixels)
        report = run(folder, predictor, method=method, depth_unit=set_.depth_unit, limits=limits, on_progress=say)
    figures = report.figures
    for name, reason in report.failed:
        announce(f"{name}: {reason}")
    if figures["overlap"]:
        known = f"{figures['overlap']} of {figures['n']} pictures are in the case base, or almost, or their group is"
        announce(f"{known}: they do not show how new pictures fare; for those use `sagehand cases check {set_.cases}`")
    emit(figures, as_json, lambda: figures_text(figures))
    if out is not None:
        write_items(out, report.items)
    finish(1 if report.failed else 0)


def _tell_cost(folder: Path, predictor: Predictor, method: str, vlm: Vlm | None, as_json: bool) -> None:
    from dataclasses import asdict

    from sagehand.action.estimate import estimate
    from sagehand.cases import read_table

    if vlm is None:
        raise InputError("no model was named, so nothing would be paid", hint="add --base-url and --model")
    count = len(read_table(folder).rows)
    found = estimate(method, count, predictor.base.tree(), predictor.search, vlm.profile)
    rows = [
        ["at least", found.least.calls, found.least.prompt, found.least.completion],
        ["at most", found.most.calls, found.most.prompt, found.most.completion],
    ]
    doc = {"pictures": count, "method": method, "least": asdict(found.least), "most": asdict(found.most)}
    emit(doc, as_json, lambda: table(rows, [f"{count} pictures", "calls", "prompt tokens", "reply tokens"]))
