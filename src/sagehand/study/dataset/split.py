"""Which pictures are the base and which are asked (paper A §3.3).

The paper's base holds "two representative images for each disassembly step of each device", chosen by hand. Here they are
drawn by a seed: the order of a draw is the order of hashes of (seed, name), so it depends neither on the order of the rows
nor on pictures of other steps. Pictures of one ``group`` are near-duplicates and never stand on two sides; what would,
is on none (``aside``). Trained methods are asked about devices that they have not seen: folds by device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Literal, TypeVar

from sagehand.errors import InputError
from sagehand.study.dataset.sample import Sample

__all__ = ["Fold", "ShortStep", "Split", "device_folds", "split"]

Side = Literal["base", "certify"]
D = TypeVar("D", bound=Hashable)
_Step = tuple[Hashable, ...]


@dataclass(frozen=True)
class ShortStep:
    """A step with too few pictures: its base is not full, or no picture of it is left to ask about."""

    family: str
    """The family."""
    device: str
    """The device."""
    step: int | None
    """The step's number; None for pictures without one."""
    images: int
    """Pictures of the step."""
    base: int
    """Those in the base."""
    certify: int
    """Those kept apart to certify."""
    query: int
    """Those left to ask about."""


@dataclass(frozen=True)
class Split:
    """The sides of a split, each in the order in which the samples were given."""

    base: tuple[Sample, ...]
    """The retrieval base: what a method may recall or learn from."""
    certify: tuple[Sample, ...]
    """Kept apart to certify a risk; neither base nor query."""
    query: tuple[Sample, ...]
    """What is asked about, when queries are the pictures outside the base."""
    aside: tuple[Sample, ...] = ()
    """On no side, for a near-duplicate (``group``) stands on one."""
    short: tuple[ShortStep, ...] = ()
    """Steps with too few pictures, in the order of the samples."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data: the keys of each side, and the short steps."""
        sides = {name: [s.key for s in getattr(self, name)] for name in ("base", "certify", "query", "aside")}
        return {**sides, "short": [asdict(step) for step in self.short]}


@dataclass(frozen=True)
class Fold(Generic[D]):
    """One fold by device; the three share no device."""

    train: tuple[D, ...]
    """Devices to learn from."""
    validation: tuple[D, ...]
    """Devices for early stopping."""
    test: tuple[D, ...]
    """Devices to be asked about."""


def split(samples: Sequence[Sample], per_step: int = 2, seed: int = 0, certify: int = 0) -> Split:
    """Draw the retrieval base: ``per_step`` pictures of each step of each device.

    A step's pictures come from as many groups as there are, one from each in turn, and one group is left to be asked about
    where the base can be filled without it. Pictures to certify are drawn alike from what is left, but never the last.

    Args:
        samples: Distinct by key.
        per_step: Pictures of each step for the base.
        seed: Another seed, another draw.
        certify: Pictures of each step to keep apart for certifying a risk.

    Raises:
        InputError: ``per_step`` is less than 1, ``certify`` less than 0, or two samples have the same key.
    """
    if per_step < 1:
        raise InputError(f"per_step is {per_step}; it must be at least 1", hint="the paper takes 2 images a step")
    if certify < 0:
        raise InputError(f"certify is {certify}; it must be at least 0", hint="0 keeps nothing apart")
    if len({s.key for s in samples}) < len(samples):
        raise InputError("two samples have the same key", hint="a file name may stand once in the metadata")
    draw = _Draw(samples, seed)
    for step in draw.steps:
        draw.take(step, per_step, "base", spare_last=False)
    for step in draw.steps if certify else ():
        draw.take(step, certify, "certify", spare_last=True)
    return draw.result(per_step)


