"""Candidates with the same grade are compared in pairs until one is left (paper A, Algorithm 4).

Algorithm 4 compares the two that rank highest, drops the loser, and goes on. Where each pair is asked does not change its
answer, so all pairs can be asked at once and the algorithm be replayed over the answers. A pair is asked in both orders: a
judge that answers by position contradicts itself, and then the rank decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from sagehand.recall.trace import Asked, Pair

__all__ = ["Settle", "all_pairs", "eliminate", "find_cycle", "pair_up", "position_suspicions", "settle"]

Settle = Callable[[str, str], Pair]
"""Ids of two candidates, the one that ranks higher first → which of them stays."""


def all_pairs(tied: Sequence[str]) -> list[tuple[str, str]]:
    """Every pair once, the one that ranks higher first, in the order of ranks."""
    return list(combinations(tied, 2))


def settle(first: str, second: str, asked: Asked | None, turned: Asked | None) -> Pair:
    """Which of two stays.

    Args:
        first: Id of the one that ranks higher.
        second: Id of the other.
        asked: The comparison of first and second; None where it was not asked.
        turned: The comparison of second and first; None where it was not asked.
    """
    there = asked.answer if asked else None
    back = turned.answer if turned else None
    if there is not None and there == back:
        why = f"the judge answers {there!r} in both orders"
        return Pair(first, second, first, "rank", why, str(there))
    if there is not None:
        return Pair(first, second, first if there == "first" else second, "verdict")
    if back is not None:
        return Pair(first, second, second if back == "first" else first, "verdict")
    failed = next((one.error for one in (asked, turned) if one and one.error), None)
    why = failed or ("the judge cannot tell them apart" if asked or turned else "not asked")
    return Pair(first, second, first, "rank", why)


def eliminate(tied: Sequence[str], settle: Settle) -> tuple[str, list[Pair]]:
    """Algorithm 4: the winner, and the pairs on the way.

    Args:
        tied: Ids by rank, at least one.
        settle: Settles a pair.
    """
    left, pairs = list(tied), []
    while len(left) > 1:
        pair = settle(left[0], left[1])
        pairs.append(pair)
        left.remove(pair.second if pair.winner == pair.first else pair.first)
    return left[0], pairs


def pair_up(left: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """One round of a bracket: neighbours in rank meet, and the last of an odd number waits."""
    pairs = [(left[at], left[at + 1]) for at in range(0, len(left) - 1, 2)]
    return pairs, list(left[2 * len(pairs) :])


def find_cycle(tied: Sequence[str], pairs: Sequence[Pair]) -> tuple[str, str, str] | None:
    """Three that beat each other in a circle, each the next; None where there are none or a pair is missing.

    If all pairs are there and no three go round, the winners are in one order, and Algorithm 4 ends with its first
    whatever the order of comparing.
    """
    beats = {(p.winner, p.second if p.winner == p.first else p.first) for p in pairs}
    for a, b, c in combinations(tied, 3):
        if {(a, b), (b, c), (c, a)} <= beats:
            return a, b, c
        if {(a, c), (c, b), (b, a)} <= beats:
            return a, c, b
    return None


def position_suspicions(pairs: Sequence[Pair]) -> list[str]:
    """What shows that a judge answers by position."""
    found = []
    for answer in ("first", "second"):
        count = sum(pair.by_position == answer for pair in pairs)
        if count:
            what = "1 comparison" if count == 1 else f"{count} comparisons"
            found.append(
                f"{what} of {len(pairs)} answered {answer!r} in both orders: by position, not by what is shown"
            )
    return found
