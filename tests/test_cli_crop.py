"""``sagehand crop``: every strategy, its files, and what it says when a picture, a flag or a model is no good."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from command_line import enter, files_below, run
from sagehand.picture import load
from vlm_servers import stand_in


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # no profile of the machine's own
    table()


def table(box: tuple[int, int, int, int] = (430, 310, 600, 450), colour: tuple[int, int, int] = (40, 45, 60)) -> Path:
    """A picture of 800 x 600: a device on a table."""
    image = Image.new("RGB", (800, 600), (190, 188, 180))
    ImageDraw.Draw(image).rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill=colour)
    image.save("table.png")
    return Path("table.png")


def overlap(first: list[int], second: tuple[int, int, int, int]) -> float:
    """Intersection over union of two boxes."""
    wide = min(first[2], second[2]) - max(first[0], second[0])
    high = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(wide, 0) * max(high, 0)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (first, second)]
    return shared / (sum(areas) - shared)


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_relief_is_cut_by_the_depth_image_that_is_named() -> None:
    depth = np.full((600, 800), 400, np.uint16)
    depth[120:260, 300:460] = 370  # what stands up is not what stands out
    Image.fromarray(depth).save("depth.png")
    doc = run("crop", "table.png", "--strategy", "relief", "--depth", "depth.png", "--depth-unit", "mm", "--json").json
    assert overlap(doc["box"], (300, 120, 460, 260)) > 0.6
    assert "stands up" in doc["reason"]


@pytest.mark.parametrize("strategy", ["none", "perceptual", "relief", "grid", "box"])
def test_every_strategy_runs_without_a_model(strategy: str) -> None:
    ran = run("crop", "table.png", "--strategy", strategy, "--json", "--out", "o/crop.png", "--report", "o/crop.html")
    assert ran.code == 0
    doc = ran.json
    left, top, right, bottom = doc["box"]
    assert doc["strategy"] == strategy
    assert doc["removal"] == pytest.approx(1 - (right - left) * (bottom - top) / (800 * 600), abs=1e-6)
    assert np.array_equal(load("o/crop.png").pixels, load("table.png").pixels[top:bottom, left:right])
    assert files_below(Path("o")) == {"crop.png", "crop.html"}
    assert ("crop: o/crop.png" in ran.err, "page: o/crop.html" in ran.err) == (True, True)
    assert ("the perceptual judge makes the moves" in ran.err) == (strategy in ("grid", "box"))
    page = Path("o/crop.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 2 + doc["turns"]
    if strategy != "none":
        assert left <= 430 < 600 <= right
        assert top <= 310 < 450 <= bottom
        assert doc["removal"] > 0.8


def test_the_text_tells_the_box_in_pixels_and_fractions() -> None:
    assert run("crop", "table.png", "--strategy", "truth", "--box", "200,150,300,75").out.splitlines() == [
        "box: left 200, top 150, right 500, bottom 225 (300 x 75 of 800 x 600 pixels)",
        "in fractions: x 0.250, y 0.250, width 0.375, height 0.125",
        "cut away: 95.3%",
        "because: the box or polygon that was given",
        "truth strategy",
    ]


def test_the_text_tells_the_turns() -> None:
    lines = run("crop", "table.png", "--strategy", "box").out.splitlines()
    assert lines[3].startswith("because: a region of ")
    assert lines[4:] == [
        "  turn 1, done: SetBoundingBoxParameters: the box now covers 7% of the picture",
        "  turn 2, finished: Finish: the view is the crop",
        "box strategy, perceptual judge, 2 of at most 5 turns",
    ]


def test_truth_takes_a_box_or_a_polygon() -> None:
    by_box = run("crop", "table.png", "--strategy", "truth", "--box", "100,50,300,200", "--json").json
    assert by_box["box"] == [100, 50, 400, 250]
    points = "100.5,50,399.2,60,300,249.9"
    by_polygon = run("crop", "table.png", "--strategy", "truth", "--polygon", points, "--json").json
    assert by_polygon["box"] == [100, 50, 400, 250]
    assert by_polygon["fractions"] == [0.125, 0.083333, 0.375, 0.333333]
    assert by_polygon["turns"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--strategy", "gird"], "unknown crop strategy 'gird'; known: box, grid, none, perceptual, relief, truth (did you"),
        (["--box", "1,2,3,4"], "--box and --polygon are for --strategy truth (leave them out)"),
        (["--strategy", "truth"], "--strategy truth takes either --box or --polygon (as in --box 120,80,400,300)"),
        (["--strategy", "truth", "--box", "1,2,3"], "--box '1,2,3' is no box"),
        (["--strategy", "truth", "--box", "1,2,3,0"], "--box '1,2,3,0' is no box"),
        (["--strategy", "truth", "--box", "1,2,3,4.5"], "--box '1,2,3,4.5' is no box"),
        (["--strategy", "truth", "--box", "1,2,x,4"], "--box '1,2,x,4' is not numbers with commas between"),
        (["--strategy", "truth", "--box", "700,2,300,40"], "reaches beyond the picture of 800x600 pixels"),
        (["--strategy", "truth", "--polygon", "1,2,3,4"], "--polygon '1,2,3,4' has 4 numbers"),
        (["--strategy", "truth", "--polygon", "1,2,3,4,5,nan"], "holds a number that is no pixel"),
        (["--out", "crop.gif"], "--out crop.gif: unknown kind of picture '.gif' (one of .png, .jpg, .jpeg)"),
        (["--strategy", "grid", "--turns", "0"], "--turns 0: at least one turn is needed"),
        (["--strategy", "grid", "--model", "m"], "no server was named for the model 'm'"),
    ],
    ids=lambda v: " ".join(v)[-40:] if isinstance(v, list) else "",
)  # fmt: skip
def test_what_cannot_be_used_is_one_line(words: list[str], said: str) -> None:
    assert said in run("crop", "table.png", *words, "--report", "page.html").error
    assert files_below(Path()) == {"table.png"}


def test_a_picture_that_is_not_there() -> None:
    assert "tabel.png: no such file" in run("crop", "tabel.png").error


def test_a_jpeg_is_written_by_its_name() -> None:
    assert run("crop", "table.png", "--out", "crop.JPG").code == 0
    assert Path("crop.JPG").read_bytes().startswith(b"\xff\xd8\xff")


def test_a_server_that_is_not_there_leaves_the_whole_picture_and_exit_code_1() -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    ran = run(
        "crop", "table.png", "--strategy", "box", "--base-url", url, "--model", "m", "--out", "crop.png", "--json"
    )
    assert ran.code == 1
    assert (ran.json["box"], ran.json["finished"]) == ([0, 0, 800, 600], False)
    assert ran.json["error"]["kind"] == "Unreachable"
    assert "the whole picture is taken" in ran.err
    assert load("crop.png").pixel_id == load("table.png").pixel_id


def test_a_model_finds_the_square_in_its_own_convention() -> None:
    """The model answers in thousandths; the box comes back in pixels of the original (paper A, Algorithm 2)."""
    found = 0
    with stand_in("vllm", see="square", boxes="0-1000", model="qwen3-vl-8b", time_scale=0.01) as url:
        flags = ["--strategy", "box", "--turns", 1, "--base-url", url, "--model", "qwen3-vl-8b", "--json"]
        for square in [(520, 80, 740, 290), (30, 400, 230, 590), (300, 200, 500, 420), (0, 0, 210, 180)]:
            table(square, (255, 0, 0))
            ran = run("crop", "table.png", *flags, "--report", "crop.html")
            assert ran.code == 0
            assert (ran.json["judge"], ran.json["cost"]["calls"]) == ("vlm:qwen3-vl-8b", 1)
            if ran.json["steps"][0]["tool"] == "SetBoundingBoxParameters":  # the stand-in may also finish at once
                assert overlap(ran.json["box"], square) > 0.95
                assert "SetBoundingBoxParameters" in Path("crop.html").read_text()
                found += 1
    assert found >= 2


@pytest.mark.parametrize("strategy", ["grid", "box"])
def test_a_model_with_every_fault_leaves_a_valid_crop(strategy: str) -> None:
    faults = "strings=.1,out_of_range=.1,nan=.1,missing_arg=.1,extra_args=.1,prose=.1,wrong_tool=.1,truncated=.1"
    with stand_in("ollama", faults, time_scale=0.01, seed=3) as url:
        ran = run("crop", "table.png", "--strategy", strategy, "--base-url", url, "--model", "stand-in", "--json")
    doc = json.loads(ran.out)
    assert ran.code in (0, 1)
    assert (ran.code == 1) == (doc["error"] is not None)
    left, top, right, bottom = doc["box"]
    assert 0 <= left < right <= 800
    assert 0 <= top < bottom <= 600
    assert 1 <= doc["turns"] <= 5
