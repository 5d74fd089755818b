"""What a picture needs and physics does not: light, a floor, legs of the table, matte and shining materials, water in a cup."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sagehand.world.model import WorldModel
from sagehand.world.objects.rays import first_hits
from sagehand.world.scene import Placed, Scene

__all__ = ["DECOR", "FAR", "HIDDEN", "NEAR", "dress"]

NEAR, FAR = 0.05, 8.0
"""Clipping planes [m]; the model's extent is set to 1, so that they are what MuJoCo calls znear and zfar."""
DECOR = "decor"
"""What the names of geoms begin with that belong to no one: floor, legs, pedestal."""
HIDDEN = 4
"""A group of geoms that is not drawn."""
_FLOOR_M = -0.74
_TABLE = (0.72, 0.65, 0.56, 1.0)
_GREY = (0.30, 0.32, 0.35, 1.0)
_GLOSS = {  # specular, shininess of MuJoCo's lighting model: looks only, no physics hangs on them
    "glass": (0.9, 0.9),
    "enamel": (0.6, 0.7),
    "metal": (0.7, 0.6),
    "steel": (0.7, 0.6),
    "ceramic": (0.6, 0.7),
    "plastic": (0.4, 0.5),
}


def dress(mujoco: Any, world: WorldModel, scene: Scene, *, show_robot: bool = True) -> Any:
    """The world as a ``MjModel`` for pictures: the same bodies and joints, and what makes it fit to look at.

    Args:
        mujoco: MuJoCo.
        world: The compiled world; it is left as it is.
        scene: The scene that it was built from.
        show_robot: Whether the robot is drawn.
    """
    spec = world.spec.copy()
    spec.stat.extent, spec.stat.center, spec.stat.meansize = 1.0, [0.5, 0, 0], 0.05
    visual = spec.visual
    visual.map.znear, visual.map.zfar, visual.map.shadowclip = NEAR, FAR, 2.0
    visual.quality.shadowsize, visual.quality.offsamples = 2048, 4
    visual.global_.offwidth, visual.global_.offheight = scene.camera.width, scene.camera.height
    _light(mujoco, spec)
    _furnish(mujoco, spec, scene)
    _polish(mujoco, spec, scene)
    for placed in scene.objects:
        _fill(mujoco, spec, placed)
    owned = {"world", *world.names}
    for body in spec.bodies:
        for geom in body.geoms:
            geom.contype = geom.conaffinity = 0  # it is looked at, not simulated
            if body.name not in owned and not show_robot:
                geom.group = HIDDEN
    return spec.compile()


def _light(mujoco: Any, spec: Any) -> None:
    for light in list(spec.lights):
        spec.delete(light)
    directional = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    spec.visual.headlight.ambient, spec.visual.headlight.diffuse = [0.38] * 3, [0.22] * 3
    spec.visual.headlight.specular = [0.05] * 3
    for place, direction, strength, shadow in (
        ((0.9, -0.7, 1.6), (-0.35, 0.45, -1.0), (0.58, 0.56, 0.53), True),
        ((0.0, 1.2, 1.2), (0.4, -1.0, -0.9), (0.16, 0.18, 0.22), False),
    ):
        spec.worldbody.add_light(
            type=directional,
            pos=list(place),
            dir=list(direction),
            diffuse=list(strength),
            specular=[0.35 * v for v in strength],
            ambient=[0, 0, 0],
            castshadow=shadow,
        )
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.93, 0.95, 0.97],
        rgb2=[0.70, 0.76, 0.83],
        width=64,
        height=384,
    )


def _furnish(mujoco: Any, spec: Any, scene: Scene) -> None:
    box, table = mujoco.mjtGeom.mjGEOM_BOX, scene.table
    wood = spec.add_material(name="decor/table", rgba=list(_TABLE), specular=0.12, shininess=0.2)
    grey = spec.add_material(name="decor/grey", rgba=list(_GREY), specular=0.2, shininess=0.3)
    ground = spec.add_material(name="decor/floor", rgba=[0.74, 0.76, 0.78, 1], specular=0.05, shininess=0.1)
    board = spec.geom("table")
    board.material, board.rgba = wood.name, list(_TABLE)
    spec.worldbody.add_geom(
        name=f"{DECOR}/floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=[0, 0, _FLOOR_M],
        size=[6, 6, 0.1],
        material=ground.name,
    )
    middle, half = (_FLOOR_M - table.thickness_m) / 2, (-table.thickness_m - _FLOOR_M) / 2
    for number, (x, y) in enumerate((x, y) for x in table.x_m for y in table.y_m):
        inwards = (0.03 if x == table.x_m[0] else -0.03, 0.03 if y == table.y_m[0] else -0.03)
        spec.worldbody.add_geom(
            name=f"{DECOR}/leg{number}",
            type=box,
            pos=[x + inwards[0], y + inwards[1], middle],
            size=[0.022, 0.022, half],
            material=grey.name,
        )
    spec.worldbody.add_geom(
        name=f"{DECOR}/pedestal",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        pos=[-0.03, 0, _FLOOR_M / 2],
        size=[0.11, -_FLOOR_M / 2, 0],
        material=grey.name,
    )


def _polish(mujoco: Any, spec: Any, scene: Scene) -> None:
    """Objects shine as what they are made of."""
    for placed in scene.objects:
        words = placed.model.material.lower()
        gloss = next((g for name, g in _GLOSS.items() if name in words), (0.15, 0.2))
        for geom in spec.body(placed.name).geoms:
            rgba = [float(v) for v in geom.rgba]
            name = f"{geom.name}/look"
            spec.add_material(name=name, rgba=rgba, specular=gloss[0], shininess=gloss[1])
            geom.material = name


def _fill(mujoco: Any, spec: Any, placed: Placed) -> None:
    """Water as a body of its own in the cavity, as wide as the walls leave it at its surface."""
    cavity = placed.model.cavity
    if cavity is None or placed.filled <= 0:
        return
    level = cavity.floor_m + placed.filled * (cavity.rim_m - cavity.floor_m)
    angles = np.linspace(0, 2 * math.pi, 48, endpoint=False)
    rays = np.column_stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)])
    for number, height in enumerate(np.linspace(cavity.floor_m, level, 6)[1:]):
        hits = first_hits(placed.model.solids, np.tile([0.0, 0.0, height], (len(rays), 1)), rays)
        radius = float(min(hits.distance.min(), cavity.radius_m))
        thick = (level - cavity.floor_m) / 10
        spec.body(placed.name).add_geom(
            name=f"{placed.name}/water{number}",
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            pos=[0, 0, height - thick],
            size=[radius, thick, 0],
            rgba=[0.35, 0.60, 0.85, 1],
            mass=0,
            group=1,
        )
