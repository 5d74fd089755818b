"""Which of the pictures that certify are one thing: views of it that are almost the same count once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sagehand.judge.domain import NEAR_DUPLICATE
from sagehand.judge.risk import Answer

__all__ = ["units"]


def units(answers: Sequence[Answer], vectors: Sequence[NDArray[np.float32]]) -> list[str]:
    """The unit of each answer: near-duplicates, and what shares a unit with them, are one, named by the smallest name.

    Args:
        answers: The answers, each with the unit that its label gives it.
        vectors: (d,) unit embedding of the picture of each.
    """
    owner = {a.unit: a.unit for a in answers}

    def root(name: str) -> str:
        while owner[name] != name:
            owner[name] = owner[owner[name]]
            name = owner[name]
        return name

    for one, other in _near_pairs(np.stack(vectors)):
        first, second = sorted((root(answers[one].unit), root(answers[other].unit)))
        owner[second] = first
    return [root(a.unit) for a in answers]


def _near_pairs(vectors: NDArray[np.float32], block: int = 256) -> Iterator[tuple[int, int]]:
    for start in range(0, len(vectors), block):
        near, other = np.nonzero(vectors[start : start + block] @ vectors.T >= NEAR_DUPLICATE)
        for one, two in zip((start + near).tolist(), other.tolist(), strict=True):
            if one < two:
                yield one, two
