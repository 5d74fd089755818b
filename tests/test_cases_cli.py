"""What the command line says of changes to a case base: nothing to change, what was taken back, what was left out."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from command_line import enter, phone_base, run, state
from sagehand.cases import CaseBase, CaseDraft


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(tmp_path, monkeypatch)
    phone_base(tmp_path)
    return Path("p.cases")


def test_what_changes_nothing_says_so_and_offers_no_undo(base: Path) -> None:
    case = next(iter(json.loads(run("cases", "log", base, "--json").out)))["case"]
    assert run("cases", "correct", base, case, "--set", "place=vise").out.startswith("corrected ")
    before = state(base)
    for command in (
        ["correct", base, case, "--set", "place=vise"],
        ["edit", "rename-device", base, "phone", "x1", "x1"],
        ["edit", "move-step", base, "phone", "x1", "2", "2"],
    ):
        ran = run("cases", *command)
        assert ran.code == 0
        assert ran.out.startswith("nothing to change")
        assert "undo" not in ran.out
    assert state(base) == before
    assert run("cases", "undo", base).out == f"took back correct of {case}\n"


def test_an_import_is_taken_back_in_one_line(base: Path) -> None:
    with CaseBase.open(base) as there:
        count = len(there)
    assert run("cases", "undo", base).out == f"took back add of {count} cases\n"
    with CaseBase.open(base) as there:
        assert len(there) == 0


def test_an_export_says_which_files_have_other_names_and_why(base: Path) -> None:
    with CaseBase.open(base) as opened:
        taken = str(opened.cases()[0].file_name)
        vector = np.eye(1, opened.embedder.dimension, dtype=np.float32)[0]
        for number, name in enumerate((taken, "../up.jpg", None)):
            row = {"family": "phone", "device": "x1"} | ({} if name is None else {"file_name": name})
            opened.add(CaseDraft(b"\xff\xd8\xff%d" % number, f"{number:032x}", vector, row))
    said = run("cases", "export", base, "out").err.splitlines()
    assert [line.partition(": ")[2] for line in said] == [
        f"{taken} is {Path(taken).with_stem(Path(taken).stem + '-2')} now: another file has that name",
        f"../up.jpg is {1:032x}.jpg now: it can be no name in a folder",
        f"a file of it had no name: it is {2:032x}.jpg now",
    ]


def test_an_export_says_what_it_left_out(base: Path) -> None:
    with sqlite3.connect(base) as connection:
        connection.execute("UPDATE cases SET row = '[]' WHERE n = 1")
    connection.close()
    ran = run("cases", "export", base, "rest")
    assert ran.code == 1
    assert "its row is damaged" in ran.err
    assert Path("rest/metadata.jsonl").exists()
    assert "is damaged: the row of case" in run("cases", "tree", base).error
