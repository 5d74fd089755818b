"""The arm and the fingers under control: servos that follow timed joint angles, fingers that press with a force.

Each joint of the arm is a stiff spring towards its commanded angle within its torque limit, with the commanded rate fed
forward. A finger is a motor whose force falls with its speed: what stops it feels just the commanded force (GRASPING §9: as a
position servo every command gave the same force). The two are coupled one to one, as by the hand's belt.

That fall must be gentle while something is between the fingers. MuJoCo integrates it implicitly, which makes a finger of 0.1 kg
heavier by time step times slope, and the contact's solver does not know of it: at 60 N over 0.05 m/s that was 2.4 kg, contacts
were twenty times too soft, and the fingers swung open and shut on what they held with up to one and a half times the command.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.world.frames import Pose, invert, pose
from sagehand.world.model import mujoco_module, set_pose
from sagehand.world.physics.monitor import Pushes, Touches, force_on_robot, read_touches
from sagehand.world.physics.motion import Timed, still
from sagehand.world.physics.setup import DAMPING_RATIO, FINGER_DAMPING, FINGER_STIFFNESS, TIMESTEP, PhysicsModel
from sagehand.world.rules import GRIP_S, RAMP_S, STALL_S
from sagehand.world.scene import Scene

__all__ = ["SAMPLE_S", "TOUCH_N", "Cell", "Watch"]

Array = NDArray[np.float64]
Watch = Callable[[Any, Any, float], None]
"""Called with ``(data, model, time)`` thirty times a second of the simulation."""

SAMPLE_S = 0.010
"""How often contacts are read [s]."""
TOUCH_N = 3.0
"""With how much a finger closes before it has met anything [N]; the commanded force is laid on when both stand still."""
PRESS_DAMPING = 60.0
"""By how much a pressing finger's force falls with its speed at most [N s/m]: ``TOUCH_N`` over the Panda's finger speed; a weaker
force falls to nothing at that speed."""
FILTER_S = 0.010
"""Over how long a guarded motion averages what it feels, so that it is not stopped by a knock that lasts a thousandth of a
second [s] (O)."""
_STEPS = round(SAMPLE_S / TIMESTEP)
_FRAME_S = 1 / 30
_SHOWN = 20  # frames of a way through the air
_STALLED = 0.002  # a finger slower than this stands still [m/s]


class Cell:
    """Robot, table and objects in motion.

    Attributes:
        world: The compiled model and its indices.
        model: Its own copy of ``mujoco.MjModel``; the motors' modes are written in it.
        data: ``mujoco.MjData``.
        clock_s: Time simulated [s].
    """

    def __init__(self, world: PhysicsModel, scene: Scene, watch: Watch | None = None) -> None:
        """Put the objects of a scene in their places, the arm at home."""
        self._mj = mujoco_module()
        self.world = world
        self.model = copy.copy(world.model)
        self.data = self._mj.MjData(self.model)
        self.clock_s = 0.0
        self._watch, self._watched = watch, -1.0
        self._n = len(world.robot.home)
        self._T_hand_tcp = world.robot.T_hand_tcp
        self.reset(scene)

    # where things are

    @property
    def q(self) -> Array:
        """(n,) joint angles [rad]."""
        return np.array(self.data.qpos[self.world.arm_qpos])

    @property
    def width_m(self) -> float:
        """Between the fingers [m]."""
        return max(float(self.data.qpos[self.world.finger_qpos].sum()), 0.0)

    @property
    def T_world_tcp(self) -> Pose:
        """(4, 4) the TCP [m]."""
        hand = self.world.hand_body
        return pose(self.data.xpos[hand], self.data.xmat[hand].reshape(3, 3)) @ self._T_hand_tcp

    def T_world(self, name: str) -> Pose:
        """(4, 4) an object [m]."""
        body = self.world.object_body[name]
        return pose(self.data.xpos[body], self.data.xmat[body].reshape(3, 3))

    def T_tcp(self, name: str) -> Pose:
        """(4, 4) an object in the TCP's frame [m]."""
        return invert(self.T_world_tcp) @ self.T_world(name)

    def com(self, name: str) -> Array:
        """(3,) an object's centre of mass [m]."""
        return np.array(self.data.xipos[self.world.object_body[name]])

    def velocity(self, name: str) -> Array:
        """(3,) of an object's centre of mass [m/s]."""
        body, dof = self.world.object_body[name], self.world.object_dof[name]
        spin = self.data.xmat[body].reshape(3, 3) @ self.data.qvel[dof + 3 : dof + 6]
        lever = self.data.xipos[body] - self.data.xpos[body]
        return np.asarray(self.data.qvel[dof : dof + 3] + np.cross(spin, lever))

    def jacobian(self) -> Array:
        """(6, n) of the TCP in world axes [m/rad, rad/rad]."""
        linear, angular = np.zeros((3, self.model.nv)), np.zeros((3, self.model.nv))
        self._mj.mj_jac(self.model, self.data, linear, angular, self.T_world_tcp[:3, 3], self.world.hand_body)
        dof = self.world.arm_dof
        return np.vstack([linear[:, dof], angular[:, dof]])

    def touches(self) -> Touches:
        """The contacts of the last step."""
        return read_touches(self.world, self.data)

    @property
    def broke_down(self) -> bool:
        """Whether the simulation came to numbers that are none; MuJoCo then begins again from somewhere."""
        kinds = self._mj.mjtWarning
        bad = (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC)
        return any(self.data.warning[int(kind)].number for kind in bad)

    # what it does

    def reset(self, scene: Scene) -> None:
        """Put the objects of a scene in their places, the arm at home."""
        self._mj.mj_resetData(self.model, self.data)
        for placed in scene.objects:
            set_pose(self.model, self.data, placed.name, placed.T_world_object)
        self.place(self.world.robot.home, self.world.robot.width_m[1])

    def place(self, q: Array, width_m: float) -> None:
        """Set the arm at joint angles (n,), at rest and open, without moving there."""
        data, world = self.data, self.world
        data.qpos[world.arm_qpos] = q
        data.qvel[world.arm_dof] = 0
        data.qpos[world.finger_qpos] = width_m / 2
        data.qvel[world.finger_dof] = 0
        data.ctrl[: self._n] = q
        self.keep_width(width_m)
        self._mj.mj_forward(self.model, data)

    def show_way(self, q: Array) -> None:
        """Show who watches how the arm goes from where it is to joint angles (n,); nothing is met on this way."""
        if self._watch is None:
            return
        start, data = self.q, self.data
        for number in range(1, _SHOWN + 1):
            share = number / _SHOWN
            data.qpos[self.world.arm_qpos] = start + (q - start) * share * share * (3 - 2 * share)
            self._mj.mj_forward(self.model, data)
            self._watch(data, self.model, self.clock_s)

    def keep_width(self, width_m: float) -> None:
        """Let the fingers keep an opening; a hand at rest does not yield."""
        self._fingers(width_m / 2, FINGER_STIFFNESS, -FINGER_STIFFNESS, -FINGER_DAMPING)

    def drive_fingers(self, speed: float, force_n: float) -> None:
        """Let each finger move outwards at a speed [m/s], inwards if below 0, and press with a force [N] on what stops it.

        The motor's force falls with speed to nothing at this speed, as a motor's does: no control loop that could tremble.
        """
        self._fingers(math.copysign(force_n, speed), 1.0, 0.0, -force_n / abs(speed))

    def press_fingers(self, force_n: float) -> None:
        """Let each finger press inwards with a force [N] that hardly depends on its speed, on what it has met."""
        self._fingers(-force_n, 1.0, 0.0, -min(PRESS_DAMPING, force_n / self.world.robot.finger_speed))

    def run(
        self,
        motion: Timed,
        stop: Callable[[Touches], bool] | None = None,
        guard_n: float | None = None,
        weight_n: Array | None = None,
    ) -> bool:
        """Follow a motion until it ends, or is ended; a stopped arm is told to stay where it is.

        Args:
            motion: Joint angles in time.
            stop: Asked every 10 ms whether to end it.
            guard_n: End it as soon as the robot is pushed with more than this [N].
            weight_n: (3,) What it is pushed with to begin with, and does not count [N].

        Returns:
            Whether it was ended.
        """
        rows = motion.q + DAMPING_RATIO * motion.rate
        data, n = self.data, self._n
        step, model = self._mj.mj_step, self.model
        guard = None if guard_n is None else _Guard(self, guard_n, weight_n)
        pushes = Pushes(self.world) if stop is not None else None
        for number in range(0, len(rows), _STEPS):
            for row in rows[number : number + _STEPS]:
                data.ctrl[:n] = row
                step(model, data)
                if pushes is not None:
                    pushes.add(data)
                if guard is not None and guard.trips():
                    data.ctrl[:n] = self.q
                    self._tick(TIMESTEP)
                    return True
            self._tick(min(_STEPS, len(rows) - number) * TIMESTEP)
            if number + _STEPS >= len(rows):
                data.ctrl[:n] = motion.q[-1]
            if stop is not None and stop(read_touches(self.world, data, pushes)):
                data.ctrl[:n] = self.q
                return True
        return False

    def rest(self, seconds: float, stop: Callable[[Touches], bool] | None = None) -> bool:
        """Keep the arm where it is told to be."""
        return self.run(still(np.array(self.data.ctrl[: self._n]), seconds), stop)

    def give_way(self) -> None:
        """Let the arm stay where it was pushed to, instead of pressing back."""
        self.data.ctrl[: self._n] = self.q

    def close(self, force_n: float, speed: float, stop: Callable[[Touches], bool]) -> bool:
        """Close at a finger speed [m/s] until both fingers stand still, then lay the force [N] on; whether ``stop`` ended it."""
        touch = min(force_n, TOUCH_N)
        self.drive_fingers(-speed, touch)
        waited = stalled = 0.0
        longest = 2 * self.world.robot.width_m[1] / 2 / speed + 0.5
        while stalled < STALL_S and waited < longest:
            if self.rest(SAMPLE_S, stop):
                return True
            waited += SAMPLE_S
            slow = np.abs(self.data.qvel[self.world.finger_dof]).max() < min(_STALLED, speed / 2)
            stalled = stalled + SAMPLE_S if slow and waited > 2 * SAMPLE_S else 0.0
        steps = round(RAMP_S / SAMPLE_S)
        for number in range(1, steps + 1):
            self.press_fingers(touch + (force_n - touch) * number / steps)
            if self.rest(SAMPLE_S, stop):
                return True
        return self.rest(GRIP_S, stop)

    def settle(self, longest_s: float, look: Callable[[Touches], bool] | None = None, slow: float = 0.01) -> bool:
        """Wait until every object is slower than ``slow`` [m/s, and rad/s by a tenth]; whether it came to that."""
        waited = 0.0
        dofs = [self.data.qvel[a : a + 6] for a in self.world.object_dof.values()]
        calm = 0
        while waited < longest_s:
            self.rest(SAMPLE_S, look)
            waited += SAMPLE_S
            speed = max((max(np.abs(v[:3]).max(), np.abs(v[3:]).max() / 10) for v in dofs), default=0.0)
            calm = calm + 1 if speed < slow else 0
            if calm >= 5:
                return True
        return False

    def _fingers(self, target: float, gain: float, stiffness: float, damping: float) -> None:
        model = self.model
        for actuator in (self._n, self._n + 1):
            model.actuator_gainprm[actuator, 0] = gain
            model.actuator_biasprm[actuator, 1] = stiffness
            model.actuator_biasprm[actuator, 2] = damping
            self.data.ctrl[actuator] = target

    def _tick(self, seconds: float) -> None:
        self.clock_s += seconds
        if self._watch is not None and self.clock_s - self._watched >= _FRAME_S:
            self._watched = self.clock_s
            self._watch(self.data, self.model, self.clock_s)


class _Guard:
    """Whether the robot is pushed, asked at every step: while nothing touches it and no contact is new, without a look."""

    def __init__(self, cell: Cell, limit_n: float, weight_n: Array | None) -> None:
        self.cell, self.limit_n = cell, limit_n
        self.weight_n = np.zeros(3) if weight_n is None else weight_n
        self.calm = -1
        self.felt = self.weight_n

    def trips(self) -> bool:
        data = self.cell.data
        if data.ncon == self.calm:
            return False
        force = force_on_robot(self.cell.world, data)
        self.felt = self.felt + (force - self.felt) * (TIMESTEP / FILTER_S)
        self.calm = data.ncon if not force.any() and float(np.abs(self.felt).max()) < 0.1 else -1
        return float(np.linalg.norm(self.felt - self.weight_n)) > self.limit_n
