"""Outlines against masks: the traced border is exact, the simplified one within its tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image, ImageDraw

from sagehand.study.cell.outline import area, largest_piece, outline, simplify, trace

masks = arrays(np.bool_, st.tuples(st.integers(1, 14), st.integers(1, 14)), elements=st.booleans()).filter(np.any)


@given(masks)
@settings(deadline=None, max_examples=150)
def test_the_traced_border_has_the_area_of_its_pixels(mask: np.ndarray) -> None:
    piece = largest_piece(mask)
    border = trace(piece)
    assert area(border) == piece.sum()
    steps = np.roll(border, -1, axis=0) - border
    assert ((steps == 0).sum(axis=1) == 1).all(), "every side runs along the pixels' edges"
    assert border.min() >= 0
    assert (border.max(axis=0) <= mask.shape[::-1]).all()


@given(masks, st.floats(0.1, 3))
@settings(deadline=None, max_examples=100)
def test_simplifying_keeps_within_the_tolerance(mask: np.ndarray, tolerance: float) -> None:
    border = trace(largest_piece(mask))
    simple = simplify(border, tolerance)
    assert {tuple(p) for p in simple} <= {tuple(p) for p in border}
    ends = np.roll(simple, -1, axis=0)
    for point in border:
        way = ends - simple
        along = np.clip(((point - simple) * way).sum(1) / np.maximum((way**2).sum(1), 1e-12), 0, 1)
        assert np.hypot(*(simple + along[:, None] * way - point).T).min() <= tolerance + 1e-9


def test_a_single_pixel() -> None:
    mask = np.zeros((3, 4), dtype=bool)
    mask[1, 2] = True
    assert trace(mask).tolist() == [[2, 1], [3, 1], [3, 2], [2, 2]]


def test_the_largest_piece_wins_and_its_holes_are_filled() -> None:
    mask = np.zeros((20, 30), dtype=bool)
    mask[2:12, 2:12] = True
    mask[5:7, 5:7] = False
    mask[15:17, 20:22] = True
    corners = outline(mask)
    assert corners is not None
    assert area(corners) == 100


def test_an_empty_mask_has_no_outline() -> None:
    assert outline(np.zeros((4, 4), dtype=bool)) is None


@pytest.mark.parametrize("radius", [12.0, 60.0, 150.0])
def test_the_outline_of_a_disc_agrees_with_it(radius: float) -> None:
    y, x = np.mgrid[:480, :640]
    disc = np.hypot(x - 310.3, y - 235.8) < radius
    corners = outline(disc)
    assert corners is not None
    assert len(corners) < 2 * radius
    assert area(corners) == pytest.approx(np.pi * radius**2, rel=0.03)
    image = Image.new("1", (640, 480))
    ImageDraw.Draw(image).polygon([(a - 0.5, b - 0.5) for a, b in corners], fill=1)
    drawn = np.asarray(image)
    assert (drawn & disc).sum() / (drawn | disc).sum() > (0.9 if radius < 20 else 0.97)
