"""A scene in the browser, turned by hand: objects, table, robot, and the grasp, where there is one (extra "viser").

The page is served to this machine alone: there is no password on it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import socket
import time
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sagehand.errors import InputError, MissingExtra
from sagehand.world.frames import quat_wxyz
from sagehand.world.grasp import GraspCommand
from sagehand.world.model import build_model, mujoco_module, set_pose
from sagehand.world.objects.shapes import Solid, SolidKind
from sagehand.world.robot.description import Robot
from sagehand.world.scene import Scene

__all__ = ["View", "view"]

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Hosts that only this machine reaches."""


class View:
    """A page in the browser that shows a scene; ``close`` it, or use it as a context manager.

    Attributes:
        host: Where it listens.
        port: And on which port.
        server: The ``viser.ViserServer``, for what is not here.
    """

    def __init__(self, scene: Scene, robot: Robot, server: Any, host: str, port: int) -> None:
        """Fill a server with a scene; :func:`view` makes one."""
        self.scene, self.robot, self.server, self.host, self.port = scene, robot, server, host, port
        self._frames: dict[str, Any] = {}
        self._links: dict[str, Any] = {}
        self._mujoco = mujoco_module()
        self._world = build_model(scene, robot, detailed=False)
        self._data = self._mujoco.MjData(self._world.model)
        self._fill()
        self.show(scene)

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{self.host}:{self.port}"

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving; harmless when done twice."""
        if self.server is not None:
            _stop(self.server)
            self.server = None

    def show(self, scene: Scene, q: ArrayLike | None = None, width_m: float = 0.08) -> None:
        """Move everything to where it is in a scene of the same objects.

        Args:
            scene: The scene.
            q: (n,) joint angles [rad]; home by default.
            width_m: Opening between the fingers [m].

        Raises:
            UnknownName: An object is missing in the scene.
        """
        model, data = self._world.model, self._data
        for name, handle in self._frames.items():
            T = scene[name].T_world_object
            handle.position, handle.wxyz = T[:3, 3], quat_wxyz(T)
            set_pose(model, data, name, T)
        angles = self.robot.home if q is None else np.asarray(q, dtype=np.float64)
        n = len(self.robot.home)
        mine = [j for j in range(model.njnt) if model.joint(j).name.removesuffix("/free") not in self._frames]
        for number, joint in enumerate(mine):
            data.qpos[model.jnt_qposadr[joint]] = angles[number] if number < n else width_m / 2
        self._mujoco.mj_kinematics(model, data)
        for name, handle in self._links.items():
            body = data.body(name)
            handle.position, handle.wxyz = body.xpos, body.xquat

    def mark(self, command: GraspCommand, name: str = "grasp") -> None:
        """Draw a grasp: its frame, and the straight last stretch to it."""
        T, before = command.T_world_grasp, command.T_world_pregrasp[:3, 3]
        self.server.scene.add_frame(
            f"/{name}", axes_length=0.05, axes_radius=0.0015, position=T[:3, 3], wxyz=quat_wxyz(T)
        )
        points = np.array([[before, T[:3, 3]]], dtype=np.float32)
        self.server.scene.add_line_segments(f"/{name}/way", points=points, colors=(255, 120, 0), line_width=3.0)

    def _fill(self) -> None:
        draw = self.server.scene
        draw.set_up_direction("+z")
        table = self.scene.table
        draw.add_box(
            "/table",
            color=(200, 185, 165),
            dimensions=(table.x_m[1] - table.x_m[0], table.y_m[1] - table.y_m[0], table.thickness_m),
            position=(sum(table.x_m) / 2, sum(table.y_m) / 2, -table.thickness_m / 2),
        )
        for placed in self.scene.objects:
            self._frames[placed.name] = draw.add_frame(f"/objects/{placed.name}", show_axes=False)
            for number, solid in enumerate(placed.model.solids):
                self._solid(f"/objects/{placed.name}/{number}", solid)
        self._robot()

    def _solid(self, name: str, solid: Solid) -> None:
        mesh = _mesh(solid)
        self.server.scene.add_mesh_simple(
            name,
            vertices=np.asarray(mesh.vertices, dtype=np.float32),
            faces=np.asarray(mesh.faces, dtype=np.uint32),
            color=tuple(round(255 * float(c)) for c in solid.rgba[:3]),
            opacity=float(solid.rgba[3]) if solid.rgba[3] < 1 else None,
            flat_shading=solid.kind is SolidKind.BOX,
            position=solid.T_object_solid[:3, 3],
            wxyz=quat_wxyz(solid.T_object_solid),
        )

    def _robot(self) -> None:
        """The links' hulls, each under a frame that follows its body."""
        model, mesh_type = self._world.model, self._mujoco.mjtGeom.mjGEOM_MESH
        for number in range(model.ngeom):
            body = model.body(int(model.geom_bodyid[number])).name
            if model.geom_type[number] != mesh_type or body in self._frames:
                continue
            if body not in self._links:
                self._links[body] = self.server.scene.add_frame(f"/robot/{body}", show_axes=False)
            mesh = int(model.geom_dataid[number])
            start, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
            first, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
            self.server.scene.add_mesh_simple(
                f"/robot/{body}/{number}",
                vertices=np.asarray(model.mesh_vert[start : start + count], dtype=np.float32),
                faces=np.asarray(model.mesh_face[first : first + faces], dtype=np.uint32),
                color=(225, 227, 230),
                position=model.geom_pos[number],
                wxyz=model.geom_quat[number],
            )


