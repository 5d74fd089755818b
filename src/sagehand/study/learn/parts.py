"""Which samples are taught, and how they are asked: parts of a folder by name, and a bench without anything to recall."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagehand.errors import InputError, UnknownName
from sagehand.recall.crop import CROPS
from sagehand.study.dataset.sample import Sample
from sagehand.study.dataset.split import device_folds, split
from sagehand.study.methods.base import Bench
from sagehand.study.run.plan import Arm

if TYPE_CHECKING:
    from sagehand.action.library import ActionLibrary

__all__ = ["PARTS", "part_of", "teaching_bench"]

PARTS = ("all", "base", "query", "train", "validation", "test")
"""Parts of a folder: of the draw (``study split``), or of a fold by device."""


def part_of(
    samples: Sequence[Sample], part: str, *, fold: int = 0, folds: int = 5, per_step: int = 2, seed: int = 0
) -> tuple[Sample, ...]:
    """A part of the samples.

    Args:
        samples: All of them.
        part: A name in :data:`PARTS`.
        fold: Of "train", "validation" and "test": which fold, from 0.
        folds: How many there are.
        per_step: Of "base" and "query": pictures of each step in the base.
        seed: Of the draw and of the folds.

    Raises:
        UnknownName: There is no such part.
        InputError: There is no such fold, or the split cannot be made.
    """
    if part not in PARTS:
        raise UnknownName("part of a split", part, PARTS)
    if part == "all":
        return tuple(samples)
    if part in ("base", "query"):
        found: tuple[Sample, ...] = getattr(split(samples, per_step, seed), part)
        return found
    made = device_folds([(s.family, s.device) for s in samples], folds, seed)
    if not 0 <= fold < len(made):
        raise InputError(f"there is no fold {fold}; the folds are 0 to {len(made) - 1}", hint="mend --fold")
    devices = set(getattr(made[fold], part))
    return tuple(s for s in samples if (s.family, s.device) in devices)


def teaching_bench(
    library: ActionLibrary | None, *, crop: str = "none", guard: bool = True, previous: bool = True, place: bool = True
) -> Bench:
    """A bench that says how samples are asked about, with nothing to recall and nobody to ask.

    Args:
        library: The actions; needed.
        crop: A crop strategy that asks no model.
        guard: Whether impossible actions are left out of the choice.
        previous: Whether the previous action is told.
        place: Whether the place is told.

    Raises:
        UnknownName: There is no such crop.
    """
    from sagehand.embed import HashEmbedder

    if crop not in CROPS:
        raise UnknownName("crop strategy", crop, CROPS)
    return Bench(
        arm=Arm(name="teach", method="zero-shot", crop=crop, guard=guard, previous=previous, place=place, depth=False),
        seed=0,
        fold=0,
        train=(),
        validation=(),
        certify=(),
        library=library,
        embedder=HashEmbedder(),  # nothing is compared
        work=Path(),
    )