class _Draw:
    """One draw under way: which unit (a group, or a picture without one) stands on which side."""

    def __init__(self, samples: Sequence[Sample], seed: int) -> None:
        self._samples, self._seed = samples, seed
        self.steps: dict[_Step, list[Sample]] = {}
        for sample in samples:
            self.steps.setdefault(_step_of(sample), []).append(sample)
        self._side: dict[_Step, Side] = {}
        self._taken: dict[str, Side] = {}

    def take(self, step: _Step, wanted: int, side: Side, *, spare_last: bool) -> None:
        """Put ``wanted`` pictures of a step on a side, from units that are on it or on none yet."""
        units: dict[_Step, list[Sample]] = {}
        for sample in sorted(self.steps[step], key=lambda s: self._rank(s.key)):
            units.setdefault(_unit_of(sample), []).append(sample)
        free = {unit: own for unit, own in units.items() if self._side.get(unit, side) == side}
        # those that another step put on this side cost nothing; then by lot, the last one to be asked about
        order = sorted(free, key=lambda unit: (unit not in self._side, self._rank(unit)))
        last = [unit for unit in order if unit not in self._side][-1:]
        picked = _in_turn([free[unit] for unit in order if unit not in last], wanted)
        if len(picked) < wanted and not spare_last:
            picked += _in_turn([free[unit] for unit in last], wanted - len(picked))
        for sample in picked:
            self._side[_unit_of(sample)] = side
            self._taken[sample.key] = side

    def result(self, per_step: int) -> Split:
        sides: dict[str, list[Sample]] = {"base": [], "certify": [], "query": [], "aside": []}
        where: dict[str, str] = {}
        for sample in self._samples:
            side = self._taken.get(sample.key) or ("aside" if _unit_of(sample) in self._side else "query")
            sides[side].append(sample)
            where[sample.key] = side
        short = []
        for own in self.steps.values():
            counts = {name: sum(where[s.key] == name for s in own) for name in sides}
            if counts["base"] < per_step or not counts["query"]:
                first = own[0]
                numbers = (len(own), counts["base"], counts["certify"], counts["query"])
                short.append(ShortStep(first.family, first.device, first.step, *numbers))
        base, certify, query, aside = (tuple(side) for side in sides.values())
        return Split(base, certify, query, aside, tuple(short))

    def _rank(self, name: Hashable) -> bytes:
        return _rank(self._seed, name)


def device_folds(devices: Iterable[D], folds: int = 5, seed: int = 0) -> list[Fold[D]]:
    """Folds by device, about 70/10/20 (paper A §3.3): each device is in the test set of exactly one fold.

    The devices are shuffled and dealt to the folds' test sets; of those that follow a test set in the shuffled ring, a
    tenth of all devices (at least one) validate, and the rest train. With six devices and five folds that is 1–2 test,
    1 validation and 3–4 training devices.

    Args:
        devices: Names, or (family, device) pairs; repeats count once, and their order means nothing.
        folds: How many; with fewer devices there are as many folds as devices.
        seed: Another seed, other folds.

    Raises:
        InputError: Fewer than two folds, or fewer than three devices.
    """
    ring = sorted(set(devices), key=lambda device: _rank(seed, device))
    if folds < 2:
        raise InputError(f"folds is {folds}; it must be at least 2", hint="the paper takes 5")
    if len(ring) < 3:
        raise InputError(
            f"{len(ring)} devices cannot be divided into training, validation and test devices",
            hint="folds by device need at least 3 devices",
        )
    count = len(ring)
    folds = min(folds, count)
    validating = max(1, round(count / 10))
    ends = [round(count * (i + 1) / folds) for i in range(folds)]
    spans = list(zip([0, *ends], ends, strict=False))
    if max(end - start for start, end in spans) + validating >= count:
        raise InputError(f"{count} devices in {folds} folds leave none to train on", hint="take more folds")
    made = []
    for start, end in spans:
        rest = ring[end:] + ring[:start]
        made.append(Fold(tuple(rest[validating:]), tuple(rest[:validating]), tuple(ring[start:end])))
    return made


def _step_of(sample: Sample) -> _Step:
    """What is one step: its number on its device; without a number, what was done and what comes next."""
    if sample.step is not None:
        return sample.family, sample.device, sample.step
    return sample.family, sample.device, None, sample.previous_action, sample.next_action


def _unit_of(sample: Sample) -> _Step:
    return ("group", sample.group) if sample.group is not None else ("picture", sample.key)


def _in_turn(units: list[list[Sample]], wanted: int) -> list[Sample]:
    """One of each unit, then a second of each, and so on."""
    picked: list[Sample] = []
    for turn in range(max(map(len, units), default=0)):
        picked += [own[turn] for own in units if turn < len(own)]
    return picked[:wanted]


def _rank(seed: int, name: Hashable) -> bytes:
    """The place in a draw: the same on every machine, whatever else is drawn."""
    return hashlib.blake2b(f"{seed}/{name!r}".encode(), digest_size=16).digest()
