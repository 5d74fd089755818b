"""Files of one's own, in YAML: how objects, scenes and robots are read, and what is said of one that cannot be."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

from sagehand.errors import InputError

__all__ = ["FORMAT", "check_format", "is_number", "is_yaml_name", "parse_yaml", "read_yaml_file"]

FORMAT = 1
"""Version of the form of these files: a field ``format`` may say it, and one that names no other is taken for this one."""
_MOST_COPIES = 10_000
"""How many nodes the aliases of a file may add when each is written out."""


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
    """What a YAML text says, by the safe loader (the quick one where it is built in); 1e-3 is a number, as in YAML 1.2.

    Args:
        text: The text.
        where: Its file, for messages.

    Raises:
        InputError: It is no YAML, says a field twice, or its aliases make it huge; the message names the line.
    """
    try:
        loader = _loader()(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            seen: dict[int, int] = {}
            if _written_out(node, seen, where) - len(seen) > _MOST_COPIES:
                raise InputError(
                    f"{where}: its aliases (*name) stand for more than {_MOST_COPIES} values",
                    hint="write out what is meant",
                )
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except InputError:
        raise
    except Exception as error:  # beside YAMLError, a wrong tag or date raises whatever int() or date() does
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        at = "" if line is None else f", line {line + 1}"
        raise InputError(f"{where}{at}: this is no YAML: {getattr(error, 'problem', None) or error}") from error


@cache
def _loader() -> Any:
    import yaml

    loader: Any = type("Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
    # YAML 1.1 takes 1e-3, without a point or a sign, for text
    exponent = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
    loader.add_implicit_resolver("tag:yaml.org,2002:float", exponent, list("-+.0123456789"))
    return loader


def _written_out(node: Any, seen: dict[int, int], where: str) -> int:
    """How many nodes one is with every alias in it written out; ``seen`` holds those that were counted."""
    if id(node) in seen:
        if not seen[id(node)]:  # it is being counted: it holds itself
            raise InputError(f"{where}, line {node.start_mark.line + 1}: an alias (*name) stands in what it stands for")
        return seen[id(node)]
    seen[id(node)] = 0
    seen[id(node)] = 1 + sum(_written_out(child, seen, where) for child in _children(node, where))
    return seen[id(node)]


def _children(node: Any, where: str) -> Iterator[Any]:
    if isinstance(node.value, str):  # a scalar
        return
    keys = set()
    for child in node.value:
        if not isinstance(child, tuple):
            yield child
            continue
        key = child[0]
        if isinstance(key.value, str):
            if (key.tag, key.value) in keys:
                raise InputError(
                    f"{where}, line {key.start_mark.line + 1}: {key.value!r} is said twice",
                    hint="leave one of them out",
                )
            keys.add((key.tag, key.value))
        yield from child


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
