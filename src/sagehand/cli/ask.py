"""What a command that asks a model takes beside its address: budgets, cascade, guard, search, prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.errors import InputError, UnknownName

if TYPE_CHECKING:
    from sagehand.recall.params import SearchParams

__all__ = [
    "AskBelow",
    "Calls",
    "Faithful",
    "Guard",
    "PromptsFolder",
    "SearchOption",
    "Seconds",
    "Tokens",
    "search_params",
]

AskBelow = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Ask the model only where the calibrated confidence of the cases is below P; default: always. [setting: ask_below]",
    ),
]
Guard = Annotated[
    str, typer.Option(help="on, or off for studies: the model may name any action, and every answer needs a yes.")
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--seconds", metavar="S", help="Deadline of a decision; at it, the operator. [setting: decision_seconds]"
    ),
]
Calls = Annotated[int | None, typer.Option(metavar="N", help="Most requests of a decision to the model.")]
Tokens = Annotated[int | None, typer.Option(metavar="N", help="Most tokens of a decision.")]
PromptsFolder = Annotated[
    Path | None,
    typer.Option("--prompts", metavar="DIR", help="Own prompts (NAME.md) over the packaged ones. [setting: prompts]"),
]
Faithful = Annotated[
    bool, typer.Option("--faithful", help="Guided: the paper's sequential order, one question after the other.")
]
SearchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        metavar="NAME=VALUE",
        help="Guided: a parameter of the search, as first_look=off or leaves=5; repeat it.",
    ),
]
_BOOLEANS = {"on": True, "off": False, "true": True, "false": False, "yes": True, "no": False}


def search_params(pairs: Sequence[str], faithful: bool, concurrency: int) -> SearchParams:
    """The parameters of a search from ``NAME=VALUE``, with as many questions at once as the server takes requests.

    ``faithful`` begins with the paper's own parameters (``PAPER``); what is named stands above them.

    Raises:
        UnknownName: There is no such parameter.
        InputError: The value is of the wrong kind or out of range.
    """
    from sagehand.recall.params import PAPER, SearchParams

    known = {field.name: field for field in fields(SearchParams)}
    values: dict[str, Any] = {"concurrency": concurrency}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise InputError(f"--search {pair!r} is no NAME=VALUE", hint="as in --search first_look=off")
        if name not in known:
            raise UnknownName("search parameter", name, known)
        values[name] = _value(name, known[name].default, text.strip())
    return replace(PAPER if values.get("faithful", faithful) else SearchParams(), **values)


def _value(name: str, default: object, text: str) -> Any:
    if isinstance(default, bool):
        if text.lower() not in _BOOLEANS:
            raise InputError(f"--search {name}={text}: neither on nor off", hint=f"as in --search {name}=off")
        return _BOOLEANS[text.lower()]
    try:
        return float(text) if name == "seconds" else int(text)
    except ValueError:
        kind = "number" if name == "seconds" else "whole number"
        raise InputError(
            f"--search {name}={text}: not a {kind}", hint=f"as in --search {name}={default or 30}"
        ) from None
