"""The demo cell's library: every demo sequence is allowed step by step, and the dangerous short cuts are not."""

from __future__ import annotations

import json
from importlib.resources import as_file, files

import pytest

from sagehand.action.guard import check_actions, conflicts, know
from sagehand.action.library import ActionLibrary

SEQUENCES = {
    ("smoke_detector", "kalo"): [
        "place_in_vise", "lever", "place_in_cnc", "cnc_cut_battery_contacts", "remove_battery_by_wiggling", "end",
    ],
    ("smoke_detector", "fumonic"): [
        "place_in_cnc", "cnc_cut_circular", "cnc_cut_battery_contacts", "remove_battery_by_wiggling", "end",
    ],
    ("heat_cost_allocator", "qundis"): [
        "place_in_vise", "lever", "place_in_cnc", "cnc_cut_rectangular", "remove_battery_by_wiggling", "end",
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def cell() -> ActionLibrary:
    with as_file(files("sagehand") / "demo" / "cell" / "actions.yaml") as path:
        return ActionLibrary.load(path)


def valid(cell: ActionLibrary, history: list[str], family: str = "smoke_detector") -> set[str]:
    return set(check_actions(cell, know(cell, history=history), family=family).valid)


def test_the_library_has_the_papers_eight_actions_and_end(cell: ActionLibrary) -> None:
    assert set(cell.actions) == {
        "place_in_cnc", "place_in_vise", "lever", "pneumatic_cut", "cnc_cut_rectangular", "cnc_cut_circular",
        "cnc_cut_battery_contacts", "remove_battery_by_wiggling", "end",
    }  # fmt: skip
    assert cell.families == ("smoke_detector", "heat_cost_allocator")
    assert cell.warnings == ()
    confirmed = {name for name, action in cell.actions.items() if action.confirm}
    assert confirmed == {"pneumatic_cut", "cnc_cut_rectangular", "cnc_cut_battery_contacts"}


@pytest.mark.parametrize(("family", "device"), SEQUENCES)
def test_each_sequence_is_allowed_step_by_step(cell: ActionLibrary, family: str, device: str) -> None:
    sequence = SEQUENCES[family, device]
    for i, action in enumerate(sequence):
        done = sequence[:i]
        knowledge = know(cell, previous=done[-1] if done else "none", history=done)
        assert knowledge.notes == ()
        assert action in check_actions(cell, knowledge, family=family).valid, (device, done)
        alone = know(cell, previous=done[-1] if done else "none")
        assert action in check_actions(cell, alone, family=family).valid, (device, done)


@pytest.mark.parametrize(("family", "device"), SEQUENCES)
def test_a_whole_history_leaves_few_actions_to_confuse(cell: ActionLibrary, family: str, device: str) -> None:
    sequence = SEQUENCES[family, device]
    left = [len(valid(cell, sequence[:i], family)) for i in range(len(sequence))]
    assert max(left) <= 4
    assert valid(cell, sequence[:-1], family) == {"end"}


def test_a_closed_device_keeps_its_battery(cell: ActionLibrary) -> None:
    verdicts = check_actions(cell, know(cell, previous="none"), family="smoke_detector")
    assert set(verdicts.valid) == {"place_in_cnc", "place_in_vise", "pneumatic_cut"}
    assert verdicts.ruled_out["remove_battery_by_wiggling"] == (
        "needs on_table to be false, but it was true at the start; "
        "needs closed to be false, but it was true at the start; "
        "needs contacts_connected to be false, but it was true at the start"
    )
    assert verdicts.ruled_out["end"] == "needs battery_in to be false, but it was true at the start"


def test_before_and_after_the_contact_cut_the_previous_action_alone_tells_them_apart(cell: ActionLibrary) -> None:
    """Paper A §4.6: the two pictures look the same, and retrieval ignores the previous action."""
    before = check_actions(cell, know(cell, previous="place_in_cnc")).valid
    after = check_actions(cell, know(cell, previous="cnc_cut_battery_contacts")).valid
    assert "cnc_cut_battery_contacts" in before
    assert "remove_battery_by_wiggling" not in before
    assert "cnc_cut_battery_contacts" not in after
    assert "remove_battery_by_wiggling" in after


def test_levering_needs_the_vise_and_milling_the_cnc(cell: ActionLibrary) -> None:
    in_cnc, in_vise = valid(cell, ["place_in_cnc"]), valid(cell, ["place_in_vise"])
    mills = {"cnc_cut_circular", "cnc_cut_rectangular"}
    assert mills <= in_cnc
    assert not mills & in_vise
    assert "lever" in in_vise
    assert "lever" not in in_cnc
    assert "place_in_vise" not in in_vise
    assert "place_in_cnc" not in in_cnc


def test_a_circular_cut_is_for_smoke_detectors(cell: ActionLibrary) -> None:
    verdicts = check_actions(cell, know(cell, history=["place_in_cnc"]), family="heat_cost_allocator")
    assert verdicts.ruled_out["cnc_cut_circular"] == "is for smoke_detector, not heat_cost_allocator"


def test_the_labels_of_the_demo_pictures_do_not_conflict(cell: ActionLibrary) -> None:
    rows = files("sagehand") / "demo" / "cell" / "metadata.jsonl"
    if not rows.is_file():
        pytest.skip("the demo pictures are not made yet")
    labels = [json.loads(line) for line in rows.read_text().splitlines()]
    keys = ("file_name", "previous_action", "history", "next_action", "family")
    assert conflicts(cell, [tuple(row.get(key) for key in keys) for row in labels]) == []
    assert {(row["family"], row["device"]) for row in labels} == set(SEQUENCES)
