"""Scenes: those that ship, one's own from YAML, drawn poses, footprints; and what is told of a bad file."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import sagehand.world.objects.load as load_module
from sagehand.errors import InputError, UnknownName
from sagehand.world.footprints import footprint, footprint_gap
from sagehand.world.frames import axis_rotation, translation
from sagehand.world.scene import CAMERA, TABLE, Scene
from sagehand.world.scene_file import CAMERA_FIELDS, OBJECT_FIELDS, parse_scene
from sagehand.world.scenes import REACH_X_M, REACH_Y_M, load_scene, scene_names, scene_objects, scene_title, single


def gaps(scene: Scene) -> dict[tuple[str, str], float]:
    prints = {o.name: footprint(o.model, o.T_world_object) for o in scene.objects}
    names = list(prints)
    return {(a, b): footprint_gap(prints[a], prints[b]) for i, a in enumerate(names) for b in names[i + 1 :]}


@pytest.mark.parametrize("name", scene_names())
def test_every_scene_stands_on_the_table_without_overlaps(name: str) -> None:
    assert scene_title(name)
    for seed in (None, *range(25)):
        scene = load_scene(name, seed)
        assert [o.name for o in scene.objects] == scene_objects(name)
        on_another = {o.name for o in scene.objects if o.T_world_object[2, 3] > 0}
        assert on_another == ({"cube"} if name == "box-under-cube" else set())
        for (a, b), gap in gaps(scene).items():
            if not {a, b} & on_another:
                assert gap >= 0.05 - 1e-6, (seed, a, b)
        for placed in scene.objects:
            assert all(TABLE.holds(*corner) for corner in footprint(placed.model, placed.T_world_object))


def test_the_same_seed_draws_the_same_and_another_another() -> None:
    for name in ("clear-table", "cup-near-vase"):
        one, same, other = (load_scene(name, seed) for seed in (4, 4, 5))
        for a, b, c in zip(one.objects, same.objects, other.objects, strict=True):
            assert np.array_equal(a.T_world_object, b.T_world_object)
            assert not np.allclose(a.T_world_object, c.T_world_object)


def test_drawn_poses_fill_the_reach_evenly_and_yaw_all_round() -> None:
    poses = np.array([single("cube", seed).objects[0].T_world_object for seed in range(400)])
    yaw = np.arctan2(poses[:, 1, 0], poses[:, 0, 0])
    for values, (low, high) in ((poses[:, 0, 3], REACH_X_M), (poses[:, 1, 3], REACH_Y_M), (yaw, (-math.pi, math.pi))):
        assert values.min() >= low
        assert values.max() <= high
        # Kolmogorov's distance from uniform; 1.95 / sqrt(n) is passed once in a thousand
        share = np.sort((values - low) / (high - low))
        assert np.abs(share - (np.arange(400) + 0.5) / 400).max() < 1.95 / math.sqrt(400)


def test_one_object_more_moves_none_of_the_others(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("objects: [{object: cup}]")
    alone = load_scene(str(file), 3)["cup"].T_world_object
    file.write_text("objects: [{object: cup}, {object: phone, at_m: [0.3, -0.3]}]")
    both = load_scene(str(file), 3)["cup"].T_world_object
    assert np.array_equal(alone, both)


def test_neighbours_stand_at_the_gap_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("objects: [{object: cup}, {object: vase, beside: cup, gap_m: 0.037}]")
    for seed in range(10):
        assert gaps(load_scene(str(file), seed))["cup", "vase"] == pytest.approx(0.037, abs=1e-5)


def test_behind_is_farther_along_the_cameras_axis_and_hidden() -> None:
    """GRASPING §4: farther along u, lateral overlap at least 0.3."""
    for seed in range(10):
        scene = load_scene("ball-behind-box", seed)
        ball, box = (scene[n] for n in ("ball", "box"))
        u = np.array(scene.camera.look_at_m[:2]) - np.array(scene.camera.eye_m[:2])
        u = u / np.linalg.norm(u)
        across = np.array([-u[1], u[0]])
        centres = [o.T_world_object[:2, 3] for o in (ball, box)]
        assert (centres[0] - centres[1]) @ u > 0
        spans = [footprint(o.model, o.T_world_object) @ across for o in (ball, box)]
        shared = min(s.max() for s in spans) - max(s.min() for s in spans)
        assert shared / min(np.ptp(s) for s in spans) >= 0.3


def test_what_stands_on_another_touches_its_top() -> None:
    assert "rides along or falls" in scene_title("box-under-cube")  # taken by its side, the box lifts the cube with it
    scene = load_scene("box-under-cube", 2)
    top = scene["box"].model.bounds_m[1][2]
    assert scene["cube"].T_world_object[2, 3] == pytest.approx(top)
    assert np.allclose(scene["cube"].T_world_object[:2, 3], scene["box"].T_world_object[:2, 3])


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        """
camera: {eye_m: [1.0, 0.0, 0.6], size_px: [320, 240]}
objects:
  - {object: cup/small, name: mug, at_m: [0.5, 0.1], yaw_deg: 30, filled: 0.6}
  - {object: apple}
