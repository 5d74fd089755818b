"""From a plan and its pictures to units: an arm, a seed and a fold, with what may be learnt from and what is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from sagehand.errors import InputError
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.dataset.split import Split, device_folds, split
from sagehand.study.run.plan import TRAINED, Arm, Plan, Protocol

__all__ = ["FOLDS", "Unit", "Units"]

FOLDS = 5
"""Folds by device (paper A §3.3)."""


@dataclass(frozen=True, eq=False)
class Unit:
    """One unit of a study.

    Attributes:
        arm: The arm.
        seed: The seed.
        fold: The fold: of "new-device" and "folds" the place of what is left out; else 0.
        protocol: How the samples were divided.
        data: The pictures.
        train: What may be learnt from: the retrieval base, or of folds the training devices' samples.
        validation: Of folds, the validation devices' samples.
        certify: Kept apart to certify a risk.
        asked: (subset, sample) of everything that is asked.
    """

    arm: Arm
    seed: int
    fold: int
    protocol: Protocol
    data: StudyData = field(repr=False)
    train: tuple[Sample, ...] = field(repr=False)
    validation: tuple[Sample, ...] = field(repr=False)
    certify: tuple[Sample, ...] = field(repr=False)
    asked: tuple[tuple[str, Sample], ...] = field(repr=False)

    @property
    def name(self) -> str:
        """The unit in words."""
        fold = f", fold {self.fold}" if self.protocol in ("new-device", "folds") else ""
        return f"{self.arm.name}, seed {self.seed}{fold}"

    @property
    def keys(self) -> list[tuple[str, int, int, str, str]]:
        """The key of each record, in the order of ``asked``."""
        return [(self.arm.name, self.seed, self.fold, subset, sample.key) for subset, sample in self.asked]

    @property
    def new_devices(self) -> bool:
        """Whether queries show devices that the base does not know: what is learnt leaves devices out then."""
        return self.protocol in ("new-device", "folds")


class Units:
    """All units of a plan, divided when they are looked at.

    Args:
        plan: The plan.
        data: Seed → its pictures.

    Raises:
        InputError: A protocol cannot be followed with these pictures.
    """

    def __init__(self, plan: Plan, data: Callable[[int], StudyData]) -> None:
        self._plan, self._data = plan, data
        self._split = cache(self._split_of)

    def of(self, arm: Arm, seed: int) -> Iterator[Unit]:
        """The units of one arm and seed: one, or one a fold."""
        data, protocol = self._data(seed), self._plan.protocol_of(arm)
        if protocol == "folds":
            yield from self._folds(arm, seed, data)
        elif protocol == "new-device":
            yield from self._new_devices(arm, seed, data)
        else:
            sides = self._split(seed)
            aside = {s.key for s in sides.certify}
            queries = sides.query if protocol == "held-out" else [s for s in data.samples if s.key not in aside]
            if not queries:
                raise InputError(
                    f"{data.folder}: with {self._plan.per_step} images a step in the base none is left to ask about",
                    hint="lower per_step or certify, add pictures, or use protocol paper",
                )
            yield Unit(arm, seed, 0, protocol, data, sides.base, (), sides.certify, _asked(("query", queries)))

    def _new_devices(self, arm: Arm, seed: int, data: StudyData) -> Iterator[Unit]:
        sides = self._split(seed)
        for fold, device in enumerate(_devices(data)):
            base, certify = ([s for s in side if _device(s) != device] for side in (sides.base, sides.certify))
            if not base:
                raise InputError(
                    f"{data.folder}: shows one device, so none can be left out", hint="use protocol held-out"
                )
            queries = [s for s in data.samples if _device(s) == device]
            asked = _asked(("query", queries))
            yield Unit(arm, seed, fold, "new-device", data, tuple(base), (), tuple(certify), asked)

    def _folds(self, arm: Arm, seed: int, data: StudyData) -> Iterator[Unit]:
        for number, fold in enumerate(device_folds(_devices(data), FOLDS, seed)):
            train, validation, test = (
                tuple(s for s in data.samples if _device(s) in side)
                for side in (fold.train, fold.validation, fold.test)
            )
            sides = [("test", test)]
            if arm.method in TRAINED:
                sides = [("train", train), ("validation", validation), *sides]
            yield Unit(arm, seed, number, "folds", data, train, validation, (), _asked(*sides))

    def _split_of(self, seed: int) -> Split:
        return split(self._data(seed).samples, self._plan.per_step, seed, self._plan.certify)


def _asked(*sides: tuple[str, Sequence[Sample]]) -> tuple[tuple[str, Sample], ...]:
    return tuple((subset, sample) for subset, samples in sides for sample in samples)


def _device(sample: Sample) -> tuple[str, str]:
    return sample.family, sample.device


def _devices(data: StudyData) -> list[tuple[str, str]]:
    return sorted({_device(s) for s in data.samples})
