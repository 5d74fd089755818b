"""Which actions are possible, from what is known (SPEC C3), with a library or without."""

from __future__ import annotations

from sagehand.action.decision import Known
from sagehand.action.guard import Verdicts, check_actions, know
from sagehand.action.library import ActionLibrary
from sagehand.cases import NOTHING_DONE, Index
from sagehand.errors import InputError, UnknownName

__all__ = ["possible"]


def possible(library: ActionLibrary | None, index: Index, known: Known) -> tuple[Verdicts, list[str]]:
    """What the guard rules out, and what the user should know about it.

    Args:
        library: The actions; without one every action that the cases name is possible.
        index: The cases, whose names are valid where there is no library.
        known: What is known of the device.

    Raises:
        UnknownName: An action, a fact or a family that there is none of.
        InputError: What is known contradicts itself, or facts without a library.
    """
    if library is None:
        labels = index.codes("next_action")[1]
        actions = {*labels, *index.codes("previous_action")[1], NOTHING_DONE}
        for name in (known.previous, *(known.history or ())):
            if name is not None and name not in actions:
                raise UnknownName("previous action", name, actions)
        if known.facts:
            raise InputError("facts need an action library", hint="add --actions FILE")
        families = index.codes("family")[1]
        if known.family is not None and known.family not in families:
            raise UnknownName("family", known.family, families)
        return Verdicts(tuple(sorted(labels)), {}), ["no action library was given: no action is ruled out"]
    knowledge = know(
        library,
        previous=known.previous,
        history=known.history,
        facts=known.facts,
        previous_failed=known.previous_failed,
    )
    return check_actions(library, knowledge, family=known.family), list(knowledge.notes)