"""
    )
    scene = load_scene(str(file), 0)
    assert [o.name for o in scene.objects] == ["mug", "apple"]
    assert scene["mug"].filled == 0.6
    assert np.allclose(scene["mug"].T_world_object, translation(0.5, 0.1) @ axis_rotation("z", math.radians(30)))
    assert (scene.camera.width, scene.camera.height, scene.camera.eye_m) == (320, 240, (1.0, 0.0, 0.6))
    assert scene["mug"].model.size_m[2] < load_scene("cup")["cup"].model.size_m[2]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a scene holds a list of objects"),
        ("objects: []", "a scene holds a list of objects"),
        ("objects: [\n", "this is no YAML"),
        ("objects: [cup]", "objects[0]: names no object"),
        ("objects: [{object: cup, pos: [1, 2]}]", "unknown field of"),
        ("objekte: []\nobjects: [{object: cup}]", "unknown field of"),
        ("objects: [{object: cub}]", "did you mean 'cube' or 'cup'?"),
        ("objects: [{object: cup}, {object: cup}]", "two objects are called 'cup'"),
        ("objects: [{object: cup, at_m: [0.5]}]", "at_m is [0.5]; it must be 2 numbers"),
        ("objects: [{object: cup, at_m: [0.5, .nan]}]", "it must be 2 numbers"),
        ("objects: [{object: cup, yaw_deg: left}]", "yaw_deg is 'left'; it must be a number"),
        ("objects: [{object: cup, at_m: [2, 0]}]", "which is not on the table"),
        ("objects: [{object: cup, filled: 1.5}]", "filled is 1.5; it must be from 0 to 1"),
        ("objects: [{object: apple, filled: 0.5}]", "it is no vessel"),
        ("objects: [{object: cup, at_m: [0.5, 0]}, {object: apple, at_m: [0.51, 0]}]", "'apple' stands in 'cup'"),
        ("objects: [{object: cup, beside: vase}]", "beside is 'vase', but the scene holds no other object"),
        ("objects: [{object: cup, beside: cup}]", "beside is 'cup', but the scene holds no other object"),
        ("objects: [{object: cup, beside: [vase]}]", "beside is ['vase'], but the scene holds no other object"),
        (
            "objects: [{object: cup, beside: [vase]}, {object: vase}]",
            "beside is ['vase']; it must be the name of another object of the scene (one of vase)",
        ),
        ("objects: [{object: cup, beside: vas}, {object: vase}]", "'vas'; known: vase (did you mean 'vase'?)"),
        ("objects: [{object: cup, gap_m: near}]", "gap_m is 'near'; it must be a number, or [from, to]"),
        ("objects: [{object: cup, gap_m: [0.1]}]", "gap_m is [0.1]; it must be a number, or [from, to]"),
        ("objects: [{object: cup, name: table}]", "objects[0]: an object of the scene is called 'table'"),
        ("objects: [{object: cup, name: a/b}]", "a name holds no '/'"),
        ("objects: [{object: cup, name: 3}]", "name is 3; it must be text"),
        ("objects: [{object: cup, name: ''}]", "which is no name"),
        ("objects: [{object: cup, at: [0.5, 0]}]", "did you mean 'at_m'"),
        ("objects: [{object: cup}]\ncamera: {size_px: [320.5, 240]}", "320.5x240; each side must be a whole number"),
        ("format: 2\nobjects: [{object: cup}]", "format is 2: it was written for a newer version; this one reads 1"),
        ("format: yes\nobjects: [{object: cup}]", "format is True; it must be 1"),
        (
            "objects: [{object: cup, beside: vase, at_m: [0.5, 0]}, {object: vase}]",
            "at_m and beside cannot stand together",
        ),
        ("objects: [{object: cup, beside: vase}, {object: vase, beside: cup}]", "in a circle"),
        (
            "objects: [{object: box}, {object: cube, on_top_of: box}, {object: dice, on_top_of: box}]",
            "'dice' cannot stand on 'box': 'cube' stands there already",
        ),
        ("objects: [{object: cup, gap_m: [0.2, 0.1]}]", "gap_m is [0.2, 0.1]"),
        ("objects: [{object: cup}]\ncamera: {size_px: [4, 4]}", "camera.size_px is 4x4"),
        ("objects: [{object: cup}]\ncamera: {eye_m: [1, 2]}", "camera.eye_m is [1, 2]; it must be 3 numbers"),
        ("objects: [{object: cup}]\ncamera: {eye_m: [0.5, 0, 0.05]}", "eye is where it looks at"),
    ],
)
def test_what_is_told_of_a_bad_file(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_scene(str(file), 0)
    assert told in str(caught.value)


def test_two_towers_may_be_equally_high(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        """
objects:
  - {object: box, name: left, at_m: [0.5, 0.15]}
  - {object: box, name: right, at_m: [0.5, -0.15]}
  - {object: cube, name: a, on_top_of: left}
  - {object: cube, name: b, on_top_of: right}
  - {object: dice, on_top_of: b}
