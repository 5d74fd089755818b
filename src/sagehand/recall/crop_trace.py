"""What a crop by turns found, and every turn on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from sagehand.errors import JudgeError, VlmError
from sagehand.judge.cost import FREE, Cost
from sagehand.judge.questions import CropMove
from sagehand.picture import Box, Picture

__all__ = ["CropResult", "CropStep", "CropTrace", "Outcome"]

Outcome = Literal["done", "repaired", "refused", "finished", "failed"]
"""What became of a move: done as asked, done after a certain repair, not done, the end, or no answer came."""


@dataclass(frozen=True, eq=False)
class CropStep:
    """One turn.

    Attributes:
        turn: Its number, from 1.
        shown: What the view showed, in pixels of the original.
        rows: Rows of the grid on the view; 0 without one.
        columns: Its columns.
        view: The view as it was shown, grid included, as JPEG.
        view_size: (width, height) of the view [px].
        move: The tool chosen; None where no answer came.
        outcome: What became of it.
        note: The same in words, as later turns are told.
        box: What is left after the move, in pixels of the original.
        seconds: What the judge took [s].
    """

    turn: int
    shown: Box
    rows: int
    columns: int
    view: bytes
    view_size: tuple[int, int]
    move: CropMove | None
    outcome: Outcome
    note: str
    box: Box
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it; the view itself is left out."""
        move = self.move
        return {
            "turn": self.turn,
            "shown": list(self.shown.as_tuple()),
            "rows": self.rows,
            "columns": self.columns,
            "view_size": list(self.view_size),
            "tool": move.tool if move else None,
            "arguments": {name: _plain(value) for name, value in move.arguments.items()} if move else {},
            "reason": move.reason if move else "",
            "by": move.by if move else "",
            "outcome": self.outcome,
            "note": self.note,
            "box": list(self.box.as_tuple()),
            "seconds": round(self.seconds, 6),
            "cost": (move.cost if move else FREE).to_dict(),
        }


@dataclass(frozen=True, eq=False)
class CropTrace:
    """How a crop was found.

    Attributes:
        strategy: "none", "perceptual", "relief", "truth", "grid" or "box".
        judge: Who was asked; "" where nobody was.
        instruction: What the judge was told.
        most: Most turns; 0 for a strategy without turns.
        long_side: Long side that views are scaled down to [px].
        steps: The turns, in order.
    """

    strategy: str
    judge: str = ""
    instruction: str = ""
    most: int = 0
    long_side: int = 0
    steps: tuple[CropStep, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it, without the views."""
        return {
            "strategy": self.strategy,
            "judge": self.judge,
            "instruction": self.instruction,
            "most": self.most,
            "long_side": self.long_side,
            "steps": [step.to_dict() for step in self.steps],
        }


@dataclass(frozen=True, eq=False)
class CropResult:
    """A crop and how it came about. It is always a valid one; where nothing was found it is the whole picture.

    Attributes:
        original: The whole picture.
        box: Where the crop lies in it [px].
        trace: Every turn.
        finished: Whether the judge said that it was done, or the strategy has no turns.
        reason: Why it is this box, in words.
        error: What kept the judge from answering, or None.
    """

    original: Picture
    box: Box
    trace: CropTrace
    finished: bool
    reason: str
    error: JudgeError | None = field(default=None)

    @cached_property
    def picture(self) -> Picture:
        """The crop, cut from the original pixels."""
        return self.original.crop(self.box).picture

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the original [px]."""
        return self.original.size

    @property
    def whole(self) -> bool:
        """Whether nothing was cut away."""
        return (self.box.width, self.box.height) == self.size

    @property
    def removal(self) -> float:
        """Share of the picture that was cut away, r = 1 − |P| / |Ω| in [0, 1) (paper A, eq. 5)."""
        return 1.0 - self.box.area / (self.size[0] * self.size[1])

    @property
    def fractions(self) -> tuple[float, float, float, float]:
        """x, y (top left corner), width and height in fractions of the original."""
        width, height = self.size
        box = self.box
        return box.left / width, box.top / height, box.width / width, box.height / height

    @property
    def cost(self) -> Cost:
        """What the judge's answers cost, and the requests of one that did not come."""
        lost = Cost(calls=self.error.attempts) if isinstance(self.error, VlmError) else FREE
        return sum((step.move.cost for step in self.trace.steps if step.move is not None), lost)

    def to_dict(self) -> dict[str, Any]:
        """As ``sagehand crop --json`` prints it."""
        error = self.error
        return {
            "name": self.original.name,
            "width": self.size[0],
            "height": self.size[1],
            "box": list(self.box.as_tuple()),
            "fractions": [round(value, 6) for value in self.fractions],
            "removal": round(self.removal, 6),
            "turns": len(self.trace.steps),
            "finished": self.finished,
            "reason": self.reason,
            "error": None if error is None else {"kind": type(error).__name__, "message": str(error)},
            "cost": self.cost.to_dict(),
            **self.trace.to_dict(),
        }


def _plain(value: object) -> float | int | str:
    """A number as JSON takes it; what a judge gave in place of one, as text."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if good and isinstance(value, int | float) else str(value)[:40]
