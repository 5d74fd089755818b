"""A scene: one device in one state at one place, seen by one camera. Drawn from a seed without any GL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sagehand.errors import InputError
from sagehand.study.cell.components import swarf
from sagehand.study.cell.device import Device
from sagehand.study.cell.parts import Part, here, moved
from sagehand.study.cell.places import PLACES, Place

__all__ = ["Camera", "Light", "Scene", "draw_scene"]

VARIANTS = 6
"""How many variants of each texture there are."""


@dataclass(frozen=True)
class Camera:
    """A pinhole camera.

    Attributes:
        position: Where it is in the frame of the place (x, y, z) [mm].
        target: The point that it looks at [mm].
        roll: Turn about its axis [deg].
        fovy: Full vertical field of view [deg].
    """

    position: tuple[float, float, float]
    target: tuple[float, float, float]
    roll: float
    fovy: float

    def axes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Unit vectors of the optical frame (REP-103: x right, y down, z forward) in the frame of the place, (3,) each."""
        forward = np.asarray(self.target) - np.asarray(self.position)
        forward = forward / np.linalg.norm(forward)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        down = np.cross(forward, right)
        c, s = math.cos(math.radians(self.roll)), math.sin(math.radians(self.roll))
        return c * right + s * down, c * down - s * right, forward


@dataclass(frozen=True)
class Light:
    """A directional light.

    Attributes:
        direction: Where it shines to.
        colour: Its colour and strength, 0–1 each.
        shadow: Whether it casts shadows.
    """

    direction: tuple[float, float, float]
    colour: tuple[float, float, float]
    shadow: bool


@dataclass(frozen=True)
class Scene:
    """All that decides a picture.

    Attributes:
        place: Name of the place.
        parts: Every visible part, in the frame of the place.
        camera: The camera.
        lights: The lights.
        ambient: Light from everywhere, 0–1.
        variant: Which variant of the textures.
        tint: Factor on the colours of the device (r, g, b), near 1.
        exposure: Factor on the picture's brightness, near 1.
        balance: Factors on the picture's red and blue, near 1.
        seed: The seed that it was drawn from; also that of the sensor's noise.
    """

    place: str
    parts: tuple[Part, ...]
    camera: Camera
    lights: tuple[Light, ...]
    ambient: float
    variant: int
    tint: tuple[float, float, float]
    exposure: float
    balance: tuple[float, float]
    seed: int


def draw_scene(
    device: Device | None, place: str, facts: frozenset[str], seed: int, *, extra: Sequence[Part] = ()
) -> Scene:
    """Draw the scene of one view.

    Args:
        device: What stands there, or None for an empty place.
        place: A name in :data:`~sagehand.study.cell.places.PLACES`.
        facts: What is true of the device.
        seed: Decides all that varies; the same seed gives the same scene.
        extra: More parts in the frame of the place, such as a hand.

    Raises:
        InputError: There is no such place.
    """
    if place not in PLACES:
        raise InputError(f"unknown place {place!r}; known: {', '.join(PLACES)}")
    where = PLACES[place]
    # one stream a topic: a part added to the clutter later does not move the camera
    pose, build, view, chips = (np.random.default_rng([seed, topic]) for topic in range(4))
    half_width, half_length = (device.half_width, device.half_length) if device else (34.0, 60.0)
    parts = where.build(half_width, half_length, build)
    if device is not None:
        yaw = float(pose.uniform(-1, 1)) * device.yaw.get(place, 0.0)
        x, y = pose.uniform(-1, 1, 2) * where.shift
        parts += moved(here(device.parts, facts), (float(x), float(y), 0.0), yaw=yaw)
    if place == "cnc":
        parts += _left_by_cutting(chips)
    tint = tuple(float(v) for v in 1 + view.uniform(-0.03, 0.02, 3))
    return Scene(
        place,
        parts + tuple(extra),
        _camera(where, view),
        _lights(where, view),
        where.ambient * float(view.uniform(0.9, 1.1)),
        int(view.integers(0, VARIANTS)),
        (tint[0], tint[1], tint[2]),
        float(view.uniform(0.92, 1.08)),
        (float(view.uniform(0.97, 1.03)), float(view.uniform(0.97, 1.03))),
        seed,
    )


def _left_by_cutting(rng: np.random.Generator) -> tuple[Part, ...]:
    """Swarf of earlier work: as much before a cut as after it, so that its amount gives nothing away."""
    count = int(rng.integers(25, 70))
    return (
        *swarf(rng, count, material="swarf_white", centre=(0, 0, 0), spread=70),
        *swarf(rng, count // 2, material="swarf_alu", centre=(0, 0, 0), spread=85),
        *swarf(rng, count, material="swarf_white", centre=(0, 0, -16), spread=150),
    )


def _camera(where: Place, rng: np.random.Generator) -> Camera:
    azimuth, elevation = (math.radians(float(rng.uniform(*r))) for r in (where.azimuth, where.elevation))
    distance = float(rng.uniform(*where.distance))
    target = (float(rng.uniform(-14, 14)), float(rng.uniform(-10, 10)), where.look_at_z)
    flat = distance * math.cos(elevation)
    position = (
        target[0] + flat * math.sin(azimuth),
        target[1] - flat * math.cos(azimuth),
        target[2] + distance * math.sin(elevation),
    )
    return Camera(position, target, float(rng.uniform(-4, 4)), 42.0)


def _lights(where: Place, rng: np.random.Generator) -> tuple[Light, ...]:
    towards = np.asarray(where.key_from) + rng.uniform(-0.2, 0.2, 3)
    strength = 0.62 * float(rng.uniform(0.9, 1.1))
    key = tuple(float(c) * strength for c in where.key)
    fill = tuple(float(c) * 0.16 for c in where.key[::-1])
    return (
        Light((-float(towards[0]), -float(towards[1]), -float(towards[2])), (key[0], key[1], key[2]), True),
        Light((float(towards[0]), -0.6, -0.7), (fill[0], fill[1], fill[2]), False),
    )
