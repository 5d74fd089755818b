"""The course of a training: epochs, early stopping, and a checkpoint an epoch to go on from (paper A §4.4.1).

At most so many epochs; the end comes when the validation loss was not lower for ``patience`` epochs; the weights of the lowest
one are kept. Where no validation sample has a class that was learnt there is no validation loss: then every epoch is run, the
weights of the lowest training loss are kept, and the course says so.

The order of samples in an epoch, and what else is drawn, comes from (seed, epoch) alone. So a training that was broken off and
goes on gives what it would have given.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.files import write_whole

__all__ = [
    "TRAINING",
    "Course",
    "Epoch",
    "Examples",
    "Fit",
    "best_epoch",
    "early_stop",
    "fit",
    "read_course",
    "score",
]

_COURSE, _STATE, _BEST = "course.json", "state.pt", "best.pt"
TRAINING = threading.Lock()
"""Held while something trains: what torch draws comes from one generator of the process."""


class Examples(Protocol):
    """Inputs and classes, made as they are needed."""

    def __len__(self) -> int: ...

    def batch(self, rows: Sequence[int]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Inputs (n, …) and classes (n,) of some rows; -1 is a class that was not learnt."""
        ...


@dataclass(frozen=True)
class Epoch:
    """What came of an epoch.

    Attributes:
        number: From 1.
        train_loss: Mean cross-entropy of the training samples while they were learnt from [nats].
        validation_loss: Mean cross-entropy of the validation samples after it [nats]; None where there is none.
        seconds: What it took [s].
    """

    number: int
    train_loss: float
    validation_loss: float | None
    seconds: float


@dataclass(frozen=True)
class Course:
    """A training that has ended.

    Attributes:
        epochs: All of them.
        best: Number of the epoch whose weights are kept.
        by: The loss that says which: "validation" or "training".
        ended: "patience" or "epochs".
    """

    epochs: tuple[Epoch, ...]
    best: int
    by: Literal["validation", "training"]
    ended: Literal["patience", "epochs"]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Fit:
    """How to train.

    Attributes:
        epochs: Most epochs.
        patience: Epochs without a lower validation loss after which training ends.
        rate: Learning rate of AdamW.
        decay: Weight decay of AdamW.
        batch: Samples a step.
        seed: Of the order of the samples.
        device: As torch names it.
    """

    epochs: int
    patience: int
    rate: float
    decay: float
    batch: int
    seed: int
    device: str


def best_epoch(losses: Sequence[float]) -> int | None:
    """Number, from 1, of the first epoch with the lowest loss; None where no loss is a number."""
    finite = [(loss, number) for number, loss in enumerate(losses, 1) if math.isfinite(loss)]
    return min(finite)[1] if finite else None


def early_stop(losses: Sequence[float], patience: int) -> bool:
    """Whether the lowest validation loss is ``patience`` epochs old (paper A §4.4.1: 2)."""
    return len(losses) - (best_epoch(losses) or 0) >= patience


