"""Draws a report's charts as SVG with matplotlib: no window, no date, the same bytes for the same figures."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from sagehand.errors import MissingExtra
from sagehand.study.report.cells import Share
from sagehand.study.report.parts import Bars, Chart, Counts, Curves, Grid, Histograms, RankPanel

__all__ = ["svg_of"]

_COLORS = ("#2f7d5b", "#e0a030", "#3f77b5", "#c4604f", "#8463a8", "#5aa7a0", "#8f7a3d", "#6d756f", "#b5527f", "#2b4c7e")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)))
_INK, _SOFT, _LINE = "#1a211c", "#59645c", "#dde2d8"
_STYLE: Any = {
    "svg.hashsalt": "sagehand",  # else ids in the file are drawn anew each time
    "svg.fonttype": "path",  # reads the same wherever the page is opened
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 11,
    "axes.edgecolor": _SOFT,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "legend.frameon": False,
    "text.parse_math": False,  # a "$" in a name is a "$"
}
_WIDTH = 9.6  # inches; as wide as the page


def svg_of(chart: Chart) -> bytes:
    """A chart as SVG.

    Args:
        chart: What to draw.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("drawing figures", "study") from None
    with mpl.rc_context(_STYLE):
        figure = Figure(layout="constrained")
        match chart:
            case Bars():
                _bars(figure, chart)
            case Counts():
                _counts(figure, chart)
            case Histograms():
                _histograms(figure, chart)
            case Curves():
                _curves(figure, chart)
            case Grid():
                _grid(figure, chart)
        out = io.BytesIO()
        canvas: Any = FigureCanvasSVG(figure)
        with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box
            warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
            canvas.print_svg(out, metadata={"Date": None, "Creator": "sagehand"})
    return out.getvalue()


def _bars(figure: Any, chart: Bars) -> None:
    figure.set_size_inches(_WIDTH, 4.2 + 0.25 * _legend_rows(list(chart.series)))
    axes = figure.add_subplot()
    width = 0.82 / max(1, len(chart.series))
    for place, (name, shares) in enumerate(chart.series.items()):
        there = [(i, s) for i, s in enumerate(shares) if s is not None and s.value is not None]
        at = [i - 0.41 + width * (place + 0.5) for i, _ in there]
        values = [_value(s) for _, s in there]
        color = _COLORS[place % len(_COLORS)]
        axes.bar(
            at,
            values,
            width * 0.92,
            color=color,
            hatch=_hatch(place),
            label=_short(name, 40),
            edgecolor="white",
            linewidth=0.4,
        )
        low = [max(0.0, v - (s.interval or (v, v))[0]) for v, (_, s) in zip(values, there, strict=True)]
        high = [max(0.0, (s.interval or (v, v))[1] - v) for v, (_, s) in zip(values, there, strict=True)]
        axes.errorbar(at, values, yerr=[low, high], fmt="none", ecolor=_INK, elinewidth=1, capsize=min(3, 20 * width))
    _names(axes, chart.groups)
    axes.set_ylim(0, 1.02)
    axes.set_yticks(np.linspace(0, 1, 6), [f"{v} %" for v in range(0, 101, 20)])
    axes.set_ylabel(chart.label)
    axes.grid(axis="y", color=_LINE)
    _legend(figure, axes, list(chart.series))


def _counts(figure: Any, chart: Counts) -> None:
    figure.set_size_inches(_WIDTH, 4.2 + 0.25 * _legend_rows(list(chart.series)))
    axes = figure.add_subplot()
    under = np.zeros(len(chart.groups))
    for place, (name, counts) in enumerate(chart.series.items()):
        color = _COLORS[place % len(_COLORS)]
        axes.bar(
            range(len(chart.groups)),
            counts,
            0.7,
            bottom=under,
            color=color,
            hatch=_hatch(place),
            label=name,
            edgecolor="white",
            linewidth=0.8,
        )
        under += np.asarray(counts)
    _names(axes, chart.groups)
    axes.set_ylabel(chart.label)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", color=_LINE)
    _legend(figure, axes, list(chart.series))


