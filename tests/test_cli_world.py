"""``sagehand world …``: what is printed, what is written, and what is told of a slip."""

from __future__ import annotations

import ast
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import enter, files_below, run
from sagehand import world
from sagehand.errors import MissingExtra
from sagehand.world.objects import load
from sagehand.world.objects.load import load_spec, object_names
from sagehand.world.scenes import scene_names

pytest.importorskip("frankik")
pytest.importorskip("mujoco")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)


def test_objects_are_listed() -> None:
    docs = run("world", "objects", "--json").json
    assert [d["name"] for d in docs] == object_names()
    tasks = run("world", "objects", "--group", "tasks", "--json").json
    assert len(tasks) == 12
    text = run("world", "objects", "--group", "tasks").out.splitlines()
    assert len(text) == 13
    cup = next(line for line in text if line.startswith("cup "))
    assert "0.118" in cup
    assert "rim, handle" in cup


def test_an_object_is_shown_with_its_sources() -> None:
    doc = run("world", "show", "cup", "--json").json
    assert set(doc["regions"]) == {"rim", "handle"}
    assert np.shape(doc["regions"]["rim"]["T_object_region"]) == (4, 4)
    assert "Calli" in doc["sources"]["mass_kg"]
    text = run("world", "show", "cup").out
    assert "Calli" in text
    assert "cup/small" in text
    small = run("world", "show", "cup/small", "--json").json
    assert small["size_m"][2] < doc["size_m"][2]


@pytest.mark.parametrize("name", object_names())
def test_an_instance_is_shown_by_the_name_it_goes_by(name: str) -> None:
    base = run("world", "show", name, "--json").json
    assert base["base"] == name
    rows = run("world", "show", name).out.splitlines()
    for instance, title in base["instances"].items():
        assert any(row.split()[0] == f"{name}/{instance}" for row in rows if row.strip())
        doc = run("world", "show", f"{name}/{instance}", "--json").json
        assert (doc["base"], doc["title"]) == (name, title)
        assert not any(key.startswith("instances.") for key in doc["sources"])
        own = load_spec(name).instances[instance]
        for key in ("mass_kg", "friction", "f_safe_n"):
            given, told = getattr(own, key), doc["sources"][key]
            if given is not None:
                assert told == base["sources"][f"instances.{instance}.{key}"]
            elif doc[key] == pytest.approx(base[key], abs=1e-3):
                assert told.endswith(base["sources"][key])
            else:  # another number never has the object's source as it is
                assert told.startswith("scaled, ")
        if doc["size_m"] != base["size_m"]:
            assert doc["sources"]["size_m"].startswith("scaled, lengths by ")


def test_the_instance_of_a_name_with_a_dash_and_its_own_source() -> None:
    text = run("world", "show", "wine-glass").out
    assert "wine-glass/tall" in text
    told = run("world", "show", "wine-glass/plastic", "--json").json["sources"]
    assert "plastic" in told["friction"]
    assert "plastic" in told["f_safe_n"]
    assert "density by 0.4" in told["mass_kg"]


def test_an_instance_of_a_file_of_ones_own() -> None:
    shipped = next(p for p in Path(load.__file__).parent.rglob("wine-glass.yaml"))
    Path("mine.yaml").write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    assert "mine.yaml/tall" in run("world", "show", "mine.yaml").out
    assert run("world", "show", "mine.yaml/tall", "--json").json["title"] == "Champagne flute"


def test_units_are_told_in_the_help_and_in_the_keys() -> None:
    text = " ".join(run("world", "try", "--help").out.split())
    for told in ("--force NEWTON", "[N]", "--width MM", "[mm]", "--yaw DEG", "[degrees]", "[px]"):
        assert told in text
    doc = run("world", "try", "cube", "--json").json
    assert {"run_s", "setup_s"} <= set(doc)
    assert not {"seconds", "setup_seconds"} & set(doc)


