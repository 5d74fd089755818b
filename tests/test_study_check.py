"""The figures of `cases check` and `evaluate`: right where they can be known by hand, null where they are impossible."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders import ACTIONS, VectorEmbedder, base_of, draft, near, picture_of, separable, unit
from sagehand.action.library import ActionLibrary
from sagehand.action.predict import Predictor
from sagehand.errors import InputError, UnknownName
from sagehand.judge.calibration import learn
from sagehand.study.check import check, label_conflicts, leave_out_of
from sagehand.study.evaluate import evaluate
from sagehand.study.score import Item, share, summarise

LIBRARY = ActionLibrary.parse(ACTIONS, source="test.yaml")


def test_context_solves_what_the_picture_alone_cannot() -> None:
    figures = check(separable().index(), LIBRARY, leave_out="case").figures
    assert figures["n"] == figures["answered"] == 36
    assert figures["next_action"]["accuracy"] == 1.0
    assert figures["photo_only"]["next_action"]["accuracy"] < 0.7
    assert figures["device"]["accuracy"] == 1.0
    assert figures["step"]["accuracy"] == 1.0
    assert figures["mean_rank"] == 1.0
    assert figures["discordant"]["photo_only"]["p_value"] < 0.01
    assert figures["conflicts"] == []
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_the_gain_vanishes_when_the_previous_actions_are_shuffled() -> None:
    control = check(separable().index(), leave_out="case").figures["control"]
    assert control["gain"] > 0.3
    # leaving a case out makes its own action the rarer one: guessing at random beats a picture that says nothing
    assert abs(control["gain_shuffled_mean"]) < 0.3 * control["gain"]
    assert control["p_value"] < 0.05


def test_figures_that_are_impossible_are_null_with_their_reason() -> None:
    figures = check(separable().index(), leave_out="device", ablate=False, shuffles=0).figures
    for name in ("device", "step"):
        assert figures[name]["accuracy"] is None
        assert "left out" in figures[name]["reason"]
    assert figures["rank_of"] == "the same next action"
    assert "ablation" not in figures
    assert "control" not in figures


def test_pure_noise_is_never_better_than_chance() -> None:
    rng = np.random.default_rng(3)
    rows = [{"family": "f", "device": f"d{i % 5}", "step": 1, "next_action": f"a{i % 4}"} for i in range(80)]
    index = base_of([draft(str(i), near([1], 1.0, rng), r) for i, r in enumerate(rows)]).index()
    figures = check(index, leave_out="case", shuffles=0).figures
    # leaving a case out makes its own action the rarer one, so that noise scores below one in four, not at it
    assert figures["next_action"]["wilson95"][0] < 0.25
    assert figures["majority"]["next_action"]["accuracy"] == 0.0


def test_the_guard_only_helps_when_labels_and_library_agree() -> None:
    index = separable().index()
    with_guard = check(index, LIBRARY, leave_out="device", ablate=False, shuffles=0)
    assert (
        with_guard.figures["next_action"]["accuracy"]
        >= check(index, leave_out="device", ablate=False, shuffles=0).figures["next_action"]["accuracy"]
    )
    assert all(i.answer in LIBRARY.actions for i in with_guard.items if i.answer)


def test_labels_against_the_guard_are_listed() -> None:
    rows = [
        {"family": "f", "device": "d", "step": 1, "previous_action": "none", "next_action": "a1"},
        {"family": "f", "device": "d", "step": 9, "previous_action": "a1", "next_action": "a1"},
        {"family": "f", "device": "d", "step": 20, "previous_action": "zap", "next_action": "a2"},
    ]
    base = base_of([draft(str(i), unit([1, i]), r) for i, r in enumerate(rows)])
    lines = label_conflicts(base.cases(), LIBRARY)
    assert len(lines) == 2
    assert any("'a1' is ruled out" in line for line in lines)
    assert any("'zap'" in line for line in lines)


def test_nothing_to_leave_out_is_said() -> None:
    one = base_of([draft("0", unit([1]), {"family": "f", "device": "d", "next_action": "a"})])
    with pytest.raises(InputError, match="nothing to leave out: two different cases"):
        check(one.index())
    two = base_of([draft(str(i), unit([1, i]), {"family": "f", "device": "d", "next_action": "a"}) for i in range(2)])
    with pytest.raises(InputError, match="two devices"):
        check(two.index(), leave_out="device")
    with pytest.raises(UnknownName, match="'family'.*known: case, device"):
        leave_out_of("family")


def test_abstentions_stay_in_the_denominator() -> None:
    items = [
        Item("a", "x", "f", "d", 1, "x", 0.9, case_device=True, case_step=True, rank=1, others={"photo_only": "y"}),
        Item("b", "x", "f", "d", 1, None, None, case_device=None, case_step=None, rank=4, others={"photo_only": "x"}),
    ]
    figures = summarise(items, rank_of="r")
    assert (figures["n"], figures["answered"]) == (2, 1)
    assert figures["next_action"]["accuracy"] == 0.5
    assert figures["next_action_of_answered"]["accuracy"] == 1.0
    assert figures["device"]["accuracy"] == 0.5
    assert figures["mean_rank"] == 2.5
    assert figures["discordant"]["photo_only"] == {"only_sagehand": 1, "only_photo_only": 1, "p_value": 1.0}
    assert share([])["accuracy"] is None


def write_folder(folder: Path, seeds: list[int]) -> None:
    rows = []
    folder.mkdir()
    for seed in seeds:
        device, step = seed % 3, seed // 3 % 4 + 1
        picture = picture_of(near(np.eye(8)[device] * 3, 0.5, np.random.default_rng(seed)), seed)
        Image.fromarray(picture).save(folder / f"{seed}.png")
        rows.append(
            {
                "file_name": f"{seed}.png",
                "family": "f",
                "device": f"d{device}",
                "step": step,
                "previous_action": "none" if step == 1 else f"a{step - 1}",
                "next_action": "end" if step == 4 else f"a{step}",
            }
        )
    (folder / "metadata.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


def test_evaluate_scores_a_folder_and_reports_what_it_cannot_read(tmp_path: Path) -> None:
    write_folder(tmp_path / "q", list(range(100, 124)))
    with (tmp_path / "q" / "metadata.jsonl").open("a") as file:
        file.write('{"file_name": "gone.png", "family": "f", "device": "d0", "next_action": "a1"}\n')
        file.write('{"file_name": "100.png.txt", "family": "f"}\n{"broken\n')
        file.write('{"file_name": "101.png", "family": "f", "device": "d0"}\n')
    base = separable()
    base.set_calibration(learn(base.index()).to_dict())
    hand = Predictor(base, LIBRARY, embedder=VectorEmbedder(), log=False, domain_level=0)
    report = evaluate(tmp_path / "q", hand)
    figures = report.figures
    assert figures["n"] == 24
    assert figures["next_action"]["accuracy"] == 1.0
    assert figures["step"]["accuracy"] == 1.0
    assert figures["context_only"]["next_action"]["accuracy"] == 1.0
    assert figures["photo_only"]["next_action"]["accuracy"] < 0.8
    assert len(report.failed) >= 3
    assert any("gone.png" in name for name, _ in report.failed)
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    assert len(base.decisions()) == 0


def test_evaluate_without_labels_says_so(tmp_path: Path) -> None:
    write_folder(tmp_path / "q", [1])
    (tmp_path / "q" / "metadata.jsonl").write_text('{"file_name": "1.png", "family": "f", "device": "d"}\n')
    hand = Predictor(separable(), LIBRARY, embedder=VectorEmbedder(), log=False)
    with pytest.raises(InputError, match="nothing in .* can be evaluated"):
        evaluate(tmp_path / "q", hand)
