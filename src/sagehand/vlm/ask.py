"""Ask a model and get a valid call: the one door through which every question goes (SPEC A2).

``Vlm`` is synchronous and may be called from many threads; behind it one event loop keeps at most ``concurrency``
requests in flight. Cache, deadlines, budgets, the ladder of modes, repairs and asking again all happen in here; what
stands above sees a :class:`~sagehand.vlm.base.ToolCall` or a :class:`~sagehand.errors.VlmError`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import random
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Self

from sagehand.errors import DeadlineExceeded, Unreachable, VlmError
from sagehand.vlm.background import Background
from sagehand.vlm.base import ImagePart, Question, ToolCall, Usage, VlmBackend
from sagehand.vlm.budget import Budget
from sagehand.vlm.cache import ReplyCache, cache_key
from sagehand.vlm.course import Course
from sagehand.vlm.desk import Desk
from sagehand.vlm.images import EncodedImage
from sagehand.vlm.ladder import Ladder
from sagehand.vlm.profile import Profile, builtin_profile
from sagehand.vlm.prompt import PictureShelf, Prompt, render

__all__ = ["Vlm"]
_GRACE = 2.0  # [s]: past the deadline before a backend that blocks the event loop is given up on


class Vlm:
    """A vision-language model that answers questions with valid calls. Thread-safe.

    Args:
        backend: Sends requests; closed with this.
        profile: What model and server honour; by default the backend's, else the built-in one of the model's family.
        cache: Answers to keep and to reuse; not closed with this.
        concurrency: Requests in flight at once, at most.
        attempts: Requests of one question, at most; those that only find out what a server takes are not counted.
        call_seconds: Longest time of one request [s].
        long_side: Longest side of an encoded picture [px].
        seed: Of the jitter in pauses.

    Attributes:
        model: The model's id.
    """

    def __init__(
        self,
        backend: VlmBackend,
        *,
        profile: Profile | None = None,
        cache: ReplyCache | None = None,
        concurrency: int = 16,
        attempts: int = 4,
        call_seconds: float = 60.0,
        long_side: int = 1024,
        seed: int = 0,
    ) -> None:
        if concurrency < 1 or attempts < 1 or not 0 < call_seconds < math.inf:
            raise ValueError("concurrency and attempts are at least 1, call_seconds above 0 and finite")
        of_backend = getattr(backend, "profile", None)
        known = profile or (of_backend if isinstance(of_backend, Profile) else builtin_profile(backend.model))
        self.model = backend.model
        self._cache = cache
        self._desk = Desk(
            backend=backend,
            profile=known,
            shelf=PictureShelf(known, long_side=long_side),
            ladder=Ladder(known.modes),
            slots=asyncio.Semaphore(concurrency),
            attempts=attempts,
            call_seconds=call_seconds,
            chance=random.Random(seed),
            max_images=known.max_images,
        )
        self._hits, self._lock = 0, threading.Lock()
        self._background = Background(backend.close)

    @property
    def profile(self) -> Profile:
        """The profile, with what this process has learnt: the modes in use and the pictures that a request may hold."""
        desk = self._desk
        return replace(desk.profile, modes=desk.ladder.modes, max_images=desk.max_images)

    @property
    def usage(self) -> Usage:
        """Tokens and requests of all questions so far."""
        return self._desk.usage

    @property
    def events(self) -> Counter[str]:
        """How often what happened so far: "answered", "repaired", "cached", "truncated", "blanks" and the like."""
        return Counter({**self._desk.events, **({"cached": self._hits} if self._hits else {})})

    def encoded(self, part: ImagePart) -> EncodedImage:
        """A picture as a prompt shows it; boxes in the answer are read by its ``frame``.

        Raises:
            PictureTooLarge: It cannot be encoded within the byte budget.
        """
        return self._desk.shelf.encoded(part)

    def estimate(self, question: Question) -> tuple[int, int]:
        """What one request would take: prompt tokens with pictures, and reply tokens at most.

        Raises:
            PictureTooLarge: A picture cannot be encoded within the byte budget.
        """
        return self._render(question).tokens, question.max_tokens

    def ask(self, question: Question, *, budget: Budget | None = None) -> ToolCall:
        """Ask, and wait for the answer.

        Args:
            question: What is asked.
            budget: Of the decision that it belongs to; none by default.

        Raises:
            VlmError: No valid answer; the subclass says why, ``attempts`` how many requests were sent.
            PictureTooLarge: A picture cannot be encoded within the byte budget.
        """
        budget = budget or Budget()
        started = self._start(question, budget)
        return started if isinstance(started, ToolCall) else self._wait(started, budget)

    def ask_many(self, questions: Sequence[Question], *, budget: Budget | None = None) -> list[ToolCall | VlmError]:
        """Ask several questions at once; answers in order, an error in the place of an answer.

        Raises:
            PictureTooLarge: A picture cannot be encoded within the byte budget.
        """
        budget = budget or Budget()
        started: list[ToolCall | VlmError | Future[ToolCall]] = []
        try:
            started.extend(self._start_or_error(question, budget) for question in questions)
            return [self._wait_or_error(one, budget) if isinstance(one, Future) else one for one in started]
        finally:
            for one in started:
                if isinstance(one, Future):
                    one.cancel()  # nothing, for those that are done

    def close(self) -> None:
        """Cancel what is in flight and close the backend; threads that wait get :class:`Unreachable`."""
        self._background.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _render(self, question: Question) -> Prompt:
        return render(question, self._desk.shelf, max_images=self._desk.max_images)

    def _key(self, prompt: Prompt) -> str:
        server = str(getattr(self._desk.backend, "base_url", ""))
        return cache_key(prompt, self.model, {"temperature": 0.0, **self._desk.profile.body_options}, server)

    def _start(self, question: Question, budget: Budget) -> ToolCall | Future[ToolCall]:
        prompt = self._render(question)  # here and not on the loop: encoding takes its time
        if self._cache is not None:
            kept = self._cache.get(self._key(prompt), question.tools)
            if kept is not None:
                with self._lock:
                    self._hits += 1
                return kept
        budget.check()
        if self._background.closed:
            raise Unreachable("the VLM is closed")
        return self._background.submit(self._run(prompt, budget))

    async def _run(self, prompt: Prompt, budget: Budget) -> ToolCall:
        course = Course(self._desk, prompt, budget)
        call = await course.run()
        if self._cache is not None and course.greedy:
            await asyncio.to_thread(self._cache.put, self._key(course.prompt), call)  # the file may be locked
        return call

    def _wait(self, future: Future[ToolCall], budget: Budget) -> ToolCall:
        remaining = budget.remaining_seconds()
        budget.watch(future.cancel)
        try:
            return future.result(remaining + _GRACE if math.isfinite(remaining) else None)
        except concurrent.futures.CancelledError:
            if budget.cancelled:
                raise DeadlineExceeded("the decision was cancelled") from None
            raise Unreachable("the VLM was closed while it was asked") from None
        except TimeoutError:
            raise DeadlineExceeded("the backend did not give way at the deadline") from None
        finally:
            budget.unwatch(future.cancel)
            future.cancel()  # nothing, when it is done; on Ctrl-C what is in flight ends

    def _start_or_error(self, question: Question, budget: Budget) -> ToolCall | VlmError | Future[ToolCall]:
        try:
            return self._start(question, budget)
        except VlmError as error:
            return error

    def _wait_or_error(self, future: Future[ToolCall], budget: Budget) -> ToolCall | VlmError:
        try:
            return self._wait(future, budget)
        except VlmError as error:
            return error
