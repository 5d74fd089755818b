"""The three galleries of failures (paper A §4.6, Figures 17 and 18, and one of failed predictions).

Nobody picks: failures of each kind are put in the order of a hash of their key, one a picture, and the kinds take turns,
the rarest first, so that none is crowded out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from sagehand.study.report.cells import Cell, Share
from sagehand.study.report.load import Study, lacks, shown_instead, top_1, unasked, without_top_1
from sagehand.study.report.parts import Counterpart, Gallery, Shown, Table
from sagehand.study.report.reference import beside
from sagehand.study.run.plan import Arm
from sagehand.study.run.record import Record

__all__ = ["LIKE_STEP", "MOST", "NO_CASE", "TOTAL", "UNTOLD", "WRONG_STEP", "galleries"]

MOST = 12
"""Failures shown in each gallery."""

_RULE = (
    "Shown: {shown} of {failed} failed items, by the order of a hash of their names, each picture once, the kinds in turn, "
    "the rarest first. Nobody picked."
)
WRONG_STEP = "right device, wrong step"
LIKE_STEP = "wrong device, same disassembly step"
TOTAL = "total failure: wrong device, other step"
NO_CASE = "no case was recalled"
UNTOLD = "wrong device"
_KINDS = {
    WRONG_STEP: "The device is right; another step of it was recalled.",
    LIKE_STEP: "Another device, but in the same state of work: same action done before, same to be done next.",
    TOTAL: "Another device in another state of work.",
    NO_CASE: "The answer leans on no case, or there was none.",
    UNTOLD: "Another device; without the pictures' labels no more can be told.",
}


def galleries(study: Study) -> list[Counterpart]:
    """Figures 17 and 18, and the gallery of failed predictions."""
    return [_similarity(study), _searched(study), _predicted(study)]


def _similarity(study: Study) -> Counterpart:
    """Figure 17: the most similar picture was the wrong one."""
    arm = next(iter(study.mains("nearest", "single-rag")), None)
    return _retrieval(
        study, arm, "figure-17", "Figure 17", "Where similarity failed", "similarity failed",
        missing="" if arm else lacks("nearest"), alike=True,
    )  # fmt: skip


def _searched(study: Study) -> Counterpart:
    """Figure 18: the search (without a model: the judge) leant on the wrong case."""
    guided = next(iter(study.mains("guided", "guided-always")), None)
    arm = guided or next(iter(study.mains("perceptual")), None)
    return _retrieval(
        study, arm, "figure-18", "Figure 18", "Where the guided search failed", "total failures",
        missing="" if guided else lacks("guided"),
        stand_in=shown_instead(study, "where the perceptual judge leant on a wrong case") if arm and not guided else "",
    )  # fmt: skip


def _retrieval(
    study: Study,
    arm: Arm | None,
    name: str,
    number: str,
    title: str,
    key: str,
    *,
    missing: str,
    stand_in: str = "",
    alike: bool = False,
) -> Counterpart:
    if arm is None or top_1(study, arm) is None:
        why = "" if arm is None else without_top_1(study, arm.method)
        told = " ".join(text for text in (missing, why) if text)
        return Counterpart(name, number, title, beside=(beside(key, None),), missing=told)
    records = [r for r in study.of(arm) if r.truth.get("step") is not None]
    failed = [(r, _kind(study, r)) for r in records if not r.case_step]
    rows: list[tuple[Cell, ...]] = [
        (kind, words, Share(sum(k == kind for _, k in failed), len(records)))
        for kind, words in _KINDS.items()
        if any(k == kind for _, k in failed) or (kind == TOTAL and study.data)
    ]
    if alike:
        here = _alike(study, failed)
    elif study.data:
        who = f"{arm.method} arm: " if missing else ""
        here = f"{who}{sum(k == TOTAL for _, k in failed)} of {len(records)}"
    else:
        here = None
    return Counterpart(
        name,
        number,
        f"{title}: {arm.name}",
        table=Table(("kind", "what it means", "share of all items"), tuple(rows)) if rows else None,
        gallery=_gallery(study, failed, lambda r: _case_rows(study, r)),
        beside=(beside(key, here),),
        missing=missing,
        stand_in=stand_in,
        notes=() if failed else ("Nothing failed.",),
    )


def _alike(study: Study, failed: Sequence[tuple[Record, str]]) -> str | None:
    """How often a wrong step was the one just before or after."""
    steps = [
        abs((case.step or 0) - r.truth["step"])
        for r, kind in failed
        if kind == WRONG_STEP and (case := study.sample(r.seed, r.answer.get("case"))) is not None
    ]
    return f"{sum(s == 1 for s in steps)} of {len(failed)}: the step just before or after" if steps else None


def _kind(study: Study, record: Record) -> str:
    if record.case_device is None:
        return NO_CASE
    if record.case_device:
        return WRONG_STEP
    case = study.sample(record.seed, record.answer.get("case"))
    if case is None:
        return UNTOLD
    truth = record.truth
    same = (case.previous_action, case.next_action) == (truth.get("previous_action"), truth.get("next_action"))
    return LIKE_STEP if same else TOTAL


def _predicted(study: Study) -> Counterpart:
    """The third gallery: the next action was wrong."""
    arm = study.main
    title = "Where the next action was wrong"
    if arm is None:
        return Counterpart(
            "gallery-prediction", "", title, beside=(beside("cuts confused", None),), missing=unasked(study)
        )
    records = [r for r in study.of(arm) if r.truth.get("next_action") is not None]
    failed = [(r, _answered(r)) for r in records if not r.right.get("next_action")]
    counts: dict[str, int] = {}
    for _, kind in failed:
        counts[kind] = counts.get(kind, 0) + 1
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    cuts = sum(n for kind, n in counts.items() if "circular" in kind and "rectangular" in kind)
    # where no picture is to be cut, "none confused" would say nothing
    cut = any("circular" in r.truth["next_action"] or "rectangular" in r.truth["next_action"] for r in records)
    return Counterpart(
        "gallery-prediction",
        "",
        f"{title}: {arm.name}",
        table=Table(("truth → answer", "share of all items"), tuple((k, Share(n, len(records))) for k, n in ordered))
        if ordered
        else None,
        gallery=_gallery(study, failed, lambda r: _action_rows(study, r)),
        beside=(
            beside(
                "cuts confused",
                None
                if not cut
                else f"{cuts} of {len(failed)}: one of these cuts taken for the other"
                if failed
                else "nothing failed",
            ),
        ),
        notes=() if failed else ("Nothing failed.",),
    )


def _answered(record: Record) -> str:
    if record.error is not None or record.failure is not None:
        answer = "(failed)"
    else:
        answer = record.answer.get("next_action") or "(no answer)"
    return f"{record.truth['next_action']} → {answer}"


def _gallery(
    study: Study, failed: Sequence[tuple[Record, str]], rows: Callable[[Record], tuple[tuple[str, str, str], ...]]
) -> Gallery | None:
    if not failed or not study.data:
        return None
    chosen = list(_chosen(study, failed))
    shown = tuple(
        Shown(query=r.item, case=str(r.answer.get("case") or ""), seed=r.seed, kind=kind, rows=rows(r))
        for r, kind in chosen
    )
    return Gallery(shown, _RULE.format(shown=len(shown), failed=len(failed)))


def _chosen(study: Study, failed: Sequence[tuple[Record, str]]) -> Iterator[tuple[Record, str]]:
    kinds: dict[str, list[tuple[Record, str]]] = {}
    for record, kind in sorted(failed, key=lambda pair: _drawn(pair[0])):
        kinds.setdefault(kind, []).append((record, kind))
    queues = [iter(kinds[kind]) for kind in sorted(kinds, key=lambda k: (len(kinds[k]), k))]
    seen: set[tuple[int | None, str]] = set()
    while queues and len(seen) < MOST:
        for queue in list(queues):
            found = next((pair for pair in queue if study.picture(pair[0]) not in seen), None)
            if found is None:
                queues.remove(queue)
            elif len(seen) < MOST:
                seen.add(study.picture(found[0]))
                yield found


def _drawn(record: Record) -> bytes:
    return hashlib.blake2b(repr(record.key).encode(), digest_size=8, person=b"gallery").digest()


def _case_rows(study: Study, record: Record) -> tuple[tuple[str, str, str], ...]:
    """Query and recalled case side by side."""
    truth, case = record.truth, study.sample(record.seed, record.answer.get("case"))
    return (
        ("device", _told(truth.get("device")), _told(case.device if case else None)),
        ("step", _told(truth.get("step")), _told(case.step if case else None)),
        ("done before", _told(truth.get("previous_action")), _told(case.previous_action if case else None)),
        ("next action", _told(truth.get("next_action")), _told(case.next_action if case else None)),
        ("place", _told(truth.get("place")), _told(case.place if case else None)),
    )


def _action_rows(study: Study, record: Record) -> tuple[tuple[str, str, str], ...]:
    """The same, with what was answered."""
    answer = record.answer
    if record.error is not None or record.failure is not None:
        told = f"(failed: {record.failure or record.error})"
    elif answer.get("abstained"):
        told = f"(asked; held back: {_told(answer.get('proposed'))})"
    else:
        told = _told(answer.get("next_action"))
    sure = answer.get("confidence")
    if sure is not None:
        told += f", {100 * float(sure):.0f} % sure"
    return (("answer", _told(record.truth.get("next_action")), told), *_case_rows(study, record))


def _told(value: object) -> str:
    return "–" if value is None else str(value)
