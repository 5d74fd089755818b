"""The guided search: what is asked, in which order, and what comes of it (paper A, Algorithms 3 and 5; SPEC A5)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from builders import base_of, draft, near, unit
from sagehand.cases import Index
from sagehand.cli.ask import search_params
from sagehand.errors import InputError, JudgeError, Malformed, NoSuchCase, Refused, Truncated, Unreachable, VlmError
from sagehand.judge.calibration import learn
from sagehand.judge.cost import Cost
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import BoolGrade, Candidate, Comparison, Expansion, Grade, LeafScore, Query
from sagehand.judge.scripted import ScriptedJudge
from sagehand.recall.rank import rank
from sagehand.recall.search import PAPER, SearchParams, SearchResult, search
from search_cases import (
    INDEX,
    QUERY,
    RANKING,
    SEEN,
    Table,
    cell,
    expands,
    graded,
    prefers,
    ranked,
    says,
    scores,
    scripted,
)

THREE = SearchParams(n=36)
"""Of the 36 nearest cases come three devices, with 4 steps of 2 pictures each."""


def find(judge: ScriptedJudge, params: SearchParams = THREE, index: Index = INDEX) -> SearchResult:
    ranking = RANKING if index is INDEX else ranked(index)
    return search(index, QUERY, judge, ranking, params)


def devices(result: SearchResult) -> list[str]:
    return [leaf.device for leaf in result.trace.leaves]


def test_a_confirmed_first_candidate_costs_one_question() -> None:
    judge = scripted(bool_grade=says(True))
    result = find(judge)
    assert judge.asked == ["bool_grade"]
    assert result.trace.counts == {"BoolGradeImage": 1}
    assert result.case == RANKING.candidates[0]
    assert (result.verified, result.grade) == (True, None)
    assert result.reason == "the judge confirmed the first candidate"
    assert (result.trace.leaves, result.trace.saved_rounds) == ((), 0)


@pytest.mark.parametrize("faithful", [False, True])
def test_a_full_search_asks_once_and_each_picture_leaf_expansion_and_pair(faithful: bool) -> None:
    third = ranked(INDEX).weigh(*INDEX.top(QUERY.vector, 30))[20:23]
    best = {c.case.id: 9 for c in third}
    judge = scripted(grade=graded(lambda c: best.get(c.case.id, 2)), expand=expands(True), compare=prefers(list(best)))
    result = find(judge, replace(THREE, faithful=faithful, images_per_step=3))
    # 4 devices of 12 pictures; asked to expand after the third and after the fourth
    tied = 3
    pairs = tied - 1 if faithful else tied * (tied - 1) // 2
    expected = {
        "BoolGradeImage": 1,
        "GradeImage": 48,
        "LeafFinalScore": 4,
        "ExpandSearch": 2,
        "CompareImages": 2 * pairs,
    }
    assert result.trace.counts == expected
    names = ("bool_grade", "grade", "leaf_score", "expand", "compare")
    assert Counter(judge.asked) == dict(zip(names, expected.values(), strict=True))
    assert result.case is not None
    assert result.case.case.id == next(iter(best))
    assert (
        result.reason
        == "graded 9, the highest of 48 pictures of 4 devices, like 2 more, and chosen among them pair by pair"
    )
    assert len(result.trace.questions) == sum(expected.values())


@pytest.mark.parametrize("accepted", [False, None])
def test_what_is_not_accepted_stays_a_candidate(accepted: bool | None) -> None:
    top = RANKING.candidates[0].case.id
    result = find(scripted(bool_grade=says(accepted), grade=graded({top: 9})))
    assert result.case == RANKING.candidates[0]
    assert (result.verified, result.grade) == (True, 9)


def test_a_first_look_that_fails_is_no_acceptance() -> None:
    def fails(query: Query, candidate: Candidate) -> BoolGrade:
        raise Malformed("no call in it")

    d1 = next(c.case.id for c in ranked(INDEX).first(36) if c.case.device == "d1")
    result = find(scripted(bool_grade=fails, grade=graded({d1: 6})))
    first = result.trace.questions[0]
    assert (first.kind, first.answer, first.error) == ("BoolGradeImage", None, "Malformed: no call in it")
    assert result.case is not None
    assert result.case.case.id == d1


def test_the_first_look_can_be_left_out() -> None:
    judge = ScriptedJudge(
        {"grade": graded({RANKING.candidates[3].case.id: 8}), "leaf_score": scores(), "expand": expands()}
    )
    result = find(judge, replace(THREE, first_look=False))
    assert "BoolGradeImage" not in result.trace.counts
    assert result.case == RANKING.candidates[3]


def test_leaves_come_by_their_nearest_case_from_the_n_nearest_alone() -> None:
    assert devices(find(scripted())) == ["d0", "d1", "d2"]
    assert devices(find(scripted(), replace(THREE, leaves=2))) == ["d0", "d1"]
    assert devices(find(scripted(), SearchParams(n=1))) == ["d0"]
    nearest = [c.case.device for c in RANKING.candidates]
    assert devices(find(scripted(), SearchParams(n=15))) == list(dict.fromkeys(nearest))


@pytest.mark.parametrize("previous", [None, "a2"])
def test_of_each_step_the_nearest_pictures_are_graded_in_the_order_of_the_ranking(previous: str | None) -> None:
    query = Query(QUERY.vector, previous_action=previous)
    ranking = ranked(INDEX, query)
    place = {INDEX.cases[row].id: at for at, row in enumerate(ranking.order.tolist())}
    cosine = {c.case.id: c.evidence.picture for c in ranking.first(72)}
    by_picture = True
    for leaf in search(INDEX, query, scripted(), ranking, THREE).trace.leaves:
        own = [image.candidate.case for image in leaf.images]
        assert [place[case.id] for case in own] == sorted(place[case.id] for case in own)
        by_picture &= [cosine[case.id] for case in own] == sorted((cosine[case.id] for case in own), reverse=True)
        assert Counter(case.step for case in own) == {1: 2, 2: 2, 3: 2, 4: 2}
        assert leaf.left_out == 4
        for step in (1, 2, 3, 4):
            all_of_step = sorted(place[c.id] for c in INDEX.cases[:] if c.device == leaf.device and c.step == step)
            assert sorted(place[case.id] for case in own if case.step == step) == all_of_step[:2]
    assert by_picture == (previous is None), "what is known must reorder the pictures"


def test_a_tie_that_nobody_can_break_goes_to_the_one_that_ranks_higher() -> None:
    query = Query(QUERY.vector, previous_action="a2")
    ranking = ranked(INDEX, query)
    judge = scripted(grade=graded(lambda c: 8), compare=lambda *_: Comparison(None, (), "s"))
    for params in (THREE, replace(THREE, tie_pairs_up_to=24), replace(THREE, faithful=True)):
        result = search(INDEX, query, judge, ranking, params)
        assert result.case == ranking.candidates[0]
        assert result.case != ranking.nearest
        assert result.trace.tie is not None
        assert {pair.why for pair in result.trace.tie.pairs} == {"the judge cannot tell them apart"}


def test_cases_without_a_step_number_are_told_apart_by_their_labels() -> None:
    rows = [{"family": "f", "device": "d", "next_action": f"a{i % 3}"} for i in range(12)]
    index = base_of([draft(str(i), unit([3, 0.1 * i]), row) for i, row in enumerate(rows)]).index()
    (leaf,) = find(scripted(), THREE, index).trace.leaves
    assert Counter(image.candidate.case.next_action for image in leaf.images) == {"a0": 2, "a1": 2, "a2": 2}
    assert leaf.left_out == 6


def big(devices: int = 20, views: int = 20) -> Index:
    """400 cases, of which 256 are ranked."""
    rng = np.random.default_rng(1)
    drafts = [
        draft(f"{d}-{v}", near([3, 0.3 * d], 0.3, rng), {"family": f"f{d % 2}", "device": f"d{d}", "step": v // 2})
        for d in range(devices)
        for v in range(views)
    ]
    return base_of(drafts).index()


def test_leaves_beyond_the_ranking_follow_by_cosine_and_are_weighed_alike() -> None:
    index = big()
    ranking = ranked(index)
    result = search(
        index, QUERY, scripted(expand=expands(*[True] * 30)), ranking, SearchParams(leaves=1, most_leaves=30)
    )
    cosine = dict(zip(index.ids, index.similarities(QUERY.vector).tolist(), strict=True))
    first = {}
    for row in ranking.order.tolist():
        first.setdefault(index.cases[row].device, row)
    rest = sorted(
        (-max(cosine[c.id] for c in index.cases[:] if c.device == d), d)
        for d in {c.device for c in index.cases[:]} - set(first)
    )
    assert len(rest) > 1
    assert devices(result) == [*first, *(d for _, d in rest)]
    assert result.trace.expansion == "every device was looked at"
    assert [leaf.expanded for leaf in result.trace.leaves] == [False] + [True] * 19
    # beyond the ranking only the picture speaks here, so equal evidence must have equal scores
    everything = rank(index, QUERY, ranking.calibration, keep=400)
    by_id = {c.case.id: c for c in everything.candidates}
    outside = 0
    for leaf in result.trace.leaves:
        for image in leaf.images:
            candidate = image.candidate
            assert candidate.evidence.picture == cosine[candidate.case.id]
            if candidate.case.id in by_id:
                assert candidate == by_id[candidate.case.id]
            else:
                outside += 1
                assert candidate.probability == 0
                assert candidate.score < everything.candidates[0].score
    assert outside > 50


def test_the_own_picture_and_other_families_are_never_graded() -> None:
    index = big()
    query = Query(index.vectors[7], family="f1")
    own = {index.cases[row].id for row in index.top(query.vector, 300)[0].tolist()[::7]}
    ranking = rank(index, query, RANKING.calibration, exclude=frozenset(own))
    result = search(index, query, scripted(expand=expands(*[True] * 30)), ranking, SearchParams(most_leaves=30))
    shown = {image.candidate.case.id for leaf in result.trace.leaves for image in leaf.images}
    assert {leaf.family for leaf in result.trace.leaves} == {"f1"}
    assert len(result.trace.leaves) == 10
    assert shown & own == set()


def test_image_grades_choose_the_winner_and_leaf_scores_do_not() -> None:
    def score(query: Query, device: str, grades: Sequence[Grade]) -> LeafScore:
        return LeafScore({"d0": 10, "d1": 9, "d2": 1}[device], "", "s")

    best = next(c for c in ranked(INDEX).first(60) if c.case.device == "d2")
    result = find(scripted(grade=graded({best.case.id: 6}), leaf_score=score))
    assert result.case == best
    assert [leaf.score for leaf in result.trace.leaves] == [10, 9, 1]


def test_a_best_grade_below_the_least_is_no_case() -> None:
    result = find(scripted(grade=graded(lambda c: 4)))
    assert (result.case, result.verified, result.grade) == (None, False, None)
    assert result.reason == "the best grade of 24 pictures of 3 devices is 4, below 5"
    assert "CompareImages" not in result.trace.counts
    assert result.trace.tie is None


def test_an_ungraded_picture_is_unscored_and_never_0() -> None:
    first, second, third = (c.case.id for c in RANKING.candidates[:3])

    def grade(query: Query, candidate: Candidate) -> Grade:
        if candidate.case.id == first:
            raise Truncated("cut off")
        if candidate.case.id == third:
            raise NoSuchCase("it was retired just now")
        return Grade({second: None}.get(candidate.case.id, 0), SEEN, "s")

    said: list[list[int | None]] = []

    def score(query: Query, device: str, grades: Sequence[Grade]) -> LeafScore:
        said.append([g.score for g in grades])
        return LeafScore(0, "", "s")

    result = find(
        scripted(grade=grade, leaf_score=score, compare=lambda *_: Comparison(None, (), "s")),
        replace(THREE, min_grade=0),
    )
    assert result.case is not None
    assert result.case.case.id not in (first, second, third)
    assert result.grade == 0
    images = {i.candidate.case.id: i for leaf in result.trace.leaves for i in leaf.images}
    assert (images[first].grade, images[first].error) == (None, "Truncated: cut off")
    assert (images[third].grade, images[third].error) == (None, "NoSuchCase: it was retired just now")
    assert (images[second].grade, images[second].error) == (None, None)
    # what failed is no reasoning; "cannot tell" is one
    assert sorted(map(len, said)) == [6, 8, 8]
    assert sum(grades.count(None) for grades in said) == 1


def test_a_grade_outside_0_to_10_is_not_believed() -> None:
    result = find(
        scripted(
            grade=graded(lambda c: 99 if c == RANKING.candidates[0] else 6),
            compare=lambda *_: Comparison(None, (), "s"),
        )
    )
    assert result.grade == 6
    assert result.trace.leaves[0].images[0].error == "the grade 99 is outside 0 to 10"


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("failing", [False, True])
def test_where_nothing_is_graded_the_nearest_case_is_handed_out_unverified(faithful: bool, failing: bool) -> None:
    def fails(query: Query, candidate: Candidate) -> Grade:
        raise Truncated("cut off")

    judge = scripted(grade=fails if failing else graded(lambda c: None), expand=expands(None))
    result = find(judge, replace(THREE, faithful=faithful))
    assert result.case == RANKING.candidates[0]
    assert (result.verified, result.grade) == (False, None)
    assert result.reason == "the judge graded nothing: the nearest case, which nobody has verified"
    # without one reasoning there is nothing to score, and without one score nothing to expand by
    assert result.trace.counts.get("LeafFinalScore", 0) == (0 if failing else 3)
    assert result.trace.counts.get("ExpandSearch", 0) == (0 if failing else 1)
    assert result.trace.expansion == ("no device was scored" if failing else "seen 3")


def test_the_search_expands_one_leaf_at_a_time_up_to_the_most() -> None:
    asked: list[list[str]] = []

    def expand(query: Query, seen: Mapping[str, LeafScore]) -> Expansion:
        asked.append(list(seen))
        return Expansion(True, "none is like it", "s")

    result = find(scripted(expand=expand))
    assert asked == [["d0", "d1", "d2"], ["d0", "d1", "d2", "d3"]]
    assert devices(result) == ["d0", "d1", "d2", "d3", "d4"]
    assert result.trace.expansion == "5 devices were looked at, the most that are allowed"
    assert [e.answer for e in result.trace.expansions] == [True, True]
    result = find(scripted(expand=expands(True)))
    assert devices(result) == ["d0", "d1", "d2", "d3"]
    assert result.trace.expansion == "seen 4"


def test_an_expansion_that_fails_or_is_unsure_does_not_expand() -> None:
    def fails(query: Query, seen: Mapping[str, LeafScore]) -> Expansion:
        raise Truncated("cut off")

    result = find(scripted(expand=fails))
    assert (len(result.trace.leaves), result.trace.expansion) == (3, "Truncated: cut off")
    assert len(find(scripted(expand=expands(None))).trace.leaves) == 3


def test_devices_of_one_name_in_two_families_are_two_leaves() -> None:
    rows = [{"family": f, "device": "mini", "step": 1} for f in ("phone", "lamp")] + [
        {"family": "lamp", "device": "max"}
    ]
    index = base_of([draft(str(i), unit([3, 0.2 * i]), row) for i, row in enumerate(rows)]).index()
    asked: list[list[str]] = []

    def expand(query: Query, seen: Mapping[str, LeafScore]) -> Expansion:
        asked.append(list(seen))
        return Expansion(True, "", "s")

    result = search(index, QUERY, scripted(expand=expand), ranked(index), SearchParams(leaves=2))
    assert [(leaf.family, leaf.device) for leaf in result.trace.leaves] == [
        ("phone", "mini"),
        ("lamp", "mini"),
        ("lamp", "max"),
    ]
    assert asked == [["phone / mini", "lamp / mini"]]


def test_an_empty_base_and_a_foreign_ranking() -> None:
    nothing = rank(INDEX, Query(QUERY.vector, family="nobody's"), RANKING.calibration)
    result = search(INDEX, QUERY, ScriptedJudge({}), nothing)
    assert (result.case, result.reason) == (None, "there is no case to search")
    with pytest.raises(InputError, match="made on another index"):
        search(cell(2), QUERY, ScriptedJudge({}), RANKING)


@pytest.mark.parametrize("faithful", [False, True])
def test_an_error_that_is_not_of_one_question_ends_the_search(faithful: bool) -> None:
    with pytest.raises(JudgeError, match="no answer left for 'leaf_score'"):
        find(ScriptedJudge({"bool_grade": says(False), "grade": graded({})}), replace(THREE, faithful=faithful))


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"n": 0}, "n of the search is 0; valid: 1 to 10000"),
        ({"leaves": 4, "most_leaves": 3}, "most_leaves of the search is 3; valid: 4 or more"),
        ({"min_grade": 11}, "min_grade of the search is 11; valid: 0 to 10"),
        ({"concurrency": 0}, "concurrency of the search is 0; valid: 1 to 1000"),
        ({"images_per_step": 0}, "images_per_step of the search is 0; valid: 1 or more"),
        ({"seconds": float("nan")}, "seconds of the search is nan; valid: 0 or more"),
        ({"calls": -1}, "calls of the search is -1; valid: 0 or more"),
    ],
)
def test_parameters_out_of_range_are_refused(bad: dict[str, float], text: str) -> None:
    with pytest.raises(InputError) as caught:
        SearchParams(**bad)  # type: ignore[arg-type]
    assert str(caught.value) == text


def test_the_defaults_are_the_papers() -> None:
    params = SearchParams()
    assert (params.n, params.leaves, params.most_leaves, params.images_per_step, params.min_grade) == (15, 3, 5, 2, 5)
    assert (params.first_look, params.faithful) == (True, False)


@pytest.mark.parametrize("faithful", [False, True])
def test_the_trace_is_plain_json_and_adds_up(faithful: bool) -> None:
    cost = Cost(calls=1, prompt=100, completion=10, seconds=0.5)

    def grade(query: Query, candidate: Candidate) -> Grade:
        if candidate == RANKING.candidates[0]:
            error = Truncated("cut off")
            error.attempts = 3
            raise error
        return Grade(8 if candidate.case.device == "d1" else 2, SEEN, "s", cost=cost)

    compare = prefers([c.case.id for c in ranked(INDEX).first(72)])
    result = find(scripted(grade=grade, compare=compare, expand=expands(True)), replace(THREE, faithful=faithful))
    doc = json.loads(json.dumps(result.trace.to_dict(), allow_nan=False))
    assert doc["counts"] == result.trace.counts
    assert sum(r["questions"] for r in doc["rounds"]) == len(doc["questions"]) == sum(doc["counts"].values())
    assert doc["cost"]["prompt"] == 100 * (doc["counts"]["GradeImage"] - 1)
    assert doc["cost"]["calls"] == doc["counts"]["GradeImage"] - 1 + 3
    assert [q["round"] for q in doc["questions"]] == sorted(q["round"] for q in doc["questions"])
    assert doc["limits"] == {
        "seconds": None,
        "calls": None,
        "used_seconds": doc["limits"]["used_seconds"],
        "used_calls": len(doc["questions"]),
        "ran_out": None,
    }
    assert doc["leaves"][1]["images"][0]["findings"] == [{"topic": "shape", "verdict": "agrees", "text": "round"}]
    assert [image["best"] for image in doc["leaves"][1]["images"]] == [True] * 8
    assert doc["tie"]["grade"] == 8
    assert all(q["by"] == ("s" if q["error"] is None else None) for q in doc["questions"])


def test_saved_rounds_are_those_that_the_papers_order_takes_more() -> None:
    for seed in range(12):
        table = Table(seed, grades=1 + seed % 8)
        quick, slow = (find(table.judge(), replace(THREE, faithful=f)).trace for f in (False, True))
        assert slow.saved_rounds == 0
        assert len(slow.rounds) == len(slow.questions)
        if all(r.questions for r in quick.rounds) and quick.counts.get("ExpandSearch", 0) <= 1:
            assert quick.saved_rounds == len(slow.rounds) - len(quick.rounds)


def test_always_the_same_grade_is_reported() -> None:
    result = find(scripted(grade=graded(lambda c: 3)))
    assert result.trace.suspicions == ("all 24 pictures have the grade 3",)
    assert find(scripted(grade=graded(lambda c: 3 + (c == RANKING.candidates[0])))).trace.suspicions == ()
    few = cell(1, 2, 2)
    assert search(few, QUERY, scripted(grade=graded(lambda c: 3)), ranked(few)).trace.suspicions == ()


def test_the_perceptual_judge_searches_without_a_vlm() -> None:
    calibration = learn(INDEX)
    right = 0
    for row in range(0, len(INDEX), 7):
        query = Query(INDEX.vectors[row])
        ranking = rank(INDEX, query, calibration, exclude=frozenset({INDEX.ids[row]}))
        results = [
            search(INDEX, query, PerceptualJudge(calibration), ranking, SearchParams(faithful=f, first_look=False))
            for f in (False, True)
        ]
        first, second = (r.case.case.id if r.case else None for r in results)
        assert first == second
        assert INDEX.ids[row] not in {i.candidate.case.id for leaf in results[0].trace.leaves for i in leaf.images}
        right += results[0].case is not None and results[0].case.case.device == INDEX.cases[row].device
    assert right >= 5


def failing(*errors: VlmError | None) -> tuple[ScriptedJudge, list[VlmError | None]]:
    """Grades 0, but for these errors in turn; and the errors that are left."""
    left = list(errors)
    grade_0 = graded({})

    def grade(query: Query, candidate: Candidate) -> Grade:
        if left and (error := left.pop(0)) is not None:
            raise error
        return grade_0(query, candidate)

    return scripted(grade=grade), left


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_refusal_for_good_ends_the_asking(status: int) -> None:
    def refuses(query: Query, candidate: Candidate) -> BoolGrade:
        raise Refused(f"http://h/v1 answered {status}", status=status)

    judge = scripted(bool_grade=refuses)
    result = find(judge)
    assert judge.asked == ["bool_grade"]
    assert (result.verified, result.case) == (False, RANKING.candidates[0])
    assert f"no more is asked after Refused: http://h/v1 answered {status}" in result.reason
    assert result.trace.limits.ran_out is not None


def test_a_refusal_of_one_request_does_not_end_it() -> None:
    judge, _ = failing(Refused("answered 400", status=400), Refused("a filter"))
    assert find(judge).trace.limits.ran_out is None


@pytest.mark.parametrize("concurrency", [1, 2])
def test_no_server_three_times_in_a_row_ends_the_asking(concurrency: int) -> None:
    down = Unreachable("no connection")
    judge, _ = failing(*[down] * 99)
    result = find(judge, replace(THREE, concurrency=concurrency))
    assert judge.asked.count("grade") <= 3 + concurrency - 1
    assert result.trace.limits.ran_out == "no more is asked after Unreachable: no connection"


def test_a_server_that_comes_back_is_asked_on() -> None:
    down = Unreachable("no connection")
    judge, left = failing(down, down, None, down, down, None)
    assert find(judge, replace(THREE, concurrency=1)).trace.limits.ran_out is None
    assert left == []


@pytest.mark.parametrize(("name", "most"), [("n", 10_000), ("concurrency", 1000)])
def test_what_would_exhaust_the_machine_is_refused(name: str, most: int) -> None:
    SearchParams(**{name: most})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"{name} of the search is {most + 1}; valid: 1 to {most}"):
        SearchParams(**{name: most + 1})  # type: ignore[arg-type]


def test_faithful_on_the_command_line_is_the_papers_own_parameters() -> None:
    assert search_params((), True, 7) == replace(PAPER, concurrency=7)
    assert search_params(["faithful=on"], False, 32) == PAPER
    assert search_params(["both-orders=on"], True, 32) == replace(PAPER, both_orders=True)
    assert search_params((), False, 32) == SearchParams()
    with pytest.raises(InputError, match="valid: 1 to 1000"):
        search_params(["concurrency=100000"], False, 7)
