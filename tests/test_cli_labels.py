"""Labels and figures at the command line: what the library refuses, what cannot be read, what is said beside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from command_line import LIBRARY, enter, phone_base, phone_folder, photo, row, run, state
from folders import write_rows
from sagehand.cases import CaseBase
from sagehand.cli.learn import figures_text
from sagehand.judge.calibration import Calibration

LABEL = ["--set", "family=phone", "--set", "device=x1"]
ODD = LIBRARY.replace("preconditions: [closed]", "preconditions: [closed, closd]")  # no action makes it true


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(tmp_path, monkeypatch)
    photo(2, 9).save("q.png")
    phone_base(tmp_path)
    return Path("p.cases")


def test_add_and_correct_refuse_labels_outside_the_library(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(base)
    case = next(iter(json.loads(run("cases", "log", base, "--json").out)))["case"]
    wrong = ["--set", "next_action=prey"]
    words = (["cases", "add", base, "q.png", *LABEL, *wrong], ["cases", "correct", base, case, *wrong])
    for command in words:
        assert "unknown next action 'prey'" in run(*command, "--actions", "actions.yaml").error
    monkeypatch.setenv("SAGEHAND_ACTIONS", "actions.yaml")
    for command in words:
        assert "did you mean 'pry'?" in run(*command).error
    assert state(base) == before
    assert run("cases", "add", base, "q.png", *LABEL, "--set", "next_action=pry").code == 0
    assert run("cases", "correct", base, case, "--set", "next_action=pry").code == 0
    monkeypatch.delenv("SAGEHAND_ACTIONS")
    assert run("cases", "correct", base, case, *wrong).code == 0  # with no library nothing is known to be wrong
    assert run("cases", "correct", base, case, "--set", "state=open", "--actions", "actions.yaml").code == 0


@pytest.mark.parametrize(
    ("value", "words"),
    [("step=" + "9" * 5000, "too many digits"), ("note=" + "[" * 100_000 + "]" * 100_000, "nested too deeply")],
    ids=["digits", "nested"],
)
def test_values_that_no_json_reader_takes_are_one_line(base: Path, value: str, words: str) -> None:
    before = state(base)
    said = run("cases", "add", base, "q.png", *LABEL, "--set", value).error
    assert words in said
    assert len(said) < 200
    assert state(base) == before


def test_the_same_in_a_table_is_a_failed_row() -> None:
    folder = phone_folder(Path("phones"), views=1)
    start = '{"file_name": "s%dv0.png", "family": "phone", "device": "x1", "note": %s}'
    lines = [json.dumps(row(1, 0)), start % (2, "9" * 5000), start % (3, "[" * 100_000 + "]" * 100_000)]
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    ran = run("cases", "import", folder, "--into", "new.cases", "--embedder", "hash")
    assert ran.code == 1
    assert [line.split(": ")[1] for line in ran.err.splitlines()] == ["line 2", "line 3"]
    assert all(len(line) < 200 for line in ran.err.splitlines())


def test_what_looks_like_a_slip_in_the_library_is_said(base: Path) -> None:
    Path("odd.yaml").write_text(ODD)
    phone_folder(Path("phones"), views=1)
    photo(3, 40).save("phones/s1v0.png")
    for words in (
        ["cases", "import", "phones", "--into", "new.cases", "--embedder", "hash", "--actions", "odd.yaml"],
        ["cases", "check", base, "--actions", "odd.yaml", "--quick"],
        ["evaluate", "phones", "--cases", base, "--actions", "odd.yaml"],
    ):
        ran = run(*words)
        assert ran.code == 0, ran
        assert "warning: odd.yaml:" in ran.err
        assert "closd" in ran.err


def test_evaluate_on_pictures_of_the_base_points_to_check(base: Path) -> None:
    phone_folder(Path("phones"))
    ran = run("evaluate", "phones", "--cases", base, "--actions", "actions.yaml", "--json")
    assert (ran.code, ran.json["overlap"]) == (0, 12)
    assert ran.err.startswith("12 of 12 pictures are in the case base")
    assert "`sagehand cases check p.cases`" in ran.err


def test_evaluate_names_rows_that_the_library_does_not_know(base: Path) -> None:
    phone_folder(Path("phones"), views=1)
    write_rows(Path("phones"), [row(1, 0), row(2, 0, next_action="prey")])
    ran = run("evaluate", "phones", "--cases", base, "--actions", "actions.yaml")
    assert ran.code == 1
    assert "s2v0.png: unknown next action 'prey'" in ran.err


def test_the_cap_on_pixels_is_a_setting(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = phone_folder(Path("phones"), views=1)
    monkeypatch.setenv("SAGEHAND_MAX_PIXELS", "1000")
    before = state(base)
    for words in (
        ["cases", "import", folder, "--into", "new.cases", "--embedder", "hash"],
        ["cases", "add", base, "q.png", *LABEL],
        ["evaluate", folder, "--cases", base],
        ["cases", "reembed", base],
    ):
        ran = run(*words)
        assert ran.code == 2
        assert "3,072 pixels, more than the cap of 1,000 (scale it down, or raise the setting max_pixels)" in ran.err
    assert not Path("new.cases").exists()
    assert state(base) == before


def test_an_import_of_nothing_makes_no_case_base() -> None:
    folder = phone_folder(Path("phones"), views=1)
    for picture in folder.glob("*.png"):
        picture.write_bytes(b"no picture")
    ran = run("cases", "import", folder, "--into", "new.cases", "--embedder", "hash")
    assert ran.code == 2
    assert ran.out.splitlines()[0] == "0 cases added, 0 there already, 0 conflicts, 4 failed"
    assert ran.out.splitlines()[-1] == "case base: none was made"
    assert not list(Path().glob("*new.cases*"))


def test_a_calibration_by_device_is_kept_unless_another_is_asked_for(base: Path) -> None:
    def left_out() -> str:
        with CaseBase.open(base) as opened:
            return Calibration.from_dict(opened.calibration() or {}).leave_out

    assert run("cases", "calibrate", base, "--leave-out", "device").code == 0
    folder = phone_folder(Path("more"), views=1)
    shutil.copy("q.png", folder)
    write_rows(folder, [{**row(2, 9), "file_name": "q.png"}])
    assert run("cases", "import", folder, "--into", base).code == 0
    assert left_out() == "device"
    assert run("cases", "calibrate", base).code == 0
    assert left_out() == "device"
    assert run("cases", "reembed", base).code == 0
    assert left_out() == "device"
    assert run("cases", "import", folder, "--into", base, "--leave-out", "case").code == 0
    assert left_out() == "case"


def figures(**more: Any) -> dict[str, Any]:
    none = {"accuracy": None, "wilson95": None, "right": None, "n": 1, "reason": "r"}
    arm = {"next_action": none, "device": none, "step": none, "mean_rank": None}
    found = {
        a: {"only_sagehand": 40, f"only_{a}": 0, "p_value": 1.82e-12}
        for a in ("photo_only", "context_only", "majority")
    }
    arms = dict.fromkeys(found, arm)
    counts = {"n": 1, "answered": 1, "out_of_domain": 0, "unranked": 1, "rank_of": "r"}
    return {**counts, **arm, **arms, "discordant": found, **more}


def test_figures_in_words() -> None:
    control = {"gain": 0.3, "gain_shuffled_mean": 0.0, "shuffles": 20, "p_value": 0.0476}
    text = figures_text(figures(leave_out="case", control=control))
    assert "+40 −0, p < 0.0001" in text
    assert "the previous action adds +0.300 over the rest of the evidence" in text
    assert "context adds" not in text
    assert [line for line in text.splitlines() if line.startswith("majority counts without the query's own case")]
    assert "majority counts" not in figures_text(figures())
