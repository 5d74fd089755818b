"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from sagehand.errors import InputError

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file through a temporary one beside it, so that nothing half-written is ever seen or left.

    Args:
        path: The file; its folder is made when it is not there, a file of that name is replaced.
        data: What it shall hold.

    Raises:
        InputError: It cannot be written there.
    """
    draft = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            draft = file.name
            file.write(data)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except OSError as error:
        if draft is not None:
            with contextlib.suppress(OSError):
                os.unlink(draft)
        raise InputError(f"{path}: cannot be written: {error.strerror or error}", hint="name another place") from error
