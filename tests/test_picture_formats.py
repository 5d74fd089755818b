"""Every kind and mode becomes the same RGB; what was done is told in the notes."""

from __future__ import annotations

import io
import struct
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from sagehand.errors import UnsupportedPicture
from sagehand.picture import load, to_jpeg


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def with_orientation(image: Image.Image, kind: str, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(image, kind, exif=exif, **({"lossless": True} if kind == "WEBP" else {}))


@pytest.fixture
def asymmetric() -> np.ndarray:
    """(24, 40, 3): no turn or flip of it is itself; smooth enough for JPEG."""
    y, x = np.mgrid[0:24, 0:40]
    return np.stack([x * 6, y * 10, (x + 2 * y) * 2], axis=2).astype(np.uint8)


# how a camera that was held that way would have stored the upright picture
STORED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, -1),
}


class TestOrientation:
    @pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
    def test_eight_orientations_are_one_picture(self, asymmetric, kind):
        upright = load(asymmetric)
        for orientation, store in STORED.items():
            stored = Image.fromarray(np.ascontiguousarray(store(asymmetric)))
            picture = load(with_orientation(stored, kind, orientation))
            np.testing.assert_array_equal(picture.pixels, upright.pixels, err_msg=f"orientation {orientation}")
            assert picture.pixel_id == upright.pixel_id
            assert picture.notes == (() if orientation == 1 else (f"turned by EXIF {orientation}",))

    def test_jpeg_is_turned_too(self, asymmetric):
        for orientation, store in STORED.items():
            stored = Image.fromarray(np.ascontiguousarray(store(asymmetric)))
            picture = load(with_orientation(stored, "JPEG", orientation))
            assert np.abs(picture.pixels.astype(int) - asymmetric).mean() < 6, orientation

    def test_depth_is_turned_with_its_picture(self, asymmetric):
        depth = 500 + asymmetric[:, :, 0].astype(np.uint16) + asymmetric[:, :, 1]
        for orientation, store in STORED.items():
            stored = Image.fromarray(np.ascontiguousarray(store(asymmetric)))
            data = with_orientation(stored, "PNG", orientation)
            picture = load(data, depth=np.ascontiguousarray(store(depth)), depth_unit="mm")
            np.testing.assert_allclose(picture.depth, depth / 1000, rtol=1e-6, err_msg=f"orientation {orientation}")

    @pytest.mark.parametrize("orientation", [0, 9, 65535])
    def test_orientations_that_do_not_exist_turn_nothing(self, asymmetric, orientation):
        picture = load(with_orientation(Image.fromarray(asymmetric), "PNG", orientation))
        assert picture.pixel_id == load(asymmetric).pixel_id

    def test_odd_exif_costs_nothing_but_the_turn(self, asymmetric):
        good = with_orientation(Image.fromarray(asymmetric), "JPEG", 6)
        bad = good.replace(b"Exif\0\0MM\0*", b"Exif\0\0MM\xff\xff").replace(b"Exif\0\0II*\0", b"Exif\0\0II\xff\xff")
        assert bad != good
        assert load(bad).size == (40, 24)


