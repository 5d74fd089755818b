"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from sagehand.errors import InputError

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file through a temporary one beside it, so that nothing half-written is ever seen or left.

    Args:
        path: The file; its folder is made when it is not there. A file of that name is replaced only by its own kind (a
            page by a page, a picture by a picture), and a database never: a slip of the pen must not cost a case base,
            a photo or an action library. Who may read it is as the process's umask says.
        data: What it shall hold.

    Raises:
        InputError: It cannot be written there.
    """
    draft = path.with_name(f".{secrets.token_hex(6)}.tmp")  # short: the file's own name may be as long as names can be
    try:
        if path.is_file():
            there, here = _kind(path), _kind_of(data)
            if there == "case base" or (there is not None and there != here):
                raise InputError(f"{path}: is a {there}, and is not written over", hint="name another file")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("xb") as file:
                file.write(data)
            os.replace(draft, path)
        except BaseException:  # Ctrl-C too
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}", hint="name another place") from error


_BEGINNINGS = (
    (b"SQLite format 3\0", "case base"),
    (b"<!doctype html", "page"),
    (b"{", "JSON file"),
    (b"[", "JSON file"),
    (b"\xff\xd8", "picture"),
    (b"\x89PNG", "picture"),
    (b"GIF8", "picture"),
    (b"RIFF", "picture"),
    (b"BM", "picture"),
    (b"II*\0", "picture"),
    (b"MM\0*", "picture"),
)


def _kind(path: Path) -> str | None:
    """What a file is, by its first bytes; None for an empty one."""
    with path.open("rb") as file:
        data = file.read(64)
    return _kind_of(data) if data else None


def _kind_of(data: bytes) -> str:
    start = data[:64].lower()
    return next((kind for mark, kind in _BEGINNINGS if start.startswith(mark.lower())), "file of another kind")
