"""Budgets of a decision."""

from __future__ import annotations

import math
import threading

import pytest

from sagehand.errors import DeadlineExceeded, OutOfBudget
from sagehand.vlm.base import Usage
from sagehand.vlm.budget import Budget, price


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_no_limits_never_end() -> None:
    budget = Budget()
    budget.spend(Usage(10**9, 10**9, 10**9))
    budget.check()
    assert budget.remaining_seconds() == math.inf


def test_seconds_run_from_the_start_and_not_below_zero() -> None:
    clock = Clock()
    budget = Budget(seconds=5, clock=clock)
    clock.now += 3
    assert budget.remaining_seconds() == pytest.approx(2)
    budget.check()
    clock.now += 3
    assert budget.remaining_seconds() == 0
    with pytest.raises(DeadlineExceeded, match="5 s of this decision are up"):
        budget.take_call()
    assert budget.spent.calls == 0


def test_tokens_are_checked_before_each_call() -> None:
    budget = Budget(tokens=100)
    budget.take_call()
    budget.spend(Usage(prompt=90, completion=9))
    budget.take_call()
    budget.spend(Usage(prompt=1))
    with pytest.raises(OutOfBudget, match="100 of 100 tokens"):
        budget.take_call()
    assert budget.spent == Usage(91, 9, 2)


def test_calls_are_counted_exactly_from_many_threads() -> None:
    budget = Budget(calls=50)
    refused: list[OutOfBudget] = []

    def take() -> None:
        for _ in range(20):
            try:
                budget.take_call()
            except OutOfBudget as error:
                refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (budget.spent.calls, len(refused)) == (50, 110)


def test_cancelling_stops_what_is_watched_and_all_that_follows() -> None:
    budget = Budget()
    stopped: list[str] = []
    one, two, late = (lambda name=name: stopped.append(name) for name in ("one", "two", "late"))
    budget.watch(one)
    budget.watch(two)
    budget.unwatch(two)
    budget.cancel()
    budget.watch(late)
    assert stopped == ["one", "late"]
    assert (budget.cancelled, budget.remaining_seconds()) == (True, 0)
    with pytest.raises(DeadlineExceeded, match="cancelled"):
        budget.check()


def test_a_price_before_a_paid_run() -> None:
    assert price(Usage(2_000_000, 500_000, 9), per_million_prompt=2.5, per_million_reply=10) == pytest.approx(10.0)