class TestModes:
    def test_six_modes_of_one_icon(self):
        icon = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
        icon.paste((200, 30, 30, 255), (4, 4, 12, 12))
        icon.putpixel((5, 5), (0, 0, 0, 255))
        seen_through = [icon, icon.convert("LA"), icon.quantize(8)]
        solid = [icon.convert(mode) for mode in ("RGB", "L", "1", "P", "CMYK")]
        for image in seen_through:
            picture = load(encoded(image, "PNG"))
            assert picture.pixels.shape == (16, 16, 3)
            assert picture.notes == ("transparency on white",), image.mode
            assert tuple(picture.pixels[0, 0]) == (255, 255, 255)
            assert picture.pixels[5, 5].max() < 60
        for image in solid:
            picture = load(encoded(image, "TIFF"))
            assert picture.pixels.shape == (16, 16, 3)
            assert picture.notes == (), image.mode

    def test_half_transparent_is_mixed_with_white(self):
        picture = load(encoded(Image.new("RGBA", (2, 2), (100, 0, 255, 128)), "PNG"))
        assert tuple(picture.pixels[0, 0]) == (177, 127, 255)  # round((128 c + 127 · 255) / 255)

    def test_opaque_alpha_is_dropped_without_a_word(self, asymmetric):
        picture = load(encoded(Image.fromarray(asymmetric).convert("RGBA"), "PNG"))
        assert picture.notes == ()
        assert picture.pixel_id == load(asymmetric).pixel_id

    def test_a_key_colour_is_transparent(self):
        image = Image.new("RGB", (4, 4), (1, 2, 3))
        image.putpixel((0, 0), (9, 9, 9))
        picture = load(encoded(image, "PNG", transparency=(1, 2, 3)))
        assert tuple(picture.pixels[1, 1]) == (255, 255, 255)
        assert tuple(picture.pixels[0, 0]) == (9, 9, 9)

    def test_palette_with_transparency_in_bytes(self):
        image = Image.new("P", (4, 4), 1)
        image.putpalette([0, 0, 0, 50, 60, 70, 9, 9, 9])
        image.putpixel((0, 0), 2)
        picture = load(encoded(image, "PNG", transparency=bytes([0, 0, 255])))
        assert tuple(picture.pixels[1, 1]) == (255, 255, 255)
        assert tuple(picture.pixels[0, 0]) == (9, 9, 9)

    def test_cmyk_jpeg_is_not_inverted(self):
        red = Image.new("RGB", (32, 32), (220, 30, 30)).convert("CMYK")
        r, g, b = load(encoded(red, "JPEG", quality=95)).pixels[16, 16]
        assert r > 190
        assert g < 70
        assert b < 70

    def test_lab_and_ycbcr(self):
        rgb = Image.new("RGB", (8, 8), (200, 40, 90))
        to_lab = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
        for image in (ImageCms.applyTransform(rgb, to_lab), rgb.convert("YCbCr")):
            pixels = load(encoded(image, "TIFF")).pixels
            assert np.abs(pixels[4, 4].astype(int) - (200, 40, 90)).max() <= 4, image.mode

    def test_array_and_file_are_one_picture(self, asymmetric):
        rgba = np.dstack([asymmetric, np.arange(24 * 40, dtype=np.uint8).reshape(24, 40)])
        grey16 = (np.arange(24 * 40, dtype=np.uint16) * 60).reshape(24, 40)
        for array in (asymmetric, rgba, asymmetric[:, :, 0], grey16):
            file, direct = load(encoded(Image.fromarray(array), "PNG")), load(array)
            assert file.pixel_id == direct.pixel_id
            assert file.notes == direct.notes


class TestSixteenBit:
    @pytest.mark.parametrize("kind", ["PNG", "TIFF", "TIFF big-endian", "PPM"])
    def test_a_ramp_keeps_its_grey_levels(self, kind):
        ramp = np.tile(np.linspace(0, 65535, 512).round().astype(np.uint16), (4, 1))
        if kind == "TIFF big-endian":
            data = big_endian_tiff(ramp)
            assert data[:2] == b"MM"
        else:
            data = encoded(Image.fromarray(ramp), kind)
        picture = load(data)
        row = picture.pixels[0, :, 0].astype(int)
        assert len(set(row)) > 200
        assert (row[0], row[-1]) == (0, 255)
        assert (np.diff(row) >= 0).all()
        assert picture.notes == ("16-bit scaled to 8",)
        assert picture.pixel_id == load(ramp).pixel_id

    @pytest.mark.parametrize(("bits", "taken"), [(8, 8), (9, 10), (10, 10), (12, 12), (14, 14), (15, 16), (16, 16)])
    def test_unshifted_values_of_a_camera_are_not_black(self, bits, taken):
        values = np.linspace(0, (1 << bits) - 1, 300).round().astype(np.uint16).reshape(10, 30)
        picture = load(values)
        assert picture.pixels.max() == (255 if bits == taken else 127 if bits < taken else 0)
        assert (f"taken as {taken}-bit" in picture.notes[0]) == (taken != 16)
        expected = np.floor(values.astype(float) * 255 / ((1 << taken) - 1) + 0.5)
        np.testing.assert_array_equal(picture.pixels[:, :, 1], expected)

    def test_black_stays_black(self):
        assert load(np.zeros((4, 4), np.uint16)).pixels.max() == 0

    def test_mode_i_is_sixteen_bit_or_refused(self):
        ramp = np.arange(0, 65536, 64, dtype=np.int32).reshape(32, 32)
        assert len(np.unique(load(encoded(Image.fromarray(ramp), "TIFF")).pixels)) > 200
        with pytest.raises(UnsupportedPicture, match="32 bits"):
            load(encoded(Image.fromarray(ramp * 16), "TIFF"))

    def test_floats_are_refused_with_the_remedy(self):
        data = encoded(Image.fromarray(np.ones((4, 4), np.float32)), "TIFF")
        with pytest.raises(UnsupportedPicture, match=r"floats.*depth="):
            load(data)

    def test_colour_keeps_its_upper_bits(self):
        def chunk(kind: bytes, body: bytes) -> bytes:
            return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

        pixels = np.array([[[0x1234, 0xABCD, 0xFFFF]]], ">u2")
        data = (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"\0" + pixels.tobytes()))
            + chunk(b"IEND", b"")
        )
        picture = load(data)
        assert tuple(picture.pixels[0, 0]) == (0x12, 0xAB, 0xFF)
        assert picture.notes == ("16-bit colour: upper 8 bits kept",)


