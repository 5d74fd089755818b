"""``predict`` with a model: the flags, what is printed and written, and what is told in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, enter, phone_base, photo, run
from sagehand.demo import cell_folder
from vlm_servers import stand_in, tell


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    enter(tmp_path, monkeypatch)
    phone_base(tmp_path)
    photo(2, 9).save("q.png")
    return tmp_path


@pytest.fixture
def server() -> Iterator[str]:
    with stand_in("vllm", seed=4) as url:
        yield url


def ask(url: str, *flags: object) -> Ran:
    named = ("--base-url", url, "--model", "stand-in", "--domain-level", "0")
    return run(
        "predict", "q.png", "--cases", "p.cases", "--actions", "actions.yaml", "--previous", "unscrew", *named, *flags
    )


def answers(url: str, **more: Any) -> None:
    predicted = {"previous_action": "unscrew", "next_action": "pry", "remaining_actions": ["pry"], "is_last": False}
    tell(
        url,
        "/answers",
        {"BoolGradeImage": {"match": False}, "PredictActions": predicted | {"device_class": "phone"}, **more},
    )


def test_a_guided_decision_with_its_page_and_its_json(bench: Path, server: str) -> None:
    answers(server)
    ran = ask(server, "--method", "guided", "--json", "--report", "out/guided.html")
    assert ran.code == 0, ran
    doc = ran.json
    assert (doc["next_action"], doc["method"], doc["judge"]) == ("pry", "guided", "vlm:stand-in")
    assert doc["search"]["counts"]["GradeImage"] == 8
    assert set(doc["usage"]) == {"calls", "prompt", "completion", "seconds", "cached"}
    assert doc["usage"]["calls"] > 9
    assert (doc["guard"], doc["saved"], doc["failure"]) == ("on", None, None)
    assert doc["model"]["name"] == "stand-in"
    assert "How the case was found" in (bench / "out" / "guided.html").read_text()
    told = run("decisions", "show", "p.cases", doc["decision"])
    assert "search: " in told.out
    assert "calls" in told.out


def test_the_search_is_told_what_it_is_told(bench: Path, server: str) -> None:
    answers(server)
    flags = ("--search", "first_look=off", "--search", "images_per_step=1", "--faithful")
    doc = ask(server, "--method", "guided", *flags, "--json").json
    assert doc["search"]["order"] == "one by one"
    assert doc["search"]["counts"]["GradeImage"] == 4
    assert "BoolGradeImage" not in doc["search"]["counts"]


def test_zero_shot_single_and_the_cascade(bench: Path, server: str) -> None:
    answers(server)
    zero = ask(server, "--method", "zero-shot")
    assert "because: the model says so from the picture alone" in zero.out
    assert "candidate " not in zero.out
    assert ask(server, "--json").json["usage"]["calls"] == 1, "single asks once"
    run("cases", "calibrate", "p.cases")
    saved = ask(server, "--method", "guided", "--ask-below", "0.01", "--json").json
    assert saved["usage"]["calls"] == 0
    assert saved["saved"]["rounds"] == ["search", "predict"]
    assert "not asked of the model: search, predict" in ask(server, "--method", "guided", "--ask-below", "0.01").out


def test_a_deadline_and_a_dead_server_ask_the_operator_and_end_well(bench: Path) -> None:
    with stand_in("vllm", "hang=1") as url:
        ran = ask(url, "--method", "guided", "--seconds", "0.5")
    assert ran.code == 0, ran
    assert ran.out.startswith("ask the operator\nbecause: no decision at the deadline")
    ran = ask("http://127.0.0.1:9/v1", "--seconds", "3", "--json")
    assert (ran.code, ran.json["failure"]["kind"]) == (0, "Unreachable")


def test_guard_off_is_marked(bench: Path, server: str) -> None:
    answers(server)
    doc = ask(server, "--guard", "off", "--json").json
    assert (doc["guard"], doc["next_action"], doc["needs_confirmation"]) == ("off", "pry", True)


def test_answers_are_kept_in_the_file_that_the_settings_name(
    bench: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(server)
    monkeypatch.setenv("SAGEHAND_VLM_CACHE", "replies.sqlite")
    assert ask(server, "--json").json["usage"]["calls"] == 1
    again = ask(server, "--json").json
    assert (again["usage"]["calls"], again["usage"]["cached"]) == (0, 1)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--method", "guided"), "guided prediction asks a vision-language model, and none is set up"),
        (("--method", "zero-shot"), "zero-shot prediction asks a vision-language model"),
        (("--base-url", "http://127.0.0.1:9/v1"), "no model was named"),
        (("--model", "m"), "no server was named for the model 'm'"),
        (("--search", "leafs=3"), "did you mean 'leaves'"),
        (("--search", "leaves"), "is no NAME=VALUE"),
        (("--search", "leaves=x"), "not a whole number"),
        (("--search", "first_look=maybe"), "neither on nor off"),
        (("--search", "leaves=0"), "leaves of the search is 0"),
        (("--guard", "maybe"), "unknown guard 'maybe'"),
        (("--prompts", "nowhere"), "nowhere: is no folder of prompts"),
        (("--seconds", "0"), "--seconds"),
        (("--calls", "0"), "calls 0 is not above 0"),
        (("--ask-below", "2"), "--ask-below"),
    ],
)
def test_what_cannot_be_is_one_line(bench: Path, flags: tuple[str, ...], words: str) -> None:
    ran = run("predict", "q.png", "--cases", "p.cases", "--actions", "actions.yaml", *flags)
    assert words in ran.error


def test_without_a_model_nothing_of_the_vlm_is_imported(bench: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys\nfrom sagehand.cli import main\n"
        "main(['predict', 'q.png', '--cases', 'p.cases', '--actions', 'actions.yaml'])\n"
        "print([m for m in sys.modules if m == 'openai' or m.startswith(('sagehand.vlm.ask', 'sagehand.judge.vlm_tools'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_evaluate_scores_a_method_that_asks_a_model(bench: Path) -> None:
    cell = cell_folder()
    run("cases", "import", cell, "--into", "demo.cases")
    asked = ("evaluate", cell / "queries", "--cases", "demo.cases", "--actions", cell / "actions.yaml", "--json")
    with stand_in() as url:
        ran = run(*asked, "--base-url", url, "--model", "stand-in", "--ask-below", "0.95")
    figures = ran.json
    assert ran.code == 0
    assert figures["method"] == "single"
    assert "vlm:stand-in" in figures["judge"]
    assert figures["saved"] > 0
    assert 0 < figures["usage"]["calls"] <= 4 * (figures["n"] - figures["saved"])


def test_a_model_of_this_process_that_is_not_there_is_named(bench: Path) -> None:
    pytest.importorskip("transformers", reason="the torch extra is not installed")
    ran = run("predict", "q.png", "--cases", "p.cases", "--model", "dir:nowhere", "--method", "zero-shot")
    assert ran.code == 2
    assert "nowhere" in ran.err


def test_the_cost_is_told_before_anything_is_asked(bench: Path, server: str) -> None:
    cell = cell_folder()
    run("cases", "import", cell, "--into", "demo.cases")
    asked = ("evaluate", cell / "queries", "--cases", "demo.cases", "--estimate", "--json")
    named = ("--base-url", server, "--model", "stand-in")
    single = run(*asked, *named).json
    guided = run(*asked, *named, "--method", "guided").json
    assert single["least"] == single["most"]
    assert single["least"]["calls"] == single["pictures"] == 23
    assert guided["least"]["calls"] == 2 * 23
    # 3 devices of 6, 5 and 6 steps, two pictures a step: 34 gradings, 3 leaf scores, one word on expanding, 30 comparisons
    assert guided["most"]["calls"] == 23 * (1 + 34 + 3 + 1 + 30 + 1)
    assert guided["most"]["prompt"] > 20 * guided["least"]["prompt"]
    assert "no model was named" in run(*asked).err
