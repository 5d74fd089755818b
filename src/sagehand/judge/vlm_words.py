"""What is known of queries, cases and actions, in the words of the prompts; and what a model said, as findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sagehand.cases import NOTHING_DONE, Case
from sagehand.judge.prompts import Prompts
from sagehand.judge.questions import Finding, Grade, LeafScore, Query, Verdict

__all__ = ["ActionText", "Cell", "actions_text", "case_text", "findings_of", "grades_text", "known_text", "scores_text"]

_UNKNOWN = "not known"
_TOPICS = {"location": "place", "shape": "shape", "components": "components", "steps": "preceding steps"}
_LABEL = re.compile(
    r"\b(location|shape|components|steps)\b\s*[:\-–—]+\s*[\"'*]*(agrees|differs|cannot tell|cannot_tell)\b[\"'*]*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ActionText:
    """An action of the cell, for a prompt.

    Attributes:
        name: What it is called.
        description: What it does; "" where only its name is known.
        preconditions: What must hold before it, as "battery_in" or "not closed".
        effects: What holds after it.
        families: The families it is for; None for all.
    """

    name: str
    description: str = ""
    preconditions: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    families: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Cell:
    """What the cell can do and knows.

    Attributes:
        actions: Its actions, in the order of the library.
        families: The device families.
        end: Name of the action that stands for "nothing remains", or None.
    """

    actions: tuple[ActionText, ...] = ()
    families: tuple[str, ...] = ()
    end: str | None = None

    @property
    def doing(self) -> tuple[str, ...]:
        """Names of the actions that do something."""
        return tuple(a.name for a in self.actions if a.name != self.end)


def known_text(prompts: Prompts, query: Query) -> str:
    """What is known about the query (paper A §3.3: the previously executed action)."""
    return prompts(
        "query",
        previous=previous_words(query.previous_action),
        place=line(query.place),
        family=line(query.family),
    )


def case_text(prompts: Prompts, case: Case, which: str) -> str:
    """A case's ground truth as questions and answers (paper A §3.3).

    Args:
        prompts: The texts.
        case: The case.
        which: What the prompt calls it, as in "the candidate".
    """
    return prompts(
        "case",
        which=which,
        device=line(case.device),
        family=line(case.family),
        place=line(case.place),
        state=line(case.state),
        history=_list(case.history, "none"),
        previous=previous_words(case.previous_action),
        next=line(case.next_action),
        remaining=_list(case.remaining_actions, "none, nothing remains"),
        last=_UNKNOWN if case.is_last is None else "yes" if case.is_last else "no",
    )


def actions_text(cell: Cell) -> str:
    """The actions with preconditions, effects and families, one a line (paper A §3.3)."""
    return "\n".join(_action(a) for a in cell.actions) or "- none is listed"


def grades_text(grades: Sequence[Grade]) -> str:
    """What was found on the pictures of a device, one a line."""
    lines = []
    for number, grade in enumerate(grades, 1):
        score = "not graded" if grade.score is None else f"grade {grade.score}"
        said = "; ".join(f"{f.topic}: {f.text}" if f.topic != "reasoning" else f.text for f in grade.findings)
        lines.append(f"- picture {number}, {score}: {line(said)}")
    return "\n".join(lines) or "- no picture was graded"


def scores_text(scores: Mapping[str, LeafScore]) -> str:
    """The devices graded so far with their scores, one a line."""
    lines = []
    for device, score in scores.items():
        value = "no score" if score.score is None else f"score {score.score}"
        lines.append(f"- {line(device)}, {value}: {line(score.summary)}")
    return "\n".join(lines) or "- none"


def previous_words(previous: str | None) -> str:
    """The previous action for a prompt: the name itself, which is to be copied."""
    if previous == NOTHING_DONE:
        return f"{NOTHING_DONE} (nothing was done yet)"
    return line(previous)


def findings_of(reasoning: str, overall: Verdict) -> tuple[Finding, ...]:
    """A model's reasoning as findings on the criteria that it was asked to label.

    What stands outside a label, or without a verdict of its own, is one finding with the verdict of the whole answer: no
    verdict on a criterion is made up.
    """
    text = " ".join(reasoning.split())
    marks = list(_LABEL.finditer(text))
    found = []
    before = text[: marks[0].start()].strip(" -*.;") if marks else text
    if before:
        found.append(Finding("reasoning", overall, before))
    for mark, end in zip(marks, [*(m.start() for m in marks[1:]), len(text)], strict=False):
        said = text[mark.end() : end].strip(" -–—*.,;:()")
        topic, verdict = _TOPICS[mark[1].lower()], mark[2].lower().replace("_", " ")
        found.append(Finding(topic, cast(Verdict, verdict), said or f"the model says: {verdict}"))
    return tuple(found)


def line(text: str | None) -> str:
    """A value on one line, or "not known": a line end in a label must not look like a line of the prompt."""
    return " ".join(str(text).split()) if text else _UNKNOWN


def _action(action: ActionText) -> str:
    parts = [f"- {line(action.name)}: {line(action.description)}" if action.description else f"- {line(action.name)}"]
    if action.preconditions:
        parts.append(f"Preconditions: {', '.join(action.preconditions)}.")
    if action.effects:
        parts.append(f"Effects: {', '.join(action.effects)}.")
    if action.families is not None:
        parts.append(f"For: {', '.join(map(line, action.families))}.")
    return " ".join(parts)


def _list(names: Sequence[str] | None, nothing: str) -> str:
    return _UNKNOWN if names is None else ", ".join(map(line, names)) or nothing
