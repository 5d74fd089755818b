"""What a judge is asked for a decision, and shown: the question, the cell's actions in words, the pictures of the cases."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sagehand.action.library import ActionLibrary
from sagehand.cases import NOTHING_DONE, CaseBase
from sagehand.errors import InputError
from sagehand.judge.cost import FREE, Cost
from sagehand.judge.prompts import Prompts
from sagehand.judge.questions import Candidate, Judge, PredictQuestion, Query
from sagehand.judge.vlm_words import ActionText, Cell
from sagehand.picture import Picture, load
from sagehand.recall.rank import Ranking

if TYPE_CHECKING:
    from sagehand.judge.vlm import VlmJudge
    from sagehand.vlm.ask import Vlm

__all__ = ["CasePictures", "ModelSeat", "Seat", "cell_of", "question_of"]

_MOST_PIXELS = 64_000_000  # of all pictures kept: 192 MB


class CasePictures:
    """The pictures of the cases of a base, cut as the base is cut; those used last are kept. Safe between threads.

    Args:
        base: The case base.
    """

    def __init__(self, base: CaseBase) -> None:
        self._base = base
        self._kept: OrderedDict[str, Picture] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, case_id: str) -> Picture:
        """The picture of a case.

        Raises:
            StoreError: It is missing from the base.
            PictureError: It cannot be decoded.
        """
        with self._lock:
            if case_id in self._kept:
                self._kept.move_to_end(case_id)
                return self._kept[case_id]
        whole = load(self._base.image(case_id))
        box = self._base.get(case_id).box
        seen = whole if box is None else whole.crop(box).picture
        with self._lock:
            self._kept[case_id] = seen
            while len(self._kept) > 1 and sum(p.width * p.height for p in self._kept.values()) > _MOST_PIXELS:
                self._kept.popitem(last=False)
        return seen


def cell_of(library: ActionLibrary | None, base: CaseBase) -> Cell:
    """The actions and families for the prompts; without a library, the names that the cases use."""
    if library is None:
        index = base.index()
        names = {*index.codes("next_action")[1], *index.codes("previous_action")[1]} - {NOTHING_DONE}
        return Cell(
            tuple(ActionText(name) for name in sorted(names)),
            tuple(sorted(index.codes("family")[1])),
            "end" if "end" in names else None,
        )
    actions = tuple(
        ActionText(
            name,
            action.description,
            tuple(map(str, action.preconditions)),
            tuple(map(str, action.effects)),
            None if action.families is None else tuple(sorted(action.families)),
        )
        for name, action in library.actions.items()
    )
    families = library.families or tuple(sorted(base.index().codes("family")[1]))
    return Cell(actions, families, library.end)


def question_of(
    query: Query,
    ranking: Ranking | None,
    candidates: Sequence[Candidate],
    valid: Sequence[str],
    library: ActionLibrary | None,
) -> PredictQuestion:
    """The question of a decision.

    Args:
        query: What is in front of the robot.
        ranking: The cases weighed; None for zero-shot.
        candidates: The cases to lean on, best first.
        valid: The actions that may be answered.
        library: Describes the actions.
    """
    return PredictQuestion(
        query=query,
        candidates=tuple(candidates),
        beliefs=ranking.actions if ranking else {},
        classes=ranking.classes if ranking else {},
        valid_actions=tuple(valid),
        descriptions={name: a.description for name, a in library.actions.items()} if library else {},
    )


@dataclass(frozen=True, eq=False)
class Seat:
    """Who is asked in one decision, and what that may cost.

    Attributes:
        judge: The judge; None where only the perceptual one is there.
        model: The same judge, where it is a model.
    """

    judge: Judge | None
    model: VlmJudge | None = None

    @property
    def spent(self) -> Cost:
        """What the model was asked in this decision."""
        return self.model.spent if self.model else FREE

    def model_doc(self) -> dict[str, Any] | None:
        """The model, its prompts, and what it said to the prediction, as plain data."""
        if self.model is None:
            return None
        said = self.model.said
        return {
            "name": self.model.vlm.model,
            "prompts": self.model.prompts.digest,
            "answer": dict(said.arguments) if said else None,
            "reasoning": said.reasoning if said else None,
            "repairs": list(said.repairs) if said else [],
            "attempts": said.attempts if said else 0,
            "mode": said.mode if said else None,
        }


class ModelSeat:
    """Holds what is the same in every decision of a predictor, and hands out a :class:`Seat` for each.

    Args:
        base: The case base, whose pictures are shown.
        library: The actions.
        judge: Who judges in place of a model, or None.
        vlm: The model, or None.
        prompts: A folder of own prompts, or None.
        seconds: Deadline of a decision [s].
        calls: Most requests of a decision.
        tokens: Most tokens of a decision.

    Raises:
        InputError: Both a judge and a model, a limit that is not above 0, or prompts that cannot be used.
    """

    def __init__(
        self,
        base: CaseBase,
        library: ActionLibrary | None,
        judge: Judge | None,
        vlm: Vlm | None,
        prompts: Path | None,
        *,
        seconds: float | None,
        calls: int | None,
        tokens: int | None,
    ) -> None:
        for name, limit in (("seconds", seconds), ("calls", calls), ("tokens", tokens)):
            if limit is not None and not limit > 0:
                raise InputError(f"{name} {limit!r} is not above 0", hint="leave it out for no limit")
        if judge is not None and vlm is not None:
            raise InputError("both a judge and a VLM were given", hint="give one of the two")
        self._limits = (seconds, calls, tokens)
        self._judge, self._vlm, self._base, self._library = judge, vlm, base, library
        self._pictures = CasePictures(base)
        self._prompts = Prompts(prompts)

    @property
    def there(self) -> bool:
        """Whether somebody can be asked what the perceptual judge cannot answer."""
        return self._judge is not None or self._vlm is not None

    def take(self) -> Seat:
        """For one decision, whose time starts now."""
        if self._vlm is None:
            return Seat(self._judge)
        # pydantic and the rooms of the VLM are not imported where no model is asked
        from sagehand.judge.vlm import VlmJudge
        from sagehand.vlm.budget import Budget

        budget = Budget(*self._limits)
        cell = cell_of(self._library, self._base)
        judge = VlmJudge(self._vlm, self._pictures, cell, prompts=self._prompts, budget=budget)
        return Seat(judge, judge)
