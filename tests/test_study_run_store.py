"""Records on disk: torn lines, one writer, what counts, what is derived."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sagehand.errors import InputError
from sagehand.judge.cost import Cost
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.methods.base import Answer
from sagehand.study.run.record import Record, record_of
from sagehand.study.run.store import RECORDS, RunFiles, read_run, totals
from study_runs import plan, study_folder


def record(item: str, **more: object) -> Record:
    fields = {"arm": "one", "seed": 0, "fold": 0, "subset": "query", "truth": {}, "answer": {}, "right": {}}
    return Record(**{"item": item, **fields, **more})  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.yaml").write_text(plan("two: {method: nearest}, one: {method: nearest}").to_yaml())
    return tmp_path


def write(folder: Path, *records: Record) -> None:
    with RunFiles(folder) as files:
        for one in records:
            files.append(one)


def test_what_is_written_is_read_in_the_plans_order(folder: Path) -> None:
    a, b, c = record("b"), record("a"), record("z", arm="two", extra={"n": np.float32(0.5), "list": np.arange(2)})
    write(folder, a, b, c)
    run = read_run(folder)
    assert [(r.arm, r.item) for r in run.records] == [("two", "z"), ("one", "a"), ("one", "b")]
    assert run.records[0].extra == {"n": 0.5, "list": [0, 1]}
    assert run.manifest == {}


def test_of_two_records_of_one_item_the_later_counts(folder: Path) -> None:
    write(folder, record("a", failure="Unreachable"), record("b"), record("a"))
    assert [(r.item, r.failure) for r in read_run(folder).records] == [("a", None), ("b", None)]
    assert len((folder / RECORDS).read_text().splitlines()) == 3


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_a_torn_last_line_is_cut_off_and_said(folder: Path, cut: int) -> None:
    write(folder, record("a"), record("b"))
    path = folder / RECORDS
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1][:-1]  # without its line end
    path.write_bytes(whole[: -len(last) - 1] + last[:cut])
    assert [r.item for r in read_run(folder).records] == ["a"]
    with RunFiles(folder) as files:
        assert {key[-1] for key in files.latest} == {"a"}
        assert "torn" in files.notes[0]
        files.append(record("b"))
    assert path.read_bytes() == whole


def test_a_whole_line_that_lacks_only_its_end_is_kept(folder: Path) -> None:
    write(folder, record("a"), record("b"))
    path = folder / RECORDS
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with RunFiles(folder) as files:
        assert files.notes == []
        assert len(files.latest) == 2
    assert path.read_bytes() == whole


def test_damage_in_the_middle_is_no_torn_line(folder: Path) -> None:
    write(folder, record("a"), record("b"), record("c"))
    lines = (folder / RECORDS).read_text().splitlines(keepends=True)
    (folder / RECORDS).write_text(lines[0] + '{"arm": "one"}\n' + lines[2])
    with pytest.raises(InputError, match=r"records.jsonl:2: is no record"):
        read_run(folder)
    with pytest.raises(InputError, match=r"records.jsonl:2: is no record"):
        RunFiles(folder)
    (folder / RECORDS).write_text("".join(lines))
    RunFiles(folder).close()  # the lock was let go


def test_a_name_that_is_no_utf8_survives(folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9.jpg")
    write(folder, record(name))
    assert read_run(folder).records[0].item == name


def test_two_writers_are_refused_and_a_killed_one_holds_nothing(folder: Path) -> None:
    holding = (
        f"from sagehand.study.run.store import RunFiles; from pathlib import Path; f = RunFiles(Path({str(folder)!r}))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", f"{holding}; print('held', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"process {child.pid} is writing into this run"):
            RunFiles(folder)
    finally:
        child.kill()
        child.communicate()
    RunFiles(folder).close()


def test_a_folder_without_a_plan_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no run folder"):
        read_run(tmp_path)


def test_totals_count_failures_and_errors_as_wrong() -> None:
    usage = Cost(2, 100, 10, 1.0, 1).to_dict()
    records = [
        record("a", right={"next_action": True}, seconds=1.0, usage=usage),
        record("b", right={"next_action": False}, failure="RateLimited", usage=usage),
        record("c", right={"next_action": False}, error="NotAPicture: c"),
        record("d", right={"next_action": False}, answer={"abstained": True}),
        record("e", subset="train", right={"next_action": True}, arm="two"),
        record("f", subset="test", right={"next_action": False}, arm="two"),
    ]
    found = totals(records)
    one = {"n": 4, "right": 1, "accuracy": 0.25, "abstained": 1, "failures": 1, "errors": 1}
    assert found["one"] == {**one, "seconds": 1.0, "calls": 4, "tokens": 220, "cached": 2}
    assert (found["two"]["n"], found["two"]["right"]) == (1, 0)
    assert found["two"]["subsets"]["train"]["right"] == 1


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    data = StudyData.load(study_folder(tmp_path_factory.mktemp("d") / "data"))
    square = ((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0))
    return {s.key: replace(s, polygon=square, remaining_actions=("open", "pull", "end")) for s in data.samples}


def told(samples: dict[str, Sample], answer: Answer, key: str = "d0_s1_v0.jpg") -> Record:
    base = {k: s for k, s in samples.items() if k != key}
    return record_of(samples[key], answer, arm="a", seed=1, fold=2, subset="query", seconds=0.25, base=base)


def test_a_record_holds_the_answer_against_the_label(samples: dict[str, Sample]) -> None:
    order = ("d1_s1_v0.jpg", "d0_s2_v0.jpg", "d0_s1_v3.jpg")
    answer = Answer(
        next_action="open", device_class="phone", remaining_actions=("open", "pull", "end"), case=order[1], order=order
    )
    found = told(samples, answer)
    assert found.key == ("a", 1, 2, "query", "d0_s1_v0.jpg")
    right = {
        "previous_action": False,
        "next_action": True,
        "remaining_actions": True,
        "is_last": None,
        "device_class": True,
    }
    assert found.right == right
    assert (found.case_device, found.case_step, found.rank) == (True, False, 3)
    assert (found.coverage, found.removal) == (None, None)
    assert Record.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_crop_is_measured(samples: dict[str, Sample]) -> None:
    pytest.importorskip("shapely")
    found = told(samples, Answer(box=(5, 0, 10, 20), size=(40, 20)))
    assert (found.coverage, found.removal) == (0.5, 0.75)  # half of the square; 200 of 800 pixels are kept
    whole = told(samples, Answer(size=(40, 20)))
    assert (whole.coverage, whole.removal) == (1.0, 0.0)


def test_no_answer_is_a_wrong_one_and_no_case_is_none(samples: dict[str, Sample]) -> None:
    found = told(samples, Answer(failure="RateLimited"))
    assert found.failure == "RateLimited"
    assert found.right["next_action"] is False
    assert (found.case_device, found.case_step, found.rank) == (None, None, None)


def test_a_case_outside_the_base_is_a_fault_of_the_method(samples: dict[str, Sample]) -> None:
    with pytest.raises(ValueError, match="not in the base"):
        told(samples, Answer(case="d0_s1_v0.jpg"))
