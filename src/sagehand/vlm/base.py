"""What goes to a vision-language model and what comes back, whichever server or library stands behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sagehand.vlm.tools import Tool

__all__ = ["ImagePart", "Mode", "Question", "RawReply", "Request", "ToolCall", "Usage", "VlmBackend"]

Mode = Literal["json_schema", "tools", "text"]
"""The rungs of the ladder: a schema that constrains the reply, native tool calls, JSON asked for in the prompt."""


@dataclass(frozen=True, eq=False)
class ImagePart:
    """A picture in a prompt.

    Attributes:
        pixels: (H, W, 3) RGB.
        pixel_id: Its identity (``Picture.pixel_id``), for the cache key.
        label: What the prompt calls it, as in "query picture".
        droppable: Whether it may be left out when a server takes fewer pictures; the last of these go first.
    """

    pixels: NDArray[np.uint8]
    pixel_id: str
    label: str
    droppable: bool = False


@dataclass(frozen=True, eq=False)
class Question:
    """One question: what is said and shown, and the tools that may answer.

    Attributes:
        name: For logs and budgets, as in "GradeImage".
        system: The system prompt.
        parts: Text and pictures, in order; what many questions share comes first, so that servers reuse their prefix.
        tools: The tools of this step, and no others.
        max_tokens: Cap of the reply [tokens].
    """

    name: str
    system: str
    parts: Sequence[str | ImagePart]
    tools: Sequence[type[Tool]]
    max_tokens: int = 512


@dataclass(frozen=True)
class Usage:
    """Tokens of one or many calls.

    Attributes:
        prompt: Prompt tokens, as the server counts them; an estimate where it does not.
        completion: Reply tokens.
        calls: Requests that were sent.
    """

    prompt: int = 0
    completion: int = 0
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion, self.calls + other.calls)


@dataclass(frozen=True, eq=False)
class Request:
    """What a backend is asked to send.

    Attributes:
        messages: In the form of OpenAI's chat completions; pictures as data URLs.
        mode: How the reply is to be constrained.
        schema: The wire schema of the reply ({"reasoning", "call"}).
        tools: The same as native function tools; used in mode "tools".
        max_tokens: Cap of the reply [tokens].
        timeout: Seconds that this request may take.
        temperature: 0 is greedy.
        options: Further fields of the body, from the server's profile (``chat_template_kwargs``, …).
    """

    messages: Sequence[Mapping[str, Any]]
    mode: Mode
    schema: Mapping[str, Any]
    tools: Sequence[Mapping[str, Any]]
    max_tokens: int
    timeout: float
    temperature: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RawReply:
    """What came back, before anything is believed.

    Attributes:
        content: The text, or None.
        reasoning: What stood in a reasoning field, or None.
        tool_calls: (name, arguments as text) of each native call, in order.
        finish_reason: "stop", "tool_calls", "length", …, or None.
        usage: Tokens.
        seconds: From sending to the last byte.
    """

    content: str | None
    reasoning: str | None = None
    tool_calls: tuple[tuple[str, str], ...] = ()
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0


@dataclass(frozen=True)
class ToolCall:
    """A valid answer: the tool and its arguments, checked by us whatever the server promised.

    Attributes:
        tool: The call, an instance of one of the question's tools.
        reasoning: What was said before the verdict.
        repairs: What was repaired because its meaning was certain, as in "3 written as text".
        attempts: Requests that it took, the last one included.
        mode: The rung that answered.
        usage: Tokens of all attempts.
        seconds: Of all attempts, waiting included.
        cached: Whether it came from the cache; then nothing was sent.
    """

    tool: Tool
    reasoning: str
    repairs: tuple[str, ...] = ()
    attempts: int = 1
    mode: Mode = "json_schema"
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    cached: bool = False


class VlmBackend(Protocol):
    """Sends one request to one model. Implementations: server (OpenAI-compatible), local (in process), scripted (double)."""

    @property
    def model(self) -> str:
        """The model's id, as it is written into results and cache keys."""
        ...

    async def complete(self, request: Request) -> RawReply:
        """Send a request.

        Raises:
            VlmError: Unreachable, RateLimited, Refused, ServerFault, DeadlineExceeded: typed, with ``retryable``.
        """
        ...

    async def close(self) -> None:
        """Let go of connections or weights."""
        ...
