"""A run whose answers are drawn from a seed: what a report is tested on without asking any method."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.methods.base import Answer
from sagehand.study.report.load import Study
from sagehand.study.run.plan import Arm, Plan
from sagehand.study.run.record import Record, record_of

ACTIONS = ("place_in_vise", "cnc_cut_circular", "cnc_cut_rectangular", "remove_battery_by_wiggling", "end")
DEVICES = {"ei": "smoke_detector", "kalo": "heat_cost_allocator", "hekatron": "smoke_detector"}
STEPS = 4
VIEWS = 5

# arm → (method, share of right actions, share of right cases, more of the plan)
OFFLINE: dict[str, tuple[str, float, float, dict[str, Any]]] = {
    "random": ("random", 0.2, 0.0, {}),
    "majority": ("majority", 0.25, 0.0, {}),
    "context": ("context", 0.6, 0.4, {}),
    "nearest": ("nearest", 0.6, 0.55, {}),
    "nearest-none": ("nearest", 0.5, 0.4, {"crop": "none"}),
    "perceptual": ("perceptual", 0.9, 0.85, {}),
    "perceptual-none": ("perceptual", 0.8, 0.75, {"crop": "none"}),
    "perceptual-no-context": ("perceptual", 0.65, 0.6, {"previous": False, "place": False}),
    "perceptual-risk": ("perceptual", 0.9, 0.85, {"risk": 0.05}),
}
WITH_MODEL: dict[str, tuple[str, float, float, dict[str, Any]]] = {
    "zero": ("zero-shot", 0.6, 0.0, {"model": "qwen3-vl-30b"}),
    "single": ("single-rag", 0.7, 0.6, {"model": "qwen3-vl-30b", "crop": "box"}),
    "bad": ("bad-single-rag", 0.55, 0.0, {"model": "qwen3-vl-30b", "crop": "box"}),
    "guided": ("guided", 0.9, 0.85, {"model": "qwen3-vl-30b", "crop": "box"}),
    "guided-4o": ("guided", 0.95, 0.9, {"model": "gpt-4o", "crop": "box"}),
    "resnet": ("classifier", 0.4, 0.0, {}),
    "tuned": ("fine-tuned-vlm", 0.6, 0.0, {"model": "qwen3-vl-30b"}),
}


def pictures(folder: Path) -> StudyData:
    """A folder of flat pictures, one color a device and step."""
    folder.mkdir(parents=True)
    rows = []
    for d, (device, family) in enumerate(DEVICES.items()):
        for step in range(1, STEPS + 1):
            for view in range(VIEWS):
                name = f"{device}-{step}-{view}.jpg"
                Image.new("RGB", (64, 48), (60 * d + view, 50 * step, 90)).save(folder / name)
                rows.append(
                    {
                        "file_name": name, "device": device, "family": family, "step": step, "place": "table",
                        "previous_action": "none" if step == 1 else ACTIONS[step - 2], "next_action": ACTIONS[step - 1],
                        "remaining_actions": list(ACTIONS[step - 1 : STEPS]), "is_last": step == STEPS,
                        "polygon": [[8, 8], [56, 8], [56, 40], [8, 40]],
                    }
                )  # fmt: skip
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return StudyData.load(folder)


def plan_of(arms: dict[str, tuple[str, float, float, dict[str, Any]]], seeds: Sequence[int], data: str) -> Plan:
    made = tuple(Arm(name=name, method=method, **more) for name, (method, _, _, more) in arms.items())
    return Plan(name="a drawn study", data=data, seeds=tuple(seeds), certify=1, arms=made)


def answers(data: StudyData, plan: Plan, arms: dict[str, tuple[str, float, float, dict[str, Any]]]) -> Iterable[Record]:
    base = {s.key: s for s in data.samples if int(s.key[-5]) < 2}
    queries = [s for s in data.samples if s.key not in base]
    for arm in plan.arms:
        method, right, recalled, _ = arms[arm.name]
        for seed in plan.seeds:
            for sample in queries:
                subset = "query"
                if method in ("classifier", "fine-tuned-vlm"):
                    subset = ("train", "validation", "test")[list(DEVICES).index(sample.device)]
                rng = random.Random(f"{arm.name} {seed} {sample.key}")
                yield record_of(
                    sample, _answer(sample, arm, rng, right, recalled, base), arm=arm.name, seed=seed, fold=0,
                    subset=subset, seconds=round(rng.uniform(0.01, 0.2), 4), base=base,
                )  # fmt: skip


def _answer(
    sample: Sample, arm: Arm, rng: random.Random, right: float, recalled: float, base: dict[str, Sample]
) -> Answer:
    hit = rng.random() < right
    told = sample.next_action if hit else rng.choice([a for a in ACTIONS if a != sample.next_action])
    order: list[str] = []
    if recalled:
        keys = sorted(base)
        rng.shuffle(keys)
        good = [k for k in keys if base[k].place_in_tree == sample.place_in_tree]
        order = keys if rng.random() > recalled else [*good, *(k for k in keys if k not in good)]
    sure = round(min(1.0, rng.uniform(0.5, 1.0) if hit else rng.uniform(0.2, 0.8)), 3)
    abstained = arm.risk is not None and sure < 0.75
    looks = arm.method not in ("random", "majority", "context", "zero-shot")
    search = None
    if arm.method == "guided":
        search = {"outcome": "found", "first_confirmed": rng.random() < 0.8, "leaves": 2, "graded": 8, "calls": 9}
    return Answer(
        next_action=None if abstained else told,
        previous_action=sample.previous_action,
        remaining_actions=sample.remaining_actions if hit else None,
        is_last=sample.is_last if hit else None,
        device_class=sample.family if hit else "unknown",
        confidence=sure if arm.method == "perceptual" else None,
        abstained=abstained,
        proposed=told if abstained else None,
        case=order[0] if order else None,
        order=order,
        box=(4.0, 4.0, 48.0, 40.0) if looks and arm.crop != "none" else None,
        size=(64, 48) if looks else None,
        search=search,
        failure="truncated" if arm.method == "zero-shot" and rng.random() < 0.1 else None,
    )


def run_folder(
    folder: Path,
    data: StudyData,
    arms: dict[str, tuple[str, float, float, dict[str, Any]]],
    seeds: Sequence[int] = (0, 1),
) -> Path:
    """Write a run folder as the runner leaves it."""
    plan = plan_of(arms, seeds, str(data.folder))
    folder.mkdir(parents=True)
    (folder / "plan.yaml").write_text(plan.to_yaml())
    records = list(answers(data, plan, arms))
    (folder / "records.jsonl").write_text("".join(json.dumps(r.to_dict()) + "\n" for r in records))
    manifest = {
        "format": 1, "name": plan.name, "seeds": list(seeds), "data_folder": str(data.folder),
        "data": {str(s): {"folder": str(data.folder), "digest": data.digest, "samples": len(data.samples)} for s in seeds},
        "actions": {"source": "/somewhere/actions.yaml", "digest": "ab" * 20}, "settings": {"vlm_model": "m", "seed": 1},
        "sessions": [
            {
                "started": "2026-03-14T09:26:53+00:00", "finished": "2026-03-14T09:30:00+00:00", "state": "done",
                "versions": {"sagehand": "0.1.0"}, "machine": {"cpus": 2, "processor": "x86_64", "system": "Linux"},
            }
        ],
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def study_of(folder: Path, arms: dict[str, tuple[str, float, float, dict[str, Any]]]) -> Study:
    """A run of two seeds with these arms, as a report sees it; its pictures are made in ``folder``."""
    data = pictures(folder)
    plan = plan_of(arms, (0, 1), str(data.folder))
    return Study("run", plan, {}, list(answers(data, plan, arms)), {None: data})
