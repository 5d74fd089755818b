"""Intervals and tests against published values and hand calculations."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand import stats
from sagehand.errors import MissingExtra

needs_statsmodels = pytest.mark.skipif(
    importlib.util.find_spec("statsmodels") is None, reason="the study extra is not installed"
)


def test_wilson_against_a_hand_calculation() -> None:
    n, share, z = 196, 134 / 196, 1.959964
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert stats.wilson(134, n) == pytest.approx((centre - half, centre + half), abs=1e-6)


def test_wilson_of_nothing_is_none() -> None:
    assert stats.wilson(0, 0) is None


def test_fifty_nine_answers_without_an_error_certify_five_percent() -> None:
    assert stats.clopper_pearson_upper(0, 59) <= 0.05 < stats.clopper_pearson_upper(0, 58)
    assert stats.clopper_pearson_upper(0, 59) == pytest.approx(1 - 0.05 ** (1 / 59))


@given(n=st.integers(1, 300), data=st.data())
def test_the_bound_leaves_five_percent_below(n: int, data: st.DataObject) -> None:
    from scipy.stats import binom

    wrong = data.draw(st.integers(0, n - 1))
    bound = stats.clopper_pearson_upper(wrong, n)
    assert binom.cdf(wrong, n, bound) == pytest.approx(0.05, abs=1e-6)


def test_no_answers_and_all_wrong_bound_nothing() -> None:
    assert stats.clopper_pearson_upper(0, 0) == 1.0
    assert stats.clopper_pearson_upper(7, 7) == 1.0


def test_mcnemar_exact_by_hand() -> None:
    first = [True] * 9 + [False] * 1 + [True] * 20
    second = [False] * 9 + [True] * 1 + [True] * 20
    found = stats.discordance(first, second)
    assert (found.only_first, found.only_second) == (9, 1)
    assert found.p_value == pytest.approx(2 * (1 + 10) / 2**10)


def test_mcnemar_without_a_discordant_pair() -> None:
    assert stats.discordance([True, False], [True, False]).p_value == 1.0
    with pytest.raises(ValueError, match="different length"):
        stats.discordance([True], [])


# Newcombe 1998 (Statistics in Medicine 17, 857–872), Table I: score without correction, and Clopper–Pearson
NEWCOMBE = {
    (81, 263): ((0.2553, 0.3662), (0.2527, 0.3676)),
    (15, 148): ((0.0624, 0.1605), (0.0578, 0.1617)),
    (0, 20): ((0.0000, 0.1611), (0.0000, 0.1684)),
    (1, 29): ((0.0061, 0.1718), (0.0009, 0.1776)),
}


@pytest.mark.parametrize("counts", NEWCOMBE)
def test_intervals_of_one_share_as_newcombe_printed_them(counts: tuple[int, int]) -> None:
    score, exact = NEWCOMBE[counts]
    assert stats.wilson(*counts) == pytest.approx(score, abs=5e-5)
    assert stats.clopper_pearson_lower(*counts, 0.975) == pytest.approx(exact[0], abs=5e-5)
    assert stats.clopper_pearson_upper(*counts, 0.975) == pytest.approx(exact[1], abs=5e-5)


@given(n=st.integers(1, 300), data=st.data())
def test_the_lower_bound_leaves_five_percent_above(n: int, data: st.DataObject) -> None:
    from scipy.stats import binom

    wrong = data.draw(st.integers(1, n))
    bound = stats.clopper_pearson_lower(wrong, n)
    assert binom.sf(wrong - 1, n, bound) == pytest.approx(0.05, abs=1e-6)
    assert bound <= wrong / n <= stats.clopper_pearson_upper(wrong, n)


def test_nothing_wrong_bounds_nothing_from_below() -> None:
    assert stats.clopper_pearson_lower(0, 40) == 0.0
    assert stats.clopper_pearson_lower(0, 0) == 0.0


@needs_statsmodels
class TestMcNemar:
    def columns(self, both: int, first: int, second: int, neither: int) -> tuple[list[bool], list[bool]]:
        return (
            [True] * both + [True] * first + [False] * second + [False] * neither,
            [True] * both + [False] * first + [True] * second + [False] * neither,
        )

    def test_many_discordant_pairs_agresti(self) -> None:
        # Agresti 1990, p. 350, presidential approval: z² without correction is 64²/236 = 17.36; with it 63²/236
        found = stats.mcnemar(*self.columns(794, 150, 86, 570))
        assert found.method == "chi-squared, continuity-corrected"
        assert (found.both_right, found.only_first, found.only_second, found.both_wrong) == (794, 150, 86, 570)
        assert found.statistic == pytest.approx(63**2 / 236)
        assert found.p_value == pytest.approx(math.erfc(math.sqrt(63**2 / 236 / 2)))

    def test_few_are_exact(self) -> None:
        found = stats.mcnemar(*self.columns(20, 9, 1, 3))
        assert (found.method, found.statistic) == ("exact", None)
        assert found.p_value == pytest.approx(2 * (1 + 10) / 2**10)

    @pytest.mark.parametrize(("discordant", "method"), [(25, "exact"), (26, "chi-squared, continuity-corrected")])
    def test_where_exact_ends(self, discordant: int, method: str) -> None:
        assert stats.mcnemar(*self.columns(3, discordant, 0, 3)).method == method

    def test_no_discordant_pair(self) -> None:
        found = stats.mcnemar(*self.columns(5, 0, 0, 2))
        assert (found.p_value, found.statistic, found.method) == (1.0, None, "none: no discordant pair")
        assert stats.mcnemar([], []).p_value == 1.0

    @pytest.mark.parametrize("exact", [True, False])
    def test_as_many_on_either_side_is_no_difference(self, exact: bool) -> None:
        assert stats.mcnemar(*self.columns(5, 20, 20, 2), exact=exact).p_value == 1.0

    @pytest.mark.parametrize(("more", "p_value"), [(10, 0.0158), (9, 0.0268)])
    def test_the_papers_own_p_values(self, more: int, p_value: float) -> None:
        """Paper A §4.3 prints p alone. 10:1 and 9:1 with the correction give its digits, cut off and not rounded."""
        found = stats.mcnemar(*self.columns(0, more, 1, 0), exact=False)
        assert math.floor(found.p_value * 10_000) / 10_000 == p_value

    @given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=25))
    def test_agrees_with_discordance_where_exact(self, pairs: list[tuple[bool, bool]]) -> None:
        first, second = [a for a, _ in pairs], [b for _, b in pairs]
        ours, old = stats.mcnemar(first, second), stats.discordance(first, second)
        assert (ours.only_first, ours.only_second) == (old.only_first, old.only_second)
        assert ours.p_value == pytest.approx(old.p_value)

    def test_columns_of_different_length(self) -> None:
        with pytest.raises(ValueError, match="different length: 1 and 0"):
            stats.mcnemar([True], [])


@needs_statsmodels
class TestCochranQ:
    def test_three_drugs(self) -> None:
        # the example of SAS's FREQ procedure, three drugs and 46 people: Q = 8.4706, 2 degrees of freedom, p = 0.0145
        counts = {"FFF": 6, "FFU": 16, "FUF": 2, "FUU": 4, "UFF": 2, "UFU": 4, "UUF": 6, "UUU": 6}
        rows = [row for row, count in counts.items() for _ in range(count)]
        found = stats.cochran_q([[row[drug] == "F" for row in rows] for drug in range(3)])
        assert found.statistic == pytest.approx(576 / 68)
        assert (found.df, found.n, found.informative) == (2, 46, 34)
        assert found.p_value == pytest.approx(0.0145, abs=5e-5)

    @pytest.mark.parametrize("column", [[True] * 4, [False] * 4, [True, False, True, False], []])
    def test_equal_columns_do_not_differ(self, column: list[bool]) -> None:
        found = stats.cochran_q([column] * 3)
        assert (found.statistic, found.p_value, found.informative) == (0.0, 1.0, 0)

    def test_of_two_columns_it_is_mcnemar_without_correction(self) -> None:
        first, second = [True] * 9 + [False] * 3 + [True], [False] * 9 + [True] * 3 + [True]
        assert stats.cochran_q([first, second]).statistic == pytest.approx((9 - 3) ** 2 / 12)

    def test_what_is_no_comparison(self) -> None:
        with pytest.raises(ValueError, match="not 1"):
            stats.cochran_q([[True]])
        with pytest.raises(ValueError, match="different length"):
            stats.cochran_q([[True], [True], []])


@needs_statsmodels
class TestHolm:
    def test_by_hand(self) -> None:
        # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm") is 0.05 0.08 0.09 0.09 0.09: monotone, as 0.04 · 2 < 0.09
        assert stats.holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx((0.05, 0.08, 0.09, 0.09, 0.09))

    def test_the_order_is_kept_and_one_is_the_most(self) -> None:
        assert stats.holm([0.9, 0.005, 0.6]) == pytest.approx((1.0, 0.015, 1.0))
        assert stats.holm([]) == ()
        assert stats.holm([0.04]) == pytest.approx((0.04,))

    @settings(max_examples=10)  # statsmodels collects garbage in every call
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
    def test_between_the_p_value_and_bonferroni(self, p_values: list[float]) -> None:
        for p, adjusted in zip(p_values, stats.holm(p_values), strict=True):
            assert p - 1e-12 <= adjusted <= min(1.0, p * len(p_values)) + 1e-12


@needs_statsmodels
class TestClusterDifference:
    def test_one_item_a_cluster_is_the_exact_sign_test(self) -> None:
        # 6 clusters differ, all one way: of 2⁶ ways to swap, two are as extreme
        first, second = [False] * 6 + [True] * 4, [True] * 10
        found = stats.cluster_difference(first, second, range(10))
        assert (found.difference, found.clusters, found.differing) == (pytest.approx(0.6), 10, 6)
        assert found.p_value == pytest.approx(2 / 2**6)
        assert found.interval is not None
        assert 0 < found.interval[0] < 0.6 < found.interval[1] < 1

    def test_views_of_a_step_do_not_count_as_many(self) -> None:
        """Three steps won, each seen forty times: McNemar is sure, three steps are not enough to be."""
        first, second = [False] * 120 + [True] * 40, [True] * 160
        steps = [i // 40 for i in range(160)]
        assert stats.mcnemar(first, second).p_value < 1e-20
        assert stats.cluster_difference(first, second, steps).p_value == pytest.approx(2 / 2**3)

    def test_the_interval_is_wider_by_cluster(self) -> None:
        first = [bool(i % 2) for i in range(160)]
        second = [True if (i // 20) % 2 else first[i] for i in range(160)]
        by_item = stats.cluster_difference(first, second, range(160)).interval
        by_step = stats.cluster_difference(first, second, [i // 20 for i in range(160)]).interval
        assert by_item is not None
        assert by_step is not None
        assert by_step[1] - by_step[0] > 1.3 * (by_item[1] - by_item[0])

    def test_turned_round_it_turns_round(self) -> None:
        first, second = [True, False, False, True, False, False], [True, True, False, False, True, True]
        one = stats.cluster_difference(first, second, "aabbcc")
        two = stats.cluster_difference(second, first, "aabbcc")
        assert one.difference == -two.difference
        assert one.p_value == two.p_value
        assert one.interval == stats.cluster_difference(first, second, "aabbcc").interval  # the same seed

    def test_where_nothing_can_be_said(self) -> None:
        alone = stats.cluster_difference([True, False], [True, True], ["a", "a"])
        assert (alone.interval, alone.reason) == (None, "all items are of one cluster")
        same = stats.cluster_difference([True, False], [True, False], ["a", "b"])
        assert (same.interval, same.p_value, same.reason) == (None, 1.0, "no cluster differs, so no draw would")
        with pytest.raises(ValueError, match="no item"):
            stats.cluster_difference([], [], [])

    @pytest.mark.slow
    def test_the_interval_holds_the_truth(self) -> None:
        """Clusters drawn with a known difference of 0.1: 95 % intervals hold it about as often (300 sets, ± 4 %)."""
        import numpy as np

        rng = np.random.default_rng(20)
        held = 0
        for _ in range(300):
            steps = np.repeat(np.arange(40), 5)
            level = rng.uniform(0.3, 0.9, 40)[steps]
            first, second = rng.random(200) < level - 0.05, rng.random(200) < level + 0.05
            interval = stats.cluster_difference(first.tolist(), second.tolist(), steps.tolist()).interval
            held += interval is not None and interval[0] <= 0.1 <= interval[1]
        assert 0.91 <= held / 300 <= 0.99


@pytest.mark.parametrize(
    "asked",
    [
        lambda: stats.mcnemar([True], [False]),
        lambda: stats.cochran_q([[True], [False]]),
        lambda: stats.holm([0.1]),
    ],
)
def test_without_statsmodels_the_install_line_is_told(
    asked: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "statsmodels"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    with pytest.raises(MissingExtra, match=r"pip install 'sagehand\[study\]'"):
        asked()
