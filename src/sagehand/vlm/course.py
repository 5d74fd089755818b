"""The course of one question: ask, read, and ask again in another way, until there is a valid call or a typed error.

What changes between two requests, and why (FIELD_REPORTS 1):

* cut off at the limit: the limit is doubled, once, and a second cut ends it; nothing is said about it (S21);
* ran on in blanks or repetitions: once with changed sampling, which the answer records (S22, S23), then another rung;
* prose in place of a call: the next rung (S01, S06);
* no valid call: the error is told in a further message, without the broken text; the second time also the next rung;
* refused: a reduced schema, then the next rung (S10–S12); fewer pictures, when it is about pictures or length (S20, I10);
* server fault, broken connection: the same, after a pause (S11); asked to wait: the pause that was asked for.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter

from sagehand.errors import (
    DeadlineExceeded,
    Malformed,
    NotEnforced,
    RateLimited,
    Refused,
    ServerFault,
    Truncated,
    Unreachable,
    VlmError,
)
from sagehand.vlm.base import Mode, RawReply, Request, ToolCall, Usage
from sagehand.vlm.budget import Budget
from sagehand.vlm.desk import Desk
from sagehand.vlm.ladder import Blame
from sagehand.vlm.prompt import Prompt, render
from sagehand.vlm.refusal import why_refused
from sagehand.vlm.reply import Reading, ran_in_circles, read_reply
from sagehand.vlm.tools import function_tools, wire_schema

__all__ = ["CHANGED_TEMPERATURE", "Course"]

CHANGED_TEMPERATURE = 0.7
"""Temperature of the one request after a reply that ran in circles; every other one is greedy."""

_BACK_OFF = (0.25, 8.0)  # [s]: the first pause, and the longest
_MOST_REFUSALS = 12
_HOLD = 1.0  # [s]: a pause as long as this is meant for the whole client


class Course:
    """One question on its way to an answer.

    Args:
        desk: What all questions share.
        prompt: The question, rendered.
        budget: Of the decision that it belongs to.

    Attributes:
        greedy: Whether no request was made with changed sampling.
    """

    def __init__(self, desk: Desk, prompt: Prompt, budget: Budget) -> None:
        self.desk, self.prompt, self.budget = desk, prompt, budget
        self._started = time.monotonic()
        self._rungs = list(desk.ladder.start())
        self._loose = desk.ladder.is_loose(self._rungs[0])
        self._cap = prompt.question.max_tokens
        self._doubled = False
        self.greedy = True
        self._told: list[str] = []
        self._temperature = 0.0
        self._failed: dict[Mode, Blame] = {}
        self._full_failed: Blame | None = None  # of the full schema on this rung
        self._notes: list[str] = []
        self._seen: Counter[str] = Counter()
        self._on_rung = 0
        self._requests = self._tries = self._refusals = 0
        self._usage = Usage()

    @property
    def mode(self) -> Mode:
        """The rung of the next request."""
        return self._rungs[0]

    async def run(self) -> ToolCall:
        """Ask until there is an answer.

        Raises:
            VlmError: There is none; ``attempts`` says how many requests were sent.
        """
        remaining = self.budget.remaining_seconds()
        try:
            async with asyncio.timeout(remaining if math.isfinite(remaining) else None):
                return await self._ask()
        except TimeoutError:
            self._count("deadline")
            late = DeadlineExceeded(
                f"{self.prompt.question.name}: the time of the decision is up after {self._requests} request(s)",
                hint="allow more seconds",
            )
            late.attempts = self._requests
            raise late from None
        except VlmError as error:
            error.attempts = self._requests
            raise

    async def _ask(self) -> ToolCall:
        while True:
            reply: RawReply | None = None
            try:
                reply = await self._send()
                reading = read_reply(reply, self.prompt.question.tools, self.mode)
            except VlmError as error:
                self._count(_KIND.get(type(error), "error"))
                await self._change(error, reply)
                continue
            return self._answer(reading)

    async def _send(self) -> RawReply:
        await self._held()
        async with self.desk.slots:
            self.budget.take_call()
            seconds = min(self.desk.call_seconds, self.budget.remaining_seconds())
            request = self._request(seconds)
            self._requests += 1
            self._spend(Usage(calls=1), counted=True)
            try:
                async with asyncio.timeout(seconds):
                    reply = await self.desk.backend.complete(request)
            except TimeoutError:
                raise DeadlineExceeded(f"no answer within {seconds:.3g} s", hint="is the server overloaded?") from None
        used = reply.usage
        self._spend(Usage(used.prompt or self.prompt.tokens, used.completion or len(reply.content or "") // 4))
        return reply

    async def _held(self) -> None:
        while (wait := self.desk.not_before - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(wait)

    def _request(self, seconds: float) -> Request:
        tools = self.prompt.question.tools
        return Request(
            messages=self.prompt.messages(self.mode, self._told, merged=self.desk.merged),
            mode=self.mode,
            schema=wire_schema(tools, loose=True) if self._loose else self.prompt.schema,
            tools=function_tools(tools, loose=self._loose),
            max_tokens=self._cap,
            timeout=seconds,
            temperature=self._temperature,
            options=self.desk.profile.body_options,
        )

    def _spend(self, usage: Usage, *, counted: bool = False) -> None:
        self._usage += usage
        self.desk.usage += usage
        if not counted:
            self.budget.spend(usage)

    def _count(self, event: str) -> None:
        self._seen[event] += 1
        self.desk.events[event] += 1

    def _answer(self, reading: Reading) -> ToolCall:
        self.desk.ladder.answered(self.mode, failed=self._failed, loose=self._loose, full_failed=self._full_failed)
        repairs = (*reading.repairs, *self._notes, *self.prompt.notes)
        self.desk.events["answered"] += 1
        if reading.repairs:
            self.desk.events["repaired"] += 1
        return ToolCall(
            tool=reading.tool,
            reasoning=reading.reasoning,
            repairs=repairs,
            attempts=self._requests,
            mode=self.mode,
            usage=self._usage,
            seconds=time.monotonic() - self._started,
        )

    async def _change(self, error: VlmError, reply: RawReply | None) -> None:
        """Decide how to ask again.

        Raises:
            VlmError: The error itself, when asking again is of no use.
        """
        if isinstance(error, Refused):
            self._refusals += 1
            if self._refusals > _MOST_REFUSALS or not await self._make_acceptable(error):
                raise error
            return
        self._tries += 1
        self._temperature = 0.0
        if self._tries >= self.desk.attempts or self.budget.remaining_seconds() <= 0:
            raise error
        match error:
            case Truncated() | Malformed() if reply is not None and (circles := ran_in_circles(reply)):
                self._break_circle(circles)
            case Truncated() if self._doubled:
                raise error
            case Truncated():
                self._doubled = True
                self._cap = 2 * self.prompt.question.max_tokens
            case NotEnforced():
                if not self._step("ignored"):
                    self._told.append("it held no call, only prose")
            case Malformed():
                self._told.append(error.message)
                self._on_rung += 1
                if self._on_rung > 1:
                    self._step(None)
            case RateLimited():
                await self._pause(error, error.retry_after)
            case ServerFault() | Unreachable():
                if not self._loosen("fault"):
                    self._step("fault")
                await self._pause(error, None)
            case DeadlineExceeded():
                pass  # of this request; the decision has time left
            case _:
                raise error

    def _break_circle(self, circles: str) -> None:
        self._count(circles)
        if self._seen[circles] == 1:
            self._temperature, self.greedy = CHANGED_TEMPERATURE, False
            self._notes.append(f"not greedy: asked again at temperature {CHANGED_TEMPERATURE} after {circles}")
        else:
            self._step(None)

    def _loosen(self, why: Blame) -> bool:
        """Reduce the schema, once for each question."""
        if self._loose or self.mode == "text":
            return False
        self._loose, self._full_failed = True, why
        return True

    def _step(self, why: Blame | None) -> bool:
        """Go down a rung; ``why`` is remembered against the one that is left, if a lower one then answers."""
        if len(self._rungs) < 2:
            return False
        if why:
            self._failed[self.mode] = why
        del self._rungs[0]
        self._loose = self._loose or self.desk.ladder.is_loose(self.mode)
        self._on_rung, self._full_failed = 0, None
        return True

    async def _make_acceptable(self, error: Refused) -> bool:
        """Change what was refused; False when nothing is left to change."""
        refusal = why_refused(error)
        match refusal.kind:
            case "final":
                return False
            case "length" if self._cap > self.prompt.question.max_tokens:
                self._cap = self.prompt.question.max_tokens  # it was doubled, and the model has no room for that
                return True
            case "length":
                return await self._rendered(drop_all=True)
            case "pictures":
                return await self._fewer_pictures(refusal.limit)
            case "roles" if not self.desk.merged:
                self.desk.merged = True
                return True
        if self._loosen("refused"):
            return True
        return self.mode != "text" and self._step("refused")

    async def _fewer_pictures(self, said: int | None) -> bool:
        shown = len(self.prompt.pictures)
        limit = shown - 1 if said is None else said
        if not 0 < limit < shown:
            return False
        self.desk.max_images = min(limit, self.desk.max_images)
        self._count("fewer pictures")
        return await self._rendered(drop_all=False)

    async def _rendered(self, *, drop_all: bool) -> bool:
        before = len(self.prompt.pictures)
        self.prompt = await asyncio.to_thread(
            render, self.prompt.question, self.desk.shelf, max_images=self.desk.max_images, drop_all=drop_all
        )
        return len(self.prompt.pictures) < before

    async def _pause(self, error: VlmError, asked: float | None) -> None:
        first, longest = _BACK_OFF
        back_off = min(longest, first * 2 ** (self._tries - 1)) * self.desk.chance.uniform(0.5, 1.0)
        seconds = back_off if asked is None else asked + 0.1 * back_off
        if seconds > min(self.desk.call_seconds, self.budget.remaining_seconds()):
            raise error  # waiting would only end at the deadline
        if asked is not None and asked >= _HOLD:
            self.desk.not_before = max(self.desk.not_before, asyncio.get_running_loop().time() + asked)
        await asyncio.sleep(seconds)


_KIND: dict[type[VlmError], str] = {
    Truncated: "truncated",
    NotEnforced: "not enforced",
    Malformed: "malformed",
    Refused: "refused",
    RateLimited: "rate limited",
    ServerFault: "server fault",
    Unreachable: "unreachable",
    DeadlineExceeded: "deadline",
}
