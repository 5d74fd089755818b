"""What stands beside every result: settings, versions, models, prompts, seeds, digests, machine, sessions.

A run folder takes more arms and more seeds, and nothing else: each arm's digest stands for all that its records depend
on, so what is there stays valid or is refused, with what differs.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sagehand.errors import InputError
from sagehand.files import write_whole
from sagehand.judge.calibration import RECIPE
from sagehand.settings import Resolved, Settings
from sagehand.study.dataset.sample import StudyData
from sagehand.study.run.plan import Arm, Plan
from sagehand.study.run.store import MANIFEST, PLAN, Run

if TYPE_CHECKING:
    from sagehand.action.library import ActionLibrary
    from sagehand.vlm.ask import Vlm

__all__ = [
    "Manifest",
    "arm_facts",
    "merged",
    "old_facts",
    "other_pictures",
    "plain_settings",
    "refuse_other",
    "source_digest",
    "write_plan",
]

_SOURCE = frozenset((".py", ".md", ".yaml", ".html", ".onnx"))
_PACKAGES = (
    "numpy",
    "scipy",
    "onnxruntime",
    "pillow",
    "pydantic",
    "torch",
    "transformers",
    "peft",
    "openai",
    "xgrammar",
)


class Manifest:
    """The manifest of a run folder, written anew whenever something is known.

    Args:
        folder: The run folder.
        doc: The manifest of earlier sessions; {} for a new run.
        plan: The plan, with what is there already.
    """

    def __init__(self, folder: Path, doc: Mapping[str, Any], plan: Plan) -> None:
        self._folder = folder
        self.doc: dict[str, Any] = dict(doc)
        self.doc.update(format=1, name=plan.name, seeds=list(plan.seeds))

    def describe(
        self,
        *,
        data_folder: str,
        data: Mapping[int, StudyData],
        library: ActionLibrary | None,
        arms: Mapping[str, Mapping[str, Any]],
        settings: Mapping[str, Any],
    ) -> None:
        """Say what the run stands on.

        Args:
            data_folder: Folder of the pictures as it was named, ``{seed}`` and all.
            data: Seed → its pictures.
            library: The actions.
            arms: Arm → its :func:`arm_facts`.
            settings: Resolved settings without secrets.
        """
        self.doc["data_folder"] = data_folder
        self.doc["data"] = {**self.doc.get("data", {}), **{str(seed): _data_doc(d) for seed, d in data.items()}}
        self.doc["actions"] = None if library is None else {"source": library.source, "digest": library.digest}
        facts = {**self.doc.get("arms", {}), **{name: dict(f) for name, f in arms.items()}}
        self.doc["arms"] = facts
        self.doc["digests"] = {name: _digest(f) for name, f in facts.items()}
        self.doc["settings"] = dict(settings)

    def model(self, arm: str, vlm: Vlm, prompts: str) -> None:
        """Say which model an arm asks: its name, its profile, the digest of its prompts."""
        models = self.doc.setdefault("models", {})
        models[arm] = {"model": vlm.model, "profile": vlm.profile.to_dict(), "prompts": prompts}

    def begin(self, asked: Mapping[str, Any]) -> None:
        """A session starts; its settings and what it runs on are its own, as a run may be gone on with elsewhere.

        Args:
            asked: What was asked for: jobs, arms and seeds chosen, whether failed items are asked again.
        """
        session = {
            "started": _now(),
            "finished": None,
            "state": "running",
            **asked,
            "settings": self.doc.get("settings"),
            "versions": _versions(),
            "source": source_digest(),
            "machine": _machine(),
        }
        self.doc.setdefault("sessions", []).append(session)
        self.write()

    def end(self, state: str, answered: int) -> None:
        """The session ends: "done", "interrupted" or "failed"."""
        self.doc["sessions"][-1].update(finished=_now(), state=state, answered=answered)
        self.write()

    def write(self) -> None:
        """Write it."""
        text = json.dumps(self.doc, indent=2, ensure_ascii=False, default=str) + "\n"
        write_whole(self._folder / MANIFEST, text.encode())


def arm_facts(
    plan: Plan,
    arm: Arm,
    *,
    library: ActionLibrary | None,
    embedder: Mapping[str, Any],
    model: str | None,
    prompts: str | None,
    settings: Settings,
) -> dict[str, Any]:
    """All that an arm's records depend on beside the pictures, as plain data.

    The code's own version is not among it: a run may be gone on with after an update, and every session names its versions
    and the digest of its source. Nor is the server's address: a model may be served elsewhere tomorrow.

    Args:
        plan: The plan.
        arm: The arm.
        library: The actions.
        embedder: Identity of the embedder.
        model: Name of the model that the arm asks; None where it asks none.
        prompts: Digest of the prompts; None likewise.
        settings: Resolved settings: how depth is read, and what bounds a model's decision.
    """
    return {
        **arm.model_dump(mode="json", exclude={"name"}),
        "protocol": plan.protocol_of(arm),
        "per_step": plan.per_step,
        "certify": plan.certify,
        "embedder": dict(embedder),
        "model": model,
        "prompts": prompts,
        "calibration_recipe": RECIPE,
        "actions": None if library is None else library.digest,
        "depth_unit": settings.depth_unit if arm.depth else None,
        "decision_seconds": None if model is None else settings.decision_seconds,
    }


def old_facts(plan: Plan, doc: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Arm → its facts of an earlier session with what the plan says of it now, for arms that are not run now.

    Args:
        plan: The plan.
        doc: The manifest of the earlier sessions.
    """
    told = {}
    for arm in plan.arms:
        if (was := doc.get("arms", {}).get(arm.name)) is not None:
            # which embedder and model a name stands for is found out when the arm is run
            now = arm.model_dump(mode="json", exclude={"name", "embedder", "model"})
            now |= {"protocol": plan.protocol_of(arm), "per_step": plan.per_step, "certify": plan.certify}
            told[arm.name] = {**was, **now}
    return told