def test_scenes_are_listed() -> None:
    docs = run("world", "scenes", "--json").json
    assert [d["name"] for d in docs] == scene_names()
    assert all(d["title"] and d["objects"] for d in docs)
    assert "cup-near-vase" in run("world", "scenes").out


def test_a_try_prints_outcome_quality_and_what_was_noticed() -> None:
    ran = run("world", "try", "cup", "--grasp", "rim", "--json")
    assert (ran.code, ran.err) == (0, "")
    doc = ran.json
    assert doc["success"] is True
    assert doc["grasp"]["region"] == "rim"
    assert 0 < doc["quality"]["total"] <= 1
    assert {"reached", "finger_width_m", "held_in_view", "clock_s"} <= set(doc["observation"])
    text = run("world", "try", "cup", "--grasp", "rim").out
    assert text.startswith("cup, rim, analytic: success")
    assert "noticed  reached, contact" in text
    assert all(len(line) < 130 for line in text.splitlines())


def test_a_failed_grasp_is_a_result() -> None:
    ran = run("world", "try", "cube", "--offset", "0,200,0", "--json")
    assert ran.code == 0
    assert ran.json["success"] is False
    assert ran.json["failure"] is not None
    assert ran.json["why"]
    assert "failure: " in run("world", "try", "cube", "--force", "0.05").out


def test_the_printed_grasp_can_be_edited_and_handed_back() -> None:
    first = run("world", "try", "apple", "--seed", "4", "--json")
    Path("g.json").write_text(first.out)
    again = run("world", "try", "apple", "--seed", "4", "--grasp", "g.json", "--json").json
    assert again["grasp"] == first.json["grasp"]
    assert again["success"] == first.json["success"]


def test_noise_is_drawn_from_the_seed() -> None:
    def tried(*more: str) -> dict[str, object]:
        doc = run("world", "try", "cube", *more, "--json").json
        return {k: v for k, v in doc.items() if k not in ("run_s", "setup_s")}

    noisy = ("--noise", "1", "--seed", "3")
    assert tried(*noisy) == tried(*noisy)
    assert tried(*noisy)["applied_n"] != tried("--seed", "3")["applied_n"]


def test_a_target_in_a_scene_goes_by_its_name_there() -> None:
    doc = run("world", "try", "apple", "--scene", "clear-two-cups", "--seed", "1", "--json").json
    assert doc["target"] == "apple"
    Path("s.yaml").write_text(
        "objects: [{object: cube, name: left, at_m: [0.5, 0.1]}, {object: cube, at_m: [0.5, -0.1]}]"
    )
    doc = run("world", "try", "left", "--scene", "s.yaml", "--json").json
    assert (doc["target"], doc["object"], doc["success"]) == ("left", "cube", True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("show cub", "did you mean 'cube' or 'cup'?"),
        ("show cup/smal", "did you mean 'small'?"),
        ("objects --group task", "tasks"),
        ("try cub", "did you mean 'cube' or 'cup'?"),
        ("try cup --grasp rimm", "did you mean 'rim'?"),
        ("try cup --grasp none.json", "none.json: cannot be read"),
        ("try cup --force 200", "the force is 200 N; the hand of panda goes from 0 to 70 N"),
        ("try cup --force nan", "the force is nan N"),
        ("try cup --width 99", "the opening is 99 mm; the hand of panda goes from 0 to 80 mm"),
        ("try cup --offset 1,2", "write three numbers in mm"),
        ("try cup --offset 1,2,nan", "each from -1000 to 1000 mm"),
        ("try cup --yaw inf", "--yaw is inf"),
        ("try cup --noise -1", "the noise scale is -1"),
        ("try cup --executor physic", "did you mean 'physics'?"),
        ("try cup --executor physics --faithful", "use the analytic executor"),
        ("try cup --robot pand", "did you mean 'panda'?"),
        ("try vase --scene filled-cup", "unknown object of the scene 'vase'; known: cup"),
        ("try cup --scene filed-cup", "did you mean 'filled-cup'?"),
        ("try cup --scene none.yaml", "none.yaml: cannot be read"),
        ("try cup --animate a.avi", "a film ends in .gif or .mp4"),
        ("render cup-near-vas --out a.png", "did you mean 'cup-near-vase'?"),
        ("render cup --out a.jpg", "pictures are written as PNG"),
        ("render cup --out a.png --depth d.tif", "pictures are written as PNG"),
        ("render cup --out a.png --depth a.png", "a.png: two pictures cannot be written to one file"),
        ("render cup --out a.png --depth d.png --segmentation ./d.png", "two pictures cannot be written to one file"),
        ("try cup --size 96x64", "--size is the film's, and none is asked for"),
        ("render cup --out a.png --size big", "write 640x480"),
        ("render cup --out a.png --size 10000x10", "each side from 16 to 4096 pixels"),
        ("render cup --out a.png --camera top", "unknown view 'top'; known: cell, close, side"),
        ("view cup --port 99999", "the port is 99999"),
        ("agree --out d --objects ,", "write names with commas between"),
        ("agree --out d --objects cub", "did you mean"),
    ],
)
def test_a_slip_is_one_line_that_says_what_to_do(words: str, told: str) -> None:
    assert told in run("world", *words.split()).error
    assert files_below(Path()) == set()


