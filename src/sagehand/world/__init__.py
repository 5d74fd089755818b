"""Where a grasp is tried: objects, the robot, an analytic simulator, physics, and pictures of it."""

from __future__ import annotations

import importlib
from typing import Any

# types stand in __init__.pyi: imported here, also for types alone, they would count as code that answers depend on
_HOME = {
    "AnalyticExecutor": "sagehand.world.analytic.executor",
    "Grasp": "sagehand.world.grasp",
    "GraspCommand": "sagehand.world.grasp",
    "PhysicsExecutor": "sagehand.world.physics.executor",
    "Placed": "sagehand.world.scene",
    "PutCommand": "sagehand.world.executor",
    "Scene": "sagehand.world.scene",
    "ScriptedExecutor": "sagehand.world.scripted",
    "antipodal_grasps": "sagehand.world.antipodal",
    "blind": "sagehand.world.executor",
    "grasp_for": "sagehand.world.natural",
    "load_object": "sagehand.world.objects.load",
    "load_robot": "sagehand.world.robot.description",
    "load_scene": "sagehand.world.scenes",
    "object_names": "sagehand.world.objects.load",
    "run_agreement": "sagehand.world.agree.run",
    "try_grasp": "sagehand.world.tries",
}

__all__ = [
    "AnalyticExecutor",
    "Grasp",
    "GraspCommand",
    "PhysicsExecutor",
    "Placed",
    "PutCommand",
    "Scene",
    "ScriptedExecutor",
    "antipodal_grasps",
    "blind",
    "grasp_for",
    "load_object",
    "load_robot",
    "load_scene",
    "object_names",
    "run_agreement",
    "try_grasp",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562): importing any part of the world must stay quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'sagehand.world' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
