"""What cannot be used is refused in one clear line, before anything is decoded."""

from __future__ import annotations

import io
import os
import resource
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sagehand.errors import (
    DepthError,
    InputError,
    NotAPicture,
    PictureError,
    PictureTooLarge,
    TruncatedPicture,
    UnknownName,
    UnsupportedPicture,
)
from sagehand.picture import Limits, load, to_jpeg

KINDS = ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "PPM", "JPEG2000", "AVIF"]


def encoded(kind: str, **options) -> bytes:
    noise = np.random.default_rng(3).integers(0, 255, (40, 60, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, kind, **options)
    return buffer.getvalue()


VALID = {kind: encoded(kind) for kind in KINDS}
VALID["TIFF lzw"] = encoded("TIFF", compression="tiff_lzw")
VALID["JPEG progressive"] = encoded("JPEG", progressive=True)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


class TestHostile:
    def test_a_bomb_is_refused_in_no_time_and_memory(self):
        bomb = (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", 30000, 30000, 1, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(bytes(30000 * 3751), 1))
            + chunk(b"IEND", b"")
        )
        peak, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        with pytest.raises(PictureTooLarge, match=r"30000x30000 is 900,000,000 pixels.*100,000,000"):
            load(bomb)
        assert time.perf_counter() - start < 1
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 20_000  # KiB

    @pytest.mark.parametrize("size", [(0, 5), (5, 0), (0, 0)])
    def test_a_png_without_pixels_is_no_damaged_one(self, size):
        header = struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)
        with pytest.raises(NotAPicture, match=f"holds no pixels \\({size[0]}x{size[1]}\\)"):
            load(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND", b""))

    def test_a_webp_header_of_the_largest_size(self):
        bits = (16383 | 16383 << 14).to_bytes(4, "little")
        data = b"RIFF" + struct.pack("<I", 30) + b"WEBPVP8L" + struct.pack("<I", 18) + b"\x2f" + bits + bytes(20)
        with pytest.raises(PictureTooLarge):
            load(data)

    @given(st.binary(max_size=200))
    @settings(deadline=None, max_examples=100)
    def test_random_bytes(self, data):
        with pytest.raises(PictureError):
            load(data)

    @given(st.sampled_from(KINDS), st.binary(max_size=300), st.integers(4, 40))
    @settings(deadline=None, max_examples=150)
    def test_random_bytes_after_a_good_beginning(self, kind, data, kept):
        with pytest.raises(PictureError):
            load(VALID[kind][:kept] + data)

    @given(st.sampled_from(sorted(VALID)), st.floats(0, 1))
    @settings(deadline=None, max_examples=150)
    def test_truncations(self, kind, where):
        data = VALID[kind]
        cut = data[: int(where * (len(data) - 1))]
        try:
            picture = load(cut)
        except PictureError:
            return
        # only what carries no pixels may be missing
        np.testing.assert_array_equal(picture.pixels, load(data).pixels)

    @given(st.sampled_from(sorted(VALID)), st.integers(0, 10**6), st.integers(1, 255))
    @settings(deadline=None, max_examples=150)
    def test_one_changed_byte(self, kind, where, change):
        data = bytearray(VALID[kind])
        data[where % len(data)] ^= change
        try:
            pixels = load(bytes(data)).pixels
        except PictureError:
            return
        assert pixels.dtype == np.uint8
        assert pixels.ndim == 3
        assert pixels.shape[2] == 3

    def test_half_a_photo_is_truncated(self, phones: Path):
        data = (phones / "1-ScrewRemoval.jpg").read_bytes()
        with pytest.raises(TruncatedPicture, match=r"^half\.jpg: this JPEG ends too early"):
            load(data[: len(data) // 2], name="half.jpg")

    def test_a_jpeg_2000_cut_off_after_its_header(self):
        data = VALID["JPEG2000"]
        start = data.index(b"\xff\x93")
        for end in range(start - 10, start + 30):
            with pytest.raises(TruncatedPicture):
                load(data[:end])

    def test_one_wrong_bit_in_a_png_is_seen(self):
        data = bytearray(VALID["PNG"])
        data[len(data) // 2] ^= 1
        with pytest.raises(TruncatedPicture):
            load(bytes(data))


class TestLimits:
    def test_bytes(self, tmp_path: Path):
        path = tmp_path / "a.png"
        path.write_bytes(VALID["PNG"])
        for source in (path, VALID["PNG"]):
            with pytest.raises(PictureTooLarge, match="more than the cap of 100 bytes"):
                load(source, limits=Limits(max_bytes=100))

    @pytest.mark.parametrize("source", [VALID["PNG"], np.zeros((40, 60, 3), np.uint8)], ids=["file", "array"])
    def test_pixels_and_sides(self, source):
        assert load(source, limits=Limits(max_pixels=2400, min_side=40)).size == (60, 40)
        with pytest.raises(PictureTooLarge, match="60x40 is 2,400 pixels"):
            load(source, limits=Limits(max_pixels=2399))
        with pytest.raises(PictureError, match="side under 41"):
            load(source, limits=Limits(min_side=41))

    def test_one_pixel_is_a_picture(self):
        assert load(np.full((1, 1, 3), 9, np.uint8)).size == (1, 1)
        buffer = io.BytesIO()
        Image.new("RGB", (1, 1), "red").save(buffer, "JPEG")
        assert load(buffer.getvalue()).size == (1, 1)


class TestFiles:
    def test_a_missing_file_names_its_like(self, tmp_path: Path):
        (tmp_path / "photo_1.JPG").write_bytes(b"x")
        with pytest.raises(PictureError, match=r"^photo_1\.jpg: no such file in .*did you mean 'photo_1\.JPG'\?"):
            load(tmp_path / "photo_1.jpg")
        with pytest.raises(PictureError, match="no folder"):
            load(tmp_path / "nowhere" / "a.jpg")

    def test_a_folder_and_a_pipe(self, tmp_path: Path):
        with pytest.raises(PictureError, match="is a folder"):
            load(tmp_path)
        os.mkfifo(tmp_path / "pipe.png")
        with pytest.raises(PictureError, match="no regular file"):
            load(tmp_path / "pipe.png")

    def test_one_that_may_not_be_read_or_vanishes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        path = tmp_path / "a.png"
        path.write_bytes(VALID["PNG"])

        def refuse(*_args, **_kwargs):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
        with pytest.raises(PictureError, match=r"^a\.png: cannot be read: Permission denied$"):
            load(path)

        def vanished(*_args, **_kwargs):
            raise FileNotFoundError(2, "No such file or directory")

        monkeypatch.setattr(Path, "open", vanished)
        with pytest.raises(PictureError, match=r"^a\.png: no such file"):
            load(path)

    def test_an_empty_file(self, tmp_path: Path):
        (tmp_path / "a.jpg").touch()
        with pytest.raises(NotAPicture, match=r"^a\.jpg: is empty"):
            load(tmp_path / "a.jpg")

    @pytest.mark.parametrize("source", ["", "a\0b.png", "x" * 5000 + ".png", "https://example.org/a.png"])
    def test_paths_that_cannot_be(self, source):
        with pytest.raises(PictureError) as caught:
            load(source)
        assert len(str(caught.value)) < 400

    def test_names_become_one_printable_line(self, tmp_path: Path):
        raw = os.fsencode(tmp_path) + b"/odd\n\xff.png"
        Path(os.fsdecode(raw)).write_bytes(VALID["PNG"])
        name = load(os.fsdecode(raw)).name
        assert name.encode("utf-8").isascii()
        assert name.isprintable()

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"%PDF-1.7 ", "a PDF"),
            (b"\n<!DOCTYPE html><html>", "a web page"),
            (b"\x93NUMPY\x01\0", "NumPy"),
            (b"\0\0\0\x18ftypmp42\0\0\0\0", "a video"),
            (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
            (b"BM, as we say\n" * 9, "no picture of a known kind"),
        ],
    )
    def test_what_is_no_picture_is_named(self, data, said):
        with pytest.raises(NotAPicture, match=said):
            load(data)

    @pytest.mark.parametrize("data", [b"8BPS\0\1" + bytes(50), b"\xff\x0a" + bytes(50), b"%!PS-Adobe", b"<svg xmlns="])
    def test_pictures_that_are_not_taken(self, data):
        with pytest.raises(UnsupportedPicture, match="save it as PNG or JPEG"):
            load(data)

    def test_another_object(self):
        with pytest.raises(PictureError, match=r"^Image: not a picture's path.*numpy\.asarray"):
            load(Image.new("RGB", (4, 4)))  # type: ignore[arg-type]


class TestArrays:
    @pytest.mark.parametrize(
        ("array", "remedy"),
        [
            (np.ones((4, 4, 3), np.float32) / 2, r"\(array \* 255\)"),
            (np.full((4, 4), 700.0), "depth="),
            (np.ones((4, 4), bool), r"\* 255"),
            (np.ones((4, 4, 3), np.int64), "astype"),
            (np.ones((3, 40, 60), np.uint8), "moveaxis"),
            (np.ones((1, 4, 4, 3), np.uint8), r"array\[0\]"),
            (np.ones((4, 4, 3), np.uint16), "// 257"),
            (np.ones(4, np.uint8), r"\(H, W\)"),
            (np.ones((4, 4, 2), np.uint8), r"\(H, W\)"),
            (np.ones((0, 4, 3), np.uint8), "holds no pixels"),
        ],
    )
    def test_another_type_or_shape_is_refused_with_the_remedy(self, array, remedy):
        with pytest.raises(PictureError, match=remedy):
            load(array)

    def test_contiguous_is_not_copied_and_the_rest_is(self):
        array = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
        assert np.shares_memory(load(array).pixels, array)
        assert array.flags.writeable
        swapped = load(array[:, :, ::-1])
        assert not np.shares_memory(swapped.pixels, array)
        np.testing.assert_array_equal(swapped.pixels, array[:, :, ::-1])

    def test_grey_with_an_axis_and_swapped_bytes(self):
        grey = np.arange(20, dtype=np.uint8).reshape(4, 5, 1)
        np.testing.assert_array_equal(load(grey).pixels, np.repeat(grey, 3, axis=2))
        ramp = np.arange(0, 65536, 4096, dtype=np.uint16).reshape(4, 4)
        assert load(ramp.astype(">u2")).pixel_id == load(ramp).pixel_id

    def test_a_picture_comes_back_as_it_is(self):
        picture = load(VALID["PNG"], name="a.png")
        assert load(picture) is picture
        assert load(picture, name="b.png").name == "b.png"


class TestDepth:
    PICTURE = np.zeros((4, 6, 3), np.uint8)

    @staticmethod
    def file(values: np.ndarray, kind: str = "PNG") -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(values).save(buffer, kind)
        return buffer.getvalue()

    def test_units_and_holes(self):
        raw = np.full((4, 6), 700, np.uint16)
        raw[0, 0] = 0
        for depth, unit in (
            (raw, "mm"),
            (self.file(raw), "mm"),
            (raw.astype(np.int32) * 1000, "um"),
            (raw / 1000, "m"),
        ):
            metres = load(self.PICTURE, depth=depth, depth_unit=unit).depth  # type: ignore[arg-type]
            assert metres is not None
            assert metres.dtype == np.float32
            assert not metres.flags.writeable
            assert np.isnan(metres[0, 0])
            np.testing.assert_allclose(metres[1:], 0.7, rtol=1e-6)

    def test_floats_are_metres_and_odd_values_no_reading(self):
        depth = np.full((4, 6), 0.5)
        depth[0, :5] = np.nan, np.inf, -np.inf, -1, 1e300
        metres = load(self.PICTURE, depth=depth).depth
        assert metres is not None
        assert np.isnan(metres[0, :5]).all()
        assert np.isfinite(metres[1:]).all()

    def test_float_tiff(self):
        data = self.file(np.full((4, 6), 0.5, np.float32), "TIFF")
        np.testing.assert_array_equal(load(self.PICTURE, depth=data).depth, np.float32(0.5))

    def test_whole_numbers_without_a_unit(self):
        with pytest.raises(DepthError, match="needs a unit; known: m, mm, um"):
            load(self.PICTURE, depth=np.full((4, 6), 700, np.uint16))

    @pytest.mark.parametrize(
        ("value", "unit", "meant"),
        [(700.0, "m", "'mm'"), (0.7, "mm", "'m'"), (700_000.0, "mm", "'um'"), (0.7, "um", "'m'")],
    )
    def test_an_implausible_median_suggests_the_unit(self, value, unit, meant):
        with pytest.raises(DepthError, match=f"median depth would be .*is the unit {meant} rather than '{unit}'"):
            load(self.PICTURE, depth=np.full((4, 6), value), depth_unit=unit)

    def test_an_unknown_unit(self):
        with pytest.raises(UnknownName, match="unknown depth unit 'cm'; known: m, mm, um"):
            load(self.PICTURE, depth=np.ones((4, 6)), depth_unit="cm")  # type: ignore[arg-type]

    def test_another_size_is_refused(self):
        with pytest.raises(DepthError, match="depth image is 4x6, its picture 6x4"):
            load(self.PICTURE, depth=np.ones((6, 4)))

    def test_depth_made_for_looking_at_is_refused(self):
        for values in (np.ones((4, 6), np.uint8), np.ones((4, 6, 3), np.uint8)):
            with pytest.raises(DepthError, match="for looking at"):
                load(self.PICTURE, depth=self.file(values), depth_unit="mm")
        with pytest.raises(DepthError, match="uint8"):
            load(self.PICTURE, depth=np.ones((4, 6), np.uint8), depth_unit="mm")

    def test_no_reading_at_all_is_told(self):
        picture = load(self.PICTURE, depth=np.zeros((4, 6), np.uint16), depth_unit="mm")
        assert picture.notes == ("depth image without a reading",)

    def test_depth_does_not_change_the_identity(self):
        assert load(self.PICTURE, depth=np.ones((4, 6))).pixel_id == load(self.PICTURE).pixel_id

    def test_a_realsense_scene(self, rgbd: Path):
        paths = {"source": rgbd / "000000080-rgb.jpg", "depth": rgbd / "000000080-depth-mm.png"}
        picture = load(**paths, depth_unit="mm")  # type: ignore[arg-type]
        assert picture.size == (1280, 720)
        assert picture.depth is not None
        assert 0.5 < np.nanmedian(picture.depth) < 0.7
        assert 0.05 < np.isnan(picture.depth).mean() < 0.15
        with pytest.raises(DepthError, match="'mm' rather than 'm'"):
            load(**paths, depth_unit="m")  # type: ignore[arg-type]


class TestJpegArguments:
    @pytest.mark.parametrize("options", [{"quality": 0}, {"quality": 100}, {"long_side": 0}])
    def test_out_of_range(self, options):
        with pytest.raises(InputError, match="is not"):
            to_jpeg(np.zeros((4, 4, 3), np.uint8), **options)

    def test_a_side_longer_than_jpeg_allows(self):
        with pytest.raises(InputError, match="long_side"):
            to_jpeg(np.zeros((1, 70_000, 3), np.uint8))
