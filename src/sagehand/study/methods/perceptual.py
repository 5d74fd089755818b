"""The perceptual method: picture, context and depth weighed by the perceptual judge, without a model (SPEC C1)."""

from __future__ import annotations

from sagehand.action.clock import Clock
from sagehand.action.predict import DOMAIN_LEVEL, Predictor
from sagehand.recall.crop import TURNS
from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Answer, Bench
from sagehand.study.methods.decided import answer_of, keys_of
from sagehand.study.methods.eyes import Eyes
from sagehand.study.methods.known import base_of, told

__all__ = ["Perceptual"]


class Perceptual:
    """Decides as ``predict`` does, with what the arm allows: guard, previous action, place, depth, risk, domain test.

    A model that the arm has only makes the moves of the crops ``grid`` and ``box``.

    Args:
        bench: The bench, with a case base.

    Raises:
        EmbedderMismatch: The bench's embedder is not the base's.
    """

    name = "perceptual"

    def __init__(self, bench: Bench) -> None:
        self._bench, self._eyes = bench, Eyes(bench)
        self._predictor = Predictor(
            base_of(bench),
            bench.library,
            embedder=bench.embedder,
            guard="on" if bench.arm.guard else "off",
            risk=bench.arm.risk,
            domain_level=DOMAIN_LEVEL if bench.arm.domain else 0,
            log=False,
        )

    def answer(self, sample: Sample) -> Answer:
        """Decide on a sample.

        Raises:
            PictureError: The picture or its depth image cannot be used.
            UnknownName: The library does not have the previous action.
        """
        clock = Clock()
        seen = self._eyes.look(sample, clock, ("truth", *TURNS))
        # what a model has left whole is not to be cut again by the perceptual judge
        box = seen.whole if seen.cut is None and self._eyes.strategy in TURNS else seen.cut
        decision = self._predictor.predict(seen.picture, told(self._bench, sample), box=box)
        return answer_of(decision, seen, clock.parts, order=keys_of(decision))

    def close(self) -> None:
        """Free its thread; the case base belongs to who made the bench."""
        self._predictor.close(base=False)
