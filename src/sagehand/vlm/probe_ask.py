"""The single questions of a probe: asked again where the server hiccups, and put in words."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import RateLimited, Refused, Truncated, VlmError
from sagehand.vlm.base import Mode, RawReply, Request, Usage, VlmBackend
from sagehand.vlm.images import encode
from sagehand.vlm.profile import Profile
from sagehand.vlm.text import find_objects, without_thought

__all__ = [
    "Asker",
    "Outcome",
    "Trial",
    "asked_in_text",
    "code_schema",
    "corners_schema",
    "list_schema",
    "picture_part",
    "reply_object",
]

_ATTEMPTS = 4  # at a question that fails in a way that may pass
_WIDER = (1, 4, 16)  # times the cap, after a reply that was cut off: a thinking model thinks first
_PAUSE = 0.25  # before a question is asked again, and twice that the next time [s]
_MOST_AT_ONCE = 4


@dataclass(frozen=True)
class Trial:
    """What came of one question.

    Attributes:
        reply: What came back, or None.
        error: Why nothing did, or None.
    """

    reply: RawReply | None
    error: VlmError | None = None

    @property
    def thinks(self) -> bool:
        """Whether the model thought aloud, in a field of its own or in the text."""
        return self.reply is not None and bool(self.reply.reasoning or re.search("</?think", self.reply.content or ""))

    @property
    def cut_off(self) -> bool:
        """Whether more room would help: a thought or a call that did not end. Prose that runs on says enough."""
        if self.reply is None or self.reply.finish_reason != "length":
            return False
        return (
            self.thinks or bool(self.reply.tool_calls) or bool(re.search(r"^\s*[{`]|<tool", self.reply.content or ""))
        )

    @property
    def why(self) -> str:
        """Why there is no reply, in the server's words without its address; or ""."""
        if self.error is None:
            return ""
        before, _, after = self.error.message.partition(" answered ")
        words = after if after and before.startswith("http") else self.error.message
        return f"refused: {words}" if isinstance(self.error, Refused) else f"no answer: {words}"


@dataclass(frozen=True)
class Outcome:
    """How several trials of the same question came out.

    Attributes:
        held: Trials whose reply kept to the constraint.
        answered: Trials with a reply.
        asked: All trials.
        failure: Why there was no reply, where there was none, or "".
    """

    held: int
    answered: int
    asked: int
    failure: str = ""

    @property
    def honoured(self) -> bool:
        """Whether most trials kept to the constraint; one that went astray may be a hiccup."""
        return 2 * self.held > self.asked

    @property
    def words(self) -> str:
        """As the report says it."""
        if self.honoured:
            return f"kept to it in {self.held} of {self.asked} replies"
        if self.failure and not self.answered:
            return self.failure
        return f"taken and not kept to: {self.held} of {self.asked} replies fit"


class Asker:
    """Asks a backend, counts what it costs, and holds the fields that every further request carries.

    Attributes:
        options: Fields of the body of every request.
        usage: Of all requests so far.
    """

    def __init__(self, backend: VlmBackend, seconds: float) -> None:
        self._backend, self._seconds = backend, seconds
        self._gate = asyncio.Semaphore(_MOST_AT_ONCE)
        self.options: dict[str, Any] = {}
        self.usage = Usage()

    async def ask(
        self,
        parts: Sequence[Mapping[str, Any]],
        *,
        mode: Mode = "text",
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 64,
        **options: Any,
    ) -> Trial:
        """Ask once; what may pass is tried again, and a thought or call that was cut off gets more room."""
        schema = schema or {}
        tool = {"name": "reply", "description": "The reply.", "parameters": schema, "strict": True}
        request = Request(
            messages=[{"role": "user", "content": list(parts)}],
            mode=mode,
            schema=schema,
            tools=[{"type": "function", "function": tool}] if mode == "tools" else [],
            max_tokens=max_tokens,
            timeout=self._seconds,
            options={**self.options, **options},
        )
        trial = Trial(None)
        for wider in _WIDER:
            async with self._gate:
                trial = await self._patiently(replace(request, max_tokens=max_tokens * wider))
            if not trial.cut_off:
                return trial
        return Trial(None, Truncated(f"the reply did not end within {max_tokens * _WIDER[-1]} tokens"))

    async def many(self, trials: int, parts: Sequence[Mapping[str, Any]], **asked: Any) -> list[Trial]:
        """Ask the same thing several times; a number in the text keeps the questions apart."""
        numbered = [[*parts, {"type": "text", "text": f"({n + 1})"}] for n in range(trials)]
        return list(await asyncio.gather(*(self.ask(p, **asked) for p in numbered)))

    async def _patiently(self, request: Request) -> Trial:
        for attempt in range(_ATTEMPTS):
            started = time.monotonic()
            try:
                reply = await self._backend.complete(request)
            except VlmError as error:
                self.usage += Usage(calls=1)
                if not error.retryable or attempt == _ATTEMPTS - 1:
                    return Trial(None, error)
                wait = error.retry_after if isinstance(error, RateLimited) else None
                pause = _PAUSE * 2**attempt if wait is None else wait
                await asyncio.sleep(min(pause, max(0.0, self._seconds - (time.monotonic() - started))))
                continue
            self.usage += reply.usage
            return Trial(reply)
        raise AssertionError("the last attempt returns")


def reply_object(trial: Trial) -> dict[str, Any] | None:
    """The one JSON object of a reply, wherever the server put it, or None."""
    reply = trial.reply
    if reply is None:
        return None
    texts = [arguments for _, arguments in reply.tool_calls[:1]] or [reply.content or "", reply.reasoning or ""]
    for text in texts:
        found = find_objects(without_thought(text)[0]).objects
        if found:
            return found[0]
    return None


def picture_part(pixels: NDArray[np.uint8], profile: Profile, *, as_is: bool = False) -> dict[str, Any]:
    """A picture as a part of a message; ``as_is`` sends its very pixels, for the box self-test."""
    if not as_is:
        return {"type": "image_url", "image_url": {"url": encode(pixels, profile).data_url}}
    import base64
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"},
    }


def code_schema(code: str) -> dict[str, Any]:
    """An object that can only hold a code word that the prompt does not tell."""
    return _object({"code": {"type": "string", "enum": [code]}})


def corners_schema() -> dict[str, Any]:
    """Named corners, wide enough for the numbers of every convention."""
    number = {"type": "number", "minimum": 0, "maximum": 10_000}
    return _object(dict.fromkeys(("x1", "y1", "x2", "y2"), number))


def list_schema() -> dict[str, Any]:
    """A bare list of numbers, to see in which order the model gives them."""
    return _object({"box_2d": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 10_000}}})


def asked_in_text(question: str, schema: Mapping[str, Any]) -> str:
    """A question with the form of its answer, for servers that constrain nothing."""
    return f"{question}\nAnswer with one JSON object, compact, that fits this JSON schema:\n{json.dumps(schema)}"


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
