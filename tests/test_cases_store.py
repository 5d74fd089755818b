"""The file under a case base: making, opening, refusing, and writes that are whole or not there."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sagehand.cases import schema
from sagehand.cases.base import CaseBase
from sagehand.cases.case import Case, CaseDraft
from sagehand.cases.sqlite_errors import translated
from sagehand.cases.write import Embedded
from sagehand.embed import EmbedderIdentity
from sagehand.errors import (
    BadVector,
    CaseConflict,
    CropMismatch,
    EmbedderMismatch,
    InputError,
    LabelError,
    NewerCaseBase,
    NoSuchCase,
    NotACaseBase,
    ReadOnlyCaseBase,
    StoreBusy,
    StoreError,
    StoreFull,
)

DIMENSION = 8
IDENTITY = EmbedderIdentity("hash", "revision-1", DIMENSION, "recipe")


def unit(seed: int, dimension: int = DIMENSION) -> np.ndarray:
    vector = np.random.default_rng(seed).normal(size=dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def draft(number: int, **changes: Any) -> CaseDraft:
    row = {"file_name": f"{number}.png", "family": "phone", "device": "a", "step": 1, "next_action": "pry"}
    names = ("image", "vector", "line", "depth_image", "depth_vector", "box")
    parts: dict[str, Any] = {"image": b"picture %d" % number, "vector": unit(number)}
    parts.update({key: changes.pop(key) for key in names if key in changes})
    return CaseDraft(pixel_id=hashlib.md5(b"%d" % number).hexdigest(), row={**row, **changes}, **parts)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cases.sagehand"


@pytest.fixture
def base(file: Path) -> Any:
    with CaseBase.create(file, embedder=IDENTITY) as made:
        yield made


def test_what_was_added_is_there_after_opening_again(base: CaseBase, file: Path) -> None:
    from sagehand.picture import Box

    line = '{"file_name":"ü 1.png",  "family": "phone", "device": "a", "note": {"b": 1, "a": [2]}}'
    row = {"file_name": "ü 1.png", "family": "phone", "device": "a", "note": {"b": 1, "a": [2]}}
    sent = CaseDraft(b"\x89PNG", "f" * 32, unit(1), row, line, b"depth", unit(2, 576), Box(1, 2, 30, 40))
    base.add(sent)
    base.close()
    with CaseBase.open(file) as again:
        (case,) = again.cases()
        assert (case.id, case.file_name, case.extra, case.has_depth) == (
            "f" * 32,
            "ü 1.png",
            {"note": row["note"]},
            True,
        )
        assert case.box == Box(1, 2, 30, 40)
        assert (again.image("ff"), again.depth_image("ff")) == (b"\x89PNG", b"depth")
        assert (again.row("ff"), again.line("ff")) == (row, line)
        assert list(again.row("ff")) == list(row)
        np.testing.assert_allclose(again.index().vectors[0], unit(1), atol=1e-7)
        np.testing.assert_allclose(again.index().depth_vectors[0], unit(2, 576), atol=1e-7)
        assert again.known_bytes() == {hashlib.sha256(b"\x89PNG").hexdigest(): "f" * 32}
        assert (again.embedder, again.crop, again.revision, len(again)) == (IDENTITY, "none", 1, 1)


def test_writes_are_durable_by_setting(base: CaseBase) -> None:
    values = [
        base._store.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")
    ]
    assert values == [2, "wal"]


def test_create_never_overwrites(base: CaseBase, file: Path) -> None:
    base.add(draft(1))
    with pytest.raises(StoreError, match="exists"):
        CaseBase.create(file, embedder=IDENTITY)
    assert len(base) == 1
    with pytest.raises(StoreError, match="no folder"):
        CaseBase.create(file.parent / "nowhere" / "x", embedder=IDENTITY)


def test_create_refuses_the_write_ahead_log_of_a_file_that_was_deleted(tmp_path: Path) -> None:
    (tmp_path / "x-wal").write_bytes(b"old pages")
    with pytest.raises(StoreError, match="x-wal exists"):
        CaseBase.create(tmp_path / "x", embedder=IDENTITY)
    assert sorted(os.listdir(tmp_path)) == ["x-wal"]


def _make_other_sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE cases (id)")
    connection.close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no case base at"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200)), "is no case base"),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), "no case base of sagehand"),
        (_make_other_sqlite, "no case base of sagehand"),
    ],
)
def test_other_files_are_refused_and_left_alone(tmp_path: Path, make: Callable[[Path], None], said: str) -> None:
    path = tmp_path / "other"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(NotACaseBase, match=said) as caught:
        CaseBase.open(path)
    assert caught.value.hint
    assert str(path) in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert sorted(os.listdir(tmp_path)) == (["other"] if path.exists() else [])


def test_a_damaged_file_is_a_store_error(base: CaseBase, file: Path) -> None:
    base.add_many([draft(n) for n in range(30)])
    base.close()
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    file.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        CaseBase.open(file)


def test_a_newer_file_names_both_versions(base: CaseBase, file: Path) -> None:
    base.close()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(NewerCaseBase, match=rf"format 7; .* up to {schema.SCHEMA_VERSION}"):
        CaseBase.open(file)


def test_an_older_file_is_brought_up_to_date(base: CaseBase, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base.add(draft(1))
    base.close()
    coming = schema.SCHEMA_VERSION + 1
    monkeypatch.setitem(schema.MIGRATIONS, coming, ("ALTER TABLE cases ADD COLUMN colour TEXT DEFAULT 'grey'",))
    for module in ("schema", "store"):
        monkeypatch.setattr(f"sagehand.cases.{module}.SCHEMA_VERSION", coming)
    with pytest.raises(StoreError, match=f"must be brought to format {coming}"):
        CaseBase.open(file, read_only=True)
    CaseBase.open(file).close()
    with CaseBase.open(file) as again:  # the second time there is nothing to do
        assert again.get(draft(1).pixel_id).device == "a"
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT colour FROM cases").fetchall() == [("grey",)]
    assert connection.execute("PRAGMA user_version").fetchone() == (coming,)
    connection.close()


def test_read_only_refuses_every_write_and_reads_everything(base: CaseBase, file: Path) -> None:
    case = base.add(draft(1))
    with CaseBase.open(file, read_only=True) as reader:
        writes: list[Callable[[], object]] = [
            lambda: reader.add(draft(2)),
            lambda: reader.correct(case.id, {"step": 2}),
            lambda: reader.retire(case.id),
            lambda: reader.undo(),
            lambda: reader.insert_step("phone", "a", 1),
            lambda: reader.record_decision({}),
            lambda: reader.set_calibration({}),
            lambda: reader.reembed(IDENTITY, [], "none"),
        ]
        for write in writes:
            with pytest.raises(ReadOnlyCaseBase, match="read-only"):
                write()
        assert reader.read_only
        assert [hit.case.id for hit in reader.search(unit(1), k=1)] == [case.id]
        base.add(draft(2))
        assert len(reader.index()) == 2


_AS_NOBODY = """
import os, sys
sys.path[:0] = sys.argv[2:]
from test_cases_store import IDENTITY, CaseBase, ReadOnlyCaseBase, draft
with CaseBase.in_memory(IDENTITY) as warm:  # imports all that is needed while it still may
    warm.add(draft(1)); warm.index(); warm.tree()