class TestFrames:
    @pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF", "AVIF"])
    def test_the_first_of_three(self, kind):
        frames = [Image.new("RGB", (20, 12), colour) for colour in ((250, 0, 0), (0, 250, 0), (0, 0, 250))]
        picture = load(encoded(frames[0], kind, save_all=True, append_images=frames[1:]))
        assert picture.notes == ("first of 3 frames",)
        r, g, b = picture.pixels[6, 10].astype(int)
        assert r > 200
        assert max(g, b) < 60

    def test_second_picture_of_a_phone_jpeg_is_no_frame(self):
        frames = [Image.new("RGB", (20, 12), "red"), Image.new("RGB", (20, 12), "blue")]
        data = encoded(frames[0], "MPO", save_all=True, append_images=frames[1:])
        assert load(data).notes == ()
        assert load(data).pixels[0, 0, 0] > 200


class TestKinds:
    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "JPEG2000", "PPM", "AVIF"])
    def test_each_is_read_by_its_magic_bytes(self, kind, tmp_path: Path):
        path = tmp_path / "no_ending_at_all"
        path.write_bytes(encoded(Image.new("RGB", (30, 20), (90, 160, 30)), kind))
        picture = load(path)
        assert picture.size == (30, 20)
        assert np.abs(picture.pixels.astype(int) - (90, 160, 30)).max() < 12
        assert picture.notes == ()
        assert picture.data == path.read_bytes()

    def test_a_wrong_ending_is_told(self, tmp_path: Path):
        path = tmp_path / "photo.png"
        path.write_bytes(encoded(Image.new("RGB", (8, 8)), "JPEG"))
        assert load(path).notes == ("JPEG in a file named .png",)

    def test_heic_without_a_decoder(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "pillow_heif", None)
        data = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(200)
        with pytest.raises(UnsupportedPicture, match="HEIC") as caught:
            load(data, name="IMG_1.HEIC")
        assert caught.value.hint == "pip install 'sagehand[heic]'"

    def test_avif_in_a_build_without_it(self, monkeypatch: pytest.MonkeyPatch):
        data = encoded(Image.new("RGB", (8, 8)), "AVIF")
        monkeypatch.setitem(sys.modules, "PIL.AvifImagePlugin", None)
        with pytest.raises(UnsupportedPicture, match="no decoder for AVIF"):
            load(data)

    def test_heic_with_a_decoder(self):
        heif = pytest.importorskip("pillow_heif", reason="needs the heic extra")
        buffer = io.BytesIO()
        heif.from_pillow(Image.new("RGB", (64, 48), (200, 40, 40))).save(buffer, quality=90)
        picture = load(buffer.getvalue(), name="IMG_1.HEIC")
        assert picture.size == (64, 48)
        assert np.abs(picture.pixels.astype(int) - (200, 40, 40)).max() < 20
        assert picture.notes == ()

    def test_a_raw_camera_file_is_not_taken_for_its_thumbnail(self):
        dng = encoded(Image.new("RGB", (16, 12)), "TIFF", tiffinfo={0xC612: b"\1\4\0\0"})
        thumbnail_first = encoded(Image.new("RGB", (16, 12)), "TIFF", tiffinfo={0x00FE: 1})
        for data in (dng, thumbnail_first, b"II*\0\x10\0\0\0CR\2\0" + bytes(100)):
            with pytest.raises(UnsupportedPicture, match="raw camera file"):
                load(data)


