"""What the steps of a device say about the fields that a case leaves out."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.cases.case import Case, parse_row
from sagehand.cases.derive import DERIVABLE, fill


def case(step: int | None, name: str = "", **fields: Any) -> Case:
    row = {"family": "phone", "device": "x", "step": step, **fields}
    return Case(id=name or f"case-{step}", box=None, has_depth=False, **parse_row(row))


def chain(*actions: str, **first: Any) -> list[Case]:
    """One case a step; step i + 1 was reached by actions[i]."""
    return [case(0, **first)] + [case(i, previous_action=a) for i, a in enumerate(actions, start=1)]


def test_neighbours_state_one_action_between_them() -> None:
    before, after = fill([case(1, next_action="unscrew"), case(2)])
    assert after.previous_action == "unscrew"
    assert after.derived == {"previous_action"}
    assert before.derived == {"end_state"}  # something remains
    before, _ = fill([case(1), case(2, previous_action="unscrew")])
    assert before.next_action == "unscrew"


def test_a_whole_device_from_its_previous_actions() -> None:
    cases = chain("open", "unscrew", "pry", previous_action="none")
    cases[-1] = replace(cases[-1], end_state=True)
    filled = fill(cases)
    assert [c.next_action for c in filled] == ["open", "unscrew", "pry", None]
    assert [c.history for c in filled] == [(), ("open",), ("open", "unscrew"), ("open", "unscrew", "pry")]
    assert [c.remaining_actions for c in filled] == [("open", "unscrew", "pry"), ("unscrew", "pry"), ("pry",), ()]
    assert [c.is_last for c in filled] == [False, False, True, False]
    assert [c.end_state for c in filled] == [False, False, False, True]
    assert filled[-1].derived == {"history", "remaining_actions", "is_last"}


def test_nothing_done_yet_is_never_derived() -> None:
    filled = fill([case(1, next_action="open"), case(2, next_action="end"), case(1, "twin", previous_action="none")])
    assert filled[0].previous_action is None
    assert filled[0].history is None
    assert filled[2].history == ()
    assert filled[1].history is None  # whether something was done before step 1 is not agreed


def test_no_history_where_work_was_done_before_the_first_picture() -> None:
    filled = fill(chain("open", "unscrew"))
    assert [c.history for c in filled] == [None, None, None]
    assert [c.next_action for c in filled] == ["open", "unscrew", None]


def test_nothing_remains_to_be_told_without_an_end() -> None:
    filled = fill(chain("open", "unscrew", previous_action="none"))
    assert [c.remaining_actions for c in filled] == [None, None, None]
    assert [c.is_last for c in filled] == [None, None, None]
    assert [c.end_state for c in filled] == [False, False, None]


def test_is_last_ends_the_chain_too() -> None:
    filled = fill([case(1, next_action="open"), case(2, next_action="pry", is_last=True)])
    assert [c.remaining_actions for c in filled] == [("open", "pry"), ("pry",)]


def test_a_gap_in_the_steps_breaks_the_chain() -> None:
    filled = fill([case(1, previous_action="none"), case(3, previous_action="pry", next_action="end")])
    assert filled[0].next_action is None
    assert filled[1].history is None
    assert filled[1].remaining_actions == ()


def test_two_cases_of_one_step_that_disagree_derive_nothing() -> None:
    cases = [case(1), case(2, "a", previous_action="pry"), case(2, "b", previous_action="lever"), case(2, "c")]
    filled = fill(cases)
    assert filled == cases
    filled = fill([case(1, "a", next_action="pry"), case(1, "b", next_action="lever"), case(2)])
    assert filled[2].previous_action is None


def test_neighbours_that_contradict_each_other_derive_nothing() -> None:
    filled = fill([case(1, next_action="pry"), case(1, "twin"), case(2, previous_action="lever"), case(2, "sister")])
    assert filled[1].next_action is None
    assert filled[3].previous_action is None


def test_remaining_actions_that_contradict_the_chain_derive_nothing() -> None:
    wrong = case(1, "wrong", next_action="open", remaining_actions=["open", "lever"])
    filled = fill([wrong, case(1, "twin"), case(2, next_action="pry", is_last=True)])
    assert filled[0].remaining_actions == ("open", "lever")
    assert filled[0].is_last is None
    assert filled[1].remaining_actions is None
    assert filled[1].next_action == "open"


def test_cases_of_one_step_fill_each_other_in() -> None:
    filled = fill([case(1, "a", next_action="pry", is_last=True), case(1, "b")])
    assert (filled[1].next_action, filled[1].is_last, filled[1].remaining_actions) == ("pry", True, ("pry",))


def test_given_lists_speak_for_the_single_actions() -> None:
    [lone] = fill([case(None, history=["open"], remaining_actions=["pry"])])
    assert (lone.previous_action, lone.next_action, lone.is_last, lone.end_state) == ("open", "pry", True, False)
    assert lone.derived == {"previous_action", "next_action", "is_last", "end_state"}


def test_cases_without_a_step_do_not_speak_for_one_another() -> None:
    cases = [case(None, "a", next_action="pry"), case(None, "b"), case(1)]
    assert fill(cases)[1:] == cases[1:]


def test_an_end_by_any_name() -> None:
    filled = fill([case(1, next_action="pry"), case(2, "a", next_action="finished", end_state=True), case(2, "b")])
    assert filled[0].remaining_actions == ("pry",)
    assert filled[0].is_last is True
    assert (filled[2].next_action, filled[2].end_state) == ("finished", True)
    filled = fill([case(1), case(2, remaining_actions=["pry", "end"]), case(3, next_action="end")])
    assert filled[1].is_last is True  # "end" is nothing to do


def test_one_wrong_label_does_not_make_an_action_an_end() -> None:
    cases = [case(1, next_action="pry"), case(2, previous_action="pry"), case(5, next_action="pry", end_state=True)]
    assert fill(cases)[0].end_state is False
    assert fill(cases)[0].remaining_actions is None


def test_a_step_after_the_end_is_another_story() -> None:
    filled = fill([case(1, next_action="end"), case(2, next_action="pry")])
    assert filled[1].previous_action is None
    assert filled[0].remaining_actions == ()


def test_devices_do_not_mix_and_retired_cases_say_nothing() -> None:
    other = replace(case(2, "other", previous_action="lever"), device="y")
    retired = replace(case(2, "retired", previous_action="lever"), retired=True)
    filled = fill([case(1), case(2, previous_action="pry"), other, retired])
    assert filled[0].next_action == "pry"
    assert filled[3] is retired


actions = st.sampled_from(["open", "pry", "end", "unscrew"])
lists = st.none() | st.lists(actions, max_size=3)
rows = st.fixed_dictionaries(
    {},
    optional={
        "step": st.integers(1, 4),
        "previous_action": st.none() | actions | st.just("none"),
        "next_action": st.none() | actions,
        "history": lists,
        "remaining_actions": lists,
        "is_last": st.none() | st.booleans(),
        "end_state": st.none() | st.booleans(),
    },
)


@settings(deadline=None, max_examples=150)
@given(given_rows=st.lists(rows, max_size=7), seed=st.integers(0, 99))
def test_given_values_never_change_and_order_does_not_matter(given_rows: list[dict[str, Any]], seed: int) -> None:
    cases = [case(row.pop("step", None), str(i), **row) for i, row in enumerate(map(dict, given_rows))]
    filled = fill(cases)
    for before, after in zip(cases, filled, strict=True):
        changed = {name for name in vars(before) if getattr(before, name) != getattr(after, name)} - {"derived"}
        assert changed == after.derived <= set(DERIVABLE)
        assert all(getattr(before, name) is None for name in changed)
        assert after.previous_action != "none" or before.previous_action == "none"
    assert fill(filled) == filled
    shuffled = random.Random(seed).sample(cases, len(cases))
    assert {c.id: c for c in fill(shuffled)} == {c.id: c for c in filled}


@settings(deadline=None, max_examples=80)
@given(path=st.lists(st.sampled_from(["open", "pry", "unscrew"]), max_size=5), data=st.data())
def test_what_is_left_out_of_a_true_record_is_never_filled_in_wrongly(path: list[str], data: st.DataObject) -> None:
    truth, bare = [], []
    for step in range(len(path) + 1):
        left = path[step:]
        whole = case(
            step,
            previous_action=path[step - 1] if step else "none",
            history=path[:step],
            next_action=left[0] if left else "end",
            remaining_actions=left,
            is_last=len(left) == 1,
            end_state=not left,
        )
        gone = data.draw(st.sets(st.sampled_from(DERIVABLE)))
        truth.append(whole)
        bare.append(replace(whole, **dict.fromkeys(gone)))  # type: ignore[arg-type]
    for true, found in zip(truth, fill(bare), strict=True):
        assert all(getattr(found, name) in (None, getattr(true, name)) for name in DERIVABLE)


@pytest.mark.parametrize(
    ("kept", "share"), [(("next_action", "is_last"), 1.0), (("remaining_actions",), 0.95), (("next_action",), 0.94)]
)
def test_the_labels_of_the_phones_come_back_from_a_part_of_them(
    phones: Path, kept: tuple[str, ...], share: float
) -> None:
    lines = (phones / "metadata.jsonl").read_text().splitlines()
    cases = [Case(id=str(i), box=None, has_depth=False, **parse_row(json.loads(x))) for i, x in enumerate(lines)]
    left_out = [name for name in DERIVABLE if name not in kept]
    bare = [
        replace(c, **{n: None for n in left_out if n != "previous_action" or c.previous_action != "none"})  # type: ignore[arg-type]
        for c in cases
    ]
    found = wanted = 0
    for true, bare_case, filled in zip(cases, bare, fill(bare), strict=True):
        for name in DERIVABLE:
            if getattr(true, name) is None or getattr(bare_case, name) is not None:
                continue
            wanted += 1
            assert getattr(filled, name) in (None, getattr(true, name)), (true.device, true.step, name)
            found += getattr(filled, name) is not None
    assert found / wanted >= share


def test_the_first_step_of_a_phone_that_was_opened_before_stays_unknown(phones: Path) -> None:
    lines = (phones / "metadata.jsonl").read_text().splitlines()
    cases = [Case(id=str(i), box=None, has_depth=False, **parse_row(json.loads(x))) for i, x in enumerate(lines)]
    opened = [c for c in fill(cases) if c.device == "blackberry_9300"]
    assert [c.previous_action for c in opened if c.step == 1] == [None]
    assert {c.history for c in opened} == {None}
