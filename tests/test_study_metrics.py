"""Coverage, removal, rank fits and latencies, by hand and by invariants (paper A §3.2.2, §3.2.3, §4.5)."""

from __future__ import annotations

import math
import statistics
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sagehand.errors import InputError, MissingExtra
from sagehand.study.metrics import coverage, fit_ranks, latency, latency_by, removal

shapely = pytest.importorskip("shapely")

SQUARE = [(10, 10), (30, 10), (30, 30), (10, 30)]
numbers = st.floats(0, 100, allow_nan=False).map(lambda v: round(v, 3))
boxes = st.tuples(numbers, numbers, st.floats(0.5, 100), st.floats(0.5, 100))


class TestCoverage:
    @pytest.mark.parametrize(
        ("box", "kept"),
        [
            ((10, 10, 20, 20), 1),
            ((0, 0, 90, 90), 1),
            ((10, 10, 10, 20), 0.5),
            ((20, 20, 50, 50), 0.25),
            ((40, 0, 9, 9), 0),
        ],
    )
    def test_a_square_by_hand(self, box: tuple[float, float, float, float], kept: float) -> None:
        assert coverage(SQUARE, box) == pytest.approx(kept)

    def test_a_triangle_by_hand(self) -> None:
        # right triangle of area 50; the left half of its width holds all but a triangle of 5 · 5 / 2
        assert coverage([(0, 0), (10, 0), (0, 10)], (0, 0, 5, 10)) == pytest.approx(1 - 12.5 / 50)

    def test_an_outline_that_crosses_itself(self) -> None:
        bow_tie = [(0, 0), (2, 2), (2, 0), (0, 2)]  # two triangles of area 1
        assert coverage(bow_tie, (0, 0, 1, 2)) == pytest.approx(0.5)

    def test_what_is_gone_round_twice_is_inside(self) -> None:
        star = [(math.sin(4 * math.pi * i / 5), math.cos(4 * math.pi * i / 5)) for i in range(5)]
        heart = coverage(star, (-0.1, -0.1, 0.2, 0.2))
        assert heart == pytest.approx(0.04 / 1.12257, rel=1e-4)  # area of a pentagram of radius 1

    def test_an_outline_that_touches_itself(self) -> None:
        notched = [(0, 0), (4, 0), (4, 4), (2, 0), (0, 4)]  # the notch's tip lies on the base: two triangles of area 4
        assert coverage(notched, (0, 0, 2, 4)) == pytest.approx(0.5)

    def test_what_has_no_coverage(self) -> None:
        assert coverage(None, (0, 0, 5, 5)) is None
        assert coverage(SQUARE, None) is None
        assert coverage([(0, 0), (1, 1), (2, 2)], (0, 0, 5, 5)) is None  # a line

    @given(points=st.lists(st.tuples(numbers, numbers), min_size=3, max_size=9), box=boxes, shift=numbers)
    def test_between_0_and_1_whatever_the_outline(
        self, points: list[tuple[float, float]], box: tuple[float, float, float, float], shift: float
    ) -> None:
        kept = coverage(points, box)
        assume(kept is not None)
        assert kept is not None
        assert 0 <= kept <= 1
        assert coverage(points[::-1], box) == pytest.approx(kept, abs=1e-6)
        assert coverage(points, (-1, -1, 102, 102)) == pytest.approx(1)
        x, y, width, height = box
        grown = coverage(points, (x - shift, y - shift, width + 2 * shift, height + 2 * shift))
        assert grown is not None
        assert grown >= kept - 1e-9

    @given(box=boxes, at=boxes)
    def test_of_rectangles_it_is_the_overlap(
        self, box: tuple[float, float, float, float], at: tuple[float, float, float, float]
    ) -> None:
        x, y, width, height = at
        corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
        across = max(0.0, min(box[0] + box[2], x + width) - max(box[0], x))
        down = max(0.0, min(box[1] + box[3], y + height) - max(box[1], y))
        assert coverage(corners, box) == pytest.approx(across * down / (width * height), abs=1e-9)

    @pytest.mark.parametrize(
        ("polygon", "box", "told"),
        [
            (SQUARE[:2], (0, 0, 1, 1), "polygon has 2 points"),
            ([*SQUARE, (math.nan, 1)], (0, 0, 1, 1), "is no point"),
            (SQUARE, (0, 0, 0, 1), r"box \(0, 0, 0, 1\) is not usable"),
            (SQUARE, (0, 0, math.inf, 1), "is not usable"),
        ],
    )
    def test_what_cannot_be_used_is_named(
        self, polygon: list[tuple[float, float]], box: tuple[float, float, float, float], told: str
    ) -> None:
        with pytest.raises(InputError, match=told):
            coverage(polygon, box)

    def test_without_shapely_the_install_line_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "shapely", None)
        with pytest.raises(MissingExtra, match=r"pip install 'sagehand\[study\]'"):
            coverage(SQUARE, (0, 0, 5, 5))


