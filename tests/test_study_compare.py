"""``study compare``: pairing, counting and words, on records made by hand (paper A §3.2.1, SPEC A7)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from sagehand.cli import study_compare
from sagehand.errors import InputError, UnknownName
from sagehand.study.report.compare import compare, compare_all, compare_records, mark_of
from sagehand.study.report.compare_words import notes
from sagehand.study.report.refs import ArmRecords, read_refs
from sagehand.study.run.plan import Arm, Plan
from sagehand.study.run.record import Record

pytest.importorskip("statsmodels")

ARMS = ("nearest", "context", "perceptual")


def record(arm: str, right: bool, item: int = 0, *, seed: int = 0, **more: Any) -> Record:
    """One record; items 4 k to 4 k + 3 are views of step k + 1."""
    step = item // 4 + 1
    truth = {"next_action": "lever", "family": "detector", "device": "d1", "step": step, "is_last": None}
    answer = {"next_action": "lever" if right else "place_in_vise"}
    return replace(
        Record(arm, seed, 0, f"{item:03}.png", "query", truth, answer, {"next_action": right, "is_last": None}), **more
    )


def marked(arm: str, marks: str, *, seed: int = 0, **more: Any) -> list[Record]:
    """Records from a word of 1 (right) and 0 (wrong)."""
    return [record(arm, mark == "1", i, seed=seed, **more) for i, mark in enumerate(marks)]


def held(*records: Iterable[Record], **more: Any) -> list[ArmRecords]:
    """Arms in memory, as :func:`compare_records` takes them."""
    columns = [tuple(column) for column in records]
    return [ArmRecords(f"run:{column[0].arm}", column[0].arm, column, **more) for column in columns]


def write_run(
    folder: Path, records: Iterable[Record], *, digest: str = "d", data: str = "out/ewaste", protocol: Any = "held-out"
) -> Path:
    """A run folder as the runner leaves it."""
    folder.mkdir()
    arms = tuple(Arm(name=name, method=name) for name in ARMS)
    plan = Plan(name="t", data=data, arms=arms, protocol=protocol)
    (folder / "plan.yaml").write_text(plan.to_yaml())
    (folder / "manifest.json").write_text(json.dumps({"data": {str(seed): {"digest": digest} for seed in (0, 1)}}))
    (folder / "records.jsonl").write_text("".join(json.dumps(r.to_dict()) + "\n" for r in records))
    return folder


FIRST, SECOND, THIRD = "110100001111", "111111101111", "000100001100"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    records = [r for arm, word in zip(ARMS, (FIRST, THIRD, SECOND), strict=True) for r in marked(arm, word)]
    return write_run(tmp_path / "run", records)


def test_two_arms_by_hand(run: Path) -> None:
    found = compare(f"{run}:nearest", f"{run}:perceptual")
    assert (found.first.right, found.second.right, found.n) == (7, 11, 12)
    assert found.difference.difference == pytest.approx(4 / 12)
    test = found.mcnemar
    assert (test.both_right, test.only_first, test.only_second, test.both_wrong) == (7, 0, 4, 1)
    assert (test.method, test.p_value) == ("exact", pytest.approx(2 / 2**4))
    # steps 1 and 2 differ, by 1 and 3 of 4; step 3 does not: 2 of 4 ways to swap them are as extreme
    assert (found.difference.clusters, found.difference.differing) == (3, 2)
    assert found.difference.p_value == pytest.approx(2 / 2**2)


def test_turned_round_the_difference_changes_its_sign(run: Path) -> None:
    one, two = compare(f"{run}:nearest", f"{run}:perceptual"), compare(f"{run}:perceptual", f"{run}:nearest")
    assert one.difference.difference == -two.difference.difference
    assert one.mcnemar.p_value == two.mcnemar.p_value


def test_the_document_is_plain_and_whole(run: Path) -> None:
    doc = json.loads(json.dumps(compare(f"{run}:nearest", f"{run}:perceptual").to_dict(), allow_nan=False))
    assert doc["arms"][0]["ref"] == f"{run}:nearest"
    assert doc["arms"][0]["accuracy"] == pytest.approx(7 / 12, abs=1e-4)
    assert doc["arms"][0]["wilson95"] == pytest.approx([0.3195, 0.8067], abs=1e-4)
    assert (doc["n"], doc["pictures"], doc["clusters"], doc["same_data"]) == (12, 12, 3, True)
    assert [seed["accuracy"] for seed in doc["per_seed"]] == [[0.5833, 0.9167]]
    assert doc["words"].startswith("next action: perceptual is right in 91.7 % and nearest in 58.3 % of 12 items")


def test_pairs_go_by_item_not_by_order(run: Path) -> None:
    one, two = marked("nearest", FIRST), marked("perceptual", SECOND)
    assert compare_records(held(one, two[::-1]), "next_action").to_dict() == (
        compare_records(held(one[::-1], two), "next_action").to_dict()
    )


def test_what_has_no_partner_is_counted_and_told() -> None:
    one, two = marked("nearest", FIRST), marked("perceptual", SECOND)[:9]
    found = compare_records(held(one, two), "next_action")
    assert (found.n, found.sides[0].unpaired, found.sides[1].unpaired) == (9, 3, 0)
    assert "nearest: 3 items have no partner and are not compared" in notes(found)


def test_failures_and_abstentions_are_wrong_and_told_apart() -> None:
    one = marked("nearest", "1111")
    two = [
        record("perceptual", True, 0),
        record("perceptual", False, 1, failure="timeout"),
        replace(record("perceptual", False, 2, error="no picture"), right={}, answer={}),
        record("perceptual", False, 3, answer={"next_action": None, "abstained": True}),
    ]
    found = compare_records(held(one, two), "next_action")
    side = found.sides[1]
    assert (side.right, side.n, side.failures, side.errors, side.abstained) == (1, 4, 1, 1, 1)
    told = "perceptual: of 4 items 1 left to the operator, 1 failed by the model, 1 in error; they count as wrong"
    assert notes(found)[0] == told


def test_items_without_a_truth_are_not_compared() -> None:
    one, two = marked("nearest", "1100"), marked("perceptual", "1110")
    for column in (one, two):
        column[2:] = [
            replace(r, truth={**r.truth, "is_last": True}, right={"is_last": r.arm == "nearest"}) for r in column[2:]
        ]
    found = compare_records(held(one, two), "is_last")
    assert (found.n, found.unknown, [s.right for s in found.sides]) == (2, 2, [2, 0])
    assert [s.unpaired for s in found.sides] == [0, 0]
    assert "2 items have no is last in their labels and are not compared" in notes(found)


def test_seeds_are_pooled_and_told_one_by_one() -> None:
    one = marked("nearest", "1000") + marked("nearest", "1100", seed=1)
    two = marked("perceptual", "1110") + marked("perceptual", "1100", seed=1)
    found = compare_records(held(one, two), "next_action")
    pair = found.pairs[0]
    assert (pair.n, pair.pictures) == (8, 4)
    assert [(s.seed, s.n, s.first, s.second) for s in pair.per_seed] == [(0, 4, 1, 3), (1, 4, 2, 2)]
    assert [s.mcnemar.only_second for s in pair.per_seed] == [2, 0]
    assert pair.mcnemar.only_second == 2
    assert pair.difference.clusters == 1  # one step, whatever the seed
    assert any("4 pictures stand behind 8 items" in line for line in notes(found))


def test_where_each_seed_has_its_own_pictures_names_do_not_join_them() -> None:
    one = marked("nearest", "1000") + marked("nearest", "1100", seed=1)
    two = marked("perceptual", "1110") + marked("perceptual", "1100", seed=1)
    found = compare_records(held(one, two, anew=True), "next_action")
    assert found.pairs[0].pictures == 8
    assert not any("stand behind" in line for line in notes(found))


def test_top_1_and_device() -> None:
    one = [replace(r, case_device=True, case_step=i == 0) for i, r in enumerate(marked("nearest", "1111"))]
    two = [replace(r, case_device=True, case_step=True) for r in marked("perceptual", "1111")]
    two[3] = replace(two[3], case_device=None, case_step=None)  # no case recalled: wrong
    assert [s.right for s in compare_records(held(one, two), "top1").sides] == [1, 3]
    assert [s.right for s in compare_records(held(one, two), "device").sides] == [4, 3]
    assert mark_of(replace(one[0], truth={**one[0].truth, "step": None}), "top1") is None


def test_held_out_answers_are_what_counts_unless_told_otherwise() -> None:
    def folds(arm: str, word: str) -> list[Record]:
        subsets = ("train", "validation", "test", "test")
        return [replace(r, subset=s) for r, s in zip(marked(arm, word), subsets, strict=True)]

    arms = held(folds("nearest", "1101"), folds("perceptual", "0011"))
    assert [s.right for s in compare_records(arms, "next_action").sides] == [1, 2]
    assert [s.right for s in compare_records(arms, "next_action", subset="train").sides] == [1, 0]


def test_three_arms_cochran_then_holm(run: Path) -> None:
    found = compare_all([f"{run}:{arm}" for arm in ("nearest", "perceptual", "context")])
    # column sums 7, 11, 3; of 12 rows 3 have three right, 4 two, 4 one, 1 none: Q = 2 (3 · 179 − 21²) / (3 · 21 − 47)
    assert found.cochran.statistic == pytest.approx(12)
    assert (found.cochran.n, found.cochran.informative) == (12, 8)
    assert found.cochran.df == 2
    raw = sorted(pair.mcnemar.p_value for pair in found.pairs)
    adjusted = sorted(pair.p_holm for pair in found.pairs if pair.p_holm is not None)
    assert adjusted[0] == pytest.approx(3 * raw[0])
    assert all(b >= a for a, b in zip(raw, adjusted, strict=True))
    doc = found.to_dict()
    assert len(doc["pairs"]) == 3
    assert doc["words"].startswith("next action: Cochran's Q = ")
    assert "perceptual above context" in doc["words"]


def test_several_arms_are_compared_on_what_all_have() -> None:
    columns = held(marked("nearest", "1111"), marked("context", "1111")[:3], marked("perceptual", "0111")[1:])
    found = compare_records(columns, "next_action")
    assert (found.n, [s.unpaired for s in found.sides]) == (2, [2, 1, 1])
    assert all(pair.n == 2 for pair in found.pairs)


def test_two_runs(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", marked("nearest", SECOND), digest="another")
    found = compare_all([f"{run}:nearest", f"{other}:nearest"])
    assert [s.name for s in found.sides] == [f"{run}:nearest", f"{other}:nearest"]
    assert found.same_data is False
    assert any("differ by digest" in line for line in notes(found))


REFUSED = {
    "no colon": (["{run}", "{run}:context"], {}),
    "no arm": (["{run}:", "{run}:context"], {}),
    "no run": (["nowhere", "{run}:context"], {}),
    "no such folder": (["{tmp}/gone:nearest", "{run}:context"], {}),
    "no such arm": (["{run}:percptual", "{run}:context"], {}),
    "twice": (["{run}:context", "{run}:context"], {}),
    "one": (["{run}:context"], {}),
    "task": (["{run}:nearest", "{run}:context"], {"task": "next-action"}),
    "subset": (["{run}:nearest", "{run}:context"], {"subset": "tests"}),
    "empty subset": (["{run}:nearest", "{run}:context"], {"subset": "train"}),
    "recalls no case": (["{run}:nearest", "{run}:context"], {"task": "top1"}),
    "no truth": (["{run}:nearest", "{run}:context"], {"task": "is_last"}),
    "other labels": (["{run}:nearest", "{other}:nearest"], {}),
    "no shared item": (["{run}:nearest", "{other}:context"], {}),
    "no record yet": (["{run}:nearest", "{other}:perceptual"], {}),
    "two protocols": (["{run}:nearest", "{new}:context"], {}),
    "new device": (["{new}:nearest", "{new}:context"], {"task": "device"}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_compared(what: str, run: Path, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    relabelled = [replace(r, truth={**r.truth, "next_action": "pneumatic_cut"}) for r in marked("nearest", FIRST)]
    other = write_run(tmp_path / "other", [*relabelled, *marked("context", "11", seed=9)])
    new = write_run(tmp_path / "new", [*marked("nearest", "10"), *marked("context", "01")], protocol="new-device")
    refs, options = REFUSED[what]
    places = {"run": run, "other": other, "new": new, "tmp": tmp_path}
    with pytest.raises(InputError) as caught:
        compare_all([ref.format(**places) for ref in refs], **options)
    assert str(caught.value).replace(str(tmp_path), "TMP") == snapshot


def test_the_arms_are_listed(run: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        read_refs([f"{run}:majority"])
    assert caught.value.known == sorted(ARMS)


class TestCommand:
    def call(self, *words: str) -> Any:
        app = typer.Typer()
        study_compare.register(app)
        app.command("other")(lambda: None)  # with one command alone typer makes no group
        return CliRunner().invoke(app, ["compare", *words], catch_exceptions=False)

    def test_two_arms_as_json(self, run: Path) -> None:
        done = self.call(f"{run}:nearest", f"{run}:perceptual", "--task", "next_action", "--json")
        assert done.exit_code == 0
        assert json.loads(done.stdout) == compare(f"{run}:nearest", f"{run}:perceptual").to_dict()

    def test_three_arms_as_json(self, run: Path) -> None:
        refs = [f"{run}:{arm}" for arm in ARMS]
        assert json.loads(self.call(*refs, "--json").stdout) == compare_all(refs).to_dict()

    @pytest.mark.parametrize("arms", [2, 3])
    def test_as_text(self, arms: int, run: Path, snapshot: SnapshotAssertion) -> None:
        refs = [f"{run}:{arm}" for arm in ("nearest", "perceptual", "context")[:arms]]
        assert self.call(*refs).stdout == snapshot

    def test_seeds_as_text(self, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
        records = [
            r
            for seed, words in enumerate((("11000000", "11111110"), ("10101010", "11111111")))
            for arm, word in zip(("nearest", "perceptual"), words, strict=True)
            for r in marked(arm, word, seed=seed)
        ]
        folder = write_run(tmp_path / "run", records)
        assert self.call(f"{folder}:nearest", f"{folder}:perceptual").stdout == snapshot


def test_several_arms_are_told_apart_by_step_too() -> None:
    steps = 12  # each device's step is right for one arm and wrong for the other, in all four views
    columns = held(*(marked(arm, mark * 4 * steps) for arm, mark in (("nearest", "0"), ("perceptual", "1"))))
    third = [replace(r, arm="context") for r in columns[0].records]
    found = compare_records([*columns, *held(third)], "next_action")
    assert found.words.endswith("by device and step (Holm): all of these")
    assert any("count each view for itself" in line for line in notes(found))


@pytest.mark.parametrize(("subset", "is_refused"), [(None, True), ("test", True), ("train", False)])
def test_folds_hold_no_case_of_the_devices_they_test(subset: str | None, is_refused: bool) -> None:
    columns = held(
        *([r for s in ("train", "test") for r in marked(arm, "1", subset=s, case_step=True, case_device=True)]
          for arm in ("nearest", "perceptual")),
        protocol="folds",
    )  # fmt: skip
    if is_refused:
        with pytest.raises(InputError, match="left out"):
            compare_records(columns, "top1", subset=subset)
    else:
        assert compare_records(columns, "top1", subset=subset).n == 1
