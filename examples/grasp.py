"""Grasp a cup by statics and in physics, and put it down elsewhere; `make world` sets up what it needs."""

# ruff: noqa: T201

import numpy as np

from sagehand.world import (
    AnalyticExecutor,
    PhysicsExecutor,
    Placed,
    PutCommand,
    Scene,
    antipodal_grasps,
    blind,
    load_object,
    load_robot,
    try_grasp,
)

T_world_cup = np.eye(4)  # upright on the table; the base of the robot is the origin, lengths are in metres
T_world_cup[:2, 3] = 0.5, 0.05
cup = load_object("cup")
scene = Scene((Placed("cup", cup, T_world_cup),))
grasp = antipodal_grasps(cup, T_world_cup, robot=load_robot(), limit=1)[0]
for executor in (AnalyticExecutor(), PhysicsExecutor()):
    print(executor.name, try_grasp(scene, "cup", grasp, executor).attempt.truth.why or "held")
with PhysicsExecutor().start(scene) as trial:
    hand, truths = blind(trial)  # a planner gets the hand alone: what it returns is what the robot could notice
    command = grasp.at(T_world_cup, "cup")
    print("noticed", hand.grasp(command))
    elsewhere = command.T_world_grasp.copy()
    elsewhere[1, 3] -= 0.10
    print("noticed", hand.put(PutCommand(elsewhere)))
    print("true", truths[-1].truth)
