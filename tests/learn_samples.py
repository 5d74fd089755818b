"""Small seeded samples for the tests of what is trained: three devices, each in its own colours, three steps each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from folders import write_rows
from sagehand.action.library import ActionLibrary
from sagehand.embed import HashEmbedder
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.methods.base import Bench
from sagehand.study.run.plan import Arm

ACTIONS = """
families: [phone, clock]
initial: [closed, not opened, not loose, not gone]
actions:
  pry: {description: Part the shells., preconditions: [closed], effects: [not closed, opened]}
  unscrew: {description: Take the screws out., preconditions: [opened, not loose], effects: [loose]}
  lift: {description: Take the part out., preconditions: [opened], effects: [gone], families: [clock]}
  end: {description: Nothing is left., preconditions: [not closed]}
"""
STEPS = {
    "phone": (("none", "pry", ["pry", "unscrew"]), ("pry", "unscrew", ["unscrew"]), ("unscrew", "end", [])),
    "clock": (("none", "pry", ["pry", "lift"]), ("pry", "lift", ["lift"]), ("lift", "end", [])),
}
DEVICES = {"nokia": "phone", "fairphone": "phone", "junghans": "clock"}


def make_folder(folder: Path, views: int = 4, *, size: int = 40) -> StudyData:
    """A folder of pictures whose pattern tells the step, its colours the family, and noise the view."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    done: dict[str, list[str]] = {"phone": ["pry", "unscrew"], "clock": ["pry", "lift"]}
    for device, family in DEVICES.items():
        for step, (previous, following, remaining) in enumerate(STEPS[family]):
            for view in range(views):
                name = f"{device}_{step + 1}_{view}.png"
                rng = np.random.default_rng([len(device), step, view])
                y, x = np.mgrid[:size, :size]
                pattern = [(x // 5) % 2, (y // 5) % 2, ((x - size / 2) ** 2 + (y - size / 2) ** 2 < 150)][step]
                colour = np.array([200, 60, 30] if family == "phone" else [30, 90, 200])
                pixels = pattern[..., None] * colour + rng.integers(0, 40, (size, size, 3))
                Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
                rows.append(
                    {
                        "file_name": name, "family": family, "device": device, "step": step + 1, "place": "table",
                        "previous_action": previous, "history": done[family][:step], "next_action": following,
                        "remaining_actions": remaining, "is_last": len(remaining) == 1, "end_state": not remaining,
                        "polygon": [[4, 4], [36, 4], [36, 30], [4, 30]],
                    }
                )  # fmt: skip
    write_rows(folder, rows)
    (folder / "actions.yaml").write_text(ACTIONS)
    return StudyData.load(folder)


def of(data: StudyData, *devices: str, views: Sequence[int] | None = None) -> tuple[Sample, ...]:
    """Samples of some devices; of some views of each step, where they are named."""
    wanted = None if views is None else {f"_{view}.png" for view in views}
    return tuple(s for s in data.samples if s.device in devices and (wanted is None or s.key[-6:] in wanted))


def bench(
    data: StudyData,
    work: Path,
    method: str = "classifier",
    train: Sequence[Sample] | None = None,
    validation: Sequence[Sample] | None = None,
    *,
    seed: int = 0,
    library: bool = True,
    **arm: Any,
) -> Bench:
    """A bench of an arm: learns from the first views of the phones and the clock, validated on the last ones."""
    devices = tuple(DEVICES)
    return Bench(
        arm=Arm(name="arm", method=method, **{"crop": "none", "guard": False, **arm}),
        seed=seed,
        fold=0,
        train=of(data, *devices, views=(0, 1)) if train is None else train,
        validation=of(data, *devices, views=(2,)) if validation is None else validation,
        certify=(),
        library=ActionLibrary.load(data.folder / "actions.yaml") if library else None,
        embedder=HashEmbedder(),
        work=work,
    )
