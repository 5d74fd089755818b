"""Intervals and tests against published values and hand calculations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagehand import stats


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
