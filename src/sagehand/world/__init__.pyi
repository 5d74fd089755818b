from sagehand.world.agree.run import run_agreement
from sagehand.world.analytic.executor import AnalyticExecutor
from sagehand.world.antipodal import antipodal_grasps
from sagehand.world.executor import PutCommand, blind
from sagehand.world.grasp import Grasp, GraspCommand
from sagehand.world.natural import grasp_for
from sagehand.world.objects.load import load_object, object_names
from sagehand.world.physics.executor import PhysicsExecutor
from sagehand.world.robot.description import load_robot
from sagehand.world.scene import Placed, Scene
from sagehand.world.scenes import load_scene
from sagehand.world.scripted import ScriptedExecutor
from sagehand.world.tries import try_grasp

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
