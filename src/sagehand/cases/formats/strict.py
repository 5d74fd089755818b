"""JSON as a label may stand in it: finite numbers, each key once; what cannot be used is told by its row."""

from __future__ import annotations

import json
from typing import Any, NoReturn

__all__ = ["BadRow", "strict_json"]


class BadRow(Exception):
    """One row cannot be used; becomes a :class:`~sagehand.cases.table.RowProblem`.

    Attributes:
        file_name: The row's picture, where it is known, else "".
    """

    def __init__(self, reason: str, file_name: str = "") -> None:
        super().__init__(reason)
        self.file_name = file_name


def strict_json(text: str) -> Any:
    """Read JSON.

    Raises:
        BadRow: It is no JSON, nested too deeply, holds a number that is not finite, or a key twice.
    """
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite_float, object_pairs_hook=_unique_keys
        )
    except json.JSONDecodeError as error:
        raise BadRow(f"not JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise BadRow("not JSON that can be read: nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise BadRow(f"not JSON that can be read: {str(error).partition(';')[0]}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise BadRow(f"{name} is no JSON value; leave the key out where nothing is known")


def _finite_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise BadRow(f"the number {text} is too large")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise BadRow(f"the key {next(n for n in names if names.count(n) > 1)!r} stands twice")
    return values
