"""The view in the browser: served to this machine alone, with what the scene holds."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from sagehand.errors import InputError, MissingExtra
from sagehand.world.frames import translation
from sagehand.world.grasp import Grasp
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Box, Capsule, Cylinder, Ellipsoid, Sphere, solids_of
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scene import Placed, Scene
from sagehand.world.viewer import View, view

SHAPES = (
    Box((0.04, 0.04, 0.04)),
    Cylinder(0.02, 0.06),
    Sphere(0.03),
    Ellipsoid((0.03, 0.02, 0.02)),
    Capsule(0.01, 0.1),
)
SCENE = Scene(
    tuple(
        Placed(
            f"thing{n}",
            ObjectModel(
                f"thing{n}", "t", "t", "wood", 0, 0.1, 0.5, 50, tuple(solids_of(shape, translation(z=0.05))), {}
            ),
            translation(0.45, 0.12 * (n - 2)),
        )
        for n, shape in enumerate(SHAPES)
    )
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def page() -> Iterator[View]:
    pytest.importorskip("viser")
    pytest.importorskip("trimesh")
    pytest.importorskip("mujoco")
    with view(SCENE, load_robot(), port=free_port()) as opened:
        yield opened


@pytest.mark.filterwarnings("default")  # viser's own
def test_the_page_is_served_and_holds_every_object(page: View) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.status == 200
    assert b"<html" in answer.read().lower()
    connection.close()
    assert page.url == f"http://127.0.0.1:{page.port}"
    with socket.socket() as other:  # on no other address of this machine
        other.settimeout(0.5)
        with pytest.raises(OSError):
            other.connect((_own_address(), page.port))


def _own_address() -> str:
    """An address of this machine that is not 127.0.0.1: all of 127/8 is its own."""
    return "127.0.0.2"


@pytest.mark.filterwarnings("default")
def test_the_arm_stands_where_its_joints_say(page: View) -> None:
    robot = load_robot()
    q = robot.home + 0.2
    moved = SCENE.with_objects(o.at(translation(0.6, 0.2)) if o.name == "thing0" else o for o in SCENE.objects)
    page.show(moved, q, 0.05)
    assert np.allclose(page._frames["thing0"].position, (0.6, 0.2, 0))
    hand = Kinematics(robot).forward(q)[:3, 3] - 0.1034 * Kinematics(robot).forward(q)[:3, 2]
    assert np.allclose(page._links["hand/panda_hand"].position, hand, atol=1e-3)
    fingers = [np.asarray(page._links[f"hand/{f}"].position) for f in robot.model["fingers"]]
    assert np.linalg.norm(fingers[0] - fingers[1]) == pytest.approx(0.05, abs=1e-3)
    page.mark(Grasp.from_axes((0, 0, 0), (0, 0, -1), (0, 1, 0), width_m=0.05, force_n=5).at(translation(0.5), "thing0"))
    page.close()
    page.close()


def test_only_this_machine_is_served() -> None:
    with pytest.raises(InputError, match="to this machine alone, not on '0.0.0.0'"):
        view(SCENE, load_robot(), host="0.0.0.0")
    with pytest.raises(InputError, match="the port is 0"):
        view(SCENE, load_robot(), port=0)


def test_a_port_that_is_taken_is_told() -> None:
    pytest.importorskip("viser")
    pytest.importorskip("trimesh")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is taken"):
            view(SCENE, load_robot(), port=port)


def test_without_viser_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"sagehand\[viser\]"):
        view(SCENE, load_robot(), port=free_port())