def test_importing_the_commands_brings_in_nothing_heavy() -> None:
    code = "import sagehand.cli.world, sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "mujoco", "scipy", "PIL", "yaml", "viser"} & set(done.stdout.split())


@pytest.mark.render
def test_a_picture_its_depth_and_its_segmentation() -> None:
    ran = run(
        *("world", "render", "cup-near-vase", "--seed", "1", "--size", "160x120", "--out", "o/a.png"),
        *("--depth", "o/d.png", "--segmentation", "o/s.png", "--json"),
    )
    assert (ran.code, ran.err) == (0, "")
    doc = ran.json
    colour, depth, owner = (np.asarray(Image.open(f"o/{n}.png")) for n in "ads")
    assert (colour.shape, depth.shape, owner.shape) == ((120, 160, 3), (120, 160), (120, 160))
    assert depth.dtype in (np.uint16, np.int32)
    numbers = {entry["name"]: int(n) for n, entry in doc["names"].items()}
    assert set(numbers) == {"table", "robot", "cup", "vase"}
    for number in numbers.values():
        assert (owner == number).sum() == doc["names"][str(number)]["pixels"] > 0
    # the cup's depth in millimetres is its distance along the camera's axis
    T = np.linalg.inv(np.array(doc["T_world_camera"]))
    along = (T @ np.array(doc["objects"]["cup"]["T_world_object"]))[2, 3]
    assert np.median(depth[owner == numbers["cup"]]) == pytest.approx(1000 * along, abs=90)
    text = run("world", "render", "cup", "--size", "64x48", "--out", "b.png", "--camera", "side")
    assert text.out == "b.png\n"


@pytest.mark.render
@pytest.mark.slow
@pytest.mark.parametrize("executor", ["analytic", "physics"])
def test_a_try_is_filmed(executor: str) -> None:
    words = ("world", "try", "cup", "--grasp", "rim", "--executor", executor, "--animate", "out/mug.gif")
    ran = run(*words, "--size", "96x64", "--json")
    assert ran.code == 0
    assert ran.json["success"] is True
    assert ran.err.startswith("wrote out/mug.gif")
    with Image.open("out/mug.gif") as film:
        assert film.n_frames > 20
        assert film.size == (96, 86)


