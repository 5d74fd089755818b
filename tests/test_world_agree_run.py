"""Running a study: resume makes exactly what is missing, a kill tears nothing, another study is refused, Ctrl-C is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sagehand.errors import InputError
from sagehand.world.agree import run as module
from sagehand.world.agree import work
from sagehand.world.agree.digest import code_digest, data_digest
from sagehand.world.agree.plan import Item
from sagehand.world.agree.run import EXECUTORS, run_agreement
from sagehand.world.agree.sample import Sample
from sagehand.world.agree.store import HEADER, RECORDS, read_entries
from sagehand.world.executor import Executor
from sagehand.world.frames import pose, translation
from sagehand.world.grasp import GraspCommand
from sagehand.world.objects.load import load_object
from sagehand.world.scene import Scene
from sagehand.world.scripted import ScriptedExecutor


class Canned:
    """A sampler of cubes in the middle of the table, each with another force: nothing is searched."""

    def __init__(self, *_: object) -> None:
        self.cube = load_object("cube")

    def sample(self, item: Item) -> Sample:
        T = translation(0.5, 0.0)
        grasp = pose((0.5, 0.0, 0.02), np.diag([1.0, -1.0, -1.0]))
        command = GraspCommand("target", grasp, 0.05, 8.0 + item.number)
        return Sample(item, "", {"target": ("cube", T, None)}, command, True, 1.0, {"target": self.cube})


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "slow" not in request.keywords:
        monkeypatch.setattr(work, "Sampler", Canned)
        monkeypatch.setattr(module, "answer_digest", lambda name, names: name)


def analytic() -> Executor:
    return ScriptedExecutor(lambda scene, command: command.force_n > 10, "analytic")


def physics() -> Executor:
    return ScriptedExecutor(lambda scene, command: command.force_n > 12, "physics")


def breaking() -> Executor:
    def answer(scene: Scene, command: GraspCommand) -> bool:
        raise ValueError("as bad as can be")

    return ScriptedExecutor(answer, "physics")


DOUBLES: dict[str, Callable[[], Executor]] = {"analytic": analytic, "physics": physics}


def study(out: Path, grasps: int = 8, **rest: object):  # type: ignore[no-untyped-def]
    settings = {"objects": "cube/steel", "jobs": 1, "pictures": 0, "executors": DOUBLES} | rest
    return run_agreement(out, grasps=grasps, **settings)  # type: ignore[arg-type]


def lines(out: Path) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in (out / RECORDS).read_text(encoding="utf-8").splitlines()]


def test_every_sample_is_tried_in_both(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    report = study(tmp_path / "s", on_progress=lambda done, total: told.append((done, total)))
    found = lines(tmp_path / "s")
    assert {(d["outcome"]["number"], d["outcome"]["executor"]) for d in found} == {
        (n, e) for n in range(8) for e in EXECUTORS
    }
    assert told == [(n, 8) for n in range(9)]
    assert report.made == 8
    assert report.figures["agreement"] == pytest.approx(6 / 8)  # of 8 to 15 N, 11 and 12 hold in the analytic one alone


def test_resume_makes_exactly_what_is_missing(tmp_path: Path) -> None:
    out = tmp_path / "s"
    study(out)
    whole = (out / RECORDS).read_text(encoding="utf-8").splitlines(keepends=True)
    (out / RECORDS).write_text("".join(whole[:6] + whole[7:]) + whole[6][:40], encoding="utf-8")  # one gone, one torn
    assert study(out).made == 1
    again = (out / RECORDS).read_text(encoding="utf-8").splitlines()
    assert len(again) == 16
    assert study(out).made == 0
    assert study(out, grasps=10).made == 2


def test_a_later_run_reports_what_it_was_asked_for(tmp_path: Path) -> None:
    study(tmp_path / "s", grasps=8)
    assert study(tmp_path / "s", grasps=4).figures["n"] == 4


def test_what_depends_on_changed_code_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "s"
    study(out)
    monkeypatch.setattr(module, "answer_digest", lambda name, names: "new" if name == "analytic" else name)
    study(out)
    assert [d["outcome"]["executor"] for d in lines(out)[16:]] == ["analytic"] * 8


def test_an_executor_that_breaks_is_an_outcome(tmp_path: Path) -> None:
    report = study(tmp_path / "s", grasps=2, executors={"analytic": analytic, "physics": breaking})
    assert report.figures["n"] == 0
    assert report.figures["errors"][0]["error"] == "ValueError: as bad as can be"


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ({"seed": 1}, "was begun with seed 0, not 1"),
        ({"objects": "apple/small"}, "was begun with other objects"),
        ({"resume": False}, "holds a study already"),
        ({"grasps": 0}, "grasps is 0; it must be at least 1"),
        ({"jobs": 0}, "jobs is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"executors": {"analytic": analytic}}, "must be"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, rest: dict, says: str) -> None:  # type: ignore[type-arg]
    out = tmp_path / "s"
    study(out, grasps=1)
    with pytest.raises(InputError, match=says):
        study(out, **({"grasps": 1} | rest))


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="no study was begun in it"):
        study(tmp_path)
    with pytest.raises(InputError, match="is no folder"):
        study(tmp_path / "notes.txt")


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    out = tmp_path / "s"
    study(out, grasps=2)
    text = (out / RECORDS).read_text(encoding="utf-8").splitlines(keepends=True)
    (out / RECORDS).write_text(text[0] + "{}\n" + text[1], encoding="utf-8")
    with pytest.raises(InputError, match=r"records.jsonl:2: is no record"):
        read_entries(out / RECORDS)


def test_a_whole_line_that_lacks_only_its_end_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "s"
    study(out, grasps=2)
    text = (out / RECORDS).read_bytes()
    (out / RECORDS).write_bytes(text[:-1])
    assert len(read_entries(out / RECORDS)[0]) == 4
    assert study(out, grasps=2).made == 0
    assert (out / RECORDS).read_bytes() == text


def test_a_full_disk_is_told_and_leaves_no_half_line(tmp_path: Path) -> None:
    out = tmp_path / "s"
    study(out, grasps=2)
    text = (out / RECORDS).read_bytes()
    script = (
        "import json, resource, sys\n"
        "from pathlib import Path\n"
        "from sagehand.errors import InputError\n"
        "from sagehand.world.agree.store import HEADER, RECORDS, Records\n"
        f"out = Path({str(out)!r})\n"
        "with Records(out, json.loads((out / HEADER).read_text())) as records:\n"
        f"    resource.setrlimit(resource.RLIMIT_FSIZE, ({len(text) + 10}, resource.RLIM_INFINITY))\n"
        "    try:\n"
        "        records.append(list(records.entries.values()))\n"
        "    except InputError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith(f"{out / RECORDS}: the disk is full")
    assert (out / RECORDS).read_bytes() == text


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    from sagehand.world.agree.store import Records

    out = tmp_path / "s"
    study(out, grasps=1)
    with Records(out, json.loads((out / HEADER).read_text())), pytest.raises(InputError, match="is writing into it"):
        study(out, grasps=1)


def test_digests_are_stable_and_differ(tmp_path: Path) -> None:
    assert code_digest("analytic") == code_digest("analytic") != code_digest("physics")
    assert len(data_digest()) == 16


def test_ctrl_c_keeps_what_was_made_and_the_rest_follows(tmp_path: Path) -> None:
    out = tmp_path / "s"

    def stop(done: int, total: int) -> None:
        if done == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        study(out, on_progress=stop)
    kept = len(lines(out))
    assert 6 <= kept < 16
    study(out)
    assert len(lines(out)) == 16


@pytest.mark.slow
def test_a_killed_run_in_two_processes_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("frankik")
    out = tmp_path / "s"
    script = tmp_path / "go.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from test_world_agree_run import study\n"
        "if __name__ == '__main__':\n"
        f"    print(study(Path({str(out)!r}), grasps=60, jobs=2).made)\n"
    )
    first = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(out, 4)
    first.kill()
    first.wait()
    there = len(lines_so_far(out))
    assert there >= 4
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=180)
    assert int(done.stdout) <= 60 - there // 2 + 1
    assert len({(e.outcome.number, e.outcome.executor) for e in read_entries(out / RECORDS)[0]}) == 120


@pytest.mark.slow
def test_ctrl_c_in_two_processes_is_told_once(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("frankik")
    out, script = tmp_path / "s", tmp_path / "go.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from test_world_agree_run import study\n"
        "if __name__ == '__main__':\n"
        f"    study(Path({str(out)!r}), grasps=2000, jobs=2)\n"
    )
    going = subprocess.Popen(
        [sys.executable, str(script)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, process_group=0
    )
    wait_for(out, 4)
    os.killpg(going.pid, signal.SIGINT)  # as a terminal does: to every process
    _, said = going.communicate(timeout=90)
    assert said.count("Traceback") == 1
    assert said.endswith("KeyboardInterrupt\n")
    entries, whole = read_entries(out / RECORDS)
    assert whole == (out / RECORDS).stat().st_size
    assert 4 <= len(entries) < 4000


def wait_for(out: Path, count: int) -> None:
    until = time.monotonic() + 90
    while time.monotonic() < until and not ((out / RECORDS).exists() and len(lines_so_far(out)) >= count):
        time.sleep(0.1)


def lines_so_far(out: Path) -> list[str]:
    return (out / RECORDS).read_text(encoding="utf-8").splitlines()
