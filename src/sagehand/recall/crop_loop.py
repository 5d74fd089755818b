"""Crop turn by turn: GridCrop and BBoxCrop (paper A, Algorithms 1 and 2).

Each turn the judge sees the full picture, the view, the instruction and what became of the earlier moves, and chooses one
tool. There are at most ``most`` turns. Views are scaled down to be looked at; the crop is cut from the original pixels.

Where this departs from the paper: a move that cannot be right is repaired or refused and the turn counts
(:mod:`sagehand.recall.crop_moves`); the last turn says that it is the last; small views are scaled up, so that numbers fit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError, JudgeError, UnknownName
from sagehand.judge.questions import CropMove, CropTurn, Judge
from sagehand.picture import Box, Picture, to_jpeg
from sagehand.recall.crop_moves import Applied, View, apply, start
from sagehand.recall.crop_trace import CropResult, CropStep, CropTrace
from sagehand.recall.grid import draw_grid

__all__ = ["INSTRUCTION", "LONG_SIDE", "MOST_TURNS", "crop_by_turns", "view_of"]

INSTRUCTION = (
    "Crop the image so the electronic device is centered. Keep relevant neighboring information, such as the fixture or "
    "housing in which the device may be mounted."
)
"""The paper's own words (paper A §2.2)."""

LONG_SIDE = 1024  # px of a view
MOST_TURNS = 5
_SMALL = 512  # px: views with a shorter long side are scaled up to it
_QUALITY = 85
_TOLD = 8  # earlier moves that a turn tells of, so that its size is bounded however many turns there are


def crop_by_turns(
    picture: Picture,
    judge: Judge,
    strategy: str,
    *,
    instruction: str = INSTRUCTION,
    most: int = MOST_TURNS,
    long_side: int = LONG_SIDE,
) -> CropResult:
    """Let a judge crop a picture, a move a turn.

    Args:
        picture: The whole picture.
        judge: Who chooses the moves; meant for a VLM, though the perceptual judge makes moves too.
        strategy: "grid" or "box".
        instruction: What shall be in the crop.
        most: Most turns.
        long_side: Long side that views are scaled down to [px].

    Returns:
        The crop. A judge that fails or does not come to an end leaves the last valid view; the reason says so.

    Raises:
        UnknownName: There is no such strategy.
        InputError: ``most`` is less than 1 or ``long_side`` less than 64.
    """
    if strategy not in ("grid", "box"):
        raise UnknownName("strategy with turns", strategy, ("grid", "box"))
    if most < 1 or long_side < 64:
        raise InputError(f"{most} turns with views of {long_side} pixels", hint="at least 1 turn and 64 pixels")
    view = start(picture.size, strategy)
    steps: list[CropStep] = []
    error: JudgeError | None = None
    finished = False
    for number in range(1, most + 1):
        seen = Picture(view_of(picture, view, long_side), picture.name)
        turn = _turn(picture, seen, view, number, most, instruction, steps)
        begun = time.perf_counter()
        move: CropMove | None = None
        try:
            move = judge.crop_move(turn)
            done = apply(view, move)
        except JudgeError as failure:
            error = failure
            done = Applied(view, "failed", f"the judge gave no answer: {failure}")
        seconds = time.perf_counter() - begun
        steps.append(_step(turn, view, move, done, seconds))
        view = done.view
        if done.outcome in ("finished", "failed"):
            finished = done.outcome == "finished"
            break
    trace = CropTrace(strategy, judge.name, instruction, most, long_side, tuple(steps))
    reason = _reason(trace, view, error, finished)
    return CropResult(picture, view.box, trace, finished, reason, error)


def view_of(picture: Picture, view: View, long_side: int = LONG_SIDE) -> NDArray[np.uint8]:
    """What a judge is shown: the view's part of the picture, scaled to be looked at, with its numbered grid if it has one.

    Args:
        picture: The whole picture.
        view: Which part of it.
        long_side: Most pixels along the longer side; a view smaller than 512 is scaled up to that.

    Returns:
        (H, W, 3) RGB.
    """
    from PIL import Image

    part = picture.crop(view.box).picture.pixels
    longest = max(part.shape[:2])
    wanted = min(max(longest, _SMALL), long_side)
    if wanted != longest:
        width, height = (max(round(side * wanted / longest), 1) for side in (view.box.width, view.box.height))
        method = Image.Resampling.BILINEAR if wanted < longest else Image.Resampling.BICUBIC
        part = np.asarray(Image.fromarray(part).resize((width, height), method, reducing_gap=2.0), dtype=np.uint8)
    grid = view.grid
    return part if grid is None else draw_grid(part, grid)


def _turn(
    picture: Picture,
    seen: Picture,
    view: View,
    number: int,
    most: int,
    instruction: str,
    steps: Sequence[CropStep],
) -> CropTurn:
    notes = [f"Turn {step.turn}: {step.note}." for step in steps[-_TOLD:]]
    if number == most:
        notes.append(f"This is turn {number} of {most}, the last one: what the view shows after it is the crop.")
    return CropTurn(
        picture, seen, view.strategy, view.rows, view.columns, view.box, number, most, instruction, tuple(notes)
    )


def _step(turn: CropTurn, view: View, move: CropMove | None, done: Applied, seconds: float) -> CropStep:
    return CropStep(
        turn=turn.turn,
        shown=view.box,
        rows=view.rows,
        columns=view.columns,
        view=to_jpeg(turn.view.pixels, quality=_QUALITY),
        view_size=turn.view.size,
        move=move,
        outcome=done.outcome,
        note=done.note,
        box=done.view.box,
        seconds=seconds,
    )


def _reason(trace: CropTrace, view: View, error: JudgeError | None, finished: bool) -> str:
    whole = view.box == Box(0, 0, *view.size)
    left = "the whole picture is taken" if whole else "the last view is taken"
    if error is not None:
        return f"the judge gave no answer in turn {len(trace.steps)}, and {left}: {error}"
    if not finished:
        return f"the judge did not finish within {trace.most} turns, and {left}"
    last = trace.steps[-1].move
    said = last.reason.strip() if last is not None else ""
    return said or ("the judge finished with the whole picture" if whole else "the judge finished with this view")
