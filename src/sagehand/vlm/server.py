"""Any OpenAI-compatible server as a backend: OpenAI, vLLM, SGLang, Ollama, llama.cpp, LM Studio, Gemini.

One request goes out as it is told and one reply comes back as it is: retries, the ladder of modes and the reading of
replies are :class:`sagehand.vlm.ask.Vlm`'s. What can go wrong here becomes one of the tree's errors, in one line, and
never with the key in it.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sagehand.errors import (
    DeadlineExceeded,
    MissingExtra,
    RateLimited,
    Refused,
    ServerFault,
    SettingsError,
    Unreachable,
    VlmError,
)
from sagehand.vlm.base import RawReply, Request, Usage
from sagehand.vlm.profile import Profile, normal_url, profile_for

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAiBackend"]

_CONNECT_SECONDS = 10.0
_LONGEST_MESSAGE = 300  # characters of what a server says about an error
_REASONING = ("reasoning_content", "reasoning")
_BUSY = frozenset({429, 503, 529})
_TRY_AGAIN = frozenset({408, 409, 425})


class OpenAiBackend:
    """Chat completions of one model on one server. Use it from one event loop; the connection is made at the first call.

    Attributes:
        base_url: Of the server, without a slash at the end.
        model: The model's name there.
        profile: Which fields of a request's body this model takes.

    Args:
        base_url: As in ``http://127.0.0.1:8000/v1``.
        model: The model's name on the server.
        api_key: Sent as the bearer token; never shown.
        profile: By default the one that a probe saved for this model on this server, else the built-in one of its family.

    Raises:
        MissingExtra: ``openai`` is not installed.
        SettingsError: The address or the key cannot be used.
        InputError: The saved profile cannot be read.
    """

    def __init__(
        self, base_url: str, model: str, api_key: str | None = None, *, profile: Profile | None = None
    ) -> None:
        try:
            import openai  # noqa: F401  # only to say early that it is not there
        except ImportError:
            raise MissingExtra("a VLM server", "vlm") from None
        self.base_url = normal_url(base_url)
        self.model = model
        self.profile = profile or profile_for(self.base_url, model)
        self._key = _checked_key(api_key)
        self._client: AsyncOpenAI | None = None

    def __repr__(self) -> str:
        return f"OpenAiBackend({self.base_url!r}, {self.model!r})"

    async def complete(self, request: Request) -> RawReply:
        """Send a request and take the reply apart.

        Raises:
            Unreachable: No connection, or it broke.
            RateLimited: 429, 503 or 529, with what Retry-After said.
            Refused: Any other 4xx.
            ServerFault: 5xx, or a body that is no completion.
            DeadlineExceeded: ``request.timeout`` is up.
        """
        started = time.monotonic()
        body = await self._send("/chat/completions", self._body(request), request.timeout)
        return self._reply(body, time.monotonic() - started)

    async def models(self, *, timeout: float = 10.0) -> list[str]:
        """Names of the models that the server says it has; the errors are those of :meth:`complete`."""
        body = await self._send("/models", None, timeout)
        rows = body.get("data")
        if not isinstance(rows, list):
            raise ServerFault(f"{self.base_url}/models: the answer is no list of models")
        return [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(request.messages),
            self.profile.token_field: request.max_tokens,
        }
        if self.profile.greedy:
            body["temperature"] = request.temperature
        if request.mode == "json_schema":
            name = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(request.schema.get("title", "")))[:64] or "reply"
            if self.profile.constrained == "structured_outputs":
                body["structured_outputs"] = {"json": request.schema}
            else:
                body["response_format"] = {
                    "type": "json_schema",
                    "json_schema": {"name": name, "strict": True, "schema": request.schema},
                }
        elif request.mode == "tools":
            body |= {"tools": list(request.tools), "tool_choice": "required", "parallel_tool_calls": False}
        return {**body, **self.profile.body_options, **request.options}

    async def _send(self, path: str, body: Mapping[str, Any] | None, timeout: float) -> dict[str, Any]:
        """The JSON object that the server answers with; ``body`` None asks with GET."""
        if timeout <= 0:
            raise DeadlineExceeded(f"no time is left to ask {self.base_url}")
        import openai

        failure: VlmError
        try:
            async with asyncio.timeout(timeout):
                client = self._connected()
                if body is None:
                    return self._object((await client.models.with_raw_response.list(timeout=timeout)).content, path)
                # by the client's plain `post`: its typed `create` walks through all messages, pictures and all
                kind = openai.HttpxBinaryResponseContent
                raw = await client.post(path, body=body, cast_to=kind, options={"timeout": timeout})
                return self._object(raw.content, path)
        except TimeoutError:
            failure = self._late(timeout)
        except openai.APIStatusError as error:
            failure = self._status(error.status_code, error.body, error.response.headers)
        except openai.APITimeoutError as error:
            slow_connect = type(error.__cause__).__name__ == "ConnectTimeout"
            failure = self._away("it does not answer") if slow_connect else self._late(timeout)
        except openai.APIConnectionError as error:
            failure = self._away(str(error.__cause__ or error) or type(error.__cause__).__name__)
        except openai.OpenAIError as error:
            failure = ServerFault(f"{self.base_url}: {self._clean(str(error))}")
        # raised out here, so that no chain holds the library's error: servers echo keys in their messages
        raise failure

    def _connected(self) -> AsyncOpenAI:
        if self._client is None:
            from openai import AsyncOpenAI

            # the library insists on a key; servers without one ignore it
            self._client = AsyncOpenAI(base_url=self.base_url, api_key=self._key or "none", max_retries=0)
        return self._client

    def _object(self, data: bytes, path: str) -> dict[str, Any]:
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            raise ServerFault(f"{self.base_url}{path}: the body of the answer is no JSON") from None
        if not isinstance(body, dict):
            raise ServerFault(f"{self.base_url}{path}: the body of the answer is no JSON object")
        error = body.get("error")
        if error:  # some gateways answer 200 and put the error into the body
            code = error.get("code") if isinstance(error, dict) else None
            raise self._status(code if isinstance(code, int) and 400 <= code < 600 else 500, body, {})
        return body

    def _reply(self, body: Mapping[str, Any], seconds: float) -> RawReply:
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise ServerFault(f"{self.base_url}: the answer holds no choices[0].message")
        refusal = _text(message.get("refusal"))
        if refusal:
            raise Refused(f"the model declines to answer: {self._clean(refusal)}")
        finish = choice.get("finish_reason")
        if finish == "content_filter":
            raise Refused("the server's content filter held the answer back")
        reasoning = next((text for name in _REASONING if (text := _text(message.get(name)))), None)
        return RawReply(
            content=_text(message.get("content")),
            reasoning=reasoning,
            tool_calls=tuple(_calls(message.get("tool_calls"))),
            finish_reason=finish if isinstance(finish, str) else None,
            usage=_usage(body.get("usage")),
            seconds=seconds,
        )

    def _status(self, status: int, body: object, headers: Mapping[str, str]) -> VlmError:
        said = self._clean(_message(body))
        told = f"{self.base_url} answered {status}" + (f": {said}" if said else "")
        if status in _BUSY and "insufficient_quota" not in json.dumps(body, default=str):
            return RateLimited(told, retry_after=_retry_after(headers))
        if status >= 500 or status in _TRY_AGAIN:
            return ServerFault(told)
        hints = {
            401: "set OPENAI_API_KEY to a key that this server takes",
            403: "the key may not use this model",
            404: f"is the model's name {self.model!r} right, and does the base URL end in /v1?",
            413: "send fewer or smaller pictures",
            429: "the credit of this key is used up",
        }
        return Refused(told, status=status, hint=hints.get(status, ""))

    def _late(self, timeout: float) -> DeadlineExceeded:
        return DeadlineExceeded(f"{self.base_url}: no answer within {timeout:.3g} s")

    def _away(self, why: str) -> Unreachable:
        return Unreachable(
            f"no connection to {self.base_url}: {self._clean(why)}",
            hint="is the server running, and the address right?",
        )

    def _clean(self, text: str) -> str:
        """One line, not too long, without the key."""
        if self._key:
            text = text.replace(self._key, "[key]")
        text = re.sub(r"\b(?:sk|pk|key)[-_][\w*.-]{8,}|\bBearer\s+\S+", "[key]", " ".join(text.split()))
        return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"


def _checked_key(key: str | None) -> str | None:
    key = key.strip() if key else None
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise SettingsError("the API key holds characters that cannot be sent", hint="set OPENAI_API_KEY anew")
    return key or None


def _text(value: object) -> str | None:
    """Text of a field; some servers send a list of text parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [p["text"] for p in value if isinstance(p, dict) and isinstance(p.get("text"), str)]
        return "".join(parts) or None
    return None


def _calls(value: object) -> list[tuple[str, str]]:
    """(name, arguments as text) of each native call; some servers send the arguments as an object."""
    found = []
    for call in value if isinstance(value, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            arguments = function.get("arguments")
            found.append((function["name"], arguments if isinstance(arguments, str) else json.dumps(arguments or {})))
    return found


def _usage(value: object) -> Usage:
    counts = value if isinstance(value, dict) else {}

    def count(name: str) -> int:
        number = counts.get(name)
        return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 0

    return Usage(prompt=count("prompt_tokens"), completion=count("completion_tokens"), calls=1)


def _message(body: object) -> str:
    """What the server says of an error: in ``error.message``, ``message`` or ``detail``, or as plain text."""
    while isinstance(body, dict):
        body = next((body[k] for k in ("error", "message", "detail") if body.get(k)), "")
    if isinstance(body, list):
        return json.dumps(body)
    return body if isinstance(body, str) else ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from ``retry-after-ms`` or Retry-After (seconds or a date); None where it is not said."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        try:
            seconds = float(value) / unit if value else math.nan
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        when = email.utils.parsedate_to_datetime(headers.get("retry-after") or "")
    except ValueError:
        return None
    return max(0.0, when.timestamp() - time.time())
