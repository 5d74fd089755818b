"""At once or one by one: the same verdicts give the same case, whatever fails, ties, goes round or runs out (SPEC A5, C4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import Truncated
from sagehand.judge.questions import Candidate, Comparison, Grade, Query
from sagehand.recall.search import SearchParams, SearchResult, search
from search_cases import INDEX, QUERY, RANKING, SEEN, Table, cell, ranked

SMALL = cell(5, 2, 2, seed=3)
SMALL_RANKING = ranked(SMALL)

TABLES = st.builds(
    Table,
    seed=st.integers(0, 10**9),
    grades=st.integers(1, 11),
    failing=st.sampled_from([0, 2, 3, 10]),
    silent=st.sampled_from([0, 2, 3, 10]),
    turned=st.booleans(),
    expanding=st.integers(0, 3),
)
PARAMS = st.builds(
    SearchParams,
    n=st.integers(1, 20),
    leaves=st.integers(1, 3),
    most_leaves=st.integers(3, 5),
    images_per_step=st.integers(1, 2),
    min_grade=st.sampled_from([0, 5, 8]),
    first_look=st.booleans(),
    tie_pairs_up_to=st.just(20),
    both_orders=st.booleans(),
    ahead=st.booleans(),
    concurrency=st.integers(1, 16),
)


def both(table: Table, params: SearchParams) -> tuple[SearchResult, SearchResult]:
    quick = search(SMALL, QUERY, table.judge(), SMALL_RANKING, params)
    slow = search(SMALL, QUERY, table.judge(), SMALL_RANKING, replace(params, faithful=True))
    return quick, slow


def outcome(result: SearchResult) -> tuple[object, ...]:
    return result.case, result.verified, result.grade, result.reason, result.trace.expansion


def asked(result: SearchResult) -> Counter[tuple[object, ...]]:
    """Every question with its answer, apart from comparisons."""
    return Counter((q.kind, q.about, q.answer, q.error) for q in result.trace.questions if q.kind != "CompareImages")


@given(TABLES, PARAMS)
@settings(max_examples=250, deadline=None)
def test_the_same_verdicts_give_the_same_case(table: Table, params: SearchParams) -> None:
    quick, slow = both(table, params)
    assert outcome(quick) == outcome(slow)
    assert asked(quick) == asked(slow)
    assert [leaf.to_dict() for leaf in quick.trace.leaves] == [leaf.to_dict() for leaf in slow.trace.leaves]
    compared = {q.about: q.answer for q in quick.trace.questions if q.kind == "CompareImages"}
    assert {q.about: q.answer for q in slow.trace.questions if q.kind == "CompareImages"}.items() <= compared.items()


@given(TABLES, PARAMS, st.integers(0, 45))
@settings(max_examples=250, deadline=None)
def test_a_budget_of_calls_is_spent_on_the_same_questions(table: Table, params: SearchParams, calls: int) -> None:
    quick, slow = both(table, replace(params, calls=calls))
    assert asked(quick) == asked(slow)
    assert outcome(quick) == outcome(slow)
    for result in (quick, slow):
        assert len(result.trace.questions) == result.trace.limits.used_calls <= calls
    # an unbounded search that needs no more is the same search
    free = search(SMALL, QUERY, table.judge(), SMALL_RANKING, replace(params, faithful=True))
    if len(free.trace.questions) <= calls:
        assert outcome(free) == outcome(slow)
        assert slow.trace.limits.ran_out is None
    else:
        assert slow.trace.limits.ran_out == f"the budget of {calls} questions is spent"


def test_a_budget_of_no_calls_hands_out_the_nearest_case_unverified() -> None:
    for faithful in (False, True):
        result = search(INDEX, QUERY, Table(0).judge(), RANKING, SearchParams(calls=0, faithful=faithful))
        assert (result.case, result.verified) == (RANKING.candidates[0], False)
        assert result.reason == "the budget of 0 questions is spent: the nearest case, which nobody has verified"
        assert result.trace.questions == ()


def test_the_best_so_far_is_handed_out_when_calls_run_out() -> None:
    def grade(query: Query, candidate: Candidate) -> Grade:
        return Grade(9 if candidate == RANKING.candidates[0] else 1, SEEN, "t")

    for faithful in (False, True):
        params = SearchParams(n=36, calls=6, faithful=faithful, first_look=False)
        result = search(INDEX, QUERY, Table(0).judge(grade=grade), RANKING, params)
        assert (result.case, result.verified, result.grade) == (RANKING.candidates[0], True, 9)
        assert result.reason == (
            "graded 9, the highest of 6 pictures of 3 devices; the search ended early: the budget of 6 questions is spent"
        )
        assert [i.error for leaf in result.trace.leaves for i in leaf.images].count("not asked") == 18


def test_the_call_kept_for_the_score_of_a_leaf_that_failed_goes_to_the_next_question() -> None:
    def grade(query: Query, candidate: Candidate) -> Grade:
        if candidate.case.device == "d0":
            raise Truncated("cut off")
        return Grade(3, SEEN, "t")

    for calls, counts in ((9, [8, 1, 0, 0]), (16, [8, 8, 0, 0]), (17, [8, 8, 1, 0]), (18, [8, 8, 1, 1])):
        for faithful in (False, True):
            params = SearchParams(n=36, calls=calls, faithful=faithful, first_look=False)
            result = search(INDEX, QUERY, Table(0).judge(grade=grade), RANKING, params)
            by_device = Counter(
                INDEX.cases[INDEX.row(q.about[0]) or 0].device for q in result.trace.questions if q.kind == "GradeImage"
            )
            scored = result.trace.counts.get("LeafFinalScore", 0)
            assert [by_device["d0"], by_device["d1"], scored, by_device["d2"]] == counts


def cyclic(ids: Sequence[str]) -> object:
    """Each beats the next, and the last the first."""

    def compare(query: Query, first: Candidate, second: Candidate) -> Comparison:
        at, other = ids.index(first.case.id), ids.index(second.case.id)
        return Comparison("first" if (other - at) % len(ids) == 1 else "second", SEEN, "t")

    return compare


def test_a_cycle_ends_where_algorithm_4_ends_and_is_reported() -> None:
    tied = [c.case.id for c in RANKING.candidates[:3]]

    def grade(query: Query, candidate: Candidate) -> Grade:
        return Grade(8 if candidate.case.id in tied else 1, SEEN, "t")

    judge = Table(0, expanding=0).judge(grade=grade, compare=cyclic(tied))  # type: ignore[arg-type]
    quick, slow = (
        search(INDEX, QUERY, judge, RANKING, SearchParams(first_look=False, images_per_step=3, faithful=f))
        for f in (False, True)
    )
    assert quick.trace.tie is not None
    assert slow.trace.tie is not None
    # the first beats the second, and is beaten by the third
    assert quick.trace.tie.winner == slow.trace.tie.winner == tied[2]
    assert (quick.trace.tie.how, quick.trace.tie.cycle) == ("all pairs", tuple(tied))
    assert quick.trace.tie.note == "the comparisons go round in a circle, so the order of comparing decides"
    assert (slow.trace.tie.how, slow.trace.tie.cycle) == ("one by one", None)
    assert quick.trace.counts["CompareImages"] == 6
    assert slow.trace.counts["CompareImages"] == 4


@pytest.mark.parametrize("count", [7, 8, 12])
def test_a_large_tie_goes_into_a_bracket_and_says_so(count: int) -> None:
    tied = [c.case.id for c in RANKING.first(count)]

    def grade(query: Query, candidate: Candidate) -> Grade:
        return Grade(8 if candidate.case.id in tied else 1, SEEN, "t")

    for best in range(count):
        order = tied[best:] + tied[:best]

        def compare(query: Query, first: Candidate, second: Candidate, order: list[str] = order) -> Comparison:
            return Comparison(
                "first" if order.index(first.case.id) < order.index(second.case.id) else "second", SEEN, "t"
            )

        judge = Table(0, expanding=0).judge(grade=grade, compare=compare)
        params = SearchParams(first_look=False, images_per_step=3)
        quick = search(INDEX, QUERY, judge, RANKING, params)
        slow = search(INDEX, QUERY, judge, RANKING, replace(params, faithful=True))
        assert quick.trace.tie is not None
        assert quick.case == slow.case
        assert quick.trace.tie.winner == tied[best]
        assert quick.trace.tie.how == "bracket"
        assert quick.trace.tie.note.startswith(f"{count} share the highest grade, more than 6: they met in a bracket")
        assert quick.trace.counts["CompareImages"] == 2 * (count - 1) == slow.trace.counts["CompareImages"]
        assert quick.trace.saved_rounds == len(slow.trace.rounds) - len(quick.trace.rounds)


@pytest.mark.parametrize("says", ["first", "second"])
def test_a_judge_that_answers_by_position_is_noticed_and_the_rank_decides(says: str) -> None:
    tied = [c.case.id for c in RANKING.candidates[:3]]

    def grade(query: Query, candidate: Candidate) -> Grade:
        return Grade(8 if candidate.case.id in tied else 1, SEEN, "t")

    def compare(query: Query, first: Candidate, second: Candidate) -> Comparison:
        return Comparison(says, SEEN, "t")  # type: ignore[arg-type]

    judge = Table(0, expanding=0).judge(grade=grade, compare=compare)
    for faithful, pairs in ((False, 3), (True, 2)):
        params = SearchParams(first_look=False, images_per_step=3, faithful=faithful)
        result = search(INDEX, QUERY, judge, RANKING, params)
        assert result.case == RANKING.candidates[0]
        assert result.trace.suspicions == (
            f"{pairs} comparisons of {pairs} answered {says!r} in both orders: by position, not by what is shown",
        )
        assert result.trace.tie is not None
        assert {(p.settled, p.by_position) for p in result.trace.tie.pairs} == {("rank", says)}


def test_a_tie_is_compared_ahead_and_never_twice() -> None:
    spent = []
    for seed in range(40):
        table = Table(seed, grades=6, expanding=2)
        ahead, waits = (
            search(INDEX, QUERY, table.judge(), RANKING, SearchParams(n=36, ahead=a, first_look=False))
            for a in (True, False)
        )
        assert outcome(ahead) == outcome(waits)
        for result in (ahead, waits):
            compared = [q.about for q in result.trace.questions if q.kind == "CompareImages"]
            assert len(compared) == len(set(compared))
        names = [r.name for r in ahead.trace.rounds]
        if not ahead.trace.expansions[0].answer and "comparisons" in names:
            assert ahead.trace.counts == waits.trace.counts
            assert "comparisons" in names
        spent.append((ahead.trace.counts.get("CompareImages", 0), waits.trace.counts.get("CompareImages", 0)))
    assert all(first >= second for first, second in spent)
    assert any(first > second for first, second in spent)
