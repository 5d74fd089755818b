"""What a run stands on: pictures, actions, embedders, models; opened once, closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sagehand.action.labels import label_check
from sagehand.action.library import ActionLibrary
from sagehand.cases import CaseBase
from sagehand.embed import DEFAULT_EMBEDDER, Embedder, get_embedder
from sagehand.errors import InputError, NeedsVlm, NoSuchCase, UnknownName
from sagehand.judge.prompts import Prompts
from sagehand.judge.questions import Judge
from sagehand.picture import Limits, Picture
from sagehand.recall.crop import TURNS
from sagehand.settings import Settings
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.methods.registry import ASKS, RECALLS
from sagehand.study.run.bases import Builder
from sagehand.study.run.manifest import arm_facts, plain_settings
from sagehand.study.run.plan import Arm, Plan
from sagehand.study.run.units import Unit

if TYPE_CHECKING:
    from sagehand.vlm.ask import Vlm

__all__ = ["Ground", "OpenVlm"]

OpenVlm = Callable[[str | None], "AbstractContextManager[Vlm | None]"]
"""The name of an arm's model, or None for the settings' → the model, opened; None where the settings name none."""

_PATHS = ("vlm_cache", "prompts")


class Ground:
    """What a run stands on.

    Args:
        plan: The plan.
        data: Folder of the pictures, or the pictures themselves; None for the plan's.
        settings: The settings; None for the defaults with what the plan says of its model.
        vlm: The model, or how to open one.
        jobs: Items asked at once.
        note: Called with what the user should know.

    Attributes:
        settings: The settings.
        note: As given.
    """

    def __init__(
        self,
        plan: Plan,
        data: str | Path | StudyData | None,
        settings: Settings | None,
        vlm: Vlm | OpenVlm | None,
        jobs: int,
        note: Callable[[str], None],
    ) -> None:
        self._plan, self._vlm, self._jobs, self.note = plan, vlm, jobs, note
        self._given = data if isinstance(data, StudyData) else None
        folder = plan.data if data is None else str(data.folder) if isinstance(data, StudyData) else str(data)
        if not folder:
            raise InputError("no pictures were named", hint="add --data FOLDER, or `data:` to the plan")
        self.data_folder = folder
        if settings is None:
            told: dict[str, Any] = {name: Path(v) if name in _PATHS else v for name, v in plan.vlm.settings().items()}
            settings = replace(Settings(), **told)
        self.settings = settings
        self._data: dict[str, StudyData] = {}
        self._embedders: dict[str, Embedder] = {}
        self._models: dict[str | None, Vlm | None] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def data(self, seed: int) -> StudyData:
        """The pictures of a seed."""
        if self._given is not None:
            return self._given
        folder = self.data_folder.replace("{seed}", str(seed))
        if folder not in self._data:
            self._data[folder] = StudyData.load(folder)
        return self._data[folder]

    @cached_property
    def library(self) -> ActionLibrary | None:
        """The plan's actions, else the folder's, else the packaged cell's where it knows all actions of the labels."""
        if self._plan.actions is not None:
            return ActionLibrary.load(self._plan.actions)
        data = self.data(self._plan.seeds[0])
        if data.actions is not None:
            return ActionLibrary.load(data.actions)
        from sagehand.demo import cell_folder

        packaged = ActionLibrary.load(cell_folder() / "actions.yaml")
        if _unknown(data, packaged):
            self.note(f"{data.folder}: has no actions.yaml, so nothing is ruled out")
            return None
        return packaged

    def check(self, arms: Sequence[Arm], seeds: Sequence[int]) -> None:
        """Find out before anything is asked what would stop the run later.

        Raises:
            InputError, MissingExtra, NeedsVlm: As for :func:`~sagehand.study.run.runner.run_study`.
        """
        for data in {id(d): d for d in map(self.data, seeds)}.values():
            for name, reason in data.problems[:5]:
                self.note(f"{data.folder}: {name}: left out: {reason}")
            if len(data.problems) > 5:
                self.note(f"{data.folder}: {len(data.problems)} rows were left out in all")
            if self.library is not None and (wrong := _unknown(data, self.library)):
                key, error = wrong[0]
                raise InputError(
                    f"{data.folder}: {len(wrong)} labels do not fit the actions of {self.library.source}; the first: "
                    f"{key}: {error.message}",
                    hint=error.hint or "mend the labels, or name the cell's actions with `actions:` in the plan",
                )
        for arm in arms:
            self.embedder(arm.embedder)
            if arm.method in ASKS and self.model_name(arm) is None:
                raise NeedsVlm(
                    f"arm {arm.name!r}: the method {arm.method!r} asks a vision-language model, and none is set up",
                    hint="add --base-url and --model, or leave the arm out with --arms",
                )
        cropped = any(arm.crop != "none" for arm in arms)
        if cropped and any(s.polygon for seed in seeds for s in self.data(seed).samples):
            from sagehand.study.metrics import coverage

            coverage(
                ((0, 0), (2, 0), (2, 2)), (0, 0, 1, 1)
            )  # the package that measures crops is there, or is missed now

    def embedder(self, name: str) -> Embedder:
        """An embedder by the name that an arm gives it."""
        if name not in self._embedders:
            known = DEFAULT_EMBEDDER if name == "packaged" else name
            # many at once share the processors best when each has one
            self._embedders[name] = get_embedder(known, threads=1 if self._jobs > 1 else self.settings.threads)
        return self._embedders[name]

    @cached_property
    def prompts(self) -> str:
        """Digest of the prompts."""
        return Prompts(self.settings.prompts).digest

    def model_name(self, arm: Arm) -> str | None:
        """The name of the model that an arm asks; None where it asks none."""
        if arm.method not in ASKS and arm.crop not in TURNS:
            return None
        if self._vlm is None:
            return None
        if callable(self._vlm):
            return arm.model or self.settings.vlm_model
        if arm.model not in (None, self._vlm.model):
            raise InputError(
                f"arm {arm.name!r} asks {arm.model!r}, and the model at hand is {self._vlm.model!r}",
                hint="hand over how to open a model by its name",
            )
        return self._vlm.model

    def vlm(self, arm: Arm) -> Vlm | None:
        """The model that an arm asks, opened; None where it asks none."""
        if self.model_name(arm) is None:
            if arm.crop in TURNS:
                self.note(f"no model was named: the perceptual judge makes the moves of the crop {arm.crop!r}")
            return None
        if not callable(self._vlm):
            return self._vlm
        if arm.model not in self._models:
            self._models[arm.model] = self._open.enter_context(self._vlm(arm.model))
        return self._models[arm.model]

    def facts(self, arm: Arm) -> dict[str, Any]:
        """All that the arm's records depend on beside the pictures."""
        model = self.model_name(arm)
        return arm_facts(
            self._plan,
            arm,
            library=self.library,
            embedder=self.embedder(arm.embedder).identity.to_dict(),
            model=model,
            prompts=None if model is None else self.prompts,
            settings=self.settings,
        )

    def plain(self) -> dict[str, Any]:
        """The settings as plain data."""
        return plain_settings(self.settings)

    def base(self, unit: Unit, folder: Path, on_progress: Callable[[int, int], None] | None) -> CaseBase | None:
        """The case base of a unit; None for a method that recalls nothing."""
        if unit.arm.method not in RECALLS:
            return None
        vlm = self.vlm(unit.arm) if unit.arm.crop in TURNS else None
        return Builder(
            folder,
            self.embedder(unit.arm.embedder),
            judge=None if vlm is None else self._judge(vlm),
            prompts="" if vlm is None else self.prompts,
            depth_unit=self.settings.depth_unit,
            limits=Limits(max_pixels=self.settings.max_pixels),
            workers=self._jobs,
            on_progress=on_progress,
            on_note=self.note,
        ).open(unit)

    def _judge(self, vlm: Vlm) -> Judge:
        from sagehand.judge.vlm import VlmJudge

        return VlmJudge(vlm, _no_case, prompts=Prompts(self.settings.prompts))


def _unknown(data: StudyData, library: ActionLibrary) -> list[tuple[str, UnknownName]]:
    """The labels that name an action that the library does not have."""
    check, wrong = label_check(library), []
    for sample in data.samples:
        try:
            check(_label(sample))
        except UnknownName as error:
            wrong.append((sample.key, error))
    return wrong


def _label(sample: Sample) -> dict[str, Any]:
    names = ("next_action", "previous_action", "history", "remaining_actions")
    return {name: getattr(sample, name) for name in names}


def _no_case(case: str) -> Picture:
    raise NoSuchCase(f"no case {case!r}", hint="a crop has no case base")
