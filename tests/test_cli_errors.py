"""Whatever the user gets wrong is one clear line on stderr and exit code 2, and the case base stays as it was."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from syrupy.assertion import SnapshotAssertion

from command_line import LIBRARY, enter, files_below, phone_base, phone_folder, photo, run, state
from folders import write_rows

LABEL = ("--set", "family=phone", "--set", "device=x1")
PREDICT = ("predict", "q.png", "--cases", "p.cases", "--actions", "actions.yaml")
MOVE = ("cases", "edit", "move-step", "p.cases", "phone", "x1")

BAD = {
    # what is not there, or is something else
    "no such folder": "cases import nowhere --into p.cases",
    "empty folder": "cases import empty --into p.cases",
    "no table": "cases import bare --into p.cases",
    "file for a folder": "cases import q.png --into p.cases",
    "two tables": "cases import both --into p.cases",
    "folder for a case base": "cases import phones --into empty",
    "place that cannot be made": "cases import phones --into q.png/x.cases",
    "no picture": "predict nowhere.png --cases p.cases",
    "no picture, near miss": "predict q.pgn --cases p.cases",
    "no image in the folder": "predict empty --cases p.cases",
    "no case base named": "predict q.png",
    "no case base": "predict q.png --cases nowhere.cases",
    "no case base but a picture": "cases tree q.png",
    "no case base but a database": "cases tree other.sqlite",
    "no case base but an empty file": "cases tree nothing.cases",
    "newer case base": "cases tree newer.cases",
    "cut off case base": "cases log cut.cases",
    "no action library": "predict q.png --cases p.cases --actions nowhere.yaml",
    "broken action library": "predict q.png --cases p.cases --actions broken.yaml",
    "no depth image": "predict q.png --cases p.cases --depth nowhere.png",
    "depth in 8 bits": "predict q.png --cases p.cases --depth grey.png",
    "depth of another size": "predict q.png --cases p.cases --depth small.png",
    "demo into a file": "demo --out q.png",
    "evaluate nothing": "evaluate empty --cases p.cases",
    "evaluate without labels": "evaluate unlabelled --cases p.cases",
    # names
    "previous action": [*PREDICT, "--previous", "unscrw"],
    "previous action without a library": "predict q.png --cases p.cases --previous unscrw",
    "history": [*PREDICT, "--history", "unscrew,prey"],
    "fact": [*PREDICT, "--fact", "batery_out"],
    "facts without a library": "predict q.png --cases p.cases --fact loose",
    "family": [*PREDICT, "--family", "phones"],
    "method": [*PREDICT, "--method", "zero_shot"],
    "method that needs a VLM": [*PREDICT, "--method", "zero-shot"],
    "embedder": "cases import phones --into new.cases --embedder hsah",
    "embedder to embed anew": "cases reembed p.cases --embedder hsah",
    "crop": "cases import phones --into new.cases --crop triangle",
    "crop to embed anew": "cases reembed p.cases --crop triangle",
    "leave out": "cases check p.cases --leave-out devices",
    "leave out to calibrate": "cases calibrate p.cases --leave-out devices",
    "leave out to import": "cases import phones --into new.cases --leave-out devices",
    "export format": "cases export p.cases out --format xml",
    "tree of a family": "cases tree p.cases --family phnoe",
    "tree of a device": "cases tree p.cases --device x2",
    # values
    "risk": [*PREDICT, "--risk", "2"],
    "risk not finite": [*PREDICT, "--risk", "nan"],
    "domain level": [*PREDICT, "--domain-level", "-1"],
    "box of three": [*PREDICT, "--box", "1,2,3"],
    "box of words": [*PREDICT, "--box", "a,b,c,d"],
    "box empty": [*PREDICT, "--box", "1,2,0,4"],
    "box outside": [*PREDICT, "--box=-1,2,3,4"],
    "box for another crop": [*PREDICT, "--box", "1,2,3,4"],
    "depth unit": "predict q.png --cases p.cases --depth-unit inch",
    "depth unit to import": "cases import phones --into new.cases --depth-unit inch",
    "depth for a folder": "predict phones --cases p.cases --depth q.png",
    "not UTF-8": [*PREDICT, "--object", "\udcff"],
    # a base of something else
    "another embedder": "cases import phones --into p.cases --embedder efficientnet-lite0",
    "another crop": "cases import phones --into p.cases --crop truth",
    # labels
    "add without a label": "cases add p.cases q.png --set family=phone",
    "add a label that is none": ["cases", "add", "p.cases", "q.png", "--set", "family"],
    "add no picture": ["cases", "add", "p.cases", "nowhere.png", *LABEL],
    "add what is there": ["cases", "add", "p.cases", "phones/s1v0.png", *LABEL, "--set", "step=3"],
    "add a bad step": ["cases", "add", "p.cases", "q.png", *LABEL, "--set", "step=first"],
    "correct a misspelt field": ["cases", "correct", "p.cases", "ID", "--set", "next_acton=pry"],
    "correct to a bad value": ["cases", "correct", "p.cases", "ID", "--set", "is_last=maybe"],
    "no such case": "cases show p.cases ffffffffffffffffffffffffffffffff",
    "no such case to retire": "cases retire p.cases xyz",
    "undo too much": "cases undo p.cases --steps 5",
    "undo far too much": f"cases undo p.cases --steps {10**30}",
    "no such decision": "decisions show p.cases 7",
    # edits
    "no such step": [*MOVE, "9", "1"],
    "no such device": "cases edit rename-step p.cases phone x2 1 open",
    "no such family": "cases edit rename-family p.cases phnoe tablet",
    "step past the end": "cases edit insert-step p.cases phone x1 9",
    "device that is taken": "cases edit rename-device p.cases phone x1 y1",
    "family that is taken": "cases edit rename-family p.cases phone tablet",
    "device taken in the other family": "cases edit move-device p.cases tablet y1 phone",
    # places that cannot be written
    "page over a folder": [*PREDICT, "--report", "empty"],
    "page under a file": [*PREDICT, "--report", "q.png/page.html"],
    "pages under a file": "predict phones --cases p.cases --report q.png",
    "items under a file": "cases check p.cases --quick --out q.png/items.jsonl",
    "picture over a folder": "cases show p.cases ID --picture empty",
    "page over the case base": [*PREDICT, "--report", "p.cases"],
    "items over the case base": "cases check p.cases --quick --out p.cases",
    "picture over the case base": "cases show p.cases ID --picture p.cases",
    "export into a full folder": "cases export p.cases phones",
    "export over a file": "cases export p.cases q.png",
}
SAYS_FIRST = {
    "page over a folder",
    "page over the case base",
    "page under a file",
    "pages under a file",
    "items under a file",
    "items over the case base",
}
"""These print their result before they find that it cannot be written as well: nothing that was worked out is lost."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the commands of this file name."""
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        enter(folder, patch)
        base = phone_base(folder)
        for family in ("tablet", "phone"):
            photo(1, len(family)).save("y.png")
            assert run("cases", "add", base, "y.png", "--set", f"family={family}", "--set", "device=y1").code == 0
        phone_folder(folder / "phones")
        photo(2, 9).save("q.png")
        photo(2, 9).convert("L").save("grey.png")
        Image.fromarray(np.full((24, 32), 500, dtype=np.uint16)).save("small.png")
        for name in ("empty", "bare", "both", "unlabelled"):
            Path(name).mkdir()
        shutil.copy("q.png", "bare/a.png")
        shutil.copy("q.png", "unlabelled/a.png")
        write_rows(Path("unlabelled"), [{"file_name": "a.png", "family": "phone", "device": "x1"}])
        for name in ("metadata.jsonl", "metadata.csv"):
            Path("both", name).touch()
        Path("broken.yaml").write_text(LIBRARY.replace("[loose]}\n", "[loose, nto closed]}\n", 1))
        Path("nothing.cases").touch()
        whole = base.read_bytes()
        Path("newer.cases").write_bytes(whole[:60] + (99).to_bytes(4, "big") + whole[64:])
        Path("cut.cases").write_bytes(whole[:5000])
        with contextlib.closing(sqlite3.connect("other.sqlite")) as connection:
            connection.execute("CREATE TABLE t (x)")
    return folder


