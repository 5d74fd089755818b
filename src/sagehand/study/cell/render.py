"""Render a scene with MuJoCo: colour, depth, and who owns each pixel.

MuJoCo and a GL driver are needed only here (`pip install 'sagehand[render]'`, ``MUJOCO_GL=egl`` on a machine without a
screen). What the fixed-function renderer lacks is added afterwards by :mod:`~sagehand.study.cell.sensor`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.gl import draw, draw_owners, open_gl
from sagehand.study.cell.materials import MATERIALS
from sagehand.study.cell.parts import Part, rotation
from sagehand.study.cell.scene import Scene
from sagehand.study.cell.sensor import shoot
from sagehand.study.cell.shapes import Box, Capsule, Cylinder, MeshShape, mesh_of
from sagehand.study.cell.textures import texture
from sagehand.study.cell.wear import is_worn, worn_pixels, worn_tint

__all__ = ["CellRenderer", "Frame", "Intrinsics", "rotation"]

MM = 1e-3
NEAR, FAR = 0.05, 3.0
"""Clipping planes [m]; the model's extent is set to 1, so that they are what MuJoCo calls znear and zfar."""


@dataclass(frozen=True)
class Intrinsics:
    """A pinhole camera without distortion; the centre of the first pixel is (0, 0).

    Attributes:
        width: Columns [px].
        height: Rows [px].
        fx: Focal length along x [px].
        fy: Focal length along y [px].
        cx: Principal point [px].
        cy: Principal point [px].
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float

    @classmethod
    def from_fovy(cls, width: int, height: int, fovy: float) -> Intrinsics:
        """The camera of a given size [px] and full vertical field of view [deg]."""
        focal = height / 2 / math.tan(math.radians(fovy) / 2)
        return cls(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)


@dataclass(frozen=True, eq=False)
class Frame:
    """One rendered view.

    Attributes:
        pixels: (H, W, 3) uint8 RGB.
        depth: (H, W) float32, distance along the optical axis [m].
        mask: (H, W) bool, the device and the parts of the fixture that it sits in.
        device_mask: (H, W) bool, the device alone.
        intrinsics: The camera.
    """

    pixels: NDArray[np.uint8]
    depth: NDArray[np.float32]
    mask: NDArray[np.bool_]
    device_mask: NDArray[np.bool_]
    intrinsics: Intrinsics


class CellRenderer:
    """Renders scenes of one picture size; holds one GL context, and frees what a scene needed after each.

    Use it as a context manager, from one thread.
    """

    def __init__(self, width: int = 640, height: int = 480) -> None:
        """Open a GL context.

        Args:
            width: Columns [px].
            height: Rows [px].

        Raises:
            MissingExtra: MuJoCo is not installed.
            SettingsError: It is, but finds no GL driver.
        """
        self.width, self.height = width, height
        self._mujoco, self._gl = open_gl(width, height, what="rendering the cell", extra="render")

    def __enter__(self) -> CellRenderer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the GL context; harmless when done twice."""
        if self._gl is not None:
            self._gl.free()
            self._gl = None

    def render(self, scene: Scene) -> Frame:
        """Render ``scene``."""
        mj = self._mujoco
        model = self._compile(scene)
        data = mj.MjData(model)
        mj.mj_forward(model, data)
        self._gl.make_current()
        context = mj.MjrContext(model, mj.mjtFontScale.mjFONTSCALE_100)
        try:
            mj.mjr_setBuffer(mj.mjtFramebuffer.mjFB_OFFSCREEN, context)
            drawn = mj.MjvScene(model, maxgeom=model.ngeom + 50)
            camera = mj.MjvCamera()
            camera.type, camera.fixedcamid = mj.mjtCamera.mjCAMERA_FIXED, 0
            mj.mjv_updateScene(model, data, mj.MjvOption(), mj.MjvPerturb(), camera, mj.mjtCatBit.mjCAT_ALL, drawn)
            context.readDepthMap = mj.mjtDepthMap.mjDEPTH_ZEROFAR  # keeps float32's precision where it matters
            size = (self.width, self.height)
            rgb = draw(mj, drawn, context, size)
            owner, raw = draw_owners(mj, drawn, context, size)
        finally:
            context.free()
        return self._frame(scene, rgb, raw, owner)

    def _frame(self, scene: Scene, rgb: NDArray[np.uint8], raw: NDArray[np.float32], owner: NDArray[np.int64]) -> Frame:
        depth = (NEAR * FAR / (NEAR + raw.astype(np.float64) * (FAR - NEAR))).astype(np.float32)
        # -1, what no part owns, takes the last entry
        device = np.array([part.role == "device" for part in scene.parts] + [False])[owner]
        mask = device | np.array([part.role == "fixture" for part in scene.parts] + [False])[owner]
        shot = shoot(rgb, depth, scene)
        shot.setflags(write=False)
        intrinsics = Intrinsics.from_fovy(self.width, self.height, scene.camera.fovy)
        return Frame(shot, depth, mask, device, intrinsics)

    def _compile(self, scene: Scene) -> Any:
        """The scene as a MuJoCo model whose geom i is the scene's part i."""
        mj = self._mujoco
        spec = mj.MjSpec()
        spec.stat.extent, spec.stat.center, spec.stat.meansize = 1.0, [0, 0, 0], 0.05
        visual = spec.visual
        visual.map.znear, visual.map.zfar, visual.map.shadowclip = NEAR, FAR, 0.6
        visual.quality.shadowsize, visual.quality.offsamples = 2048, 4
        visual.global_.offwidth, visual.global_.offheight = self.width, self.height
        visual.headlight.ambient = [scene.ambient] * 3
        visual.headlight.diffuse = visual.headlight.specular = [0.05] * 3
        for light in scene.lights:
            spec.worldbody.add_light(
                type=mj.mjtLightType.mjLIGHT_DIRECTIONAL,
                pos=[-0.6 * v for v in light.direction],
                dir=list(light.direction),
                diffuse=list(light.colour),
                specular=[0.5 * c for c in light.colour],
                ambient=[0, 0, 0],
                castshadow=light.shadow,
            )
        right, down, forward = scene.camera.axes()
        quat = np.zeros(4)
        mj.mju_mat2Quat(quat, np.stack([right, -down, -forward], axis=1).ravel())  # OpenGL: y up, looking along -z
        spec.worldbody.add_camera(
            pos=[MM * v for v in scene.camera.position], quat=quat.tolist(), fovy=scene.camera.fovy
        )
        self._add_materials(spec, scene)
        meshes: dict[MeshShape, str] = {}
        for part in scene.parts:
            self._add_geom(spec, part, _skin(part.material, _worn(part, scene)), meshes)
        return spec.compile()

    def _add_materials(self, spec: Any, scene: Scene) -> None:
        mj = self._mujoco
        textures: set[str] = set()
        for name, worn in sorted({(part.material, _worn(part, scene)) for part in scene.parts}):
            look, wear = MATERIALS[name], scene.wear if worn else None
            skin = None if look.texture is None else look.texture if wear is None else f"worn {look.texture}"
            if skin is not None and look.texture is not None and skin not in textures:
                textures.add(skin)
                pixels = texture(look.texture, scene.variant)
                pixels = pixels if wear is None else worn_pixels(pixels, wear)
                made = spec.add_texture(
                    name=skin,
                    type=mj.mjtTexture.mjTEXTURE_2D,
                    nchannel=3,
                    width=pixels.shape[1],
                    height=pixels.shape[0],
                )
                made.data = pixels.tobytes()
            tint = scene.tint if name.startswith("abs") else (1.0, 1.0, 1.0)
            aged = (1.0, 1.0, 1.0) if wear is None else worn_tint(wear)
            material = spec.add_material(
                name=_skin(name, worn),
                rgba=[*(min(c * t * a, 1.0) for c, t, a in zip(look.rgb, tint, aged, strict=True)), look.alpha],
                specular=look.specular,
                shininess=look.shininess,
                texrepeat=[look.repeat, look.repeat],
            )
            if skin is not None:
                material.textures[mj.mjtTextureRole.mjTEXROLE_RGB] = skin

    def _add_geom(self, spec: Any, part: Part, skin: str, meshes: dict[MeshShape, str]) -> None:
        mj = self._mujoco
        turn = rotation(part.turn)
        quat = np.zeros(4)
        mj.mju_mat2Quat(quat, turn.ravel())
        shape = part.shape
        common = {"material": skin, "contype": 0, "conaffinity": 0, "quat": quat}
        rise = 0.0
        match shape:
            case Box(x=x, y=y, z=z):
                common |= {"type": mj.mjtGeom.mjGEOM_BOX, "size": [MM * x / 2, MM * y / 2, MM * z / 2]}
                rise = z / 2
            case Cylinder(radius=radius, height=height):
                common |= {"type": mj.mjtGeom.mjGEOM_CYLINDER, "size": [MM * radius, MM * height / 2, 0]}
                rise = height / 2
            case Capsule(radius=radius, length=length):
                common |= {"type": mj.mjtGeom.mjGEOM_CAPSULE, "size": [MM * radius, MM * length / 2, 0]}
                rise = radius
                mj.mju_mat2Quat(quat, (turn @ rotation((0.0, 90.0, 0.0))).ravel())
            case _:
                if shape not in meshes:
                    meshes[shape] = f"mesh{len(meshes)}"
                    self._add_mesh(spec, meshes[shape], shape)
                common |= {"type": mj.mjtGeom.mjGEOM_MESH, "meshname": meshes[shape]}
        at = np.asarray(part.at) + turn @ np.array([0.0, 0.0, rise])
        spec.worldbody.add_geom(pos=(MM * at).tolist(), **common)

    def _add_mesh(self, spec: Any, name: str, shape: MeshShape) -> None:
        data = mesh_of(shape)
        mesh = spec.add_mesh(name=name, inertia=self._mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
        mesh.uservert = (MM * data.vertices).ravel()
        mesh.userface = data.faces.ravel()
        mesh.usertexcoord = data.uv.ravel()


def _worn(part: Part, scene: Scene) -> bool:
    return scene.wear is not None and is_worn(part)


def _skin(material: str, worn: bool) -> str:
    """Name of a material in the model: what is worn is another material than the same plastic elsewhere."""
    return f"worn {material}" if worn else material
