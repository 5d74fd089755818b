"""The decision log and the calibration that lies beside it."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sagehand.cases.base import CaseBase
from sagehand.cases.case import CaseDraft
from sagehand.embed import EmbedderIdentity
from sagehand.errors import InputError, NoSuchCase, StoreBusy

IDENTITY = EmbedderIdentity("hash", "r", 4, "p")
VECTOR = np.array([1, 0, 0, 0], np.float32)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cases"


@pytest.fixture
def base(file: Path) -> Any:
    with CaseBase.create(file, embedder=IDENTITY) as made:
        yield made


def test_decisions_come_back_newest_first(base: CaseBase, file: Path) -> None:
    first = base.record_decision(
        {"answer": None, "object_id": "unit 7", "why": ["ä", 1.5]}, vector=VECTOR, thumbnail=b"jpg"
    )
    base.add(CaseDraft(b"x", "1" * 32, VECTOR, {"family": "f", "device": "d"}))
    numbers = [base.record_decision({"answer": f"a{n}", "object_id": n % 2}) for n in range(5)]
    base.close()
    with CaseBase.open(file) as again:
        docs = again.decisions()
        assert [doc["decision"] for doc in docs] == [*reversed(numbers), first]
        assert [doc["answer"] for doc in again.decisions(limit=2)] == ["a4", "a3"]
        assert [doc["answer"] for doc in again.decisions(limit=None, object_id="1")] == ["a3", "a1"]
        assert again.decisions(object_id="nobody") == []
        doc = again.decision(first)
        assert (doc["why"], doc["base_revision"], doc["answer"]) == (["ä", 1.5], 0, None)
        assert doc["time"].endswith("+00:00")
        assert again.decision(numbers[0])["base_revision"] == 1
        assert (again.decision_thumbnail(first), again.decision_thumbnail(numbers[0])) == (b"jpg", None)
        np.testing.assert_array_equal(again.decision_vector(first), VECTOR)
        assert again.decision_vector(numbers[0]) is None


def test_a_decision_is_no_change_of_the_cases(base: CaseBase) -> None:
    index = base.index()
    base.record_decision({})
    base.set_calibration({"revision": 0})
    assert base.revision == 0
    assert base.index() is index


def test_what_is_not_json_is_refused(base: CaseBase) -> None:
    for doc in ({"grade": float("nan")}, {"answer": object()}, {"text": "\ud800"}):
        with pytest.raises(InputError, match="not plain JSON"):
            base.record_decision(doc)
    assert base.decisions() == []


def test_an_unknown_decision_says_what_there_is(base: CaseBase) -> None:
    with pytest.raises(NoSuchCase, match="no decision 3; none is recorded"):
        base.decision(3)
    base.record_decision({})
    with pytest.raises(NoSuchCase, match="no decision 3; the last one is 1"):
        base.decision_thumbnail(3)


def test_the_calibration_is_kept_replaced_and_taken_out(base: CaseBase, file: Path) -> None:
    assert base.calibration() is None
    base.set_calibration({"threshold": 0.9})
    base.set_calibration({"threshold": 0.8, "revision": 3})
    with CaseBase.open(file) as other:
        assert other.calibration() == {"threshold": 0.8, "revision": 3}
        base.set_calibration(None)
        assert other.calibration() is None
    with pytest.raises(InputError, match="not plain JSON"):
        base.set_calibration({"threshold": float("inf")})


def test_a_decision_waits_a_short_time_for_another_process(base: CaseBase, file: Path) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    with pytest.raises(StoreBusy, match=r"for over 0\.2 s"):
        base.record_decision({"answer": 1}, wait=0.2)
    assert 0.1 < time.monotonic() - start < 2
    other.execute("ROLLBACK")
    other.close()
    assert base.record_decision({"answer": 1}) == 1


def test_a_decision_waits_a_short_time_for_another_thread(base: CaseBase) -> None:
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with base._store.lock:
            held.set()
            go.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    with pytest.raises(StoreBusy, match="another thread"):
        base.record_decision({"answer": 1}, wait=0.1)
    go.set()
    thread.join()
    assert base.record_decision({"answer": 1}) == 1
