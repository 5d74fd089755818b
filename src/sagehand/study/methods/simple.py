"""The baselines: random, majority, context alone, and the nearest picture (paper A §3.3, §4.4.1; SPEC A7).

Each honours the arm's guard: an action that is known to be impossible is not answered, and the next best one is. The
sample's own picture never answers for it, whether it is in the base or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from sagehand.action.clock import Clock
from sagehand.cases import NOTHING_DONE, Case, Where
from sagehand.judge.model import believed, most_believed
from sagehand.study.baselines import Baselines
from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Answer, Bench
from sagehand.study.methods.eyes import Eyes
from sagehand.study.methods.known import NOTHING_POSSIBLE, allowed, base_of, chance, told

__all__ = ["Context", "Majority", "Nearest", "Random"]

T = TypeVar("T", bound=Hashable)


class Random:
    """A uniform choice for each task among its valid outputs (paper A §4.4.1), drawn from (seed, task, sample's key).

    Valid are: the library's actions, without those that the guard rules out for the next one; the sequences of remaining
    actions that the base shows; true and false; the library's families. Without a library the base's own names are.

    Args:
        bench: The bench.
    """

    name = "random"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        library, train = bench.library, bench.train
        self._actions = tuple(library.actions) if library else _distinct(s.next_action for s in train)
        doing = [a for a in self._actions if library is None or a != library.end]
        self._previous = (NOTHING_DONE, *(a for a in doing if a != NOTHING_DONE))
        self._remaining = _distinct(s.remaining_actions for s in train)
        self._classes = library.families if library and library.families else _distinct(s.family for s in train)

    def answer(self, sample: Sample) -> Answer:
        """Draw an answer to every task."""
        valid = allowed(self._bench, told(self._bench, sample))
        action = self._draw(sample, "next_action", [a for a in self._actions if valid is None or a in valid])
        return Answer(
            next_action=action,
            previous_action=self._draw(sample, "previous_action", self._previous),
            remaining_actions=self._draw(sample, "remaining_actions", self._remaining),
            is_last=self._draw(sample, "is_last", (False, True)),
            device_class=self._draw(sample, "device_class", self._classes),
            abstained=action is None,
            reason=NOTHING_POSSIBLE if action is None else "drawn at random",
        )

    def close(self) -> None:
        """Nothing is held."""

    def _draw(self, sample: Sample, task: str, valid: Sequence[T]) -> T | None:
        return chance(self._bench, sample, task).choice(valid) if valid else None


class Majority:
    """The commonest answer of the base to each task; ties go to the first by name. The sample itself does not count.

    Args:
        bench: The bench.
    """

    name = "majority"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def answer(self, sample: Sample) -> Answer:
        """The commonest answers of the other samples."""
        others = [s for s in self._bench.train if s.key != sample.key]
        valid = allowed(self._bench, told(self._bench, sample))
        action = _commonest((s.next_action for s in others), valid)
        return Answer(
            next_action=action,
            previous_action=_commonest(s.previous_action for s in others),
            remaining_actions=_commonest(s.remaining_actions for s in others),
            is_last=_commonest(s.is_last for s in others),
            device_class=_commonest(s.family for s in others),
            abstained=action is None,
            reason="the base shows no action that is possible" if action is None else "the commonest in the base",
        )

    def close(self) -> None:
        """Nothing is held."""


class Context:
    """Previous action and place alone, no picture: what is known already, by weights learnt on the base.

    Cases are ordered by the belief that the context gives them; most are tied, and ties are ordered by a draw from (seed,
    sample's key). The answer is the action with most belief over all cases, as for the perceptual judge, and the case is
    the first in that order whose next action it is: it tells what remains.

    Args:
        bench: The bench, with a case base.
    """

    name = "context"

    def __init__(self, bench: Bench) -> None:
        base = base_of(bench)
        self._bench, self._baselines = bench, Baselines.of(base)
        self._index = self._baselines.index
        self._row = {case.file_name: row for row, case in enumerate(self._index.cases)}

    def answer(self, sample: Sample) -> Answer:
        """The action that is most believed of such a previous action and place."""
        known = told(self._bench, sample)
        valid = allowed(self._bench, known)
        shares = self._baselines.context_shares(known.previous, known.place, self._row.get(sample.key))
        beliefs = self._baselines.actions(shares)
        action = most_believed(beliefs, valid)
        draw = chance(self._bench, sample, "context")
        lot = [draw.random() for _ in shares]
        rows = sorted(np.flatnonzero(shares > 0).tolist(), key=lambda row: (-round(float(shares[row]), 9), lot[row]))
        cases = [self._index.cases[row] for row in rows]
        lead = next((case for case in cases if case.next_action == action), None) if action is not None else None
        family_codes, families = self._index.codes("family")
        return Answer(
            next_action=action,
            previous_action=known.previous or (lead.previous_action if lead else None),
            remaining_actions=lead.remaining_actions if lead else None,
            is_last=lead.is_last if lead else None,
            device_class=most_believed(believed(family_codes[rows], shares[rows], families)) if rows else None,
            confidence=beliefs[action] if action is not None else None,
            abstained=action is None,
            reason="no case that counts shows an action that is possible" if action is None else "by the context alone",
            case=lead.file_name if lead else None,
            order=tuple(case.file_name for case in cases),
        )

    def close(self) -> None:
        """Nothing is held that is its own; the case base belongs to who made the bench."""


class Nearest:
    """The labels of the nearest picture: Single-RAG's retrieval (paper A §3.3) without a model.

    Cut and embedded as the cases are; nearest by cosine, ties by case id. With the guard on, the nearest case whose next
    action is not ruled out answers. The previous action is copied from what is known, as the task asks.

    Args:
        bench: The bench, with a case base.
    """

    name = "nearest"

    def __init__(self, bench: Bench) -> None:
        base = base_of(bench)
        base.require(bench.embedder.identity)
        self._bench, self._index, self._eyes = bench, base.index(), Eyes(bench)
        self._row = {case.file_name: case.id for case in self._index.cases}

    def answer(self, sample: Sample) -> Answer:
        """What the nearest case says.

        Raises:
            PictureError: The picture cannot be used.
        """
        clock = Clock()
        known = told(self._bench, sample)
        valid = allowed(self._bench, known)
        seen = self._eyes.look(sample, clock)
        with clock("embed"):
            vector = self._bench.embedder.embed([seen.view.pixels])[0]
        with clock("recall"):
            own = frozenset({seen.picture.pixel_id, self._row.get(sample.key, "")})
            mask = self._index.mask(Where(exclude=own))
            rows, cosine = self._index.top(vector, max(len(self._index), 1), mask)
        cases = [self._index.cases[int(row)] for row in rows]
        at = next((at for at, case in enumerate(cases) if _may(case, valid)), None)
        lead = cases[at] if at is not None else None
        return Answer(
            next_action=lead.next_action if lead else None,
            previous_action=known.previous or (lead.previous_action if lead else None),
            remaining_actions=lead.remaining_actions if lead else None,
            is_last=lead.is_last if lead else None,
            device_class=lead.family if lead else None,
            abstained=lead is None,
            reason="the nearest picture" if lead else "no case shows an action that is possible",
            case=lead.file_name if lead else None,
            order=tuple(case.file_name for case in cases),
            box=seen.box,
            size=seen.picture.size,
            timings=clock.parts,
            usage=seen.cost,
            extra={
                **({"similarity": float(cosine[at])} if at is not None else {}),
                **({"warnings": list(seen.warnings)} if seen.warnings else {}),
            },
        )

    def close(self) -> None:
        """Nothing is held that is its own; the case base belongs to who made the bench."""


def _may(case: Case, valid: Collection[str] | None) -> bool:
    return case.next_action is not None and (valid is None or case.next_action in valid)


def _distinct(values: Iterable[T | None]) -> tuple[T, ...]:
    """Each known value once, in order."""
    return tuple(sorted({v for v in values if v is not None}, key=_by_name))


def _commonest(values: Iterable[T | None], among: Collection[T] | None = None) -> T | None:
    """The commonest known value; ties go to the first by name."""
    counts = Counter(v for v in values if v is not None and (among is None or v in among))
    return min(counts, key=lambda v: (-counts[v], _by_name(v)), default=None)


def _by_name(value: Hashable) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)
