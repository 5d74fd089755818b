"""``sagehand decisions …``: the decision log of a case base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sagehand.cli.common import (
    Actions,
    AsJson,
    CasesFile,
    announce,
    emit,
    fields_text,
    finish,
    library_at,
    open_base,
    settings,
    table,
)
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


@app.command()
def replay(
    cases: CasesFile,
    numbers: Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="The decisions' ids.")] = None,
    last: Annotated[int | None, typer.Option(min=1, metavar="N", help="The last N decisions, in place of ids.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every decision, in place of ids.")] = False,
    as_of: Annotated[
        str, typer.Option("--as-of", help="decision: against the cases as they were. now: as they are.")
    ] = "decision",
    actions: Actions = None,
    as_json: AsJson = False,
) -> None:
    """Run logged decisions again, and say what is the same; nothing is logged. What a model said is not asked again.

    Exit code 1: a decision could not be replayed, or came out otherwise against the cases as they were.
    """
    from sagehand.action.replay import AS_OF, Replayer
    from sagehand.errors import InputError, StoreError, UnknownName

    if as_of not in AS_OF:
        raise UnknownName("--as-of", as_of, AS_OF)
    if bool(numbers) + (last is not None) + all_ != 1:
        raise InputError("name the decisions: ids, or --last N, or --all", hint="one of the three, as in --last 10")
    library = library_at(actions or settings().actions)
    docs: list[dict[str, Any]] = []
    failed = 0
    with open_base(cases) as base:
        chosen = numbers or sorted(d["decision"] for d in base.decisions(limit=None if all_ else last))
        if not chosen:
            raise InputError(f"{cases}: no decision is logged", hint="predict with --cases, without --no-log")
        again = Replayer(base, library)
        for number in chosen:
            try:
                docs.append(again.replay(number, as_of).to_dict())
            except (InputError, StoreError) as error:
                if error.retryable:
                    raise
                failed += 1
                announce(f"decision {number}: {str(error).removeprefix(f'decision {number} ')}")
    if docs or not failed:
        emit(docs, as_json, lambda: _replays_text(docs))
    other = as_of == "decision" and any(doc["same"] is False for doc in docs)
    finish(2 if not docs else 1 if failed or other else 0)


def _replays_text(docs: list[dict[str, Any]]) -> str:
    words = {True: "same", False: "different", None: "not replayed"}
    rows = [
        [
            doc["decision"],
            doc["revision"],
            words[doc["same"]],
            "recall only" if doc["part"] == "recall" else "",
            _answer(doc["logged"]),
            _answer(doc["replayed"]),
        ]
        for doc in docs
    ]
    lines = [table(rows, ["id", "revision", "", "", "answer then", "answer in the replay"])]
    for doc in docs:
        lines += [f"decision {doc['decision']}: {line}" for line in (*doc["differences"], *doc["why"])]
        lines += [f"decision {doc['decision']}: note: {line}" for line in doc["limits"]]
    same = sum(doc["same"] is True for doc in docs)
    return "\n".join([*lines, f"{same} of {len(docs)} the same"])


def _answer(told: dict[str, Any] | None) -> str:
    if told is None or "next_action" not in told:
        return ""
    sure = "" if told["confidence"] is None else f" {told['confidence']:.2f}"
    return f"{told['next_action'] or 'ask the operator'}{sure}"