@pytest.fixture
def bench(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in; the case base's path."""
    shutil.copytree(model, tmp_path / "bench")
    enter(tmp_path / "bench", monkeypatch)
    return Path("p.cases")


def newest_case(base: Path) -> str:
    return str(run("cases", "log", base, "--limit", "1", "--json").json[0]["case"])


@pytest.mark.parametrize("what", BAD)
def test_one_line_and_nothing_changed(what: str, bench: Path, snapshot: SnapshotAssertion) -> None:
    words = BAD[what].split() if isinstance(BAD[what], str) else list(BAD[what])
    words = [newest_case(bench) if word == "ID" else word for word in words]
    before, files = state(bench), files_below(Path())
    ran = run(*words)
    if what in SAYS_FIRST:
        assert ran.code == 2
        assert ran.out
        assert ran.err.startswith("error: ")
        assert ran.err.count("\n") == 1
        told = ran.err.rstrip("\n")
    else:
        told = ran.error
    assert told == snapshot
    assert state(bench) == before
    assert files_below(Path()) == files, "something half-written was left behind"


@pytest.mark.parametrize(
    "what", ["previous action", "embedder", "no such folder", "add what is there", "undo too much"]
)
def test_an_error_leaves_stdout_empty_with_json_too(what: str, bench: Path) -> None:
    words = BAD[what].split() if isinstance(BAD[what], str) else list(BAD[what])
    assert run(*words, "--json").error


USAGE = {
    "no such command": "predikt",
    "no such subcommand": "cases imprt",
    "no such option": "predict q.png --risky",
    "no picture given": "predict",
    "no number": "predict q.png --risk high",
    "no label given": "cases add p.cases q.png",
    "no target": "cases import phones",
    "undo nothing": "cases undo p.cases --steps 0",
    "step nought": "cases edit insert-step p.cases phone x1 0",
}


@pytest.mark.parametrize("what", USAGE)
def test_usage(what: str, bench: Path, snapshot: SnapshotAssertion) -> None:
    ran = run(*USAGE[what].split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == snapshot


def test_a_box_outside_the_picture(tmp_path: Path, bench: Path, snapshot: SnapshotAssertion) -> None:
    assert run("cases", "import", "phones", "--into", "t.cases", "--embedder", "hash", "--crop", "truth").code == 0
    assert run("predict", "q.png", "--cases", "t.cases", "--box", "60,2,30,4").error == snapshot
    assert run("predict", "q.png", "--cases", "t.cases", "--box", "10,2,30,40", "--json").json["query"]["box"] == [
        10,
        2,
        40,
        42,
    ]


def test_an_add_twice_names_both_cases(bench: Path) -> None:
    shutil.copy("q.png", "copy.png")
    assert run("cases", "add", bench, "q.png", *LABEL, "--set", "step=2").code == 0
    before = state(bench)
    told = run("cases", "add", bench, "copy.png", *LABEL, "--set", "step=3").error
    assert "copy.png [phone / x1 / step 3" in told
    assert "as q.png [phone / x1 / step 2" in told
    assert "another label" in told
    assert state(bench) == before


def test_a_picture_over_the_cap_of_the_settings(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGEHAND_MAX_PIXELS", "1000")
    assert "more than the cap of 1,000" in run("predict", "q.png", "--cases", bench).error
    assert "more than the cap of 1,000" in run("cases", "add", bench, "q.png", *LABEL).error
    monkeypatch.setenv("SAGEHAND_MAX_PIXELS", "4000")
    assert run("predict", "q.png", "--cases", bench, "--report", "page.html").code == 0


def test_ctrl_c_while_the_commands_load_is_one_line() -> None:
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from sagehand.cli import main\n"
        "sys.exit(main(['--help']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
