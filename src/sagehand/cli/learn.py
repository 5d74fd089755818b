"""``sagehand cases check | calibrate | reembed``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.common import (
    Actions,
    AsJson,
    CasesFile,
    announce,
    announce_warnings,
    emit,
    finish,
    library_at,
    open_base,
    progress,
    settings,
    table,
)
from sagehand.cli.model import BaseUrl, Model, crop_judge

if TYPE_CHECKING:
    from sagehand.cases import CaseBase
    from sagehand.judge.calibration import Calibration
    from sagehand.judge.leaveout import LeaveOut
    from sagehand.settings import Settings

__all__ = ["figures_text", "register", "write_items"]

LeaveOutOption = Annotated[str, typer.Option("--leave-out", help="case (with near-duplicates and group) or device.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    app.command()(check)
    app.command()(calibrate)
    app.command()(reembed)


def check(
    cases: CasesFile,
    actions: Actions = None,
    leave_out: LeaveOutOption = "case",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write one JSON line for each case.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Without ablation and shuffled control.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer every case without itself and score the answers; list labels that the action library contradicts."""
    from sagehand.study.check import check as run
    from sagehand.study.check import leave_out_of

    library = library_at(actions or settings().actions)
    announce_warnings(library)
    with open_base(cases) as base:
        report = run(
            base.index(),
            library,
            leave_out=leave_out_of(leave_out),
            ablate=not quick,
            shuffles=0 if quick else 20,
        )
    emit(report.figures, as_json, lambda: figures_text(report.figures))
    if out is not None:
        write_items(out, report.items)


