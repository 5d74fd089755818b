"""Algorithm 4 over pairs that are settled by verdicts, by the other order, or by rank."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.recall.ties import all_pairs, eliminate, find_cycle, pair_up, position_suspicions, settle
from sagehand.recall.trace import Asked, Pair


def said(answer: str | None, error: str | None = None) -> Asked:
    return Asked("CompareImages", ("a", "b"), 0, answer, "", (), "t", error, 0.0, 0.0)


@pytest.mark.parametrize(
    ("asked", "turned", "winner", "settled"),
    [
        ("first", "second", "a", "verdict"),
        ("second", "first", "b", "verdict"),
        ("first", None, "a", "verdict"),
        ("second", None, "b", "verdict"),
        (None, "first", "b", "verdict"),
        (None, "second", "a", "verdict"),
        ("first", "first", "a", "rank"),
        ("second", "second", "a", "rank"),
        (None, None, "a", "rank"),
    ],
)
def test_a_pair_is_settled_by_what_both_orders_say(
    asked: str | None, turned: str | None, winner: str, settled: str
) -> None:
    pair = settle("a", "b", said(asked), said(turned))
    assert (pair.winner, pair.settled) == (winner, settled)
    assert pair.by_position == (asked if asked == turned else None)
    assert bool(pair.why) == (settled == "rank")


def test_why_the_rank_decides() -> None:
    assert settle("a", "b", said("first"), said("first")).why == "the judge answers 'first' in both orders"
    assert settle("a", "b", said(None), None).why == "the judge cannot tell them apart"
    assert settle("a", "b", said(None, "Truncated: cut off"), said(None)).why == "Truncated: cut off"
    assert settle("a", "b", None, None).why == "not asked"
    assert settle("a", "b", None, said("first")).winner == "b"


def test_algorithm_4_compares_the_two_that_rank_highest_and_drops_the_loser() -> None:
    met = []

    def settles(first: str, second: str) -> Pair:
        met.append(first + second)
        return Pair(first, second, second if first + second == "ab" else first, "verdict")

    winner, pairs = eliminate("abcd", settles)
    assert met == ["ab", "bc", "bd"]
    assert winner == "b"
    assert [p.winner for p in pairs] == ["b", "b", "b"]
    assert eliminate("a", settles) == ("a", [])


@given(st.integers(1, 6), st.integers(0, 2**15 - 1))
@settings(max_examples=300, deadline=None)
def test_without_a_cycle_the_order_of_comparing_does_not_matter(count: int, bits: int) -> None:
    ids = "abcdef"[:count]
    beats = {pair: Pair(*pair, pair[(bits >> at) & 1], "verdict") for at, pair in enumerate(all_pairs(ids))}

    def settles(first: str, second: str) -> Pair:
        return beats.get((first, second)) or beats[second, first]

    winners = {eliminate(order, settles)[0] for order in itertools.permutations(ids)}
    champion = [i for i in ids if all(settles(i, other).winner == i for other in ids if other != i)]
    cycle = find_cycle(ids, list(beats.values()))
    if cycle is None:
        assert winners == set(champion)
    else:
        a, b, c = cycle
        assert [settles(a, b).winner, settles(b, c).winner, settles(c, a).winner] == [a, b, c]
    # one that beats all others wins in every order, cycle or none
    if champion:
        assert winners == set(champion)
    else:
        assert cycle is not None
        assert len(winners) > 1


def test_a_cycle_is_not_claimed_where_a_pair_is_missing() -> None:
    pairs = [Pair("a", "b", "a", "verdict"), Pair("b", "c", "b", "verdict"), Pair("a", "c", "c", "verdict")]
    assert find_cycle("abc", pairs) == ("a", "b", "c")
    assert find_cycle("abc", pairs[:2]) is None


def test_neighbours_meet_in_a_bracket() -> None:
    assert pair_up("abcde") == ([("a", "b"), ("c", "d")], ["e"])
    assert pair_up("ab") == ([("a", "b")], [])


def test_suspicions_count_each_position() -> None:
    pairs = [
        settle("a", "b", said(x), said(y)) for x, y in (("first", "first"), ("second", "second"), ("first", "second"))
    ]
    assert position_suspicions(pairs) == [
        "1 comparison of 3 answered 'first' in both orders: by position, not by what is shown",
        "1 comparison of 3 answered 'second' in both orders: by position, not by what is shown",
    ]
    assert position_suspicions(pairs[2:]) == []
