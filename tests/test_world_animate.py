"""Films: what is in the files, and tries as they are filmed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sagehand.errors import InputError, MissingExtra
from sagehand.world.animate import Recorder, animate, camera_for, caption, film_path, verdict
from sagehand.world.executor import Attempt, Observation, Truth
from sagehand.world.failures import Failure, Terminal
from sagehand.world.frames import axis_rotation, invert, translation
from sagehand.world.grasp import Grasp
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.shapes import Box, solids_of
from sagehand.world.robot.description import load_robot
from sagehand.world.scene import Placed, Scene
from sagehand.world.tries import TryResult

RED = (0.9, 0.05, 0.05, 1.0)
CUBE = ObjectModel(
    "cube",
    "cube",
    "block",
    "wood",
    0,
    0.05,
    0.5,
    70,
    tuple(solids_of(Box((0.04,) * 3), translation(z=0.02), rgba=RED)),
    {},
)
SCENE = Scene((Placed("cube", CUBE, translation(0.5, 0.0)),))
GRASP = Grasp.from_axes((0, 0, 0.02), (0, 0, -1), (0, 1, 0), width_m=0.05, force_n=5.0)


def result(
    *, success: bool = True, failure: Failure | None = None, grasp: Grasp = GRASP, reached: bool = True
) -> TryResult:
    seen = Observation(reached, 0.0, 0.0, finger_width_m=0.04, contact=success)
    truth = Truth(success, failure, lifted="cube" if success else None)
    command = grasp.at(SCENE["cube"].T_world_object, "cube")
    return TryResult(SCENE, "cube", "analytic", grasp, command, Attempt(seen, truth), 0.01)


def colours(count: int, size: tuple[int, int] = (32, 48)) -> list[np.ndarray]:
    return [np.full((*size, 3), (10 * i, 255 - 10 * i, 128), np.uint8) for i in range(count)]


def red_rows(picture: np.ndarray) -> np.ndarray:
    """Rows of the pixels that are red."""
    p = picture.astype(int)
    return np.nonzero((p[..., 0] > 90) & (p[..., 0] > 2 * p[..., 1]) & (p[..., 0] > 2 * p[..., 2]))[0]


def test_a_gif_holds_the_frames_at_their_pace(tmp_path: Path) -> None:
    frames = colours(5)
    path = animate(tmp_path / "new" / "a.gif", frames, fps=10)
    with Image.open(path) as film:
        assert (film.n_frames, film.size, film.info["loop"]) == (5, (48, 32), 0)
        for number, frame in enumerate(frames):
            film.seek(number)
            assert film.info["duration"] == 100
            assert np.abs(np.asarray(film.convert("RGB")).astype(int) - frame).max() <= 8
    assert [p.name for p in path.parent.iterdir()] == ["a.gif"]


@pytest.mark.parametrize("size", [(64, 96), (51, 77)])
def test_an_mp4_holds_the_frames(tmp_path: Path, size: tuple[int, int]) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    frames = colours(12, size)
    path = animate(tmp_path / "a.mp4", frames, fps=12)
    decode = [ffmpeg, "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(decode, capture_output=True, check=True)
    rows, columns = (-(-s // 2) * 2 for s in size)
    read = np.frombuffer(done.stdout, np.uint8).reshape(-1, rows, columns, 3)
    assert len(read) == 12
    assert np.abs(read[:, : size[0], : size[1]].astype(int) - np.array(frames)).mean() < 6
    seen = subprocess.run([ffmpeg, "-i", str(path)], capture_output=True, text=True, check=False).stderr
    assert "12 fps" in seen


@pytest.mark.parametrize(
    ("name", "frames", "fps", "told"),
    [
        ("a.avi", colours(1), 20, "ends in .gif or .mp4"),
        ("a", colours(1), 20, "ends in .gif or .mp4"),
        ("a.gif", [], 20, "no frame to write"),
        ("a.gif", [*colours(1), *colours(1, (8, 8))], 20, "all must be .H, W, 3. and alike"),
        ("a.gif", colours(1), 0, "fps is 0"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, name: str, frames: list[np.ndarray], fps: float, told: str) -> None:
    with pytest.raises(InputError, match=told):
        animate(tmp_path / name, frames, fps)
    assert list(tmp_path.iterdir()) == []


def test_mp4_without_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"sagehand\[video\]"):
        animate(tmp_path / "a.mp4", colours(1))


def test_a_file_of_another_kind_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.gif").write_text('{"not": "a film"}')
    with pytest.raises(InputError, match="is not written over"):
        animate(tmp_path / "a.gif", colours(2))


def test_a_caption_stands_under_the_picture() -> None:
    picture = np.full((60, 200, 3), 77, np.uint8)
    plain, good, bad = (
        caption(picture, "left"),
        caption(picture, "left", "held", True),
        caption(picture, "left", "slip", False),
    )
    for shown in (plain, good, bad):
        assert shown.shape == (82, 200, 3)
        assert np.array_equal(shown[:60], picture)
    strip = [s[60:, 100:].astype(int) for s in (plain, good, bad)]
    assert strip[0].std() < strip[1].std()
    assert (strip[1][..., 1] - strip[1][..., 0]).max() > 50  # green
    assert (strip[2][..., 0] - strip[2][..., 1]).max() > 50  # red


def test_the_verdict() -> None:
    assert verdict(result()) == ("held", True)
    assert verdict(result(success=False, failure=Failure.FORCE_DAMAGE)) == ("force damage", False)
    broken = result()
    told = Attempt(broken.attempt.observation, Truth(False, Failure.FORCE_DAMAGE, Terminal.BROKEN))
    done = TryResult(SCENE, "cube", "physics", GRASP, broken.command, told, 0.1)
    assert verdict(done) == ("force damage, broken", False)


def test_the_camera_sees_the_object_on_the_table_and_lifted() -> None:
    for x, y in ((0.38, -0.25), (0.62, 0.25), (0.5, 0.0)):
        scene = SCENE.with_objects([SCENE["cube"].at(translation(x, y) @ axis_rotation("z", 1.0))])
        camera = camera_for(scene, "cube", 320, 240)
        for z in (0.0, 0.04, 0.19):
            point = invert(camera.T_world_camera) @ (x, y, z, 1.0)
            u, v = (camera.intrinsics @ (point[:3] / point[2]))[:2]
            assert point[2] > 0.3
            assert 30 < u < 290
            assert 10 < v < 230


@pytest.mark.render
def test_an_analytic_try_is_filmed_along_its_path() -> None:
    frames = film_path(result(), load_robot(), (240, 180), shadows=False)
    assert {f.shape for f in frames} == {(202, 240, 3)}
    low, high = np.median(red_rows(frames[0][:180])), np.median(red_rows(frames[-1][:180]))
    camera = camera_for(SCENE, "cube", 240, 180)
    T = invert(camera.T_world_camera)
    rows = [(camera.intrinsics @ (p[:3] / p[2]))[1] for p in (T @ (0.5, 0, 0.02, 1), T @ (0.5, 0, 0.17, 1))]
    assert low == pytest.approx(rows[0], abs=6)
    assert high == pytest.approx(rows[1], abs=8)  # the hand hides a part of it
    assert all(np.array_equal(f, frames[-1]) for f in frames[-30:])


@pytest.mark.slow
@pytest.mark.render
def test_what_was_not_lifted_stays_where_it_is() -> None:
    frames = film_path(result(success=False, failure=Failure.SLIP), load_robot(), (240, 180), shadows=False)
    assert np.median(red_rows(frames[-1][:180])) == pytest.approx(np.median(red_rows(frames[0][:180])), abs=2)


@pytest.mark.render
def test_what_cannot_be_reached_is_one_picture() -> None:
    far = Grasp.from_axes((1.5, 0, 0.02), (0, 0, -1), (0, 1, 0), width_m=0.05, force_n=5.0)
    frames = film_path(
        result(success=False, failure=Failure.UNREACHABLE, grasp=far, reached=False), load_robot(), (240, 180)
    )
    assert len(frames) == 31


@pytest.mark.render
def test_the_recorder_takes_frames_at_its_own_pace_and_tells_the_force() -> None:
    mujoco = pytest.importorskip("mujoco")
    from sagehand.world.model import build_model

    world = build_model(SCENE, load_robot())
    data = mujoco.MjData(world.model)
    data.qpos[:7] = load_robot().home
    mujoco.mj_forward(world.model, data)
    with Recorder(SCENE, load_robot(), "cube", (160, 120), shadows=False) as recorder:
        for tick in range(13):  # 0.4 s at 30 a second
            recorder(data, world.model, tick / 30)
        assert len(recorder.frames) == pytest.approx(9, abs=1)
        assert {f.shape for f in recorder.frames} == {(142, 160, 3)}
        taken = len(recorder.frames)
        frames = recorder.finish(result())
    assert len(frames) == taken + 30
    assert np.array_equal(frames[-1][:120], frames[taken - 1][:120])
