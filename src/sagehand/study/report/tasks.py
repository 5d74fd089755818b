"""Counterparts of the paper's Figures 10–12: accuracy by task, of trained methods and of all."""

from __future__ import annotations

from collections.abc import Sequence

from sagehand.study.report.cells import Gain, words_of
from sagehand.study.report.load import Study, accuracy, lacks, model_of
from sagehand.study.report.parts import Bars, Counterpart, Table
from sagehand.study.report.reference import beside
from sagehand.study.run.plan import Arm
from sagehand.study.run.record import TASKS, Record

__all__ = ["SUBSETS", "TASK_WORDS", "TOLD", "task_figures"]

TASK_WORDS = {
    "previous_action": "previous action",
    "next_action": "next action",
    "remaining_actions": "remaining actions",
    "is_last": "is it the last",
    "device_class": "device class",
}
TOLD = "The previous action is told to the methods; it tests whether they take up what they are told."
"""What a reader must know of the first task."""
SUBSETS = ("train", "validation", "test")


def task_figures(study: Study) -> list[Counterpart]:
    """Figures 10 to 12."""
    return [_classifiers(study), _fine_tuned(study), _methods(study)]


def _classifiers(study: Study) -> Counterpart:
    """Figure 10: classifiers on training, validation and test devices, against random."""
    arms = [a for a in study.arms if a.method == "classifier"]
    chance = next((a for a in study.arms if a.method == "random"), None)
    random = study.of(chance) if chance else []
    columns = _by_subset(study, arms)
    if arms and random:
        columns["random"] = random
    table, chart = _tasks(columns)
    better = None
    if arms and random:
        test = [s for a in arms if (s := accuracy(study.of(a, "test")))]
        floor = accuracy(random)
        if test and floor:
            above = sum((s.value or 0) > (floor.value or 0) for s in test)
            better = f"better in {above} of {len(test)}, next action, test devices"
    lacking = [m for m, there in (("classifier", arms), ("random", random)) if not there]
    return Counterpart(
        "figure-10",
        "Figure 10",
        "Trained image classifiers, by task",
        table=table,
        chart=chart,
        beside=(beside("classifiers", better),),
        missing=lacks(*lacking) if lacking else "",
        notes=(_FOLDS, *((_OTHER_ITEMS,) if random else ())) if arms else (),
    )


def _fine_tuned(study: Study) -> Counterpart:
    """Figure 11: a fine-tuned VLM against the model it was made from."""
    arms = [a for a in study.arms if a.method == "fine-tuned-vlm"]
    columns = _by_subset(study, arms)
    gains = []
    for arm in arms:
        model = model_of(arm, study.manifest)
        base = next((a for a in study.arms if a.method == "zero-shot" and model_of(a, study.manifest) == model), None)
        if base is None:
            continue
        for subset in SUBSETS:
            items = {(r.seed, r.item) for r in study.of(arm, subset)}
            same = [r for r in study.of(base) if (r.seed, r.item) in items]
            if same:
                columns[f"{base.name}, {subset}"] = same
        ours, theirs = accuracy(study.of(arm, "test")), accuracy(columns.get(f"{base.name}, test", []))
        if ours and theirs and ours.value is not None and theirs.value is not None:
            gains.append(words_of(Gain(ours.value - theirs.value)))
    table, chart = _tasks(columns)
    return Counterpart(
        "figure-11",
        "Figure 11",
        "A fine-tuned VLM against its base",
        table=table,
        chart=chart,
        beside=(beside("fine-tuned", f"{', '.join(gains)} in next action" if gains else None),),
        missing=""
        if gains
        else lacks(*(m for m in ("fine-tuned-vlm", "zero-shot") if not _there(study, m)))
        if not (_there(study, "fine-tuned-vlm") and _there(study, "zero-shot"))
        else "The zero-shot arms of this run ask other models, or other pictures, than the fine-tuned one.",
        notes=(_FOLDS,) if arms else (),
    )


_OTHER_ITEMS = "Random answered the queries of its own protocol, not the pictures of the folds: no test pairs them."
_FOLDS = "Each device is in one subset of a fold: test devices were never seen. All folds and seeds are pooled."


def _there(study: Study, method: str) -> bool:
    return any(a.method == method for a in study.arms)


def _methods(study: Study) -> Counterpart:
    """Figure 12: accuracy by task and method, one arm a method and model."""
    arms = sorted(study.mains(*dict.fromkeys(a.method for a in study.asked)), key=study.plan.arms.index)
    table, chart = _tasks({a.name: study.of(a) for a in arms})
    lacking = [m for m in ("zero-shot", "single-rag", "guided") if not study.by_method(m)]
    tested = {a.name: accuracy(study.of(a, "test")) for a in study.arms if a.method == "classifier"}
    best = max((s.value for s in tested.values() if s and s.value is not None), default=None)
    models = [s.value for a in arms if a.method in ("guided", "single-rag", "zero-shot")
              if (s := accuracy(study.of(a))) and s.value is not None]  # fmt: skip
    words = None
    if best is not None and models:
        words = f"best {100 * max(models):.1f} % against {100 * best:.1f} %, next action; the classifiers' of devices never seen"
    return Counterpart(
        "figure-12",
        "Figure 12",
        "Accuracy by task and method",
        table=table,
        chart=chart,
        beside=(beside("methods", words),),
        missing=lacks(*lacking) if lacking else "",
        stand_in="Methods without a model are shown." if lacking and table else "",
        notes=(f"One arm a method and model: the one that departs least from the plan's defaults. {TOLD}",),
    )


def _by_subset(study: Study, arms: Sequence[Arm]) -> dict[str, list[Record]]:
    return {f"{a.name}, {s}": records for a in arms for s in SUBSETS if (records := study.of(a, s))}


def _tasks(columns: dict[str, list[Record]]) -> tuple[Table | None, Bars | None]:
    """Accuracy of each column in each task, as a table and as bars; None of no columns."""
    if not columns:
        return None, None
    shares = {name: [accuracy(records, task) for task in TASKS] for name, records in columns.items()}
    tasks = tuple(TASK_WORDS[t] for t in TASKS)
    rows = tuple((name, *row) for name, row in shares.items())
    return Table(("method", *tasks), rows), Bars(tasks, shares)