"""
    )
    scene = load_scene(str(file))
    heights = {o.name: o.T_world_object[2, 3] for o in scene.objects}
    assert heights["a"] == pytest.approx(heights["b"])
    assert heights["dice"] == pytest.approx(heights["b"] + 0.04)
    assert np.allclose(scene["b"].T_world_object[:2, 3], (0.5, -0.15))


def test_what_stands_on_another_stands_in_no_neighbour(tmp_path: Path) -> None:
    """The cracker box is wider than the die that it is put on, and the bottle stands within its reach."""
    file = tmp_path / "s.yaml"
    rows = "{object: dice, at_m: [0.5, 0]}, {object: cracker-box, on_top_of: dice, yaw_deg: 0}"
    file.write_text(f"objects: [{rows}]")
    assert load_scene(str(file))["cracker-box"].T_world_object[2, 3] > 0
    file.write_text(f"objects: [{rows}, {{object: bottle, at_m: [0.6, 0]}}]")
    with pytest.raises(InputError, match="no room was found for 'cracker-box'"):
        load_scene(str(file))


def test_a_scene_finds_objects_files_from_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(load_module.__file__).parent / "data" / "tasks" / "cup.yaml"
    (tmp_path / "things").mkdir()
    (tmp_path / "elsewhere").mkdir()
    mug = tmp_path / "things" / "mug.yaml"
    mug.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    file = tmp_path / "s.YML"
    file.write_text("objects: [{object: things/mug.yaml/small}, {object: things/mug.yaml}]")
    monkeypatch.chdir(tmp_path / "elsewhere")
    scene = load_scene(str(file), 0)
    assert [o.name for o in scene.objects] == ["mug-small", "mug"]
    assert scene["mug-small"].model.size_m[2] == pytest.approx(0.8 * scene["mug"].model.size_m[2])
    for name in (f"{mug}/small", str(mug)):  # by themselves, too
        alone = single(name).objects[0]
        assert load_scene(name).objects[0].name == alone.name == ("mug-small" if name.endswith("small") else "mug")


@pytest.mark.parametrize("name", ["", " ", "a/b", "a\nb", "a\0b", "table", "Table", "robot", "hand", "floor", "world"])
def test_what_no_object_may_be_called(name: str) -> None:
    placed = replace(single("cup").objects[0], name=name)
    with pytest.raises(InputError, match="give it another `name`"):
        Scene((placed,))


def test_an_object_is_not_called_as_a_body_of_the_robot_is() -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("dm_robotics.panda")
    from sagehand.world.model import build_model
    from sagehand.world.robot.description import load_robot

    scene = Scene((replace(single("cup").objects[0], name="panda_link3"),))
    with pytest.raises(InputError, match="'panda_link3', as a body of panda is .give it another `name`"):
        build_model(scene, load_robot())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"eye_m": CAMERA.look_at_m}, "where it looks at"),
        ({"eye_m": (math.nan, 0.0, 0.0)}, "three numbers"),
        ({"fovy_deg": 180.0}, "field of view"),
        ({"fovy_deg": math.nan}, "field of view"),
        ({"width": 0}, "needs a pixel"),
    ],
)
def test_a_camera_that_sees_nothing_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        replace(CAMERA, **change)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)
rows = st.dictionaries(
    st.sampled_from([*OBJECT_FIELDS, "pos"]),
    junk
    | st.sampled_from(["cup", "cube", "box", "cup/small", "a.yaml", "b.yaml/c", "table"])
    | st.lists(st.floats(-1, 1), min_size=2, max_size=2),
)
documents = st.fixed_dictionaries(
    {"objects": junk | st.lists(rows.map(lambda row: {"object": "cup", **row}), min_size=1, max_size=3)},
    optional={"camera": junk | st.dictionaries(st.sampled_from(list(CAMERA_FIELDS)), junk), "format": junk, "x": junk},
)


@settings(max_examples=120, deadline=None)
@given(doc=documents | junk)
def test_any_document_is_a_scene_or_an_input_error(doc: Any) -> None:
    told = ""
    try:
        rows = parse_scene(doc, "s.yaml")["objects"]
    except InputError as error:
        told = error.message
    if told:
        assert "s.yaml" in told
        return
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    for row in rows:
        assert np.isfinite([*row.get("at_m", ()), *row["gap_m"], row.get("yaw_deg", 0.0)]).all()
        assert 0 <= row.get("filled", 0) <= 1


@settings(max_examples=60, deadline=None)
@given(
    doc=st.lists(
        st.fixed_dictionaries(
            {"object": st.sampled_from(["cup", "cube", "dice"]), "name": st.sampled_from(["a", "b", "c"])},
            optional={
                "at_m": st.tuples(st.floats(0.2, 0.8), st.floats(-0.4, 0.4)).map(list),
                "beside": st.sampled_from(["a", "b"]),
                "behind": st.sampled_from(["a", "b"]),
                "on_top_of": st.sampled_from(["a", "b", "c"]),
                "gap_m": st.floats(0, 0.5),
                "filled": st.just(0.5),
            },
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_file_is_built_or_an_input_error(tmp_path_factory: pytest.TempPathFactory, doc: list[Any]) -> None:
    """What is built stands apart, or on what it is said to stand on."""
    file = tmp_path_factory.getbasetemp() / "s.yaml"
    file.write_text(yaml.safe_dump({"objects": doc}))
    try:
        scene = load_scene(str(file), 0)
    except InputError:
        return
    spans = {o.name: o.T_world_object[2, 3] + np.array([0, o.model.size_m[2]]) for o in scene.objects}
    for (a, b), gap in gaps(scene).items():
        apart = spans[a][0] >= spans[b][1] - 1e-6 or spans[b][0] >= spans[a][1] - 1e-6
        assert apart or gap > 0 or any({r["name"], r.get("beside"), r.get("behind")} >= {a, b} for r in doc)


def test_too_many_objects_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "full.yaml"
    file.write_text("objects: [" + ", ".join(f"{{object: bowl, name: b{i}}}" for i in range(30)) + "]")
    with pytest.raises(InputError, match="no room was found for 'b"):
        load_scene(str(file), 0)


def test_unknown_names_come_with_near_misses(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'cup-near-vase'"):
        load_scene("cup-near-vas")
    with pytest.raises(UnknownName):
        scene_title("nowhere")
    with pytest.raises(InputError, match="cannot be read"):
        load_scene(str(tmp_path / "none.yaml"))


corner = st.floats(-0.5, 0.5)


@settings(max_examples=60, deadline=None)
@given(corner, corner, st.floats(-math.pi, math.pi), st.floats(-math.pi, math.pi))
def test_the_gap_between_footprints_is_the_smallest_distance(x: float, y: float, yaw: float, other_yaw: float) -> None:
    model = single("box").objects[0].model
    first = footprint(model, axis_rotation("z", yaw))
    second = footprint(model, translation(x, y) @ axis_rotation("z", other_yaw))
    gap = footprint_gap(first, second)
    assert gap == pytest.approx(footprint_gap(second, first), abs=1e-12)
    edges = [
        np.concatenate([a + t * (b - a) for a, b in zip(c, np.roll(c, -1, axis=0), strict=True)]).reshape(-1, 2)
        for c in (first, second)
        for t in [np.linspace(0, 1, 60)[:, None]]
    ]
    sampled = float(np.linalg.norm(edges[0][:, None] - edges[1][None], axis=2).min())
    assert gap <= sampled + 1e-9
    if gap > 0:
        assert sampled <= gap + 0.003  # half the distance of the samples
