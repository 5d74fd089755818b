"""The study's data set "ewaste": six devices, normal and damaged, in views that vary more than the demo cell's.

Four smoke detectors and two heat cost allocators (paper A §3.1 has the same numbers), and any number of devices that nobody has
seen. A view follows from (seed, device, step, number) alone, so that a bigger set contains the smaller one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import numpy as np

from sagehand.errors import InputError, UnknownName
from sagehand.study.cell.blade_allocators import SLIM
from sagehand.study.cell.damage import DAMAGED_FUMONIC, DAMAGED_KALO, DAMAGED_QUNDIS
from sagehand.study.cell.dataset import View, view_seed
from sagehand.study.cell.device import Course, Device
from sagehand.study.cell.padded_detectors import TWIN_A, TWIN_B
from sagehand.study.cell.random_devices import random_device
from sagehand.study.cell.scene import STUDY

__all__ = ["EWASTE", "IMAGES", "SEED", "chosen_devices", "ewaste_actions", "ewaste_views"]

EWASTE: tuple[Device, ...] = (DAMAGED_KALO, DAMAGED_FUMONIC, TWIN_A, TWIN_B, DAMAGED_QUNDIS, SLIM)
"""The six devices of the set."""

IMAGES = 196
"""Pictures of the default set, as many as paper A §3.1 has."""

SEED = 1
"""Root seed of the default set. Pictures of seed 0 were used while the software was written; those of this one were not."""

DAMAGED_SHARE = 0.4
"""Share of the views of a normal step whose unit came to it on the way of a damaged one, where there is such a way."""

MOST_RANDOM = 100_000
_RANDOM = re.compile(r"random:(\d{1,9})")


def ewaste_actions() -> Path:
    """The action library under which every label of the set is allowed."""
    return Path(str(files("sagehand.study.cell") / "ewaste_actions.yaml"))


def chosen_devices(devices: str | Iterable[str] | None = None, *, seed: int = SEED) -> tuple[Device, ...]:
    """The devices of these names, in their order; all six for None.

    Args:
        devices: Names, or ``random:K`` for K devices that nobody has seen, mixed freely; one text parts them by commas.
        seed: Decides the random ones. The first K of more are the same K.

    Raises:
        UnknownName: A name that is neither.
        InputError: There is no device in it, one twice, or too many random ones.
    """
    if devices is None:
        return EWASTE
    names = [n.strip() for n in (devices.split(",") if isinstance(devices, str) else devices)]
    known = {device.name: device for device in EWASTE}
    chosen: list[Device] = []
    for name in (n for n in names if n):
        if match := _RANDOM.fullmatch(name):
            count = int(match[1])
            if not 1 <= count <= MOST_RANDOM:
                raise InputError(
                    f"{name!r} asks for {count} devices", hint=f"ask for 1 to {MOST_RANDOM}, as in random:20"
                )
            chosen += [
                random_device(view_seed("ewaste device", seed, n), name=f"random_{n:05d}") for n in range(1, count + 1)
            ]
        elif name in known:
            chosen.append(known[name])
        else:
            raise UnknownName("device", name, [*known, "random:K"], hint="random:20 stands for 20 unseen devices")
    if not chosen:
        raise InputError("no device is named", hint=f"name some of {', '.join(known)}, or random:K")
    twice = [name for name, count in Counter(d.name for d in chosen).items() if count > 1]
    if twice:
        raise InputError(f"devices named twice: {', '.join(twice[:5])}", hint="name each once, and random:K once")
    return tuple(chosen)


def ewaste_views(
    images: int = IMAGES, *, per_step: int | None = None, seed: int = SEED, devices: str | Iterable[str] | None = None
) -> list[View]:
    """The views of a data set, by device, step and number.

    Args:
        images: How many in all, spread as evenly as possible over all steps; which steps get one more is seeded.
        per_step: How many of each step instead.
        seed: Decides all views.
        devices: As :func:`chosen_devices` takes them.

    Raises:
        InputError: ``images`` or ``per_step`` is less than 1, or ``devices`` are not usable.
    """
    for name, value in (("images", images), ("per_step", per_step)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}", hint="ask for at least one picture")
    all_steps = [(device, step) for device in chosen_devices(devices, seed=seed) for step in range(len(device.steps))]
    if per_step is not None:
        counts = dict.fromkeys(range(len(all_steps)), per_step)
    else:
        each, left = divmod(images, len(all_steps))
        by_lot = sorted(
            range(len(all_steps)),
            key=lambda i: view_seed("ewaste order", seed, all_steps[i][0].name, all_steps[i][1]),
        )
        counts = {i: each + (rank < left) for rank, i in enumerate(by_lot)}
    return [
        _view(seed, device, step, number) for i, (device, step) in enumerate(all_steps) for number in range(counts[i])
    ]


def _view(seed: int, device: Device, step: int, number: int) -> View:
    own = view_seed("ewaste", seed, device.name, step, number)
    name = f"images/{device.name}_step{step + 1:02d}_view{number + 1:03d}.jpg"
    return View(name, device.steps[step].place, own, device, step, course=_course(device, step, own), variety=STUDY)


def _course(device: Device, step: int, seed: int) -> Course:
    """The way that the unit of a view has come, from a stream of its own."""
    ways = device.through(step)
    rng = np.random.default_rng([seed, 6])
    if ways[0] == device.normal:
        normal, ways = ways[0], ways[1:]
        if not ways or rng.random() >= DAMAGED_SHARE:
            return normal
    return ways[int(rng.integers(0, len(ways)))]
