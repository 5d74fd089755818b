"""From a pydantic model to the wire: the subset of JSON schema that every server takes (FIELD_REPORTS S09–S14).

A wire schema is an object of at most three levels (objects and lists count, unions do not) whose nodes hold nothing but
``type``, ``properties``, ``required``, ``additionalProperties``, ``anyOf``, ``enum``, ``items``, ``minimum``, ``maximum``
and ``description``. Every property is required, what may be missing is a union with null, no object takes more, every
number is bounded or an enum, nothing is referred to. Sizes, patterns and open bounds are left out and checked by us
after parsing. A constant is written as an enum of one: some converters to grammars know ``enum`` and not ``const``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["MOST_LEVELS", "closed", "null_union", "reduced", "strict_problems", "wire_node"]

MOST_LEVELS = 3
"""Levels of objects and lists in a schema; gateways have been seen to refuse six."""

_KEYWORDS = frozenset(
    (
        "type",
        "properties",
        "required",
        "additionalProperties",
        "anyOf",
        "enum",
        "items",
        "minimum",
        "maximum",
        "description",
    )
)
_TYPES = frozenset(("object", "array", "string", "integer", "number", "boolean", "null"))
_LOOSENED = frozenset(("description", "minimum", "maximum"))
_SCALARS: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def wire_node(raw: Mapping[str, Any], root: Mapping[str, Any], where: str, levels: int) -> dict[str, Any]:
    """One node of pydantic's JSON schema in the wire's subset.

    Args:
        raw: The node as pydantic writes it.
        root: The whole schema, for its ``$defs``.
        where: Name of the tool and the field, for errors.
        levels: Levels of objects and lists that may still be opened, this node included.

    Raises:
        TypeError: The type cannot be put on the wire: a bug in the tool's definition.
    """
    raw = _resolved(raw, root, where)
    described = {"description": raw["description"]} if raw.get("description") else {}
    values = [raw["const"]] if "const" in raw else raw.get("enum")
    if values is not None:
        return _enum(values, where) | described
    if "anyOf" in raw:
        return _optional(raw["anyOf"], root, where, levels) | described
    kind = raw.get("type")
    if kind in ("object", "array") and levels < 1:
        raise TypeError(
            f"{where}: nested too deep; the wire takes {MOST_LEVELS} levels, the outermost two are the reply's own"
        )
    if kind == "object":
        return _object(raw, root, where, levels) | described
    if kind == "array":
        if "items" not in raw or "prefixItems" in raw:
            raise TypeError(f"{where}: a list needs one type for all its items, as in list[str]")
        return {"type": "array", "items": wire_node(raw["items"], root, f"{where}[]", levels - 1)} | described
    if kind in ("integer", "number"):
        return {"type": kind, **_bounds(raw, kind, where)} | described
    if kind in ("string", "boolean", "null"):
        return {"type": kind} | described
    raise TypeError(
        f"{where}: a type that no server is sure to take; use bool, int, float, str, Literal, a list, or one | None"
    )


def _resolved(raw: Mapping[str, Any], root: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    for _ in range(8):
        inner = raw["allOf"][0] if len(raw.get("allOf", ())) == 1 else raw
        if "$ref" not in inner:
            return {**inner, **{k: v for k, v in raw.items() if k != "allOf"}}
        name = str(inner["$ref"]).rsplit("/", 1)[-1]
        target = root.get("$defs", {}).get(name)
        if target is None:
            break
        raw = {**target, **{k: v for k, v in raw.items() if k not in ("$ref", "allOf")}}
    raise TypeError(f"{where}: a reference that leads nowhere")


def _enum(values: list[Any], where: str) -> dict[str, Any]:
    kinds = {_SCALARS.get(type(v)) for v in values if v is not None}
    if len(kinds) != 1 or None in kinds:
        raise TypeError(
            f"{where}: allowed values of one type are needed, all text or all whole numbers; got {values!r}"
        )
    node = {"type": kinds.pop(), "enum": [v for v in values if v is not None]}
    return null_union(node) if None in values else node


def null_union(node: Mapping[str, Any]) -> dict[str, Any]:
    """The node, or null: how the wire writes what may be missing."""
    return {"anyOf": [dict(node), {"type": "null"}]}


def _optional(options: list[Any], root: Mapping[str, Any], where: str, levels: int) -> dict[str, Any]:
    rest = [o for o in options if o.get("type") != "null"]
    if len(rest) != 1 or len(options) != 2:
        raise TypeError(f"{where}: a union other than `X | None`; what a reply means must not depend on a guess")
    return null_union(wire_node(rest[0], root, where, levels))


def _object(raw: Mapping[str, Any], root: Mapping[str, Any], where: str, levels: int) -> dict[str, Any]:
    properties = raw.get("properties", {})
    if raw.get("additionalProperties", False) is not False or not properties:
        raise TypeError(f"{where}: a mapping with free keys; name the fields")
    return closed({k: wire_node(v, root, f"{where}.{k}", levels - 1) for k, v in properties.items()})


def closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object with these properties, all of them, and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _bounds(raw: Mapping[str, Any], kind: str, where: str) -> dict[str, Any]:
    low, high = raw.get("minimum"), raw.get("maximum")
    step = 1 if kind == "integer" else 0  # an open bound of a float is closed on the wire; pydantic checks the rest
    if low is None and "exclusiveMinimum" in raw:
        low = raw["exclusiveMinimum"] + step
    if high is None and "exclusiveMaximum" in raw:
        high = raw["exclusiveMaximum"] - step
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        raise TypeError(f"{where}: a number needs both bounds, as in Field(ge=0, le=10), or a Literal of its values")
    if low > high:
        raise TypeError(f"{where}: no number lies between {low} and {high}")
    return {"minimum": low, "maximum": high}


def reduced(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema without descriptions and bounds, for a server whose grammar compiler chokes on them."""
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _LOOSENED:
            continue
        if key == "properties":
            out[key] = {name: reduced(node) for name, node in value.items()}
        elif key == "anyOf":
            out[key] = [reduced(node) for node in value]
        elif key == "items":
            out[key] = reduced(value)
        else:
            out[key] = value
    return out