os.setuid(65534)
base = CaseBase.open(sys.argv[1])
print(base.read_only, len(base), len(base.index()), len(base.cases()))
try:
    CaseBase.open(sys.argv[1], read_only=False)
except ReadOnlyCaseBase:
    print("refused")
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("folder_mode", [0o755, 0o777])
def test_a_user_without_rights_reads(folder_mode: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="sagehand-"))  # pytest's own folders are closed to other users
    try:
        file = folder / "cases"
        with CaseBase.create(file, embedder=IDENTITY) as base:
            base.add(draft(1))
        file.chmod(0o444)
        folder.chmod(folder_mode)
        command = [sys.executable, "-c", _AS_NOBODY, str(file), str(Path(__file__).parent)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout.split() == ["True", "1", "1", "1", "refused"], done.stderr
    finally:
        shutil.rmtree(folder)


def test_a_read_only_user_beside_a_writer_is_told_what_is_missing() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp(prefix="sagehand-"))
    try:
        file = folder / "cases"
        with CaseBase.create(file, embedder=IDENTITY) as base:
            base.add(draft(1))
            folder.chmod(0o755)
            file.chmod(0o444)
            # a crash leaves the log of the last writes behind: without it the file is not whole
            crashed = folder / "crashed"
            shutil.copy(file, crashed)
            shutil.copy(folder / "cases-wal", folder / "crashed-wal")
            command = [sys.executable, "-c", _AS_NOBODY, str(crashed), str(Path(__file__).parent)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            assert "StoreError" in done.stderr
            assert "open it once where it can be written" in done.stderr
    finally:
        shutil.rmtree(folder)


def test_the_same_pixels_are_one_case(base: CaseBase) -> None:
    base.add(draft(1))
    with pytest.raises(CaseConflict, match=r"b\.png .*1\.png .*the same picture with the same label"):
        base.add(draft(1, file_name="b.png"))
    with pytest.raises(
        CaseConflict, match=r"b\.png \[phone / a / step 2.* as 1\.png \[phone / a / step 1.*another label"
    ):
        base.add(draft(1, file_name="b.png", step=2))
    results = base.add_many([draft(2), draft(1), draft(3), draft(2)])
    assert [type(result) for result in results] == [Case, CaseConflict, Case, CaseConflict]
    assert len(base) == 3
    assert base.revision == 3


def test_twenty_threads_add_the_same_picture(base: CaseBase) -> None:
    results: list[object] = []

    def add() -> None:
        try:
            results.append(base.add(draft(1)))
        except CaseConflict as conflict:
            results.append(conflict)

    threads = [threading.Thread(target=add) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(result).__name__ for result in results) == ["Case"] + ["CaseConflict"] * 19
    assert len(base) == 1


def test_two_hundred_adds_at_once_are_all_there(base: CaseBase, file: Path) -> None:
    others = [CaseBase.open(file) for _ in range(3)]
    threads = [
        threading.Thread(target=lambda b=b, i=i: [b.add(draft(50 * i + n)) for n in range(50)])
        for i, b in enumerate([base, *others])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(base.index()) == len(base) == 200
    for other in others:
        assert len(other.index()) == 200
        other.close()


_ADDING = """
import sys
sys.path[:0] = sys.argv[2].split(":")
from test_cases_store import CaseBase, CaseConflict, Path, draft
base, added = CaseBase.open(Path(sys.argv[1])), 0
for number in range(60):
    try:
        base.add(draft(number)); added += 1
    except CaseConflict:
        pass
print(added)
"""


def test_two_processes_add_the_same_pictures(base: CaseBase, file: Path) -> None:
    command = [sys.executable, "-c", _ADDING, str(file), str(Path(__file__).parent)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    added = [int(process.communicate(timeout=120)[0]) for process in running]
    assert sum(added) == len(base) == len(base.index()) == 60
    assert base.problems(thorough=True) == []


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        (np.zeros(DIMENSION, np.float32), "length 0"),
        (np.full(DIMENSION, np.nan, np.float32), "not finite"),
        (np.full(DIMENSION, np.inf, np.float32), "not finite"),
        (unit(1) * 1.01, "length 1.01"),
        (unit(1, DIMENSION + 1), "valid: one row of 8 floats"),
        (unit(1)[None], "valid: one row of 8 floats"),
        (np.ones(DIMENSION, np.int64), "valid: one row of 8 floats"),
    ],
)
def test_bad_vectors_are_refused_at_insert_and_at_query(base: CaseBase, vector: np.ndarray, said: str) -> None:
    with pytest.raises(BadVector, match=said):
        base.add(draft(1, vector=vector))
    with pytest.raises(BadVector, match=said):
        base.search(vector, k=1)
    assert len(base) == base.revision == 0


def test_a_batch_with_one_bad_draft_writes_nothing(base: CaseBase) -> None:
    with pytest.raises(LabelError, match="step"):
        base.add_many([draft(1), draft(2, step=-1)])
    assert len(base) == base.revision == 0


def test_bad_rows_from_before_are_left_out_and_reported(base: CaseBase, file: Path) -> None:
    cases = base.add_many([draft(n) for n in range(5)])
    connection = sqlite3.connect(file)
    for n, blob in (
        (1, bytes(4 * DIMENSION)),
        (2, np.full(DIMENSION, np.nan, "<f4").tobytes()),
        (3, b"short"),
        (4, None),
    ):
        connection.execute("UPDATE vectors SET vector = ? WHERE n = ?", (blob, n))
    connection.commit()
    connection.close()
    with CaseBase.open(file) as again:
        assert [hit.case.id for hit in again.search(unit(0), k=9)] == [draft(4).pixel_id]
        assert len(again) == len(again.cases()) == 5
        told = again.problems()
        assert len(told) == 4
        assert all(any(isinstance(c, Case) and c.id in line for c in cases) for line in told)
        again.retire(draft(0).pixel_id)
        assert len(again.problems()) == 3


def test_a_full_disk_rolls_back(base: CaseBase) -> None:
    base.add(draft(1))
    pages = base._store.connection.execute("PRAGMA page_count").fetchone()[0]
    base._store.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreFull) as caught:
        base.add(draft(2, image=bytes(200_000)))
    assert caught.value.retryable
    assert (len(base), base.revision) == (1, 1)
    base._store.connection.execute("PRAGMA max_page_count = 100000")
    base.add(draft(2, image=bytes(200_000)))
    assert base.problems(thorough=True) == []


