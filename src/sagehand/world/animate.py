"""Tries as short films: of the physics as it runs, and of an analytic path.

The physics is filmed by a :class:`Recorder` that an executor calls as ``watch(data, model, t)``. The analytic executor moves
nothing, so :func:`film_path` moves the hand along the path that it judged, and the object with it where it was lifted.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sagehand.world.film import GREEN, RED, WHITE, animate, check_suffix
from sagehand.world.frames import Pose, invert, pose
from sagehand.world.robot.description import Robot
from sagehand.world.scene import Camera, Scene

if TYPE_CHECKING:
    from sagehand.world.render import SceneRenderer
    from sagehand.world.robot.kinematics import Kinematics
    from sagehand.world.tries import TryResult

__all__ = ["Recorder", "animate", "camera_for", "caption", "check_suffix", "film_path", "verdict"]

Picture = NDArray[np.uint8]
Angles = NDArray[np.float64]

STRIP = 22
"""Height of the strip with words under a picture [px]."""


def camera_for(scene: Scene, target: str, width: int = 480, height: int = 360) -> Camera:
    """A camera close to an object, from the side and above, that also sees it lifted.

    Raises:
        UnknownName: The scene has no such object.
    """
    place = scene[target].T_world_object[:3, 3]
    tall = float(scene[target].model.bounds_m[1][2])
    eye = (float(place[0]) + 0.50, float(place[1]) - 0.42, 0.34 + tall)
    return Camera(eye, (float(place[0]), float(place[1]), 0.10 + tall / 2), 42.0, width, height)


def caption(picture: Picture, left: str, right: str = "", good: bool | None = None) -> Picture:
    """(H + 22, W, 3) the picture with a strip of words under it; the right ones green or red by ``good``."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = picture.shape[:2]
    sheet = Image.new("RGB", (width, height + STRIP), (32, 36, 42))
    sheet.paste(Image.fromarray(picture), (0, 0))
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=12)
    draw.text((8, height + 4), left, font=font, fill=WHITE)
    colour = WHITE if good is None else GREEN if good else RED
    draw.text((width - 8 - draw.textlength(right, font=font), height + 4), right, font=font, fill=colour)
    return np.asarray(sheet)


def verdict(result: TryResult) -> tuple[str, bool]:
    """What became of a try in a word or two, and whether that is good."""
    truth = result.attempt.truth
    if truth.success:
        return "held", True
    words = [str(truth.failure or "failed").replace("_", " "), *([str(truth.terminal)] if truth.terminal else [])]
    return ", ".join(words), False


class Recorder:
    """Films the physics: hand it to ``PhysicsExecutor(watch=recorder)``; ``close`` it, or use it as a context manager."""

    def __init__(
        self,
        scene: Scene,
        robot: Robot,
        target: str,
        size: tuple[int, int] = (480, 360),
        every: float = 1 / 20,
        camera: Camera | None = None,
        shadows: bool = True,
    ) -> None:
        """Open a renderer, which holds a GL context until :meth:`close`.

        Args:
            scene: The scene as it is at first.
            robot: The robot.
            target: Name of the object that the camera stands by.
            size: Columns and rows [px].
            every: Simulated time from frame to frame [s].
            camera: Another camera; ``size`` does not count then.
            shadows: Whether there are shadows; they take more than half of the time.

        Raises:
            MissingExtra: MuJoCo or the robot's model is not installed.
            SettingsError: MuJoCo finds no GL driver.
        """
        self.frames: list[Picture] = []
        self.target, self.every = target, every
        self._next = -math.inf
        self._renderer = _renderer(scene, robot, camera or camera_for(scene, target, *size), shadows)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the renderer's GL context; harmless when done twice. The frames stay."""
        self._renderer.close()

    def __call__(self, data: Any, model: Any, t: float) -> None:
        """Take a frame if it is time for one: ``data`` and ``model`` are MuJoCo's, ``t`` the simulated time [s]."""
        if t < self._next - 1e-9:
            return
        # on a grid of its own: the executor may call at another pace
        self._next = (math.floor(t / self.every + 1e-6) + 1) * self.every
        opening, force = _grip(data, model, self.target)
        words = f"{t:4.1f} s   opening {opening * 1000:3.0f} mm   force {force:4.1f} N"
        self.frames.append(caption(self._renderer.picture(data), words))

    def finish(self, result: TryResult, seconds: float = 1.5) -> list[Picture]:
        """All frames, and the last one once more with what became of the try, for so many seconds."""
        if not self.frames:  # it ended before anything moved
            self.frames.append(caption(self._renderer.picture(result.scene), ""))
        words, good = verdict(result)
        last = caption(self.frames[-1][:-STRIP], f"{result.target}, {result.executor}", words, good)
        self.frames += [last] * max(1, round(seconds / self.every))
        return self.frames


