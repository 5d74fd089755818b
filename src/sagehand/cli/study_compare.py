"""``sagehand study compare``: paired tests between arms of one run or of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.common import AsJson, emit, table

if TYPE_CHECKING:
    from sagehand.study.report.comparison import Comparisons

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(compare)


def compare(
    arms: Annotated[list[str], typer.Argument(metavar="RUN:ARM...", help="Two arms or more, as out/run:nearest.")],
    task: Annotated[
        str,
        typer.Option(
            help="next_action, previous_action, remaining_actions, is_last, device_class; top1 (the case's device and "
            "step) or device (the case's device)."
        ),
    ] = "next_action",
    subset: Annotated[
        str | None, typer.Option(help="query, train, validation or test. Default: query and test.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare arms on the same items: McNemar, and Cochran's Q with Holm where there are more than two.

    Two arms print one comparison, in which the difference is the second less the first.
    """
    from sagehand.study.report.compare import compare_all

    found = compare_all(arms, task, subset=subset)
    doc = found.pairs[0].to_dict() if len(found.pairs) == 1 else found.to_dict()
    emit(doc, as_json, lambda: _text(found))


def _text(found: Comparisons) -> str:
    from sagehand.study.report.compare_words import notes

    pairs = [pair.to_dict() for pair in found.pairs]
    arms = [[side["name"], side["right"], side["n"], _share(side)] for side in (s.to_dict() for s in found.sides)]
    lines = [table(arms, ["arm", "right", "of", found.task.replace("_", " ")]), ""]
    if len(pairs) == 1:
        lines.append(pairs[0]["words"])
        if len(pairs[0]["per_seed"]) > 1:
            seeds = [[s["seed"], s["n"], *s["accuracy"], *_tested(s)] for s in pairs[0]["per_seed"]]
            names = [side.name for side in found.sides]
            header = ["seed", "items", *names, "difference", "only first", "only second", "p"]
            lines += ["", table(seeds, header)]
    else:
        rows = [
            [*(side["name"] for side in pair["arms"]), *_tested(pair), pair["p_holm"], pair["p_holm_by_cluster"]]
            for pair in pairs
        ]
        header = ["first", "second", "difference", "only first", "only second", "p", "Holm", "Holm, by step"]
        lines += [table(rows, header), "", found.words]
    told = notes(found)
    return "\n".join([*lines, "", *told] if told else lines)


def _share(side: dict[str, Any]) -> str:
    low, high = side["wilson95"]
    return f"{side['accuracy']:.3f} [{low:.3f}–{high:.3f}]"


def _tested(pair: dict[str, Any]) -> list[Any]:
    test = pair["mcnemar"]
    return [f"{pair['difference']:+.4f}", test["only_first"], test["only_second"], test["p_value"]]
