"""Pictures of the world against geometry: depth on the surfaces, pixels where projection puts them, sizes that must fit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from sagehand.errors import DepthError, InputError, MissingExtra, SettingsError, UnknownName
from sagehand.gl import open_gl
from sagehand.world.frames import axis_rotation, invert, translation
from sagehand.world.model import build_model, set_pose
from sagehand.world.objects.model import Cavity, ObjectModel
from sagehand.world.objects.shapes import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Shape,
    Shell,
    Sphere,
    signed_distance,
    solids_of,
)
from sagehand.world.render import RgbdFrame, SceneRenderer, cloud, unproject
from sagehand.world.robot.description import load_robot
from sagehand.world.scene import Camera, Placed, Scene

pytest.importorskip("mujoco")


def thing(name: str, shape: Shape, rise: float, rgba: tuple[float, float, float, float], **more: object) -> ObjectModel:
    solids = tuple(solids_of(shape, translation(z=rise), rgba=rgba))
    return ObjectModel(name, name, name, "wood", 0.0, 0.1, 0.5, 50.0, solids, {}, **more)  # type: ignore[arg-type]


CUBE = thing("cube", Box((0.04, 0.04, 0.04)), 0.02, (0.9, 0.1, 0.1, 1))
BALL = thing("ball", Sphere(0.033), 0.033, (0.1, 0.8, 0.1, 1))
EGG = thing("egg", Ellipsoid((0.03, 0.022, 0.022)), 0.022, (0.9, 0.8, 0.7, 1))
CAN = thing("can", Cylinder(0.033, 0.1), 0.05, (0.2, 0.3, 0.8, 1))
PEN = thing("pen", Capsule(0.01, 0.14), 0.07, (0.2, 0.2, 0.2, 1))
GLASS = thing(
    "glass", Shell(0.03, 0.04, 0.12, 0.003, 0.004), 0.0, (0.7, 0.8, 0.9, 0.3), cavity=Cavity(0.033, 0.004, 0.12)
)
THINGS = (CUBE, BALL, EGG, CAN, PEN, GLASS)
PLACES = ((0.45, -0.15), (0.55, -0.08), (0.42, 0.0), (0.55, 0.1), (0.45, 0.2), (0.62, 0.22))


def scene(*, filled: float = 0.0, camera: Camera | None = None) -> Scene:
    objects = tuple(
        Placed(m.name, m, translation(*at) @ axis_rotation("z", 0.5), filled if m.cavity else 0.0)
        for m, at in zip(THINGS, PLACES, strict=True)
    )
    return Scene(objects, camera=camera or Camera(width=320, height=240))


@pytest.fixture(scope="module")
def renderer() -> Iterator[SceneRenderer]:
    with SceneRenderer(scene(), load_robot(), shadows=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def frame(renderer: SceneRenderer) -> RgbdFrame:
    return renderer.frame()


@pytest.mark.render
def test_a_frame_is_what_it_says(frame: RgbdFrame) -> None:
    assert (frame.width, frame.height) == (320, 240)
    assert (frame.rgb.shape, frame.rgb.dtype) == ((240, 320, 3), np.uint8)
    assert (frame.depth_m.dtype, frame.segmentation.dtype) == (np.float32, np.int16)
    assert frame.names == ("table", "robot", *(m.name for m in THINGS))
    assert set(np.unique(frame.segmentation)) == set(range(-1, len(frame.names)))


@pytest.mark.render
@pytest.mark.parametrize("model", THINGS, ids=lambda m: m.name)
def test_unprojected_depth_lies_on_the_surface(frame: RgbdFrame, model: ObjectModel) -> None:
    points = cloud(frame, model.name)
    T = invert(scene()[model.name].T_world_object)
    local = points @ T[:3, :3].T + T[:3, 3]
    distance = np.min([signed_distance(s, local) for s in model.solids], axis=0)
    assert len(points) > 100
    assert np.abs(distance).max() < 0.002


@pytest.mark.render
def test_the_tables_depth_lies_in_its_plane(frame: RgbdFrame) -> None:
    heights = cloud(frame, "table")[:, 2]
    assert np.abs(heights[heights > -0.001]).max() < 0.0005
    assert (heights > -0.001).mean() > 0.9


@pytest.mark.render
def test_an_objects_pixels_are_where_projection_puts_it() -> None:
    """A ball's outline is an ellipse whose middle is near the projected centre; its area follows from its size."""
    ball = replace(scene(), objects=(Placed("ball", BALL, translation(0.5, 0.07)),))
    with SceneRenderer(ball, load_robot(), show_robot=False, shadows=False) as alone:
        frame = alone.frame()
    rows, columns = np.nonzero(frame.mask("ball"))
    centre = invert(frame.T_world_camera) @ (0.5, 0.07, 0.033, 1.0)
    u, v = (frame.intrinsics @ (centre[:3] / centre[2]))[:2]
    assert abs(columns.mean() - u) < 0.5
    assert abs(rows.mean() - v) < 0.5
    radius = frame.intrinsics[0, 0] * 0.033 / centre[2]
    assert len(rows) == pytest.approx(np.pi * radius**2, rel=0.05)
    assert not frame.mask("robot").any()


