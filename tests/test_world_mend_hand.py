"""What a planner may hold, streams of noise, grasps from files, and what is shared or freed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sagehand.errors import InputError, UnknownName
from sagehand.world.analytic.executor import AnalyticExecutor
from sagehand.world.executor import Hand, Truth, blind
from sagehand.world.frames import translation
from sagehand.world.grasp import Grasp
from sagehand.world.noise import ExecutionNoise, PerceptionNoise, stream
from sagehand.world.objects.load import resolve
from sagehand.world.robot import ik
from sagehand.world.robot.description import load_robot
from sagehand.world.robot.kinematics import Kinematics
from sagehand.world.scene import Placed, Scene
from sagehand.world.tries import adjusted, read_grasp

GRASP = Grasp.from_axes((0, 0, 0.025), (0, 0, -1), (0, 1, 0), width_m=0.07, force_n=5.0)


def test_a_hand_shows_nothing_of_the_truth() -> None:
    place = translation(0.5, 0.0)
    with AnalyticExecutor(reach=False).start(Scene((Placed("cube", resolve("cube"), place),))) as trial:
        hand, kept = blind(trial)
        seen = hand.grasp(GRASP.at(place, "cube"))
        assert seen.held_in_view
        assert isinstance(kept[0].truth, Truth)
        assert kept[0].truth.success
        assert [n for n in dir(hand) if not n.startswith("__")] == ["grasp", "put"]
        assert not hasattr(hand, "__dict__")
        with pytest.raises(TypeError):
            vars(hand)
        for text in (repr(hand), str(hand), f"{hand}"):
            assert not any(word in text for word in ("Truth", "Trial", "trial", "success", "kept", "0x"))
        with pytest.raises(AttributeError):
            hand.kept = kept  # type: ignore[attr-defined]
        again: Hand = blind(trial)[0]
        assert repr(again) == repr(hand)


@pytest.mark.parametrize("names", [(-1,), (1.5,), ("a", -3), (None,), (True,), (np.int64(-2),), (b"a",)])
def test_a_stream_by_a_name_that_is_none(names: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match="neither text nor a whole number"):
        stream(0, *names)
    for kind in (ExecutionNoise, PerceptionNoise):
        with pytest.raises(InputError, match="neither text nor a whole number"):
            kind(0, *names)


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True, math.nan])
def test_a_seed_that_is_none(seed: Any) -> None:
    with pytest.raises(InputError, match="the seed is"):
        stream(seed, "a")


def test_whole_numbers_of_numpy_name_the_same_stream() -> None:
    assert stream(np.int64(3), np.int32(4)).integers(1 << 60) == stream(3, 4).integers(1 << 60)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"region": 3}, "region is 3; it must be the name of a region"),
        ({"force_n": True}, "force_n is True; it must be a number"),
        ({"force_n": "5"}, "force_n is '5'; it must be a number"),
        ({"width_m": None}, "width_m is None; it must be a number"),
        ({"speed_scale": [1]}, "speed_scale is [1]; it must be a number"),
        ({"pregrasp_m": "far"}, "pregrasp_m is 'far'; it must be a number"),
        ({"position_m": [0, 0, "a"]}, "position_m is 'a'; it must be a number"),
        ({"position_m": "000"}, "position_m is '000'; it must be a list of three numbers"),
        ({"quat_xyzw": [0, 0, 1]}, "quat_xyzw is [0, 0, 1]; it must be a list of four numbers"),
        ({"quat_xyzw": [0, 0, 0, 2]}, "is not of unit length but 2 (divide its numbers by that)"),
        ({"quat_xyzw": [0, 0, 0, 0]}, "is not of unit length but 0 ((0, 0, 0, 1) turns nothing)"),
        ({"type": ["pinch"]}, "unknown grasp type"),
        ({"force": 5}, "did you mean 'force_n'?"),
    ],
)
def test_a_grasp_whose_field_is_wrong(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    doc = GRASP.to_dict() | change
    with pytest.raises(InputError) as caught:
        Grasp.from_dict(doc)
    assert told in str(caught.value)
    file = tmp_path / "g.json"
    file.write_text(json.dumps(doc))
    with pytest.raises(InputError) as caught:
        read_grasp(file)
    assert told in str(caught.value)


@pytest.mark.parametrize("key", ["position_m", "quat_xyzw", "width_m", "force_n"])
def test_a_grasp_without_a_field(key: str) -> None:
    doc = {k: v for k, v in GRASP.to_dict().items() if k != key}
    with pytest.raises(InputError, match=f"it has no {key}") as caught:
        Grasp.from_dict(doc)
    assert "it holds position_m" in caught.value.hint


def test_a_grasp_of_the_needed_fields_alone_and_of_all() -> None:
    assert Grasp.from_dict(GRASP.to_dict()) == GRASP
    few = {k: GRASP.to_dict()[k] for k in ("position_m", "quat_xyzw", "width_m", "force_n")}
    assert Grasp.from_dict(few) == GRASP
    assert Grasp.from_dict(few | {"width_m": 1, "region": None}).width_m == 1.0
    with pytest.raises(UnknownName, match="did you mean 'speed_scale'"):
        Grasp.from_dict(few | {"speed_scal": 1})


def test_what_is_beyond_the_hand_says_what_to_do() -> None:
    with pytest.raises(InputError) as caught:
        adjusted(GRASP, load_robot(), width_m=0.2)
    assert caught.value.hint


def test_all_kinematics_of_a_robot_share_their_starts() -> None:
    robot = load_robot()
    ik._library.cache_clear()
    T = Kinematics(robot).forward(robot.home)
    for _ in range(50):
        found = ik.numeric(Kinematics(robot).chain, T, robot.home, starts=1, steps=2)
        assert found.position_m.min() < 1e-9
    assert ik._library.cache_info().currsize == 1
    assert ik._library.cache_info().misses == 1


@pytest.mark.render
def test_a_recorder_can_be_closed_by_hand() -> None:
    pytest.importorskip("mujoco")
    from sagehand.world.animate import Recorder

    scene = Scene((Placed("cube", resolve("cube"), translation(0.5, 0.0)),))
    recorder = Recorder(scene, load_robot(), "cube", (64, 48), shadows=False)
    assert recorder._renderer._gl is not None
    recorder.close()
    assert recorder._renderer._gl is None
    recorder.close()
    with recorder:
        pass
