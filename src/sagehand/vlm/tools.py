"""Tools: typed calls that a model may answer with, and their wire schema (paper A §2.1).

A tool is a pydantic model; its class name is the tool's name, its docstring the description, its fields the parameters::

    class GradeImage(Tool):
        \"\"\"Grade how similar the candidate is.\"\"\"

        score: int = Field(ge=0, le=10, description="0 nothing alike, 10 the same device in the same state")

A definition that no server is sure to take (a number without bounds, a union, too deep) is a :class:`TypeError` where the
class is made. Sizes (``max_length``) and patterns may be given: they stay off the wire and are checked by us.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from sagehand.errors import UnknownName
from sagehand.vlm.schema import closed, reduced, strict_problems, wire_node

__all__ = [
    "RESERVED",
    "Tool",
    "describe",
    "function_tools",
    "parameters",
    "strict_problems",
    "tool_named",
    "wire_schema",
]

RESERVED = frozenset(("tool", "reasoning", "call"))
"""Names that the reply itself uses; no field of a tool may have them."""

_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_REASONING = "What you see that decides it, in a few sentences, before the call"


class Tool(BaseModel):
    """Base of every tool. Unknown arguments, NaN and infinities are refused; text is not turned into numbers here."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse at once what cannot go on the wire; a class with forward references is checked when first used."""
        super().__pydantic_init_subclass__(**kwargs)
        if cls.__pydantic_complete__:
            parameters(cls)


@lru_cache(maxsize=512)
def parameters(tool: type[Tool]) -> Mapping[str, Mapping[str, Any]]:
    """The wire schema of each field, by name, in order; not to be changed.

    Raises:
        TypeError: The tool cannot be put on the wire.
    """
    if not tool.__pydantic_complete__:
        tool.model_rebuild()
    fields: dict[str, dict[str, Any]] = {}
    raw = tool.model_json_schema(by_alias=False)
    for name, field in tool.model_fields.items():
        where = f"{tool.__name__}.{name}"
        if (
            name in RESERVED
            or not _NAME.fullmatch(name)
            or field.alias is not None
            or field.validation_alias is not None
        ):
            raise TypeError(
                f"{where}: a field is named by letters, digits and _, has no alias, and is none of {sorted(RESERVED)}"
            )
        if not field.is_required() and field.default is not None:
            raise TypeError(
                f"{where}: a default; everything is required on the wire, what may be missing is `X | None`"
            )
        fields[name] = wire_node(raw["properties"][name], raw, where, 1)
    return fields


def wire_schema(tools: Sequence[type[Tool]], *, loose: bool = False) -> dict[str, Any]:
    """The schema of a whole reply: ``{"reasoning": text, "call": {"tool": its name, …its arguments}}``.

    Reasoning stands first, so that a model that writes in order thinks before its verdict. Several tools are an ``anyOf``
    of ``call``; a single one is ``call`` itself.

    Args:
        tools: The tools of this step.
        loose: Without descriptions and bounds (:func:`sagehand.vlm.schema.reduced`).

    Raises:
        TypeError: No tool, two of one name, or a tool that cannot be put on the wire.
    """
    calls = [_call_schema(tool) for tool in _checked(tools)]
    call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    schema = closed({"reasoning": {"type": "string", "description": _REASONING}, "call": call})
    return reduced(schema) if loose else schema


def _call_schema(tool: type[Tool]) -> dict[str, Any]:
    node = closed({"tool": {"type": "string", "enum": [tool.__name__]}, **parameters(tool)})
    return {**node, "description": _meaning(tool)} if _meaning(tool) else node


def _checked(tools: Sequence[type[Tool]]) -> Sequence[type[Tool]]:
    names = [tool.__name__ for tool in tools]
    if not names or len(set(names)) != len(names) or not all(map(_NAME.fullmatch, names)):
        raise TypeError(f"a question needs tools of different names, of letters, digits and _; got {names}")
    return tools


def function_tools(tools: Sequence[type[Tool]], *, loose: bool = False) -> list[dict[str, Any]]:
    """The same as native function tools: strict, with ``reasoning`` as the first parameter.

    Args:
        tools: The tools of this step.
        loose: Without descriptions and bounds of the parameters.

    Raises:
        TypeError: As :func:`wire_schema`.
    """
    functions = []
    for tool in _checked(tools):
        schema = closed({"reasoning": {"type": "string", "description": _REASONING}, **parameters(tool)})
        functions.append(
            {
                "type": "function",
                "function": {
                    "name": tool.__name__,
                    "description": _meaning(tool) or tool.__name__,
                    "strict": True,
                    "parameters": reduced(schema) if loose else schema,
                },
            }
        )
    return functions


def tool_named(name: str, tools: Sequence[type[Tool]]) -> type[Tool]:
    """The tool of that name.

    Raises:
        UnknownName: There is none in this step; near misses are named.
    """
    for tool in tools:
        if tool.__name__ == name:
            return tool
    raise UnknownName("tool", name, [tool.__name__ for tool in tools])


def describe(tools: Sequence[type[Tool]]) -> str:
    """Names, meanings and allowed values, for the prompt: a server may constrain tokens and never show the schema (S08)."""
    return "\n".join(_described(tool) for tool in _checked(tools))


@lru_cache(maxsize=512)
def _described(tool: type[Tool]) -> str:
    lines = [f"* {tool.__name__}{f': {_meaning(tool)}' if _meaning(tool) else ''}"]
    raw = tool.model_json_schema(by_alias=False)
    for name, node in parameters(tool).items():
        about = f" — {node['description']}" if node.get("description") else ""
        lines.append(f"    {name}: {_allowed(node)}{_sizes(raw['properties'][name])}{about}")
    if not parameters(tool):
        lines.append("    (no arguments)")
    return "\n".join(lines)


def _meaning(tool: type[Tool]) -> str:
    return " ".join((tool.__dict__.get("__doc__") or "").split())


def _allowed(node: Mapping[str, Any]) -> str:
    if "anyOf" in node:
        return f"{_allowed(node['anyOf'][0])}, or null"
    if "enum" in node:
        values = [json.dumps(v, ensure_ascii=False) for v in node["enum"]]
        return values[0] if len(values) == 1 else f"one of {', '.join(values)}"
    if node["type"] == "array":
        return f"list, each item {_allowed(node['items'])}"
    if node["type"] == "object":
        return "object with " + "; ".join(f"{k}: {_allowed(v)}" for k, v in node["properties"].items())
    if node["type"] in ("integer", "number"):
        kind = "whole number" if node["type"] == "integer" else "number"
        return f"{kind} from {json.dumps(node['minimum'])} to {json.dumps(node['maximum'])}"
    return {"string": "text", "boolean": "true or false"}.get(node["type"], str(node["type"]))


def _sizes(raw: Mapping[str, Any]) -> str:
    raw = next((o for o in raw.get("anyOf", ()) if o.get("type") != "null"), raw)
    found = []
    for noun, low, high in (("items", "minItems", "maxItems"), ("characters", "minLength", "maxLength")):
        if low in raw:
            found.append(f"at least {raw[low]} {noun}")
        if high in raw:
            found.append(f"at most {raw[high]} {noun}")
    return f" ({', '.join(found)})" if found else ""