def _histograms(figure: Any, chart: Histograms) -> None:
    columns = min(3, len(chart.panels))
    rows = -(-len(chart.panels) // columns)
    figure.set_size_inches(_WIDTH, 0.5 + 2.9 * rows)
    most = min(20, max(max(p.ranks) for p in chart.panels))
    for place, panel in enumerate(chart.panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        _ranks(axes, panel, most)
        if place % columns == 0:
            axes.set_ylabel("share of queries")
        if place >= len(chart.panels) - columns:
            axes.set_xlabel("rank of the correct case")
    # the first panel may lack a fit that others have
    known = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=3)


def _ranks(axes: Any, panel: RankPanel, most: int) -> None:
    ranks = np.asarray(panel.ranks)
    bins = np.arange(1, most + 1)
    shares = [float((ranks == b).mean()) for b in bins]
    axes.bar(bins, shares, 0.85, color="#b9d3c5", label="queries")
    x = np.linspace(0.05, most + 0.5, 400)
    for fit, color in ((panel.fits.exponential, _COLORS[2]), (panel.fits.lognormal, _COLORS[3])):
        if fit is not None:
            axes.plot(x, fit.density(x), color=color, linewidth=1.8, label=f"{fit.name} fit")
    beyond = float((ranks > most).mean())
    title = _short(panel.title, 30)
    axes.set_title(title + (f" ({100 * beyond:.0f} % beyond {most})" if beyond else ""))
    axes.set_ylim(0, min(1.0, max(*shares, 0.2) * 1.25))
    axes.set_xlim(0, most + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)


def _curves(figure: Any, chart: Curves) -> None:
    figure.set_size_inches(_WIDTH, 4.2 + 0.25 * _legend_rows(list(chart.lines)))
    axes = figure.add_subplot()
    for place, (name, points) in enumerate(chart.lines.items()):
        x, y = zip(*points, strict=True)
        axes.plot(
            x,
            y,
            color=_COLORS[place % len(_COLORS)],
            label=_short(name, 40),
            linewidth=1.8,
            linestyle=_DASHES[place % len(_DASHES)],  # else one of two equal lines hides the other
            drawstyle="steps-pre",
        )
    axes.set_xlim(0, 1.01)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.xaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
    axes.yaxis.set_major_formatter(lambda v, _: f"{100 * v:g} %")
    axes.grid(color=_LINE)
    _legend(figure, axes, list(chart.lines))


def _grid(figure: Any, chart: Grid) -> None:
    counts = np.asarray(chart.counts, dtype=float)
    whole = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, whole, out=np.zeros_like(counts), where=whole > 0)
    figure.set_size_inches(min(_WIDTH, 4 + 0.7 * len(chart.columns)), 2.6 + 0.42 * len(chart.rows))
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Greens", vmin=0, vmax=1, aspect="auto")
    for i in range(len(chart.rows)):
        for j in range(len(chart.columns)):
            if counts[i, j]:
                color = "white" if shares[i, j] > 0.55 else _INK
                axes.text(j, i, f"{int(counts[i, j])}", ha="center", va="center", color=color)
    axes.set_xticks(range(len(chart.columns)), [_short(c, 30) for c in chart.columns], rotation=35, ha="right")
    axes.set_yticks(range(len(chart.rows)), [_short(r, 30) for r in chart.rows])
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.spines[:].set_visible(False)


def _names(axes: Any, groups: Sequence[str]) -> None:
    turned = max((len(g) for g in groups), default=0) * len(groups) > 90 or len(groups) > 8
    names = [_short(g, 26) for g in groups]
    if turned:
        axes.set_xticks(range(len(groups)), names, rotation=30, ha="right")
    else:
        axes.set_xticks(range(len(groups)), names)
    axes.set_xlim(-0.6, len(groups) - 0.4)


def _legend_columns(names: Sequence[str]) -> int:
    longest = min(40, max((len(n) for n in names), default=1))
    return max(1, min(len(names), 100 // (longest + 6)))


def _legend_rows(names: Sequence[str]) -> int:
    return -(-len(names) // _legend_columns(names)) if names else 0


def _legend(figure: Any, axes: Any, names: Sequence[str]) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=_legend_columns(names))


def _hatch(place: int) -> str:
    """Sets a series apart from the one that has the same color."""
    return "" if place < len(_COLORS) else "//"


def _value(share: Share) -> float:
    return share.value or 0.0


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
