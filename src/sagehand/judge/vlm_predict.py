"""The prediction of a vision-language model: its question, and what its call means (paper A §3.1, 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sagehand.cases import NOTHING_DONE
from sagehand.judge import vlm_tools as tools
from sagehand.judge.prompts import Prompts
from sagehand.judge.questions import Finding, Prediction, PredictQuestion
from sagehand.judge.vlm_words import Cell, actions_text, findings_of, previous_words
from sagehand.vlm.base import ToolCall
from sagehand.vlm.tools import Tool

__all__ = ["Said", "predict_text", "predict_tool", "read_prediction"]


@dataclass(frozen=True)
class Said:
    """What the model said to a prediction, before anything was made of it.

    Attributes:
        arguments: Of ``PredictActions``.
        reasoning: What it said before.
        repairs: What was repaired in its reply because its meaning was certain.
        attempts: Requests that it took.
        mode: How the reply was constrained.
        cached: Whether it came from the cache.
    """

    arguments: Mapping[str, Any]
    reasoning: str
    repairs: tuple[str, ...]
    attempts: int
    mode: str
    cached: bool

    @classmethod
    def of(cls, call: ToolCall) -> Said:
        """What a call said."""
        return cls(call.tool.model_dump(), call.reasoning, call.repairs, call.attempts, call.mode, call.cached)


def predict_tool(cell: Cell, question: PredictQuestion) -> type[Tool]:
    """The tool ``PredictActions`` of a question: what the guard rules out cannot be named as the next action."""
    return tools.prediction_tool(tuple(question.valid_actions), _doing(cell, question), _classes(cell, question))


def predict_text(prompts: Prompts, cell: Cell, question: PredictQuestion) -> str:
    """What a prediction is asked, with every valid output."""
    doing = _doing(cell, question)
    return prompts(
        "predict",
        actions=actions_text(cell),
        previous=previous_words(question.query.previous_action),
        previous_valid=", ".join((NOTHING_DONE, *doing, tools.NOT_KNOWN)),
        next_valid=", ".join((*question.valid_actions, tools.CANNOT_TELL)),
        remaining_valid=", ".join(doing),
        class_valid=", ".join((*_classes(cell, question), tools.CANNOT_TELL)),
    )


def read_prediction(call: ToolCall, question: PredictQuestion, cell: Cell, by: str) -> Prediction:
    """What a call of ``PredictActions`` means. No confidence comes with it, for nothing has calibrated it."""
    said = call.tool.model_dump()
    action = None if said["next_action"] == tools.CANNOT_TELL else str(said["next_action"])
    previous = None if said["previous_action"] == tools.NOT_KNOWN else str(said["previous_action"])
    findings = findings_of(call.reasoning, "cannot tell" if action is None else "agrees")
    if action is None:
        findings = (Finding("next action", "cannot tell", "the model cannot tell which action comes next"), *findings)
    return Prediction(
        next_action=action,
        confidence=None,
        case=question.candidates[0] if question.candidates else None,
        remaining_actions=tuple(said["remaining_actions"]),
        is_last=bool(said["is_last"]),
        device_class=None if said["device_class"] == tools.CANNOT_TELL else str(said["device_class"]),
        previous_action=previous,
        findings=(*findings, *_slips(question.query.previous_action, action, previous, said, cell.end)),
        by=by,
    )


def _doing(cell: Cell, question: PredictQuestion) -> tuple[str, ...]:
    return cell.doing or tuple(question.valid_actions)


def _classes(cell: Cell, question: PredictQuestion) -> tuple[str, ...]:
    return cell.families or tuple(sorted({*question.classes, *(c.case.family for c in question.candidates)}))


def _slips(
    known: str | None, action: str | None, previous: str | None, said: Mapping[str, Any], end: str | None
) -> tuple[Finding, ...]:
    """Where the answer contradicts what the prompt said, or itself (the first task of paper A §3.1 tests just that)."""
    slips = []
    if known != previous:
        copied = "as not known" if previous is None else f"as {previous!r}"
        text = f"the model copied the previous action {copied}; it is {previous_words(known)}"
        slips.append(Finding("previous action", "differs", text))
    remaining = list(said["remaining_actions"])
    expected = [] if action == end else [action]
    if action is not None and remaining[:1] != expected:
        first = repr(remaining[0]) if remaining else "nothing"
        text = f"the model's remaining actions begin with {first}, not {action!r}"
        slips.append(Finding("remaining actions", "differs", text))
    if action is not None and said["is_last"] is not (len(remaining) == 1):
        last = "is the last one" if said["is_last"] else "is not the last one"
        text = f"the model says that the next action {last}, and lists {len(remaining)} that remain"
        slips.append(Finding("is last", "differs", text))
    return tuple(slips)
