"""The guided search in time: what runs at once, what is waited for, deadlines, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from sagehand.errors import OutOfBudget
from sagehand.judge.questions import Candidate, Comparison, Expansion, Grade, LeafScore, Query
from sagehand.recall.search import SearchParams, search
from search_cases import INDEX, QUERY, RANKING, SEEN, expands, graded, scores, scripted

THREE = SearchParams(n=36, first_look=False)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    wait_until(lambda: not workers())


def workers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("sagehand-search")]


def wait_until(met: object, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not met():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.002)


class Gauge:
    """How many are inside at once, at most."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


def test_all_gradings_of_the_first_leaves_run_at_once() -> None:
    together = threading.Barrier(24)  # breaks unless all 24 are asked at the same time
    met: list[int] = []

    def grade(query: Query, candidate: Candidate) -> Grade:
        met.append(together.wait(timeout=5))
        return Grade(1, SEEN, "s")

    search(INDEX, QUERY, scripted(grade=grade), RANKING, replace(THREE, concurrency=24))
    assert sorted(met[:24]) == list(range(24))


@pytest.mark.parametrize(("params", "most"), [(replace(THREE, concurrency=3), 3), (replace(THREE, faithful=True), 1)])
def test_never_more_than_the_limit_at_once(params: SearchParams, most: int) -> None:
    gauge = Gauge()

    def grade(query: Query, candidate: Candidate) -> Grade:
        with gauge:
            time.sleep(0.003)
            return Grade(9, SEEN, "s")

    def compare(query: Query, first: Candidate, second: Candidate) -> Comparison:
        with gauge:
            time.sleep(0.001)
            return Comparison(None, SEEN, "s")

    search(INDEX, QUERY, scripted(grade=grade, compare=compare), RANKING, params)
    assert gauge.most == most


def test_a_leaf_is_scored_without_waiting_for_other_leaves() -> None:
    scored = threading.Event()

    def grade(query: Query, candidate: Candidate) -> Grade:
        if candidate.case.device == "d0":
            assert scored.wait(timeout=5), "d1 is not scored before d0 is graded"
        return Grade(1, SEEN, "s")

    def score(query: Query, device: str, grades: Sequence[Grade]) -> LeafScore:
        if device == "d1":
            scored.set()
        return LeafScore(5, "", "s")

    result = search(INDEX, QUERY, scripted(grade=grade, leaf_score=score), RANKING, replace(THREE, concurrency=24))
    assert [leaf.score for leaf in result.trace.leaves] == [5, 5, 5]
    assert [q.about for q in result.trace.questions if q.kind == "LeafFinalScore"] == [
        ("f / d0",),
        ("f / d1",),
        ("f / d2",),
    ]


def test_a_tie_is_compared_while_leaves_are_still_scored() -> None:
    compared = threading.Event()
    tied = {c.case.id for c in RANKING.candidates[:2]}

    def score(query: Query, device: str, grades: Sequence[Grade]) -> LeafScore:
        assert compared.wait(timeout=5), "the comparisons wait for the scores"
        return LeafScore(5, "", "s")

    def compare(query: Query, first: Candidate, second: Candidate) -> Comparison:
        compared.set()
        return Comparison("first", SEEN, "s")

    judge = scripted(grade=graded(dict.fromkeys(tied, 9)), leaf_score=score, compare=compare)
    result = search(INDEX, QUERY, judge, RANKING, replace(THREE, images_per_step=3))
    assert result.trace.tie is not None
    assert set(result.trace.tie.tied) == tied


@pytest.mark.parametrize("faithful", [False, True])
def test_a_judge_that_hangs_is_not_waited_for_past_the_time(faithful: bool) -> None:
    release = threading.Event()

    def grade(query: Query, candidate: Candidate) -> Grade:
        if candidate != RANKING.candidates[0]:
            release.wait(timeout=10)
        return Grade(7, SEEN, "s")

    judge = scripted(grade=grade)
    started = time.monotonic()
    result = search(INDEX, QUERY, judge, RANKING, replace(THREE, seconds=0.15, concurrency=4, faithful=faithful))
    assert 0.14 < time.monotonic() - started < 1.0
    assert (result.case, result.verified, result.grade) == (RANKING.candidates[0], True, 7)
    assert result.trace.limits.ran_out == "the time of 0.15 s is up"
    assert result.reason.endswith("the search ended early: the time of 0.15 s is up")
    left = [q for q in result.trace.questions if q.error == "not waited for"]
    assert len(left) == (1 if faithful else 4)
    assert all(0.1 < q.seconds < 1.0 for q in left)
    before = len(judge.asked)
    release.set()
    wait_until(lambda: not workers())
    assert len(judge.asked) == before, "a question was asked past the deadline"
    assert len(result.trace.questions) == before


