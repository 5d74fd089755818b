"""Seeded procedural textures: what keeps the renders from looking like flat CAD.

Each maker takes a generator and gives (n, n, 3) uint8. They are drawn for one seed and one name and cached, so that a
long run pays for each once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

__all__ = ["TEXTURES", "texture"]

Pixels = NDArray[np.uint8]
SIZE = 512
PRINTED = ("board_", "label", "display", "wrap_")
"""Beginnings of the names of what is printed, so the same on every device of a model: these have one variant only."""


@lru_cache(maxsize=256)
def texture(name: str, variant: int) -> Pixels:
    """The texture ``name`` in one of its seeded variants: (n, n, 3) uint8, not writeable."""
    seed = [0 if name.startswith(PRINTED) else variant, *name.encode()]
    pixels = TEXTURES[name](np.random.default_rng(seed))
    pixels.setflags(write=False)
    return pixels


def _noise(rng: np.random.Generator, scale: tuple[float, float]) -> NDArray[np.float64]:
    """Smooth noise that wraps, mean 0 and deviation 1, with a grain of ``scale`` pixels along each axis."""
    from scipy import ndimage

    field = ndimage.gaussian_filter(rng.standard_normal((SIZE, SIZE)), scale, mode="wrap")
    field -= field.mean()
    return np.asarray(field / field.std())


def _tinted(colour: tuple[int, int, int], shade: NDArray[np.float64]) -> Pixels:
    """A colour times a field of shades (1 = as it is)."""
    return np.clip(np.asarray(colour, dtype=np.float64) * shade[:, :, None], 0, 255).astype(np.uint8)


def _plastic(rng: np.random.Generator) -> Pixels:
    return _tinted((255, 255, 255), 0.955 + 0.012 * _noise(rng, (1, 1)) + 0.012 * _noise(rng, (40, 40)))


def _wood(rng: np.random.Generator) -> Pixels:
    rows = np.arange(SIZE)[:, None] / SIZE
    rings = np.sin(2 * np.pi * (9 * rows + 0.22 * _noise(rng, (30, 120))))
    grain = _noise(rng, (0.8, 30))
    boards = 1 + 0.08 * np.repeat(rng.uniform(-1, 1, 4), SIZE // 4)[:, None]
    shade = (0.92 + 0.05 * rings + 0.05 * grain) * boards
    shade[:: SIZE // 4] *= 0.55
    return _tinted((196, 154, 108), shade)


def _mat(rng: np.random.Generator) -> Pixels:
    shade = 0.95 + 0.03 * _noise(rng, (1.5, 1.5)) + 0.04 * _noise(rng, (50, 50))
    for step, light in ((SIZE // 8, 0.25), (SIZE // 2, 0.55)):
        shade[::step] += light
        shade[:, ::step] += light
    scratches = _noise(rng, (0.7, 60)) > 3.1
    return _tinted((64, 84, 84), shade + 0.25 * scratches)


def _brushed(rng: np.random.Generator) -> Pixels:
    return _tinted((225, 228, 232), 0.86 + 0.06 * _noise(rng, (0.6, 60)) + 0.04 * _noise(rng, (60, 60)))


def _bed(rng: np.random.Generator) -> Pixels:
    """Milled aluminium with dried coolant: rings where drops dried, and a film."""
    shade = 0.84 + 0.035 * _noise(rng, (50, 1.0)) + 0.05 * _noise(rng, (60, 60))
    y, x = np.mgrid[:SIZE, :SIZE]
    for _ in range(26):
        cx, cy, radius = rng.uniform(0, SIZE), rng.uniform(0, SIZE), rng.uniform(6, 34)
        far = np.hypot((x - cx + SIZE / 2) % SIZE - SIZE / 2, (y - cy + SIZE / 2) % SIZE - SIZE / 2) / radius
        shade -= 0.16 * np.exp(-(((far - 1) / 0.12) ** 2)) + 0.05 * (far < 1)
    film = np.clip(_noise(rng, (45, 45)), 0, 2)[:, :, None]
    metal = _tinted((214, 219, 224), shade).astype(np.float64)
    return np.asarray(np.clip(metal * (1 - film * np.array([0.10, 0.06, 0.02])), 0, 255), dtype=np.uint8)


def _cast(rng: np.random.Generator) -> Pixels:
    return _tinted((200, 205, 210), 0.9 + 0.05 * _noise(rng, (2, 2)) + 0.05 * _noise(rng, (30, 30)))


def _knurled(rng: np.random.Generator) -> Pixels:
    """Crossed grooves of a steel jaw plate."""
    y, x = np.mgrid[:SIZE, :SIZE]
    grooves = np.sin((x + y) * 2 * np.pi / 16) * np.sin((x - y) * 2 * np.pi / 16)
    return _tinted((190, 192, 196), 0.78 + 0.14 * grooves + 0.04 * _noise(rng, (40, 40)))


def _board(rng: np.random.Generator, mask: tuple[int, int, int], trace: tuple[int, int, int]) -> Pixels:
    """A printed circuit board: copper under solder mask, pads, vias and white print."""
    image = Image.new("RGB", (SIZE, SIZE), mask)
    draw = ImageDraw.Draw(image)
    grid = SIZE // 64
    for _ in range(70):
        x, y = (int(v) * grid for v in rng.integers(0, 64, 2))
        for leg in range(int(rng.integers(2, 5))):
            length = int(rng.integers(2, 16)) * grid * (1 if rng.random() < 0.5 else -1)
            end = (x + length, y) if leg % 2 else (x, y + length)
            draw.line([(x, y), end], fill=trace, width=int(rng.choice([3, 3, 5])))
            x, y = end
        draw.ellipse([x - 5, y - 5, x + 5, y + 5], fill=(196, 190, 160))
        draw.ellipse([x - 2, y - 2, x + 2, y + 2], fill=(40, 36, 30))
    for _ in range(34):
        x, y = (int(v) for v in rng.integers(0, SIZE - 24, 2))
        w, h = (18, 10) if rng.random() < 0.5 else (10, 18)
        draw.rectangle([x, y, x + w, y + h], outline=(225, 228, 220), width=2)
    font = ImageFont.load_default(size=15)
    for _ in range(14):
        x, y = (int(v) for v in rng.integers(0, SIZE - 40, 2))
        draw.text((x, y), f"{rng.choice(list('RCUQDL'))}{rng.integers(1, 60)}", fill=(225, 228, 220), font=font)
    shade = 1 + 0.03 * _noise(rng, (25, 25))[:, :, None]
    return np.clip(np.asarray(image) * shade, 0, 255).astype(np.uint8)


def _wrap(text: str, body: tuple[int, int, int], band: tuple[int, int, int]) -> Callable[[np.random.Generator], Pixels]:
    """The printed sleeve of a battery: u along the rod, v round it, so the text runs along the rod."""

    def make(rng: np.random.Generator) -> Pixels:
        image = Image.new("RGB", (SIZE, SIZE), body)
        draw = ImageDraw.Draw(image)
        draw.rectangle([0, 0, SIZE // 6, SIZE], fill=band)
        draw.rectangle([SIZE - 24, 0, SIZE, SIZE], fill=(70, 70, 74))
        font = ImageFont.load_default(size=58)
        small = ImageFont.load_default(size=26)
        for row in range(3):
            draw.text((110, 20 + row * 172), text, fill=(245, 245, 240), font=font)
            draw.text((110, 88 + row * 172), "LITHIUM  do not charge", fill=(230, 230, 226), font=small)
        return np.clip(np.asarray(image) * (1 + 0.02 * _noise(rng, (20, 20))[:, :, None]), 0, 255).astype(np.uint8)

    return make


def _label(rng: np.random.Generator) -> Pixels:
    """A white rating plate: lines of small print and a bar code, unreadable on purpose."""
    image = Image.new("RGB", (SIZE, SIZE), (236, 236, 232))
    draw = ImageDraw.Draw(image)
    for row in range(5):
        x = 40
        while x < 330:
            width = int(rng.integers(18, 60))
            draw.rectangle([x, 60 + row * 48, x + width, 82 + row * 48], fill=(70, 72, 80))
            x += width + 14
    x = 40
    while x < 460:
        width = int(rng.integers(3, 11))
        draw.rectangle([x, 340, x + width, 450], fill=(24, 24, 28))
        x += width + int(rng.integers(4, 11))
    draw.rectangle([370, 60, 460, 150], outline=(70, 72, 80), width=6)
    return np.asarray(image).copy()


def _display(rng: np.random.Generator) -> Pixels:
    """A liquid-crystal display that shows four figures."""
    image = Image.new("RGB", (SIZE, SIZE), (142, 154, 136))
    draw = ImageDraw.Draw(image)
    text = f"{rng.integers(0, 10000):04d}"
    draw.text((44, 110), text, fill=(38, 46, 40), font=ImageFont.load_default(size=190), stroke_width=5)
    return np.asarray(image).copy()


TEXTURES: dict[str, Callable[[np.random.Generator], Pixels]] = {
    "bed": _bed,
    "board_black": lambda rng: _board(rng, (26, 28, 32), (48, 50, 56)),
    "board_blue": lambda rng: _board(rng, (24, 62, 96), (36, 86, 124)),
    "board_dark": lambda rng: _board(rng, (18, 70, 44), (30, 96, 60)),
    "board_green": lambda rng: _board(rng, (28, 104, 58), (52, 138, 82)),
    "board_red": lambda rng: _board(rng, (118, 26, 30), (150, 48, 48)),
    "board_white": lambda rng: _board(rng, (204, 206, 204), (176, 180, 178)),
    "brushed": _brushed,
    "cast": _cast,
    "display": _display,
    "knurled": _knurled,
    "label": _label,
    "mat": _mat,
    "plastic": _plastic,
    "wood": _wood,
    "wrap_aa": _wrap("FR6 / AA 1.5V", (38, 60, 120), (206, 208, 212)),
    "wrap_cr": _wrap("CR14250 3V", (196, 96, 28), (206, 208, 212)),
    "wrap_cr123": _wrap("CR17345 3V", (118, 34, 40), (208, 172, 60)),
    "wrap_er": _wrap("ER14335 3.6V", (36, 104, 70), (206, 208, 212)),
    "wrap_grey": _wrap("LS 3.6V", (120, 124, 130), (54, 60, 92)),
}
"""Every texture by name."""