def strict_problems(schema: Mapping[str, Any]) -> list[str]:
    """What in a wire schema lies outside the subset, in words; empty when nothing does."""
    problems = []
    if schema.get("type") != "object" or "anyOf" in schema:
        problems.append("the root: must be an object and no union")
    return [*problems, *_problems(schema, "the root", MOST_LEVELS)]


def _problems(node: Mapping[str, Any], where: str, levels: int) -> Iterator[str]:
    for keyword in sorted(set(node) - _KEYWORDS):
        yield f"{where}: keyword {keyword!r} is not in the subset"
    if "anyOf" in node:
        if not node["anyOf"] or set(node) - {"anyOf", "description"}:
            yield f"{where}: anyOf with no option, or with keywords beside it"
        for i, option in enumerate(node["anyOf"]):
            yield from _problems(option, f"{where}, option {i + 1}", levels)
        return
    kind = node.get("type")
    if kind not in _TYPES:
        yield f"{where}: no type"
    if kind in ("object", "array") and levels < 1:
        yield f"{where}: deeper than {MOST_LEVELS} levels"
        return
    if kind == "object":
        properties = node.get("properties", {})
        if node.get("additionalProperties") is not False:
            yield f"{where}: additionalProperties must be false"
        if list(node.get("required", ())) != list(properties):
            yield f"{where}: required must list every property, in order"
        for name, sub in properties.items():
            yield from _problems(sub, f"{where}.{name}", levels - 1)
    elif kind == "array":
        if "items" not in node:
            yield f"{where}: a list without items"
        else:
            yield from _problems(node["items"], f"{where}[]", levels - 1)
    elif kind in ("integer", "number") and "enum" not in node and not {"minimum", "maximum"} <= set(node):
        yield f"{where}: a number without minimum and maximum"
    if "enum" in node and not node["enum"]:
        yield f"{where}: an enum of nothing"
