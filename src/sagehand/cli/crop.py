"""``sagehand crop``."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.common import AsJson, announce, emit, finish, settings
from sagehand.cli.model import BaseUrl, Model, crop_judge
from sagehand.errors import InputError

if TYPE_CHECKING:
    from sagehand.picture import Picture
    from sagehand.recall.crop_trace import CropResult

__all__ = ["crop_text", "register"]

_LARGE = 1000  # px of the pictures on the page
_KINDS = (".png", ".jpg", ".jpeg")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(crop)


def crop(
    picture: Annotated[Path, typer.Argument(metavar="IMAGE", help="The picture.")],
    strategy: Annotated[
        str,
        typer.Option(
            help="none; perceptual: what stands out; relief: what stands up, by --depth; truth: --box or --polygon; "
            "grid or box: by turns, meant for a VLM."
        ),
    ] = "perceptual",
    box: Annotated[str | None, typer.Option(metavar="X,Y,W,H", help="For truth: the box, in pixels.")] = None,
    polygon: Annotated[
        str | None, typer.Option(metavar="X,Y,X,Y,…", help="For truth: three or more points, in pixels.")
    ] = None,
    depth: Annotated[Path | None, typer.Option(help="For relief: the depth image.")] = None,
    depth_unit: Annotated[str | None, typer.Option(help="m, mm or um. [setting: depth_unit]")] = None,
    instruction: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What shall be in the crop, for a VLM.")
    ] = None,
    turns: Annotated[int, typer.Option(help="Most turns of grid and box.")] = 5,
    base_url: BaseUrl = None,
    model: Model = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page (HTML) with every turn.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the crop, in its original pixels (.png or .jpg).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cut a picture down to the device, as cases and queries are cut.

    Where a VLM fails, what it had reached is kept, stderr says so, and the exit code is 1.
    """
    from sagehand.picture import Limits, load
    from sagehand.recall.crop import INSTRUCTION, crop_picture

    if out is not None and out.suffix.lower() not in _KINDS:
        raise InputError(f"--out {out}: unknown kind of picture {out.suffix!r}", hint=f"one of {', '.join(_KINDS)}")
    if turns < 1:
        raise InputError(f"--turns {turns}: at least one turn is needed", hint="5 is usual")
    label = _label(strategy, box, polygon)
    set_ = settings(base_url=base_url, vlm_model=model, depth_unit=depth_unit)
    measured: dict[str, Any] = {} if depth is None else {"depth": depth, "depth_unit": set_.depth_unit}
    seen = load(picture, limits=Limits(max_pixels=set_.max_pixels), **measured)
    with crop_judge(set_, strategy) as judge:
        result = crop_picture(seen, strategy, judge, label=label, instruction=instruction or INSTRUCTION, most=turns)
    doc = result.to_dict()
    if out is not None:
        _write_picture(out, result.picture)
    if report is not None:
        _write_page(report, result, doc)
    emit(doc, as_json, lambda: crop_text(doc))
    for what, path in (("crop", out), ("page", report)):
        if path is not None:
            announce(f"{what}: {path}")
    if result.error is not None:
        announce(f"{picture.name}: {result.reason}")
        finish(1)


def crop_text(doc: Mapping[str, Any]) -> str:
    """A crop as ``CropResult.to_dict`` gives it, for a terminal."""
    left, top, right, bottom = doc["box"]
    x, y, w, h = doc["fractions"]
    lines = [
        f"box: left {left}, top {top}, right {right}, bottom {bottom}"
        f" ({right - left} x {bottom - top} of {doc['width']} x {doc['height']} pixels)",
        f"in fractions: x {x:.3f}, y {y:.3f}, width {w:.3f}, height {h:.3f}",
        f"cut away: {doc['removal']:.1%}",
        f"because: {doc['reason']}",
    ]
    lines += [f"  turn {step['turn']}, {step['outcome']}: {step['note']}" for step in doc["steps"]]
    cost = doc["cost"]
    told = [f"{doc['strategy']} strategy"]
    if doc["judge"]:
        told.append(f"{doc['judge']} judge")
    if doc["most"]:
        told.append(f"{doc['turns']} of at most {doc['most']} turns")
    if cost["calls"] or cost["cached"]:
        told.append(f"{cost['calls']} calls, {cost['prompt'] + cost['completion']} tokens, {cost['cached']} cached")
    return "\n".join([*lines, ", ".join(told)])


def _label(strategy: str, box: str | None, polygon: str | None) -> dict[str, Any]:
    """What "truth" takes, from the flags."""
    from sagehand.picture import Box

    if strategy != "truth":
        if box is not None or polygon is not None:
            raise InputError("--box and --polygon are for --strategy truth", hint="leave them out")
        return {}
    if (box is None) == (polygon is None):
        raise InputError("--strategy truth takes either --box or --polygon", hint="as in --box 120,80,400,300")
    if polygon is not None:
        numbers = _numbers("--polygon", polygon, "as in --polygon 120,80,400,90,380,300 (x, y, x, y, …, in pixels)")
        if len(numbers) < 6 or len(numbers) % 2:
            raise InputError(
                f"--polygon {polygon!r} has {len(numbers)} numbers", hint="an x and a y for three or more points"
            )
        return {"polygon": tuple(zip(numbers[::2], numbers[1::2], strict=True))}
    hint = "as in --box 120,80,400,300 (x, y, width, height, in whole pixels)"
    numbers = _numbers("--box", str(box), hint)
    if len(numbers) != 4 or any(n != int(n) for n in numbers) or min(numbers) < 0 or min(numbers[2:]) < 1:
        raise InputError(f"--box {box!r} is no box", hint=hint)
    x, y, w, h = (int(n) for n in numbers)
    return {"box": Box(x, y, x + w, y + h)}


def _numbers(flag: str, text: str, hint: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{flag} {text!r} is not numbers with commas between", hint=hint) from None
    if not all(abs(n) < 1e9 for n in numbers):  # NaN fails this too
        raise InputError(f"{flag} {text!r} holds a number that is no pixel", hint=hint)
    return numbers


def _write_picture(path: Path, picture: Picture) -> None:
    from PIL import Image

    from sagehand.files import write_whole

    buffer = io.BytesIO()
    kind, options = ("PNG", {}) if path.suffix.lower() == ".png" else ("JPEG", {"quality": 95})
    Image.fromarray(picture.pixels).save(buffer, kind, **options)
    write_whole(path, buffer.getvalue())


def _write_page(path: Path, result: CropResult, doc: Mapping[str, Any]) -> None:
    from datetime import UTC, datetime

    from sagehand.files import write_whole
    from sagehand.pages import crop_page
    from sagehand.picture import to_jpeg
    from sagehand.version import __version__

    images = {
        "full": to_jpeg(result.original.pixels, long_side=_LARGE),
        "crop": to_jpeg(result.picture.pixels, long_side=_LARGE),
        **{f"turn:{step.turn}": step.view for step in result.trace.steps},
    }
    stamped = {**doc, "version": __version__, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    write_whole(path, crop_page(stamped, images).encode())