def test_a_lock_held_too_long_is_store_busy(base: CaseBase, file: Path) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    base._store.connection.execute("PRAGMA busy_timeout = 20")
    with pytest.raises(StoreBusy) as caught:
        base.add(draft(1))
    assert caught.value.retryable
    assert len(base.index()) == 0  # readers go on
    other.execute("ROLLBACK")
    other.close()
    base.add(draft(1))


def test_an_interrupted_write_leaves_nothing(base: CaseBase, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sagehand.cases.write.read_record", interrupted)
        with pytest.raises(KeyboardInterrupt):
            base.add(draft(1))
    assert (len(base), base.revision) == (0, 0)
    base.add(draft(1))


def test_another_embedder_or_crop_is_refused_with_the_remedy(base: CaseBase, file: Path) -> None:
    base.require(IDENTITY, "none")
    for other in (
        EmbedderIdentity("clip", "revision-1", DIMENSION, "recipe"),
        EmbedderIdentity("hash", "revision-2", DIMENSION, "recipe"),
        EmbedderIdentity("hash", "revision-1", 9, "recipe"),
        EmbedderIdentity("hash", "revision-1", DIMENSION, "other recipe"),
    ):
        with pytest.raises(EmbedderMismatch) as caught:
            base.require(other)
        assert f"sagehand cases reembed {file} --embedder {other.name}" in caught.value.hint
        held, _, asked = caught.value.message.partition(", not of ")
        assert held.split(" of ")[-1] != asked
    with pytest.raises(CropMismatch, match="'none', not by 'box'"):
        base.require(IDENTITY, "box")


def test_reembed_is_all_or_nothing_and_seen_by_others(base: CaseBase, file: Path) -> None:
    from sagehand.picture import Box

    ids = [base.add(draft(n)).id for n in range(4)]
    base.retire(ids[3])
    base.set_calibration({"a": 1})
    other = CaseBase.open(file)
    assert len(other.index()) == 3
    new = EmbedderIdentity("new", "r", 5, "p")
    with pytest.raises(StoreError, match="1 of 4 cases have no new vector"):
        base.reembed(new, [Embedded(i, unit(n, 5)) for n, i in enumerate(ids[:2])], "box")
    with pytest.raises(NoSuchCase, match="nobody"):
        base.reembed(new, [Embedded("nobody", unit(1, 5))], "box")
    with pytest.raises(BadVector):
        base.reembed(new, [Embedded(i, unit(1, 4)) for i in ids], "box")
    assert (base.embedder, base.index().vectors.shape) == (IDENTITY, (3, DIMENSION))
    assert base.reembed(new, [Embedded(i, unit(n, 5), Box(0, 0, n + 1, 2)) for n, i in enumerate(ids[:3])], "box") == 3
    for one in (base, other):
        assert (one.embedder, one.crop, one.index().vectors.shape) == (new, "box", (3, 5))
        assert one.get(ids[1]).box == Box(0, 0, 2, 2)
        assert [hit.case.id for hit in one.search(unit(2, 5), k=1)] == [ids[2]]
        assert one.calibration() is None
    with pytest.raises(EmbedderMismatch):
        other.require(IDENTITY)
    with pytest.raises(StoreError, match="cannot be undone"):
        base.undo()
    other.close()


def test_an_id_may_be_shortened_while_it_is_unique(base: CaseBase) -> None:
    ids = sorted(base.add(draft(n)).id for n in range(30))
    assert base.get(ids[0]).id == base.get(ids[0][:12]).id == ids[0]
    shared = next(first[0] for first, second in itertools.pairwise(ids) if first[0] == second[0])
    with pytest.raises(NoSuchCase, match="several cases start with"):
        base.get(shared)
    for nobody in ("zz", ""):
        with pytest.raises(NoSuchCase, match="there is no case"):
            base.get(nobody)


def test_files_stay_few(base: CaseBase, file: Path) -> None:
    for number in range(100):
        base.add(draft(number, image=bytes(20_000)))
    assert len(os.listdir(file.parent)) <= 3
    assert file.with_name(file.name + "-wal").stat().st_size < 20_000_000
    base.close()
    assert os.listdir(file.parent) == [file.name]


def test_a_closed_base_says_so(base: CaseBase) -> None:
    base.close()
    base.close()
    with pytest.raises(StoreError, match="is closed"):
        len(base)


def test_in_memory_is_a_whole_case_base() -> None:
    with CaseBase.in_memory(IDENTITY) as base:
        base.add(draft(1))
        assert (base.path, base.read_only, len(base.index()), base.revision) == (None, False, 1, 1)
        base.undo()
        assert base  # empty, but there
        assert len(base) == len(base.index()) == 0


def test_a_file_of_format_1_reads_its_depth_images_in_millimetres(base: CaseBase, file: Path) -> None:
    with_depth = base.add(draft(1, depth_image=b"depth")).id
    without = base.add(draft(2)).id
    base.close()
    connection = sqlite3.connect(file)
    connection.execute("ALTER TABLE cases DROP COLUMN depth_unit")
    connection.execute("ALTER TABLE decisions DROP COLUMN relief")
    connection.execute("PRAGMA user_version=1")
    connection.commit()
    connection.close()
    with CaseBase.open(file) as again:
        assert (again.depth_unit(with_depth), again.depth_unit(without)) == ("mm", None)
        again.correct(with_depth, {"step": 2})
        again.undo()
        assert again.get(with_depth).step == 1


def test_the_unit_of_a_depth_image_lasts_through_correction_and_undo(base: CaseBase) -> None:
    case = base.add(replace(draft(1, depth_image=b"depth"), depth_unit="um")).id
    base.correct(case, {"step": 2})
    base.undo()
    assert base.depth_unit(case) == "um"
    base.retire(case)
    base.add(replace(draft(1, depth_image=b"depth"), depth_unit="m"))
    assert base.depth_unit(case) == "m"
    base.undo()
    assert base.depth_unit(case) == "um"


def test_numbers_beyond_64_bits_are_refused(base: CaseBase) -> None:
    base.add(draft(1))
    for call in (lambda: base.undo(10**30), lambda: base.log(10**30), lambda: base.decisions(limit=10**30)):
        with pytest.raises(InputError, match="a number is too large for a case base"):
            call()
    for look in (base.decision, base.decision_thumbnail, base.decision_vector):
        with pytest.raises(NoSuchCase, match="there is no decision 1000"):
            look(10**30)
    assert len(base) == 1


def test_the_remedy_of_another_crop_is_one_command(base: CaseBase, file: Path) -> None:
    with pytest.raises(CropMismatch) as told:
        base.require(IDENTITY, "truth")
    assert told.value.hint == f"use the base's own, or `sagehand cases reembed {file} --embedder hash --crop truth`"


@pytest.mark.parametrize(
    ("code", "words"), [(sqlite3.SQLITE_CANTOPEN, "its folder are there"), (sqlite3.SQLITE_IOERR, "check the disk")]
)
def test_what_the_system_refuses_has_a_remedy(code: int, words: str) -> None:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code
    with pytest.raises(StoreError, match=words), translated("p.cases"):
        raise error


def test_a_correction_is_checked_for_what_it_changes(base: CaseBase) -> None:
    case = base.add(draft(1, next_action="old name")).id
    seen: list[Any] = []
    base.correct(case, {"step": "2"}, check=seen.append)
    assert seen == [{"step": 2}]

    def refuse(fields: Any) -> None:
        raise InputError(f"no {fields['next_action']}")

    with pytest.raises(InputError, match="no prey"):
        base.correct(case, {"next_action": "prey"}, check=refuse)
    assert base.get(case).next_action == "old name"


def test_reembed_replaces_the_depth_vectors(base: CaseBase) -> None:
    ids = [base.add(draft(n, depth_image=b"d", depth_vector=unit(n, 576))).id for n in range(2)]
    new = EmbedderIdentity("new", "r", 5, "p")
    base.reembed(new, [Embedded(ids[0], unit(1, 5), None, unit(7, 576)), Embedded(ids[1], unit(2, 5))], "none")
    index = base.index()
    assert {index.ids[row] for row in index.depth_vectors} == {ids[0]}
    np.testing.assert_allclose(next(iter(index.depth_vectors.values())), unit(7, 576), atol=1e-6)
