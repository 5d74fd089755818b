"""Corrections, undo, the knowledge tree and its edits: nothing is lost, nothing is merged by accident."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sagehand.cases.base import CaseBase
from sagehand.cases.case import CaseDraft, parse_row, same_label
from sagehand.embed import EmbedderIdentity
from sagehand.errors import CaseConflict, InputError, LabelError, NoSuchCase, StoreError

IDENTITY = EmbedderIdentity("hash", "r", 4, "p")


def pixel_id(number: int) -> str:
    return hashlib.md5(b"%d" % number).hexdigest()


def draft(number: int, **row: Any) -> CaseDraft:
    vector = np.random.default_rng(number).normal(size=4)
    full = {"file_name": f"{number}.png", "family": "phone", "device": "a", **row}
    line = json.dumps(full, separators=(",", ":"))
    return CaseDraft(b"%d" % number, pixel_id(number), (vector / np.linalg.norm(vector)).astype(np.float32), full, line)


@pytest.fixture
def base() -> Any:
    with CaseBase.in_memory(IDENTITY) as made:
        made.add_many([draft(n, step=1 + n // 2, state=f"state {1 + n // 2}", note=n) for n in range(6)])
        yield made


def steps(base: CaseBase, family: str = "phone", device: str = "a") -> list[tuple[int | None, str | None, int]]:
    return [(step.number, step.name, step.cases) for step in base.tree().steps(family, device)]


ALL = [(1, "state 1", 2), (2, "state 2", 2), (3, "state 3", 2)]


def test_correct_keeps_order_and_unknown_keys_and_drops_the_line(base: CaseBase) -> None:
    number = pixel_id(3)
    case = base.correct(number[:8], {"next_action": "pry", "step": 7, "state": None}, reason="looked again")
    assert (case.step, case.state, case.next_action, case.extra) == (7, None, "pry", {"note": 3})
    assert list(base.row(number)) == ["file_name", "family", "device", "step", "note", "next_action"]
    assert base.line(number) is None
    entry = base.log(1)[0]
    assert (entry.operation, entry.reason, entry.case_id) == ("correct", "looked again", number)
    assert entry.changes() == {"step": (2, 7), "state": ("state 2", None), "next_action": (None, "pry")}
    base.undo()
    assert base.line(number) == draft(3, step=2, state="state 2", note=3).line
    assert base.get(number).step == 2


def test_a_correction_that_changes_nothing_is_not_logged(base: CaseBase) -> None:
    revision = base.revision
    base.correct(pixel_id(1), {"step": 1, "place": None})
    assert base.revision == revision
    assert base.line(pixel_id(1)) is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"step": -1}, "field 'step' is -1"),
        ({"is_last": "yes"}, "valid: true or false"),
        ({"device": None}, "'device' is missing"),
        ({"next_acton": "pry"}, "did you mean 'next_action'"),
        ({"note": float("nan")}, "not plain JSON"),
    ],
)
def test_a_bad_correction_changes_nothing(base: CaseBase, changes: dict[str, Any], said: str) -> None:
    before = (base.revision, base.row(pixel_id(1)))
    with pytest.raises(LabelError, match=said):
        base.correct(pixel_id(1), changes)
    assert (base.revision, base.row(pixel_id(1))) == before


def test_retire_and_revive(base: CaseBase) -> None:
    number = pixel_id(0)
    assert base.retire(number, reason="blurred").retired
    assert len(base) == len(base.index()) == len(base.cases()) == 5
    assert len(base.cases(retired=True)) == 6
    assert base.get(number).retired
    with pytest.raises(StoreError, match="retired already"):
        base.retire(number)
    revived = base.add(CaseDraft(b"other bytes", number, draft(0).vector, {"family": "phone", "device": "b"}))
    assert (revived.device, revived.retired, base.image(number)) == ("b", False, b"other bytes")
    base.undo()
    assert base.get(number).retired
    assert base.image(number) == b"0"  # the bytes from before were never thrown away
    base.undo()
    assert base.get(number).device == "a"
    assert len(base.index()) == 6


def test_undo_goes_back_step_by_step_and_logs_itself(base: CaseBase) -> None:
    base.correct(pixel_id(0), {"step": 5})
    base.correct(pixel_id(0), {"step": 6})
    base.undo()
    assert base.get(pixel_id(0)).step == 5
    assert base.log(1)[0].operation == "undo"
    base.correct(pixel_id(0), {"step": 8})
    assert [entry.changes()["step"] for entry in base.undo(2)] == [(8, 5), (5, 1)]
    with pytest.raises(StoreError, match="only 1 changes stand"):
        base.undo(2)
    assert len(base.undo()) == 6
    assert len(base) == 0
    with pytest.raises(StoreError, match="nothing is left to undo"):
        base.undo()
    with pytest.raises(InputError, match="valid: 1 or more"):
        base.undo(0)


def test_as_of_gives_back_every_revision(base: CaseBase) -> None:
    seen = {}
    for change in (
        lambda: base.correct(pixel_id(0), {"place": "vise"}),
        lambda: base.retire(pixel_id(1)),
        lambda: base.insert_step("phone", "a", 2, "new"),
        lambda: base.rename_device("phone", "a", "b"),
        lambda: base.undo(2),
        lambda: base.add(draft(9)),
    ):
        change()
        seen[base.revision] = {case.id: base.row(case.id) for case in base.cases()}
    assert {revision: base.as_of(revision) for revision in seen} == seen
    assert base.as_of(0) == {}
    assert len(base.as_of(3)) == 3


def test_insert_step_shifts_what_comes_after(base: CaseBase) -> None:
    assert base.insert_step("phone", "a", 2, "new") == 4
    assert steps(base) == [(1, "state 1", 2), (2, "new", 0), (3, "state 2", 2), (4, "state 3", 2)]
    assert base.insert_step("phone", "a", 5) == 0
    assert base.insert_step("phone", "a", 2) == 4
    assert steps(base)[1:4] == [(2, None, 0), (3, "new", 0), (4, "state 2", 2)]
    assert base.row(pixel_id(2))["note"] == 2
    assert base.line(pixel_id(0)) is not None
    assert base.line(pixel_id(2)) is None
    base.undo(3)
    assert steps(base) == ALL
    with pytest.raises(StoreError, match="ends with step 3"):
        base.insert_step("phone", "a", 9)


@pytest.mark.parametrize(
    ("step", "to", "order"),
    [(1, 3, [2, 3, 1]), (3, 1, [3, 1, 2]), (1, 2, [2, 1, 3]), (2, 2, [1, 2, 3])],
)
def test_move_step(base: CaseBase, step: int, to: int, order: list[int]) -> None:
    revision = base.revision
    base.move_step("phone", "a", step, to)
    assert [name for _, name, _ in steps(base)] == [f"state {number}" for number in order]
    assert [number for number, _, _ in steps(base)] == [1, 2, 3]
    assert (base.revision == revision) == (step == to)
    if step != to:
        base.undo()
        assert steps(base) == ALL


def test_rename_step_renames_its_cases_and_its_declaration(base: CaseBase) -> None:
    base.insert_step("phone", "a", 2, "new")
    assert base.rename_step("phone", "a", 2, "empty") == 0
    assert base.rename_step("phone", "a", 3, "open") == 2
    assert steps(base)[1:3] == [(2, "empty", 0), (3, "open", 2)]
    assert base.row(pixel_id(2))["state"] == "open"
    with pytest.raises(NoSuchCase, match="has no step 9; its steps: 1, 2, 3, 4"):
        base.rename_step("phone", "a", 9, "x")
    with pytest.raises(LabelError, match="'state'"):
        base.rename_step("phone", "a", 2, "  ")


def test_devices_and_families_are_renamed_and_never_merged(base: CaseBase) -> None:
    base.add_many([draft(20, device="b"), draft(21, family="radio", device="a"), draft(22, family="radio", device="c")])
    base.insert_step("phone", "a", 2, "new")
    for clash, said in (
        (lambda: base.rename_device("phone", "a", "b"), "has a device 'b' already"),
        (lambda: base.move_device("phone", "a", "radio"), "has a device 'a' already"),
        (lambda: base.rename_family("radio", "phone"), "a family 'phone' already"),
    ):
        with pytest.raises(StoreError, match=said):
            clash()
    assert base.rename_device("phone", "a", "z") == 6
    assert steps(base, "phone", "z")[1] == (2, "new", 0)
    assert base.move_device("phone", "z", "radio") == 6
    assert base.rename_family("radio", "set") == 8
    tree = base.tree()
    assert (tree.families(), tree.devices("set")) == (["phone", "set"], ["a", "c", "z"])
    assert steps(base, "set", "z")[1] == (2, "new", 0)
    base.undo(4)
    assert base.tree().devices("radio") == ["a", "c"]
    assert steps(base) == ALL
    assert base.rename_device("phone", "b", "b") == 0


@pytest.mark.parametrize("name", ["insert_step", "move_step", "rename_step", "rename_device", "move_device"])
def test_edits_of_what_is_not_there_name_what_is(base: CaseBase, name: str) -> None:
    rest: dict[str, tuple[Any, ...]] = {"insert_step": (1,), "move_step": (1, 2), "rename_step": (1, "x")}
    with pytest.raises(NoSuchCase, match=r"no device in family 'phone' called 'aa'; known: a"):
        getattr(base, name)("phone", "aa", *rest.get(name, ("x",)))
    with pytest.raises(NoSuchCase, match=r"no family called 'phon'; known: phone .*did you mean 'phone'"):
        getattr(base, name)("phon", "a", *rest.get(name, ("x",)))


def test_the_tree_says_what_is_there_and_what_is_thin(base: CaseBase) -> None:
    base.add_many([draft(20, step=4, next_action="pry"), draft(21, step=4, next_action="cut"), draft(22, device="b")])
    base.insert_step("phone", "b", 1, "to come")
    tree = base.tree()
    assert tree.device("phone", "a").steps[3].next_actions == ("cut", "pry")
    assert [(thin.device, thin.step.number) for thin in tree.thin()] == [("b", 1), ("b", None)]
    assert (tree.nodes[0].cases, tree.device("phone", "b").cases, tree.revision) == (9, 1, base.revision)
    assert json.loads(json.dumps(tree.to_dict()))["families"][0]["devices"][1]["steps"][0]["name"] == "to come"
    with pytest.raises(NoSuchCase, match="did you mean 'phone'"):
        tree.devices("phones")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"device": "a"}, "'family' is missing"),
        ({"family": "", "device": "a"}, "field 'family' is ''"),
        ({"family": "p", "device": "a\nb"}, "on one line"),
        ({"family": "p", "device": 3}, "field 'device' is 3"),
        ({"family": "p", "device": "a", "step": True}, "field 'step' is True"),
        ({"family": "p", "device": "a", "step": 1.5}, "field 'step' is 1.5"),
        ({"family": "p", "device": "a", "step": "two"}, "field 'step' is 'two'"),
        ({"family": "p", "device": "a", "step": 10**30}, "whole number from 0"),
        ({"family": "p", "device": "a", "is_last": 1}, "valid: true or false"),
        ({"family": "p", "device": "a", "history": "pry"}, "a list of action names"),
        ({"family": "p", "device": "a", "history": ["none"]}, "'none', which is no action"),
        ({"family": "p", "device": "a", "next_action": "none"}, "'none', which is no action"),
        ({"family": "p", "device": "a", "polygon": [[0, 0], [1, 1]]}, "three or more"),
        ({"family": "p", "device": "a", "polygon": [[0, 0], [1, 1], [2, float("1e300")]]}, "three or more"),
        ({"family": "p", "device": "a", "polygon": [[0, 0], [1, 1], [2]]}, "three or more"),
        ({"family": "p", "device": "a", "note": float("inf")}, "not plain JSON"),
        ({"family": "p", "device": "a", "note": {1, 2}}, "not plain JSON"),
        ({"family": "p", "device": "a", "note": "\ud800"}, "surrogate"),
        ({"family": "p", "device": "a", "file_name": "a\0b"}, "the name of a file"),
        ({"family": "p", "device": "a", 3: 4}, "keys must be text"),
        ([], "must be a mapping"),
    ],
)
def test_bad_rows_name_field_value_and_what_is_valid(row: Any, said: str) -> None:
    with pytest.raises(LabelError, match=said):
        parse_row(row)


def test_a_row_is_read_as_written() -> None:
    row = {"family": " ge\u0308rat ", "device": "a", "step": "3", "previous_action": "none", "history": [], "polygon":
           [[0, 0], [4.5, 0], [4, 3]], "state": None, "colour": ["x"], "depth_file_name": "d.png"}  # fmt: skip
    fields = parse_row(row)
    assert (fields["family"], fields["step"], fields["previous_action"]) == ("gërat", 3, "none")
    assert (fields["history"], fields["state"], fields["file_name"]) == ((), None, "")
    assert fields["polygon"] == ((0.0, 0.0), (4.5, 0.0), (4.0, 3.0))
    assert fields["extra"] == {"colour": ["x"]}
    assert same_label(row, {**row, "family": "gërat", "file_name": "x.png", "colour": 1})
    assert not same_label(row, {**row, "place": "vise"})


class Editing(RuleBasedStateMachine):
    """Random work on a case base beside a model of plain dictionaries; undo restores the model's own snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "cases"
        self.base = CaseBase.create(self.file, embedder=IDENTITY)
        self.rows: dict[str, dict[str, Any]] = {}
        self.retired: set[str] = set()
        self.before: list[tuple[dict[str, dict[str, Any]], set[str]]] = []

    def teardown(self) -> None:
        self.base.close()
        self.folder.cleanup()

    def active(self) -> list[str]:
        return sorted(set(self.rows) - self.retired)

    def remember(self) -> None:
        self.before.append(({key: dict(row) for key, row in self.rows.items()}, set(self.retired)))

    @rule(
        numbers=st.lists(st.integers(0, 9), min_size=1, max_size=3),
        device=st.sampled_from("ab"),
        step=st.integers(1, 3),
    )
    def add(self, numbers: list[int], device: str, step: int) -> None:
        snapshot = ({key: dict(row) for key, row in self.rows.items()}, set(self.retired))
        changed = False
        drafts = [draft(n, device=device, step=step) for n in numbers]
        for new, result in zip(drafts, self.base.add_many(drafts), strict=True):
            there = new.pixel_id in self.active()
            assert isinstance(result, CaseConflict) == there
            if not there:
                self.rows[new.pixel_id] = dict(new.row)
                self.retired.discard(new.pixel_id)
                changed = True
        if changed:
            self.before.append(snapshot)

    @precondition(lambda self: self.active())
    @rule(data=st.data(), place=st.sampled_from(["vise", "table"]))
    def correct(self, data: st.DataObject, place: str) -> None:
        case_id = data.draw(st.sampled_from(self.active()))
        if self.rows[case_id].get("place") != place:
            self.remember()
        self.base.correct(case_id, {"place": place})
        self.rows[case_id]["place"] = place

    @precondition(lambda self: self.active())
    @rule(data=st.data())
    def retire(self, data: st.DataObject) -> None:
        case_id = data.draw(st.sampled_from(self.active()))
        self.remember()
        self.base.retire(case_id)
        self.retired.add(case_id)

    @precondition(lambda self: self.active())
    @rule(data=st.data())
    def insert_step(self, data: st.DataObject) -> None:
        device = self.rows[data.draw(st.sampled_from(self.active()))]["device"]
        self.remember()
        self.base.insert_step("phone", device, 1)
        for case_id in self.active():
            if self.rows[case_id]["device"] == device:
                self.rows[case_id]["step"] += 1

    @precondition(lambda self: self.active())
    @rule(data=st.data(), to=st.sampled_from("abc"))
    def rename(self, data: st.DataObject, to: str) -> None:
        device = self.rows[data.draw(st.sampled_from(self.active()))]["device"]
        if to == device:
            return
        try:
            self.base.rename_device("phone", device, to)
        except StoreError:
            assert to in {device.name for family in self.base.tree().nodes for device in family.devices}
            return
        self.remember()
        for case_id in self.active():
            if self.rows[case_id]["device"] == device:
                self.rows[case_id]["device"] = to

    @precondition(lambda self: self.before)
    @rule()
    def undo(self) -> None:
        known = set(self.rows)
        self.base.undo()
        rows, retired = self.before.pop()
        # what was new is retired, not gone
        self.retired = retired | (known - set(rows))
        self.rows = {**{key: self.rows[key] for key in known - set(rows)}, **rows}

    @rule()
    def open_again(self) -> None:
        self.base.close()
        self.base = CaseBase.open(self.file)

    @invariant()
    def agrees(self) -> None:
        cases = self.base.cases(retired=True)
        assert {case.id: self.base.row(case.id) for case in cases} == self.rows
        assert {case.id for case in cases if case.retired} == self.retired
        assert sorted(self.base.index().ids) == self.active()
        assert self.base.as_of(self.base.revision) == {key: self.rows[key] for key in self.active()}
        by_place = {case.id: case.place for case in cases}
        assert by_place == {key: row.get("place") for key, row in self.rows.items()}


