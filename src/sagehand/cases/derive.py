"""What the steps of a device say about fields that a case leaves out (DESIGN, Formats: "derived when absent").

Two neighbouring steps state one action between them: the ``next_action`` of step s and the ``previous_action`` of step
s + 1 are the same. From these links follow the history (forwards, from a step that nothing was done before) and the
remaining actions (backwards, from the end). A value is derived only where everything that is stated about it agrees;
a gap in the numbers of the steps, or two cases of one step that disagree, breaks the chain there. That nothing was done
yet (``previous_action`` "none") is never derived: an absent one means not known.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from sagehand.cases.case import NOTHING_DONE, Case

__all__ = ["DERIVABLE", "END", "fill"]

END = "end"
"""The ``next_action`` that stands for "nothing remains", besides any that a case with ``end_state`` names."""

DERIVABLE = ("previous_action", "history", "next_action", "remaining_actions", "is_last", "end_state")
"""The fields that :func:`fill` may fill."""

T = TypeVar("T", bound=Hashable)
_Actions = tuple[str, ...]


def fill(cases: Sequence[Case]) -> list[Case]:
    """Fill what can be derived from the other steps of the same device.

    Args:
        cases: Cases of one device or more, in any order. Fields named in ``derived`` are taken as not given and derived
            anew. Retired cases say nothing and come back as they are.

    Returns:
        The cases in the same order. Given values are never changed; ``derived`` names the fields that were filled.
    """
    devices: dict[tuple[str, str], list[int]] = {}
    for position, case in enumerate(cases):
        if not case.retired:
            devices.setdefault((case.family, case.device), []).append(position)
    filled = list(cases)
    for positions in devices.values():
        given = [_as_given(cases[position]) for position in positions]
        for position, case in zip(positions, _fill_device(given), strict=True):
            filled[position] = case
    return filled


def _as_given(case: Case) -> Case:
    if not case.derived:
        return case
    nothing: dict[str, None] = dict.fromkeys(case.derived)
    return replace(case, **nothing, derived=frozenset())  # type: ignore[arg-type]


def _fill_device(cases: Sequence[Case]) -> list[Case]:
    numbered: dict[int, _Step] = {}
    for case in cases:
        if case.step is not None:
            numbered.setdefault(case.step, _Step()).cases.append(case)
    ends = _ends(cases)
    steps = sorted(numbered.items())
    for number, step in steps:
        _link(numbered.get(number - 1), step, ends)
        if number + 1 not in numbered:
            step.leaving = _agreed(step.next_actions())
    for number, step in reversed(steps):
        step.remaining = _remaining(step, numbered.get(number + 1), ends)
    for number, step in steps:
        step.history = _history(step, numbered.get(number - 1))
        _conclude(step, ends)
    filled = []
    for case in cases:
        own = _lone(case, ends) if case.step is None else numbered[case.step]
        filled.append(_filled(case, own))
    return filled


class _Step:
    """The cases of one step, and what is agreed about the step."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.arriving: str | None = None  # the action that led here; never "none"
        self.leaving: str | None = None  # the action that leads on, or an end
        self.history: _Actions | None = None
        self.remaining: _Actions | None = None
        self.told: dict[str, object] = {}  # field → value for the cases that leave it out
        self.untouched = False

    def stated(self, field: str) -> set[object]:
        return {value for case in self.cases if (value := getattr(case, field)) is not None}

    def next_actions(self) -> set[str]:
        return _named(self.cases, "next_action") | {c.remaining_actions[0] for c in self.cases if c.remaining_actions}

    def previous_actions(self) -> set[str]:
        return _named(self.cases, "previous_action") | {c.history[-1] for c in self.cases if c.history}


def _ends(cases: Iterable[Case]) -> set[str]:
    """The names that stand for "nothing remains"; one that was ever executed, or is to be, is no end."""
    named: set[str] = set()
    executed: set[str | None] = set()
    for case in cases:
        if case.next_action and (case.end_state or case.remaining_actions == ()):
            named.add(case.next_action)
        executed.update(case.history or (), case.remaining_actions or (), (case.previous_action,))
    return {END} | (named - executed)


