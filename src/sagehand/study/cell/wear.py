"""Wear: what the years did to one unit, drawn for each view; it changes looks, never the right action.

Yellowing, scratches, stains, dust and hairline cracks go into the texture and colour of the housing's plastic. A label may be
torn or gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.study.cell.parts import Part
from sagehand.study.cell.shapes import Slab

__all__ = ["Wear", "draw_wear", "is_worn", "worn_labels", "worn_pixels", "worn_tint"]

SIZE = 512
LAYERS = 6
"""How many drawings of each kind of mark there are; each is shifted and turned over at random."""
KINDS = ("scratches", "stains", "dust", "cracks")
UNWORN = ("abs_cut", "abs_inside")
"""Plastics that were not outside until now."""


@dataclass(frozen=True)
class Wear:
    """How worn the housing of one unit is; each strength is 0 (none) to 1.

    Attributes:
        yellowing: How far its plastic has yellowed.
        scratches: Strength of its scratches.
        stains: Strength of its stains.
        dust: How much dust lies on it.
        cracks: Strength of its hairline cracks.
        label: "whole", "torn" or "missing".
        seed: Seed of where the marks are.
    """

    yellowing: float
    scratches: float
    stains: float
    dust: float
    cracks: float
    label: str
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """What is there of it, as it goes into the labels."""
        doc = asdict(self)
        del doc["seed"]
        return {key: value for key, value in doc.items() if value}


def draw_wear(seed: int) -> Wear:
    """Draw the wear of one view from a stream of its own."""
    rng = np.random.default_rng([seed, 5])

    def strength(probability: float, least: float = 0.15) -> float:
        there, value = rng.random() < probability, rng.beta(1.4, 2.0)
        return round(least + (1 - least) * float(value), 2) if there else 0.0

    return Wear(
        yellowing=strength(0.6),
        scratches=strength(0.6),
        stains=strength(0.4),
        dust=strength(0.5),
        cracks=strength(0.15, 0.5),
        label=str(rng.choice(["whole", "torn", "missing"], p=[0.7, 0.18, 0.12])),
        seed=int(rng.integers(0, 2**31)),
    )


def is_worn(part: Part) -> bool:
    """Whether wear shows on the material of ``part``: the plastic of a device's outside."""
    return part.role == "device" and part.material.startswith("abs") and part.material not in UNWORN


def worn_tint(wear: Wear) -> tuple[float, float, float]:
    """Factors on the colour of yellowed plastic (r, g, b)."""
    return 1 - 0.04 * wear.yellowing, 1 - 0.11 * wear.yellowing, 1 - 0.36 * wear.yellowing


def worn_labels(parts: Iterable[Part], wear: Wear) -> tuple[Part, ...]:
    """The same parts with their labels as ``wear`` says: whole, torn, or gone but for a patch of glue."""
    rng = np.random.default_rng([wear.seed, 1])
    out = []
    for part in parts:
        shape = part.shape
        if part.name == "label" and isinstance(shape, Slab) and wear.label != "whole":
            glue = replace(part, name="glue", shape=replace(shape, z=0.12, fit=False), material="glue")
            out.append(glue)
            if wear.label == "missing":
                continue
            left = float(rng.uniform(0.35, 0.75))
            turn = float(rng.uniform(-9, 9))
            away = np.deg2rad(part.turn[2])
            shift = -(1 - left) / 2 * shape.x * float(rng.choice([-1.0, 1.0]))
            at = (part.at[0] + shift * float(np.cos(away)), part.at[1] + shift * float(np.sin(away)), part.at[2])
            turned = (part.turn[0], part.turn[1], part.turn[2] + turn)
            torn = replace(shape, x=shape.x * left, fit=False, z=shape.z + 0.1)
            part = replace(part, shape=torn, at=at, turn=turned)
        out.append(part)
    return tuple(out)


def worn_pixels(plastic: NDArray[np.uint8], wear: Wear) -> NDArray[np.uint8]:
    """The texture of clean plastic with the marks of ``wear`` on it: (n, n, 3) uint8."""
    rng = np.random.default_rng([wear.seed, 2])
    shade = plastic.astype(np.float32)
    for kind, strength, colour in (
        ("stains", 0.75 * wear.stains, (112, 84, 52)),
        ("scratches", 0.8 * wear.scratches, (96, 94, 90)),
        ("dust", 0.8 * wear.dust, (150, 140, 124)),
        ("cracks", wear.cracks, (26, 24, 22)),
    ):
        which, right, down, flip = (int(rng.integers(0, n)) for n in (LAYERS, SIZE, SIZE, 4))
        if strength == 0:
            continue
        layer = np.roll(_layer(kind, which), (down, right), (0, 1))[:: 1 - 2 * (flip & 1), :: 1 - (flip & 2)]
        cover = (np.float32(strength) * layer)[:, :, None]
        shade += cover * (np.asarray(colour, dtype=np.float32) - shade)
    return np.clip(shade, 0, 255).astype(np.uint8)


@lru_cache(maxsize=LAYERS * len(KINDS))
def _layer(kind: str, which: int) -> NDArray[np.float32]:
    """How much of a mark covers each texel, 0–1: (n, n), wraps at its edges."""
    from PIL import Image, ImageDraw
    from scipy import ndimage

    rng = np.random.default_rng([which, *kind.encode()])
    if kind == "dust":
        grain = ndimage.gaussian_filter(rng.standard_normal((SIZE, SIZE)), 1.2, mode="wrap")
        drift = ndimage.gaussian_filter(rng.standard_normal((SIZE, SIZE)), 50, mode="wrap")
        field = 0.5 * np.clip(0.5 + drift / drift.std() / 2, 0, 1) + 0.5 * (grain / grain.std() > 1.9)
        return np.asarray(field, dtype=np.float32)
    image = Image.new("L", (SIZE, SIZE), 0)
    draw = ImageDraw.Draw(image)
    blur = 0.6
    if kind == "scratches":
        for _ in range(int(rng.integers(10, 30))):
            x, y = rng.uniform(30, SIZE - 30, 2)
            length, angle = rng.uniform(15, 130), rng.uniform(0, np.pi)
            end = (x + length * np.cos(angle), y + length * np.sin(angle))
            draw.line([(x, y), end], fill=int(rng.integers(90, 255)), width=int(rng.choice([1, 2, 2, 3])))
    elif kind == "stains":
        for _ in range(int(rng.integers(2, 6))):
            x, y, r = rng.uniform(60, SIZE - 60), rng.uniform(60, SIZE - 60), rng.uniform(12, 55)
            for angle in rng.uniform(0, 2 * np.pi, 5):
                a, b, s = x + 0.6 * r * np.cos(angle), y + 0.6 * r * np.sin(angle), r * rng.uniform(0.4, 0.8)
                draw.ellipse([a - s, b - s, a + s, b + s], fill=int(rng.integers(90, 220)))
        blur = 5.0
    else:
        for _ in range(int(rng.integers(1, 4))):
            x, y, angle = rng.uniform(80, SIZE - 80), rng.uniform(80, SIZE - 80), rng.uniform(0, 2 * np.pi)
            for _ in range(int(rng.integers(8, 20))):
                angle += rng.normal(0, 0.45)
                end = (x + 14 * np.cos(angle), y + 14 * np.sin(angle))
                draw.line([(x, y), end], fill=255, width=3)
                x, y = end
    field = ndimage.gaussian_filter(np.asarray(image, dtype=np.float32) / 255, blur, mode="wrap")
    return np.asarray(field, dtype=np.float32)
