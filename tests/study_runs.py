"""Small studies for tests: seeded pictures with labels, plans, and a method that is told what to answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from folders import jpeg, write_rows
from sagehand.judge.cost import Cost
from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Answer, Bench
from sagehand.study.run.plan import Plan

ACTIONS = """\
families: [phone]
initial: [closed]
actions:
  open: {description: Open it., preconditions: [closed], effects: [not closed]}
  pull: {description: Pull the battery., preconditions: [not closed], effects: [empty]}
  end: {description: Nothing remains., preconditions: [empty], effects: []}
"""
STEPS = (("none", "open"), ("open", "pull"), ("pull", "end"))


def study_folder(folder: Path, *, devices: int = 2, views: int = 4, seed: int = 0) -> Path:
    """Pictures of ``devices`` devices with three steps each, ``views`` a step."""
    folder.mkdir(parents=True)
    rows = []
    for device in range(devices):
        for step, (before, after) in enumerate(STEPS, 1):
            for view in range(views):
                name = f"d{device}_s{step}_v{view}.jpg"
                (folder / name).write_bytes(jpeg(1000 * seed + 100 * device + 10 * step + view))
                row = {"file_name": name, "family": "phone", "device": f"d{device}", "step": step, "place": "table"}
                rows.append({**row, "previous_action": before, "next_action": after})
    write_rows(folder, rows)
    (folder / "actions.yaml").write_text(ACTIONS)
    return folder


def plan(arms: str = "one: {method: majority}", **fields: Any) -> Plan:
    """A plan with these arms, of the hash embedder and without a crop."""
    told = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return Plan.parse(f"name: test\n{told}defaults: {{embedder: hash, crop: none}}\narms: {{{arms}}}\n")


class Scripted:
    """Answers by a function of (bench, sample), and remembers what it was asked."""

    name = "scripted"

    def __init__(self, bench: Bench, say: Callable[[Bench, Sample], Answer], asked: list[tuple[str, int, str]]) -> None:
        self._bench, self._say, self._asked = bench, say, asked
        self._lock = threading.Lock()
        self.closed = False

    def answer(self, sample: Sample) -> Answer:
        with self._lock:
            self._asked.append((self._bench.arm.name, self._bench.seed, sample.key))
        return self._say(self._bench, sample)

    def close(self) -> None:
        self.closed = True


def right(bench: Bench, sample: Sample) -> Answer:
    """The true next action, at the cost of one call."""
    return Answer(next_action=sample.next_action, usage=Cost(1, 100, 10, 0.5, 0), confidence=0.9)


class Maker:
    """A ``make`` of scripted methods that stops the run when it has answered ``until`` samples."""

    def __init__(
        self, say: Callable[[Bench, Sample], Answer] = right, until: int | None = None, wait: float = 0
    ) -> None:
        self.say, self.until, self.wait = say, until, wait
        self.asked: list[tuple[str, int, str]] = []
        self.benches: list[Bench] = []
        self.made: list[Scripted] = []

    def __call__(self, bench: Bench) -> Scripted:
        self.benches.append(bench)
        self.made.append(Scripted(bench, self._told, self.asked))
        return self.made[-1]

    def _told(self, bench: Bench, sample: Sample) -> Answer:
        if self.until is not None and len(self.asked) > self.until:
            raise RuntimeError("the power went out")
        time.sleep(self.wait)
        return self.say(bench, sample)


def without_times(records: Sequence[Any]) -> list[dict[str, Any]]:
    """Records as plain data, without what differs from run to run."""
    return [{k: v for k, v in r.to_dict().items() if k not in ("seconds", "timings")} for r in records]
