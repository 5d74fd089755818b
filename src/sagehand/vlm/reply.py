"""From what came back to one valid call, or to a typed error: repaired only where the meaning is certain (SPEC A2).

Looked at in this order: native tool calls, the content, and, when both are empty, the reasoning field, where only a whole
valid object counts (S03). The finish reason is read before anything is parsed (S21).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sagehand.errors import Malformed, NotEnforced, Refused, Truncated, UnknownName
from sagehand.vlm.base import Mode, RawReply
from sagehand.vlm.fit import clean_text, fit_tool, refuse_near_misses, shown
from sagehand.vlm.text import find_objects, load_object, looped, without_thought
from sagehand.vlm.tools import RESERVED, Tool, parameters, tool_named

__all__ = ["Reading", "ran_in_circles", "read_reply"]

_CUT = frozenset(("length", "max_tokens", "model_length"))
_NAMES = ("tool", "name")
_ARGUMENTS = ("arguments", "parameters", "args")
_HOLDERS = ("call", "function", "tool_call", "function_call")


@dataclass(frozen=True)
class Reading:
    """A reply that was understood.

    Attributes:
        tool: The call.
        reasoning: What was said before it; "" when nothing was.
        repairs: What was repaired, in words.
    """

    tool: Tool
    reasoning: str
    repairs: tuple[str, ...]


def read_reply(reply: RawReply, tools: Sequence[type[Tool]], mode: Mode) -> Reading:
    """Read a reply.

    Args:
        reply: What came back.
        tools: The tools of the question, and no others.
        mode: How the reply was asked for.

    Raises:
        Truncated: It was cut off at the token limit, complete as it may look.
        NotEnforced: Prose, where a schema or a tool choice was to keep it out.
        Malformed: No valid call, or more than one.
        Refused: The server's filter held the answer back.
    """
    if reply.finish_reason in _CUT:
        circles = ran_in_circles(reply)
        raise Truncated(
            f"the reply was cut off at the token limit{f' after {circles} without end' if circles else ''}",
            hint="allow longer replies, or turn thinking off where the model thinks first",
        )
    if reply.finish_reason == "content_filter":
        raise Refused("the server's content filter held the answer back")
    if reply.tool_calls:
        return _native(reply, tools)
    content = reply.content or ""
    if content.strip():
        return _from_text(content, reply.reasoning, tools, mode)
    if reply.reasoning and reply.reasoning.strip():
        return _from_reasoning(reply.reasoning, tools)
    raise Malformed("the reply is empty")


def ran_in_circles(reply: RawReply) -> str | None:
    """Whether a reply ran on in blanks or repetitions, and which."""
    return looped("\n".join(filter(None, [reply.reasoning, reply.content, *(a for _, a in reply.tool_calls)])))


def _native(reply: RawReply, tools: Sequence[type[Tool]]) -> Reading:
    readings = []
    said = _plain(reply.content) or _plain(reply.reasoning)
    for name, text in reply.tool_calls:
        notes: list[str] = []
        arguments = load_object(text) if text.strip() else {}
        if arguments is None:
            found = find_objects(without_thought(text)[0])
            if len(found.objects) != 1 or found.open_end:
                raise Malformed(f"{shown(name)}: the arguments are no JSON object")
            arguments = found.objects[0]
            notes.append("took away what stood around the arguments")
        readings.append(_understand(arguments, tools, notes, name=name, said=said))
    return _one(readings)


def _from_reasoning(reasoning: str, tools: Sequence[type[Tool]]) -> Reading:
    whole = load_object(without_thought(reasoning)[0])
    if whole is None:
        raise Malformed("there is no answer, only a thought in the reasoning field")
    return _understand(whole, tools, ["the answer stood in the reasoning field"])


def _from_text(content: str, reasoning: str | None, tools: Sequence[type[Tool]], mode: Mode) -> Reading:
    whole = load_object(content)
    if whole is not None:
        return _understand(whole, tools, [], said=_plain(reasoning))
    answer, thought, open_thought = without_thought(content)
    found = find_objects(answer)
    if found.open_end:
        raise Malformed("a JSON object starts and never ends")
    if not found.objects:
        if open_thought or (thought is not None and not answer):
            raise Malformed("there is a thought and no answer after it")
        if mode != "text":
            raise NotEnforced(
                f"the server was to answer by {mode} and answered with prose: {shown(answer)}",
                hint="`sagehand vlm probe` finds out what this server honours",
            )
        raise Malformed("there is no JSON object in the reply")
    notes = ["took away the thought before the answer"] if thought is not None else []
    if found.fenced or found.around:
        notes.append("took away the text around the answer" if found.around else "took away a code fence")
    readings: list[Reading] = []
    errors: list[Malformed] = []
    for candidate in found.objects:
        try:
            readings.append(_understand(candidate, tools, list(notes), said=thought or _plain(reasoning)))
        except Malformed as error:
            errors.append(error)
    if not readings:
        raise errors[-1]
    return _one(readings)


def _one(readings: Sequence[Reading]) -> Reading:
    first = readings[0]
    other = next((r for r in readings if r.tool != first.tool), None)
    if other:
        one, two = type(first.tool).__name__, type(other.tool).__name__
        raise Malformed(f"two different calls in one reply ({one} and {two}); exactly one is needed")
    if len(readings) == 1:
        return first
    return Reading(first.tool, first.reasoning, (*first.repairs, f"the same call came {len(readings)} times"))


def _understand(
    given: Mapping[str, Any],
    tools: Sequence[type[Tool]],
    notes: list[str],
    *,
    name: str | None = None,
    said: str | None = None,
) -> Reading:
    """One call from one object, in whichever of the usual wrappings it came."""
    peeled = _Peeled(given, tools, name)
    tool = peeled.tool()
    if peeled.shape:
        notes.append(peeled.shape)
    call = fit_tool(tool, peeled.arguments, notes)
    refuse_near_misses(peeled.extra, [*RESERVED, *parameters(tool)], notes)
    reasoning = peeled.reasoning if isinstance(peeled.reasoning, str) else None
    if not reasoning:
        notes.append("the call came without its reasoning" if not said else "the reasoning stood beside the call")
    return Reading(call, clean_text(reasoning or said or ""), tuple(dict.fromkeys(notes)))


class _Peeled:
    """What is left of an object when its wrappings are taken away.

    Attributes:
        name: The tool's name, or None.
        arguments: Its arguments.
        reasoning: What stood under "reasoning".
        extra: Keys beside a wrapping, which nothing asked for.
        shape: The repair, in words, or "".
    """

    def __init__(self, given: Mapping[str, Any], tools: Sequence[type[Tool]], name: str | None) -> None:
        self._tools, self.name, self.shape = tools, name, ""
        self._known = {tool.__name__ for tool in tools}
        self.reasoning: Any = None
        self.extra: list[str] = []
        asked_for = name is not None or "call" in given
        rest: dict[str, Any] = dict(given)
        for _ in range(4):
            if "reasoning" in rest:
                self.reasoning = rest.pop("reasoning")
            inner = self._inner(rest)
            if inner is None:
                break
            rest = inner
        else:
            raise Malformed("the call is wrapped too often")
        self._take_name(rest, "tool")
        if isinstance(rest.get("call"), str) and rest["call"] in self._known:
            self._take_name(rest, "call")
        self.arguments = rest
        if not self.shape and not asked_for:
            self.shape = "the call came in another form than was asked for"

    def _inner(self, rest: dict[str, Any]) -> dict[str, Any] | None:
        if "tool" not in rest:
            inner = self._held(rest)
            if inner is not None:
                return inner
        for key in _ARGUMENTS:
            if key in rest and self._wraps(rest, key):
                return self._named_arguments(rest, key)
        if len(rest) == 1:
            (key, value), *_ = rest.items()
            if key in self._known and isinstance(value, Mapping):
                self._reshape(True)
                self._set_name(key)
                return dict(value)
        return None

    def _held(self, rest: dict[str, Any]) -> dict[str, Any] | None:
        for key in _HOLDERS:
            if isinstance(rest.get(key), Mapping):
                self.extra += [k for k in rest if k not in (key, "type", "id")]
                self._reshape(key != "call")
                return dict(rest[key])
        calls = rest.get("tool_calls")
        if isinstance(calls, list) and calls and isinstance(calls[0], Mapping):
            if any(call != calls[0] for call in calls):
                raise Malformed(f"{len(calls)} different calls in one reply; exactly one is needed")
            self._reshape(True)
            return dict(calls[0])
        return None

    def _wraps(self, rest: Mapping[str, Any], key: str) -> bool:
        """Whether ``key`` holds the arguments of a named tool, and is no argument of that tool itself."""
        name = next((rest[n] for n in _NAMES if isinstance(rest.get(n), str)), None)
        if name in self._known:
            return key not in parameters(tool_named(name, self._tools))
        return name is not None and set(rest) <= {*_NAMES, key, "type", "id"}

    def _named_arguments(self, rest: dict[str, Any], key: str) -> dict[str, Any]:
        inner = load_object(rest[key]) if isinstance(rest[key], str) else rest[key]
        if not isinstance(inner, Mapping):
            raise Malformed(f"the {key} {shown(rest[key])} are no object")
        for name in _NAMES:
            self._take_name(rest, name)
        self.extra += [k for k in rest if k not in (key, "type", "id")]
        self._reshape(True)
        return dict(inner)

    def _reshape(self, changed: bool) -> None:
        if changed:
            self.shape = "the call came in another form than was asked for"

    def _take_name(self, rest: dict[str, Any], key: str) -> None:
        if key in rest:
            self._set_name(rest.pop(key))

    def _set_name(self, name: Any) -> None:
        if not isinstance(name, str) or (self.name is not None and name != self.name):
            raise Malformed(f"the tool is named twice, or not by a text: {shown(name)}")
        self.name = name

    def tool(self) -> type[Tool]:
        """The tool that is meant.

        Raises:
            Malformed: There is none of that name, or no name and more than one that fits.
        """
        if self.name is not None:
            try:
                return tool_named(self.name, self._tools)
            except UnknownName as error:
                raise Malformed(str(error)[:500]) from error
        inner = self.arguments.get("name")
        if isinstance(inner, str) and inner in self._known and "name" not in parameters(tool_named(inner, self._tools)):
            del self.arguments["name"]
            return tool_named(inner, self._tools)
        keys = set(self.arguments)
        fitting = [tool for tool in self._tools if keys and keys == set(parameters(tool))]
        if len(self._tools) == 1:
            fitting = list(self._tools)
        if len(fitting) != 1:
            raise Malformed(f'no tool is named; name one of {", ".join(sorted(self._known))} under "tool"')
        self.shape = "the call came without the tool's name"
        return fitting[0]


def _plain(text: str | None) -> str | None:
    """Text beside a call that may stand for its reasoning: prose, not JSON and not blank."""
    if not text or not text.strip() or "{" in text:
        return None
    return without_thought(text)[0].strip() or None
