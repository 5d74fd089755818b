from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sagehand.picture
from sagehand.errors import DepthError, InputError, PictureError
from sagehand.picture import Box, Crop, Picture, load

SIZE = st.tuples(st.integers(1, 40), st.integers(1, 40))


@st.composite
def boxes(draw, width: int, height: int) -> Box:
    left = draw(st.integers(0, width - 1))
    top = draw(st.integers(0, height - 1))
    return Box(left, top, draw(st.integers(left + 1, width)), draw(st.integers(top + 1, height)))


def ramp(width: int, height: int) -> np.ndarray:
    """Every pixel differs from every other: (x, y, 7)."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x, y, np.full_like(x, 7)], axis=2).astype(np.uint8)


def test_public_names_exist():
    assert all(hasattr(sagehand.picture, name) for name in sagehand.picture.__all__)


def test_arrays_do_not_need_pillow():
    code = (
        "import sys, numpy as np; from sagehand.picture import load;"
        "print(len(load(np.zeros((4, 4), np.uint16)).pixel_id) > 0, 'PIL' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


class TestBox:
    def test_half_open(self):
        box = Box(2, 3, 5, 9)
        assert (box.width, box.height, box.area, box.as_tuple()) == (3, 6, 18, (2, 3, 5, 9))

    def test_takes_numpy_integers_and_holds_python_ones(self):
        box = Box(*np.array([1, 2, 3, 4]))
        assert all(type(value) is int for value in box.as_tuple())

    @pytest.mark.parametrize("corners", [(5, 0, 5, 9), (5, 0, 4, 9), (0, 3, 2, 3), (-1, 0, 3, 3), (0, -2, 3, 3)])
    def test_empty_or_outside_is_refused(self, corners):
        with pytest.raises(InputError, match=r"empty|outside"):
            Box(*corners)

    def test_fractional_pixels_are_refused(self):
        with pytest.raises(InputError, match=r"top is 0\.5"):
            Box(0, 0.5, 3, 3)  # type: ignore[arg-type]

    @given(st.data(), SIZE)
    @settings(deadline=None, max_examples=100)
    def test_fractions_of_a_box_give_the_box_again(self, data, size):
        width, height = size
        box = data.draw(boxes(width, height))
        fractions = box.left / width, box.top / height, box.width / width, box.height / height
        assert Box.from_fractions(*fractions, size) == box

    @given(st.tuples(*[st.floats(-0.5, 1.5)] * 2), st.tuples(*[st.floats(1e-9, 2)] * 2), SIZE)
    @settings(deadline=None, max_examples=100)
    def test_fractions_cover_and_stay_inside(self, corner, extent, size):
        (x, y), (w, h), (width, height) = corner, extent, size
        try:
            box = Box.from_fractions(x, y, w, h, size)
        except InputError:
            assert x >= 1 - 1e-6 or y >= 1 - 1e-6 or x + w <= 1e-6 or y + h <= 1e-6
            return
        assert box.right <= width
        assert box.bottom <= height
        assert box.left <= max(0, x * width) + 1e-5
        assert box.right >= min(width, (x + w) * width) - 1e-5

    def test_rounding_does_not_spill_over(self):
        assert Box.from_fractions(0.1, 0.1, 0.2, 0.2, (10, 10)) == Box(1, 1, 3, 3)

    @pytest.mark.parametrize(
        "fractions",
        [
            (0, 0, 0, 1),
            (0, 0, -0.5, 1),
            (1.2, 0, 0.5, 1),
            (-1, 0, 0.5, 1),
            (float("nan"), 0, 1, 1),
            (0, 0, float("inf"), 1),
        ],
    )
    def test_bad_fractions_are_refused(self, fractions):
        with pytest.raises(InputError, match="fractions"):
            Box.from_fractions(*fractions, (10, 10))


class TestPicture:
    def test_identity_is_the_documented_hash(self):
        pixels = ramp(5, 3)
        expected = hashlib.sha256(b"5x3:" + pixels.tobytes()).hexdigest()[:32]
        assert load(pixels).pixel_id == expected
        assert len(expected) == 32

    def test_same_bytes_in_another_shape_are_another_picture(self):
        flat = np.zeros((2, 6, 3), np.uint8)
        assert load(flat).pixel_id != load(flat.reshape(6, 2, 3)).pixel_id

    def test_pixels_cannot_be_written(self):
        with pytest.raises(ValueError, match="read-only"):
            load(ramp(4, 4)).pixels[0, 0, 0] = 1

    @pytest.mark.parametrize(
        "pixels",
        [
            np.zeros((4, 4), np.uint8),
            np.zeros((4, 4, 3), np.float32),
            np.zeros((4, 4, 3), np.uint8)[:, ::2],
            np.zeros((0, 4, 3), np.uint8),
        ],
    )
    def test_wrong_pixels_are_refused(self, pixels):
        with pytest.raises(PictureError, match="not contiguous uint8"):
            Picture(pixels)

    def test_depth_of_another_shape_is_refused(self):
        with pytest.raises(DepthError, match=r"\(4, 5\)"):
            Picture(ramp(5, 4), depth=np.ones((5, 4), np.float32))


class TestCrop:
    def test_holds_the_pixels_and_depth_of_its_box(self):
        picture = load(ramp(20, 10), depth=np.arange(1, 201, dtype=np.float32).reshape(10, 20) / 100)
        crop = picture.crop(Box(3, 2, 9, 7))
        assert crop.size == (20, 10)
        np.testing.assert_array_equal(crop.picture.pixels, picture.pixels[2:7, 3:9])
        assert crop.picture.depth is not None
        np.testing.assert_array_equal(crop.picture.depth, picture.depth[2:7, 3:9])  # type: ignore[index]
        assert crop.picture.pixels.flags.c_contiguous
        assert crop.picture.pixel_id == load(ramp(20, 10)[2:7, 3:9]).pixel_id

    def test_of_everything_is_the_picture_itself(self):
        picture = load(ramp(6, 4))
        assert picture.crop(Box(0, 0, 6, 4)).picture is picture

    def test_beyond_the_picture_is_refused(self):
        with pytest.raises(PictureError, match=r"^array: box \(0, 0, 7, 4\) reaches beyond .* 6x4"):
            load(ramp(6, 4)).crop(Box(0, 0, 7, 4))

    @given(st.data(), SIZE)
    @settings(deadline=None, max_examples=100)
    def test_points_go_there_and_back(self, data, size):
        crop = load(ramp(*size)).crop(data.draw(boxes(*size)))
        x = data.draw(st.integers(0, crop.box.width - 1))
        y = data.draw(st.integers(0, crop.box.height - 1))
        at = crop.to_original(x, y)
        assert crop.to_crop(*at) == (x, y)
        # the red and green of the ramp are the coordinates in the original
        assert tuple(crop.picture.pixels[y, x, :2]) == at

    @given(st.data(), SIZE)
    @settings(deadline=None, max_examples=100)
    def test_nested_crops_compose(self, data, size):
        outer = load(ramp(*size)).crop(data.draw(boxes(*size)))
        inner: Crop = outer.crop(data.draw(boxes(outer.box.width, outer.box.height)))
        direct = load(ramp(*size)).crop(inner.box)
        assert inner.size == direct.size == size
        assert inner.picture.pixel_id == direct.picture.pixel_id
        assert inner.to_original(0, 0) == (inner.box.left, inner.box.top)
