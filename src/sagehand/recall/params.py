"""What a guided search may be told (paper A §2.4, SPEC A5)."""

from __future__ import annotations

from dataclasses import dataclass

from sagehand.errors import InputError

__all__ = ["PAPER", "SearchParams"]

_COUNTS = {"n": 10_000, "leaves": None, "images_per_step": None, "tie_pairs_up_to": None, "concurrency": 1000}
"""What is counted from 1, and to where."""


@dataclass(frozen=True)
class SearchParams:
    """The parameters of a guided search; the defaults are the paper's.

    Attributes:
        n: How many of the nearest cases name the first leaves, 10,000 at most.
        leaves: How many leaves (devices) are looked at before the judge may expand (the paper's m).
        most_leaves: How many are looked at with all expansions.
        images_per_step: Pictures of one step that are graded, the nearest first.
        min_grade: A best grade below it means no case, 0 to 10.
        first_look: Whether the first candidate is asked about by itself; off is the paper's "always search".
        tie_pairs_up_to: Ties of up to so many are compared pair by pair at once; larger ones in a bracket.
        both_orders: Whether a pair is compared in both orders, so that a judge that answers by position is noticed.
        ahead: Whether ties are compared while leaves are still scored; an expansion may make some of these needless. Not
            done under a budget of calls.
        concurrency: Questions at once, at most; up to 1,000, since each takes a thread. A model has a limit of its own for
            requests; with more questions than that, pictures are made ready while others are out.
        seconds: Time for the search [s]; None for no limit.
        calls: Questions that it may ask; None for no limit.
        faithful: The paper's sequential order: one question after the other (Algorithms 3, 4 and 5). :data:`PAPER` also
            asks about each pair in one order alone, as the paper does.

    Raises:
        InputError: A value is outside its range.
    """

    n: int = 15
    leaves: int = 3
    most_leaves: int = 5
    images_per_step: int = 2
    min_grade: int = 5
    first_look: bool = True
    tie_pairs_up_to: int = 6
    both_orders: bool = True
    ahead: bool = True
    concurrency: int = 32
    seconds: float | None = None
    calls: int | None = None
    faithful: bool = False

    def __post_init__(self) -> None:
        for name, high in _COUNTS.items():
            _within(name, getattr(self, name), 1, high)
        _within("most_leaves", self.most_leaves, self.leaves, None)
        _within("min_grade", self.min_grade, 0, 10)
        if self.seconds is not None:
            _within("seconds", self.seconds, 0, None)
        if self.calls is not None:
            _within("calls", self.calls, 0, None)


def _within(name: str, value: float, low: float, high: float | None) -> None:
    if not (value >= low and (high is None or value <= high)):
        valid = f"{low} or more" if high is None else f"{low} to {high}"
        raise InputError(f"{name} of the search is {value!r}; valid: {valid}")


PAPER = SearchParams(faithful=True, both_orders=False)
"""Question for question what paper A asks, in its order."""
