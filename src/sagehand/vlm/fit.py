"""A model's arguments against their wire schema: exact values, lossless numbers written as text, nothing else (S16, S25)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from sagehand.errors import Malformed, near_misses
from sagehand.vlm.text import CONFLICT
from sagehand.vlm.tools import RESERVED, Tool, parameters

__all__ = ["clean_text", "fit_tool", "refuse_near_misses", "shown"]

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]{1,18}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


def shown(value: Any, most: int = 40) -> str:
    """A bad value as an error may quote it: short, whatever it is."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError):
        text = type(value).__name__
    text = clean_text(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def clean_text(text: str) -> str:
    """The text without lone surrogates, which no file and no database takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def fit_tool(tool: type[Tool], arguments: Mapping[str, Any], notes: list[str]) -> Tool:
    """Make a call of its arguments.

    Args:
        tool: The tool called.
        arguments: What was given.
        notes: Repairs are added here.

    Raises:
        Malformed: An argument is missing, of another type, out of range, or extra and perhaps meant for a real one.
    """
    fitted = _fit_object(arguments, parameters(tool), tool.__name__, notes)
    try:
        return tool.model_validate_json(json.dumps(fitted), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = ".".join(map(str, first["loc"])) or tool.__name__
        raise Malformed(f"{path}: {shown(first['input'])}: {first['msg'][:1].lower()}{first['msg'][1:200]}") from error


def _fit_object(value: Any, fields: Mapping[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Malformed(f"{where}: {shown(value)} is no object")
    fitted = {}
    for name, node in fields.items():
        if name in value:
            fitted[name] = _fit(value[name], node, name, notes)
        elif "anyOf" in node:
            fitted[name] = None
            notes.append(f"{name} was left out and is taken as null")
        else:
            given = ", ".join(map(repr, value)) or "nothing"
            raise Malformed(f"{where}: argument {name!r} is missing; given: {given[:200]}")
    refuse_near_misses([k for k in value if k not in fields], [*fields, *RESERVED], notes)
    return fitted


def refuse_near_misses(extra: list[str], known: list[str], notes: list[str]) -> None:
    """Drop keys that nothing asked for, unless one may be a real one misspelt."""
    for key in extra:
        close = near_misses(key, known)
        if close:
            raise Malformed(f"{shown(key)} is no argument; did you mean {' or '.join(map(repr, close))}?")
        notes.append(f"dropped {shown(key)}, which nothing asked for")


def _fit(value: Any, node: Mapping[str, Any], where: str, notes: list[str]) -> Any:
    if value is CONFLICT:
        raise Malformed(f"{where}: given twice, with different values")
    if "anyOf" in node:
        return None if value is None else _fit(value, node["anyOf"][0], where, notes)
    kind = node["type"]
    if kind == "object":
        return _fit_object(value, node["properties"], where, notes)
    if kind == "array":
        if not isinstance(value, list):
            raise Malformed(f"{where}: {shown(value)} is no list")
        return [_fit(item, node["items"], f"{where}[{i}]", notes) for i, item in enumerate(value)]
    if kind in ("integer", "number"):
        value = _number(value, kind, where, notes)
    elif not isinstance(value, {"string": str, "boolean": bool, "null": type(None)}[kind]):
        raise Malformed(f"{where}: {shown(value)} is not {_wanted(node)}")
    if "enum" in node and value not in node["enum"]:
        close = near_misses(value, node["enum"]) if isinstance(value, str) else []
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise Malformed(f"{where}: {shown(value)} is not {_wanted(node)}{hint}")
    if "minimum" in node and not node["minimum"] <= value <= node["maximum"]:
        raise Malformed(f"{where}: {shown(value)} is out of range; {_wanted(node)} is needed")
    return clean_text(value) if kind == "string" else value


def _number(value: Any, kind: str, where: str, notes: list[str]) -> int | float:
    """A number, or one that was written as text or as "3.0" without loss."""
    wanted = "a whole number" if kind == "integer" else "a number"
    number: Any = value
    if isinstance(value, str):
        text = value.strip()
        if not (_INTEGER if kind == "integer" else _NUMBER).fullmatch(text):
            raise Malformed(f"{where}: {shown(value)} is not {wanted}")
        number = int(text.split(".")[0]) if _INTEGER.fullmatch(text) else float(text)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Malformed(f"{where}: {shown(value)} is not {wanted}")
    if isinstance(number, float) and not math.isfinite(number):
        raise Malformed(f"{where}: {shown(value)} is not finite; {wanted} is needed")
    if kind == "integer" and isinstance(number, float) and not number.is_integer():
        raise Malformed(f"{where}: {shown(value)} is not a whole number")
    if isinstance(value, str):
        notes.append(f"{where}: {number} was written as text")
    return int(number) if kind == "integer" else number if isinstance(number, int) else float(number)


def _wanted(node: Mapping[str, Any]) -> str:
    if "enum" in node:
        listed = ", ".join(json.dumps(v, ensure_ascii=False) for v in node["enum"][:40])
        return f"one of {listed}{', …' if len(node['enum']) > 40 else ''}"
    if "minimum" in node:
        kind = "a whole number" if node["type"] == "integer" else "a number"
        return f"{kind} from {node['minimum']} to {node['maximum']}"
    return {"string": "text", "boolean": "true or false", "null": "null"}[node["type"]]
