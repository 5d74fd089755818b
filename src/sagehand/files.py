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
        path: The file; its folder is made when it is not there, a file of that name is replaced unless it is a database:
            a slip of the pen must not cost a case base. Who may read it is as the process's umask says.
        data: What it shall hold.

    Raises:
        InputError: It cannot be written there.
    """
    draft = path.with_name(f".{secrets.token_hex(6)}.tmp")  # short: the file's own name may be as long as names can be
    try:
        if path.is_file() and _is_database(path):
            raise InputError(f"{path}: is a case base, and is not written over", hint="name another file")
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


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"
