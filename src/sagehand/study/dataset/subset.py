"""Some samples of a folder as a folder of their own, as the retrieval base of a split is one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sagehand.errors import InputError
from sagehand.study.dataset.sample import Sample, StudyData

__all__ = ["write_subset"]


def write_subset(data: StudyData, samples: Iterable[Sample], out: str | Path) -> int:
    """Copy samples into a new folder: pictures, depth images, rows with all their keys, and the actions.

    Args:
        data: The folder that the samples are from.
        samples: In the order in which their rows shall stand.
        out: Must not exist, or be empty. It appears whole or not at all.

    Returns:
        How many pictures were copied.

    Raises:
        InputError: The folder is not empty or cannot be written, or a picture is missing.
    """
    target = Path(out).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{out}: is not an empty folder", hint="give the name of a new folder")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        draft.mkdir(parents=True)
        rows = [_copy(data.folder, sample, draft) for sample in samples]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (draft / "metadata.jsonl").write_text(text, encoding="utf-8", newline="")
        if data.actions is not None:
            shutil.copyfile(data.actions, draft / "actions.yaml")
        os.rename(draft, target)
    except OSError as error:
        raise InputError(
            f"{error.filename or out}: cannot be copied: {error.strerror or error}",
            hint="check the path, its permissions, and that the picture is there",
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return len(rows)


def _copy(folder: Path, sample: Sample, target: Path) -> dict[str, Any]:
    row = dict(sample.row)
    for name in (row["file_name"], row.get("depth_file_name")):
        if name is not None:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, target / name)
    return row
