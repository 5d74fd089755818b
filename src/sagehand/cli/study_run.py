"""``sagehand study run``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.common import AsJson, announce, emit, finish, settings, table
from sagehand.cli.model import BaseUrl, Model, open_vlm
from sagehand.errors import InputError

if TYPE_CHECKING:
    from sagehand.study.run.runner import Progress

__all__ = ["register", "report_text"]


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(run)


def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan (YAML), as examples/study-offline.yaml.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The run folder; it is gone on with where it is there.")],
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The labelled pictures, over the plan's; {seed} in it stands for the seed."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Items asked at once.")] = 1,
    seeds: Annotated[str | None, typer.Option(metavar="0,1,…", help="Only these seeds of the plan.")] = None,
    arms: Annotated[str | None, typer.Option(metavar="A,B,…", help="Only these arms of the plan.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask items again whose answer failed or that could not be answered.")
    ] = False,
    base_url: BaseUrl = None,
    model: Model = None,
    as_json: AsJson = False,
) -> None:
    """Run a study, one record an item. Run it again to go on after a stop: what is answered is not asked twice.

    Exit code 1 says that items failed or could not be answered; they are in the records, and count as wrong.
    """
    from sagehand.study.run.plan import Plan
    from sagehand.study.run.runner import RunInterrupted, run_study

    wanted = Plan.load(plan)
    told = wanted.vlm.settings()
    given = {"base_url": base_url, "vlm_model": model}
    flags = {**told, **{name: value for name, value in given.items() if value is not None}}
    set_ = settings(**flags)
    interrupted = False
    with _bar() as report:
        try:
            done = run_study(
                wanted,
                out,
                data=data,
                jobs=jobs,
                vlm=lambda name: open_vlm(set_ if name is None else settings(**{**flags, "vlm_model": name})),
                settings=set_,
                only=_listed("--arms", arms),
                seeds=_seeds(seeds),
                retry_failed=retry_failed,
                on_progress=report,
                on_note=announce,
            )
        except RunInterrupted as stop:
            done, interrupted = stop.report, True
    if interrupted:
        announce(f"stopped; {done.missing} items are missing. Run the same command again to go on")
    doc = done.to_dict()
    emit(doc, as_json, lambda: report_text(doc))
    failed = any(told["failures"] or told["errors"] for told in _all_told(doc))
    finish(130 if interrupted else 1 if failed or done.missing else 0)


def report_text(doc: dict[str, Any]) -> str:
    """What a run did, for a terminal."""
    header = ["arm", "n", "right", "next action", "abstained", "failures", "errors", "seconds", "calls", "tokens"]
    names = ["n", "right", "accuracy", *header[4:]]
    rows = [[name, *(arm[field] for field in names)] for name, arm in doc["arms"].items()]
    lines = [table(rows, header), f"{doc['answered']} items answered now, {doc['missing']} missing"]
    if any(told["failures"] or told["errors"] for told in _all_told(doc)):
        lines.append("failures and errors count as wrong; ask again with --retry-failed")
    return "\n".join([*lines, f"run: {doc['folder']}"])


def _all_told(doc: dict[str, Any]) -> list[dict[str, Any]]:
    """What each arm adds up to, and beside it what a trained one was asked of its training and validation devices."""
    arms = doc["arms"].values()
    return [*arms, *(subset for arm in arms for subset in arm.get("subsets", {}).values())]


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None] | None]:
    """A bar with the time left on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("study", total=None)

        def report(progress: Progress) -> None:
            bar.update(task, description=progress.unit, completed=progress.done, total=progress.total)

        yield report


def _listed(flag: str, text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{flag} {text!r} names nothing", hint="give names with commas between")
    return names


def _seeds(text: str | None) -> list[int] | None:
    names = _listed("--seeds", text)
    try:
        return None if names is None else [int(name) for name in names]
    except ValueError:
        raise InputError(f"--seeds {text!r} is not whole numbers", hint="as in --seeds 0,1") from None
