"""What a report is made of, as plain data: tables, charts, galleries, counterparts. Nothing is counted or drawn here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sagehand.study.metrics import RankFits
from sagehand.study.report.cells import Cell, Share

__all__ = [
    "Bars",
    "Beside",
    "Chart",
    "Counterpart",
    "Counts",
    "Curves",
    "Gallery",
    "Grid",
    "Histograms",
    "RankPanel",
    "Shown",
    "Table",
]


@dataclass(frozen=True)
class Table:
    """Rows under a header.

    Attributes:
        header: Names of the columns.
        rows: Cells, one a column.
        caption: What the rows are.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.header) for row in self.rows):
            raise ValueError(f"a row is not as long as the header {self.header}")


@dataclass(frozen=True)
class Bars:
    """Grouped bars with Wilson intervals: series → one share a group."""

    groups: tuple[str, ...]
    series: Mapping[str, Sequence[Share | None]]
    label: str = "accuracy"


@dataclass(frozen=True)
class Counts:
    """Stacked bars of counts: series → one count a group."""

    groups: tuple[str, ...]
    series: Mapping[str, Sequence[int]]
    label: str = "pictures"


@dataclass(frozen=True)
class RankPanel:
    """Ranks of the correct result of one arm, with what was fitted to them."""

    title: str
    ranks: tuple[int, ...]
    fits: RankFits


@dataclass(frozen=True)
class Histograms:
    """One panel an arm."""

    panels: tuple[RankPanel, ...]


@dataclass(frozen=True)
class Curves:
    """Lines: name → (x, y) points."""

    lines: Mapping[str, Sequence[tuple[float, float]]]
    x: str
    y: str


@dataclass(frozen=True)
class Grid:
    """A matrix of counts with names of its rows and columns."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    x: str
    y: str


Chart = Bars | Counts | Histograms | Curves | Grid


@dataclass(frozen=True)
class Beside:
    """A figure of the paper beside ours.

    Attributes:
        what: What was measured.
        paper: The paper's figure.
        here: This run's; a dash where it has none.
        source: Where the paper says so.
    """

    what: str
    paper: str
    here: str
    source: str


@dataclass(frozen=True)
class Shown:
    """One failure of a gallery.

    Attributes:
        query: Key of the query's picture.
        case: Key of the recalled case's picture; "" where none was recalled.
        seed: Seed of the unit, which names the folder where each seed has its own.
        kind: What kind of failure it is.
        rows: (what, of the query, of the case or answer).
    """

    query: str
    case: str
    seed: int
    kind: str
    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Gallery:
    """Failures, and the rule by which they were chosen."""

    shown: tuple[Shown, ...]
    rule: str


@dataclass(frozen=True)
class Counterpart:
    """The counterpart of a table or figure of the paper, or a section of the report's own.

    Attributes:
        name: Its file name without ending: "table-1".
        number: "Table 1"; "" for a section of our own.
        title: What it shows.
        table: Our figures; None where there are none.
        chart: The same, drawn.
        gallery: Failures.
        beside: The paper's figures beside ours.
        missing: Which method the run lacks and how to run it; "" when nothing lacks.
        stand_in: What is shown in its place, named as what it is.
        notes: What a reader must know.
    """

    name: str
    number: str
    title: str
    table: Table | None = None
    chart: Chart | None = None
    gallery: Gallery | None = None
    beside: tuple[Beside, ...] = ()
    missing: str = ""
    stand_in: str = ""
    notes: tuple[str, ...] = ()
