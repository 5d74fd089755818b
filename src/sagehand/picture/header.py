"""What is known before anything is decoded: the kind by its magic bytes, the caps, the size in the header."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sagehand.errors import NotAPicture, PictureError, PictureTooLarge, TruncatedPicture, UnsupportedPicture

if TYPE_CHECKING:
    from PIL import ImageFile

__all__ = ["DEFAULT_LIMITS", "Limits", "check_bytes", "check_size", "kind_of", "opened"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps that a picture must keep, checked before it is decoded.

    Attributes:
        max_pixels: Most pixels, width times height [px].
        max_bytes: Most bytes of the file [B].
        min_side: Least width and height [px].
    """

    max_pixels: int = 100_000_000
    max_bytes: int = 100 * _MIB
    min_side: int = 1


DEFAULT_LIMITS = Limits()

# The classes are used directly and not through Image.open: it would try every kind that Pillow knows (PostScript, which
# starts a program, among them), and read the second picture of phones' multi-picture JPEGs, which is no frame.
_DECODERS = {
    "JPEG": ("PIL.JpegImagePlugin", "JpegImageFile"),
    "PNG": ("PIL.PngImagePlugin", "PngImageFile"),
    "GIF": ("PIL.GifImagePlugin", "GifImageFile"),
    "BMP": ("PIL.BmpImagePlugin", "BmpImageFile"),
    "TIFF": ("PIL.TiffImagePlugin", "TiffImageFile"),
    "WebP": ("PIL.WebPImagePlugin", "WebPImageFile"),
    "JPEG 2000": ("PIL.Jpeg2KImagePlugin", "Jpeg2KImageFile"),
    "PNM": ("PIL.PpmImagePlugin", "PpmImageFile"),
    "AVIF": ("PIL.AvifImagePlugin", "AvifImageFile"),
    "HEIC": ("pillow_heif", "HeifImageFile"),
}
_FEATURES = {"WebP": "webp", "AVIF": "avif", "JPEG 2000": "jpg_2000"}  # parts that a build of Pillow may lack
_MAGIC = (
    ("JPEG", rb"\xff\xd8\xff"),
    ("PNG", rb"\x89PNG\r\n\x1a\n"),
    ("GIF", rb"GIF8[79]a"),
    ("TIFF", rb"II[*+]\0(?!....CR)|MM\0[*+]"),  # CR: a raw file of a Canon camera
    ("WebP", rb"RIFF....WEBP"),
    ("BMP", rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0"),  # with the length of its header: "BM" alone begins texts
    ("JPEG 2000", rb"\xff\x4f\xff\x51|\0\0\0\x0cjP  \r\n\x87\n"),
    ("PNM", rb"P[1-6f]\s"),
)
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}
_OTHER_PICTURES = (
    ("a raw camera file", rb"II\*\0....CR|FUJIFILMCCD-RAW"),
    ("a JPEG XL", rb"\xff\x0a|\0\0\0\x0cJXL "),
    ("a Photoshop file", rb"8BPS"),
    ("an icon", rb"\0\0[\1\2]\0.\0"),
    ("a PostScript file", rb"%!PS"),
    ("an SVG drawing", rb"\s*(<\?xml[^>]*>\s*)?<svg"),
    ("an OpenEXR file", rb"\x76\x2f\x31\x01"),
)
_OTHER_FILES = (
    ("a PDF", rb"%PDF", "save its page as PNG"),
    ("a NumPy file", rb"\x93NUMPY", "numpy.load it and hand in the array"),
    ("a web page", rb"(?i)\s*<(!doctype )?html", "the download may have failed"),
    ("a ZIP archive", rb"PK\x03\x04", "unpack it first"),
    ("a Git LFS pointer", rb"version https://git-lfs", "git lfs pull"),
    ("a video", rb"....ftyp|RIFF....AVI ", "save one frame as PNG"),
)


def kind_of(data: bytes, name: str) -> str:
    """The kind of picture by its first bytes; a file's ending is never asked.

    Raises:
        NotAPicture: No bytes, or those of something else.
        UnsupportedPicture: A picture of a kind that is not taken.
    """
    if not data:
        raise NotAPicture(f"{name}: is empty (0 bytes)")
    head = data[:512]
    for kind, magic in _MAGIC:
        if _begins(head, magic):
            return kind
    if head[4:8] == b"ftyp":
        # the major brand, a version, then the compatible brands; mif1 alone does not tell HEIC from AVIF
        end = min(int.from_bytes(head[:4]), len(head))
        brands = {head[8:12], *(head[i : i + 4] for i in range(16, end, 4))}
        if brands & {b"avif", b"avis"}:
            return "AVIF"
        if brands & _HEIC_BRANDS:
            return "HEIC"
    for what, magic in _OTHER_PICTURES:
        if _begins(head, magic):
            raise UnsupportedPicture(f"{name}: {what} is not read", hint="save it as PNG or JPEG")
    for what, magic, hint in _OTHER_FILES:
        if _begins(head, magic):
            raise NotAPicture(f"{name}: is {what}, not a picture", hint=hint)
    raise NotAPicture(f"{name}: no picture of a known kind", hint=f"known: {', '.join(_DECODERS)}")


def check_bytes(count: int, name: str, limits: Limits) -> None:
    """Refuse too long a file.

    Raises:
        PictureTooLarge: More bytes than ``limits.max_bytes``.
    """
    if count > limits.max_bytes:
        raise PictureTooLarge(
            f"{name}: {_mib(count)} is more than the cap of {_mib(limits.max_bytes)}",
            hint="save it smaller, or (in code) raise Limits.max_bytes",
        )