def film_path(
    result: TryResult, robot: Robot, size: tuple[int, int] = (480, 360), shadows: bool = True
) -> list[Picture]:
    """Frames of a try as it was commanded: from home to before the grasp, in, closed, up; the verdict at the end.

    Nothing is simulated: the object goes with the hand where the executor says that it was lifted, and stays where it is else.
    """
    from sagehand.world.robot.kinematics import Kinematics

    command, seen, truth = result.command, result.attempt.observation, result.attempt.truth
    target = result.scene[result.target]
    closed = min(seen.finger_width_m if seen.contact else command.width_m, command.width_m)
    taken = truth.lifted is not None or truth.success
    frames: list[Picture] = []
    words, good = verdict(result)
    with _renderer(result.scene, robot, camera_for(result.scene, result.target, *size), shadows) as renderer:

        def shoot(scene: Scene, q: NDArray[np.float64], width: float, phase: str) -> None:
            text = f"{phase}   opening {width * 1000:3.0f} mm"
            frames.append(caption(renderer.picture(scene, q, width), text))

        kinematics = Kinematics(robot)
        at_grasp = kinematics.inverse(command.T_world_grasp)
        if at_grasp.q is None:
            shoot(result.scene, robot.home, command.width_m, "no way there")
        else:
            before = _joint_line(kinematics, robot, command.T_world_pregrasp, at_grasp.q)
            for q in before:
                shoot(result.scene, q, command.width_m, "before the grasp")
            way_in = _tcp_line(kinematics, before[-1], command.T_world_pregrasp, command.T_world_grasp, 10)
            for q in way_in:
                shoot(result.scene, q, command.width_m, "approach")
            there = way_in[-1] if way_in else before[-1]
            for share in np.linspace(0, 1, 6):
                shoot(result.scene, there, command.width_m + share * (closed - command.width_m), "close")
            up = pose((0, 0, command.lift_m)) @ command.T_world_grasp
            held = invert(command.T_world_grasp) @ target.T_world_object
            for q in _tcp_line(kinematics, there, command.T_world_grasp, up, 14):
                scene = result.scene
                if taken:
                    moved = target.at(kinematics.forward(q) @ held)
                    scene = scene.with_objects(moved if o.name == target.name else o for o in scene.objects)
                shoot(scene, q, closed, "lift")
    last = caption(frames[-1][:-STRIP], f"{result.target}, {result.executor}", words, good)
    return frames + [last] * 30


def _renderer(scene: Scene, robot: Robot, camera: Camera, shadows: bool) -> SceneRenderer:
    from sagehand.world.render import SceneRenderer

    return SceneRenderer(replace(scene, camera=camera), robot, shadows=shadows)


def _joint_line(kinematics: Kinematics, robot: Robot, T_before: Pose, q_near: Angles) -> list[Angles]:
    """From home to before the grasp, in joint angles, smoothly."""
    q = kinematics.inverse(T_before, seed=q_near).q
    shares = [s * s * (3 - 2 * s) for s in np.linspace(0, 1, 16)]
    return [robot.home + s * ((q if q is not None else q_near) - robot.home) for s in shares]


def _tcp_line(kinematics: Kinematics, q: Angles, T_from: Pose, T_to: Pose, steps: int) -> list[Angles]:
    """Joint angles along a straight line; where the arm cannot follow, it ends."""
    line: list[Angles] = []
    for share in np.linspace(0, 1, steps + 1)[1:]:
        T = T_to.copy()
        T[:3, 3] = (1 - share) * T_from[:3, 3] + share * T_to[:3, 3]
        answer = kinematics.inverse(T, seed=line[-1] if line else q)
        if answer.q is None:
            break
        line.append(answer.q)
    return line


def _grip(data: Any, model: Any, target: str) -> tuple[float, float]:
    """Opening between the fingers [m], and the mean normal force of the pads on the target [N]."""
    import mujoco

    fingers = [n for n in range(model.njnt) if model.jnt_type[n] == mujoco.mjtJoint.mjJNT_SLIDE]
    opening = sum(float(data.qpos[model.jnt_qposadr[n]]) for n in fingers)
    pads = [g for g in range(model.ngeom) if model.geom(g).name.startswith("hand/pad")]
    body, force, wrench = model.body(target).id, 0.0, np.zeros(6)
    for number in range(data.ncon):
        pair = [int(g) for g in data.contact[number].geom]
        if any(g in pads for g in pair) and any(model.geom_bodyid[g] == body for g in pair):
            mujoco.mj_contactForce(model, data, number, wrench)
            force += float(wrench[0]) / max(len(pads), 1)
    return opening, force
