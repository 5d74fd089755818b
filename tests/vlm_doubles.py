"""A model that answers at once and remembers what it was asked, and pictures and cases to ask it about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sagehand.cases import Case
from sagehand.judge.questions import Candidate, Evidence, Query
from sagehand.judge.vlm_words import ActionText, Cell
from sagehand.picture import Picture, load
from sagehand.vlm.base import ImagePart, Question, ToolCall, Usage
from sagehand.vlm.images import EncodedImage, encode
from sagehand.vlm.profile import Profile

CELL = Cell(
    (
        ActionText("unscrew", "Drive out every screw.", ("screws_in",), ("not screws_in",), ("phone",)),
        ActionText("pry", "Part two shells.", ("closed",), ("not closed",)),
        ActionText("end", "Nothing is left to do.", ("not closed",)),
    ),
    ("phone", "smoke_detector"),
    "end",
)
CHECK = "location: agrees. Both lie on the table. shape: differs, the query is round. components: cannot tell. steps: agrees."


class FakeVlm:
    """Has the face of ``Vlm``; answers from a table of tool → arguments, or from a function of the question."""

    def __init__(
        self,
        answers: dict[str, Any] | Callable[[Question], Any],
        *,
        reasoning: str = CHECK,
        boxes: Any = "0-1",
        cached: bool = False,
    ) -> None:
        self.answers, self.reasoning, self.cached = answers, reasoning, cached
        self.model, self.profile = "double", Profile(boxes=boxes)
        self.asked: list[Question] = []

    def encoded(self, part: ImagePart) -> EncodedImage:
        """The picture as it would be sent."""
        return encode(part.pixels, self.profile)

    def ask(self, question: Question, *, budget: Any = None) -> ToolCall:
        """The table's answer as a checked call."""
        self.asked.append(question)
        if callable(self.answers):
            tool = self.answers(question)
        else:
            kind = next(t for t in question.tools if t.__name__ in self.answers)
            tool = kind.model_validate(self.answers[kind.__name__])
        return ToolCall(tool, self.reasoning, usage=Usage(900, 60, 2), seconds=0.5, cached=self.cached, attempts=2)


def picture(seed: int = 0, size: tuple[int, int] = (64, 48)) -> Picture:
    """A noisy picture."""
    return load(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def case(name: str = "a", **more: Any) -> Case:
    """A case of a phone in its second step."""
    fields: dict[str, Any] = {
        "id": name, "family": "phone", "device": "x1", "step": 2, "state": "cover off", "previous_action": "unscrew",
        "history": ("unscrew",), "next_action": "pry", "remaining_actions": ("pry",), "is_last": True, "end_state": False,
        "group": None, "place": "table", "polygon": None, "box": None, "file_name": f"{name}.jpg", "has_depth": False,
    }  # fmt: skip
    return Case(**fields | more)


def candidate(name: str = "a", **more: Any) -> Candidate:
    """That case beside a query."""
    return Candidate(case(name, **more), Evidence(0.9, 1, 0, None), 1.0, 0.5)


def query(**more: Any) -> Query:
    """What is in front of the robot."""
    fields: dict[str, Any] = {"picture": picture(1), "previous_action": "unscrew", "place": "table", "family": None}
    return Query(np.zeros(8, np.float32), **fields | more)


def shown(question: Question) -> str:
    """A question as one reads it: system text, parts, and the names of its tools."""
    parts = [f"[picture: {p.label}]" if isinstance(p, ImagePart) else p for p in question.parts]
    names = ", ".join(t.__name__ for t in question.tools)
    return "\n\n".join(
        [f"[system]\n{question.system}", "[user]", *parts, f"[tools: {names}; {question.max_tokens} tokens]"]
    )
