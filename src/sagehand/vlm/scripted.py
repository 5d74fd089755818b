"""A public test double: a backend that answers from a script. Nothing is sent anywhere."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sagehand.errors import VlmError
from sagehand.vlm.base import RawReply, Request, Usage
from sagehand.vlm.tools import Tool

__all__ = ["Reply", "ScriptedBackend", "offered", "prompt_text"]

Reply = RawReply | Tool | str | Mapping[str, Any] | VlmError
"""What a script may hold: a raw reply, a call (written as the mode asks), text, an object (sent as JSON), an error."""


def offered(request: Request) -> tuple[str, ...]:
    """Names of the tools that a request offers, in order; for scripts that are functions."""
    return tuple(tool["function"]["name"] for tool in request.tools)


def prompt_text(request: Request) -> str:
    """All text of a request's messages, in order."""
    texts = []
    for message in request.messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts += [part["text"] for part in parts if part["type"] == "text"]
    return "\n".join(texts)


class ScriptedBackend:
    """Answers requests from a list, in order, or from a function of the request (which may be a coroutine function).

    Args:
        replies: The script.
        model: The model's id.
        seconds: How long each answer takes [s].

    Attributes:
        model: The model's id.
        requests: What was asked so far.
        most_at_once: Requests that were in flight together, at most.
        closed: Whether :meth:`close` was called.
    """

    def __init__(
        self,
        replies: Sequence[Reply] | Callable[[Request], Reply | Awaitable[Reply]],
        *,
        model: str = "scripted",
        seconds: float = 0.0,
    ) -> None:
        self._replies = replies if callable(replies) else list(replies)
        self._seconds = seconds
        self._busy = 0
        self.model = model
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.closed = False

    async def complete(self, request: Request) -> RawReply:
        """The script's next answer.

        Raises:
            VlmError: The script's next entry is that error, or it has none left.
        """
        self.requests.append(request)
        self._busy += 1
        self.most_at_once = max(self.most_at_once, self._busy)
        try:
            if self._seconds:
                await asyncio.sleep(self._seconds)
            return self._raw(await self._next(request), request)
        finally:
            self._busy -= 1

    async def _next(self, request: Request) -> Reply:
        if not callable(self._replies):
            if not self._replies:
                raise VlmError(f"the script has no answer left for {', '.join(offered(request))}")
            return self._replies.pop(0)
        reply = self._replies(request)
        return await reply if inspect.isawaitable(reply) else reply

    @staticmethod
    def _raw(reply: Reply, request: Request) -> RawReply:
        if isinstance(reply, VlmError):
            raise reply
        if isinstance(reply, RawReply):
            return reply
        calls: tuple[tuple[str, str], ...] = ()
        if isinstance(reply, Tool):
            arguments, name = reply.model_dump(mode="json"), type(reply).__name__
            if request.mode == "tools":
                calls = ((name, json.dumps({"reasoning": "as scripted", **arguments})),)
            reply = {"reasoning": "as scripted", "call": {"tool": name, **arguments}}
        text = reply if isinstance(reply, str) else json.dumps(reply)
        usage = Usage(prompt=len(prompt_text(request)) // 4, completion=len(text) // 4, calls=1)
        if calls:
            return RawReply(None, tool_calls=calls, finish_reason="tool_calls", usage=usage)
        return RawReply(text, finish_reason="stop", usage=usage)

    async def close(self) -> None:
        """Nothing is held; the call is only noted."""
        self.closed = True
