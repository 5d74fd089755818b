"""Every command on a small case base, in text and as JSON: what it prints, where, and what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import enter, files_below, phone_base, phone_folder, photo, row, run, state
from folders import write_rows
from sagehand.cases import CaseBase

CASE_FIELDS = {"id", "family", "device", "step", "next_action", "previous_action", "derived", "extra", "box", "retired"}


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(tmp_path, monkeypatch)
    phone_base(tmp_path)
    photo(2, 9).save("q.png")
    phone_folder(tmp_path / "phones")
    return Path("p.cases")


def some_case(base: Path, step: int = 1) -> str:
    with CaseBase.open(base) as opened:
        return next(case.id for case in opened.cases() if case.step == step)


BOTH = {
    "import": "cases import phones --into p.cases",
    "add": "cases add p.cases q.png --set family=phone --set device=x1 --set step=2",
    "correct": "cases correct p.cases ID --set state=open --reason seen",
    "retire": "cases retire p.cases ID --reason blurred",
    "undo": "cases undo p.cases",
    "log": "cases log p.cases",
    "tree": "cases tree p.cases",
    "tree thin": "cases tree p.cases --thin",
    "show": "cases show p.cases ID",
    "export": "cases export p.cases out",
    "check": "cases check p.cases --quick",
    "calibrate": "cases calibrate p.cases",
    "reembed": "cases reembed p.cases",
    "insert step": "cases edit insert-step p.cases phone x1 2 --name warm",
    "move step": "cases edit move-step p.cases phone x1 2 3",
    "rename step": "cases edit rename-step p.cases phone x1 2 open",
    "rename device": "cases edit rename-device p.cases phone x1 x9",
    "rename family": "cases edit rename-family p.cases phone mobile",
    "move device": "cases edit move-device p.cases phone x1 tablet",
    "predict": "predict q.png --cases p.cases --actions actions.yaml --previous unscrew",
    "predict a folder": "predict phones --cases p.cases",
    "evaluate": "evaluate phones --cases p.cases --actions actions.yaml",
    "decisions": "decisions list p.cases",
    "config": "config show",
    "embedders": "embedders",
    "doctor": "doctor --cases nowhere.cases",
}


@pytest.mark.parametrize("what", BOTH)
def test_text_and_json(what: str, base: Path, tmp_path: Path) -> None:
    words = [some_case(base) if word == "ID" else word for word in BOTH[what].split()]
    code = 1 if what == "doctor" else 0
    beside = "12 of 12 pictures are in the case base" if what == "evaluate" else ""
    spoken = run(*words, "--json")
    assert (spoken.code, spoken.err[: len(beside) or None]) == (code, beside)
    assert spoken.json is not None
    phone_base(tmp_path)  # as it was
    for name in files_below(Path("out")) if Path("out").exists() else ():
        Path("out", name).unlink()
    text = run(*words)
    assert (text.code, text.err[: len(beside) or None]) == (code, beside)
    assert text.out.strip()
    with pytest.raises(json.JSONDecodeError):
        json.loads(text.out)


def test_add_correct_retire_undo(base: Path) -> None:
    added = run("cases", "add", base, "q.png", "--set", "family=phone", "--set", "device=x1", "--set", "step=2",
                "--set", "history=[\"unscrew\"]", "--set", "operator=Ada", "--json").json  # fmt: skip
    assert added.keys() >= CASE_FIELDS
    assert (added["step"], added["history"], added["extra"]) == (2, ["unscrew"], {"operator": "Ada"})
    short = added["id"][:10]
    corrected = run("cases", "correct", base, short, "--set", "step=3", "--set", "operator=", "--json").json
    assert (corrected["step"], corrected["extra"]) == (3, {})
    assert run("cases", "retire", base, short, "--json").json["retired"] is True
    assert state(base)[0] == 12
    undone = run("cases", "undo", base, "--steps", "2", "--json").json
    assert [e["operation"] for e in undone] == ["undo", "undo"]
    again = run("cases", "show", base, short, "--json").json
    assert (again["step"], again["extra"], again["retired"]) == (2, {"operator": "Ada"}, False)
    log = run("cases", "log", base, "--limit", "5", "--json").json
    assert [e["operation"] for e in log] == ["undo", "undo", "retire", "correct", "add"]
    assert "step: 2 → 3" in run("cases", "log", base, "--limit", "5").out


def test_show_writes_the_very_file(base: Path) -> None:
    ran = run("cases", "show", base, some_case(base, 3), "--picture", "deep/p.png")
    assert ran.code == 0
    name = next(line.split()[1] for line in ran.out.splitlines() if line.startswith("file_name"))
    assert Path("deep/p.png").read_bytes() == Path("phones", name).read_bytes()


def test_export_and_import_again_is_a_round_trip(base: Path) -> None:
    assert run("cases", "export", base, "out").code == 0
    assert run("cases", "import", "out", "--into", "again.cases", "--embedder", "hash").code == 0
    assert run("cases", "export", "again.cases", "out2").code == 0
    assert files_below(Path("out")) == files_below(Path("out2")) == files_below(Path("phones"))
    for name in files_below(Path("out")):
        assert Path("out", name).read_bytes() == Path("out2", name).read_bytes() == Path("phones", name).read_bytes()
    assert run("cases", "export", base, "csv", "--format", "csv", "--json").json["format"] == "csv"
    ran = run("cases", "import", "csv", "--into", base, "--json")
    assert (ran.code, ran.json["unchanged"]) == (0, 12)


def test_reembed_by_another_crop_and_back(base: Path) -> None:
    polygon = [[8, 8], [40, 8], [40, 40], [8, 40]]
    write_rows(Path("phones"), [row(s, v, polygon=polygon) for s in (1, 2, 3, 4) for v in range(3)])
    assert run("cases", "import", "phones", "--into", "t.cases", "--embedder", "hash", "--crop", "truth").code == 0
    boxes = {
        tuple(run("cases", "show", "t.cases", some_case(Path("t.cases"), s), "--json").json["box"]) for s in (1, 2)
    }
    assert boxes == {(8, 8, 41, 41)}
    done = run("cases", "reembed", "t.cases", "--crop", "none", "--json").json
    assert (done["cases"], done["crop"]) == (12, "none")
    assert run("cases", "show", "t.cases", some_case(Path("t.cases")), "--json").json["box"] is None
    warned = run("predict", "q.png", "--cases", "t.cases", "--json").json["warnings"]
    assert not any("calibration" in w for w in warned)


@pytest.mark.slow
def test_check_writes_an_item_for_each_case(base: Path) -> None:
    words = ("cases", "check", base, "--actions", "actions.yaml", "--out", "deep/items.jsonl")
    ran = run(*words)
    assert (ran.code, ran.err) == (0, "12 items in deep/items.jsonl\n")
    assert "without the guard, by evidence:" in ran.out
    assert "the previous action adds" in ran.out
    figures = run(*words, "--quick", "--json").json
    assert not {"ablation", "control"} & figures.keys()
    items = [json.loads(line) for line in Path("deep/items.jsonl").read_text().splitlines()]
    assert len(items) == figures["n"] == 12
    assert sum(item["right"] for item in items) == figures["next_action"]["right"]


def test_check_lists_labels_that_the_library_contradicts(base: Path) -> None:
    assert run("cases", "correct", base, some_case(base, 1), "--set", "next_action=pull_battery").code == 0
    ran = run("cases", "check", base, "--actions", "actions.yaml", "--quick")
    assert ran.code == 0
    assert "labels that the action library contradicts:" in ran.out
    assert "pull_battery" in ran.out.split("contradicts:")[1]


def test_tree_shows_what_is_thin(base: Path) -> None:
    for _ in range(2):
        assert run("cases", "retire", base, some_case(base, 4)).code == 0
    rows = run("cases", "tree", base, "--device", "x1", "--thin", "--json").json
    assert [(s["step"], s["cases"]) for s in rows[0]["steps"]] == [(4, 1)]
    assert run("cases", "tree", base, "--family", "phone", "--json").json[0]["cases"] == 10


def test_an_edit_serves_while_it_is_made_and_is_taken_back(base: Path) -> None:
    with CaseBase.open(base) as serving:
        assert len(serving.tree().steps("phone", "x1")) == 4
        assert run("cases", "edit", "insert-step", base, "phone", "x1", "2", "--json").json["cases_changed"] == 9
        assert [s.number for s in serving.tree().steps("phone", "x1")] == [1, 2, 3, 4, 5]
        assert run("cases", "undo", base).code == 0
        assert [s.number for s in serving.tree().steps("phone", "x1")] == [1, 2, 3, 4]


def predict(*more: str) -> Any:
    return run("predict", "q.png", "--cases", "p.cases", "--actions", "actions.yaml", *more)


def test_the_same_answer_three_times_asks_the_operator(base: Path) -> None:
    answers = [predict("--previous", "unscrew", "--object", "no. 7", "--json") for _ in range(4)]
    assert [a.code for a in answers] == [0, 0, 0, 0]
    docs = [a.json for a in answers]
    assert [d["next_action"] for d in docs[:2]] == ["pry", "pry"]
    assert docs[2]["abstained"]
    assert "3 times in a row" in docs[2]["reason"]
    assert predict("--previous", "unscrew", "--object", "no. 8", "--json").json["next_action"] == "pry"
    mine = run("decisions", "list", base, "--object", "no. 7", "--json").json
    assert [d["decision"] for d in mine] == [4, 3, 2, 1]


def test_decisions_can_be_looked_at_again(base: Path) -> None:
    said = predict("--previous", "unscrew")
    assert said.code == 0
    shown = run("decisions", "show", base, "1", "--report", "again/page.html")
    assert shown.err == "page: again/page.html\n"
    without_time = [line for line in shown.out.splitlines() if not line.startswith("perceptual judge")]
    assert without_time == [line for line in said.out.splitlines() if not line.startswith("perceptual judge")]
    assert "<html" in Path("again/page.html").read_text()
    assert run("decisions", "show", base, "1", "--json").json["next_action"] == "pry"
    listed = run("decisions", "list", base)
    assert "q.png" in listed.out
    assert "pry" in listed.out


def test_predict_no_log(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert predict("--no-log", "--json").json["decision"] is None
    monkeypatch.setenv("SAGEHAND_LOG_DECISIONS", "false")
    assert predict("--json").json["decision"] is None
    assert run("decisions", "list", base, "--json").json == []


def test_the_own_picture_is_recalled_only_when_allowed(base: Path) -> None:
    own = run("predict", "phones/s2v0.png", "--cases", base, "--json").json
    allowed = run("predict", "phones/s2v0.png", "--cases", base, "--allow-own", "--json").json
    own_id = allowed["query"]["pixel_id"]
    assert own_id in [c["id"] for c in allowed["candidates"]]
    assert own_id not in [c["id"] for c in own["candidates"]]


def test_a_risk_that_cannot_be_certified_abstains_with_exit_0(base: Path) -> None:
    ran = predict("--previous", "unscrew", "--risk", "0.05")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("ask the operator\n")
    assert "cannot be certified" in ran.out


def test_config_show_says_where_each_value_came_from(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sagehand.toml").write_text('cases = "p.cases"\nrisk = 0.2\ncrop = "truth"\n')
    monkeypatch.setenv("SAGEHAND_CROP", "perceptual")
    shown = run("config", "show", "--json").json
    assert shown["file"] == "sagehand.toml"
    values = {name: (entry["value"], entry["source"]) for name, entry in shown["settings"].items()}
    assert values["risk"] == (0.2, "file")
    assert values["crop"] == ("perceptual", "environment")
    assert values["embedder"] == ("efficientnet-lite0", "default")
    assert run("predict", "q.png", "--no-log", "--json").json["base"]["name"] == "p.cases"
    Path("sagehand.toml").write_text("rsik = 0.2\n")
    assert "did you mean 'risk'?" in run("config", "show").error
    Path("sagehand.toml").write_text("risk = \n")
    assert "sagehand.toml: the settings file cannot be read" in run("config", "show").error
    Path("sagehand.toml").unlink()
    monkeypatch.setenv("SAGEHAND_CROP", "triangle")
    assert "unknown crop strategy 'triangle'" in run("cases", "import", "phones", "--into", "new.cases").error
    monkeypatch.setenv("SAGEHAND_RISK", "7")
    assert run("config", "show").error.startswith("error: SAGEHAND_RISK: setting 'risk' is '7'")


def test_doctor_says_what_is_wrong_with_a_case_base(base: Path) -> None:
    def found() -> tuple[int, dict[str, Any]]:
        ran = run("doctor", "--cases", base, "--json")
        return ran.code, {f["what"]: f for f in ran.json}["case base"]

    code, finding = found()
    assert (code, finding["state"]) == (0, "ok")
    assert run("cases", "retire", base, some_case(base)).code == 0
    code, finding = found()
    assert (code, finding["state"], finding["remedy"]) == (0, "note", "sagehand cases calibrate p.cases")
    base.write_bytes(base.read_bytes()[:9000])
    code, finding = found()
    assert (code, finding["state"]) == (1, "fail")
    assert "FAIL  case base: p.cases" in run("doctor", "--cases", base).out


def test_embedders(base: Path) -> None:
    listed = {e["name"]: e for e in run("embedders", "--json").json}
    assert listed["efficientnet-lite0"]["available"] is True
    assert listed["hash"]["identity"]["dimension"] == 64
