"""The methods that are trained: an image classifier a task, and a vision-language model with adapters (paper A §4.4.1, 4.4.2).

Both are trained once when they are made, on ``bench.train``, and stop by the loss on ``bench.validation``. What they learnt
lies in ``bench.work`` under a digest of the samples and the settings, and is used again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sagehand.action.clock import Clock
from sagehand.errors import UnknownName
from sagehand.study.dataset.sample import Sample
from sagehand.study.learn.classifier import Classifier
from sagehand.study.learn.options import ClassifierOptions, read_options
from sagehand.study.methods.base import Answer, Bench, Method
from sagehand.study.methods.eyes import Eyes
from sagehand.study.methods.known import allowed, told
from sagehand.study.run.plan import TRAINED

__all__ = ["ClassifierMethod", "trained_method"]


def trained_method(bench: Bench) -> Method:
    """Train the method of a bench, or take what was trained before.

    Raises:
        UnknownName: It is no method that is trained.
        InputError: An option is not valid, nothing can be learnt from, weights are not there, or training diverged.
        MissingExtra: torch, or for a VLM peft and trl, is not installed.
    """
    if bench.arm.method not in TRAINED:
        raise UnknownName("trained method", bench.arm.method, TRAINED)
    if bench.arm.method == "classifier":
        return ClassifierMethod(bench)
    from sagehand.study.methods.fine_tuned import FineTunedMethod

    return FineTunedMethod(bench)


class ClassifierMethod:
    """An image classifier a task. It sees the picture alone: the previous action serves the guard, the place nothing.

    With the guard on, the next action is the best class that is not ruled out by the previous action; the paper's
    classifiers had none.

    Args:
        bench: With the options of :class:`~sagehand.study.learn.options.ClassifierOptions`.
    """

    name = "classifier"

    def __init__(self, bench: Bench) -> None:
        options = read_options(ClassifierOptions, bench.arm.options, self.name)
        self._bench, self._eyes = bench, Eyes(bench)
        self.classifier = Classifier.train(
            bench.train, bench.validation, bench.work, options, self._view, crop=self._eyes.strategy, seed=bench.seed
        )

    def answer(self, sample: Sample) -> Answer:
        """Classify a sample's picture.

        Raises:
            PictureError: The picture cannot be used.
            UnknownName: The guard is on, and the action library does not know the previous action.
        """
        clock = Clock()
        seen = self._eyes.look(sample, clock)
        with clock("classify"):
            said = self.classifier.answer(seen.view.pixels)
        best = {task: each.best() for task, each in said.items()}
        if "next_action" in said:
            best["next_action"] = said["next_action"].best(self._ruled_out(sample, said["next_action"].classes))
        found = {task: pair[0] for task, pair in best.items() if pair is not None}
        action = best.get("next_action")
        return Answer(
            **found,
            confidence=None if action is None else action[1],
            reason="" if action is not None else "no next action that was learnt is possible",
            box=seen.box,
            size=seen.picture.size,
            timings=dict(clock.parts),
            usage=seen.cost,
            extra={
                "shares": {task: round(pair[1], 6) for task, pair in best.items() if pair is not None},
                **({"warnings": list(seen.warnings)} if seen.warnings else {}),
            },
        )

    def close(self) -> None:
        """Nothing is held but memory."""

    def _view(self, sample: Sample) -> NDArray[np.uint8]:
        return self._eyes.look(sample, Clock()).view.pixels

    def _ruled_out(self, sample: Sample, classes: Sequence[str]) -> list[str]:
        possible = allowed(self._bench, told(self._bench, sample))
        return [] if possible is None else [c for c in classes if c not in possible]
