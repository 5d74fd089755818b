"""Crop strategies by name, and turn by turn: a scripted judge's whole way through Algorithms 1 and 2 of paper A."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from sagehand.errors import DeadlineExceeded, InputError, JudgeError, PictureError, UnknownName, Unreachable
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import CropMove, CropTurn
from sagehand.judge.scripted import ScriptedJudge
from sagehand.picture import Box, Picture, load
from sagehand.recall.crop import CROPS, INSTRUCTION, crop_picture, cropper
from sagehand.recall.crop_loop import crop_by_turns
from sagehand.recall.crop_trace import CropResult


def move(tool: Any, reason: str = "", **arguments: Any) -> CropMove:
    return CropMove(tool, arguments, reason, "scripted")


def device(size: tuple[int, int] = (800, 600), box: tuple[int, int, int, int] = (430, 310, 600, 450)) -> Picture:
    """A dark device on a light table."""
    image = Image.new("RGB", size, (190, 188, 180))
    ImageDraw.Draw(image).rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill=(30, 40, 60))
    return load(np.asarray(image), name="table.png")


def told(moves: list[CropMove]) -> tuple[ScriptedJudge, list[CropTurn]]:
    """A judge that makes the moves, and the turns that it was asked."""
    turns: list[CropTurn] = []
    left = list(moves)

    def answer(turn: CropTurn) -> CropMove:
        turns.append(turn)
        return left.pop(0)

    return ScriptedJudge({"crop_move": answer}), turns


def test_algorithm_1_crops_through_nested_views_to_the_original_pixels() -> None:
    picture = device()
    judge, turns = told(
        [
            move("SetGridSize", rows=3, columns=4),
            move("Crop", top_left=7, bottom_right=12),
            move("Reset"),
            move("Crop", top_left=7, bottom_right=12),
            move("Crop", top_left=1, bottom_right=7),
            move("Finish", "all of it"),
        ]
    )
    result = crop_by_turns(picture, judge, "grid", most=9)
    assert [t.box.as_tuple() for t in turns] == [
        (0, 0, 800, 600),
        (0, 0, 800, 600),
        (400, 200, 800, 600),
        (0, 0, 800, 600),
        (400, 200, 800, 600),
        (400, 200, 700, 466),
    ]
    assert [(t.rows, t.columns) for t in turns[1:]] == [(3, 4)] * 5  # the size that was chosen stays
    assert (result.finished, result.reason, result.error) == (True, "all of it", None)
    assert result.box == Box(400, 200, 700, 466)
    assert np.array_equal(result.picture.pixels, picture.pixels[200:466, 400:700])
    assert result.removal == pytest.approx(1 - 300 * 266 / (800 * 600))
    assert result.fractions == pytest.approx((0.5, 1 / 3, 0.375, 266 / 600))


def test_algorithm_2_refines_the_box_on_the_full_picture() -> None:
    picture = device()
    judge, turns = told(
        [
            move("SetBoundingBoxParameters", x=0.5, y=0.5, width=0.5, height=0.5),
            move("SetBoundingBoxParameters", x=0.25, y=0.5, width=0.5, height=0.25),  # of the full picture again
            move("Finish"),
        ]
    )
    result = crop_by_turns(picture, judge, "box")
    assert [t.box.as_tuple() for t in turns] == [(0, 0, 800, 600), (400, 300, 800, 600), (200, 300, 600, 450)]
    assert result.box == Box(200, 300, 600, 450)
    assert result.finished
    assert {(t.rows, t.columns) for t in turns} == {(0, 0)}
    assert [t.view.size for t in turns] == [(800, 600), (512, 384), (512, 192)]  # small views are scaled up


def test_a_turn_shows_the_full_picture_the_view_the_instruction_and_what_happened() -> None:
    picture = device()
    judge, turns = told(
        [move("Crop", top_left=99, bottom_right=3), move("Crop", top_left=20, bottom_right=14), move("Finish")]
    )
    crop_by_turns(picture, judge, "grid", instruction="the screw", most=3)
    assert all(t.full is picture and t.instruction == "the screw" for t in turns)
    assert [(t.turn, t.most) for t in turns] == [(1, 3), (2, 3), (3, 3)]
    assert turns[0].notes == ()
    assert turns[1].notes == ("Turn 1: Crop was not done: top_left is 99, and this view has the cells 1 to 20.",)
    assert "put in order" in turns[2].notes[1]
    assert turns[2].notes[2].startswith("This is turn 3 of 3, the last one")


def test_the_papers_instruction_is_the_default() -> None:
    judge, turns = told([move("Finish")])
    crop_picture(device(), "grid", judge)
    assert turns[0].instruction == INSTRUCTION
    assert "fixture or housing" in INSTRUCTION


@pytest.mark.parametrize("strategy", ["grid", "box"])
def test_a_model_that_never_finishes_is_stopped_after_five_turns(strategy: str) -> None:
    endless = {
        "grid": move("Crop", top_left=1, bottom_right=2),
        "box": move("SetBoundingBoxParameters", x=0.1, y=0.1, width=0.5, height=0.5),
    }[strategy]
    judge = ScriptedJudge({"crop_move": lambda turn: endless})
    result = crop_by_turns(device(), judge, strategy)
    assert len(judge.asked) == len(result.trace.steps) == 5
    assert not result.finished
    assert result.reason == "the judge did not finish within 5 turns, and the last view is taken"
    assert result.error is None
    assert not result.whole


def test_a_judge_that_fails_leaves_the_whole_picture_and_the_reason() -> None:
    def fail(turn: CropTurn) -> CropMove:
        raise Unreachable("http://x/v1: refused")

    picture = device()
    result = crop_by_turns(picture, ScriptedJudge({"crop_move": fail}), "box")
    assert result.whole
    assert result.picture is picture
    assert (result.finished, result.removal) == (False, 0.0)
    assert isinstance(result.error, Unreachable)
    assert result.reason == "the judge gave no answer in turn 1, and the whole picture is taken: http://x/v1: refused"
    assert result.trace.steps[0].outcome == "failed"


def test_a_judge_that_fails_later_leaves_what_was_reached() -> None:
    def once(turn: CropTurn) -> CropMove:
        if turn.turn == 2:
            error = DeadlineExceeded("the time of the decision is up")
            error.attempts = 3
            raise error
        return move("SetBoundingBoxParameters", x=0.5, y=0.5, width=0.25, height=0.25)

    result = crop_by_turns(device(), ScriptedJudge({"crop_move": once}), "box")
    assert result.box == Box(400, 300, 600, 450)
    assert "in turn 2, and the last view is taken" in result.reason
    assert result.cost.calls == 3


def test_a_bug_in_a_judge_is_not_swallowed() -> None:
    def broken(turn: CropTurn) -> CropMove:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crop_by_turns(device(), ScriptedJudge({"crop_move": broken}), "grid")


@pytest.mark.parametrize("strategy", ["grid", "box"])
def test_the_trace_holds_every_view_as_it_was_shown(strategy: str) -> None:
    judge, turns = told([move("Reset"), move("Crop", top_left=1, bottom_right=7), move("Finish")])
    result = crop_by_turns(device((2000, 1500), (900, 500, 1300, 900)), judge, strategy, most=3)
    assert len(result.trace.steps) == 3
    for step, turn in zip(result.trace.steps, turns, strict=True):
        seen = np.asarray(Image.open(io.BytesIO(step.view)))
        assert seen.shape == turn.view.pixels.shape
        assert (seen.shape[1], seen.shape[0]) == step.view_size
        assert np.abs(seen.astype(int) - turn.view.pixels).mean() < 4
        assert step.shown == turn.box
        assert step.seconds >= 0
    assert result.trace.long_side == 1024


def test_the_size_of_a_turn_is_bounded_however_many_there_are() -> None:
    """I10: crops do not pile up; two pictures a turn, the view no longer than asked, few notes."""
    judge = ScriptedJudge({"crop_move": lambda turn: seen.append(turn) or move("Crop", top_left=1, bottom_right=19)})
    seen: list[Any] = []
    crop_by_turns(device((4000, 3000), (100, 100, 900, 900)), judge, "grid", most=30, long_side=512)
    assert len(seen) == 30
    assert max(max(t.view.size) for t in seen) == 512
    assert max(len(t.notes) for t in seen) == 9
    assert max(len(note) for t in seen for note in t.notes) < 300


def test_the_result_is_plain_data() -> None:
    judge, _ = told(
        [
            move("Crop", top_left=float("nan"), bottom_right="3"),
            move("Crop", top_left=2.0, bottom_right=19),
            move("Finish"),
        ]
    )
    doc = crop_by_turns(device(), judge, "grid").to_dict()
    again = json.loads(json.dumps(doc, allow_nan=False))
    assert again == doc
    assert doc["steps"][0]["arguments"] == {"top_left": "nan", "bottom_right": "3"}
    assert doc["steps"][0]["outcome"] == "refused"
    assert doc["steps"][1]["outcome"] == "done"
    assert (doc["turns"], doc["finished"], doc["error"], doc["strategy"]) == (3, True, None, "grid")
    assert doc["cost"]["calls"] == 0
    assert "view" not in doc["steps"][0]


@pytest.mark.parametrize("strategy", ["grid", "box"])
def test_the_perceptual_judge_crops_to_the_device_by_turns(strategy: str) -> None:
    picture = device()
    result = crop_picture(picture, strategy, PerceptualJudge())
    assert result.finished
    assert (result.box.left <= 430, result.box.top <= 310, result.box.right >= 600, result.box.bottom >= 450) == (
        True,
    ) * 4
    assert result.removal > 0.85
    assert {step.move.by for step in result.trace.steps if step.move} == {"perceptual"}
    if strategy == "box":
        assert result.box == PerceptualJudge().crop(picture).box
        assert [step.outcome for step in result.trace.steps] == ["done", "finished"]


def test_the_perceptual_judge_asks_for_a_finer_grid_when_every_cell_is_needed() -> None:
    picture = device(box=(170, 130, 630, 470))
    result = crop_picture(picture, "grid", PerceptualJudge())
    tools = [step.move.tool for step in result.trace.steps if step.move]
    assert tools[0] == "SetGridSize"
    assert tools[-1] == "Finish"
    assert 0.1 < result.removal < 0.6


@pytest.mark.parametrize("strategy", ["grid", "box"])
def test_the_perceptual_judge_finishes_at_once_where_it_cannot_tell(strategy: str) -> None:
    plain = load(np.full((300, 400, 3), 90, np.uint8))
    result = crop_picture(plain, strategy, PerceptualJudge())
    assert (result.whole, result.finished, len(result.trace.steps)) == (True, True, 1)
    assert result.reason == "nothing stands out from the background"


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 40), (1, 1000), (700, 2), (27, 332), (305, 30), (31, 31)])
@pytest.mark.parametrize("strategy", ["grid", "box"])
def test_strips_and_specks_are_cropped_and_shown_without_a_crash(strategy: str, size: tuple[int, int]) -> None:
    """B09: odd sizes; the view of a grid is never thinner than its numbers."""
    rng = np.random.default_rng(0)
    picture = load(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    judge, turns = told(
        [
            move("Crop", top_left=1, bottom_right=1),
            move("SetGridSize", rows=8, columns=8),
            move("SetBoundingBoxParameters", x=0.5, y=0.5, width=0.01, height=0.01),
            move("Finish"),
        ]
    )
    result = crop_by_turns(picture, judge, strategy)
    assert result.box.right <= size[0]
    assert result.box.bottom <= size[1]
    assert result.box.width >= min(32, size[0])
    assert result.box.height >= min(32, size[1])
    if strategy == "grid":
        assert min(min(t.view.size) for t in turns) >= 64


# ── strategies by name ────────────────────────────────────────────────────────────────────────────────────────────────


def test_none_keeps_everything_and_asks_nobody() -> None:
    picture = device()
    result = crop_picture(picture, "none", ScriptedJudge({}))
    assert result.picture is picture
    assert result.finished
    assert cropper("none", ScriptedJudge({})) is None


@pytest.mark.parametrize(
    ("label", "box"),
    [
        ({"box": Box(10, 20, 110, 90)}, Box(10, 20, 110, 90)),
        ({"polygon": ((10.5, 20.2), (99.9, 30.0), (50.0, 88.8))}, Box(10, 20, 100, 89)),
        ({"polygon": ((-50.0, -5.0), (900.0, 30.0), (50.0, 700.0))}, None),
        ({"polygon": ((900.0, 10.0), (990.0, 10.0), (950.0, 90.0))}, None),
        ({}, None),
    ],
)
def test_truth_takes_what_the_label_says(label: dict[str, Any], box: Box | None) -> None:
    cut = cropper("truth", ScriptedJudge({}))
    assert cut is not None
    assert cut(device(), label) == box


def test_truth_outside_the_picture_is_refused() -> None:
    with pytest.raises(PictureError, match="reaches beyond"):
        _ = crop_picture(device(), "truth", ScriptedJudge({}), label={"box": Box(0, 0, 900, 10)}).picture


def test_perceptual_is_the_same_whoever_answers_the_other_questions() -> None:
    picture = device()
    result = crop_picture(picture, "perceptual", ScriptedJudge({}))
    assert result.box == PerceptualJudge().crop(picture).box
    assert result.trace.judge == "perceptual"


def test_a_cropper_hands_out_boxes_and_tells_every_result() -> None:
    results: list[CropResult] = []
    judge, _ = told([move("SetBoundingBoxParameters", x=0, y=0, width=0.5, height=0.5), move("Finish"), move("Finish")])
    cut = cropper("box", judge, instruction="the phone", on_result=results.append)
    assert cut is not None
    assert cut(device(), {}) == Box(0, 0, 400, 300)
    assert cut(device(), {}) is None  # the whole picture
    assert [r.trace.instruction for r in results] == ["the phone"] * 2


def test_a_caller_can_stop_where_the_judge_fails() -> None:
    def fail(turn: CropTurn) -> CropMove:
        raise Unreachable("gone")

    def stop(result: CropResult) -> None:
        if result.error is not None:
            raise result.error

    cut = cropper("grid", ScriptedJudge({"crop_move": fail}), on_result=stop)
    assert cut is not None
    with pytest.raises(JudgeError, match="gone"):
        cut(device(), {})


def test_names_are_checked_before_anything_is_done() -> None:
    assert CROPS == ("none", "perceptual", "relief", "truth", "grid", "box")
    for strategy in ("boxx", ""):
        with pytest.raises(UnknownName, match="crop strategy"):
            cropper(strategy, PerceptualJudge())
        with pytest.raises(UnknownName, match="crop strategy"):
            crop_picture(device(), strategy, PerceptualJudge())
    with pytest.raises(UnknownName, match="strategy with turns"):
        crop_by_turns(device(), PerceptualJudge(), "truth")
    with pytest.raises(InputError, match="0 turns"):
        crop_by_turns(device(), PerceptualJudge(), "grid", most=0)
    with pytest.raises(InputError, match="views of 10 pixels"):
        crop_by_turns(device(), PerceptualJudge(), "grid", long_side=10)


def test_real_photos_crop_by_both_strategies(phones: Path) -> None:
    for name in ("39900.JPG", "2-PlasticScreen.jpg"):
        picture = load(phones / name)
        for strategy in ("grid", "box"):
            result = crop_picture(picture, strategy, PerceptualJudge())
            assert result.finished
            assert 0.2 < result.removal < 0.8
