"""Do labels speak the language of the action library?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sagehand.action.library import ActionLibrary

__all__ = ["label_check"]


def label_check(library: ActionLibrary) -> Callable[[Mapping[str, Any]], None]:
    """A function that raises UnknownName for a label with an action that the library does not have."""

    def check(fields: Mapping[str, Any]) -> None:
        single = [("next action", fields.get("next_action")), ("previous action", fields.get("previous_action"))]
        many = [("action in history", a) for a in fields.get("history") or ()]
        many += [("remaining action", a) for a in fields.get("remaining_actions") or ()]
        for kind, name in single + many:
            if name is not None and not (kind == "previous action" and name == "none"):
                library.require(name, kind)

    return check