TestEditing = Editing.TestCase
TestEditing.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/etc/a.png", "absolute path"),
        ("../a.png", "leads out of the folder"),
        ("a/", "names a folder"),
        ("2.png", "is taken by case"),
        ("./2.png", "is taken by case"),
    ],
)
def test_a_file_name_is_checked_as_an_import_does(base: CaseBase, name: str, said: str) -> None:
    revision = base.revision
    with pytest.raises(InputError, match=said):
        base.correct(pixel_id(1), {"file_name": name})
    assert base.revision == revision


def test_a_file_name_may_stay_go_to_a_free_name_or_to_that_of_a_retired_case(base: CaseBase) -> None:
    base.correct(pixel_id(1), {"file_name": "1.png", "place": "vise"})
    base.retire(pixel_id(2))
    for name in ("new/1.png", "2.png", None):
        base.correct(pixel_id(1), {"file_name": name})
    with pytest.raises(LabelError, match="leads out"):
        base.correct(pixel_id(1), {"depth_file_name": "../d.png"})


def test_what_changes_nothing_leaves_nothing_to_undo(base: CaseBase) -> None:
    base.correct(pixel_id(1), {"place": "vise"})
    revision = base.revision
    base.correct(pixel_id(1), {"place": "vise"})
    base.rename_device("phone", "a", "a")
    base.rename_family("phone", "phone")
    base.move_device("phone", "a", "phone")
    base.rename_step("phone", "a", 1, "state 1")
    base.move_step("phone", "a", 2, 2)
    assert base.revision == revision
    base.undo()
    assert base.get(pixel_id(1)).place is None
