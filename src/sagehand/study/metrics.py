"""The study's measures that are no share of right answers: crops, ranks, latencies (paper A §3.2.2, §3.2.3, §4.5)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError, MissingExtra

__all__ = ["Latency", "RankFit", "RankFits", "coverage", "fit_ranks", "latency", "latency_by", "removal"]

_Group = TypeVar("_Group", bound=Hashable)


def coverage(polygon: Sequence[Sequence[float]] | None, box: tuple[float, float, float, float] | None) -> float | None:
    """Share of a labelled polygon that a crop keeps: c = Area(P ∩ G) / Area(G) (paper A eq. 4).

    P is the crop's box, G the polygon. A polygon that crosses or touches itself is taken as everything that its outline
    goes round; its order of points does not matter.

    Args:
        polygon: (x, y) [px] of each corner, at least three; None where nobody has drawn one.
        box: (x, y, width, height) of the crop [px]; None where nothing was cropped.

    Returns:
        c, in [0, 1]; None without polygon or crop, or where the polygon has no area.

    Raises:
        InputError: A point or the box is not usable; names it.
        MissingExtra: shapely is not installed.
    """
    if polygon is None or box is None:
        return None
    x, y, width, height = _box(box)
    outline = _outline(polygon)
    if outline.area == 0:
        return None
    import shapely

    inside = outline.intersection(shapely.box(x, y, x + width, y + height)).area
    return min(1.0, float(inside / outline.area))


def removal(box: tuple[float, float, float, float] | None, size: tuple[int, int]) -> float:
    """Share of a picture that a crop takes away: r = 1 − Area(P) / Area(Ω) (paper A eq. 5).

    What of the box lies outside the picture is not counted.

    Args:
        box: (x, y, width, height) of the crop [px]; None for the whole picture.
        size: (width, height) of the picture Ω [px].

    Returns:
        r, in [0, 1].

    Raises:
        InputError: The box or the size is not usable; names it.
    """
    across, down = size
    if across <= 0 or down <= 0:
        raise InputError(f"a picture of {across} × {down} pixels has no area")
    if box is None:
        return 0.0
    x, y, width, height = _box(box)
    kept_across = max(0.0, min(x + width, across) - max(x, 0.0))
    kept_down = max(0.0, min(y + height, down) - max(y, 0.0))
    return 1.0 - kept_across * kept_down / (across * down)


def _box(box: Sequence[float]) -> tuple[float, float, float, float]:
    if len(box) != 4 or not all(map(math.isfinite, box)) or box[2] <= 0 or box[3] <= 0:
        raise InputError(f"box {tuple(box)} is not usable", hint="a box is x, y, width, height in pixels, none empty")
    x, y, width, height = map(float, box)
    return x, y, width, height


def _outline(polygon: Sequence[Sequence[float]]) -> Any:
    """A valid shape of the polygon; empty where its points lie on one line."""
    points = [tuple(map(float, point)) for point in polygon]
    for point in points:
        if len(point) != 2 or not all(map(math.isfinite, point)):
            raise InputError(f"polygon: {point} is no point", hint="a point is x, y in pixels")
    if len(points) < 3:
        raise InputError(f"polygon has {len(points)} points", hint="an outline needs three points or more")
    try:
        from shapely import Polygon, make_valid
    except ImportError:
        raise MissingExtra("the coverage of a polygon", "study") from None
    shape = Polygon(points)
    # "structure" keeps what is gone round twice; the default would make holes of it
    return shape if shape.is_valid else make_valid(shape, method="structure", keep_collapsed=False)


@dataclass(frozen=True)
class RankFit:
    """One distribution fitted to ranks, with location 0.

    Attributes:
        name: "exponential" or "log-normal".
        scale: Mean of the exponential; exp(μ), the median, of the log-normal.
        shape: σ of the log-normal; None for the exponential.
        log_likelihood: Natural logarithm of the likelihood at the fit.
        parameters: How many were fitted, k.
        aic: 2 k − 2 log-likelihood (Akaike 1974).
    """

    name: str
    scale: float
    shape: float | None
    log_likelihood: float
    parameters: int
    aic: float

    def density(self, ranks: ArrayLike) -> NDArray[np.float64]:
        """The fitted density at (n,) ranks, to be drawn over the histogram (paper A Figure 9)."""
        return np.asarray(_frozen(self.scale, self.shape).pdf(np.asarray(ranks, dtype=float)), dtype=np.float64)


@dataclass(frozen=True)
class RankFits:
    """Ranks of the correct result, and the two distributions fitted to them.

    Attributes:
        n: Number of ranks.
        mean: Mean rank; None without ranks.
        exponential: Its fit; None without ranks.
        lognormal: Its fit; None without ranks, or where all ranks are the same.
        better: Name of the fit with the lower AIC; None where there are not two, or they tie.
        note: Why nothing was compared, or "".
    """

    n: int
    mean: float | None
    exponential: RankFit | None
    lognormal: RankFit | None
    better: str | None
    note: str = ""


def fit_ranks(ranks: Sequence[int]) -> RankFits:
    """Fit an exponential and a log-normal distribution, location 0, and compare them by AIC (paper A §3.2.3, §4.2).

    Ranks are whole numbers from 1, the distributions are continuous and begin at 0: the paper fits them so, and the fits
    serve to compare embedders, not to describe ranks. The likelihoods are those of the densities at the ranks, so both
    AICs are comparable with each other, not with those of a discrete distribution. Where all ranks are the same the
    log-normal's σ is 0 and its likelihood has no bound: it is left out, and ``note`` says so.

    Args:
        ranks: Place of the first correct result of each query, from 1. Queries without one have no rank: count them
            beside it.

    Raises:
        InputError: A rank is no whole number from 1; names it.
    """
    for rank in ranks:
        if rank != int(rank) or rank < 1:
            raise InputError(f"rank {rank!r} is not usable", hint="a rank is a whole number from 1")
    if not len(ranks):
        return RankFits(0, None, None, None, None, "no query has a correct result")
    from scipy.stats import expon, lognorm

    values = np.asarray(ranks, dtype=float)
    exponential = _fit("exponential", values, float(expon.fit(values, floc=0)[1]), None)
    mean = float(values.mean())
    if values.min() == values.max():
        note = f"every rank is {int(values[0])}: the log-normal's width is 0 and its likelihood has no bound"
        return RankFits(len(values), mean, exponential, None, None, note)
    sigma, _, scale = lognorm.fit(values, floc=0)
    lognormal = _fit("log-normal", values, float(scale), float(sigma))
    if exponential.aic == lognormal.aic:
        return RankFits(len(values), mean, exponential, lognormal, None, "both have the same AIC")
    better = min(exponential, lognormal, key=lambda fit: fit.aic).name
    return RankFits(len(values), mean, exponential, lognormal, better)


def _fit(name: str, values: NDArray[np.float64], scale: float, shape: float | None) -> RankFit:
    likelihood = float(_frozen(scale, shape).logpdf(values).sum())
    parameters = 1 if shape is None else 2
    return RankFit(name, scale, shape, likelihood, parameters, 2 * parameters - 2 * likelihood)


def _frozen(scale: float, shape: float | None) -> Any:
    from scipy.stats import expon, lognorm

    return expon(loc=0, scale=scale) if shape is None else lognorm(shape, loc=0, scale=scale)


@dataclass(frozen=True)
class Latency:
    """How long answers took.

    Attributes:
        n: Number of answers.
        mean: Mean [s]; None without answers.
        sd: Standard deviation [s], with n − 1; None below two answers.
        median: Median [s]; None without answers.
    """

    n: int
    mean: float | None
    sd: float | None
    median: float | None


def latency(seconds: Sequence[float]) -> Latency:
    """Mean, standard deviation and median of times (paper A §4.5, Table 6).

    Args:
        seconds: Time of each answer [s].

    Raises:
        InputError: A time is negative or not finite; names it.
    """
    for value in seconds:
        if not math.isfinite(value) or value < 0:
            raise InputError(f"a time of {value!r} s is not usable", hint="times are seconds, 0 or more")
    if not len(seconds):
        return Latency(0, None, None, None)
    values = np.asarray(seconds, dtype=float)
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return Latency(len(values), float(values.mean()), sd, float(np.median(values)))


def latency_by(timed: Iterable[tuple[_Group, float]]) -> dict[_Group, Latency]:
    """Latency of each group, as the paper tells a confirmed first candidate from a full search (§4.5, Table 6).

    Args:
        timed: (group, time of one answer [s]) of each answer.

    Returns:
        Group → its latency, in the order in which the groups first come.
    """
    groups: dict[_Group, list[float]] = {}
    for group, seconds in timed:
        groups.setdefault(group, []).append(seconds)
    return {group: latency(times) for group, times in groups.items()}