def test_the_time_of_a_film_is_not_the_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    from sagehand.world import ScriptedExecutor, animate, tries

    class Slow:
        def __init__(self, *rest: object) -> None: ...

        def __enter__(self) -> Slow:
            return self

        def __exit__(self, *rest: object) -> None: ...

        def __call__(self, data: object, model: object, t: float) -> None:
            time.sleep(0.5)

        def finish(self, result: object) -> list[object]:
            return []

    def filmed(name: str, robot: object, *, faithful: bool = False, watch: object = None) -> ScriptedExecutor:
        def answer(scene: object, command: object) -> bool:
            watch(None, None, 0.0)  # type: ignore[operator]
            return True

        return ScriptedExecutor(answer)

    monkeypatch.setattr(animate, "Recorder", Slow)
    monkeypatch.setattr(animate, "animate", lambda *rest: None)
    monkeypatch.setattr(tries, "executor_for", filmed)
    doc = run("world", "try", "cube", "--executor", "physics", "--animate", "a.gif", "--json").json
    assert 0 <= doc["run_s"] < 0.4


def test_an_agreement_without_pictures_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from sagehand.world.agree import run as study
    from sagehand.world.agree.report import AgreementReport

    report = AgreementReport("d", {}, "# summary", notes=("no pictures: no GL driver (set MUJOCO_GL=egl)",))
    monkeypatch.setattr(study, "run_agreement", lambda *rest, **more: report)
    ran = run("world", "agree", "--out", "d")
    assert (ran.code, ran.out.strip()) == (0, "# summary")
    assert "no pictures: no GL driver (set MUJOCO_GL=egl)\n" in ran.err
    assert run("world", "agree", "--out", "d", "--json").json["notes"] == list(report.notes)


def test_without_mujoco_a_try_by_statics_says_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from sagehand.world import model
    from sagehand.world.envelope import Envelope
    from sagehand.world.robot.description import load_robot

    monkeypatch.setattr(model.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="checking for collisions needs an optional package"):
        Envelope(load_robot())


def test_the_worlds_public_names_are_handed_out_lazily() -> None:
    stub = ast.parse(Path(world.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    typed = {(a.name, n.module) for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert typed == set(world._HOME.items())
    for name in world.__all__:
        assert getattr(world, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = world.nothing_like_this  # type: ignore[attr-defined]
    code = "import sagehand.world, sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "mujoco", "scipy", "yaml"} & set(done.stdout.split())


def test_the_example_runs() -> None:
    script = Path(__file__).resolve().parents[1] / "examples" / "grasp.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=120)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["analytic lifted, held and shaken", "physics lifted, held and shaken"]
    assert "held_in_view=True" in lines[2]
    assert "PutTruth(success=True" in done.stdout


@pytest.mark.slow
def test_a_small_agreement_study() -> None:
    ran = run("world", "agree", "--grasps", "4", "--objects", "cube", "--jobs", "1", "--out", "d", "--json")
    assert ran.code == 0
    assert json.dumps(ran.json)
    assert "d/summary.md" in files_below(Path())


@pytest.mark.slow
def test_the_view_serves_until_ctrl_c() -> None:
    pytest.importorskip("viser")
    pytest.importorskip("trimesh")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = "import sys; from sagehand.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-u", "-c", code, "world", "view", "cup", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        late = threading.Timer(90, child.kill)
        late.start()
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == f"http://127.0.0.1:{port}\n"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                assert answer.status == 200
            child.send_signal(signal.SIGINT)
            assert child.wait(20) == 0
        finally:
            late.cancel()
            child.kill()


@pytest.mark.slow
@pytest.mark.render
def test_a_try_is_filmed_as_mp4() -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    ran = run("world", "try", "cube", "--animate", "o/a.mp4", "--size", "161x121", "--json")
    assert (ran.code, ran.json["film"]) == (0, "o/a.mp4")
    read = [ffmpeg, "-v", "error", "-i", "o/a.mp4", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    pixels = np.frombuffer(subprocess.run(read, capture_output=True, check=True).stdout, np.uint8)
    frames = pixels.reshape(-1, 144, 162, 3)  # 121 rows and 22 of words, made even
    assert len(frames) > 40
    assert np.abs(frames[0].astype(int) - frames[-31]).mean() > 1  # the hand moved
