"""Pictures of the world: colour, depth, and whose each pixel is.

MuJoCo and a GL driver are needed only here (``pip install 'sagehand[world]'``, ``MUJOCO_GL=egl`` on a machine without a
screen). The picture shows the same solids that the physics collides and the analytic simulator reckons with.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sagehand.errors import InputError
from sagehand.gl import draw, draw_owners, open_gl
from sagehand.world.dressing import DECOR, FAR, HIDDEN, NEAR, dress
from sagehand.world.model import WorldModel, build_model, set_pose
from sagehand.world.rgbd import RgbdFrame, cloud, unproject
from sagehand.world.robot.description import Robot
from sagehand.world.scene import Camera, Scene

__all__ = ["RgbdFrame", "SceneRenderer", "cloud", "unproject"]


class SceneRenderer:
    """Renders one scene's objects at changing poses; holds one GL context. Use it as a context manager, from one thread."""

    def __init__(
        self,
        scene: Scene,
        robot: Robot,
        world: WorldModel | None = None,
        show_robot: bool = True,
        shadows: bool = True,
    ) -> None:
        """Open a GL context, held until :meth:`close`, and compile the scene.

        Args:
            scene: The objects, and the camera that looks at them.
            robot: The robot.
            world: The scene's model, where it is compiled already; by default it is, with detailed meshes.
            show_robot: Whether the robot is in the picture.
            shadows: Whether there are shadows; they cost more than half of the time.

        Raises:
            MissingExtra: MuJoCo or the robot's model is not installed.
            SettingsError: MuJoCo finds no GL driver.
        """
        self.scene, self.robot, self._shadows = scene, robot, shadows
        size = (scene.camera.width, scene.camera.height)
        self._mujoco, self._gl = open_gl(*size, what="a picture of the world", extra="world")
        self._context: Any = None
        try:
            mj = self._mujoco
            world = world or build_model(scene, robot, detailed=True)
            self._model = dress(mj, world, scene, show_robot=show_robot)
            self._data = mj.MjData(self._model)
            self._gl.make_current()
            self._context = mj.MjrContext(self._model, mj.mjtFontScale.mjFONTSCALE_100)
            self._context.readDepthMap = mj.mjtDepthMap.mjDEPTH_ZEROFAR  # keeps float32's precision where it matters
            self._drawn = mj.MjvScene(self._model, maxgeom=self._model.ngeom + 50)
            self._option = mj.MjvOption()
            self._option.geomgroup[HIDDEN] = 0
            self._option.sitegroup[:] = 0  # the robot's model marks its TCP with a dot
            self.names = ("table", "robot", *world.names)
            self._owner = self._owners(world.names)
            self._arm, self._fingers = self._robot_joints(world.names)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SceneRenderer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the GL context; harmless when done twice."""
        if self._context is not None:
            self._context.free()
            self._context = None
        if self._gl is not None:
            self._gl.free()
            self._gl = None

    def frame(
        self,
        data: Any = None,
        q: ArrayLike | None = None,
        width: float = 0.08,
        *,
        camera: Camera | None = None,
    ) -> RgbdFrame:
        """Render the scene as it is now.

        Args:
            data: A ``MjData`` of any model with these objects and this robot, whose poses are taken over; or a
                :class:`Scene` of the same objects. By default the scene that the renderer was made for.
            q: (n,) joint angles of the arm [rad]; home by default. A ``MjData`` brings its own.
            width: Opening between the fingers [m]. A ``MjData`` brings its own.
            camera: Another camera of the same size.

        Raises:
            InputError: The scene holds other objects, the camera is of another size, or ``q`` of another length.
        """
        camera = camera or self.scene.camera
        size = (camera.width, camera.height)
        rgb = self.picture(data, q, width, camera=camera)
        geoms, raw = draw_owners(self._mujoco, self._drawn, self._context, size)
        depth = NEAR * FAR / (NEAR + raw.astype(np.float64) * (FAR - NEAR))
        depth[raw <= 0] = 0  # the sky
        return RgbdFrame(
            rgb,
            depth.astype(np.float32),
            self._owner[geoms],
            self.names,
            camera.intrinsics,
            camera.T_world_camera.copy(),  # the camera keeps its own
            *size,
        )

    def picture(
        self, data: Any = None, q: ArrayLike | None = None, width: float = 0.08, *, camera: Camera | None = None
    ) -> NDArray[np.uint8]:
        """(H, W, 3) uint8 RGB alone, in half the time of :meth:`frame`, which tells the arguments."""
        camera = camera or self.scene.camera
        self._check_camera(camera)
        if data is None or isinstance(data, Scene):
            self._pose(data or self.scene, q, width)
        else:
            self._copy(data)
        return self._shoot(camera)

    def _pose(self, scene: Scene, q: ArrayLike | None, width: float) -> None:
        if {o.name for o in scene.objects} != set(self.names[2:]):
            raise InputError(
                f"the scene holds {', '.join(o.name for o in scene.objects) or 'nothing'}; the renderer was made for "
                f"{', '.join(self.names[2:]) or 'nothing'}",
                hint="make another SceneRenderer",
            )
        angles = self.robot.home if q is None else np.asarray(q, dtype=np.float64)
        if angles.shape != self.robot.home.shape:
            raise InputError(f"q is of shape {angles.shape}; {self.robot.name} has {len(self.robot.home)} joints")
        self._data.qpos[self._arm] = angles
        self._data.qpos[self._fingers] = width / 2
        for placed in scene.objects:
            set_pose(self._model, self._data, placed.name, placed.T_world_object)

    def _copy(self, data: Any) -> None:
        """Poses by the names of the joints: the other model may have its own order, meshes and actuators."""
        other = data.model
        for number in range(self._model.njnt):
            joint = self._model.joint(number)
            there = other.joint(joint.name)
            wide = 7 if self._model.jnt_type[number] == self._mujoco.mjtJoint.mjJNT_FREE else 1
            mine, theirs = int(joint.qposadr[0]), int(there.qposadr[0])
            self._data.qpos[mine : mine + wide] = data.qpos[theirs : theirs + wide]

    def _shoot(self, camera: Camera) -> NDArray[np.uint8]:
        mj = self._mujoco
        self._move_camera(camera)
        mj.mj_kinematics(self._model, self._data)
        mj.mj_camlight(self._model, self._data)
        self._gl.make_current()
        mj.mjr_setBuffer(mj.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        view = mj.MjvCamera()
        view.type, view.fixedcamid = mj.mjtCamera.mjCAMERA_FIXED, self._model.camera("cell").id
        mj.mjv_updateScene(
            self._model, self._data, self._option, mj.MjvPerturb(), view, mj.mjtCatBit.mjCAT_ALL, self._drawn
        )
        flags = self._drawn.flags
        flags[mj.mjtRndFlag.mjRND_SEGMENT] = flags[mj.mjtRndFlag.mjRND_IDCOLOR] = False
        flags[mj.mjtRndFlag.mjRND_SHADOW] = self._shadows
        rgb = draw(mj, self._drawn, self._context, (camera.width, camera.height))
        return np.ascontiguousarray(rgb)

    def _move_camera(self, camera: Camera) -> None:
        number = self._model.camera("cell").id
        R = camera.T_world_camera[:3, :3] @ np.diag([1.0, -1.0, -1.0])  # MuJoCo's cameras look along −z, y up
        self._model.cam_pos[number] = camera.eye_m
        self._mujoco.mju_mat2Quat(self._model.cam_quat[number], np.ascontiguousarray(R).ravel())
        self._model.cam_fovy[number] = camera.fovy_deg

    def _check_camera(self, camera: Camera) -> None:
        mine = self.scene.camera
        if (camera.width, camera.height) != (mine.width, mine.height):
            raise InputError(
                f"the camera's picture is {camera.width}x{camera.height}; the renderer was made for "
                f"{mine.width}x{mine.height}",
                hint="make another SceneRenderer",
            )

    def _owners(self, objects: Sequence[str]) -> NDArray[np.int16]:
        """(ngeom + 1,) place in ``names`` of each geom; the last entry is that of no geom."""
        owner = np.full(self._model.ngeom + 1, -1, dtype=np.int16)
        for number in range(self._model.ngeom):
            body = self._model.body(int(self._model.geom_bodyid[number])).name
            if body in objects:
                owner[number] = 2 + list(objects).index(body)
            elif self._model.geom(number).name == "table":
                owner[number] = 0
            elif not self._model.geom(number).name.startswith(DECOR):
                owner[number] = 1
        return owner

    def _robot_joints(self, objects: Sequence[str]) -> tuple[list[int], list[int]]:
        """Places in qpos of the arm's joints, in order, and of the fingers'."""
        mine = [n for n in range(self._model.njnt) if self._model.joint(n).name not in {f"{o}/free" for o in objects}]
        arm = [int(self._model.jnt_qposadr[n]) for n in mine[: len(self.robot.home)]]
        return arm, [int(self._model.jnt_qposadr[n]) for n in mine[len(self.robot.home) :]]
