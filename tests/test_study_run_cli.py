"""``sagehand study run``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from command_line import enter
from sagehand.cli import study_run
from sagehand.errors import InputError, NeedsVlm
from sagehand.study.run import runner
from sagehand.study.run.runner import RunInterrupted, RunReport
from study_runs import study_folder

PLAN = """\
name: a
defaults: {embedder: hash, crop: none}
seeds: [0, 1]
arms: {random: {guard: false}, majority: }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(tmp_path, monkeypatch)
    (tmp_path / "plan.yaml").write_text(PLAN)
    study_folder(tmp_path / "data", views=3)
    return tmp_path


def call(*words: str) -> Any:
    app = typer.Typer()
    study_run.register(app)
    app.command("other")(lambda: None)  # with one command alone typer makes no group
    return CliRunner().invoke(app, ["run", "plan.yaml", "--out", "run", *words], catch_exceptions=False)


def test_a_run_as_json() -> None:
    done = call("--data", "data", "--json")
    assert done.exit_code == 0
    doc = json.loads(done.stdout)
    assert (doc["folder"], doc["answered"], doc["missing"], list(doc["arms"])) == ("run", 24, 0, ["random", "majority"])
    assert doc["arms"]["majority"]["n"] == 12
    assert {"right", "accuracy", "failures", "errors", "seconds", "calls", "tokens"} <= set(doc["arms"]["majority"])


def test_a_run_as_text_and_chosen_arms_and_seeds() -> None:
    done = call("--data", "data", "--arms", "majority", "--seeds", "1", "--jobs", "2")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        "arm",
        "n",
        "right",
        "next",
        "action",
        *["abstained", "failures", "errors", "seconds", "calls", "tokens"],
    ]
    assert lines[1].split()[:2] == ["majority", "6"]
    assert lines[2:] == ["6 items answered now, 0 missing", "run: run"]
    assert json.loads(call("--data", "data", "--json").stdout)["answered"] == 18


def test_an_item_that_cannot_be_answered_is_told_by_the_exit_code(folder: Path) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace("majority: ", "nearest: {protocol: paper, guard: false}"))
    call("--data", "data", "--arms", "nearest", "--seeds", "0", "--json")
    (folder / "run" / "records.jsonl").unlink()
    for picture in (folder / "data").glob("*_v0.jpg"):
        picture.write_bytes(b"\xff\xd8\xff" + b"0" * (picture.stat().st_size - 3))  # the base is there; queries are not
    done = call("--data", "data", "--arms", "nearest", "--seeds", "0", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["arms"]["nearest"]["errors"] == 6


def test_items_of_a_base_that_cannot_be_built_are_told_too(folder: Path) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace("majority: ", "nearest: {guard: false}"))
    for picture in (folder / "data").glob("*.jpg"):
        picture.write_bytes(b"x")
    done = call("--data", "data", "--arms", "random,nearest", "--seeds", "0")
    assert done.exit_code == 1
    assert "6 items answered now, 6 missing" in done.stdout
    assert "the case base of nearest, seed 0: 12 of 12 pictures cannot be used" in done.stderr


def test_errors_among_training_pictures_are_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = {"n": 2, "right": 2, "accuracy": 1.0, "abstained": 0, "failures": 0, "errors": 0}
    total = {**fine, "seconds": 0.1, "calls": 0, "tokens": 0}
    doc = {"net": {**total, "subsets": {"train": total, "validation": {**total, "errors": 1}}}}
    monkeypatch.setattr(runner, "run_study", lambda *_, **__: RunReport(Path("run"), doc, 6, 0, 1.0))
    done = call("--data", "data")
    assert done.exit_code == 1
    assert "failures and errors count as wrong; ask again with --retry-failed" in done.stdout
    doc["net"]["subsets"]["validation"]["errors"] = 0
    assert call("--data", "data").exit_code == 0


def test_ctrl_c_leaves_with_130_and_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> RunReport:
        raise RunInterrupted(RunReport(Path("run"), {}, 3, 21, 1.0))

    monkeypatch.setattr(runner, "run_study", stopped)
    done = call("--data", "data", "--json")
    assert done.exit_code == 130
    assert done.stderr == "stopped; 21 items are missing. Run the same command again to go on\n"
    assert json.loads(done.stdout)["missing"] == 21


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no pictures were named"),
        (("--data", "data", "--seeds", "x"), "--seeds 'x' is not whole numbers"),
        (("--data", "data", "--arms", ","), "--arms ',' names nothing"),
        (("--data", "data", "--jobs", "0"), "jobs is 0"),
    ],
)
def test_what_cannot_be_run_is_told(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(*words)


def test_the_plans_model_goes_over_the_settings_and_under_the_flags(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sagehand.toml").write_text('base_url = "http://file/v1"\nvlm_model = "of-file"\nvlm_seconds = 5\n')
    (folder / "plan.yaml").write_text(PLAN + "vlm: {model: of-plan, seconds: 9}\n")
    seen: dict[str, Any] = {}

    def note(*_: object, **options: Any) -> RunReport:
        seen.update(options)
        return RunReport(Path("run"), {}, 0, 0, 0.0)

    monkeypatch.setattr(runner, "run_study", note)
    call("--data", "data", "--base-url", "http://flag/v1")
    settings = seen["settings"]
    assert (settings.base_url, settings.vlm_model, settings.vlm_seconds) == ("http://flag/v1", "of-plan", 9.0)
    call("--data", "data", "--model", "of-flag")
    assert seen["settings"].vlm_model == "of-flag"
    assert seen["settings"].base_url == "http://file/v1"


def test_an_arm_that_asks_a_model_without_one(folder: Path) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace("majority: ", "zero-shot: "))
    with pytest.raises(NeedsVlm, match="zero-shot"):
        call("--data", "data")
