"""What the benchmarks share: measuring arms in turn, figures with their targets, one table and one JSON form."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arms = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        name: What was measured.
        value: How much; None where it could not be measured (the name says why).
        unit: "ms", "MB"; "" for a ratio or a count.
        target: What it must reach, or None.
        at_most: Whether the target is an upper bound, else a lower one.
    """

    name: str
    value: float | None
    unit: str = ""
    target: float | None = None
    at_most: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a target. What could not be measured has missed it."""
        if self.target is None:
            return None
        if self.value is None:
            return False
        return self.value <= self.target if self.at_most else self.value >= self.target

    @property
    def verdict(self) -> str:
        """The last column of a table: "≤ 1.5: met", or "" without a target."""
        if self.target is None:
            return ""
        return f"{'≤' if self.at_most else '≥'} {plain(self.target)}: {'met' if self.met else 'missed'}"

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        doc: dict[str, Any] = {"name": self.name, "value": self.value, "unit": self.unit}
        if self.target is not None:
            doc |= {"target": self.target, "at_most": self.at_most, "met": self.met}
        return doc


@dataclass(frozen=True)
class Report:
    """What a script has found.

    Attributes:
        title: What was measured, in a line.
        setup: The sizes, seeds and versions that the figures depend on.
        figures: The numbers, in the order of the table.
        notes: What a reader must know to read them rightly.
    """

    title: str
    setup: Mapping[str, Any]
    figures: Sequence[Figure]
    notes: Sequence[str] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "title": self.title,
            "setup": dict(self.setup),
            "figures": [figure.to_dict() for figure in self.figures],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> Report:
        """Read what :meth:`to_dict` wrote."""
        keys = ("name", "value", "unit", "target", "at_most")
        figures = [Figure(**{key: figure[key] for key in keys if key in figure}) for figure in doc["figures"]]
        return cls(doc["title"], doc["setup"], figures, doc["notes"])

    def text(self) -> str:
        """Title, set-up, a table whose last column holds target and verdict, notes."""
        width = max(len(figure.name) for figure in self.figures)
        setup = ", ".join(f"{name} {value}" for name, value in self.setup.items())
        lines = [self.title, f"  {setup}", f"  {'figure':{width}} {'value':>10}         target"]
        for figure in self.figures:
            value = "—" if figure.value is None else plain(figure.value)
            lines.append(f"  {figure.name:{width}} {value:>10} {figure.unit:7} {figure.verdict}".rstrip())
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def plain(value: float) -> str:
    """A number as a table shows it: whole numbers whole, else three digits that count."""
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    decimals = 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    return f"{value:.{decimals}f}"


def in_turn(arms: Arms, rounds: int, *, warm_up: int = 3, seed: int = 0) -> dict[str, NDArray[np.float64]]:
    """Time every arm once a round, in an order drawn anew each round.

    A machine that is busy with other work slows all arms of a round alike, and none always follows the same other one.

    Args:
        arms: Name → what to run.
        rounds: How many times.
        warm_up: Rounds before them that do not count.
        seed: Of the orders.

    Returns:
        Name → seconds, shape (rounds,).
    """
    rng = np.random.default_rng(seed)
    names = list(arms)
    taken: dict[str, NDArray[np.float64]] = {name: np.empty(rounds) for name in names}
    for number in range(-warm_up, rounds):
        for which in rng.permutation(len(names)):
            name = names[which]
            started = time.perf_counter()
            arms[name]()
            seconds = time.perf_counter() - started
            if number >= 0:
                taken[name][number] = seconds
    return taken


def milliseconds(seconds: NDArray[np.float64], quantile: float = 0.5) -> float:
    """The median, or another quantile, in milliseconds."""
    return round(float(np.quantile(seconds, quantile)) * 1e3, 4)


def ratio(seconds: NDArray[np.float64], against: NDArray[np.float64]) -> float:
    """Median of the rounds' ratios."""
    return round(float(np.median(seconds / against)), 4)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def with_byte_code(folder: Path) -> dict[str, str]:
    """This process's environment, with byte code kept in ``folder``: as after an ordinary ``pip install``, which compiles.

    Where the environment forbids byte code, every start would compile all modules anew, which is not what users see.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}


def parser_for(doc: str | None) -> argparse.ArgumentParser:
    """A parser that shows the script's docstring and knows ``--json``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser


def show(report: Report, as_json: bool) -> None:
    """Print a report as JSON or as a table."""
    print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) if as_json else report.text())
