"""``sagehand decisions …``: the decision log of a case base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sagehand.cli.common import AsJson, CasesFile, announce, emit, fields_text, open_base, table
from sagehand.cli.predict import decision_text

__all__ = ["app"]

app = typer.Typer(
    help="Look at the decisions that a case base has logged.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(
    cases: CasesFile,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    object_id: Annotated[str | None, typer.Option("--object", help="Of this object only.")] = None,
    as_json: AsJson = False,
) -> None:
    """List decisions, newest first."""
    with open_base(cases) as base:
        docs = base.decisions(limit=limit, object_id=object_id)
    keys = ("decision", "created", "object_id", "next_action", "abstained", "confidence", "reason")
    short = [{**{k: d.get(k) for k in keys}, "query": (d.get("query") or {}).get("name")} for d in docs]
    rows = [
        [
            d["decision"],
            d["created"],
            d["query"],
            d["next_action"] or "ask the operator",
            d["confidence"],
            d["object_id"],
        ]
        for d in short
    ]
    emit(short, as_json, lambda: table(rows, ["id", "time", "picture", "answer", "confidence", "object"]))


@app.command()
def show(
    cases: CasesFile,
    number: Annotated[int, typer.Argument(metavar="ID", help="The decision's id.")],
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the decision page (HTML).")] = None,
    as_json: AsJson = False,
) -> None:
    """Print one decision, or write its page again."""
    with open_base(cases) as base:
        doc = base.decision(number)
        if report is not None:
            from sagehand.action.page import write_logged_page

            write_logged_page(report, doc, base)
            announce(f"page: {report}")
    # another program may have logged what it likes: only what predict logs has a text of its own
    ours = {"candidates", "judge", "valid_actions"} <= doc.keys()
    emit(doc, as_json, lambda: decision_text(doc) if ours else fields_text(doc))
