"""The command line in process, and case bases that are built once and copied, for its tests."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from folders import write_rows
from sagehand.cli import main
from sagehand.demo import cell_folder

CELL = cell_folder()
QUERIES = CELL / "queries"
DEMO_QUERY = QUERIES / "fumonic_step3_view4.jpg"

LIBRARY = """\
families: [phone]
initial: [closed]
actions:
  unscrew: {description: Take the screws out., preconditions: [closed], effects: [loose]}
  pry: {description: Pry the cover off., preconditions: [loose], effects: [not closed]}
  pull_battery: {description: Pull the battery., preconditions: [not closed], effects: [battery_out], risk: confirm}
  end: {description: Nothing remains., preconditions: [battery_out], effects: []}
"""
STEPS = (("none", "unscrew"), ("unscrew", "pry"), ("pry", "pull_battery"), ("pull_battery", "end"))


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as JSON, and nothing else."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on stderr of a command that could not do anything."""
        assert (self.code, self.out) == (2, ""), self
        assert self.err.startswith("error: "), self
        assert self.err.count("\n") == 1, self
        assert self.err.endswith("\n"), self
        return self.err.removesuffix("\n")


def run(*arguments: object) -> Ran:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(a) for a in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with nothing set, 80 columns wide, without colour."""
    monkeypatch.chdir(folder)
    for name in [n for n in os.environ if n.startswith("SAGEHAND_")]:
        monkeypatch.delenv(name)
    for name, value in {"COLUMNS": "80", "LINES": "24", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)


def photo(step: int, view: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    """A noisy picture whose colours tell the step."""
    rng = np.random.default_rng([step, view])
    base = np.array([[200, 40, 40], [40, 200, 40], [40, 40, 200], [200, 200, 40]][(step - 1) % 4])
    blocks = np.clip(base + rng.integers(-30, 30, (size[1] // 8, size[0] // 8, 3)), 0, 255)
    return Image.fromarray(blocks.astype(np.uint8).repeat(8, axis=0).repeat(8, axis=1))


def row(step: int, view: int, **more: Any) -> dict[str, Any]:
    """The label of :func:`photo`."""
    previous, following = STEPS[step - 1]
    labels = {"family": "phone", "device": "x1", "step": step, "previous_action": previous, "next_action": following}
    return {"file_name": f"s{step}v{view}.png", **labels, **more}


def phone_folder(folder: Path, views: int = 3, **more: Any) -> Path:
    """A folder of cases: four steps of one phone."""
    folder.mkdir(parents=True)
    rows = [row(step, view, **more) for step in (1, 2, 3, 4) for view in range(views)]
    for step in (1, 2, 3, 4):
        for view in range(views):
            photo(step, view).save(folder / f"s{step}v{view}.png")
    write_rows(folder, rows)
    return folder


@cache
def _built(kind: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sagehand-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    into = folder / f"{kind}.cases"
    if kind == "demo":
        ran = run("cases", "import", CELL, "--into", into)
    else:
        ran = run("cases", "import", phone_folder(folder / "phones"), "--into", into, "--embedder", "hash")
    assert ran.code == 0, ran
    return into


def demo_base(folder: Path) -> Path:
    """A copy of the demo cell's case base, by the packaged embedder."""
    return Path(shutil.copy(_built("demo"), folder / "demo.cases"))


def phone_base(folder: Path) -> Path:
    """A copy of a case base of twelve small pictures, by the hash embedder; ``actions.yaml`` beside it."""
    (folder / "actions.yaml").write_text(LIBRARY)
    return Path(shutil.copy(_built("phone"), folder / "p.cases"))


def state(base: Path) -> tuple[int, int, str]:
    """Active cases, changes so far, and what SQLite says of the file's integrity."""
    with contextlib.closing(sqlite3.connect(f"file:{base}?mode=ro", uri=True)) as connection:
        (active,) = connection.execute("SELECT count(*) FROM cases WHERE NOT retired").fetchone()
        (changes,) = connection.execute("SELECT count(*) FROM history").fetchone()
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
    return active, changes, verdict


def files_below(folder: Path) -> set[str]:
    """All files of a folder, relative to it, but those that SQLite keeps beside an open file."""
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    return {name for name in found if not name.endswith(("-wal", "-shm"))}