def warned_about() -> bytes:
    """A JPEG whose EXIF announces far more entries than there are."""
    data = with_orientation(Image.new("RGB", (30, 20), "teal"), "JPEG", 1)
    at = data.index(b"Exif\0\0") + 6 + 8
    return data[:at] + b"\x70\x70" + data[at + 2 :]


class TestQuiet:
    def test_what_pillow_warns_about_is_not_shown(self):
        before = list(warnings.filters)
        with (
            pytest.warns(UserWarning, match=r"Corrupt EXIF|Tag|Metadata"),
            Image.open(io.BytesIO(warned_about())) as image,
        ):
            image.getexif()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert load(warned_about()).size == (30, 20)
        assert list(warnings.filters) == before

    def test_many_threads_read_the_same_and_leave_no_filter(self):
        before = list(warnings.filters)
        data = warned_about()
        with ThreadPoolExecutor(8) as pool:
            ids = set(pool.map(lambda _: load(data).pixel_id, range(200)))
        assert len(ids) == 1
        assert list(warnings.filters) == before

    def test_warnings_of_others_are_shown(self):
        load(warned_about())
        with pytest.warns(UserWarning, match="of somebody else"):
            warnings.warn("of somebody else", UserWarning, stacklevel=1)


class TestPhotos:
    def test_all_phones_load_and_agree_with_pillow(self, phones: Path):
        paths = sorted(p for p in phones.iterdir() if p.suffix.lower() == ".jpg")
        pictures = [load(p) for p in paths]
        assert len({p.pixel_id for p in pictures}) == len(paths) == 38
        with Image.open(paths[0]) as image:
            np.testing.assert_array_equal(pictures[0].pixels, np.asarray(image.convert("RGB")))

    def test_a_photo_keeps_its_identity_as_png(self, phones: Path):
        picture = load(phones / "1-ScrewRemoval.jpg")
        assert load(encoded(Image.fromarray(picture.pixels), "PNG")).pixel_id == picture.pixel_id


class TestJpeg:
    def test_scales_down_and_never_up(self, asymmetric):
        assert load(to_jpeg(asymmetric, long_side=20)).size == (20, 12)
        assert load(to_jpeg(asymmetric, long_side=400)).size == (40, 24)
        assert load(to_jpeg(np.zeros((1, 3000, 3), np.uint8), long_side=100)).size == (100, 1)

    def test_is_the_same_picture_to_the_eye(self, phones: Path):
        pixels = load(phones / "2-AceQ-Phone.jpg").pixels
        again = load(to_jpeg(pixels)).pixels
        assert np.abs(again.astype(int) - pixels).mean() < 4


def big_endian_tiff(grey: np.ndarray) -> bytes:
    """A minimal uncompressed big-endian 16-bit TIFF, as industrial cameras write it."""
    height, width = grey.shape
    pixels = grey.astype(">u2").tobytes()
    entries = [(256, 4, width), (257, 4, height), (258, 3, 16 << 16), (259, 3, 1 << 16), (262, 3, 1 << 16), (273, 4, 8)]
    entries += [(277, 3, 1 << 16), (278, 4, height), (279, 4, len(pixels))]
    directory = b"".join(struct.pack(">HHII", tag, kind, 1, value) for tag, kind, value in entries)
    offset = 8 + len(pixels)
    return b"MM\0*" + struct.pack(">I", offset) + pixels + struct.pack(">H", len(entries)) + directory + bytes(4)
