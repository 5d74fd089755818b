"""Files are written whole or not at all, and for whom the umask says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sagehand.errors import InputError
from sagehand.files import write_whole


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_says_who_may_read(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "deep" / "page.html", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "deep" / "page.html").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_nothing_is_left_of_a_write_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def stopped(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(InputError if error is OSError else error):
        write_whole(tmp_path / "a", b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]


def test_a_long_name_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("n" * 255), b"1")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"1"


@pytest.mark.parametrize(
    ("there", "kind"), [(b"\xff\xd8\xff photo", "picture"), (b"families: [f]\n", "file of another kind")]
)
def test_a_file_of_another_kind_is_not_written_over(tmp_path: Path, there: bytes, kind: str) -> None:
    path = tmp_path / "mine"
    path.write_bytes(there)
    with pytest.raises(InputError, match=f"is a {kind}, and is not written over"):
        write_whole(path, b"<!doctype html><p>page")
    assert path.read_bytes() == there


def test_a_page_takes_the_place_of_a_page_and_of_an_empty_file(tmp_path: Path) -> None:
    for name, there in (("a.html", b"<!DOCTYPE html>old"), ("b.html", b"")):
        (tmp_path / name).write_bytes(there)
        write_whole(tmp_path / name, b"<!doctype html>new")
        assert (tmp_path / name).read_bytes() == b"<!doctype html>new"
