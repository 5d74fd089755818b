"""Files of one's own, in YAML: how objects, scenes and robots are read, and what is said of one that cannot be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from sagehand.errors import InputError

__all__ = ["FORMAT", "check_format", "is_number", "is_yaml_name", "parse_yaml", "read_yaml_file"]

FORMAT = 1
"""Version of the form of these files: a field ``format`` may say it, and one that names no other is taken for this one."""


def is_yaml_name(name: str | Path) -> bool:
    """Whether a name is that of a YAML file: it ends in .yaml or .yml, in any case."""
    return str(name).lower().endswith((".yaml", ".yml"))


def read_yaml_file(path: Path, what: str) -> Any:
    """What a YAML file holds.

    Args:
        path: The file.
        what: What it ought to be, for the hint: "an object's file".

    Raises:
        InputError: It cannot be read, is not UTF-8, or is no YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a name that no file can have
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        if isinstance(error, ValueError) and not isinstance(error, UnicodeDecodeError):
            why = str(error)
        raise InputError(f"{path}: cannot be read: {why}", hint=f"give the path of {what}, *.yaml") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """What a YAML text says, by the safe loader (the quick one where it is built in).

    Args:
        text: The text.
        where: Its file, for messages.

    Raises:
        InputError: It is no YAML; the message names the line.
    """
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except Exception as error:  # beside YAMLError, a wrong tag or date raises whatever int() or date() does
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        at = "" if line is None else f", line {line + 1}"
        raise InputError(f"{where}{at}: this is no YAML: {getattr(error, 'problem', None) or error}") from error


def check_format(doc: Mapping[Any, Any], where: str) -> None:
    """Hold the field ``format`` against what this version reads.

    Raises:
        InputError: It is another number, or no number.
    """
    given = doc.get("format", FORMAT)
    if isinstance(given, bool) or not isinstance(given, int):
        raise InputError(f"{where}: format is {given!r}; it must be {FORMAT}")
    if given > FORMAT:
        raise InputError(
            f"{where}: format is {given}: it was written for a newer version; this one reads {FORMAT}",
            hint="update sagehand",
        )
    if given != FORMAT:
        raise InputError(f"{where}: format is {given}; it must be {FORMAT}")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a finite number, and no truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number larger than any float
        return False
