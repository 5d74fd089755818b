"""``RUN:ARM``: the records of one arm of one run, by the name that a user types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sagehand.errors import InputError, UnknownName
from sagehand.study.run.record import Record
from sagehand.study.run.store import ASKED, Run, read_run

__all__ = ["ArmRecords", "arm_records", "of_subset", "read_refs"]


@dataclass(frozen=True)
class ArmRecords:
    """What one arm of one run answered.

    Attributes:
        ref: As it was named, ``RUN:ARM``.
        arm: Name of the arm.
        records: Its records, in the run's order.
        protocol: The arm's protocol, or None where the plan does not hold it.
        risk: The risk that the arm was run with, or None.
        anew: Whether each seed has pictures of its own.
        digests: Seed → digest of its data; {} where the run does not say.
    """

    ref: str
    arm: str
    records: tuple[Record, ...]
    protocol: str | None = None
    risk: float | None = None
    anew: bool = False
    digests: Mapping[int, str] = field(default_factory=dict)


def read_refs(refs: Sequence[str]) -> list[ArmRecords]:
    """Read the arms that were named; a run is read once, however many of its arms are named.

    Args:
        refs: Each ``RUN_FOLDER:ARM``; the last colon divides them.

    Raises:
        InputError: A ref is none, is named twice, its run cannot be read, or its arm has no record yet.
        UnknownName: The run has no such arm; lists those it has.
    """
    runs: dict[str, Run] = {}
    found = []
    for ref in refs:
        folder, _, arm = ref.rpartition(":")
        if not folder or not arm or "/" in arm:
            raise InputError(f"{ref!r} names no arm of a run", hint=f"write RUN_FOLDER:ARM{_arms_there(ref)}")
        if refs.count(ref) > 1:
            raise InputError(f"{ref} is named twice", hint="name two different arms, or runs")
        if folder not in runs:
            runs[folder] = read_run(Path(folder))
        found.append(arm_records(runs[folder], arm, ref=ref))
    return found


def arm_records(run: Run, arm: str, *, ref: str = "") -> ArmRecords:
    """The records of one arm.

    Args:
        run: The run.
        arm: Name of the arm.
        ref: What to call it; else ``RUN:ARM``.

    Raises:
        InputError: The arm has no record yet.
        UnknownName: The run has no such arm; lists those it has.
    """
    ref = ref or f"{run.folder}:{arm}"
    planned = {a.name: a for a in run.plan.arms}
    records = tuple(r for r in run.records if r.arm == arm)
    if arm not in planned and not records:
        raise UnknownName(f"arm of {run.folder}", arm, _names(run))
    if not records:
        raise InputError(f"{ref} has no record yet", hint="go on with the run: the same `sagehand study run` again")
    plan = planned.get(arm)
    return ArmRecords(
        ref,
        arm,
        records,
        protocol=run.plan.protocol_of(plan) if plan else None,
        risk=plan.risk if plan else None,
        anew="{seed}" in str(run.manifest.get("data_folder") or run.plan.data or ""),
        digests={int(seed): str(data["digest"]) for seed, data in run.manifest.get("data", {}).items()},
    )


def of_subset(records: Iterable[Record], subset: str | None) -> list[Record]:
    """The records of a subset; of None, those of :data:`~sagehand.study.run.store.ASKED`.

    Args:
        records: Records.
        subset: "query", "train", "validation" or "test", or None.
    """
    wanted = ASKED if subset is None else (subset,)
    return [r for r in records if r.subset in wanted]


def _names(run: Run) -> list[str]:
    return list(dict.fromkeys([*(a.name for a in run.plan.arms), *(r.arm for r in run.records)]))


def _arms_there(ref: str) -> str:
    """The arms of a run that was named without one, for a hint."""
    folder = Path(ref.rstrip(":"))
    if not folder.is_dir():
        return ""
    try:
        return f"; its arms: {', '.join(_names(read_run(folder)))}"
    except InputError:
        return ""
