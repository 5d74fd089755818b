"""How a method sees a sample: the picture, its depth where the arm uses it, and the crop that the cases have, too."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagehand.action.ask import ModelSeat
from sagehand.action.clock import Clock
from sagehand.judge.cost import FREE, Cost
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.picture import DEFAULT_LIMITS, Box, Limits, Picture, load
from sagehand.recall.crop import CROPS, TURNS, crop_picture
from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Bench

__all__ = ["Eyes", "Seen", "corner_and_size", "model_limits", "prompts_of"]


@dataclass(frozen=True, eq=False)
class Seen:
    """A sample as a method sees it.

    Attributes:
        picture: The whole picture.
        cut: What the strategy cuts out, in the picture's pixels; None where nothing is cut away.
        cost: What a model was asked for it.
        warnings: What went wrong with the crop, in words.
    """

    picture: Picture
    cut: Box | None
    cost: Cost = FREE
    warnings: tuple[str, ...] = ()

    @property
    def view(self) -> Picture:
        """The picture as it is embedded."""
        return self.picture if self.cut is None else self.picture.crop(self.cut).picture

    @property
    def box(self) -> tuple[float, float, float, float] | None:
        """The crop as (x, y, width, height) [px]; None for the whole picture."""
        return corner_and_size(self.cut)

    @property
    def whole(self) -> Box:
        """The box of the whole picture."""
        return Box(0, 0, *self.picture.size)


class Eyes:
    """Loads and crops samples as the arm says. Safe between threads.

    ``grid`` and ``box`` are made by the arm's model where it has one, else by the perceptual judge; ``truth`` is the box
    of the sample's polygon, as for the cases.

    Args:
        bench: The bench; its case base tells the crop, where there is one.
    """

    def __init__(self, bench: Bench) -> None:
        self._settings = bench.settings
        self._depth = bench.arm.depth
        self.strategy = bench.base.crop if bench.base is not None else bench.arm.crop
        self._seat: ModelSeat | None = None
        if self.strategy in TURNS and bench.vlm is not None and bench.base is not None:
            self._seat = ModelSeat(
                bench.base, bench.library, None, bench.vlm, prompts_of(bench), **model_limits(bench)
            )  # fmt: skip

    def look(self, sample: Sample, clock: Clock, cuts: Collection[str] = CROPS) -> Seen:
        """Load a sample and cut it.

        Args:
            sample: The sample.
            clock: Takes the time of the parts "load" and "crop".
            cuts: The strategies that are cut here; by any other the picture is left as it is, for ``predict`` to cut.

        Raises:
            PictureError: The picture or its depth image cannot be used.
        """
        picture = self._load(sample, clock)
        if self.strategy == "none" or self.strategy not in cuts:
            return Seen(picture, None)
        with clock("crop"):
            seat = self._seat.take() if self._seat is not None else None
            judge = seat.judge if seat is not None and seat.judge is not None else PerceptualJudge()
            result = crop_picture(picture, self.strategy, judge, label={"polygon": sample.polygon})
        warnings = []
        if result.error is not None:
            warnings.append(f"the crop {self.strategy!r} failed ({type(result.error).__name__}): {result.reason}")
        elif result.whole:
            warnings.append(f"the crop {self.strategy!r} left the whole picture: {result.reason}")
        cut = None if result.whole else result.box
        return Seen(picture, cut, seat.spent if seat is not None else FREE, tuple(warnings))

    def _load(self, sample: Sample, clock: Clock) -> Picture:
        """With depth where the arm uses it and the sample has it."""
        options: dict[str, Any] = {}
        if self._depth and sample.depth is not None:
            options = {"depth": sample.depth, "depth_unit": self._settings.get("depth_unit", "mm")}
        most = self._settings.get("max_pixels")
        limits = DEFAULT_LIMITS if most is None else Limits(max_pixels=int(most))
        with clock("load"):
            return load(sample.path, limits=limits, **options)


def corner_and_size(box: Box | None) -> tuple[float, float, float, float] | None:
    """A box as (x, y, width, height) [px]; None for none."""
    return None if box is None else (float(box.left), float(box.top), float(box.width), float(box.height))


def prompts_of(bench: Bench) -> Path | None:
    """The folder of own prompts that the settings name, or None."""
    prompts = bench.settings.get("prompts")
    return None if prompts is None else Path(str(prompts))


def model_limits(bench: Bench) -> dict[str, Any]:
    """What one decision may spend, from the settings: ``decision_seconds``, ``calls``, ``tokens``; None for no limit."""
    settings = bench.settings
    return {
        "seconds": settings.get("decision_seconds"),
        "calls": settings.get("calls"),
        "tokens": settings.get("tokens"),
    }