def view(scene: Scene, robot: Robot, host: str = "127.0.0.1", port: int = 8080) -> View:
    """Serve a scene to the browsers of this machine.

    Args:
        scene: What to show.
        robot: The robot in it.
        host: Where to listen: this machine alone.
        port: On which port.

    Raises:
        MissingExtra: viser or MuJoCo is not installed.
        InputError: The host is another, or the port is taken.
    """
    if host not in LOCAL:
        raise InputError(f"the view is served to this machine alone, not on {host!r}", hint="leave the host out")
    if not 1 <= port <= 65535:
        raise InputError(f"the port is {port}; it must be from 1 to 65535")
    if any(importlib.util.find_spec(name) is None for name in ("viser", "trimesh")):
        raise MissingExtra("the view in the browser", "viser")
    with socket.socket(socket.AF_INET6 if host == "::1" else socket.AF_INET) as probe:
        try:
            probe.bind((host, port))  # viser would quietly take another
        except OSError as error:
            raise InputError(f"port {port} is taken: {error.strerror}", hint="name another with --port") from error
    import viser

    with contextlib.redirect_stdout(io.StringIO()):  # some versions announce themselves there whatever they are told
        server = viser.ViserServer(host=host, port=port, verbose=False)
    try:
        return View(scene, robot, server, host, port)
    except BaseException:
        _stop(server)
        raise


def _stop(server: Any) -> None:
    """Stop a server and free its port: viser leaves its event loop, and the sockets in it, to the garbage collector."""
    loop = getattr(getattr(server, "_websock_server", None), "_background_event_loop", None)
    server.stop()
    if loop is None:
        return
    for _ in range(100):
        if not loop.is_running():
            loop.close()
            return
        time.sleep(0.02)


def _mesh(solid: Solid) -> Any:
    import trimesh

    size = solid.size
    match solid.kind:
        case SolidKind.BOX:
            return trimesh.creation.box(2 * size)
        case SolidKind.CYLINDER:
            return trimesh.creation.cylinder(radius=size[0], height=2 * size[1], sections=48)
        case SolidKind.SPHERE:
            return trimesh.creation.icosphere(subdivisions=3, radius=size[0])
        case SolidKind.ELLIPSOID:
            mesh = trimesh.creation.icosphere(subdivisions=3, radius=1.0)
            mesh.apply_scale(size)
            return mesh
        case SolidKind.CAPSULE:
            return trimesh.creation.capsule(height=2 * size[1], radius=size[0])