@pytest.mark.render
def test_who_owns_a_pixel_has_its_colour(frame: RgbdFrame) -> None:
    for name, channel in (("cube", 0), ("ball", 1), ("can", 2)):
        assert frame.rgb[frame.mask(name)].mean(axis=0).argmax() == channel


@pytest.mark.render
def test_objects_move_with_the_scene_and_the_arm_with_q(renderer: SceneRenderer) -> None:
    before = renderer.frame()
    moved = scene().with_objects(o.at(translation(0.35, -0.3)) if o.name == "cube" else o for o in scene().objects)
    after = renderer.frame(moved)
    assert np.allclose(cloud(after, "cube")[:, :2].mean(axis=0), (0.35, -0.3), atol=0.02)
    assert np.array_equal(before.mask("pen"), after.mask("pen"))
    q = load_robot().home + 0.4
    turned = renderer.frame(None, q)
    assert not np.array_equal(turned.mask("robot"), before.mask("robot"))
    assert np.array_equal(renderer.frame().rgb, before.rgb)  # nothing is left of it


@pytest.mark.render
def test_the_state_of_a_physics_model_is_taken_over(renderer: SceneRenderer) -> None:
    import mujoco

    world = build_model(scene(), load_robot())
    data = mujoco.MjData(world.model)
    data.qpos[:7] = load_robot().home
    set_pose(world.model, data, "ball", translation(0.4, -0.3, 0.2))
    expected = renderer.frame(
        scene().with_objects(o.at(translation(0.4, -0.3, 0.2)) if o.name == "ball" else o for o in scene().objects),
        width=0.0,
    )
    got = renderer.frame(data)
    assert np.array_equal(got.segmentation, expected.segmentation)


@pytest.mark.render
def test_the_fingers_open_as_told() -> None:
    """Seen from the front, home's fingers are as far apart as told: the pads' inner faces, by depth."""
    empty = Scene((), camera=Camera((1.0, 0.0, 0.50), (0.3, 0.0, 0.50), 20.0, 320, 240))
    spans = []
    with SceneRenderer(empty, load_robot(), shadows=False) as opened:
        for width in (0.02, 0.07):
            points = cloud(opened.frame(width=width), "robot")
            points = points[(points[:, 0] > 0.25) & (points[:, 2] > 0.40)]  # the hand
            low = points[points[:, 2] < points[:, 2].min() + 0.006]  # the tips
            spans.append(np.sort(low[:, 1]))
    gaps = [float(np.diff(s).max()) for s in spans]
    assert gaps[1] - gaps[0] == pytest.approx(0.05, abs=0.004)


@pytest.mark.render
def test_nothing_but_geoms_is_drawn(renderer: SceneRenderer) -> None:
    """The robot's model has a site at the TCP: nothing may hang between the open fingers."""
    before = Camera((0.8, 0.0, 0.487), (0.307, 0.0, 0.487), 12.0, 320, 240)
    points = cloud(renderer.frame(camera=before), "robot")
    assert len(points) > 1000
    assert np.abs(points - (0.307, 0.0, 0.487)).max(axis=1).min() > 0.02


@pytest.mark.render
def test_water_stands_in_a_filled_glass_at_its_level() -> None:
    above = Camera((0.63, 0.22, 0.7), (0.62, 0.22, 0.0), 30.0, 320, 240)
    with SceneRenderer(scene(filled=0.5, camera=above), load_robot(), shadows=False) as full:
        heights = cloud(full.frame(), "glass")[:, 2]
    level = 0.004 + 0.5 * (0.12 - 0.004)
    assert (np.abs(heights - level) < 0.001).mean() > 0.5


