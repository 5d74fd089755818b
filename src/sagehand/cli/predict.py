"""``sagehand predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.ask import (
    AskBelow,
    Calls,
    Faithful,
    Guard,
    PromptsFolder,
    SearchOption,
    Seconds,
    Tokens,
    search_params,
)
from sagehand.cli.common import (
    Actions,
    AsJson,
    CasesOption,
    announce,
    emit,
    finish,
    settings,
)
from sagehand.cli.decision_text import decision_text
from sagehand.cli.model import BaseUrl, Model, open_vlm
from sagehand.cli.predictor import DomainLevel, Risk, open_predictor
from sagehand.errors import InputError, PictureError

if TYPE_CHECKING:
    from sagehand.action.decision import Decision, Known
    from sagehand.action.predict import Predictor
    from sagehand.picture import Box

__all__ = ["decision_text", "register"]

AllowOwn = Annotated[bool, typer.Option("--allow-own", help="The query's own picture may be recalled.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(predict)


def predict(
    picture: Annotated[Path, typer.Argument(metavar="PICTURE", help="An image, or a folder of images.")],
    cases: CasesOption = None,
    actions: Actions = None,
    previous: Annotated[
        str | None, typer.Option(help="The action that led here; none when nothing was done yet.")
    ] = None,
    history: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="All actions so far, oldest first, from the start.")
    ] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(metavar="FACT", help="A fact that is known: 'battery_in' or 'not battery_in'; repeat it."),
    ] = None,
    previous_failed: Annotated[
        bool, typer.Option("--previous-failed", help="The previous action was tried and did not work.")
    ] = False,
    family: Annotated[str | None, typer.Option(help="The device's family, when known.")] = None,
    place: Annotated[str | None, typer.Option(help="Where the device sits, when known.")] = None,
    object_id: Annotated[
        str | None,
        typer.Option(
            "--object",
            help="Any name for the object in hand; the same answer three times in a row then asks the operator.",
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="single: the best case; guided: the case a VLM finds; zero-shot: no case. The last two need a VLM."
        ),
    ] = "single",
    base_url: BaseUrl = None,
    model: Model = None,
    ask_below: AskBelow = None,
    seconds: Seconds = None,
    calls: Calls = None,
    tokens: Tokens = None,
    guard: Guard = "on",
    search: SearchOption = None,
    faithful: Faithful = False,
    prompts: PromptsFolder = None,
    risk: Risk = None,
    domain_level: DomainLevel = None,
    box: Annotated[
        str | None, typer.Option(metavar="X,Y,W,H", help="The crop, in pixels, for a base of crop truth.")
    ] = None,
    depth: Annotated[Path | None, typer.Option(help="The depth image.")] = None,
    depth_unit: Annotated[str | None, typer.Option(help="m, mm or um. [setting: depth_unit]")] = None,
    allow_own: AllowOwn = False,
    no_log: Annotated[bool, typer.Option("--no-log", help="Do not write the decision into the case base.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the decision page (HTML); a folder for a folder of images."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say the next action for a picture, with the case it leans on, or that the operator must be asked."""
    from sagehand.action.decision import Known
    from sagehand.picture import Limits

    set_ = settings(
        cases=cases,
        actions=actions,
        risk=risk,
        domain_level=domain_level,
        depth_unit=depth_unit,
        base_url=base_url,
        vlm_model=model,
        ask_below=ask_below,
        decision_seconds=seconds,
        prompts=prompts,
    )
    if base_url is not None and set_.vlm_model is None:
        raise InputError("no model was named", hint="add --model NAME; `sagehand vlm probe` lists what a server has")
    known = Known(
        previous=previous,
        history=_names(history),
        facts=tuple(fact or ()),
        previous_failed=previous_failed,
        family=family,
        place=place,
        object_id=object_id,
    )
    limits = Limits(max_pixels=set_.max_pixels)
    options: dict[str, Any] = {"method": method, "allow_own": allow_own, "box": _box(box), "limits": limits}
    if depth is not None:
        options |= {"depth": depth, "depth_unit": set_.depth_unit}
    asking = {
        "calls": calls,
        "tokens": tokens,
        "guard": guard,
        "search": search_params(search or (), faithful, set_.vlm_concurrency),
    }
    with open_vlm(set_) as vlm, open_predictor(set_, log=not no_log, vlm=vlm, **asking) as predictor:
        if picture.is_dir():
            if depth is not None or box is not None:
                raise InputError("--depth and --box are for one picture", hint=f"{picture} is a folder")
            finish(_folder(picture, predictor, known, options, report, as_json))
            return
        if box is not None and predictor.base.crop != "truth":
            raise InputError(
                f"--box is for a case base of crop truth; {set_.cases} was built with crop {predictor.base.crop}",
                hint="leave it out",
            )
        _one(picture, predictor, known, options, report, as_json)


def _one(
    picture: Path, predictor: Predictor, known: Known, options: dict[str, Any], report: Path | None, as_json: bool
) -> None:
    """Decide on one picture, and tell it."""
    decision = predictor.predict(picture, known, **options)
    doc = decision.to_dict()
    emit(doc, as_json, lambda: decision_text(doc))
    if report is not None:
        from sagehand.action.page import write_page
        from sagehand.picture import load

        write_page(report, decision, predictor.base, load(picture, limits=options["limits"]))
        announce(f"page: {report}")


def _folder(
    folder: Path, predictor: Predictor, known: Known, options: dict[str, Any], report: Path | None, as_json: bool
) -> int:
    """Decide on every image of a folder; a file that cannot be used is reported and the rest go on."""
    from sagehand.cases import image_files

    names = image_files(folder)
    if not names:
        raise InputError(f"{folder}: there is no image in this folder", hint="give an image, or a folder of images")
    results: list[tuple[str, Decision | str]] = []
    for name in names:
        try:
            decision = predictor.predict(folder / name, known, **options)
        except PictureError as error:
            reason = str(error).removeprefix(f"{Path(name).name}: ")
            announce(f"{name}: {reason}")
            results.append((name, reason))
            continue
        results.append((name, decision))
        if not as_json:
            answer = decision.next_action or f"ask the operator: {decision.reason}"
            typer.echo(f"{name}\t{answer}")
    failed = [name for name, result in results if isinstance(result, str)]
    if as_json:
        docs = [{"file_name": n, **({"error": r} if isinstance(r, str) else r.to_dict())} for n, r in results]
        typer.echo(json.dumps(docs, indent=2, ensure_ascii=False, allow_nan=False))
    if report is not None:
        from sagehand.action.page import write_pages

        write_pages(report, folder, results, predictor.base, limits=options["limits"])
        announce(f"pages: {report / 'index.html'}")
    return 2 if len(failed) == len(names) else 1 if failed else 0


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _box(text: str | None) -> Box | None:
    if text is None:
        return None
    from sagehand.picture import Box

    try:
        x, y, w, h = (int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--box {text!r} is not four whole numbers", hint="as in --box 120,80,400,300 (x, y, width, height)"
        ) from None
    if min(x, y) < 0 or min(w, h) < 1:
        raise InputError(
            f"--box {text!r} is no box", hint="x and y are 0 or more, width and height 1 or more, all in pixels"
        )
    return Box(x, y, x + w, y + h)