def calibrate(
    cases: CasesFile,
    leave_out: Annotated[
        str | None,
        typer.Option(
            "--leave-out", help="case (with near-duplicates and group) or device. Default: as before; case at first."
        ),
    ] = None,
    certify_with: Annotated[
        Path | None,
        typer.Option(
            "--certify-with",
            metavar="FOLDER",
            help="Labelled pictures outside the case base, whose answers certify risks in place of the left-out ones.",
        ),
    ] = None,
    depth_unit: Annotated[
        str | None, typer.Option(help="m, mm or um: unit of integer depth images. [setting: depth_unit]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn how much each kind of evidence counts, by leaving out, and store it with the case base."""
    from sagehand.judge.calibration import OUTSIDE, Calibration
    from sagehand.recall.build import calibrate as run
    from sagehand.study.check import leave_out_of

    failed = 0
    with open_base(cases) as base:
        stored = base.calibration()
        before = Calibration.from_dict(stored or {})
        learnt = run(base, None if leave_out is None else leave_out_of(leave_out))
        if certify_with is not None:
            try:
                learnt, failed = _certified(base, certify_with, learnt.leave_out, settings(depth_unit=depth_unit))
            except BaseException:  # Ctrl-C too: what certified before still does
                base.set_calibration(stored)
                raise
        elif before.answers_from == OUTSIDE:
            announce(
                "risks were certified by pictures outside the case base; now they are by the cases left out "
                "(give --certify-with again)"
            )
    weights = learnt.to_dict()["weights"]
    doc = {
        "leave_out": learnt.leave_out,
        "queries": learnt.queries,
        "accuracy": learnt.accuracy,
        "weights": weights,
        "certified_by": _certifying(learnt),
        "revision": learnt.revision,
        "seconds": learnt.seconds,
    }
    emit(doc, as_json, lambda: table([[k, v] for k, v in doc.items()], ["field", "value"]))
    finish(1 if failed else 0)


def _certified(base: CaseBase, folder: Path, leave_out: LeaveOut, set_: Settings) -> tuple[Calibration, int]:
    """The calibration with the answers of a folder's pictures, and how many rows could not be used."""
    from sagehand.action.certify import certify_items, certify_on
    from sagehand.picture import Limits

    items, left = certify_items(folder, leave_out)
    failed = list(left)
    with crop_judge(set_, base.crop) as judge, progress("answering") as report:
        learnt = certify_on(
            base,
            items,
            judge=judge,
            depth_unit=set_.depth_unit,
            limits=Limits(max_pixels=set_.max_pixels),
            on_refused=lambda item, why: announce(f"{item.key}: certifies nothing: {why}"),
            on_failed=lambda item, why: failed.append((item.key, why)),
            on_progress=report,
        )
    for name, why in failed:
        announce(f"{folder}: {name}: {why.removeprefix(f'{Path(name).name}: ')}")
    return learnt, len(failed)


def _certifying(learnt: Calibration) -> dict[str, Any]:
    """Whose answers certify, and the smallest risk that they can."""
    from sagehand.judge.risk import certify

    return {
        "answers_from": learnt.answers_from,
        "answers": len(learnt.answers),
        "units": len({a.unit for a in learnt.answers}),
        "refused": learnt.refused,
        "smallest_risk": certify(learnt.answers, 0.05).smallest,
    }


def reembed(
    cases: CasesFile,
    embedder: Annotated[str | None, typer.Option(help="The new embedder; see `sagehand embedders`.")] = None,
    crop: Annotated[
        str | None, typer.Option(help="The new crop: none, perceptual, relief, truth, grid or box.")
    ] = None,
    base_url: BaseUrl = None,
    model: Model = None,
    as_json: AsJson = False,
) -> None:
    """Embed all cases anew, with another embedder or crop, or with a newer version of the same. All or nothing."""
    from sagehand.picture import Limits
    from sagehand.recall.build import reembed as run

    set_ = settings(base_url=base_url, vlm_model=model)
    limits = Limits(max_pixels=set_.max_pixels)
    with open_base(cases) as base:
        with crop_judge(set_, crop or base.crop) as judge, progress("embedding") as report:
            count = run(base, embedder=embedder, crop=crop, limits=limits, judge=judge, on_progress=report)
        doc = {"cases": count, "embedder": str(base.embedder), "crop": base.crop}
        emit(doc, as_json, f"{count} cases embedded by {base.embedder}, crop {base.crop}")


def write_items(path: Path, items: Any) -> None:
    """One JSON line an item."""
    from sagehand.files import write_whole

    write_whole(path, "".join(json.dumps(i.to_dict(), ensure_ascii=False) + "\n" for i in items).encode())
    announce(f"{len(items)} items in {path}")


def figures_text(figures: dict[str, Any]) -> str:
    """The figures as a table, with the simple methods beside."""
    from sagehand.study.score import ARMS, p_text

    def cell(share: dict[str, Any] | None) -> str:
        if share is None or share["accuracy"] is None:
            return "—"
        low, high = share["wilson95"]
        return f"{share['accuracy']:.3f} [{low:.3f}–{high:.3f}]"

    rows = [
        [
            "sagehand",
            cell(figures["next_action"]),
            cell(figures["device"]),
            cell(figures["step"]),
            figures["mean_rank"],
            "",
        ]
    ]
    for arm in ARMS:
        doc, found = figures[arm], figures["discordant"][arm]
        only = f"+{found['only_sagehand']} −{found[f'only_{arm}']}, {p_text(found['p_value'])}"
        rows.append(
            [
                arm.replace("_", " "),
                cell(doc["next_action"]),
                cell(doc.get("device")),
                cell(doc.get("step")),
                doc.get("mean_rank"),
                only,
            ]
        )
    lines = [
        f"{figures['n']} labelled cases, {figures['answered']} answered, {figures['out_of_domain']} out of domain",
        table(rows, ["", "next action", "device", "device and step", "mean rank", "sagehand against it"]),
    ]
    if figures["mean_rank"] is not None:
        lines.append(f"rank of the first case with {figures['rank_of']}; {figures['unranked']} have none")
    if "leave_out" in figures:
        lines.append(
            f"majority counts without the query's own {figures['leave_out']}, which makes the query's own action the rarer "
            "one: where actions are even it falls below chance"
        )
    if "ablation" in figures:
        lines += [
            "",
            "without the guard, by evidence:",
            table([[k, cell(v)] for k, v in figures["ablation"].items()], ["evidence", "next action"]),
        ]
    if "control" in figures:
        c = figures["control"]
        lines.append(
            f"\nthe previous action adds {c['gain']:+.3f} over the rest of the evidence; shuffled among the cases "
            f"{c['gain_shuffled_mean']:+.3f} ({c['shuffles']} shuffles, {p_text(c['p_value'])})"
        )
    if figures.get("conflicts"):
        lines += ["", "labels that the action library contradicts:", *figures["conflicts"]]
    return "\n".join(lines)
