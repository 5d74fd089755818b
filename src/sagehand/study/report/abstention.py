"""The section on abstaining: risk against coverage, and whether certified risks held (SPEC C3)."""

from __future__ import annotations

from sagehand.study.report.cells import Cell, Number, Percent
from sagehand.study.report.load import Study
from sagehand.study.report.parts import Counterpart, Curves, Table
from sagehand.study.report.refs import ArmRecords
from sagehand.study.report.selective import bound_held, coverage_at, risk_coverage

__all__ = ["RISKS", "abstention", "certified"]

RISKS = (0.01, 0.05, 0.1)
"""Risks for which the best coverage is shown."""
_MOST_LINES = 8  # that can be told apart
_MOST_POINTS = 400  # of a line; more cannot be seen


def abstention(study: Study) -> Counterpart:
    """What an arm's confidence is worth: answer only from a confidence upwards, and what share of the answers is wrong."""
    rows: list[tuple[Cell, ...]] = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for arm in study.asked:
        curve = risk_coverage(study.of(arm))
        if not curve.points or curve.area is None or curve.area_best is None or curve.area_chance is None:
            continue
        if len(curve.points) < 2:  # the same confidence for every answer orders nothing
            continue
        reached = [coverage_at(curve, risk) for risk in RISKS]
        rows.append(
            (
                arm.name,
                curve.n,
                curve.without,
                Number(curve.area, 4),
                Number(curve.area_best, 4),
                Number(curve.area_chance, 4),
                *(Percent(point.coverage if point else 0.0) for point in reached),
            )
        )
        step = max(1, len(curve.points) // _MOST_POINTS)
        kept = [*curve.points[:-1:step], curve.points[-1]]
        lines[arm.name] = [(point.coverage, point.risk) for point in kept]
    header = (
        "arm",
        "items",
        "never covered",
        "area",
        "best order",
        "no order",
        *(f"coverage at {100 * risk:g} %" for risk in RISKS),
    )
    return Counterpart(
        "abstention",
        "",
        "Answering only when sure",
        table=Table(header, tuple(rows)) if rows else None,
        chart=Curves(
            dict(list(lines.items())[:_MOST_LINES]), "coverage: share of items answered", "risk: share of answers wrong"
        )
        if lines
        else None,
        missing="" if rows else "No arm of this run states confidences that differ from answer to answer.",
        notes=(
            "Area under the risk-coverage curve: less is better; “best order” puts every right answer first, “no order” is "
            "the risk of answering everything. Coverage at a risk is chosen with the truth in view: what could be reached, "
            "not what can be promised.",
            *((f"The first {_MOST_LINES} arms are drawn.",) if len(lines) > _MOST_LINES else ()),
        )
        if rows
        else (),
    )


_VERDICTS = {
    "nothing answered": "nothing was answered",
    "broken": "broken: even the lower bound lies above",
    "shown": "shown: the upper bound lies below",
    "held": "held, too few items to show it",
    "exceeded": "exceeded, within chance",
}


def certified(study: Study) -> Counterpart:
    """Whether the risks that arms were run with held on queries, pooled and seed by seed."""
    rows: list[tuple[Cell, ...]] = []
    for arm in study.asked:
        if arm.risk is None:
            continue
        records = ArmRecords(arm.name, arm.name, tuple(study.of(arm)), study.plan.protocol_of(arm), arm.risk)
        for held in bound_held(records):
            rows.append(  # noqa: PERF401
                (
                    arm.name,
                    "all" if held.seed is None else str(held.seed),
                    Percent(held.asked),
                    held.n,
                    held.answered,
                    held.wrong,
                    Percent(held.coverage),
                    None if held.risk is None else Percent(held.risk),
                    Percent(held.lower),
                    Percent(held.upper),
                    _VERDICTS.get(held.verdict, held.verdict),
                )
            )
    header = ("arm", "seed", "asked", "items", "answered", "wrong", "coverage", "risk", "low", "high", "verdict")
    return Counterpart(
        "certified-risk",
        "",
        "Certified risks on held-out queries",
        table=Table(header, tuple(rows)) if rows else None,
        missing=""
        if rows
        else "No arm was run with a risk. To see whether a bound holds, set `risk: 0.05` in an arm and `certify:` in the plan.",
        notes=(
            "Low and high: one-sided 95 % Clopper–Pearson bounds of the risk. They take answers as independent: views of a "
            "step are not, and over all seeds pictures come again, so they are too narrow. A query that failed stays in the "
            "coverage as not answered.",
        )
        if rows
        else (),
    )