@pytest.mark.render
def test_another_camera_must_be_of_the_same_size(renderer: SceneRenderer) -> None:
    side = replace(scene().camera, eye_m=(0.5, -1.0, 0.5))
    seen = renderer.frame(camera=side)
    assert np.array_equal(seen.T_world_camera, side.T_world_camera)
    assert np.abs(cloud(seen, "cube")[:, 2]).max() < 0.042
    with pytest.raises(InputError, match="640x480; the renderer was made for 320x240"):
        renderer.frame(camera=Camera())


@pytest.mark.render
def test_other_objects_or_joints_are_refused(renderer: SceneRenderer) -> None:
    with pytest.raises(InputError, match="make another SceneRenderer"):
        renderer.frame(Scene(scene().objects[:2]))
    with pytest.raises(InputError, match="panda has 7 joints"):
        renderer.frame(None, [0.0, 0.0])


@pytest.mark.render
def test_closing_twice_is_harmless() -> None:
    opened = SceneRenderer(scene(), load_robot())
    opened.close()
    opened.close()
    with SceneRenderer(scene(), load_robot()) as another:  # and the next one draws
        assert another.frame().rgb.any()


@pytest.mark.render
def test_without_a_driver_the_error_says_what_to_do() -> None:
    code = (
        "from sagehand.world.render import SceneRenderer\nfrom sagehand.world.scene import Scene\n"
        "from sagehand.world.robot.description import load_robot\nfrom sagehand.errors import SettingsError\n"
        "try:\n    SceneRenderer(Scene(()), load_robot())\nexcept SettingsError as error:\n    print(error)"
    )
    env = {**os.environ, "MUJOCO_GL": "glfw", "DISPLAY": ":77"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert "MuJoCo cannot open a GL context with MUJOCO_GL='glfw'" in done.stdout
    assert "set MUJOCO_GL=egl" in done.stdout


def made(depth: float = 1.0, size: tuple[int, int] = (4, 3)) -> RgbdFrame:
    width, height = size
    camera = Camera(width=width, height=height)
    return RgbdFrame(
        np.zeros((height, width, 3), np.uint8),
        np.full((height, width), depth, np.float32),
        np.full((height, width), 2, np.int16),
        ("table", "robot", "cup"),
        camera.intrinsics,
        camera.T_world_camera,
        width,
        height,
    )


def test_unprojecting_inverts_projecting() -> None:
    frame = made(0.8)
    points = unproject(frame.depth_m, frame.intrinsics, 4, 3).reshape(-1, 3)
    pixels = points @ frame.intrinsics.T
    pixels = pixels[:, :2] / pixels[:, 2:]
    assert np.allclose(pixels, [(u, v) for v in range(3) for u in range(4)])
    assert np.allclose(points[:, 2], 0.8)


def test_depth_of_another_size_than_the_intrinsics_is_refused() -> None:
    """FIELD_REPORTS G01."""
    frame = made()
    with pytest.raises(DepthError, match="depth_m is 8x6; the intrinsics are for 4x3"):
        unproject(np.ones((6, 8), np.float32), frame.intrinsics, 4, 3)
    with pytest.raises(DepthError, match="segmentation is 2x2"):
        replace(frame, segmentation=np.zeros((2, 2), np.int16))


@pytest.mark.parametrize("depth", [0.0, np.nan])
def test_an_empty_cloud_is_an_error_that_counts(depth: float) -> None:
    """FIELD_REPORTS G03."""
    with pytest.raises(DepthError, match="of 12 pixels 12 show 'cup', and none of those has depth"):
        cloud(made(depth), "cup")
    with pytest.raises(DepthError, match="of 12 pixels 0 show 'table'"):
        cloud(made(), "table")
    with pytest.raises(UnknownName, match="did you mean 'cup'"):
        cloud(made(), "cupp")
    assert len(cloud(made())) == 12


def test_without_mujoco_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'sagehand\[world\]'"):
        open_gl(8, 8, what="a picture of the world", extra="world")
    assert issubclass(SettingsError, InputError)
