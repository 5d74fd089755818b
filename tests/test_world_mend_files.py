"""docs/world-files.md: its examples load and are used, and its tables hold every field that the code reads, and no other."""

from __future__ import annotations

import math
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml

from sagehand.errors import InputError
from sagehand.world.grasp import Grasp, GraspType
from sagehand.world.objects.load import load_spec, resolve
from sagehand.world.objects.model import Affordance, Turn
from sagehand.world.objects.spec import (
    PARTS,
    CavitySpec,
    Constant,
    InstanceSpec,
    ObjectSpec,
    Part,
    RegionSpec,
    Repeat,
    Size,
    Split,
)
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.robot.robot_file import OPTIONAL, ROBOT_FIELDS
from sagehand.world.scene import CAMERA, RESERVED
from sagehand.world.scene_file import CAMERA_FIELDS, OBJECT_FIELDS, SCENE_FIELDS
from sagehand.world.scenes import load_scene

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "world-files.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))
UNITS = {
    "rad_s": "rad/s",
    "m_s": "m/s",
    "px": "px",
    "kg": "kg",
    "deg": "°",
    "rad": "rad",
    "nm": "Nm",
    "m": "m",
    "n": "N",
}


def tables() -> dict[str, dict[str, tuple[str, str, str]]]:
    """Name of each table → field → unit, what if left out, meaning."""
    found = {}
    for name, table in re.findall(r"<!-- fields: ([\w ]+) -->\n\n((?:\|.*\n)+)", PAGE):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()[2:]]
        found[name] = {row[0].strip("`"): (row[1], row[2], row[3]) for row in rows}
        assert len(found[name]) == len(rows), name
    return found


def needed(*classes: Any) -> dict[str, bool]:
    """Field → whether it must be there."""
    return {f.name: f.default is MISSING and f.default_factory is MISSING for cls in classes for f in fields(cls)}


def code() -> dict[str, dict[str, bool]]:
    common = needed(Part)
    own = {k: v for cls in PARTS.values() for k, v in needed(cls).items() if k not in common}
    shape = own.pop("shape")
    whole = {k: v for k, v in needed(ObjectSpec).items() if k != "shapes"}
    return {
        "object": whole,
        "constant": needed(Constant, Size),
        "part": common | {"shape": shape},
        "box cylinder sphere ellipsoid capsule shell": own,
        "repeat": needed(Repeat),
        "region": needed(RegionSpec),
        "cavity": needed(CavitySpec),
        "instance": needed(InstanceSpec),
        "scene": {name: name == "objects" for name in SCENE_FIELDS},
        "placed": {name: name == "object" for name in OBJECT_FIELDS},
        "camera": dict.fromkeys(CAMERA_FIELDS, False),
        **{
            f"robot {block}".strip(): {name: not (block == "" and name in OPTIONAL) for name in names}
            for block, names in ROBOT_FIELDS.items()
        },
    }


def test_the_tables_are_those_of_the_code() -> None:
    assert set(tables()) == set(code())
    assert set(PARTS) == {"box", "cylinder", "sphere", "ellipsoid", "capsule", "shell"}


@pytest.mark.parametrize("name", code())
def test_a_table_holds_every_field_with_its_unit_and_whether_it_is_needed(name: str) -> None:
    told = tables()[name]
    assert {field: row[1] == "needed" for field, row in told.items()} == code()[name]
    for field, (unit, _, meaning) in told.items():
        assert len(meaning) > 3, field
        suffix = next((u for u in UNITS if field.endswith(f"_{u}")), None)
        if suffix is not None:
            assert unit == UNITS[suffix], field
        else:
            assert unit not in UNITS.values(), f"{field} has a unit that its name does not say"


def test_every_choice_is_named() -> None:
    choices = (*Affordance, *GraspType, *Turn, *get_args(Split), *PARTS, *RESERVED, "frankik", "numeric")
    assert [c for c in choices if f"`{c}`" not in PAGE] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_examples_say_all_blocks(folder: Path) -> None:
    assert set(EXAMPLES) == {"my-mug.yaml", "my-scene.yaml", "my-robot.yaml"}
    docs = {name: yaml.safe_load(text) for name, text in EXAMPLES.items()}
    assert set(docs["my-mug.yaml"]) == set(code()["object"]) - {"rolling_friction_m"}
    assert set(docs["my-scene.yaml"]) == set(SCENE_FIELDS)
    assert {key for row in docs["my-scene.yaml"]["objects"] for key in row} == set(OBJECT_FIELDS)
    assert set(docs["my-scene.yaml"]["camera"]) == set(CAMERA_FIELDS)
    assert set(docs["my-robot.yaml"]) == set(ROBOT_FIELDS[""])


