"""Every move leaves a valid view, whatever a model says: FIELD_REPORTS B04 and B05, and random sequences."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.judge.cells import Grid
from sagehand.judge.questions import CropMove, CropTurn
from sagehand.judge.scripted import ScriptedJudge
from sagehand.picture import Box, load
from sagehand.recall.crop_loop import crop_by_turns
from sagehand.recall.crop_moves import LEAST_SHARE, LEAST_SIDE, Applied, View, apply, start
from sagehand.recall.grid import default_grid, finest_grid

SIZE = (1000, 500)


def do(view: View, tool: Any, **arguments: Any) -> Applied:
    return apply(view, CropMove(tool, arguments, "", "test"))


def boxed(x: Any, y: Any, width: Any, height: Any, size: tuple[int, int] = SIZE) -> Applied:
    return do(start(size, "box"), "SetBoundingBoxParameters", x=x, y=y, width=width, height=height)


def corners(x1: float, y1: float, x2: float, y2: float) -> Applied:
    return boxed(x1, y1, x2 - x1, y2 - y1)


# ── boxes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_good_box_is_taken_as_it_is() -> None:
    done = boxed(0.1, 0.2, 0.5, 0.5)
    assert (done.outcome, done.view.box) == ("done", Box(100, 100, 600, 350))


def test_b04_backward_corners_are_sorted_and_it_is_said() -> None:
    done = corners(0.9, 0.2, 0.1, 0.8)
    assert (done.outcome, done.view.box) == ("repaired", Box(100, 100, 900, 400))
    assert "sorted" in done.note


def test_b04_what_leaves_the_picture_is_cut_off_and_it_is_said() -> None:
    done = corners(-0.1, 0, 1.2, 1)
    assert (done.outcome, done.view.box) == ("repaired", Box(0, 0, 1000, 500))
    assert "cut off at the edge" in done.note


def test_rounding_at_the_edge_is_no_repair() -> None:
    assert boxed(1 / 3, 0.7, 2 / 3 + 1e-12, 0.3 + 1e-12).outcome == "done"


@pytest.mark.parametrize(
    "box",
    [(0.5, 0.5, 0.5, 0.5), (1.2, 1.2, 1.4, 1.4), (-0.4, 0.1, 0.0, 0.5), (0.2, 0.5, 0.8, 0.5), (0.99, 0.0, 1.4, 1.0)],
    ids=["a point", "outside", "left of it", "a line", "nearly outside"],
)
def test_b05_what_holds_nothing_is_refused_with_a_reason(box: tuple[float, float, float, float]) -> None:
    before = do(start(SIZE, "box"), "SetBoundingBoxParameters", x=0.1, y=0.1, width=0.5, height=0.5).view
    x1, y1, x2, y2 = box
    done = do(before, "SetBoundingBoxParameters", x=x1, y=y1, width=x2 - x1, height=y2 - y1)
    assert (done.outcome, done.view) == ("refused", before)
    assert "was not done: the box" in done.note


def test_b05_what_is_too_small_is_grown_around_its_centre() -> None:
    done = boxed(0.6, 0.4, 0.01, 0.01)
    box = done.view.box
    assert done.outcome == "repaired"
    assert "grown around its centre (at least 2% of the picture and 32 x 32 pixels)" in done.note
    assert abs((box.left + box.right) / 2 - 605) <= 1
    assert abs((box.top + box.bottom) / 2 - 202.5) <= 1
    assert box.area >= 0.02 * SIZE[0] * SIZE[1]
    assert box.area < 0.025 * SIZE[0] * SIZE[1]


def test_what_grows_at_the_border_is_moved_inside() -> None:
    box = boxed(0.999, 0.0, 0.001, 0.001).view.box
    assert (box.right, box.top) == (1000, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x": math.nan}, "x is nan, not a number"),
        ({"width": math.inf}, "width is inf, not a number"),
        ({"y": "0.3"}, "y is '0.3', not a number"),
        ({"height": None}, "height is missing, not a number"),
        ({"x": True}, "x is True, not a number"),
        ({"x": 300, "width": 500}, "x is far outside the picture"),
        ({"width": 10**5000}, "width is a huge number, not a number"),
        ({"y": ["a"] * 99}, "…, not a number"),
    ],
    ids=lambda v: str(v)[:30] if not isinstance(v, dict) else next(iter(v)),
)
def test_what_is_no_fraction_is_refused_by_name(arguments: dict[str, Any], said: str) -> None:
    view = start(SIZE, "box")
    done = do(view, "SetBoundingBoxParameters", **({"x": 0.1, "y": 0.1, "width": 0.5, "height": 0.5} | arguments))
    assert (done.outcome, done.view) == ("refused", view)
    assert said in done.note
    assert len(done.note) < 160


def test_the_other_strategys_tools_are_refused() -> None:
    for strategy, tool in (("box", "Crop"), ("box", "Reset"), ("grid", "SetBoundingBoxParameters"), ("grid", "Zoom")):
        done = do(start(SIZE, strategy), tool, top_left=1, bottom_right=2)
        assert done.outcome == "refused"
        assert "the tools are" in done.note


def test_what_is_said_of_a_box_holds_no_coordinates() -> None:
    """A model counts in units of its own (thousandths, pixels of a resized image); ours would mislead it."""
    for done in (boxed(0.123, 0.2, 0.456, 0.4), boxed(123, 0, 456, 1), corners(-0.1, 0, 1.2, 1)):
        assert "0.123" not in done.note
        assert "123" not in done.note


# ── cells ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cells_count_row_by_row_in_the_current_view() -> None:
    view = do(start(SIZE, "grid"), "SetGridSize", rows=2, columns=4).view
    assert do(view, "Crop", top_left=1, bottom_right=1).view.box == Box(0, 0, 250, 250)
    assert do(view, "Crop", top_left=6, bottom_right=8).view.box == Box(250, 250, 1000, 500)
    inner = do(view, "Crop", top_left=6, bottom_right=8).view
    assert do(inner, "Crop", top_left=8, bottom_right=8).view.box == Box(812, 375, 1000, 500)


@pytest.mark.parametrize(("first", "second"), [(7, 2), (2, 7), (3, 6), (6, 3)])
def test_b04_any_two_corners_of_a_rectangle_name_it(first: int, second: int) -> None:
    view = do(start(SIZE, "grid"), "SetGridSize", rows=2, columns=4).view
    done = do(view, "Crop", top_left=first, bottom_right=second)
    assert done.view.box == Box(250, 0, 750, 500)
    assert done.outcome == ("done" if (first, second) == (2, 7) else "repaired")


@pytest.mark.parametrize("arguments", [{"top_left": 0}, {"bottom_right": 21}, {"top_left": 2.5}, {"top_left": None}])
def test_cells_that_are_not_there_are_refused(arguments: dict[str, Any]) -> None:
    view = do(start(SIZE, "grid"), "SetGridSize", rows=4, columns=5).view
    done = do(view, "Crop", **({"top_left": 1, "bottom_right": 2} | arguments))
    assert (done.outcome, done.view) == ("refused", view)


def test_a_grid_is_held_to_what_can_be_read() -> None:
    done = do(start(SIZE, "grid"), "SetGridSize", rows=50, columns=0)
    assert (done.outcome, done.view.rows, done.view.columns) == ("repaired", 8, 1)
    assert "1 to 8 rows and 1 to 8 columns fit this view" in done.note
    small = do(start((40, 500), "grid"), "SetGridSize", rows=8, columns=8)
    assert (small.view.rows, small.view.columns) == (8, 5)


def test_what_changes_nothing_is_told_so() -> None:
    view = start(SIZE, "grid")
    assert "nothing changed by it" in do(view, "Reset").note
    assert "nothing changed by it" in do(view, "Crop", top_left=1, bottom_right=view.rows * view.columns).note
    assert "nothing changed by it" not in do(view, "Crop", top_left=1, bottom_right=2).note


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_the_default_grid_has_about_twenty_nearly_square_cells(width: int, height: int) -> None:
    rows, columns = default_grid(width, height)
    most_rows, most_columns = finest_grid(width, height)
    assert 1 <= rows <= most_rows <= 8
    assert 1 <= columns <= most_columns <= 8
    if 0.5 <= width / height <= 2 and min(width, height) >= 64:
        assert 15 <= rows * columns <= 25
        assert 0.6 <= (width / columns) / (height / rows) <= 1.67


# ── properties ────────────────────────────────────────────────────────────────────────────────────────────────────────

grids = st.builds(
    lambda left, top, width, height, rows, columns: Grid(
        Box(left, top, left + width, top + height), min(rows, height), min(columns, width)
    ),
    st.integers(0, 500),
    st.integers(0, 500),
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.integers(1, 8),
    st.integers(1, 8),
)


@given(grids, st.data())
def test_cells_and_boxes_go_round(grid: Grid, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, grid.count))
    second = data.draw(st.integers(1, grid.count))
    box = grid.span(first, second)
    assert box == grid.span(second, first)
    found = grid.covering(box)
    assert found is not None
    assert grid.span(*found) == box
    assert grid.covering(grid.box) == (1, grid.count)
    assert sum(grid.span(n, n).area for n in range(1, grid.count + 1)) == grid.box.area


@given(grids, st.data())
def test_covering_cells_cover_and_none_is_idle(grid: Grid, data: st.DataObject) -> None:
    left, top = data.draw(st.integers(0, 3500)), data.draw(st.integers(0, 3500))
    inner = Box(left, top, left + data.draw(st.integers(1, 900)), top + data.draw(st.integers(1, 900)))
    cells = grid.covering(inner)
    seen = [max(inner.left, grid.box.left), max(inner.top, grid.box.top)]
    seen += [min(inner.right, grid.box.right), min(inner.bottom, grid.box.bottom)]
    if seen[0] >= seen[2] or seen[1] >= seen[3]:
        assert cells is None
        return
    assert cells is not None
    outer = grid.span(*cells)
    assert outer.left <= seen[0] < seen[2] <= outer.right
    assert outer.top <= seen[1] < seen[3] <= outer.bottom
    first, last = grid.span(cells[0], cells[0]), grid.span(cells[1], cells[1])
    assert first.right > seen[0]
    assert first.bottom > seen[1]
    assert last.left < seen[2]
    assert last.top < seen[3]


numbers = st.one_of(
    st.integers(-3, 70),
    st.floats(-0.6, 1.6),
    st.floats(),
    st.sampled_from([None, "3", True, [], 10**400, -(10**400), math.nan, math.inf, -math.inf, 0, 1, 0.0, 1e-9, 1000]),
)
names = st.sampled_from(["top_left", "bottom_right", "rows", "columns", "x", "y", "width", "height"])
odd_moves = st.builds(
    lambda tool, arguments: CropMove(tool, arguments, "", "odd"),
    st.sampled_from(["Crop", "SetGridSize", "Reset", "SetBoundingBoxParameters", "Zoom", "", "Crop\n"]),
    st.dictionaries(names, numbers, max_size=8),
)
good_moves = st.one_of(
    st.builds(
        lambda a, b: CropMove("Crop", {"top_left": a, "bottom_right": b}, "", "good"),
        st.integers(1, 64),
        st.integers(1, 64),
    ),
    st.builds(
        lambda r, c: CropMove("SetGridSize", {"rows": r, "columns": c}, "", "good"),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    st.builds(
        lambda x, y, w, h: CropMove("SetBoundingBoxParameters", {"x": x, "y": y, "width": w, "height": h}, "", "good"),
        *[st.floats(-0.2, 1.2)] * 4,
    ),
    st.just(CropMove("Reset", {}, "", "good")),
)


@settings(max_examples=300, deadline=None)
@given(
    st.tuples(st.integers(1, 1200), st.integers(1, 1200)),
    st.sampled_from(["grid", "box"]),
    st.lists(st.one_of(odd_moves, good_moves), max_size=12),
)
def test_no_sequence_of_moves_leaves_the_picture(size: tuple[int, int], strategy: str, moves: list[CropMove]) -> None:
    view = start(size, strategy)
    for move in moves:
        done = apply(view, move)
        box = done.view.box
        assert 0 <= box.left < box.right <= size[0]
        assert 0 <= box.top < box.bottom <= size[1]
        assert box.width >= min(LEAST_SIDE, size[0])
        assert box.height >= min(LEAST_SIDE, size[1])
        assert box.area >= math.floor(LEAST_SHARE * size[0] * size[1])
        assert len(done.note) < 400
        assert done.note.isprintable()
        if done.outcome == "refused":
            assert done.view == view
        if strategy == "grid":
            grid = done.view.grid
            assert grid is not None
            assert grid.rows <= 8
            assert grid.columns <= 8
            if move.tool == "Crop" and done.outcome == "done":
                assert view.grid is not None
                first, last = (int(move.arguments[name]) for name in ("top_left", "bottom_right"))
                assert view.grid.span(first, last) == box  # a nested crop is exact in the original's pixels
        view = done.view


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(1, 90), st.integers(1, 90)),
    st.sampled_from(["grid", "box"]),
    st.lists(st.one_of(odd_moves, good_moves, st.just(CropMove("Finish", {}, "", "odd"))), min_size=9, max_size=9),
    st.integers(1, 7),
)
def test_the_loop_ends_in_time_with_a_crop(
    size: tuple[int, int], strategy: str, moves: list[CropMove], most: int
) -> None:
    import numpy as np

    picture = load(np.arange(size[0] * size[1] * 3, dtype=np.uint8).reshape(size[1], size[0], 3))
    left = list(moves)

    def answer(turn: CropTurn) -> CropMove:
        assert turn.turn <= turn.most == most
        return left.pop(0)

    result = crop_by_turns(picture, ScriptedJudge({"crop_move": answer}), strategy, most=most, long_side=64)
    steps = result.trace.steps
    assert 1 <= len(steps) <= most
    box = result.box
    assert np.array_equal(result.picture.pixels, picture.pixels[box.top : box.bottom, box.left : box.right])
    assert result.finished == (steps[-1].move is not None and steps[-1].move.tool == "Finish")
    assert steps[-1].box == box
