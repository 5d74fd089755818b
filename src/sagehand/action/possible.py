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
    return check_actions(library, knowledge, family=known.family), [*knowledge.notes, *_misfits(library, index)]


def _misfits(library: ActionLibrary, index: Index) -> list[str]:
    """Names of the cases that the library does not know: their cases cannot speak."""
    warnings = []
    labels = index.codes("next_action")[1]
    strange = [name for name in labels if name not in library.actions]
    if strange and len(strange) == len([n for n in labels if n != library.end]):
        raise InputError(
            f"none of the cases' next actions is in {library.source}: {', '.join(sorted(strange)[:5])}",
            hint="name the action library of this case base",
        )
    if strange:
        warnings.append(
            f"next actions of the cases that {library.source} does not have: {', '.join(sorted(strange)[:5])}"
        )
    families = [name for name in index.codes("family")[1] if name not in library.families]
    if families:
        warnings.append(f"families of the cases that {library.source} does not have: {', '.join(sorted(families)[:5])}")
    return warnings
