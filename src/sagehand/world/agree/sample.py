"""The grasps that both executors are asked about, from good to hopeless: each object searched, put in reach, its grasps spoilt.

A sample is a function of its number, the seed, the list of objects and the robot alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sagehand.world.agree.place import at_rest, lone_scene, with_neighbour
from sagehand.world.agree.plan import Item, plan_items
from sagehand.world.agree.spoil import spoiled
from sagehand.world.frames import Pose, axis_rotation, pose, pose_of, quat_xyzw
from sagehand.world.grasp import Grasp, GraspCommand, GraspType
from sagehand.world.noise import stream
from sagehand.world.objects.model import ObjectModel
from sagehand.world.robot.description import Robot
from sagehand.world.scene import Placed, Scene

if TYPE_CHECKING:
    from sagehand.world.robot.kinematics import Kinematics

__all__ = ["Load", "Sample", "Sampler", "agreement_grasps", "required_force"]

_NEIGHBOUR_SHARE = 1 / 3
_TRIES = 12  # grasps of the search, at each of so many places, until one is in reach
_PLACES = 4
Load = Callable[[str], ObjectModel]
"""Gives an object by name."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One grasp in one scene.

    Attributes:
        item: Its number, object and kind.
        sub: What of the kind, as in "weak".
        places: Name in the scene → (object, pose (4, 4) [m], friction of its own or None); the target is "target".
        command: The command.
        reachable: The arm reaches the grasp that it was made from, and nothing is in the way but what may stand beside it.
        required_n: What the search's statics say that it needs [N]; None where the pads touch nothing.
    """

    item: Item
    sub: str
    places: Mapping[str, tuple[str, Pose, float | None]]
    command: GraspCommand
    reachable: bool
    required_n: float | None = None
    models: Mapping[str, ObjectModel] = field(default_factory=dict, repr=False)

    @property
    def scene(self) -> Scene:
        """The scene."""
        return Scene(tuple(Placed(name, self.models[name], T) for name, (_, T, _) in self.places.items()))

    def to_dict(self) -> dict[str, Any]:
        """As plain data, from which :meth:`from_dict` makes it again."""
        c = self.command
        return {
            "number": self.item.number,
            "object": self.item.object,
            "kind": self.item.kind,
            "turn": self.item.turn,
            "sub": self.sub,
            "places": {
                name: {"object": ref, **_pose_dict(T), **({} if mu is None else {"friction": mu})}
                for name, (ref, T, mu) in self.places.items()
            },
            "command": {
                "target": c.target,
                **_pose_dict(c.T_world_grasp),
                "width_m": c.width_m,
                "force_n": c.force_n,
                "type": str(c.type),
                "speed_scale": c.speed_scale,
                "pregrasp_m": c.pregrasp_m,
                "region": c.region,
                "lift_m": c.lift_m,
                "lift_acceleration": c.lift_acceleration,
            },
            "reachable": self.reachable,
            "required_n": self.required_n,
        }

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any], load: Load) -> Sample:
        """The sample of :meth:`to_dict`; ``load`` gives an object by name."""
        places = {
            name: (str(row["object"]), pose_of(row["position_m"], row["quat_xyzw"]), row.get("friction"))
            for name, row in doc["places"].items()
        }
        c = doc["command"]
        command = GraspCommand(
            c["target"],
            pose_of(c["position_m"], c["quat_xyzw"]),
            c["width_m"],
            c["force_n"],
            GraspType(c["type"]),
            c["speed_scale"],
            c["pregrasp_m"],
            c["region"],
            c["lift_m"],
            c["lift_acceleration"],
        )
        item = Item(doc["number"], doc["object"], doc["kind"], doc["turn"])
        models = {name: _with_friction(load(ref), mu) for name, (ref, _, mu) in places.items()}
        return cls(item, doc["sub"], places, command, doc["reachable"], doc["required_n"], models)


class Sampler:
    """Makes the samples of a study; searches each object once.

    Args:
        objects: "cup", "cup/small", …: targets and neighbours.
        seed: Root seed.
        robot: The robot.
        load: Gives an object by name.
    """

    def __init__(self, objects: Sequence[str], seed: int, robot: Robot, load: Load) -> None:
        self.objects, self.seed, self.robot, self.load = tuple(objects), seed, robot, load
        self._searched: dict[str, list[Grasp]] = {}
        self._rests: dict[str, Pose] = {}

    def sample(self, item: Item) -> Sample:
        """The sample of an item."""
        rng = stream(self.seed, "agree", "sample", item.number)
        model = self.load(item.object)
        scene, grasp, reachable = self._reachable(item, model, rng)
        T = scene["target"].T_world_object
        if item.kind == "natural":
            T_seen, sub = _seen(T, rng), grasp.region or ""
        else:
            T_seen, sub = T, "" if reachable else "unreached"
        needed = required_force(model, grasp, T, self.robot)
        if item.kind in ("good", "disturbed", "opening"):
            grasp = replace(grasp, force_n=_inside(model, needed, self.robot, rng))
        if item.kind in ("good", "natural"):
            friction, command = None, grasp.at(T_seen, "target")
        else:
            spoilt = spoiled(item.kind, item.turn, grasp.at(T, "target"), model, needed, self.robot, rng)
            sub, friction, command = spoilt.sub, spoilt.friction, spoilt.command
        places: dict[str, tuple[str, Pose, float | None]] = {"target": (item.object, T, friction)}
        models = {"target": _with_friction(model, friction)}
        if rng.random() < _NEIGHBOUR_SHARE:
            ref = self.objects[int(rng.integers(len(self.objects)))]
            beside = self.load(ref)
            if (T_beside := with_neighbour(scene["target"], beside, self._rest(ref, beside), rng)) is not None:
                places["neighbour"], models["neighbour"] = (ref, T_beside, None), beside
        return Sample(item, sub, places, command, reachable, needed if math.isfinite(needed) else None, models)

    def _reachable(self, item: Item, model: ObjectModel, rng: np.random.Generator) -> tuple[Scene, Grasp, bool]:
        """The object at a place, and a grasp that the arm carries out there with nothing beside it; False if none is found."""
        from sagehand.world.approach import plan_approach
        from sagehand.world.clearance import Clearance

        last: tuple[Scene, Grasp] | None = None
        for _ in range(_PLACES):
            scene = lone_scene(model, self._rest(item.object, model), rng)
            T = scene["target"].T_world_object
            clearance = Clearance(scene, self.robot)
            for grasp in self._candidates(item, model, T, rng):
                command = grasp.at(T, "target")
                last = scene, grasp
                if self._kinematics.inverse(command.T_world_grasp).q is None:
                    continue
                way = plan_approach(
                    self._kinematics,
                    clearance,
                    command.T_world_pregrasp,
                    command.T_world_grasp,
                    command.width_m,
                    ("target",),
                )
                if way.free:
                    return scene, grasp, True
            if item.kind == "natural" and last is not None:
                return *last, False  # what nature says of the region counts, in reach or not
        if last is None:
            scene = lone_scene(model, self._rest(item.object, model), rng)
            last = scene, _from_above(model, self.robot)
        return *last, False

    @cached_property
    def _kinematics(self) -> Kinematics:
        from sagehand.world.robot.kinematics import Kinematics

        return Kinematics(self.robot)

    def _rest(self, ref: str, model: ObjectModel) -> Pose:
        if ref not in self._rests:
            self._rests[ref] = at_rest(model, self.robot)
        return self._rests[ref]

    def _candidates(self, item: Item, model: ObjectModel, T: Pose, rng: np.random.Generator) -> list[Grasp]:
        if item.kind == "natural" and model.regions:
            from sagehand.world.natural import grasp_for

            names = sorted(model.regions)
            return [grasp_for(model, names[int(rng.integers(len(names)))], T, self.robot)]
        if item.object not in self._searched:
            from sagehand.world.antipodal import antipodal_grasps

            T_rest = self._rest(item.object, model)
            self._searched[item.object] = antipodal_grasps(model, T_rest, robot=self.robot, seed=self.seed)
        found = self._searched[item.object]
        return [found[i] for i in rng.permutation(len(found))[:_TRIES]]


def agreement_grasps(
    objects: Sequence[str] | None, n: int, seed: int, *, robot: Robot | None = None, load: Load | None = None
) -> list[Sample]:
    """The first ``n`` samples of a study.

    Args:
        objects: "cup", "cup/small", …; default: all that ship, with their instances.
        n: How many.
        seed: Root seed.
        robot: Default: the Panda.
        load: Gives an object by name; default: those that ship, and files.
    """
    from sagehand.world.agree.subjects import all_objects
    from sagehand.world.objects.load import resolve
    from sagehand.world.robot.description import load_robot

    names = all_objects() if objects is None else tuple(objects)
    sampler = Sampler(names, seed, robot or load_robot(), load or resolve)
    return [sampler.sample(item) for item in plan_items(names, range(n), seed)]


def required_force(model: ObjectModel, grasp: Grasp, T_world_object: Pose, robot: Robot) -> float:
    """What a grasp needs by the search's statics [N]; inf where the pads do not touch the object."""
    from sagehand.world.grip import grip, holding_force

    T = grasp.T_object_grasp[None]
    touched = grip(model, T, np.array([grasp.width_m]), robot)
    return float(holding_force(model, T, touched, T_world_object[2, :3])[0])


