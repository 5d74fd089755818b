"""Image classifiers, one a task, trained on the samples of some devices (paper A §4.4.1).

They see the picture and nothing else: neither the previous action nor the place. A class is a label that the training samples
have; another one cannot be answered, and counts as wrong. No picture is varied in training, and no class is weighed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.files import write_whole
from sagehand.study.dataset.sample import Sample
from sagehand.study.learn.backbone import Backbone, make_backbone
from sagehand.study.learn.course import TRAINING, Course, Epoch, Fit, fit, read_course, score
from sagehand.study.learn.labels import label_of, samples_digest
from sagehand.study.learn.options import ClassifierOptions
from sagehand.study.run.record import TASKS

__all__ = ["Classifier", "Said", "TaskReport", "View"]

View = Callable[[Sample], NDArray[np.uint8]]
"""A sample's picture as it is classified, cut as the arm says: (H, W, 3) RGB. Called from several threads."""

_VERSION = 1  # of what is learnt from the same samples and options; goes into the digest
_KEPT = 64  # inputs made at once


@dataclass(frozen=True)
class Said:
    """What a classifier says in one task.

    Attributes:
        classes: The classes that were learnt.
        shares: Their softmax, in the same order. Not calibrated.
    """

    classes: tuple[Any, ...]
    shares: tuple[float, ...]

    def best(self, ruled_out: Sequence[Any] = ()) -> tuple[Any, float] | None:
        """The class with the largest share among those that are not ruled out, and its share; None where none is left."""
        left = [
            (share, -at)
            for at, (c, share) in enumerate(zip(self.classes, self.shares, strict=True))
            if c not in ruled_out
        ]
        if not left:
            return None
        share, at = max(left)
        return self.classes[-at], share


@dataclass(frozen=True)
class TaskReport:
    """How a task was learnt.

    Attributes:
        task: Its name.
        classes: What can be answered.
        train: Training samples with a label.
        validation: Validation samples with a label.
        unseen: Those of them whose label no training sample has: they are no part of the validation loss.
        course: Epochs, and which one was kept.
        train_accuracy: With the weights that were kept.
        validation_accuracy: The same of the validation samples, unseen labels counted as wrong; None without samples.
    """

    task: str
    classes: tuple[Any, ...]
    train: int
    validation: int
    unseen: int
    course: Course
    train_accuracy: float | None
    validation_accuracy: float | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        told = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("classes", "course")}
        classes = [list(c) if isinstance(c, tuple) else c for c in self.classes]
        return told | {"classes": classes, "course": self.course.to_dict()}


class Classifier:
    """Trained networks, one a task, that answer for a picture. May be asked from several threads.

    Attributes:
        folder: Where they lie.
        reports: Task → how it was learnt; a task without a label in training is not among them.
    """

    def __init__(self, folder: Path, backbone: Backbone, learnt: Mapping[str, tuple[TaskReport, Any]]) -> None:
        self.folder, self._backbone = folder, backbone
        self.reports = {task: report for task, (report, _) in learnt.items()}
        self._networks = {task: network for task, (_, network) in learnt.items()}

    @classmethod
    def train(
        cls,
        train: Sequence[Sample],
        validation: Sequence[Sample],
        work: Path,
        options: ClassifierOptions,
        view: View,
        *,
        crop: str = "none",
        seed: int = 0,
        tasks: Sequence[str] = TASKS,
        on_epoch: Callable[[str, Epoch], None] | None = None,
    ) -> Classifier:
        """Train a classifier a task, or take those that were trained on the same before.

        Args:
            train: What is learnt from.
            validation: What decides when to stop; of other devices. Without any, every epoch is run.
            work: A folder; the classifiers get one of their own in it, named by a digest of samples, labels, and settings.
                What a broken-off training left there is gone on from.
            options: Backbone and training.
            view: Loads and cuts the pictures.
            crop: What it cuts by, in words: part of the digest.
            seed: Of first weights and of the order of samples.
            tasks: Names in :data:`~sagehand.study.run.record.TASKS`.
            on_epoch: Called with the task and each epoch.

        Raises:
            InputError: No training sample has a label of these tasks, the weights are not there, or training diverged.
            MissingExtra: torch is not installed.
            PictureError: A picture cannot be used.
        """
        backbone = make_backbone(options)
        settings = {
            "version": _VERSION,
            "backbone": backbone.identity,
            "crop": crop,
            "seed": seed,
            "options": {**options.model_dump(), "lr": options.rate, "weights": None},  # the weights by their content
        }
        about = {**settings, "train": [s.key for s in train], "validation": [s.key for s in validation]}
        folder = work / f"classifier-{samples_digest([*train, *validation], about)}"
        write_whole(folder / "settings.json", json.dumps(about, indent=1).encode())
        inputs = _Inputs(backbone, view)
        learnt: dict[str, tuple[TaskReport, Any]] = {}
        for task in tasks:
            if any(label_of(sample, task) is not None for sample in train):
                told = (lambda epoch, task=task: on_epoch(task, epoch)) if on_epoch else None
                learnt[task] = _learn(task, train, validation, folder / task, options, inputs, seed, told)
        if not learnt:
            raise InputError(
                f"none of the {len(train)} training samples has a label of {', '.join(tasks)}",
                hint="label the pictures in metadata.jsonl",
            )
        return cls(folder, backbone, learnt)

    def answer(self, pixels: NDArray[np.uint8]) -> dict[str, Said]:
        """Task → what is said of a picture.

        Args:
            pixels: (H, W, 3) RGB, cut as in training.
        """
        import torch

        made = torch.from_numpy(self._backbone.inputs([pixels])).to(_device())
        said = {}
        with torch.inference_mode():
            for task, network in self._networks.items():
                shares = torch.softmax(self._backbone.logits(network, made)[0].double(), dim=0).tolist()
                said[task] = Said(self.reports[task].classes, tuple(shares))
        return said


