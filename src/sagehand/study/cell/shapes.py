"""Shapes that parts are made of, in millimetres, and their meshes.

Every shape stands on the plane z = 0 of its own frame, centred on the z axis; a lying :class:`Rod` touches that plane.
Boxes, upright cylinders and capsules are drawn as MuJoCo primitives; the others are turned into triangle meshes with
texture coordinates (millimetres for planar ones, 0–1 round a lathe or a rod), where a crease is made by doubling its ring.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Box",
    "Capsule",
    "Cylinder",
    "Frame",
    "Lathe",
    "MeshData",
    "MeshShape",
    "Plate",
    "Rod",
    "Shape",
    "Slab",
    "Wire",
    "mesh_of",
]

PLANAR_MM = 100.0
"""One repeat of a texture on a planar mapping [mm]."""


@dataclass(frozen=True)
class Box:
    """A box with sharp edges.

    Attributes:
        x: Full length along x [mm].
        y: Full length along y [mm].
        z: Height [mm].
    """

    x: float
    y: float
    z: float


@dataclass(frozen=True)
class Cylinder:
    """An upright cylinder.

    Attributes:
        radius: Radius [mm].
        height: Height [mm].
    """

    radius: float
    height: float


@dataclass(frozen=True)
class Capsule:
    """A lying capsule along x.

    Attributes:
        radius: Radius [mm].
        length: Length between the centres of its two half spheres [mm].
    """

    radius: float
    length: float


@dataclass(frozen=True)
class Rod:
    """A lying cylinder along x whose texture wraps round it (u along x, v round it).

    Attributes:
        radius: Radius [mm].
        length: Length [mm].
        segments: Number of faces round it.
    """

    radius: float
    length: float
    segments: int = 32


@dataclass(frozen=True)
class Lathe:
    """A profile turned round the z axis.

    Attributes:
        profile: Points (radius, z) [mm], from the inside bottom round the outside; a point given twice makes a crease.
        segments: Number of faces round it.
    """

    profile: tuple[tuple[float, float], ...]
    segments: int = 56


@dataclass(frozen=True)
class Slab:
    """A box with rounded corners seen from above and a rounded top edge.

    Attributes:
        x: Full length along x [mm].
        y: Full length along y [mm].
        z: Height [mm].
        corner: Radius of the four upright edges [mm].
        edge: Radius of the top edge [mm]; 0 for a sharp one.
        fit: Whether one texture covers the top just so (a label); else it repeats every 100 mm.
    """

    x: float
    y: float
    z: float
    corner: float
    edge: float = 0.0
    fit: bool = False


@dataclass(frozen=True)
class Frame:
    """A rectangular ring: a slab with sharp edges and a rectangular opening right through.

    Attributes:
        x: Full outer length along x [mm].
        y: Full outer length along y [mm].
        z: Height [mm].
        wall: Width of the ring [mm].
        corner: Outer radius of the upright edges [mm]; the inner one is smaller by the wall.
    """

    x: float
    y: float
    z: float
    wall: float
    corner: float = 0.0


@dataclass(frozen=True)
class Plate:
    """A disc with a rectangular opening right through.

    Attributes:
        radius: Radius of the disc [mm].
        x: Full length of the opening along x [mm].
        y: Full length of the opening along y [mm].
        z: Height [mm].
        corner: Radius of the opening's corners [mm].
    """

    radius: float
    x: float
    y: float
    z: float
    corner: float = 1.0


@dataclass(frozen=True)
class Wire:
    """A tube along a path; the path is in the part's frame, not moved to z = 0.

    Attributes:
        path: Points (x, y, z) [mm], at least two.
        radius: Radius [mm].
        flat: Height of the section over its width: 1 for a round wire, 0.2 for a metal strip.
    """

    path: tuple[tuple[float, float, float], ...]
    radius: float
    flat: float = 1.0


MeshShape: TypeAlias = Rod | Lathe | Slab | Frame | Plate | Wire
"""The shapes that become triangles."""

Shape: TypeAlias = Box | Cylinder | Capsule | MeshShape
"""Every shape; the first three are MuJoCo's own."""


