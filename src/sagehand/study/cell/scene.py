"""A scene: one device in one state at one place, seen by one camera. Drawn from a seed without any GL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sagehand.errors import InputError
from sagehand.study.cell.clutter import clutter
from sagehand.study.cell.components import swarf
from sagehand.study.cell.device import Device
from sagehand.study.cell.parts import Part, here, moved
from sagehand.study.cell.places import PLACES, Place
from sagehand.study.cell.wear import Wear, draw_wear, worn_labels

__all__ = ["DEMO", "STUDY", "Camera", "Light", "Scene", "Variety", "draw_scene"]

VARIANTS = 6
"""How many variants of each texture there are."""


@dataclass(frozen=True)
class Variety:
    """How much varies from view to view: factors on the demo cell's ranges about their middles.

    Attributes:
        camera: Factor on the ranges of the camera's direction, distance, target and roll.
        light: Factor on the ranges of the light's direction and strength, of exposure and white balance.
        clutter: Whether more things lie about, at every place.
        wear: Whether the device's housing is worn.
        depth_noise: Whether written depth images carry a sensor's noise.
    """

    camera: float = 1.0
    light: float = 1.0
    clutter: bool = False
    wear: bool = False
    depth_noise: bool = False


DEMO = Variety()
"""The demo cell's: a steady camera and light, no wear."""

STUDY = Variety(camera=1.6, light=1.8, clutter=True, wear=True, depth_noise=True)
"""The study's data set: wider in all."""


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
        wear: How worn the device's housing is; None for a new one.
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
    wear: Wear | None = None


def draw_scene(
    device: Device | None,
    place: str,
    facts: frozenset[str],
    seed: int,
    *,
    extra: Sequence[Part] = (),
    variety: Variety = DEMO,
) -> Scene:
    """Draw the scene of one view.

    Args:
        device: What stands there, or None for an empty place.
        place: A name in :data:`~sagehand.study.cell.places.PLACES`.
        facts: What is true of the device.
        seed: Decides all that varies; the same seed gives the same scene.
        extra: More parts in the frame of the place, such as a hand.
        variety: How much varies.

    Raises:
        InputError: There is no such place.
    """
    if place not in PLACES:
        raise InputError(f"unknown place {place!r}; known: {', '.join(PLACES)}")
    where = PLACES[place]
    # one stream a topic: a part added to the clutter later does not move the camera
    pose, build, view, chips, more = (np.random.default_rng([seed, topic]) for topic in range(5))
    half_width, half_length = (device.half_width, device.half_length) if device else (34.0, 60.0)
    parts = where.build(half_width, half_length, build)
    wear = draw_wear(seed) if variety.wear and device is not None else None
    if device is not None:
        yaw = float(pose.uniform(-1, 1)) * device.yaw.get(place, 0.0)
        x, y = pose.uniform(-1, 1, 2) * where.shift
        seen = here(device.parts, facts)
        seen = worn_labels(seen, wear) if wear is not None else seen
        parts += moved(seen, (float(x), float(y), 0.0), yaw=yaw)
    if place == "cnc":
        parts += _left_by_cutting(chips)
    if variety.clutter:
        parts += _more_clutter(where, max(half_width, half_length), more)
    wide, bright = variety.camera, variety.light
    tint = tuple(float(v) for v in 1 + view.uniform(-0.03, 0.02, 3))
    return Scene(
        place,
        parts + tuple(extra),
        _camera(where, view, wide),
        _lights(where, view, bright),
        where.ambient * float(view.uniform(*_wider((0.9, 1.1), bright))),
        int(view.integers(0, VARIANTS)),
        (tint[0], tint[1], tint[2]),
        float(view.uniform(*_wider((0.92, 1.08), bright))),
        (float(view.uniform(*_wider((0.97, 1.03), bright))), float(view.uniform(*_wider((0.97, 1.03), bright)))),
        seed,
        wear,
    )


def _wider(span: tuple[float, float], factor: float) -> tuple[float, float]:
    """A range about the same middle, ``factor`` times as wide; the very same for 1."""
    if factor == 1.0:
        return span
    middle, half = (span[0] + span[1]) / 2, (span[1] - span[0]) / 2
    return middle - factor * half, middle + factor * half


def _more_clutter(where: Place, reach: float, rng: np.random.Generator) -> tuple[Part, ...]:
    """Things left lying about and dirt, from a stream of their own; as likely at every place and step."""
    parts: tuple[Part, ...] = ()
    if where.name != "table":  # which has clutter of its own
        parts = moved(clutter(rng, max(reach, 110.0), least=0), (0.0, 0.0, where.floor_z))
    count = int(rng.integers(0, 22))
    dirt = swarf(
        rng, count, material=str(rng.choice(["swarf_white", "rubber", "abs_sand"])), centre=(0, 0, 0), spread=95
    )
    return parts + moved(dirt, (0.0, 0.0, where.floor_z))


def _left_by_cutting(rng: np.random.Generator) -> tuple[Part, ...]:
    """Swarf of earlier work: as much before a cut as after it, so that its amount gives nothing away."""
    count = int(rng.integers(25, 70))
    return (
        *swarf(rng, count, material="swarf_white", centre=(0, 0, 0), spread=70),
        *swarf(rng, count // 2, material="swarf_alu", centre=(0, 0, 0), spread=85),
        *swarf(rng, count, material="swarf_white", centre=(0, 0, -16), spread=150),
    )


def _camera(where: Place, rng: np.random.Generator, wide: float) -> Camera:
    azimuth, elevation = (math.radians(float(rng.uniform(*_wider(r, wide)))) for r in (where.azimuth, where.elevation))
    distance = float(rng.uniform(*_wider(where.distance, wide)))
    target = (
        float(rng.uniform(*_wider((-14, 14), wide))),
        float(rng.uniform(*_wider((-10, 10), wide))),
        where.look_at_z,
    )
    flat = distance * math.cos(elevation)
    position = (
        target[0] + flat * math.sin(azimuth),
        target[1] - flat * math.cos(azimuth),
        target[2] + distance * math.sin(elevation),
    )
    return Camera(position, target, float(rng.uniform(*_wider((-4, 4), wide))), 42.0)


def _lights(where: Place, rng: np.random.Generator, bright: float) -> tuple[Light, ...]:
    towards = np.asarray(where.key_from) + rng.uniform(*_wider((-0.2, 0.2), bright), 3)
    strength = 0.62 * float(rng.uniform(*_wider((0.9, 1.1), bright)))
    key = tuple(float(c) * strength for c in where.key)
    fill = tuple(float(c) * 0.16 for c in where.key[::-1])
    return (
        Light((-float(towards[0]), -float(towards[1]), -float(towards[2])), (key[0], key[1], key[2]), True),
        Light((float(towards[0]), -0.6, -0.7), (fill[0], fill[1], fill[2]), False),
    )