def test_with_no_time_at_all_the_nearest_case_is_handed_out_unverified() -> None:
    judge = scripted()
    result = search(INDEX, QUERY, judge, RANKING, replace(THREE, seconds=0))
    assert (result.case, result.verified, judge.asked) == (RANKING.candidates[0], False, [])


class FakeBudget:
    """Has calls for so many checks; notes whether it was cancelled."""

    def __init__(self, seconds: float = float("inf"), grades: int = 10**6) -> None:
        self.cancelled, self.asked, self._grades = threading.Event(), 0, grades
        self._deadline = time.monotonic() + seconds

    def remaining_seconds(self) -> float:
        return max(self._deadline - time.monotonic(), 0.0)

    def check(self) -> None:
        if self.asked >= self._grades or not self.remaining_seconds():
            raise OutOfBudget("all calls of this decision are spent", hint="allow more calls")

    def cancel(self) -> None:
        self.cancelled.set()


@pytest.mark.parametrize("faithful", [False, True])
def test_the_budget_of_the_decision_bounds_the_search(faithful: bool) -> None:
    budget = FakeBudget(grades=5)

    def grade(query: Query, candidate: Candidate) -> Grade:
        budget.check()
        budget.asked += 1
        return Grade(6 if candidate == RANKING.candidates[0] else 2, SEEN, "s")

    params = replace(THREE, concurrency=1, faithful=faithful)
    result = search(INDEX, QUERY, scripted(grade=grade), RANKING, params, budget=budget)
    assert result.case == RANKING.candidates[0]
    assert result.trace.limits.ran_out == "all calls of this decision are spent"
    assert result.trace.counts == {"GradeImage": 5}
    assert not budget.cancelled.is_set()


def test_the_deadline_of_the_decision_ends_the_wait() -> None:
    release = threading.Event()

    def expand(query: Query, seen: object) -> Expansion:
        release.wait(timeout=10)
        return Expansion(False, "", "s")

    started = time.monotonic()
    result = search(INDEX, QUERY, scripted(expand=expand), RANKING, THREE, budget=FakeBudget(seconds=0.2))
    assert time.monotonic() - started < 1.5
    assert (result.case, result.trace.expansion) == (None, "all calls of this decision are spent")
    release.set()


@pytest.mark.parametrize("faithful", [False, True])
def test_ctrl_c_cancels_what_waits_and_leaves_no_thread(faithful: bool) -> None:
    """As the shell sends it: a signal to the main thread, which is waiting for answers."""
    budget = FakeBudget()
    started = threading.Event()

    def grade(query: Query, candidate: Candidate) -> Grade:
        started.set()
        budget.cancelled.wait(timeout=10)  # a call under way ends because the budget is cancelled
        return Grade(1, SEEN, "s")

    judge = scripted(grade=grade)

    def interrupt() -> None:
        started.wait(timeout=5)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=interrupt)
    presser.start()
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        search(INDEX, QUERY, judge, RANKING, replace(THREE, concurrency=4, faithful=faithful), budget=budget)
    presser.join()
    assert time.monotonic() - before < 3
    assert workers() == []
    assert budget.cancelled.is_set()
    assert judge.asked == ["grade"] * (1 if faithful else 4)


def test_an_error_of_the_judge_cancels_what_waits() -> None:
    budget = FakeBudget()

    def grade(query: Query, candidate: Candidate) -> Grade:
        if candidate == RANKING.candidates[0]:
            raise RuntimeError("a bug in the judge")
        budget.cancelled.wait(timeout=10)
        return Grade(1, SEEN, "s")

    judge = scripted(grade=grade)
    with pytest.raises(RuntimeError, match="a bug in the judge"):
        search(INDEX, QUERY, judge, RANKING, replace(THREE, concurrency=4), budget=budget)
    assert workers() == []
    assert len(judge.asked) <= 5


def test_what_was_compared_ahead_in_vain_is_not_waited_for() -> None:
    release = threading.Event()
    tied = {c.case.id for c in RANKING.candidates[:2]}

    def grade(query: Query, candidate: Candidate) -> Grade:
        return Grade(
            10 if candidate.case.device == "d3" and candidate.case.step == 1 else 9 * (candidate.case.id in tied),
            SEEN,
            "s",
        )

    def compare(query: Query, first: Candidate, second: Candidate) -> Comparison:
        if tied >= {first.case.id, second.case.id}:
            release.wait(timeout=10)
        return Comparison(None, SEEN, "s")

    judge = scripted(grade=grade, leaf_score=scores(), expand=expands(True), compare=compare)
    started = time.monotonic()
    result = search(INDEX, QUERY, judge, RANKING, replace(THREE, images_per_step=3))
    assert time.monotonic() - started < 2
    release.set()
    assert result.case is not None
    assert result.case.case.device == "d3"
    assert [q.error for q in result.trace.questions if set(q.about) == tied] == ["not waited for"] * 2
    assert result.trace.limits.ran_out is None
