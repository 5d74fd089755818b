"""Rows that were damaged inside a sound SQLite file: one typed line, listed by problems, and exported around."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sagehand.cases import CaseBase, CaseDraft, export_folder, read_table
from sagehand.embed import EmbedderIdentity
from sagehand.errors import StoreError

IDENTITY = EmbedderIdentity("hash", "r", 4, "p")
VECTORS = np.eye(4, dtype=np.float32)
FIRST = "0" * 32


def damage(file: Path, *statements: str) -> None:
    with sqlite3.connect(file) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.cases"
    with CaseBase.create(path, embedder=IDENTITY) as base:
        rows = [{"file_name": f"{n}.png", "family": "f", "device": "d", "step": n} for n in range(3)]
        base.add_many([CaseDraft(b"picture %d" % n, f"{n}" * 32, VECTORS[n], row) for n, row in enumerate(rows)])
        base.record_decision({"next_action": "pry", "object_id": "unit"})
        base.set_calibration({"revision": 3})
        assert base.problems(thorough=True) == []
    return path


BAD = ["[]", "{", "null", "", "[" * 100_000, '"text"']


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize(
    ("column", "call", "named"),
    [
        ("cases SET row = '{}' WHERE n = 1", lambda base: base.get(FIRST), f"case {FIRST}"),
        ("cases SET row = '{}' WHERE n = 1", lambda base: base.cases(), f"case {FIRST}"),
        ("cases SET row = '{}' WHERE n = 1", lambda base: base.tree(), f"case {FIRST}"),
        ("cases SET row = '{}' WHERE n = 1", lambda base: base.index().cases[0], f"case {FIRST}"),
        ("cases SET row = '{}' WHERE n = 1", lambda base: base.row(FIRST), f"case {FIRST}"),
        ("cases SET row = '{}' WHERE n = 1", lambda base: base.correct(FIRST, {"step": 2}), f"case {FIRST}"),
        ("meta SET value = '{}' WHERE key = 'embedder'", lambda base: base.embedder, "embedder"),
        ("meta SET value = '{}' WHERE key = 'embedder'", lambda base: base.search(VECTORS[0], k=1), "embedder"),
        ("decisions SET doc = '{}'", lambda base: base.decisions(), "decision 1"),
        ("decisions SET doc = '{}'", lambda base: base.decision(1), "decision 1"),
        ("history SET after = '{}' WHERE seq = 2", lambda base: base.log(), "change 2"),
        ("history SET after = '{}' WHERE seq = 2", lambda base: base.undo(), "change 2"),
        ("history SET after = '{}' WHERE seq = 2", lambda base: base.as_of(3), "history"),
    ],
)
def test_a_damaged_row_is_one_typed_line_and_is_listed(
    file: Path, bad: str, column: str, call: Callable[[CaseBase], Any], named: str
) -> None:
    damage(file, "UPDATE " + column.replace("{}", bad))
    with CaseBase.open(file) as base:
        with pytest.raises(StoreError) as caught:
            call(base)
        assert caught.value.message.startswith(f"{file} is damaged: ")
        assert named in caught.value.message
        assert "export what is readable" in caught.value.hint
        told = base.problems(thorough=True)
        assert len(told) == 1
        assert named in told[0] or "change 2" in told[0]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_damaged_calibration_is_as_good_as_missing(file: Path, bad: str) -> None:
    damage(file, f"UPDATE meta SET value = '{bad}' WHERE key = 'calibration'")
    with CaseBase.open(file) as base:
        assert base.calibration() is None
        assert base.calibration_text() is None
        assert ["calibration" in line for line in base.problems(thorough=True)] == [True]
        base.set_calibration({"revision": 4})
        assert base.calibration() == {"revision": 4}
        assert base.problems(thorough=True) == []


def test_all_damage_is_listed_and_the_rest_is_exported(file: Path, tmp_path: Path) -> None:
    damage(
        file,
        'UPDATE cases SET row = \'{"family": "f"}\' WHERE n = 1',
        "UPDATE cases SET box = '[1, 2]' WHERE n = 3",
        "UPDATE pictures SET data = x'00' WHERE rowid = 2",
        "DELETE FROM vectors WHERE n = 2",
        "UPDATE history SET after = '{}' WHERE seq = 2",
    )
    with CaseBase.open(file) as base:
        told = "\n".join(base.problems(thorough=True))
        report = export_folder(base, tmp_path / "rest")
    for words in (
        f"case {FIRST}: field 'device' is missing",
        f"the crop of case {'2' * 32}",
        "change 2 of the history",
    ):
        assert words in told
    assert "does not match its sha256" in told
    assert f"case {'1' * 32}: its vector cannot be used (no vector)" in told
    assert [line[:12] for line in report.left_out] == ["case 0000000", "case 2222222"]
    assert [row.file_name for row in read_table(tmp_path / "rest").rows] == ["1.png"]


def test_a_case_whose_picture_is_gone_is_left_out_of_an_export(file: Path, tmp_path: Path) -> None:
    damage(file, "DELETE FROM pictures WHERE rowid = 2")
    with CaseBase.open(file) as base:
        report = export_folder(base, tmp_path / "rest")
    assert report.cases == 2
    assert "the picture of case 1111" in report.left_out[0]
