"""MuJoCo as a guest: it loads without a GL driver, and leaves no file behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("frankik", reason="the world extra is not installed")
SCRIPT = """
from sagehand.world.model import mujoco_module
mj = mujoco_module()
spec = mj.MjSpec()
body = spec.worldbody.add_body(name="b")
body.add_freejoint()
body.add_geom(size=[0.1, 0, 0])
model = spec.compile()
data = mj.MjData(model)
data.qvel[0] = float("nan")
mj.mj_step(model, data)
print(data.warning[mj.mjtWarning.mjWARN_BADQVEL].number)
"""


@pytest.mark.parametrize("driver", ["egl", "osmesa", None])
def test_physics_needs_no_driver_and_leaves_no_file(driver: str | None, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "MUJOCO_GL"} | ({"MUJOCO_GL": driver} if driver else {})
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "1", "")
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_says_how_to_get_the_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    from sagehand.errors import MissingExtra
    from sagehand.study.doctor import examine
    from sagehand.world.robot.description import Robot

    def missing(self: Robot, which: str) -> Path:
        error = MissingExtra("the model of panda", "world")
        error.hint = "pip install --no-deps dm-robotics-panda"
        raise error

    monkeypatch.setattr(Robot, "model_file", missing)
    (found,) = [finding for finding in examine() if finding.what == "panda"]
    assert (found.state, found.remedy) == ("note", "pip install --no-deps dm-robotics-panda")