def refuse_other(
    folder: Path, doc: Mapping[str, Any], arms: Mapping[str, Mapping[str, Any]], data: Mapping[int, StudyData]
) -> None:
    """Refuse a run folder whose records were made in another way.

    Args:
        folder: The run folder.
        doc: Its manifest.
        arms: Arm → its facts now.
        data: Seed → its pictures now.

    Raises:
        InputError: Something differs; names it.
    """
    different = []
    for seed, now in data.items():
        was = doc.get("data", {}).get(str(seed))
        if was is None:
            continue
        older = "pictures" not in was  # its digest stood for the pictures' sizes, too
        if was["samples"] != len(now.samples) or (not older and was["digest"] != now.digest):
            different.append(
                f"the labels of seed {seed} changed ({was['samples']} pictures then, {len(now.samples)} now)"
            )
    for name, facts in arms.items():
        was = doc.get("arms", {}).get(name)
        if was is not None:
            different += [
                f"{field} of arm {name!r} ({json.dumps(was.get(field), default=str)} then, {json.dumps(value, default=str)} now)"
                for field, value in json.loads(json.dumps(facts)).items()
                if field in was and was[field] != value  # a run of an older version told fewer facts
            ]
    if different:
        more = f", and {len(different) - 3} more" if len(different) > 3 else ""
        raise InputError(
            f"{folder}: holds a run of another plan: {'; '.join(different[:3])}{more}",
            hint="name another folder with --out, or give changed arms other names",
        )


def other_pictures(doc: Mapping[str, Any], data: Mapping[int, StudyData]) -> list[str]:
    """What to say of pictures that are not those of an earlier session, a line a seed; they bind nobody.

    Args:
        doc: The manifest of the earlier sessions.
        data: Seed → its pictures now.
    """
    last = next((s["started"] for s in reversed(doc.get("sessions", [])) if s.get("started")), "the last session")
    told = doc.get("data", {})
    return [
        f"pictures of seed {seed} changed since {last}; answers given before stay"
        for seed, now in data.items()
        if told.get(str(seed), {}).get("pictures", now.pictures) != now.pictures
    ]


def merged(plan: Plan, there: Run | None, held: Collection[str]) -> Plan:
    """The plan with the arms and seeds that the run folder holds already; this plan's come first.

    Args:
        plan: The plan.
        there: The run folder as it is, or None for a new one.
        held: Names of the arms that have records there.
    """
    if there is None:
        return plan
    named = {arm.name for arm in plan.arms}
    # what an old arm took from its plan is said in the arm itself
    old = [
        arm.model_copy(update={"protocol": there.plan.protocol_of(arm)})
        for arm in there.plan.arms
        if arm.name in held and arm.name not in named
    ]
    seeds = tuple(sorted({*plan.seeds, *(record.seed for record in there.records)}))
    return plan.model_copy(update={"arms": (*plan.arms, *old), "seeds": seeds})


def plain_settings(settings: Settings) -> dict[str, Any]:
    """Settings as plain data, without secrets; they are written into the manifest."""
    doc = Resolved(settings, {field.name: "default" for field in fields(settings)}, None).to_dict()["settings"]
    return {name: told["value"] for name, told in doc.items() if name != "api_key"}


def write_plan(folder: Path, plan: Plan) -> None:
    """Write the resolved plan into the run folder."""
    write_whole(folder / PLAN, plan.to_yaml().encode())


def _data_doc(data: StudyData) -> dict[str, Any]:
    return {
        "folder": str(data.folder),
        "digest": data.digest,
        "pictures": data.pictures,
        "samples": len(data.samples),
        "devices": len({(s.family, s.device) for s in data.samples}),
        "problems": [list(problem) for problem in data.problems],
    }


def _digest(facts: Mapping[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _versions() -> dict[str, str]:
    from sagehand.version import __version__

    found = {"sagehand": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def source_digest() -> str:
    """Digest of sagehand's own source and data as installed: two sessions with the same one ran the same code."""
    root = Path(str(files("sagehand")))
    total = hashlib.blake2b(digest_size=8)
    for path in sorted(p for p in root.rglob("*") if p.suffix in _SOURCE):
        total.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def _machine() -> dict[str, Any]:
    """Enough to judge times by; no name of a machine or a person."""
    return {"cpus": os.cpu_count(), "processor": platform.machine(), "system": platform.system()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
