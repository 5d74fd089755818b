"""Leaving out means leaving out: nothing of a query, its near-duplicates, group or device teaches its answer."""

from __future__ import annotations

import numpy as np
import pytest

from builders import base_of, draft, near, separable, unit
from sagehand.cases import Index
from sagehand.judge.calibration import Calibration, learn
from sagehand.judge.leaveout import crossfit, gather


@pytest.mark.parametrize("leave_out", ["case", "device"])
@pytest.mark.parametrize("drawn", [False, True])
def test_the_own_unit_is_never_a_candidate(leave_out: str, drawn: bool) -> None:
    index = separable().index()
    pairs = gather(index, leave_out, drawn=drawn)
    assert len(pairs.rows) == 36
    for query, row in enumerate(pairs.rows):
        cases = pairs.cases[query][pairs.present[query]]
        assert row not in cases
        if leave_out == "device":
            assert len(cases) == 24
            assert all(index.cases[int(c)].device != index.cases[int(row)].device for c in cases)


def test_group_and_near_duplicates_belong_to_the_unit_transitively() -> None:
    rng = np.random.default_rng(0)
    close = [unit([1, 0.0]), unit([1, 0.12]), unit([1, 0.24])]  # neighbours above 0.99, the ends below it
    assert close[0] @ close[2] < 0.99 < close[0] @ close[1]
    rows = [{"family": "f", "device": "d", "next_action": "a"} for _ in range(6)]
    rows[3]["group"] = rows[4]["group"] = "g"
    vectors = [*close, near([0, 0, 3], 0.5, rng), near([0, 0, 0, 3], 0.5, rng), near([0, 0, 0, 0, 3], 0.5, rng)]
    index = base_of([draft(str(i), v, r) for i, (v, r) in enumerate(zip(vectors, rows, strict=True))]).index()
    pairs = gather(index, "case")
    by_name = {index.cases[row].file_name: pairs.unit[row] for row in range(6)}
    assert by_name["0"] == by_name["1"] == by_name["2"]
    assert by_name["3"] == by_name["4"]
    assert len(set(by_name.values())) == 3
    assert len({(pairs.unit[r], int(pairs.fold[r])) for r in range(6)}) == 3


def test_leaving_out_devices_leaves_out_twins_on_other_devices_too() -> None:
    rng = np.random.default_rng(0)
    drafts = []
    for i in range(12):
        vector = near(np.eye(8)[i % 6], 0.4, rng)
        for device in range(2):
            twin = near(vector, 0.005, rng) if i % 2 else near(np.eye(8)[i % 6], 0.4, rng)
            row = {"family": "f", "device": f"d{(i + 3 * device) % 6}", "next_action": f"a{i % 3}", "group": f"g{i}"}
            drafts.append(draft(f"{i}-{device}", twin if i % 2 else vector if not device else twin, row))
    index = base_of(drafts).index()
    pairs = gather(index, "device")
    for query, row in enumerate(pairs.rows):
        own = index.cases[int(row)]
        for case in pairs.cases[query][pairs.present[query]]:
            other = index.cases[int(case)]
            assert other.group != own.group
            assert other.device != own.device
            assert index.vectors[int(case)] @ index.vectors[int(row)] < 0.99


@pytest.mark.parametrize("leave_out", ["case", "device"])
def test_the_weights_of_a_fold_do_not_know_its_labels(leave_out: str) -> None:
    index = separable().index()
    pairs = gather(index, leave_out)
    honest = {tuple(f.queries): f.weights for f in crossfit(pairs)}
    first = next(iter(honest))
    rows = pairs.rows[list(first)]
    lied = pairs.next_action.copy()
    lied[rows] = (lied[rows] + 1) % lied.max()
    from dataclasses import replace

    changed = {tuple(f.queries): f.weights for f in crossfit(replace(pairs, next_action=lied))}
    np.testing.assert_array_equal(honest[first], changed[first])
    assert any(not np.array_equal(honest[k], changed[k]) for k in honest if k != first)


def test_a_case_without_a_next_action_is_present_but_speaks_for_no_action() -> None:
    rng = np.random.default_rng(0)
    rows = [{"family": "f", "device": f"d{i % 2}", **({} if i < 2 else {"next_action": "a"})} for i in range(6)]
    index = base_of([draft(str(i), near([i % 2, 1], 0.6, rng), r) for i, r in enumerate(rows)]).index()
    pairs = gather(index, "case")
    assert len(pairs.rows) == 4
    assert {int(c) for c in pairs.cases[pairs.present]} == set(range(6))
    assert {index.cases[int(c)].next_action for c in pairs.cases[pairs.labelled]} == {"a"}
    assert all((fold.belief[~pairs.labelled[fold.queries]] == 0).all() for fold in crossfit(pairs))


def test_context_is_learnt_where_it_tells_the_action() -> None:
    calibration = learn(separable().index())
    weights = dict(zip(("picture", "previous", "place", "depth"), calibration.weights, strict=True))
    assert weights["previous"] > 2 > weights["picture"]
    assert calibration.accuracy == 1.0
    assert len(calibration.usual) == 36
    assert list(calibration.usual) == sorted(calibration.usual)


def test_a_calibration_survives_storage_and_knows_when_it_is_stale() -> None:
    base = separable()
    learnt = learn(base.index(), "device")
    base.set_calibration(learnt.to_dict())
    again = Calibration.from_dict(base.calibration() or {})
    assert again == learnt
    assert not again.stale(base.revision)
    base.retire(base.cases()[0].id)
    assert again.stale(base.revision)
    assert Calibration.from_dict({**learnt.to_dict(), "weights": {}}).stale(base.revision)
    for damaged in (None, "three", [3]):
        assert Calibration.from_dict({**learnt.to_dict(), "recipe": damaged}).stale(base.revision)
    older = Calibration.from_dict({"recipe": 1, "leave_out": "device", "weights": "as they were once"})
    assert older.stale(-1)
    assert (older.leave_out, older.queries) == ("device", 0)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_cases_keep_the_prior(count: int) -> None:
    drafts = [draft(str(i), unit([1, i]), {"family": "f", "device": "d", "next_action": f"a{i}"}) for i in range(count)]
    index: Index = base_of(drafts).index()
    assert learn(index).weights == (1.0, 1.0, 1.0, 1.0)
