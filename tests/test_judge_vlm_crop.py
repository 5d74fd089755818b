"""Crop moves of a VLM: its own box convention becomes fractions of the full picture, and nowhere else (B01, B02, B08)."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import Unreachable
from sagehand.judge.questions import CropTurn
from sagehand.judge.vlm import VlmJudge
from sagehand.picture import Box, Picture
from sagehand.recall.crop import crop_picture
from sagehand.recall.crop_moves import apply, start
from sagehand.vlm.base import Question
from sagehand.vlm.boxes import Convention, say_box
from sagehand.vlm.images import encode
from sagehand.vlm.profile import Profile
from sagehand.vlm.tools import strict_problems, wire_schema
from vlm_doubles import CELL, FakeVlm, picture

CONVENTIONS = get_args(Convention)
WHOLE = "Keep the fixture."


def turn(full: Picture, strategy: Any = "box", **more: Any) -> CropTurn:
    fields: dict[str, Any] = {"rows": 4 if strategy == "grid" else 0, "columns": 5 if strategy == "grid" else 0}
    return CropTurn(full, full, strategy, box=Box(0, 0, *full.size), turn=1, most=5, instruction=WHOLE, **fields | more)


def named(box: Box, convention: Any, full: Picture) -> dict[str, float]:
    frame = encode(full.pixels, Profile(boxes=convention)).frame
    left, top, right, bottom = say_box(box, convention, frame)
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def moved(answers: Any, full: Picture, convention: Any = "0-1", strategy: Any = "box") -> Any:
    judge = VlmJudge(FakeVlm(answers, boxes=convention), lambda case_id: picture(), CELL)
    return judge.crop_move(turn(full, strategy))


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("size", [(640, 480), (480, 640), (407, 663), (2000, 300)])
def test_a_box_in_any_convention_is_the_same_move(convention: Any, size: tuple[int, int]) -> None:
    full = picture(1, size)
    box = Box(size[0] // 4, size[1] // 3, size[0] * 3 // 4, size[1] * 2 // 3)
    move = moved({"SetBoundingBoxParameters": named(box, convention, full)}, full, convention)
    assert move.tool == "SetBoundingBoxParameters"
    assert move.by == "vlm:double"
    assert move.cost.calls == 2
    got = [move.arguments[n] * s for n, s in zip(("x", "y", "width", "height"), (*size, *size), strict=True)]
    assert got == pytest.approx([box.left, box.top, box.width, box.height], abs=1.01)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_an_empty_or_inverted_box_is_handed_on_so_that_the_turn_refuses_it(convention: Any) -> None:
    full = picture(1, (640, 480))
    empty = moved({"SetBoundingBoxParameters": {"x": 0.5, "y": 0.5, "width": 0.0, "height": 0.0}}, full, convention)
    assert (empty.arguments["width"], empty.arguments["height"]) == (0, 0)
    done = apply(start(full.size, "box"), empty)
    assert done.outcome == "refused"
    assert "empty" in done.note


@given(st.data(), st.sampled_from(CONVENTIONS))
@settings(max_examples=60, deadline=None)
def test_whatever_the_model_may_say_the_crop_lies_in_the_picture(data: Any, convention: Any) -> None:
    full = picture(1, (160, 120))

    def answer(question: Question) -> Any:
        tool = data.draw(st.sampled_from(list(question.tools)))
        values = {}
        for name, field in tool.model_json_schema()["properties"].items():
            low, high = field["minimum"], field["maximum"]
            whole = field["type"] == "integer"
            values[name] = data.draw(st.integers(low, high) if whole else st.floats(low, high))
        return tool.model_validate(values)

    judge = VlmJudge(FakeVlm(answer, boxes=convention), lambda case_id: picture(), CELL)
    for strategy in ("box", "grid"):
        result = crop_picture(full, strategy, judge)
        assert 0 <= result.box.left < result.box.right <= 160
        assert 0 <= result.box.top < result.box.bottom <= 120
        assert len(result.trace.steps) <= 5


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_tools_of_a_turn_are_the_papers_and_stay_inside_the_strict_subset(convention: Any) -> None:
    full = picture(1, (640, 480))
    for strategy, names in (
        ("box", ["SetBoundingBoxParameters", "Finish"]),
        ("grid", ["Crop", "SetGridSize", "Reset", "Finish"]),
    ):
        vlm = FakeVlm({"Finish": {}}, boxes=convention)
        VlmJudge(vlm, lambda case_id: picture(), CELL).crop_move(turn(full, strategy))
        (question,) = vlm.asked
        assert [t.__name__ for t in question.tools] == names
        assert strict_problems(wire_schema(question.tools)) == []
        assert "Keep the fixture." in str(question.parts[1])
    cells = wire_schema([question.tools[0]])
    assert "20" in str(cells), "no cell beyond the grid's last"


def test_the_numbers_of_a_grid_are_cells_of_the_view() -> None:
    move = moved({"Crop": {"top_left": 7, "bottom_right": 14}}, picture(1, (640, 480)), "0-1000", "grid")
    assert move.arguments == {"top_left": 7, "bottom_right": 14}
    assert moved({"SetGridSize": {"rows": 3, "columns": 8}}, picture(1), "pixels", "grid").arguments == {
        "rows": 3,
        "columns": 8,
    }
    assert moved({"Reset": {}}, picture(1), strategy="grid").tool == "Reset"


def test_one_question_without_turns() -> None:
    full = picture(1, (640, 480))
    box = {"x": 0.25, "y": 0.25, "width": 0.5, "height": 0.5}
    judge = VlmJudge(FakeVlm({"SetBoundingBoxParameters": box}), lambda case_id: picture(), CELL)
    assert judge.crop(full).box == Box(160, 120, 480, 360)
    assert judge.crop(full).cost.calls == 2
    finished = VlmJudge(FakeVlm({"Finish": {}}), lambda case_id: picture(), CELL).crop(full)
    assert finished.box == Box(0, 0, 640, 480)
    nothing = {"x": 0.5, "y": 0.5, "width": 0.0, "height": 0.0}
    assert (
        VlmJudge(FakeVlm({"SetBoundingBoxParameters": nothing}), lambda case_id: picture(), CELL).crop(full).box is None
    )


def test_a_model_that_fails_leaves_the_whole_picture_and_the_reason() -> None:
    def fail(question: Question) -> Any:
        raise Unreachable("no connection")

    result = crop_picture(picture(1, (160, 120)), "box", VlmJudge(FakeVlm(fail), lambda case_id: picture(), CELL))
    assert result.whole
    assert "no connection" in result.reason
