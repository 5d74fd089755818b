"""What every method stands on: what it is told, which actions it may answer, and its seeded chance."""

from __future__ import annotations

import random
from collections.abc import Collection

from sagehand.action.decision import Known
from sagehand.action.guard import check_actions, know
from sagehand.cases import CaseBase
from sagehand.errors import InputError
from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Bench

__all__ = ["NOTHING_POSSIBLE", "allowed", "base_of", "chance", "told"]

NOTHING_POSSIBLE = "every action is ruled out by what is known"


def told(bench: Bench, sample: Sample) -> Known:
    """What a method may know beside the picture: what the arm tells of the previous action and the place."""
    known = sample.known
    return Known(
        previous=known.previous if bench.arm.previous else None, place=known.place if bench.arm.place else None
    )


def allowed(bench: Bench, known: Known) -> Collection[str] | None:
    """The actions that the guard does not rule out, in the library's order; None for all, where no guard is asked for.

    Raises:
        UnknownName: The library does not have the previous action.
    """
    if not bench.arm.guard or bench.library is None:
        return None
    return check_actions(bench.library, know(bench.library, previous=known.previous)).valid


def chance(bench: Bench, sample: Sample, what: str) -> random.Random:
    """A source of chance that depends on (seed, what it is for, sample's key) alone: not on order, threads or process."""
    return random.Random(f"{bench.seed}\0{what}\0{sample.key}")


def base_of(bench: Bench) -> CaseBase:
    """The case base.

    Raises:
        InputError: The bench has none.
    """
    if bench.base is None:
        raise InputError(
            f"the method {bench.arm.method!r} recalls cases, and its bench has no case base",
            hint="make the bench with base=…",
        )
    return bench.base
