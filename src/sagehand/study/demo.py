"""The demo: the packaged cell becomes a case base, and one picture that is not in it is decided on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sagehand.action.decision import Decision, Known
from sagehand.action.page import write_page
from sagehand.action.predict import Predictor
from sagehand.demo import cell_folder
from sagehand.recall.build import build

__all__ = ["DEMO_QUERY", "Shown", "run"]

DEMO_QUERY = {"device": "fumonic", "step": 3}
"""The query of the demo, chosen before any was run: the paper's hard place, before the battery's contacts are cut."""


@dataclass(frozen=True)
class Shown:
    """What the demo did.

    Attributes:
        decision: The decision.
        truth: The next action on the query's label, which sagehand did not see.
        told: What was imported and asked, in a sentence.
        page: The decision page.
        cases: The case base.
    """

    decision: Decision
    truth: str
    told: str
    page: Path
    cases: Path


def run(out: Path, *, on_progress: Callable[[int, int], None] | None = None) -> Shown:
    """Build the demo's case base (what is there is not done twice) and decide.

    Args:
        out: Folder for the case base and the page.
        on_progress: Called with (done, all) while importing.
    """
    cell = cell_folder()
    cases = out / "demo.cases"
    report = build(cell, cases, on_progress=on_progress)
    rows = [json.loads(line) for line in (cell / "queries" / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]
    query = next(row for row in rows if all(row.get(key) == value for key, value in DEMO_QUERY.items()))
    picture = cell / "queries" / query["file_name"]
    known = Known(previous=query["previous_action"], place=query["place"])
    page = out / "decision.html"
    with Predictor.open(cases, cell / "actions.yaml") as predictor:
        decision = predictor.predict(picture, known)
        write_page(page, decision, predictor.base, picture)
    told = (
        f"{report['cases']} cases are in the case base; asked about a picture that is not: "
        f"{query['device']}, {query['place']}, previous action {query['previous_action']}"
    )
    return Shown(decision, query["next_action"], told, page, cases)
