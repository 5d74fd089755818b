"""Kill two writers with ``kill -9`` again and again, and count what was lost (SPEC A1, FIELD_REPORTS R04).

    python bench/kill9.py --cycles 100 [--json]

Each cycle starts two processes that add cases to one case base and note every id after ``add`` has returned. At a random
moment both are killed. The file is opened again: every noted case must be there with its picture, no id twice, SQLite's
integrity check clean. A byte of shared memory tells how far each writer was when it died.
"""

from __future__ import annotations

import argparse
import hashlib
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from figures import Figure, Report, parser_for, show

from sagehand.cases.base import CaseBase
from sagehand.cases.case import CaseDraft
from sagehand.embed import EmbedderIdentity
from sagehand.errors import CaseConflict, SagehandError

DIMENSION = 1280
IDENTITY = EmbedderIdentity("random", "1", DIMENSION, "none")
STARTING, BETWEEN, WAITING, WRITING, COMMITTING = range(5)
PHASES = ("starting", "between two writes", "waiting for the lock", "inside a write", "inside a commit")
SHARED_EVERY = 6
MUST_BE_ZERO = (
    "acknowledged rows lost", "added twice", "damaged pictures", "rows without a vector",
    "history does not fit", "problems reported", "failures to open",
)  # fmt: skip
LEAST = {"acknowledged rows": 1000, "kills inside a write or commit": 20}


def picture(case_id: str) -> bytes:
    """About 20 kB that follow from the id, so that the reader can tell whether they are whole."""
    return hashlib.shake_128(case_id.encode()).digest(15_000 + int(case_id[:4], 16) % 10_000)


def write(folder: Path, which: int, cycle: int) -> None:
    """Add cases until killed; every sixth is one that the other writer adds too."""
    with (folder / "phases").open("r+b") as file, (folder / "noted").open("ab", buffering=0) as noted:
        phase = mmap.mmap(file.fileno(), 0)
        base = CaseBase.open(folder / "cases")

        def follow(statement: str) -> None:
            if statement.startswith("BEGIN IMMEDIATE"):
                phase[which] = WAITING
            elif statement == "COMMIT":
                phase[which] = COMMITTING
            elif phase[which] == WAITING:  # the first statement after BEGIN: the lock is ours
                phase[which] = WRITING

        base._store.connection.set_trace_callback(follow)
        rng = np.random.default_rng([cycle, which])
        for number in range(1_000_000):
            owner = "both" if number % SHARED_EVERY == 0 else str(which)
            case_id = hashlib.md5(f"{cycle}-{owner}-{number}".encode()).hexdigest()
            vector = rng.normal(size=DIMENSION)
            vector /= np.linalg.norm(vector)
            row = {
                "file_name": f"{case_id}.jpg",
                "family": "bench",
                "device": f"device {number % 7}",
                "step": number % 5,
            }
            try:
                base.add(CaseDraft(picture(case_id), case_id, vector.astype(np.float32), row))
                line = f"added {case_id}\n"
            except CaseConflict:
                line = f"conflict {case_id}\n"
            phase[which] = BETWEEN
            noted.write(line.encode())  # in the kernel's hands: survives the kill


def kill_once(folder: Path, cycle: int, rng: random.Random) -> list[int]:
    """Start both writers, kill them at a random moment; returns the phases in which they died."""
    (folder / "phases").write_bytes(bytes([STARTING] * 2))
    command = [sys.executable, __file__, "--writer", str(folder), "--cycle", str(cycle), "--which"]
    writers = [subprocess.Popen([*command, str(which)]) for which in range(2)]
    try:
        deadline = time.monotonic() + 30
        while STARTING in (folder / "phases").read_bytes() and time.monotonic() < deadline:
            if any(writer.poll() is not None for writer in writers):
                raise SystemExit("a writer ended by itself: see its message above")
            time.sleep(0.002)
        time.sleep(rng.uniform(0.005, 0.06))
    finally:
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
        for writer in writers:
            writer.wait()
    return list((folder / "phases").read_bytes())


def check(folder: Path, checked: set[str]) -> dict[str, int]:
    """Open the file and compare it with what the writers noted; pictures are compared once each."""
    lines = [line.split() for line in (folder / "noted").read_text().splitlines()]
    added = [case_id for what, case_id in lines if what == "added"]
    try:
        base = CaseBase.open(folder / "cases", read_only=False)
    except SagehandError as error:
        print(f"cannot open: {error}", file=sys.stderr)
        return {"failures to open": 1}
    with base:
        ids = [case.id for case in base.cases()]
        there = set(ids)
        found = {
            "acknowledged rows": len(added),
            "acknowledged rows lost": len(set(added) - there),
            "added twice": len(added) - len(set(added)) + len(ids) - len(there),
            "conflicts": sum(what == "conflict" for what, _ in lines),
            "rows in the file": len(ids),
            "damaged pictures": sum(base.image(i) != picture(i) for i in there - checked),
            "rows without a vector": len(ids) - len(base.index()),
            "history does not fit": int(set(base.as_of(base.revision)) != there),
            "problems reported": len(base.problems(thorough=True)),
        }
    checked |= there
    return found


def run(cycles: int, seed: int) -> dict[str, int | float]:
    """All cycles on one file."""
    rng, started = random.Random(seed), time.monotonic()
    phases: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="sagehand-kill9-") as name:
        folder, checked = Path(name), set[str]()
        CaseBase.create(folder / "cases", embedder=IDENTITY).close()
        (folder / "noted").touch()
        faults: Counter[str] = Counter()
        last: dict[str, int] = {}
        for cycle in range(cycles):
            died_in = kill_once(folder, cycle, rng)
            phases.update(PHASES[phase] for phase in died_in)
            phases["kills inside a write or commit"] += any(phase >= WRITING for phase in died_in)
            last = check(folder, checked)
            faults["failures to open"] += last.pop("failures to open", 0)
            faults["damaged pictures"] += last.pop("damaged pictures", 0)
    writers = {f"writers killed {phase}": phases[phase] for phase in PHASES}
    inside = phases["kills inside a write or commit"]
    seconds = round(time.monotonic() - started, 1)
    return {"cycles": cycles, "kills inside a write or commit": inside, **writers, **last, **faults, "seconds": seconds}


def report(result: dict[str, int | float], seed: int) -> Report:
    """The counts with their targets: nothing may be lost, and a run of 100 cycles must have hit writes often enough."""
    bounds: dict[str, tuple[float, bool]] = dict.fromkeys(MUST_BE_ZERO, (0, True))
    if result["cycles"] >= 100:
        bounds |= {name: (least, False) for name, least in LEAST.items()}
    figures = [
        Figure(name, value, "", *bounds.get(name, (None, True)))
        for name, value in result.items()
        if name not in ("cycles", "seconds")
    ]
    setup = {"cycles": result["cycles"], "seed": seed, "seconds": result["seconds"]}
    return Report("Two writers killed with kill -9, again and again", setup, figures)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--cycles", type=int, default=20, help="times both writers are killed (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which they are killed")
    parser.add_argument("--writer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cycle", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--which", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer is not None:
        write(options.writer, options.which, options.cycle)
    result = run(options.cycles, options.seed)
    show(report(result, options.seed), options.json)
    sys.exit(any(result.get(name, 0) for name in MUST_BE_ZERO))


if __name__ == "__main__":
    main()