def check_size(width: int, height: int, name: str, limits: Limits) -> None:
    """Refuse too many pixels, or too few.

    Raises:
        PictureTooLarge: More pixels than ``limits.max_pixels``.
        NotAPicture: No pixels.
        PictureError: A side shorter than ``limits.min_side``.
    """
    _check_any(width, height, name)
    if width * height > limits.max_pixels:
        raise PictureTooLarge(
            f"{name}: {width}x{height} is {width * height:,} pixels, more than the cap of {limits.max_pixels:,}",
            hint="scale it down, or raise the setting max_pixels",
        )
    if min(width, height) < limits.min_side:
        raise PictureError(f"{name}: {width}x{height} has a side under {limits.min_side} pixels")


@contextlib.contextmanager
def opened(data: bytes, name: str, limits: Limits) -> Iterator[tuple[str, ImageFile.ImageFile]]:
    """Read the header, check it, and give (kind, Pillow's image, not decoded yet).

    Whatever the decoder raises inside the block becomes a :class:`PictureError`; its warnings are not shown.

    Raises:
        PictureTooLarge: Too many bytes or pixels; or memory ran out.
        TruncatedPicture: The data ends too early or is damaged.
        NotAPicture: Not a picture, or one without pixels.
        UnsupportedPicture: A kind that cannot be decoded here.
    """
    check_bytes(len(data), name, limits)
    kind = kind_of(data, name)
    if kind == "PNG" and data[12:16] == b"IHDR" and len(data) >= 24:
        # of one without pixels Pillow says that it is damaged
        _check_any(int.from_bytes(data[16:20]), int.from_bytes(data[20:24]), name)
    with _quiet(), _decoder_errors(kind, name):
        decoder = _decoder(kind, name)
        with decoder(io.BytesIO(data)) as image:
            check_size(*image.size, name, limits)
            _check_whole(kind, data, name, decoder)
            yield kind, image


def _check_any(width: int, height: int, name: str) -> None:
    if width < 1 or height < 1:
        raise NotAPicture(f"{name}: holds no pixels ({width}x{height})")


def _begins(head: bytes, magic: bytes) -> bool:
    return re.match(magic, head, re.DOTALL) is not None


def _check_whole(kind: str, data: bytes, name: str, decoder: type[ImageFile.ImageFile]) -> None:
    """Find the damage that Pillow would decode without a word."""
    if kind == "PNG":
        # Pillow leaves the checksums of pixel data alone; verify() reads them, and wants an image of its own.
        with decoder(io.BytesIO(data)) as image:
            image.verify()
    if kind == "JPEG 2000" and b"\xff\xd9" not in data[data.find(b"\xff\x93") :]:
        # No end marker after the start of the data: cut off right after its header, it would decode to an even grey.
        raise TruncatedPicture(f"{name}: this {kind} ends too early", hint="copy or save it again")


def _decoder(kind: str, name: str) -> type[ImageFile.ImageFile]:
    """The class that reads ``kind``."""
    from PIL import features

    module, attribute = _DECODERS[kind]
    hint = "pip install 'sagehand[heic]'" if kind == "HEIC" else "pip install --upgrade pillow, or save it as PNG"
    try:
        decoder: type[ImageFile.ImageFile] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UnsupportedPicture(f"{name}: no decoder for {kind} is installed", hint=hint) from error
    if kind in _FEATURES and not features.check(_FEATURES[kind]):
        raise UnsupportedPicture(f"{name}: this build of Pillow does not read {kind}", hint=hint)
    return decoder


@contextlib.contextmanager
def _decoder_errors(kind: str, name: str) -> Iterator[None]:
    from PIL import Image

    try:
        yield
    except PictureError:
        raise
    except (MemoryError, Image.DecompressionBombError) as error:
        raise PictureTooLarge(f"{name}: this {kind} needs more memory than is allowed", hint="scale it down") from error
    except Exception as error:  # on damaged data, decoders raise what they like: OSError, SyntaxError, struct.error, …
        said = " ".join(str(error).split()) or type(error).__name__
        raise TruncatedPicture(
            f"{name}: this {kind} ends too early or is damaged: {said}", hint="copy or save it again"
        ) from error


def _mib(count: int) -> str:
    return f"{count / _MIB:,.1f} MiB" if count >= _MIB // 10 else f"{count:,} bytes"


# warnings.catch_warnings is not safe between threads: it puts back a list that another thread may have changed since.
# So one filter is added while any thread decodes, and taken away when the last one is done. The list is replaced, never
# changed in place, as another thread may be walking it.
_PILLOW_FILTER = ("ignore", None, Warning, re.compile(r"(PIL|pillow_heif)\b"), 0)
_filter_lock = threading.Lock()
_decoding = 0


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Pillow's warnings (size, palettes, odd EXIF) from the user: what matters of them is an error or a note."""
    global _decoding
    with _filter_lock:
        _decoding += 1
        if not warnings.filters or warnings.filters[0] != _PILLOW_FILTER:
            warnings.filters = [_PILLOW_FILTER, *warnings.filters]
    try:
        yield
    finally:
        with _filter_lock:
            _decoding -= 1
            if _decoding == 0:
                warnings.filters = [f for f in warnings.filters if f != _PILLOW_FILTER]
