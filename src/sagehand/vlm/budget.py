"""What one decision may cost: seconds, requests, tokens. Shared by every question of the decision, from any thread."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from sagehand.errors import DeadlineExceeded, OutOfBudget
from sagehand.vlm.base import Usage

__all__ = ["Budget", "price"]


class Budget:
    """Limits of one decision, counted from where it is made.

    Calls never pass their limit. Tokens are known only once a reply is there: no request starts when the limit is
    reached, and what is in flight then may pass it.

    Args:
        seconds: Until the deadline [s]; None for none.
        calls: Requests that may be sent, refused ones included; None for any number.
        tokens: Prompt and reply tokens together; None for any number.
        clock: Monotonic seconds, for tests.
    """

    def __init__(
        self,
        seconds: float | None = None,
        calls: int | None = None,
        tokens: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds, self.calls, self.tokens = seconds, calls, tokens
        self._clock, self._started = clock, clock()
        self._lock = threading.Lock()
        self._spent = Usage()
        self._cancelled = False
        self._in_flight: set[Callable[[], object]] = set()

    @property
    def spent(self) -> Usage:
        """What was spent so far."""
        with self._lock:
            return self._spent

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since it was made."""
        return self._clock() - self._started

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._cancelled

    def remaining_seconds(self) -> float:
        """Seconds until the deadline, not below 0; infinity without one."""
        if self._cancelled:
            return 0.0
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed_seconds)

    def check(self) -> None:
        """Refuse when nothing more may be asked.

        Raises:
            DeadlineExceeded: The time is up, or the decision was cancelled.
            OutOfBudget: No call or token is left.
        """
        with self._lock:
            self._check()

    def _check(self) -> None:
        if self._cancelled:
            raise DeadlineExceeded("the decision was cancelled")
        if self.remaining_seconds() <= 0:
            raise DeadlineExceeded(f"the {self.seconds:g} s of this decision are up", hint="allow more seconds")
        if self.calls is not None and self._spent.calls >= self.calls:
            raise OutOfBudget(f"all {self.calls} calls of this decision are spent", hint="allow more calls")
        total = self._spent.prompt + self._spent.completion
        if self.tokens is not None and total >= self.tokens:
            raise OutOfBudget(f"{total} of {self.tokens} tokens of this decision are spent", hint="allow more tokens")

    def take_call(self) -> None:
        """Count a request that is about to be sent; the errors are those of :meth:`check`."""
        with self._lock:
            self._check()
            self._spent += Usage(calls=1)

    def spend(self, usage: Usage) -> None:
        """Count what was used; for a request that :meth:`take_call` counted, its ``calls`` are to be 0."""
        with self._lock:
            self._spent += usage

    def cancel(self) -> None:
        """End the decision now: what is in flight for it is cancelled, and nothing more is sent. From any thread."""
        with self._lock:
            self._cancelled = True
            in_flight = list(self._in_flight)
        for stop in in_flight:
            stop()

    def watch(self, stop: Callable[[], object]) -> None:
        """Call ``stop`` if the decision is cancelled; at once if it was. :meth:`unwatch` ends it."""
        with self._lock:
            self._in_flight.add(stop)
            cancelled = self._cancelled
        if cancelled:
            stop()

    def unwatch(self, stop: Callable[[], object]) -> None:
        """No longer call ``stop``."""
        with self._lock:
            self._in_flight.discard(stop)


def price(usage: Usage, *, per_million_prompt: float, per_million_reply: float) -> float:
    """What usage costs, in the currency of the two prices; with an estimate of a run, before it is paid."""
    return (usage.prompt * per_million_prompt + usage.completion * per_million_reply) / 1e6