def fit(
    network: Any,
    logits: Callable[[Any, Any], Any],
    train: Examples,
    validation: Examples | None,
    how: Fit,
    folder: Path,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Course:
    """Train a network, and leave it with the best weights. Goes on from ``folder`` where a training was broken off.

    Args:
        network: A torch module on ``how.device``.
        logits: (network, inputs) → (n, classes).
        train: What it learns from; every class learnt.
        validation: Samples of other devices whose classes were all learnt, or None.
        how: Epochs and the like.
        folder: Of the checkpoints.
        on_epoch: Called after each epoch, its checkpoint written.

    Raises:
        InputError: The loss is not a number in any epoch, or a checkpoint cannot be read.
    """
    import torch

    ended = read_course(folder)
    if ended is not None:
        network.load_state_dict(_load(folder / _BEST)["network"])
        return ended
    optimiser = torch.optim.AdamW(network.parameters(), lr=how.rate, weight_decay=how.decay)
    past: list[Epoch] = []
    if (folder / _STATE).exists():
        state = _load(folder / _STATE)
        network.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        past = [Epoch(**epoch) for epoch in state["epochs"]]
    by: Literal["validation", "training"] = "training" if validation is None else "validation"
    while len(past) < how.epochs and not (by == "validation" and past and early_stop(_losses(past, by), how.patience)):
        past.append(_epoch(network, logits, optimiser, train, validation, how, len(past) + 1))
        if best_epoch(_losses(past, by)) == len(past):
            _save(folder / _BEST, {"network": network.state_dict()})
        state = {"network": network.state_dict(), "optimiser": optimiser.state_dict()}
        _save(folder / _STATE, state | {"epochs": [asdict(epoch) for epoch in past]})
        if on_epoch:
            on_epoch(past[-1])
    best = best_epoch(_losses(past, by))
    if best is None:
        raise InputError(f"training diverged: no {by} loss is a number", hint="give a smaller learning rate `lr`")
    stopped = by == "validation" and early_stop(_losses(past, by), how.patience)
    course = Course(tuple(past), best, by, "patience" if stopped else "epochs")
    network.load_state_dict(_load(folder / _BEST)["network"])
    write_whole(folder / _COURSE, json.dumps(course.to_dict(), indent=1).encode())
    (folder / _STATE).unlink(missing_ok=True)  # the optimiser's state is twice the weights, and of no more use
    return course


def read_course(folder: Path) -> Course | None:
    """The course of a training that has ended in a folder, or None."""
    path = folder / _COURSE
    if not path.exists() or not (folder / _BEST).exists():
        return None
    doc = json.loads(path.read_text(encoding="utf-8"))
    return Course(tuple(Epoch(**e) for e in doc["epochs"]), doc["best"], doc["by"], doc["ended"])


def score(
    network: Any, logits: Callable[[Any, Any], Any], examples: Examples, how: Fit
) -> tuple[float | None, float | None]:
    """Mean cross-entropy [nats] over the samples whose class was learnt, and accuracy over all; None without samples."""
    import torch

    network.eval()
    losses, right = [], 0
    with torch.inference_mode():
        for rows in _batches(list(range(len(examples))), how.batch):
            inputs, classes = examples.batch(rows)
            said = logits(network, torch.from_numpy(inputs).to(how.device)).float().cpu()
            known = torch.from_numpy(classes)
            right += int((said.argmax(dim=1) == known).sum())
            learnt = known >= 0
            losses += torch.nn.functional.cross_entropy(said[learnt], known[learnt], reduction="none").tolist()
    return float(np.mean(losses)) if losses else None, right / len(examples) if len(examples) else None


def _epoch(
    network: Any,
    logits: Callable[[Any, Any], Any],
    optimiser: Any,
    train: Examples,
    validation: Examples | None,
    how: Fit,
    number: int,
) -> Epoch:
    import torch

    started = time.perf_counter()
    order = np.random.default_rng([how.seed, number]).permutation(len(train)).tolist()
    total = 0.0
    network.train()
    with torch.random.fork_rng():
        torch.manual_seed(
            int(np.random.default_rng([how.seed, number, 1]).integers(2**63))
        )  # dropout, where there is some
        for rows in _batches(order, how.batch):
            inputs, classes = train.batch(rows)
            said = logits(network, torch.from_numpy(inputs).to(how.device))
            loss = torch.nn.functional.cross_entropy(said, torch.from_numpy(classes).to(how.device))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(rows)
    lost = score(network, logits, validation, how)[0] if validation is not None else None
    return Epoch(number, total / len(order), lost, round(time.perf_counter() - started, 3))


def _batches(order: list[int], size: int) -> Iterator[list[int]]:
    """Pieces of an order; a single one left over goes with the piece before it: batch normalisation takes no single one."""
    starts = list(range(0, len(order), size))
    if size > 1 and len(starts) > 1 and len(order) - starts[-1] == 1:
        starts.pop()
    for start, end in itertools.pairwise([*starts, len(order)]):
        yield order[start:end]


def _losses(epochs: Sequence[Epoch], by: str) -> list[float]:
    found = [e.validation_loss if by == "validation" else e.train_loss for e in epochs]
    return [math.nan if loss is None else loss for loss in found]


def _save(path: Path, state: Any) -> None:
    import torch

    held = io.BytesIO()
    torch.save(state, held)
    write_whole(path, held.getvalue())


def _load(path: Path) -> Any:
    """A checkpoint; nothing in it is run.

    Raises:
        InputError: It cannot be read.
    """
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what pickle, zipfile and itself come up with
        raise InputError(
            f"{path}: the checkpoint cannot be read: {error}", hint="delete its folder to train anew"
        ) from error
