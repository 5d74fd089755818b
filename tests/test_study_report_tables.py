"""The report's tables against counts by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from report_runs import ACTIONS, OFFLINE, WITH_MODEL, study_of
from sagehand.study.report.about import warnings_of
from sagehand.study.report.abstention import abstention, certified
from sagehand.study.report.cells import Gain, Percent, Seconds, Share
from sagehand.study.report.load import Study, accuracy, lacks, top_1
from sagehand.study.report.overview import ablations, against_baseline, confusion, main_table
from sagehand.study.report.paired import two
from sagehand.study.report.parts import Counterpart
from sagehand.study.report.refs import ArmRecords
from sagehand.study.report.selective import bound_held, risk_coverage
from sagehand.study.report.tables import paper_tables
from sagehand.study.run.plan import Arm, Plan
from sagehand.study.run.record import Record

pytest.importorskip("statsmodels", reason="the report's tests need the extra `study`")


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_of(tmp_path_factory.mktemp("run") / "pics", OFFLINE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_of(tmp_path_factory.mktemp("run") / "pics", OFFLINE | WITH_MODEL)


def record(arm: str, item: str, right: bool, *, step: bool | None = None, **more: Any) -> Record:
    truth = {"next_action": "end", "device": "ei", "family": "f", "step": 1, **more.pop("truth", {})}
    told = "end" if right else "lever"
    answer = {"next_action": told, "confidence": None, "abstained": False, **more.pop("answer", {})}
    return Record(
        arm=arm, seed=more.pop("seed", 0), fold=0, item=item, subset=more.pop("subset", "query"), truth=truth,
        answer=answer, right={"next_action": right}, case_device=step, case_step=step, **more,
    )  # fmt: skip


def study(records: list[Record], *arms: Arm, **more: Any) -> Study:
    return Study("run", Plan(name="p", arms=arms, **more), {}, records)


def rows(part: Counterpart) -> dict[Any, dict[str, Any]]:
    assert part.table is not None
    return {row[0]: dict(zip(part.table.header, row, strict=True)) for row in part.table.rows}


def test_the_main_table_counts_failures_errors_and_abstentions_as_wrong() -> None:
    records = [
        record("a", "1.jpg", True, step=True, rank=1),
        record("a", "2.jpg", False, step=False, rank=4),
        record("a", "3.jpg", False, failure="truncated"),
        record("a", "4.jpg", False, error="PictureError: no"),
        record("a", "5.jpg", False, answer={"next_action": None, "abstained": True}, step=True, rank=1),
    ]
    row = rows(main_table(study(records, Arm(name="a", method="perceptual"))))["a"]
    assert row["items"] == 5
    assert row["next action"] == Share(1, 5)
    assert row["device and step"] == Share(2, 5)
    assert row["mean rank"].value == 2.0
    assert (row["abstained"], row["failed"], row["errors"]) == (1, 1, 1)
    assert row["each seed"] is None


def test_an_unknown_truth_is_in_no_denominator() -> None:
    records = [record("a", "1.jpg", True), record("a", "2.jpg", False, truth={"next_action": None})]
    assert accuracy(records) == Share(1, 1)
    assert accuracy(records, "is_last") is None


def test_the_main_table_agrees_with_a_count_of_the_records(offline: Study) -> None:
    for name, row in rows(main_table(offline)).items():
        mine = [r for r in offline.records if r.arm == name]
        assert row["next action"] == Share(sum(bool(r.right["next_action"]) for r in mine), len(mine))
        by_seed = [[r.right["next_action"] for r in mine if r.seed == s] for s in (0, 1)]
        shares = sorted(sum(map(bool, marks)) / len(marks) for marks in by_seed)
        assert [row["each seed"].low, row["each seed"].high] == shares
    assert rows(main_table(offline))["random"]["device"] is None


def test_where_the_device_is_left_out_no_case_can_be_right() -> None:
    records = [record("a", "1.jpg", True, step=False, rank=None)]
    arm = Arm(name="a", method="nearest")
    assert top_1(study(records, arm), arm) == Share(0, 1)
    assert top_1(study(records, arm, protocol="new-device"), arm) is None
    assert top_1(study([replace(records[0], subset="test")], arm, protocol="folds"), arm) is None


def test_the_main_arm_departs_least_from_the_defaults_whatever_its_figures() -> None:
    arms = [
        Arm(name="n", method="nearest"),
        Arm(name="p-none", method="perceptual", crop="none"),
        Arm(name="p", method="perceptual"),
        Arm(name="p-again", method="perceptual"),
    ]
    records = [record(a.name, "1.jpg", a.name == "p-none", step=True) for a in arms]
    found = study(records, *arms)
    assert found.main is not None
    assert found.main.name == "p"
    assert [a.name for a in found.mains("perceptual", "nearest")] == ["p", "n"]


def test_a_twin_shares_crop_and_embedder_but_a_method_without_pictures_may_differ() -> None:
    arms = [
        Arm(name="n", method="nearest"),
        Arm(name="n-none", method="nearest", crop="none"),
        Arm(name="c", method="context"),
        Arm(name="p-none", method="perceptual", crop="none", guard=False),
        Arm(name="z", method="zero-shot", model="m", crop="none"),
        Arm(name="s", method="single-rag", model="m", crop="box"),
        Arm(name="s-other", method="single-rag", model="other", crop="box"),
    ]
    found = study([record(a.name, "1.jpg", True, step=True) for a in arms], *arms)
    by_name = {a.name: a for a in arms}

    def twin(name: str, *methods: str) -> str | None:
        other = found.twin(by_name[name], *methods)
        return other.name if other else None

    assert twin("p-none", "nearest") == "n-none"
    assert twin("n", "context") == "c"
    assert twin("s", "zero-shot") == "z"
    assert twin("s-other", "zero-shot") is None
    assert twin("s", "nearest") is None


def test_table_1_says_what_a_crop_keeps(whole: Study) -> None:
    table = paper_tables(whole)[0]
    assert table.table is not None
    # the crop is x 4–52, y 4–44 of 64 × 48; the device x 8–56, y 8–40
    for row in table.table.rows:
        shown = dict(zip(table.table.header, row, strict=True))
        assert shown["coverage"].value == pytest.approx((52 - 8) / 48)
        assert shown["removal"].value == pytest.approx(1 - 48 * 40 / (64 * 48))
        assert shown["pictures"] == 36  # each once, though two seeds and several arms cut it
    assert [row[0] for row in table.table.rows] == ["perceptual", "box", "box"]
    assert "crops by a model (grid)" in table.missing
    assert table.beside[0].here == "91.7\u202f%"


def test_table_2_pairs_a_method_with_similarity_on_the_same_items() -> None:
    marks = {"n": [True, False, False, False], "g": [True, True, True, False]}
    arms = [
        Arm(name="n", method="single-rag", crop="box", model="m"),
        Arm(name="g", method="guided", crop="box", model="m"),
    ]
    records = [
        record(a.name, f"{i}.jpg", True, step=mark, truth={"step": i})
        for a in arms
        for i, mark in enumerate(marks[a.name])
    ]
    records.append(record("g", "9.jpg", True, step=True))  # the other has not answered it
    row = rows(paper_tables(study(records, *arms))[1])["g"]
    assert row["items"] == 4
    assert (row["most similar"], row["method's case"]) == (Share(1, 4), Share(3, 4))
    assert row["gain"].value == 0.5
    assert row["relative"] == Percent(2.0, signed=True)
    assert row["p"].value == 0.5  # two discordant pairs, both one way: 2 · (1/2)²


def test_where_a_model_was_asked_what_is_shown_instead_is_told_by_its_name() -> None:
    arms = [
        Arm(name="n", method="nearest", crop="perceptual"),
        Arm(name="s", method="single-rag", crop="perceptual", model="m"),
        Arm(name="p", method="perceptual", crop="perceptual"),
    ]
    for chosen, against in ((arms, "the nearest picture"), (arms[1:], "the case of single-rag")):
        tables = paper_tables(study([record(a.name, "1.jpg", True, step=True) for a in chosen], *chosen))
        weighed = "picture, context and depth weighed by the perceptual judge"
        assert tables[1].stand_in == f"Shown instead: {weighed} against {against}."
        assert rows(tables[1])["p"]["against"] == chosen[0].name
        assert tables[4].stand_in in ("", "Shown instead: the nearest picture's labels against the perceptual judge.")


def test_two_arms_of_different_protocols_are_not_paired() -> None:
    arms = (Arm(name="n", method="nearest", protocol="paper"), Arm(name="p", method="perceptual", protocol="held-out"))
    records = [record(a.name, "1.jpg", True, step=True) for a in arms]
    assert two(study(records, *arms), *arms) is None
    judged = Arm(name="q", method="context", protocol="paper")
    found = against_baseline(study([*records, record("q", "1.jpg", False)], *arms, judged))[0]
    assert found.notes[-1] == "Of another protocol than paper, so not paired with it: p."


def test_table_3_finds_the_papers_pair_of_models(whole: Study) -> None:
    table = paper_tables(whole)[2]
    assert [(r[0], r[1]) for r in table.table.rows] == [("guided", "guided-4o")] if table.table else False
    here = {b.what: b.here for b in table.beside}
    assert here["GPT-4o against Qwen3-VL-30B"].startswith("p = ")
    assert here["GPT-4o against Qwen2.5-VL-72B"] == "–"


def test_table_6_tells_confirmed_first_candidates_from_full_searches() -> None:
    times = [(1.0, True), (3.0, True), (20.0, False), (100.0, True)]
    arm = Arm(name="g", method="guided", model="m", crop="box")
    records = [
        record("g", f"{i}.jpg", True, step=True, seconds=s, search={"first_confirmed": first})
        for i, (s, first) in enumerate(times)
    ]
    records.append(record("g", "9.jpg", False, seconds=600.0, failure="timeout"))
    table = rows(paper_tables(study(records, arm))[5])
    assert table["g, full search"]["mean"] == Seconds(20.0)
    assert table["g, full search"]["SD"] is None
    confirmed = table["g, first candidate confirmed"]
    assert (confirmed["answers"], confirmed["median"]) == (3, Seconds(3.0))
    assert table["g, all"]["mean"] == Seconds(31.0)


def test_without_a_model_the_nearest_thing_is_shown_by_its_name(offline: Study) -> None:
    one, two_, three, four, five, six = paper_tables(offline)
    for table in (two_, five):
        assert table.missing.startswith("Not in this run: ")
        assert "perceptual judge" in table.stand_in
        assert table.table is not None
    assert "`method: guided`" in two_.missing
    assert four.table is None
    assert "has no counterpart" in four.missing
    assert three.table is None
    assert one.table is not None
    assert six.table is not None
    # an arm that may abstain is in no comparison of forced answers
    assert "perceptual-risk" not in rows(two_)


def test_what_is_missing_names_the_method_and_the_remedy(snapshot: Any) -> None:
    assert lacks("guided") == snapshot
    assert lacks("nearest", "classifier") == snapshot


def test_holm_never_makes_a_p_smaller_and_the_best_baseline_is_the_best(offline: Study) -> None:
    action, top = against_baseline(offline)
    assert action.table is not None
    assert top.table is not None
    best = max((a for a in offline.by_method("random", "majority", "context", "nearest")),
               key=lambda a: (accuracy(offline.of(a)) or Share(0, 1)).value or 0)  # fmt: skip
    assert action.title.endswith(f"({best.name})")
    for row in rows(action).values():
        assert row["p, Holm"].value >= row["p"].value
        assert row["baseline"] == accuracy(offline.of(best))
    assert best.name not in rows(action)


def test_an_ablation_changes_one_thing_alone(offline: Study) -> None:
    part = ablations(offline)
    assert part.table is not None
    assert [(r[0], r[1], r[2]) for r in part.table.rows] == [
        ("nearest", "crop: perceptual → none", "nearest-none"),
        ("perceptual", "crop: perceptual → none", "perceptual-none"),
        ("perceptual", "context: on → off", "perceptual-no-context"),
    ]
    arms = {a.name: a for a in offline.arms}
    found = two(offline, arms["perceptual"], arms["perceptual-none"])
    assert found is not None
    assert dict(zip(part.table.header, part.table.rows[1], strict=True))["gain"] == Gain(
        found.difference.difference, *(found.difference.interval or ())
    )


def test_the_confusion_matrix_holds_every_item_once(offline: Study) -> None:
    part = confusion(offline)
    assert part.chart is not None
    assert part.table is not None
    counts = {
        (r[0], c): n for r in part.table.rows for c, n in zip(part.table.header, r, strict=True) if isinstance(n, int)
    }
    mine = [r for r in offline.records if r.arm == "perceptual"]
    assert sum(counts.values()) == len(mine)
    assert sum(counts[a, a] for a in ACTIONS[:4]) == sum(bool(r.right["next_action"]) for r in mine)


def test_failed_and_held_back_answers_have_columns_of_their_own() -> None:
    records = [
        record("a", "1.jpg", True, step=True),
        record("a", "2.jpg", False, failure="truncated"),
        record("a", "3.jpg", False, answer={"next_action": None, "abstained": True}),
    ]
    part = confusion(study(records, Arm(name="a", method="perceptual")))
    assert rows(part)["end"] | {"right": None} == {
        "truth": "end",
        "end": 1,
        "(failed)": 1,
        "(no answer)": 1,
        "right": None,
    }


def test_abstaining_shows_arms_with_a_confidence_and_certified_risks(offline: Study) -> None:
    part = abstention(offline)
    assert {r for r in rows(part) if not str(r).startswith("perceptual")} == set()
    held = certified(offline)
    assert held.table is not None
    pooled = dict(zip(held.table.header, held.table.rows[0], strict=True))
    mine = [r for r in offline.records if r.arm == "perceptual-risk"]
    given = [r for r in mine if not r.answer["abstained"]]
    assert (pooled["items"], pooled["answered"]) == (len(mine), len(given))
    assert pooled["wrong"] == sum(not r.right["next_action"] for r in given)
    assert [r[1] for r in held.table.rows] == ["all", "0", "1"]


def test_the_reader_is_warned_of_what_makes_figures_weaker(offline: Study) -> None:
    told = "\n".join(warnings_of(offline))
    assert "36 pictures show 12 steps" in told
    assert "asked up to 2 times" in told
    assert "Not all arms" not in told
    records = [r for r in offline.records if r.arm != "random" or r.seed == 0]
    told = "\n".join(warnings_of(Study("run", offline.plan, {}, records)))
    assert "random 36 of 72" in told
    records = [r for r in offline.records if r.arm != "random"]
    assert "No records yet of random" in "\n".join(warnings_of(Study("run", offline.plan, {}, records)))


def test_changed_pictures_are_told(offline: Study) -> None:
    told = warnings_of(Study("run", offline.plan, {"data": {"0": {"digest": "other"}}}, offline.records, offline.data))
    assert "Not the same as when the run was made: the pictures." in told


def test_trained_arms_stay_out_of_the_main_table(whole: Study, tmp_path: Path) -> None:
    part = main_table(whole)
    assert not {"resnet", "tuned"} & set(rows(part))
    assert any("resnet, tuned" in note for note in part.notes)


def test_table_2_shows_no_stand_in_where_the_device_is_left_out() -> None:
    arms = (Arm(name="n", method="nearest"), Arm(name="p", method="perceptual"))
    table = paper_tables(
        study([record(a.name, "1.jpg", True, step=False) for a in arms], *arms, protocol="new-device")
    )[1]
    assert table.table is None
    assert table.stand_in == ""
    assert table.missing.endswith("In p the device is left out of the base, so no case can be the right one.")


@pytest.mark.parametrize(
    ("model", "is_there"),
    [("gpt-4o", True), ("openai/gpt-4o-2024-08-06", True), ("gpt-4o-mini", False), ("gpt-4", False)],
)
def test_table_3_takes_no_other_model_for_the_papers(model: str, is_there: bool) -> None:
    arms = [
        Arm(name="a", method="guided", crop="box", model=model),
        Arm(name="b", method="guided", crop="box", model="Qwen/Qwen3-VL-30B-A3B-Instruct"),
    ]
    table = paper_tables(study([record(a.name, "1.jpg", True, step=True) for a in arms], *arms))[2]
    here = {b.what: b.here for b in table.beside}["GPT-4o against Qwen3-VL-30B"]
    assert here == ("p = 1" if is_there else "–")


def test_best_baseline_says_why_it_has_no_top_1_and_who_may_abstain() -> None:
    arms = (Arm(name="n", method="nearest"), Arm(name="p", method="perceptual", risk=0.05))
    records = [record(a.name, "1.jpg", True, step=False) for a in arms]
    action, top = against_baseline(study(records, *arms, protocol="new-device"))
    assert top.missing == "In n the device is left out of the base, so no case can be the right one."
    assert action.notes[-1] == "May abstain, and what it leaves to the operator counts as wrong: p."
    assert not any("May abstain" in note for note in against_baseline(study(records[:1], *arms))[0].notes)


def test_ablations_show_the_p_that_takes_views_together(offline: Study) -> None:
    part = ablations(offline)
    assert part.table is not None
    for row in part.table.rows:
        shown = dict(zip(part.table.header, row, strict=True))
        arms = {a.name: a for a in offline.arms}
        found = two(offline, arms[shown["whole"]], arms[shown["arm"]])
        top = two(offline, arms[shown["whole"]], arms[shown["arm"]], "top1")
        assert found is not None
        assert top is not None
        assert shown["p by step, Holm"].value >= found.difference.p_value
        assert shown["its p by step"].value == top.difference.p_value


def test_an_unknown_truth_is_neither_a_wrong_answer_nor_a_query_of_a_risk() -> None:
    records = [
        record("a", "1.jpg", True, answer={"confidence": 0.9}),
        record("a", "2.jpg", False, answer={"confidence": 0.8}, truth={"next_action": None}),
    ]
    curve = risk_coverage(records)
    assert (curve.n, curve.points[-1].wrong, curve.points[-1].coverage) == (1, 0, 1.0)
    held = bound_held(ArmRecords("r:a", "a", tuple(records), risk=0.05))[0]
    assert (held.n, held.answered, held.wrong) == (1, 1, 0)


def test_the_reader_is_warned_of_few_devices_seeds_left_out_and_tasks_that_say_nothing() -> None:
    arm = Arm(name="a", method="nearest")
    found = study(
        [record("a", "1.jpg", True, truth={"device_class": "phone"})], arm, protocol="new-device", seeds=(0, 3)
    )
    told = "\n".join(warnings_of(found))
    assert "rests on 1 devices" not in told
    assert "rests on one device," in told
    assert "No records of seed 3, though the plan names it." in told
    assert "device class" in told
    more = [record("a", "1.jpg", True), record("a", "2.jpg", True, truth={"device": "b", "next_action": "lever"})]
    told = "\n".join(warnings_of(study(more, arm)))
    assert "rests on" not in told
    assert "next action" not in told