def _named(cases: Iterable[Case], field: str) -> set[str]:
    return {value for case in cases if (value := getattr(case, field)) is not None}


def _agreed(values: Iterable[T]) -> T | None:
    """The one value that all state, or None when nothing is stated or two disagree."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _link(before: _Step | None, step: _Step, ends: set[str]) -> None:
    """Find the action between a step and the one before it, from what the cases of both state."""
    arriving = step.previous_actions()
    if before is None:
        action = _agreed(arriving)
        step.arriving = None if action == NOTHING_DONE else action
        return
    leaving = before.next_actions()
    if leaving and not arriving and leaving <= ends:  # the device ended there; this step is another story
        before.leaving = _agreed(leaving)
        return
    action = _agreed(leaving | arriving)
    if action is not None and action != NOTHING_DONE and action not in ends:
        before.leaving = step.arriving = action


def _remaining(step: _Step, after: _Step | None, ends: set[str]) -> _Actions | None:
    given = [c.remaining_actions for c in step.cases if c.remaining_actions is not None]
    said = {tuple(action for action in actions if action not in ends) for actions in given}  # some write "end" last
    ended, last = step.stated("end_state"), step.stated("is_last")
    if step.leaving in ends or True in ended:
        said.add(())
    elif step.leaving is not None and True in last:
        said.add((step.leaving,))
    elif step.leaving is not None and after is not None and after.remaining is not None:
        said.add((step.leaving, *after.remaining))
    actions = _agreed(said)
    if actions is None or not ended <= {not actions} or not last <= {len(actions) == 1}:
        return None
    if actions and step.leaving != actions[0]:  # another case of the step, or the next step, names another action
        return None
    return actions


def _history(step: _Step, before: _Step | None) -> _Actions | None:
    said: set[_Actions] = {c.history for c in step.cases if c.history is not None}
    if all(case.previous_action == NOTHING_DONE for case in step.cases):
        said.add(())
    if before is not None and before.history is not None and step.arriving is not None:
        said.add((*before.history, step.arriving))
    actions = _agreed(said)
    if actions and step.arriving != actions[-1]:
        return None
    if actions == () and not step.stated("previous_action") <= {NOTHING_DONE}:
        return None
    return actions


def _lone(case: Case, ends: set[str]) -> _Step:
    """A case without a number stands alone: only its own fields speak for one another."""
    step = _Step()
    step.cases.append(case)
    _link(None, step, ends)
    step.leaving = _agreed(step.next_actions())
    step.remaining = _remaining(step, None, ends)
    step.history = _history(step, None)
    _conclude(step, ends)
    return step


def _conclude(step: _Step, ends: set[str]) -> None:
    """Put together what the cases of a step are told, once for all of them."""
    ended, last = step.stated("end_state"), step.stated("is_last")
    if step.remaining is not None:
        ended.add(not step.remaining)
        last.add(len(step.remaining) == 1)
    elif step.leaving is not None:
        ended.add(step.leaving in ends)
    step.told = {
        "previous_action": step.arriving,
        "history": step.history or None,
        "next_action": step.leaving,
        "remaining_actions": step.remaining,
        "is_last": _agreed(last),
        "end_state": _agreed(ended),
    }
    # an empty history says that nothing was done yet: only a case that says so itself gets one
    step.untouched = step.stated("previous_action") == {NOTHING_DONE} and step.stated("history") <= {()}


def _filled(case: Case, step: _Step) -> Case:
    new = {name: value for name, value in step.told.items() if value is not None and getattr(case, name) is None}
    if step.untouched and case.previous_action == NOTHING_DONE and case.history is None:
        new["history"] = ()
    if not new:
        return case
    return replace(case, **new, derived=frozenset(new))  # type: ignore[arg-type]