@dataclass(frozen=True, eq=False)
class MeshData:
    """Triangles of one shape.

    Attributes:
        vertices: (v, 3) points [mm].
        faces: (f, 3) vertex numbers, counter-clockwise seen from outside.
        uv: (v, 2) texture coordinates.
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    uv: NDArray[np.float64]


@lru_cache(maxsize=4096)
def mesh_of(shape: MeshShape) -> MeshData:
    """The triangles of ``shape``; kept, for scenes share most of their shapes."""
    match shape:
        case Lathe(profile=profile, segments=segments):
            return _loft([_ring(r, r, r, z, segments) for r, z in profile])
        case Rod(radius=radius, length=length, segments=segments):
            return _rod(radius, length, segments)
        case Slab():
            return _slab(shape)
        case Frame(x=x, y=y, z=z, wall=wall, corner=corner):
            inner = (x - 2 * wall, y - 2 * wall, max(corner - wall, 0.0))
            rings = [(*inner, 0.0), (x, y, corner, 0.0), (x, y, corner, 0.0), (x, y, corner, z), (x, y, corner, z)]
            rings += [(*inner, z), (*inner, z), (*inner, 0.0)]
            return _loft([_outline(a, b, c, h) for a, b, c, h in rings])
        case Plate(radius=radius, x=x, y=y, z=z, corner=corner):
            hole, disc = (x, y, corner), (2 * radius, 2 * radius, radius)
            rings = [
                (*hole, 0.0),
                (*disc, 0.0),
                (*disc, 0.0),
                (*disc, z),
                (*disc, z),
                (*hole, z),
                (*hole, z),
                (*hole, 0.0),
            ]
            return _loft([_outline(a, b, c, h) for a, b, c, h in rings])
        case Wire(path=path, radius=radius, flat=flat):
            return _wire(path, radius, flat)


def _ring(rx: float, ry: float, _corner: float, z: float, segments: int) -> NDArray[np.float64]:
    angle = np.linspace(0.0, 2 * math.pi, segments, endpoint=False)
    return np.stack([rx * np.cos(angle), ry * np.sin(angle), np.full(segments, z)], axis=1)


def _outline(x: float, y: float, corner: float, z: float) -> NDArray[np.float64]:
    """A rectangle with rounded corners at height ``z``: (24, 3), counter-clockwise from +x."""
    corner = min(max(corner, 1e-3), x / 2, y / 2)
    points = [
        (sx * (x / 2 - corner) + corner * math.cos(angle), sy * (y / 2 - corner) + corner * math.sin(angle), z)
        for quarter, (sx, sy) in enumerate(((1, 1), (-1, 1), (-1, -1), (1, -1)))
        for angle in np.linspace(0.0, math.pi / 2, 6) + quarter * math.pi / 2
    ]
    return np.asarray(points)


def _loft(rings: Sequence[NDArray[np.float64]], *, uv: NDArray[np.float64] | None = None) -> MeshData:
    """Join rings of equal length by quads; open at both ends, so a solid starts and ends with a ring of radius ~0."""
    count = len(rings[0])
    vertices = np.concatenate(rings)
    lower = (np.arange(len(rings) - 1)[:, None] * count + np.arange(count)[None, :]).ravel()
    onward = (np.arange(len(rings) - 1)[:, None] * count + np.roll(np.arange(count), -1)[None, :]).ravel()
    faces = np.concatenate(
        [np.stack([lower, onward, onward + count], axis=1), np.stack([lower, onward + count, lower + count], axis=1)]
    )
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    solid = np.linalg.norm(np.cross(b - a, c - a), axis=1) > 1e-9  # the doubled rings of a crease span no area
    planar = vertices[:, :2] / PLANAR_MM + 0.5
    return MeshData(vertices, faces[solid].astype(np.int32), planar if uv is None else uv)


def _slab(slab: Slab) -> MeshData:
    x, y, z, corner, edge = slab.x, slab.y, slab.z, slab.corner, slab.edge
    angles = (0.0, 0.4, 0.8, 1.2, math.pi / 2) if edge > 0 else (0.0,)
    steps = [(edge * (1 - math.cos(t)), edge * math.sin(t)) for t in angles]
    inset = steps[-1][0]
    rings = [(1e-3, 1e-3, 0.0, 0.0), (x, y, corner, 0.0), (x, y, corner, 0.0)]
    rings += [(x - 2 * i, y - 2 * i, corner - i, z - edge + u) for i, u in steps]
    rings += [(x - 2 * inset, y - 2 * inset, corner - inset, z), (1e-3, 1e-3, 0.0, z)]
    mesh = _loft([_outline(a, b, max(c, 0.0), h) for a, b, c, h in rings])
    if not slab.fit:
        return mesh
    fitted = np.stack([mesh.vertices[:, 0] / x + 0.5, 0.5 - mesh.vertices[:, 1] / y], axis=1)
    return MeshData(mesh.vertices, mesh.faces, fitted)


def _rod(radius: float, length: float, segments: int) -> MeshData:
    angle = np.linspace(0.0, 2 * math.pi, segments + 1)  # the seam is doubled, for the texture
    round_ = np.stack([np.zeros_like(angle), radius * np.sin(angle), radius - radius * np.cos(angle)], axis=1)
    centre = np.tile([0.0, 0.0, radius], (segments + 1, 1))
    centre[:, 1:] += 1e-3 * (round_[:, 1:] - centre[:, 1:])
    half = np.array([length / 2, 0.0, 0.0])
    rings = [centre - half, round_ - half, round_ - half, round_ + half, round_ + half, centre + half]
    around = angle / (2 * math.pi)
    uv = np.concatenate(
        [np.stack([np.full_like(around, u), around], axis=1) for u in (0.01, 0.01, 0.0, 1.0, 0.99, 0.99)]
    )
    return _loft(rings, uv=uv)


def _wire(path: Sequence[tuple[float, float, float]], radius: float, flat: float) -> MeshData:
    points = np.asarray(path, dtype=np.float64)
    along = np.gradient(points, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    rings = []
    for i, (point, forward) in enumerate(zip(points, along, strict=True)):
        reference = np.array([0.0, 0.0, 1.0]) if abs(forward[2]) < 0.9 else np.array([1.0, 0.0, 0.0])
        side = np.cross(forward, reference)
        side /= np.linalg.norm(side)
        up = np.cross(side, forward)
        angle = np.linspace(0.0, 2 * math.pi, 10, endpoint=False)[:, None]
        ring = point + radius * (np.cos(angle) * side + flat * np.sin(angle) * up)
        if i == 0:
            rings.append(point + 1e-3 * (ring - point))
        rings.append(ring)
        if i == len(points) - 1:
            rings.append(point + 1e-3 * (ring - point))
    return _loft([r[::-1] for r in rings])
