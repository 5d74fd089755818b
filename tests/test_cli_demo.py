"""The demo cell through the command line, with the packaged embedder: ``demo``, ``evaluate``, and pictures out of domain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import CELL, DEMO_QUERY, QUERIES, demo_base, enter, files_below, run

ROWS = [json.loads(line) for line in (QUERIES / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]
STRANGERS = [row["file_name"] for row in ROWS if row.get("out_of_domain")]
DEVICES = [row for row in ROWS if not row.get("out_of_domain")]


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(tmp_path, monkeypatch)
    return demo_base(tmp_path)


@pytest.mark.parametrize("name", STRANGERS)
def test_a_picture_out_of_domain_asks_the_operator(name: str, base: Path) -> None:
    ran = run("predict", QUERIES / name, "--cases", base, "--actions", CELL / "actions.yaml", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["abstained"], f"{name}: {ran.json['next_action']} ({ran.json['domain']})"
    assert "out of domain" in ran.json["reason"]
    assert ran.json["domain"]["in_domain"] is False


def test_evaluate_on_the_queries(base: Path) -> None:
    words = ("evaluate", QUERIES, "--cases", base, "--actions", CELL / "actions.yaml", "--out", "items.jsonl")
    ran = run(*words, "--json")
    assert (ran.code, ran.err) == (0, "17 items in items.jsonl\n")
    figures = ran.json
    assert (figures["n"], figures["unlabelled"], figures["failed"]) == (len(DEVICES), len(STRANGERS), [])
    items = {item["file_name"]: item for item in map(json.loads, Path("items.jsonl").read_text().splitlines())}
    assert {name: item["next_action"] for name, item in items.items()} == {
        r["file_name"]: r["next_action"] for r in DEVICES
    }
    assert sum(item["right"] for item in items.values()) == figures["next_action"]["right"]
    assert figures["n"] - figures["answered"] == sum(item["answer"] is None for item in items.values())
    # every answer but abstentions is right, and no more than the domain test may turn away (5 %, and luck) abstain
    assert all(item["right"] for item in items.values() if item["answer"] is not None)
    assert figures["next_action"]["right"] >= 15
    text = run(*words)
    assert text.out.startswith("17 labelled cases, ")
    assert "sagehand" in text.out


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)
    first = run("demo", "--out", "here", "--json")
    assert (first.code, first.err) == (0, "")
    assert files_below(Path("here")) == {"demo.cases", "decision.html"}
    assert (first.json["next_action"], first.json["truth"]) == ("cnc_cut_battery_contacts",) * 2
    assert first.json["needs_confirmation"] is True
    assert first.json["query"]["name"] == DEMO_QUERY.name
    assert first.json["query"]["pixel_id"] not in {c["id"] for c in first.json["candidates"]}
    again = run("demo", "--out", "here")
    assert again.code == 0
    assert again.out.startswith("51 cases are in the case base")
    assert "page: here/decision.html" in again.out
    page = Path("here/decision.html").read_text()
    assert not any(f'{where}="{scheme}:' in page for where in ("src", "href") for scheme in ("http", "https", "file"))


def test_predict_with_its_page(base: Path) -> None:
    words = ("predict", DEMO_QUERY, "--cases", base, "--actions", CELL / "actions.yaml", "--report", "deep/page.html")
    ran = run(*words, "--previous", "cnc_cut_circular", "--place", "cnc")
    assert (ran.code, ran.err) == (0, "page: deep/page.html\n")
    assert ran.out.startswith("next action: cnc_cut_battery_contacts\nan operator must confirm it before it is done\n")
    assert "lever: needs closed, but cnc_cut_circular made it false" in ran.out
    assert files_below(Path("deep")) == {"page.html"}