def test_the_object_is_as_it_says(folder: Path) -> None:
    path = str(folder / "my-mug.yaml")
    mug, small = resolve(path), resolve(f"{path}/small")
    np.testing.assert_allclose(mug.size_m, load_spec(path).size_m.value, atol=0.002)
    np.testing.assert_allclose(small.size_m, 0.7 * mug.size_m)
    assert small.mass_kg == pytest.approx(0.7**3 * 0.32)
    assert resolve(f"{path}/glazed").friction == 0.3
    assert mug.cavity is not None
    # the cavity's radius is that of equal volume: of a cone's frustum, here
    bottom, top = 0.040 + 0.005 * 0.006 / 0.095 - 0.005, 0.045 - 0.005
    assert mug.cavity.radius_m**2 == pytest.approx((bottom**2 + bottom * top + top**2) / 3, rel=0.01)


def test_the_scene_is_as_it_says(folder: Path) -> None:
    for seed in range(3):
        scene = load_scene(str(folder / "my-scene.yaml"), seed)
        assert [o.name for o in scene.objects] == ["mug", "bottle", "box", "dice", "ball"]
        np.testing.assert_allclose(scene["mug"].T_world_object[:2, 3], (0.55, 0.1))
        assert scene["dice"].T_world_object[2, 3] == pytest.approx(scene["box"].model.size_m[2])
        assert (scene.camera.fovy_deg, scene.camera.eye_m) == (50, (1.1, 0.2, 0.7))
    shown = tables()["camera"]
    told = [yaml.safe_load(row[1]) for row in shown.values()]
    assert told == [list(CAMERA.eye_m), list(CAMERA.look_at_m), CAMERA.fovy_deg, [CAMERA.width, CAMERA.height]]


def test_the_robot_takes_the_mug_by_its_handle(folder: Path) -> None:
    pytest.importorskip("frankik")
    robot, panda = load_robot(str(folder / "my-robot.yaml")), load_robot()
    assert (robot.widest_m, robot.force_n) == (pytest.approx(0.058), (0.0, 20.0))
    np.testing.assert_allclose(robot.dh, panda.dh)
    arm = Kinematics(robot)
    mug = load_scene(str(folder / "my-scene.yaml"), 0)["mug"]
    # the region's frame turned about its y: the approach goes against its z
    T = mug.T_world_object @ mug.model.region("handle").T_object_region @ np.diag([-1.0, 1.0, -1.0, 1.0])
    answer = arm.inverse(T)
    assert answer.q is not None
    np.testing.assert_allclose(arm.forward(answer.q), T, atol=2e-4)


def test_robot_and_scene_compile_together(folder: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    pytest.importorskip("dm_robotics.panda")
    from sagehand.world.model import build_model

    scene = load_scene(str(folder / "my-scene.yaml"), 0)
    world = build_model(scene, load_robot(str(folder / "my-robot.yaml")))
    data = mujoco.MjData(world.model)
    mujoco.mj_forward(world.model, data)
    for placed in scene.objects:
        assert world.model.body(placed.name).subtreemass[0] == pytest.approx(placed.mass_kg)
        np.testing.assert_allclose(data.body(placed.name).xpos, placed.T_world_object[:3, 3], atol=1e-9)


@pytest.mark.parametrize(
    ("field", "value"), [("force_n", math.nan), ("width_m", math.inf), ("position_m", [0.0, math.nan, 0.0])]
)
def test_a_grasp_that_is_not_finite_names_the_field_alone(field: str, value: Any) -> None:
    good = Grasp((0, 0, 0), (0, 0, 0, 1), 0.05, 10.0).to_dict()
    with pytest.raises(InputError, match=f"^{field} is .*, which is not finite") as caught:
        Grasp.from_dict(good | {field: value})
    assert "Grasp(" not in str(caught.value)
