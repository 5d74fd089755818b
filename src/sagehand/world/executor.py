"""The seam between a plan and the world it is tried in: commands in, what the robot noticed and what was true out.

What the robot notices (:class:`Observation`) and what was true (:class:`Truth`) never share a type. A planner is handed a
:class:`Hand`, whose methods give observations alone; :func:`blind` makes one of a trial and keeps the truths for the scorer
(GRASPING §7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from sagehand.errors import InputError
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import Pose, is_pose
from sagehand.world.grasp import GraspCommand
from sagehand.world.noise import ExecutionNoise
from sagehand.world.quality import Quality
from sagehand.world.scene import Scene

__all__ = ["Attempt", "Executor", "Hand", "Observation", "Put", "PutCommand", "PutTruth", "Trial", "Truth", "blind"]


@dataclass(frozen=True)
class Observation:
    """What a robot notices of one grasp: from its joints, its fingers, its wrist and its camera. Nothing else.

    Attributes:
        reached: The arm came to the commanded pose.
        ik_error_m: How far the best joint angles within the limits leave the TCP from where it should be [m].
        ik_error_rad: And by what angle [rad].
        touched: The arm met something before it was there (a guarded motion stopped).
        touched_short_m: How much of the way was left then [m]; 0 if it met nothing.
        finger_width_m: Between the fingers when closed [m].
        effort_n: Force that the fingers measured then [N].
        contact: Something was between the fingers when closed.
        lift_width_m: Between the fingers after the lift [m].
        hold_width_m: And at the end of holding [m].
        lifted_in_view: The camera saw the object off the table after the lift.
        held_in_view: And in the hand at the end.
        clock_s: Time it took [s].
    """

    reached: bool
    ik_error_m: float
    ik_error_rad: float
    touched: bool = False
    touched_short_m: float = 0.0
    finger_width_m: float = 0.0
    effort_n: float = 0.0
    contact: bool = False
    lift_width_m: float = 0.0
    hold_width_m: float = 0.0
    lifted_in_view: bool = False
    held_in_view: bool = False
    clock_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Truth:
    """What was true of one grasp; for scoring alone.

    Attributes:
        success: The target was lifted, held for 2 s and shaken, whole, and nothing else came to harm.
        failure: Why not, if not.
        terminal: What cannot be undone, if anything.
        why: One sentence for a person.
        quality: The seven factors, where the executor computes them.
        required_n: Normal force of each finger that the lift needs by statics [N].
        applied_n: Largest normal force that a finger put on the target [N].
        slip_m: How far the target moved in the hand from the closing to the end [m].
        turn_rad: And how far it turned [rad].
        lifted: Name of what is in the hand at the end.
        neighbours_m: Name of another object → how far it was moved [m], where more than 5 mm.
        details: What else the executor knows, plain data.
    """

    success: bool
    failure: Failure | None = None
    terminal: Terminal | None = None
    why: str = ""
    quality: Quality | None = None
    required_n: float | None = None
    applied_n: float = 0.0
    slip_m: float = 0.0
    turn_rad: float = 0.0
    lifted: str | None = None
    neighbours_m: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """One grasp: what the robot noticed, and what was true."""

    observation: Observation
    truth: Truth


@dataclass(frozen=True, eq=False)
class PutCommand:
    """Put down what is in the hand.

    Attributes:
        T_world_grasp: (4, 4) where the TCP is to be when the fingers open [m].
        retreat_m: How far the hand backs off afterwards [m].
        speed_scale: Share of the usual speed, in (0, 1].
    """

    T_world_grasp: Pose
    retreat_m: float = 0.10
    speed_scale: float = 1.0

    def __post_init__(self) -> None:
        if not is_pose(self.T_world_grasp, 1e-4):
            raise InputError("T_world_grasp is no rigid pose", hint="it must be (4, 4), finite, orthonormal")
        if not 0 <= self.retreat_m <= 1:
            raise InputError(f"retreat_m is {self.retreat_m}; it must be from 0 to 1")
        if not 0 < self.speed_scale <= 1:
            raise InputError(f"speed_scale is {self.speed_scale}; it must be above 0 and at most 1")


@dataclass(frozen=True, eq=False)
class PutTruth:
    """What was true of putting down.

    Attributes:
        success: It stands by itself, whole, within 20 mm and 15° of where the hand let go of it, upright as it was held.
        T_world_object: (4, 4) where it came to rest [m].
        off_m: How far that is from where it would have been had it stayed in the hand as it was grasped [m].
        tilt_rad: Between its z and the vertical [rad].
        terminal: What cannot be undone, if anything.
        why: One sentence for a person.
    """

    success: bool
    T_world_object: Pose
    off_m: float
    tilt_rad: float
    terminal: Terminal | None = None
    why: str = ""


@dataclass(frozen=True)
class Put:
    """One putting down: what the robot noticed, and what was true."""

    observation: Observation
    truth: PutTruth


class Hand(Protocol):
    """What a planner may hold: commands in, observations out."""

    def grasp(self, command: GraspCommand) -> Observation:
        """Carry out a grasp: approach, close, lift, hold, shake."""
        ...

    def put(self, command: PutCommand) -> Observation:
        """Put down what is in the hand."""
        ...


@runtime_checkable
class Trial(Protocol):
    """One scene in which grasps are tried one after the other; each leaves the world as it left it."""

    @property
    def scene(self) -> Scene:
        """How things are now; for scoring alone."""
        ...

    @property
    def held(self) -> str | None:
        """Name of what is in the hand; for scoring alone."""
        ...

    def grasp(self, command: GraspCommand) -> Attempt:
        """Carry out a grasp: approach, close, lift, hold, shake. What is not held at the end stays where it fell."""
        ...

    def put(self, command: PutCommand) -> Put:
        """Put down what is in the hand.

        Raises:
            InputError: Nothing is in the hand.
        """
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Executor(Protocol):
    """Where grasps are tried."""

    @property
    def name(self) -> str:
        """As in "analytic"."""
        ...

    def start(self, scene: Scene, noise: ExecutionNoise | None = None) -> Trial:
        """Begin a trial in a scene; noise moves each motion, none by default."""
        ...


def blind(trial: Trial) -> tuple[Hand, list[Attempt | Put]]:
    """The hand to give to a planner, and the list that fills with what was true, for the scorer.

    The hand has no attribute but its methods: what it prints as, and what it holds, tell nothing of the trial.
    """
    kept: list[Attempt | Put] = []

    class BlindHand:  # the trial and the truths are the methods' own, none of the object's
        __slots__ = ()

        def grasp(self, command: GraspCommand) -> Observation:
            attempt = trial.grasp(command)
            kept.append(attempt)
            return attempt.observation

        def put(self, command: PutCommand) -> Observation:
            put = trial.put(command)
            kept.append(put)
            return put.observation

        def __repr__(self) -> str:
            return "<a hand: grasp, put>"

    return BlindHand(), kept
