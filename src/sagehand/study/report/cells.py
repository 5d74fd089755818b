"""The cells of a report's tables: numbers that know what they are, and how they are written for a reader and for a machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sagehand.study.score import p_rounded, p_text

__all__ = [
    "DASH",
    "Cell",
    "Gain",
    "Number",
    "P",
    "Percent",
    "Seconds",
    "Share",
    "Spread",
    "csv_of",
    "text_of",
    "words_of",
]

DASH = "–"
_THIN = "\u202f"  # narrow no-break space, between a number and its unit


@dataclass(frozen=True)
class Share:
    """A share of items, with its 95 % Wilson interval (paper A §4.2).

    Attributes:
        right: Items that count.
        n: All items.
    """

    right: int
    n: int

    @property
    def value(self) -> float | None:
        """Right of n; None of no items."""
        return self.right / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The Wilson interval; None of no items."""
        return _wilson(self.right, self.n)


@dataclass(frozen=True)
class Gain:
    """A difference of two shares, with an interval where there is one; all in [−1, 1]."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Percent:
    """A part of a whole without an interval, 1 is 100 %; ``signed`` for a change."""

    value: float
    signed: bool = False


@dataclass(frozen=True)
class Spread:
    """Least and greatest of several shares."""

    low: float
    high: float


@dataclass(frozen=True)
class P:
    """A p-value."""

    value: float


@dataclass(frozen=True)
class Seconds:
    """A time [s]."""

    value: float


@dataclass(frozen=True)
class Number:
    """A number, shown with so many decimals."""

    value: float
    digits: int = 2


Cell = str | int | Share | Gain | Percent | P | Seconds | Number | Spread | None


@lru_cache(maxsize=4096)
def _wilson(right: int, n: int) -> tuple[float, float] | None:
    from sagehand.stats import wilson

    return wilson(right, n)


def text_of(cell: Cell) -> tuple[str, str]:
    """A cell for a reader: (the value, its interval or "")."""
    match cell:
        case None:
            return DASH, ""
        case str():
            return cell, ""
        case int():
            return str(cell), ""
        case Share():
            interval = cell.interval
            if cell.value is None or interval is None:
                return DASH, ""
            return _percent(cell.value), f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f}"
        case Gain():
            # "to", not a dash: the ends have signs of their own
            ends = "" if cell.low is None or cell.high is None else f"{_signed(cell.low)} to {_signed(cell.high)}"
            return f"{_signed(cell.value)} pp", ends
        case Percent():
            return f"{_signed(cell.value)}{_THIN}%" if cell.signed else _percent(cell.value), ""
        case Spread():
            return f"{100 * cell.low:.1f}–{100 * cell.high:.1f}", ""
        case P():
            return p_text(cell.value).removeprefix("p = ").removeprefix("p "), ""
        case Seconds():
            return _seconds(cell.value), ""
        case Number():
            return f"{cell.value:.{cell.digits}f}" if math.isfinite(cell.value) else DASH, ""


def words_of(cell: Cell) -> str:
    """A cell on one line: ``81.2 % [78.0–84.1]``."""
    text, interval = text_of(cell)
    return f"{text} [{interval}]" if interval else text


def csv_of(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[list[Any]]:
    """Header and rows with plain numbers; a share has its bounds and counts in columns of their own."""
    wide = [_csv_parts([row[i] for row in rows]) for i in range(len(header))]
    lines: list[list[Any]] = [
        [f"{name} {part}".strip() for name, parts in zip(header, wide, strict=True) for part in parts]
    ]
    lines.extend(
        [v for cell, parts in zip(row, wide, strict=True) for v in _csv_values(cell, len(parts))] for row in rows
    )
    return lines


def _csv_parts(cells: Sequence[Cell]) -> tuple[str, ...]:
    if any(isinstance(c, Share) for c in cells):
        return ("", "low", "high", "right", "n")
    if any(isinstance(c, Gain) and c.low is not None for c in cells):
        return ("", "low", "high")
    if any(isinstance(c, Spread) for c in cells):
        return ("least", "greatest")
    return ("",)


def _csv_values(cell: Cell, width: int) -> list[Any]:
    match cell:
        case None:
            values: list[Any] = [""]
        case Share():
            low, high = cell.interval or (None, None)
            values = [_plain(cell.value), _plain(low), _plain(high), cell.right, cell.n]
        case Gain():
            values = [_plain(cell.value), _plain(cell.low), _plain(cell.high)]
        case Spread():
            values = [_plain(cell.low), _plain(cell.high)]
        case P():
            values = [p_rounded(cell.value)]
        case Percent() | Seconds() | Number():
            values = [_plain(cell.value)]
        case _:
            values = [cell]
    return (values + [""] * width)[:width]


def _plain(value: float | None) -> float | str:
    return "" if value is None or not math.isfinite(value) else round(value, 6)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}{_THIN}%"


def _signed(value: float) -> str:
    shown = f"{100 * value:+.1f}"
    return ("0.0" if shown in ("+0.0", "-0.0") else shown).replace("-", "−")


def _seconds(value: float) -> str:
    if not math.isfinite(value):
        return DASH
    return f"{1000 * value:.1f}{_THIN}ms" if value < 0.9995 else f"{value:.2f}{_THIN}s"
