"""What one durable write costs: a case, a decision, and SQLite alone with the same bytes.

Run: ``python bench/appends.py [--rounds 200] [--json]``. In turn, one transaction each: ``CaseBase.add`` of a 20 kB picture
with its 1280-d vector, ``CaseBase.record_decision`` of a 6 kB document with vector and 10 kB thumbnail, and a bare SQLite
insert (WAL, ``synchronous=FULL``, as the case base has it) of as many bytes in one blob. Beside them: a bare
append and ``fdatasync`` of a file, to tell what the disk asks.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from figures import Figure, Report, in_turn, milliseconds, parser_for, processors, ratio, show
from numpy.typing import NDArray

from sagehand.cases import CaseBase, CaseDraft
from sagehand.embed import EmbedderIdentity

DIMENSION = 1280
CASE_BYTES, THUMBNAIL_BYTES, DOC_BYTES = 20_000, 10_000, 6_000
ARMS = {
    "add": "CaseBase.add",
    "bare add": "bare SQLite, a case's bytes",
    "decision": "CaseBase.record_decision",
    "bare decision": "bare SQLite, a decision's bytes",
    "file": "bare file, append and fdatasync of a decision's bytes",
}


def bare_sqlite(path: Path, size: int) -> Callable[[], None]:
    """Appends a blob of ``size`` bytes in a transaction of its own, durably."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE blobs (n INTEGER PRIMARY KEY, data BLOB)")
    blob = os.urandom(size)

    def append() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO blobs (data) VALUES (?)", (blob,))
        connection.execute("COMMIT")

    return append


def bare_file(path: Path, size: int) -> Callable[[], None]:
    handle, blob = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), os.urandom(size)

    def append() -> None:
        os.write(handle, blob)
        os.fdatasync(handle)

    return append


def adding(base: CaseBase, rng: np.random.Generator) -> Callable[[], object]:
    numbers = itertools.count()

    def add() -> object:
        number = next(numbers)
        row = {"file_name": f"{number}.jpg", "family": "bench", "device": f"device {number // 10}", "step": number % 10}
        return base.add(CaseDraft(rng.bytes(CASE_BYTES), f"{number:032x}", unit_vector(rng), row))

    return add


def recording(base: CaseBase, rng: np.random.Generator) -> Callable[[], object]:
    vector, thumbnail = unit_vector(rng), rng.bytes(THUMBNAIL_BYTES)
    doc: dict[str, Any] = {"next_action": "unscrew", "evidence": ["x" * 100] * (DOC_BYTES // 104)}
    return lambda: base.record_decision(doc, vector=vector, thumbnail=thumbnail)


def unit_vector(rng: np.random.Generator) -> NDArray[np.float32]:
    vector = rng.standard_normal(DIMENSION)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def measure(rounds: int, seed: int) -> Report:
    rng = np.random.default_rng(seed)
    identity = EmbedderIdentity("random", "1", DIMENSION, "none")
    case_size, decision_size = CASE_BYTES + 4 * DIMENSION, DOC_BYTES + THUMBNAIL_BYTES + 4 * DIMENSION
    with tempfile.TemporaryDirectory(prefix="sagehand-bench-") as name:
        folder = Path(name)
        with (
            CaseBase.create(folder / "adds", embedder=identity) as adds,
            CaseBase.create(folder / "decisions", embedder=identity) as decisions,
        ):
            arms = {
                "add": adding(adds, rng),
                "bare add": bare_sqlite(folder / "bare-adds.db", case_size),
                "decision": recording(decisions, rng),
                "bare decision": bare_sqlite(folder / "bare-decisions.db", decision_size),
                "file": bare_file(folder / "file", decision_size),
            }
            taken = in_turn(arms, rounds, seed=seed)
    figures = []
    for arm, words in ARMS.items():
        figures.append(Figure(f"{words}: median", milliseconds(taken[arm]), "ms"))
        figures.append(Figure(f"{words}: 95th percentile", milliseconds(taken[arm], 0.95), "ms"))
    figures.append(Figure("CaseBase.add / bare SQLite", ratio(taken["add"], taken["bare add"])))
    figures.append(Figure("CaseBase.record_decision / bare SQLite", ratio(taken["decision"], taken["bare decision"])))
    setup = {
        "rounds": rounds,
        "seed": seed,
        "bytes of a case": case_size,
        "bytes of a decision": decision_size,
        "SQLite": sqlite3.sqlite_version,
        "processors": processors(),
    }
    return Report(
        "Durable appends, one transaction each",
        setup,
        figures,
        [f"the files lie in {tempfile.gettempdir()}: the disk there decides; TMPDIR chooses another"],
    )


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="writes of each kind (default 200)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    show(measure(arguments.rounds, arguments.seed), arguments.json)


if __name__ == "__main__":
    main()