class TestRemoval:
    def test_by_hand(self) -> None:
        assert removal((0, 0, 320, 240), (640, 480)) == 0.75
        assert removal((100, 100, 64, 48), (640, 480)) == pytest.approx(0.99)

    def test_the_whole_picture_removes_nothing(self) -> None:
        assert removal(None, (640, 480)) == 0
        assert removal((0, 0, 640, 480), (640, 480)) == 0
        assert removal((-50, -50, 900, 900), (640, 480)) == 0

    def test_outside_the_picture_nothing_is_kept(self) -> None:
        assert removal((600, 0, 80, 480), (640, 480)) == pytest.approx(1 - 40 / 640)
        assert removal((700, 0, 80, 480), (640, 480)) == 1

    def test_what_cannot_be_used_is_named(self) -> None:
        with pytest.raises(InputError, match="0 × 480"):
            removal(None, (0, 480))
        with pytest.raises(InputError, match="is not usable"):
            removal((0, 0, -1, 5), (640, 480))


class TestFitRanks:
    def test_by_hand(self) -> None:
        ranks = [1, 1, 2, 4]
        found = fit_ranks(ranks)
        assert (found.n, found.mean) == (4, 2.0)
        assert found.exponential is not None
        assert found.lognormal is not None
        # exponential: scale is the mean, log-likelihood −n (ln 2 + 1)
        assert found.exponential.scale == pytest.approx(2)
        assert found.exponential.log_likelihood == pytest.approx(-4 * (math.log(2) + 1))
        assert found.exponential.aic == pytest.approx(2 + 8 * (math.log(2) + 1))
        # log-normal: mean and standard deviation (n) of the logarithms 0, 0, ln 2, 2 ln 2
        logs = [math.log(r) for r in ranks]
        mu, sigma = statistics.fmean(logs), statistics.pstdev(logs)
        assert (found.lognormal.scale, found.lognormal.shape) == pytest.approx((math.exp(mu), sigma))
        likelihood = -sum(logs) - 4 * math.log(sigma * math.sqrt(2 * math.pi)) - 2
        assert found.lognormal.log_likelihood == pytest.approx(likelihood)
        assert found.lognormal.aic == pytest.approx(4 - 2 * likelihood)
        assert found.better == "log-normal"

    def test_each_is_found_where_it_is_the_truth(self) -> None:
        rng = np.random.default_rng(4)
        wide = np.ceil(rng.exponential(40, 600)).astype(int).tolist()
        found = fit_ranks(wide)
        assert found.better == "exponential"
        found = fit_ranks(np.maximum(1, np.round(rng.lognormal(3, 0.9, 600))).astype(int).tolist())
        assert found.better == "log-normal"
        assert found.lognormal is not None
        assert found.lognormal.shape == pytest.approx(0.9, abs=0.1)

    @pytest.mark.parametrize("rank", [1, 3])
    def test_all_ranks_alike_is_a_stated_outcome(self, rank: int) -> None:
        found = fit_ranks([rank] * 7)
        assert (found.mean, found.lognormal, found.better) == (rank, None, None)
        assert f"every rank is {rank}" in found.note
        assert found.exponential is not None
        assert math.isfinite(found.exponential.aic)

    def test_no_ranks(self) -> None:
        found = fit_ranks([])
        assert (found.n, found.mean, found.exponential, found.better) == (0, None, None, None)
        assert found.note == "no query has a correct result"

    @given(st.lists(st.integers(1, 200), min_size=1, max_size=60))
    def test_always_finite_and_the_likelihood_is_the_greatest(self, ranks: list[int]) -> None:
        found = fit_ranks(ranks)
        assert found.exponential is not None
        values = np.array(ranks, dtype=float)
        for fit in (found.exponential, found.lognormal):
            if fit is None:
                assert len(set(ranks)) == 1
                continue
            assert math.isfinite(fit.aic)
            assert fit.log_likelihood == pytest.approx(float(np.log(fit.density(values)).sum()), rel=1e-6, abs=1e-6)
            for factor in (0.9, 1.1):
                off = type(fit)(fit.name, fit.scale * factor, fit.shape, 0, fit.parameters, 0)
                assert np.log(off.density(values)).sum() <= fit.log_likelihood + 1e-6

    @pytest.mark.parametrize("rank", [0, -1, 1.5])
    def test_what_is_no_rank(self, rank: float) -> None:
        with pytest.raises(InputError, match=f"rank {rank} is not usable"):
            fit_ranks([1, rank])  # type: ignore[list-item]


class TestLatency:
    def test_by_hand(self) -> None:
        found = latency([2, 4, 4, 10])
        assert (found.n, found.mean, found.median) == (4, 5, 4)
        assert found.sd == pytest.approx(math.sqrt((9 + 1 + 1 + 25) / 3))

    def test_too_few(self) -> None:
        assert latency([]) == type(latency([]))(0, None, None, None)
        assert (latency([3.5]).mean, latency([3.5]).sd) == (3.5, None)

    def test_by_group(self) -> None:
        found = latency_by([("confirmed", 8.0), ("full", 150.0), ("confirmed", 10.0)])
        assert list(found) == ["confirmed", "full"]
        assert (found["confirmed"].mean, found["full"].n) == (9, 1)

    @pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
    def test_what_is_no_time(self, seconds: float) -> None:
        with pytest.raises(InputError, match="is not usable"):
            latency([1.0, seconds])
