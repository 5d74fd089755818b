"""``study compare``: two or more arms on the same items, paired (paper A §3.2.1, Tables 3–5; SPEC A7).

Items are paired by (seed, fold, subset, picture). An abstention, a failure and an error count as wrong; what has no
partner is counted and told. McNemar's test and Cochran's Q take every item as independent; the interval and the p-value
by cluster take the pictures of one device and step, over all seeds, as one thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from sagehand.errors import InputError, UnknownName
from sagehand.stats import cluster_difference, cochran_q, holm, mcnemar
from sagehand.study.report.comparison import Comparison, Comparisons, SeedDifference, Side
from sagehand.study.report.refs import ArmRecords, of_subset, read_refs
from sagehand.study.run.record import TASKS, Record

__all__ = [
    "COMPARED",
    "NEW_DEVICES",
    "compare",
    "compare_all",
    "compare_records",
    "mark_of",
]

COMPARED = (*TASKS, "top1", "device")
"""What can be compared: the five tasks, ``top1`` (the case's device and step, paper A §3.2.3), ``device`` (its device)."""
NEW_DEVICES = ("new-device", "folds")
"""Protocols whose queries show devices that the base does not hold: no case can be the right one."""
_SUBSETS = ("query", "train", "validation", "test")

_Key = tuple[int, int, str, str]


def compare(ref_a: str, ref_b: str, task: str = "next_action", *, subset: str | None = None) -> Comparison:
    """Compare two arms, of one run or of two, on the same items.

    Args:
        ref_a: ``RUN_FOLDER:ARM``.
        ref_b: The same of the other arm; the difference is this one − the first.
        task: A name in :data:`COMPARED`.
        subset: Of these records only; None for held-out answers (query and test).

    Raises:
        InputError: A run cannot be read, the arms share no item or no protocol, their labels differ, or an arm cannot have
            the task right.
        UnknownName: No such arm, task or subset.
        MissingExtra: statsmodels is not installed.
    """
    _check_names(task, subset)
    return compare_records(read_refs([ref_a, ref_b]), task, subset=subset).pairs[0]


def compare_all(refs: Sequence[str], task: str = "next_action", *, subset: str | None = None) -> Comparisons:
    """Compare two arms or more on the items that all of them have.

    Args:
        refs: Each ``RUN_FOLDER:ARM``.
        task: A name in :data:`COMPARED`.
        subset: Of these records only; None for held-out answers (query and test).

    Raises:
        InputError: As for :func:`compare`; or fewer than two refs.
        UnknownName: No such arm, task or subset.
        MissingExtra: statsmodels is not installed.
    """
    _check_names(task, subset)
    return compare_records(read_refs(refs), task, subset=subset)


def mark_of(record: Record, task: str) -> bool | None:
    """Whether a record has a task right; None where the truth is not known. No answer and no case are wrong.

    Args:
        record: The record.
        task: A name in :data:`COMPARED`.
    """
    if task == "top1":
        known, mark = record.truth.get("step") is not None, record.case_step
    elif task == "device":
        known, mark = record.truth.get("device") is not None, record.case_device
    else:
        known, mark = record.truth.get(task) is not None, record.right.get(task)
    return bool(mark) if known else None


def compare_records(arms: Sequence[ArmRecords], task: str, *, subset: str | None = None) -> Comparisons:
    """Compare arms whose records are in memory; as :func:`compare_all`."""
    _check_names(task, subset)
    if len(arms) < 2:
        raise InputError(f"{len(arms)} arm is no comparison", hint="name two arms or more, each as RUN_FOLDER:ARM")
    _check_protocols(arms)
    columns = [_column(arm, task, subset) for arm in arms]
    shared = [key for key in columns[0] if all(key in column for column in columns[1:])]
    if not shared:
        raise InputError(
            f"{' and '.join(arm.ref for arm in arms)} share no item",
            hint="arms are paired by seed, fold, subset and picture: give them the same protocol, seeds and data",
        )
    _check_truth(arms, columns, shared)
    keys = sorted(key for key in shared if mark_of(columns[0][key], task) is not None)
    if not keys:
        raise InputError(
            f"{_truth_of(task)} is not labelled in any picture that the arms share", hint="compare another task"
        )
    rows = [[columns[0][key].truth.get(name) for name in ("family", "device", "step")] for key in keys]
    anew = all(arm.anew for arm in arms)
    pictures = len({(key[0] if anew else None, key[-1]) for key in keys})
    joint = _Joint(task, keys, [tuple(row) for row in rows], pictures, len(shared) - len(keys), _same_data(arms, keys))
    sides = [_side(arm, column, joint, arms) for arm, column in zip(arms, columns, strict=True)]
    marks = [[bool(mark_of(column[key], task)) for key in keys] for column in columns]
    pairs = [_pair(joint, sides[i], sides[j], marks[i], marks[j]) for i, j in combinations(range(len(arms)), 2)]
    if len(pairs) > 1:
        by_item = holm([pair.mcnemar.p_value for pair in pairs])
        by_cluster = holm([pair.difference.p_value for pair in pairs])
        pairs = [_adjusted(*adjusted) for adjusted in zip(pairs, by_item, by_cluster, strict=True)]
    return Comparisons(task, tuple(sides), len(keys), joint.unknown, cochran_q(marks), tuple(pairs), joint.same_data)


@dataclass(frozen=True)
class _Joint:
    """The items that all arms have and whose truth is known: their keys and clusters, in one order."""

    task: str
    keys: list[_Key]
    clusters: list[tuple[Any, ...]]
    pictures: int
    unknown: int
    same_data: bool | None


def _check_names(task: str, subset: str | None) -> None:
    if task not in COMPARED:
        raise UnknownName("task", task, COMPARED)
    if subset is not None and subset not in _SUBSETS:
        raise UnknownName("subset", subset, _SUBSETS)


def _column(arm: ArmRecords, task: str, subset: str | None) -> dict[_Key, Record]:
    column = {(r.seed, r.fold, r.subset, r.item): r for r in of_subset(arm.records, subset)}
    if not column:
        there = ", ".join(sorted({r.subset for r in arm.records}))
        raise InputError(f"{arm.ref} has no record of this subset", hint=f"add --subset, one of: {there}")
    if task in ("top1", "device"):
        if arm.protocol in NEW_DEVICES and subset != "train":
            raise InputError(
                f"{arm.ref} ran with the device left out, so no case can show it: {task} is wrong by construction",
                hint="compare another task",
            )
        if all(r.case_device is None for r in column.values()):
            raise InputError(
                f"no answer of {arm.ref} leans on a case, so it has no {task}", hint="compare another task"
            )
    return column


def _check_protocols(arms: Sequence[ArmRecords]) -> None:
    """Answers out of different bases are not paired: what the base may hold of the query's device differs."""
    known = [arm for arm in arms if arm.protocol is not None]
    other = next((arm for arm in known if arm.protocol != known[0].protocol), None)
    if other is not None:
        raise InputError(
            f"{known[0].ref} ran under the protocol {known[0].protocol} and {other.ref} under {other.protocol}: their bases "
            "do not hold the same cases of a query's device",
            hint="compare arms of one protocol",
        )


def _check_truth(arms: Sequence[ArmRecords], columns: Sequence[dict[_Key, Record]], shared: Sequence[_Key]) -> None:
    for arm, column in zip(arms[1:], columns[1:], strict=True):
        for key in shared:
            if column[key].truth != columns[0][key].truth:
                raise InputError(
                    f"{arms[0].ref} and {arm.ref} do not label {key[-1]} alike, so they are not of the same data",
                    hint="run both on one data set",
                )


def _same_data(arms: Sequence[ArmRecords], keys: Sequence[_Key]) -> bool | None:
    seeds = {key[0] for key in keys}
    if any(not seeds <= arm.digests.keys() for arm in arms):
        return None
    return all(arm.digests[seed] == arms[0].digests[seed] for arm in arms for seed in seeds)


def _truth_of(task: str) -> str:
    return "step" if task == "top1" else task


def _side(arm: ArmRecords, column: dict[_Key, Record], joint: _Joint, arms: Sequence[ArmRecords]) -> Side:
    records = [column[key] for key in joint.keys]
    alike = sum(other.arm == arm.arm for other in arms) > 1
    return Side(
        ref=arm.ref,
        name=arm.ref if alike else arm.arm,
        right=sum(bool(mark_of(record, joint.task)) for record in records),
        n=len(records),
        abstained=sum(bool(record.answer.get("abstained")) for record in records),
        failures=sum(record.failure is not None for record in records),
        errors=sum(record.error is not None for record in records),
        unpaired=len(column) - len(joint.keys) - joint.unknown,
    )


def _pair(joint: _Joint, first: Side, second: Side, ours: list[bool], theirs: list[bool]) -> Comparison:
    return Comparison(
        task=joint.task,
        first=first,
        second=second,
        n=len(joint.keys),
        pictures=joint.pictures,
        unknown=joint.unknown,
        same_data=joint.same_data,
        difference=cluster_difference(ours, theirs, joint.clusters),
        mcnemar=mcnemar(ours, theirs),
        per_seed=tuple(_of_seed(joint, seed, ours, theirs) for seed in sorted({key[0] for key in joint.keys})),
    )


def _of_seed(joint: _Joint, seed: int, ours: list[bool], theirs: list[bool]) -> SeedDifference:
    at = [i for i, key in enumerate(joint.keys) if key[0] == seed]
    first, second = [ours[i] for i in at], [theirs[i] for i in at]
    return SeedDifference(seed, len(at), sum(first), sum(second), mcnemar(first, second))


def _adjusted(pair: Comparison, by_item: float, by_cluster: float) -> Comparison:
    return replace(pair, p_holm=by_item, p_holm_by_cluster=by_cluster)
