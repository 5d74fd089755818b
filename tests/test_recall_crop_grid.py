"""The numbered grid that is drawn on a view: in the right place, and readable whatever lies under it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sagehand.errors import InputError
from sagehand.judge.cells import Grid
from sagehand.picture import Box, load
from sagehand.recall.crop_loop import view_of
from sagehand.recall.crop_moves import start
from sagehand.recall.grid import draw_grid


def flat(value: int, size: tuple[int, int] = (1024, 768)) -> NDArray[np.uint8]:
    return np.full((size[1], size[0], 3), value, dtype=np.uint8)


def grid_over(size: tuple[int, int], rows: int, columns: int) -> Grid:
    return Grid(Box(0, 0, *size), rows, columns)


def drawn(value: int, rows: int = 4, columns: int = 5, size: tuple[int, int] = (1024, 768)) -> NDArray[np.uint8]:
    return draw_grid(flat(value, size), grid_over(size, rows, columns))


def contrast(first: float, second: float) -> float:
    """WCAG 2 contrast ratio of two grey levels."""
    light = [((v / 255 + 0.055) / 1.055) ** 2.4 if v > 10 else v / 255 / 12.92 for v in (first, second)]
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("size", [(1024, 768), (512, 384), (1024, 400), (300, 1024)])
@pytest.mark.parametrize("cells", [(2, 2), (4, 5), (8, 8)])
def test_numbers_do_not_depend_on_what_lies_under_them(size: tuple[int, int], cells: tuple[int, int]) -> None:
    over = [drawn(value, *cells, size=size) for value in (0, 255)]
    same = (over[0] == over[1]).all(axis=2)  # what was drawn: chips, numbers and lines, all opaque
    grid = grid_over(size, *cells)
    for number in range(1, grid.count + 1):
        box = grid.span(number, number)
        cell = (slice(box.top + 4, box.bottom - 4), slice(box.left + 4, box.right - 4))
        ink = over[0][cell][same[cell]]
        assert len(ink) > 150, number
        assert contrast(float(ink.max()), float(ink.min())) > 12, number


def test_every_cell_has_another_number() -> None:
    grid = grid_over((1024, 768), 4, 5)
    picture = drawn(120)
    chips = set()
    for number in range(1, 21):
        box = grid.span(number, number)
        chips.add(picture[box.top + 6 : box.top + 70, box.left + 6 : box.left + 90].tobytes())
    assert len(chips) == 20


def test_most_of_the_picture_stays_to_be_seen() -> None:
    under = flat(97)
    changed = (draw_grid(under, grid_over((1024, 768), 4, 5)) != under).any(axis=2)
    assert 0.02 < changed.mean() < 0.12
    changed = (draw_grid(under, grid_over((1024, 768), 8, 8)) != under).any(axis=2)
    assert changed.mean() < 0.25


@pytest.mark.parametrize("value", [0, 60, 128, 200, 255])
def test_lines_stand_out_from_any_grey(value: int) -> None:
    picture = drawn(value)
    across = picture[384 - 40, :, 0].astype(int)
    for x in (205, 410, 614, 819):
        near = across[x - 4 : x + 5]
        assert max(contrast(v, value) for v in near) > 3


def test_lines_lie_where_the_cells_end() -> None:
    box = Box(100, 50, 900, 650)
    grid = Grid(box, 3, 4)
    picture = draw_grid(flat(128, (400, 300)), grid)  # shown at half size
    down = (picture[:, 160:195] == 255).all(axis=(1, 2))
    assert [int(y) for y in np.flatnonzero(down)] == [100, 200]
    across = (picture[60:90] == 255).all(axis=(0, 2))
    assert [int(x) for x in np.flatnonzero(across)] == [100, 200, 300]


def test_a_strip_gets_a_margin_for_its_numbers() -> None:
    picture = draw_grid(flat(200, (1024, 3)), Grid(Box(0, 0, 1024, 3), 1, 8))
    assert picture.shape == (64, 1024, 3)
    assert (picture[30:33, 60:110] == 200).all()
    assert ((picture == 255).all(axis=2)).sum() > 8 * 30


def test_views_are_scaled_to_be_looked_at() -> None:
    def size(width: int, height: int, long_side: int = 1024) -> tuple[int, ...]:
        picture = load(flat(90, (width, height)))
        return view_of(picture, start(picture.size, "box"), long_side).shape[:2]

    assert size(4000, 3000) == (768, 1024)
    assert size(800, 600) == (600, 800)
    assert size(100, 50) == (256, 512)
    assert size(100, 50, 300) == (150, 300)
    assert size(9000, 3) == (1, 1024)


def test_a_grid_that_cannot_be_is_refused() -> None:
    for rows, columns in ((0, 3), (3, 0), (11, 1), (1, 11)):
        with pytest.raises(InputError, match="no grid"):
            Grid(Box(0, 0, 10, 10), rows, columns)
    with pytest.raises(InputError, match="no cell 5"):
        Grid(Box(0, 0, 10, 10), 2, 2).span(1, 5)
