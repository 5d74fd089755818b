"""Which actions are known to be impossible: preconditions and effects run over true, false and unknown (SPEC C3).

What is known stands for a set of possible worlds: all that agree with it. An action is ruled out when its preconditions
hold in none of them, and only then. What a history teaches keeps that set of the form "some facts fixed, the others
free", so that one value a fact (true, false or absent) describes it exactly:

* that an action was done proves that its preconditions held before it: they are added to what is known;
* its effects hold after it: they replace what was known of the same facts; all other facts stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sagehand.action.library import NOTHING_DONE, Action, ActionLibrary, Literal
from sagehand.errors import InputError, UnknownName

__all__ = ["Knowledge", "Verdicts", "check_actions", "conflicts", "know", "repeats"]


@dataclass(frozen=True)
class Knowledge:
    """What is known about the device.

    Attributes:
        facts: Fact → whether it holds; an absent fact is unknown.
        notes: Contradictions between what was said and what the library allows, in words.
        because: Fact → why it is known, as in "pry made it false"; the same keys as ``facts``.
    """

    facts: Mapping[str, bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    because: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdicts:
    """Which actions are possible as far as is known.

    Attributes:
        valid: Names of the actions that are not ruled out, in the library's order.
        ruled_out: Name of each other action → why, in words.
    """

    valid: tuple[str, ...]
    ruled_out: Mapping[str, str]


class _State:
    """The facts while they change, each with its reason."""

    def __init__(self) -> None:
        self.facts: dict[str, bool] = {}
        self.because: dict[str, str] = {}
        self.notes: list[str] = []

    def set(self, literal: Literal, why: str, when: str = "") -> None:
        self.facts[literal.fact] = literal.holds
        self.because[literal.fact] = f"{why} {_truth(literal.holds)}{when}"

    def forget(self, fact: str) -> None:
        self.facts.pop(fact, None)
        self.because.pop(fact, None)

    def against(self, literal: Literal) -> str | None:
        """Why the opposite is known; None where it is not."""
        opposite_known = self.facts.get(literal.fact) is (not literal.holds)
        return self.because[literal.fact] if opposite_known else None

    def do(self, action: Action) -> None:
        for need in action.preconditions:
            if why := self.against(need):
                taken = f"{action.name} was done, so it is taken to have been {_truth(need.holds)}"
                self.notes.append(f"{action.name} needs {_wanted(need)}, but {why}; {taken}")
                self.forget(need.fact)
            if need.fact not in self.facts:
                self.set(need, f"{action.name} needed it")
        for effect in action.effects:
            self.set(effect, f"{action.name} made it")


def know(
    library: ActionLibrary,
    *,
    previous: str | None = None,
    history: Sequence[str] | None = None,
    facts: Iterable[str] = (),
    previous_failed: bool = False,
) -> Knowledge:
    """What is known after the actions that were done and from what was said.

    Args:
        library: The actions of the cell.
        previous: The action that was done last; "none" when nothing was done yet, None when it is not known. Without a
            history it proves that its preconditions held and its effects do, and nothing else.
        history: Every action that was done, oldest first, from the untouched device on; None when it is not known.
        facts: What somebody says, as "battery_in" or "not battery_in"; wins over all else. The order means nothing.
        previous_failed: The last action was tried and did not work: every fact that it names is unknown, for it may be
            half done, or one of its preconditions may be why it failed. The history before it still counts.

    Raises:
        UnknownName: An action or a fact that the library does not have.
        InputError: ``previous`` is not the last of ``history``, two ``facts`` contradict each other, or
            ``previous_failed`` without an action that can have failed.
    """
    previous, done = _what_was_done(library, previous, history)
    said = _parse_facts(library, facts)
    if previous_failed and previous in (None, NOTHING_DONE):
        what = "nothing was done yet" if previous else "the previous action is not known"
        raise InputError(f"previous_failed is set, but {what}", hint="name the action that failed as the previous one")
    state = _State()
    if done is not None or previous == NOTHING_DONE:
        for literal in library.initial:
            state.set(literal, "it was", " at the start")
    actions = [library.require(name) for name in (done if done is not None else _only(previous))]
    failed = actions.pop() if previous_failed else None
    for action in actions:
        state.do(action)
    if failed is not None:
        for literal in failed.preconditions + failed.effects:
            state.forget(literal.fact)
    for literal in said:
        if why := state.against(literal):
            state.notes.append(f"you said {literal.fact} is {_truth(literal.holds)}, but {why}; what you said is taken")
        state.set(literal, "you said it is")
    return Knowledge(state.facts, tuple(state.notes), state.because)


def check_actions(library: ActionLibrary, knowledge: Knowledge, *, family: str | None = None) -> Verdicts:
    """Rule out the actions that are known to be impossible, and no others.

    Args:
        library: The actions of the cell.
        knowledge: From :func:`know`.
        family: The device's family, None when it is not known.

    Raises:
        UnknownName: A family that the library does not have.
    """
    if family is not None and family not in library.families:
        raise UnknownName("family", family, library.families, hint=f"the families are those of {library.source}")
    ruled_out: dict[str, str] = {}
    for name, action in library.actions.items():
        reasons = [
            f"needs {_wanted(need)}, but {knowledge.because.get(need.fact, f'it is {_truth(not need.holds)}')}"
            for need in action.preconditions
            if knowledge.facts.get(need.fact, need.holds) is not need.holds
        ]
        if family is not None and action.families is not None and family not in action.families:
            reasons.insert(0, f"is for {', '.join(sorted(action.families))}, not {family}")
        if reasons:
            ruled_out[name] = "; ".join(reasons)
    return Verdicts(tuple(name for name in library.actions if name not in ruled_out), ruled_out)


def repeats(answers: Sequence[str | None], answer: str | None, limit: int = 3) -> bool:
    """Whether ``answer`` would be the same action for the ``limit``-th time in a row (SPEC C3).

    Args:
        answers: The answers before, or the actions done, oldest first; None where no action was answered.
        answer: The answer in hand; None, an abstention, never repeats.
        limit: How many times in a row are too many [answers], this one counted.

    Raises:
        InputError: ``limit`` is less than 2.
    """
    if limit < 2:
        raise InputError(f"repeat limit {limit} is less than 2", hint="2 escalates the second same answer in a row")
    before = list(answers)[-(limit - 1) :]
    return answer is not None and len(before) == limit - 1 and all(b == answer for b in before)


def conflicts(
    library: ActionLibrary, steps: Iterable[tuple[str, str | None, Sequence[str] | None, str | None, str | None]]
) -> list[str]:
    """Labels that the guard would not let anyone answer, a line each: the label is wrong, or the library is.

    Args:
        library: The actions of the cell.
        steps: (id, previous action, history, next action, family) of each labelled case, None for what is not known.

    Returns:
        For each case in conflict, its id and why: its own next action is ruled out by what its label says was done, or
        the label uses a name that the library does not have. At most one line a case, in the order of the cases.
    """
    lines: list[str] = []
    for case_id, previous, history, next_action, family in steps:
        try:
            verdicts = check_actions(library, know(library, previous=previous, history=history), family=family)
            answer = library.require(next_action, "next action").name if next_action is not None else None
        except InputError as error:  # not a failure here but the finding: the label and the library do not agree
            lines.append(f"{case_id}: {error}")
            continue
        if answer is not None and answer in verdicts.ruled_out:
            lines.append(f"{case_id}: next action {answer!r} is ruled out: {verdicts.ruled_out[answer]}")
    return lines


def _what_was_done(
    library: ActionLibrary, previous: str | None, history: Sequence[str] | None
) -> tuple[str | None, tuple[str, ...] | None]:
    """Both with the library's spelling; the history tells the previous action, too."""
    if previous is not None and previous != NOTHING_DONE:
        if previous not in library:
            hint = f"the actions are those of {library.source}, and {NOTHING_DONE!r} when nothing was done yet"
            raise UnknownName("previous action", previous, [*library.actions, NOTHING_DONE], hint=hint)
        previous = library.require(previous).name
    if history is None:
        return previous, None
    if isinstance(history, str):
        raise InputError(f"history {history!r} is one text, not a list of actions", hint=f"write [{history!r}]")
    done = tuple(library.require(name, "action in the history").name for name in history)
    last = done[-1] if done else NOTHING_DONE
    if previous is not None and previous != last:
        raise InputError(
            f"the previous action is {previous!r}, but the history "
            + (f"ends with {last!r}" if done else "says that nothing was done"),
            hint="the history runs from the first action to the last and holds the previous one",
        )
    return last, done


def _parse_facts(library: ActionLibrary, facts: Iterable[str]) -> list[Literal]:
    if isinstance(facts, str):
        raise InputError(f"facts {facts!r} are one text, not a list", hint=f"write [{facts!r}]")
    said: dict[str, Literal] = {}
    for text in facts:
        literal = Literal.parse(text)
        if literal.fact not in library.facts:
            raise UnknownName("fact", literal.fact, library.facts, hint=f"the facts are those of {library.source}")
        if said.setdefault(literal.fact, literal) != literal:
            raise InputError(f"you said both {literal.fact!r} and 'not {literal.fact}'", hint="keep one of the two")
    return [said[fact] for fact in sorted(said)]


def _only(previous: str | None) -> tuple[str, ...]:
    return () if previous in (None, NOTHING_DONE) else (str(previous),)


def _truth(holds: bool) -> str:
    return "true" if holds else "false"


def _wanted(literal: Literal) -> str:
    return literal.fact if literal.holds else f"{literal.fact} to be false"