class _Inputs:
    """Makes inputs of samples; light ones are made once and kept."""

    def __init__(self, backbone: Backbone, view: View) -> None:
        self.backbone, self._view = backbone, view
        self._kept: dict[str, NDArray[np.float32]] = {}

    def of(self, samples: Sequence[Sample]) -> NDArray[np.float32]:
        """(n, …) inputs."""
        if not self.backbone.light:
            return self.backbone.inputs([self._view(s) for s in samples])
        return np.stack([self._kept[s.key] for s in samples])

    def make(self, samples: Sequence[Sample]) -> None:
        """Make the light inputs that are not there yet."""
        if self.backbone.light:
            new = [s for s in samples if s.key not in self._kept]
            for start in range(0, len(new), _KEPT):
                part = new[start : start + _KEPT]
                rows = self.backbone.inputs([self._view(s) for s in part])
                self._kept |= {s.key: row for s, row in zip(part, rows, strict=True)}


class _Labelled:
    """Samples with their classes, as :class:`~sagehand.study.learn.course.Examples`."""

    def __init__(self, samples: Sequence[Sample], task: str, classes: Sequence[Any], inputs: _Inputs) -> None:
        self._samples = [s for s in samples if label_of(s, task) is not None]
        number = {c: at for at, c in enumerate(classes)}
        self.classes = np.array([number.get(label_of(s, task), -1) for s in self._samples], np.int64)
        self._inputs = inputs

    def __len__(self) -> int:
        return len(self._samples)

    def batch(self, rows: Sequence[int]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Inputs and classes of some rows."""
        return self._inputs.of([self._samples[row] for row in rows]), self.classes[list(rows)]


def _learn(
    task: str,
    train: Sequence[Sample],
    validation: Sequence[Sample],
    folder: Path,
    options: ClassifierOptions,
    inputs: _Inputs,
    seed: int,
    on_epoch: Callable[[Epoch], None] | None,
) -> tuple[TaskReport, Any]:
    import torch

    labels = {label_of(sample, task) for sample in train} - {None}
    classes = tuple(sorted(labels, key=lambda c: json.dumps(c)))
    learnt, other = _Labelled(train, task, classes, inputs), _Labelled(validation, task, classes, inputs)
    number = TASKS.index(task)
    how = Fit(
        options.epochs,
        options.patience,
        options.rate,
        options.weight_decay,
        options.batch,
        _mix(seed, number),
        _device(),
    )
    report = folder / "report.json"
    with TRAINING, _threads(1 if inputs.backbone.light else None):
        with torch.random.fork_rng():
            torch.manual_seed(how.seed)
            network = inputs.backbone.network(len(classes)).to(how.device)
        done = read_course(folder) is not None and report.exists()
        if not done:
            inputs.make([*train, *validation])
        usable = other if bool((other.classes >= 0).any()) else None
        course = fit(network, inputs.backbone.logits, learnt, usable, how, folder, on_epoch=on_epoch)
        if done:
            doc = json.loads(report.read_text(encoding="utf-8"))
        else:
            accuracies = [score(network, inputs.backbone.logits, part, how)[1] for part in (learnt, other)]
            doc = dict(zip(("train_accuracy", "validation_accuracy"), accuracies, strict=True))
    unseen = int((other.classes < 0).sum())
    told = TaskReport(task, classes, len(learnt), len(other), unseen, course, **_accuracies(doc))
    if not done:
        write_whole(report, json.dumps(told.to_dict(), indent=1, ensure_ascii=False).encode())
    return told, network.eval()


def _accuracies(doc: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: doc[name] for name in ("train_accuracy", "validation_accuracy")}


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """So many threads for torch: a head gains nothing by more, and waits for them where the machine is busy."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _mix(seed: int, number: int) -> int:
    """A seed of its own for each task."""
    return int(np.random.default_rng([seed, number]).integers(2**31))


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
