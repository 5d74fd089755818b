"""Files of JSON lines: whole after a cut at any byte, a kill and a full disk; one writer; damage is told with its place."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sagehand.lines as module
from sagehand.errors import InputError
from sagehand.lines import FolderLock, LineFile, read_records

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
DOCS = st.lists(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), VALUES, max_size=3), max_size=6)


def whole_object(doc: Any) -> dict[str, Any]:
    return dict(doc.items())


def records(path: Path) -> tuple[list[dict[str, Any]], int]:
    found = list(read_records(path, whole_object, hint="mend it"))
    return [doc for doc, _ in found], found[-1][1] if found else 0


def written(path: Path, docs: list[dict[str, Any]]) -> bytes:
    with LineFile(path) as file:
        starts = [file.add(doc) for doc in docs]
        assert list(file.lines()) == list(zip(starts, docs, strict=True))
        assert [file.at(start) for start in reversed(starts)] == docs[::-1]
    return path.read_bytes()


@given(docs=DOCS, data=st.data())
def test_a_file_cut_at_any_byte_opens_with_the_lines_that_were_whole(
    docs: list[dict[str, Any]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        text = written(path, docs)
        cut = data.draw(st.integers(0, len(text)))
        path.write_bytes(text[:cut])
        kept = docs[: text[:cut].count(b"\n")]
        with LineFile(path) as file:
            assert [doc for _, doc in file.lines()] == kept
            assert file.torn == cut - (text[:cut].rfind(b"\n") + 1)
            for doc in docs[len(kept) :]:
                file.add(doc)
        assert path.read_bytes() == text


@given(docs=DOCS, data=st.data())
def test_what_was_read_as_whole_is_kept_even_without_its_line_end(
    docs: list[dict[str, Any]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        text = written(path, docs)
        cut = data.draw(st.integers(0, len(text)) | st.just(max(len(text) - 1, 0)))
        path.write_bytes(text[:cut])
        kept = docs[: text[: cut + 1].count(b"\n")]  # a line that lacks its end alone is whole
        found, whole = records(path)
        assert found == kept
        with LineFile(path, whole=whole) as file:
            assert file.torn == cut - whole
            for doc in docs[len(kept) :]:
                file.add(doc)
        assert path.read_bytes() == text


def test_a_torn_line_longer_than_one_look_is_cut_off(tmp_path: Path) -> None:
    for before in (b"", b"{}\n", b"{}\n" * 50_000):
        (tmp_path / "x").write_bytes(before + b"x" * 150_000)
        with LineFile(tmp_path / "x") as file:
            assert file.torn == 150_000
        assert (tmp_path / "x").read_bytes() == before


def test_damage_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"{}\n[]\n{}\n")
    with pytest.raises(InputError, match=r"x:2: is no record: 'list' object .*mend it"):
        records(path)
    with pytest.raises(InputError, match=r"x:2: is no record: AttributeError\("):
        list(read_records(path, whole_object, hint="", said=repr))
    with LineFile(path) as file, pytest.raises(InputError, match=r"x: is damaged at byte 4"):
        list(file.lines())
    path.write_bytes(b"{}\n[]")  # whole JSON, and no record: torn
    assert records(path) == ([{}], 3)


def test_a_file_that_cannot_be_is_told(tmp_path: Path) -> None:
    assert records(tmp_path / "none") == ([], 0)
    with pytest.raises(InputError, match=r"cannot be read: Is a directory"):
        records(tmp_path)
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "none" / "x", "No such file or directory")):
        with pytest.raises(InputError, match=f"cannot be written: {why}"):
            LineFile(path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file: cannot be written: File exists.*another place with --out"):
        FolderLock(tmp_path / "file", "it", flag="--out")


def apart(script: str) -> subprocess.Popen[str]:
    head = "import os, resource, sys\nfrom pathlib import Path\nfrom sagehand.lines import FolderLock, LineFile\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("beats", [3, 200])
def test_what_was_told_survives_a_kill_and_nothing_is_held(tmp_path: Path, beats: int) -> None:
    child = apart(
        f"FolderLock(Path({str(tmp_path)!r}), 'this run')\n"
        f"lock = FolderLock(Path({str(tmp_path / 'in')!r}), 'this run')\n"
        f"file = LineFile(Path({str(tmp_path / 'x')!r}), 'busy')\n"
        "for number in range(10**9):\n"
        "    file.add({'number': number, 'text': 'x' * number})\n"
        "    print(number, flush=True)\n"
    )
    assert child.stdout is not None
    try:
        for number in range(beats):
            assert child.stdout.readline() == f"{number}\n"
        FolderLock(tmp_path, "this run").close()  # that one was let go
        with pytest.raises(InputError, match=rf"in: process {child.pid} is writing into this run"):
            FolderLock(tmp_path / "in", "this run")
        with pytest.raises(InputError, match="busy"):
            LineFile(tmp_path / "x", "busy")
    finally:
        child.kill()
        told = beats + child.stdout.read().count("\n")
        child.communicate()
    FolderLock(tmp_path / "in", "this run").close()
    with LineFile(tmp_path / "x", "busy") as file:
        numbers = [doc["number"] for _, doc in file.lines()]
    assert numbers == list(range(len(numbers)))
    assert told <= len(numbers) <= told + 1  # of the last one it may not have come to tell


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    child = apart(
        "resource.setrlimit(resource.RLIMIT_FSIZE, (120, resource.RLIM_INFINITY))\n"
        f"file = LineFile(Path({str(tmp_path / 'x')!r}))\n"
        "for number in (0, 1, 2, 3):\n"
        "    try:\n"
        "        file.add({'number': number, 'text': 'x' * 20 if number < 3 else ''})\n"
        "    except OSError as error:\n"
        "        print(number, error.strerror)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, resource.RLIM_INFINITY))\n"
        "file.add({'number': 4})\n"
        "file.close()\n"
    )
    told, _ = child.communicate(timeout=60)
    assert (child.returncode, told) == (0, "2 No space left on device\n")
    assert [doc["number"] for doc in records(tmp_path / "x")[0]] == [0, 1, 3, 4]
    assert (tmp_path / "x").read_bytes().count(b"\n") == 4


def test_the_lock_holds_the_id_of_the_last_owner_alone(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("123456789012345")
    FolderLock(tmp_path, "it").close()
    assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_lock_that_does_not_say_whose_it_is(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path, "it")
    (tmp_path / ".lock").write_text("")
    with pytest.raises(InputError, match=r"another process is writing into it"):
        FolderLock(tmp_path, "it")
    lock.close()


def test_closing_twice_takes_nobody_elses_file_away(tmp_path: Path) -> None:
    mine = LineFile(tmp_path / "x", "busy")
    mine.close(remove=True)
    assert not (tmp_path / "x").exists()
    with LineFile(tmp_path / "x", "busy"):
        mine.close(remove=True)
        assert (tmp_path / "x").exists()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], Callable[[float], None]]:
    """Where fsync was called, by size of the file; and what sets the clock [s]."""
    sizes: list[int] = []
    now = [100.0]
    monkeypatch.setattr(module.os, "fsync", lambda number: sizes.append(os.fstat(number).st_size))
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def clock(at: float) -> None:
        now[0] = at

    return sizes, clock


def test_it_is_put_on_the_disk_every_so_often_and_at_the_end(
    tmp_path: Path, synced: tuple[list[int], Callable[[float], None]]
) -> None:
    sizes, clock = synced
    with LineFile(tmp_path / "x", sync_seconds=1.0) as file:
        for at in (100.5, 101.5, 101.9, 102.4, 102.6):
            clock(at)
            file.append(b"{}\n")
        assert sizes == [6, 15]
        file.append(b"{}\n")
    assert sizes == [6, 15, 18]


def test_what_could_not_be_put_on_the_disk_is_not_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LineFile(tmp_path / "x", sync_seconds=0.0) as file:
        file.append(b"{}\n")

        def full(number: int) -> None:
            raise OSError(errno.ENOSPC, "no room")

        with monkeypatch.context() as broken:
            broken.setattr(module.os, "fsync", full)
            with pytest.raises(OSError, match="no room"):
                file.append(b"[]\n")
    assert (tmp_path / "x").read_bytes() == b"{}\n"


def test_it_is_not_put_on_the_disk_unasked(tmp_path: Path, synced: tuple[list[int], Callable[[float], None]]) -> None:
    sizes, clock = synced
    with LineFile(tmp_path / "x") as file:
        clock(1e6)
        file.append(b"{}\n")
    LineFile(tmp_path / "x", sync_seconds=1.0).close(remove=True)
    assert sizes == []


def test_what_json_has_no_word_for_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with LineFile(tmp_path / "x") as file:
        for wrong, error in (
            ({"a": float("nan")}, ValueError),
            ({"a": {1}}, TypeError),
            ({"a": "\ud800"}, UnicodeError),
        ):
            with pytest.raises(error):
                file.add(wrong)
        file.add({"a": "ü"})
    assert (tmp_path / "x").read_bytes() == json.dumps({"a": "ü"}, ensure_ascii=False).encode() + b"\n"
