"""Puts a search's questions to a judge: many at once, within a budget, and keeps what came of each.

Only the thread that searches writes anything down: workers ask and hand back. A question that is still under way when the
time is up is left to end by itself; its answer is not waited for.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from sagehand.errors import NoSuchCase, PictureError, Refused, Unreachable, VlmError
from sagehand.judge.cost import FREE, Cost
from sagehand.judge.questions import BoolGrade, Comparison, Expansion, Grade, LeafScore
from sagehand.recall.trace import Answer, Asked, Kind, Limits, Round

__all__ = ["Asker", "Bounds", "Pending", "Question"]

_SINGLE = (VlmError, PictureError, NoSuchCase)
"""What spoils one question and not the search: no valid answer, a stored picture that cannot be read, a case just retired."""
_FOR_GOOD = frozenset((401, 402, 403, 404))
"""HTTP statuses of a refusal that every other question would meet, too: the key, the bill, the address, the model."""
_MOST_UNREACHABLE = 3
"""Questions in a row that find no server; then no more are asked."""


class Bounds(Protocol):
    """The budget of the decision that the search is a part of (``sagehand.vlm.budget.Budget``)."""

    def remaining_seconds(self) -> float:
        """Time that is left [s]; infinity without a deadline."""
        ...

    def check(self) -> None:
        """Raise an error of :class:`VlmError` when nothing is left."""
        ...

    def cancel(self) -> None:
        """End what is under way for the decision, now."""
        ...


@dataclass(frozen=True, eq=False)
class Question:
    """One question to the judge.

    Attributes:
        kind: Which one.
        about: Ids of the cases, or the leaf's name.
        ask: Asks it.
    """

    kind: Kind
    about: tuple[str, ...]
    ask: Callable[[], Any]


@dataclass(frozen=True)
class _Reply:
    answer: Any
    error: str | None
    started: float
    ended: float
    attempts: int = 0


@dataclass(eq=False)
class Pending:
    """A question that was asked.

    Attributes:
        question: The question.
        round: Number of its round.
        place: Its place in the round.
        future: Where the reply comes in.
        put: When it was put to the judge, since the search began [s].
        answer: The judge's answer as it came, once it is there.
        asked: What is written down of it, once it is there.
    """

    question: Question
    round: int
    place: int
    future: Future[_Reply | None]
    put: float
    answer: Any = None
    asked: Asked | None = None


class Asker:
    """Asks questions for one search.

    Use it as a context: leaving it on an exception (Ctrl-C, too) begins nothing more, cancels the decision's budget, so
    that calls under way end, and waits for them.

    A refusal for good (a wrong key, an unknown model) ends the asking, as do three questions in a row that find no server.

    Args:
        concurrency: Questions at once, at most.
        seconds: Time for all of them [s], or None.
        calls: How many questions, or None.
        budget: The budget of the whole decision, or None.
    """

    def __init__(self, *, concurrency: int, seconds: float | None, calls: int | None, budget: Bounds | None) -> None:
        self.ran_out: str | None = None
        self._seconds, self._calls, self._budget = seconds, calls, budget
        self._began = time.monotonic()
        self._used = 0
        self._given_up: str | None = None
        self._unreachable = 0  # in a row
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._rounds: list[str] = []
        self._asked: list[Pending] = []
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="sagehand-search")

    def __enter__(self) -> Asker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is not None and self._budget is not None:
            self._budget.cancel()
        under_way = any(pending.future.running() for pending in self._asked)
        self._pool.shutdown(wait=kind is not None or not under_way)

    @property
    def calls_left(self) -> int | None:
        """Questions that may still be asked; None without a limit."""
        return None if self._calls is None else max(self._calls - self._used, 0)

    def round(self, name: str) -> int:
        """Begin a round; questions are asked in rounds."""
        self._rounds.append(name)
        return len(self._rounds) - 1

    def allowed(self) -> bool:
        """Whether one more question may be asked; if not, :attr:`ran_out` says why from now on."""
        self.ran_out = self.ran_out or self._why_not()
        return self.ran_out is None

    def start(self, question: Question, round: int, place: int = 0) -> Pending | None:
        """Ask without waiting; None, and :attr:`ran_out` says why, when the budget does not allow it."""
        if not self.allowed():
            return None
        self._used += 1
        pending = Pending(question, round, place, self._pool.submit(self._work, question), self._elapsed())
        self._asked.append(pending)
        return pending

    def finished(self, waiting: Collection[Pending], *, all: bool = False) -> list[Pending]:
        """Wait until one (or all) of them has come to an end; those that have, or none when the time is up first.

        Raises:
            Exception: Whatever a judge raised that is no failure of a single question.
        """
        futures = [pending.future for pending in waiting]
        wait(futures, self._remaining(), "ALL_COMPLETED" if all else FIRST_COMPLETED)
        ended = [pending for pending in waiting if pending.future.done()]
        for pending in ended:
            self._settle(pending)
        if len(ended) < (len(futures) if all else min(1, len(futures))):
            self.ran_out = self.ran_out or self._why_not() or "the time is up"
        return ended

    def ask(self, question: Question, name: str) -> Pending | None:
        """Ask in a round of its own and wait; None when the budget does not allow it."""
        pending = self.start(question, self.round(name))
        if pending is not None:
            self.finished([pending])
        return pending

    def stop(self) -> None:
        """Begin nothing more; what waits for its turn is never asked."""
        self._stopped.set()
        for pending in self._asked:
            pending.future.cancel()

    def questions(self) -> tuple[Asked, ...]:
        """What was asked, by round and place, after :meth:`stop`. What is still under way is written down as left."""
        ended = {pending for pending in self._asked if pending.future.done()}
        for pending in ended:
            self._settle(pending)
        known = [pending for pending in self._asked if pending.asked is not None or pending not in ended]
        known.sort(key=lambda p: (p.round, p.place))
        return tuple(p.asked or self._left(p) for p in known)

    def rounds(self, questions: tuple[Asked, ...]) -> tuple[Round, ...]:
        """The rounds in which anything was asked."""
        made = []
        for number, name in enumerate(self._rounds):
            own = [asked for asked in questions if asked.round == number]
            if own:
                began = min(asked.started for asked in own)
                ended = max(asked.started + asked.seconds for asked in own)
                made.append(Round(name, len(own), began, ended - began))
        return tuple(made)

    def limits(self, questions: tuple[Asked, ...]) -> Limits:
        """The budget, and how much of it these questions took."""
        return Limits(self._seconds, self._calls, self._elapsed(), len(questions), self.ran_out)

    def _work(self, question: Question) -> _Reply | None:
        if self._stopped.is_set() or self._given_up is not None or self._out_of_time() is not None:
            return None
        started = self._elapsed()
        try:
            answer = question.ask()
            self._heed(None)
            return _Reply(answer, None, started, self._elapsed())
        except _SINGLE as error:
            self._heed(error)
            attempts = error.attempts if isinstance(error, VlmError) else 0
            return _Reply(None, f"{type(error).__name__}: {error}", started, self._elapsed(), attempts)

    def _heed(self, error: Exception | None) -> None:
        """Give up asking when further questions would fail in the same way. Called by workers."""
        with self._lock:
            self._unreachable = self._unreachable + 1 if isinstance(error, Unreachable) else 0
            for_good = isinstance(error, Refused) and error.status in _FOR_GOOD
            if error is not None and self._given_up is None and (for_good or self._unreachable >= _MOST_UNREACHABLE):
                self._given_up = f"no more is asked after {type(error).__name__}: {error}"

    def _settle(self, pending: Pending) -> None:
        if pending.asked is not None or pending.future.cancelled():
            return
        reply = pending.future.result()
        if reply is None:
            self.ran_out = self.ran_out or self._why_not() or "the time is up"
            return
        plain, text, error = _plain(reply.answer) if reply.error is None else (None, "", reply.error)
        pending.answer = reply.answer if error is None else None
        pending.asked = Asked(
            kind=pending.question.kind,
            about=pending.question.about,
            round=pending.round,
            answer=plain,
            text=text,
            findings=getattr(reply.answer, "findings", ()),
            by=getattr(reply.answer, "by", None),
            error=error,
            started=reply.started,
            seconds=reply.ended - reply.started,
            cost=Cost(calls=reply.attempts) if reply.answer is None else getattr(reply.answer, "cost", FREE),
        )

    def _left(self, pending: Pending) -> Asked:
        question, waited = pending.question, self._elapsed() - pending.put
        return Asked(
            question.kind, question.about, pending.round, None, "", (), None, "not waited for", pending.put, waited
        )

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _remaining(self) -> float | None:
        own = math.inf if self._seconds is None else self._seconds - self._elapsed()
        whole = math.inf if self._budget is None else self._budget.remaining_seconds()
        least = max(min(own, whole), 0.0)
        return None if math.isinf(least) else least

    def _out_of_time(self) -> str | None:
        if self._seconds is not None and self._elapsed() >= self._seconds:
            return f"the time of {self._seconds:g} s is up"
        if self._budget is not None:
            try:
                self._budget.check()
            except VlmError as error:
                return error.message
        return None

    def _why_not(self) -> str | None:
        if self._given_up is not None:
            return self._given_up
        if self._calls is not None and self._used >= self._calls:
            return f"the budget of {self._calls} questions is spent"
        return self._out_of_time()


def _plain(answer: Any) -> tuple[Answer, str, str | None]:
    """An answer as plain data, its text, and what is wrong with it."""
    match answer:
        case BoolGrade():
            return answer.accepted, "", None
        case Grade(score=score) | LeafScore(score=score):
            text = answer.summary if isinstance(answer, LeafScore) else ""
            if score is not None and not 0 <= score <= 10:
                return None, text, f"the grade {score} is outside 0 to 10"
            return score, text, None
        case Expansion():
            return answer.expand, answer.reason, None
        case Comparison():
            return answer.better, "", None
    raise TypeError(f"a judge answered with a {type(answer).__name__}")