def _inside(model: ObjectModel, needed: float, robot: Robot, rng: np.random.Generator) -> float:
    """A force log-uniform in the window; where the window is empty, what is safe [N]."""
    high = min(model.f_safe_n, robot.force_n[1])
    low = min(max(1.1 * needed, 0.1), high) if math.isfinite(needed) else high
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _seen(T: Pose, rng: np.random.Generator) -> Pose:
    """The pose as it is seen: 3 mm to the sides, 4 mm in height, 3° of yaw (GRASPING §3)."""
    shift = rng.normal(0, (0.003, 0.003, 0.004))
    seen = T.copy()
    seen[:3, :3] = axis_rotation("z", rng.normal(0, math.radians(3)))[:3, :3] @ T[:3, :3]
    seen[:3, 3] += shift
    return seen


def _from_above(model: ObjectModel, robot: Robot) -> Grasp:
    """Straight down onto its middle, wide open: for what no antipodal grasp is found of."""
    low, high = model.bounds_m
    T = pose(((low[0] + high[0]) / 2, (low[1] + high[1]) / 2, max(high[2] - 0.02, 0.01)), np.diag([1.0, -1.0, -1.0]))
    return Grasp.from_pose(T, width_m=robot.width_m[1], force_n=20.0)


def _with_friction(model: ObjectModel, friction: float | None) -> ObjectModel:
    return model if friction is None else replace(model, friction=friction)


def _pose_dict(T: Pose) -> dict[str, Any]:
    return {"position_m": [float(v) for v in T[:3, 3]], "quat_xyzw": list(quat_xyzw(T))}
