"""``cases check``: how well a case base answers for itself, with every case (or device) left out in turn (SPEC A7).

The recipe stands in :mod:`sagehand.judge.leaveout`: everything that is learnt is learnt anew in each fold. Known to every
query are its previous action and place, nothing else. Answers are forced: the domain test is counted, not obeyed, since
a device that is left out is out of domain by construction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.action.guard import check_actions, conflicts, know
from sagehand.action.library import ActionLibrary
from sagehand.action.predict import DOMAIN_LEVEL
from sagehand.cases import NOTHING_DONE, Case, Index
from sagehand.errors import InputError, UnknownName
from sagehand.judge.evidence import FEATURES
from sagehand.judge.leaveout import LeaveOut, Pairs, crossfit, gather, strangenesses
from sagehand.judge.model import believed, most_believed
from sagehand.study.score import Item, p_rounded, same_place, share, summarise

__all__ = ["ABLATIONS", "CheckReport", "check", "label_conflicts", "leave_out_of"]

ABLATIONS = {
    "picture": ("picture",),
    "previous action": ("previous",),
    "place": ("place",),
    "previous action + place": ("previous", "place"),
    "picture + previous action": ("picture", "previous"),
    "picture + place": ("picture", "place"),
    "all": FEATURES,
}
_SHUFFLES = 20
_NO_DEVICE = "the device is left out, so no case can show it"


@dataclass(frozen=True)
class CheckReport:
    """Figures and items.

    Attributes:
        figures: What ``cases check --json`` prints.
        items: One for each labelled case.
    """

    figures: dict[str, Any]
    items: tuple[Item, ...]


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers of one arm: (m,) action codes, confidence, and the candidate order of each query."""

    action: NDArray[np.int64]
    confidence: NDArray[np.float64]
    order: list[NDArray[np.int64]]
    lead: NDArray[np.int64]


def check(
    index: Index,
    library: ActionLibrary | None = None,
    *,
    leave_out: LeaveOut = "case",
    ablate: bool = True,
    shuffles: int = _SHUFFLES,
    on_progress: Callable[[str], None] | None = None,
) -> CheckReport:
    """Answer every labelled case without itself and score the answers.

    Args:
        index: The cases.
        library: Rules out actions by the case's previous action; None rules out none.
        leave_out: "case" (with near-duplicates and group) or "device".
        ablate: Also report every subset of the evidence, without the guard.
        shuffles: How often the control shuffles the previous actions; 0 leaves it out.
        on_progress: Told what is being done.

    Raises:
        InputError: Fewer than two labelled cases, or (leaving out devices) fewer than two devices.
    """
    started, say = time.perf_counter(), on_progress or (lambda _: None)
    pairs = gather(index, leave_out)
    if not len(pairs.rows) or not pairs.present.any():
        what = "two devices" if leave_out == "device" else "two different cases"
        raise InputError(
            f"there is nothing to leave out: {what} with a next_action are needed", hint="import more cases"
        )
    names = index.codes("next_action")[1]
    say("answering with all evidence")
    valid = _valid(index, pairs, library, names)
    ours = _answer(pairs, FEATURES, names, valid)
    drawn = gather(index, leave_out, drawn=True)
    say("answering from context alone")
    context = _answer(drawn, ("previous", "place"), names, None)
    items = _items(index, pairs, names, ours, context)
    no_device = _NO_DEVICE if leave_out == "device" else None
    rank_of = "the same next action" if leave_out == "device" else "the same device and step"
    figures = summarise(items, no_device=no_device, no_step=no_device, rank_of=rank_of)
    figures = {"leave_out": leave_out, "method": "single", "judge": "perceptual", **figures}
    if ablate:
        say("ablation")
        figures["ablation"] = {
            label: share(_marks(pairs if "picture" in use else drawn, use, names)) for label, use in ABLATIONS.items()
        }
    if shuffles:
        say("control: previous actions shuffled")
        figures["control"] = _control(index, pairs, names, shuffles)
    figures["conflicts"] = label_conflicts(index.cases, library) if library else []
    figures["seconds"] = round(time.perf_counter() - started, 3)
    return CheckReport(figures, tuple(items))


def leave_out_of(name: str) -> LeaveOut:
    """Check a name that a user gave.

    Raises:
        UnknownName: It is neither "case" nor "device".
    """
    if name == "case":
        return "case"
    if name == "device":
        return "device"
    raise UnknownName("thing to leave out", name, ["case", "device"])


def label_conflicts(cases: Sequence[Case], library: ActionLibrary) -> list[str]:
    """Labels that the guard rules out, or that the library does not know, a line each."""
    rows = [
        (
            f"{c.file_name} ({c.id[:8]})",
            c.previous_action,
            c.history,
            c.next_action,
            c.family if library.families else None,
        )
        for c in cases
    ]
    return conflicts(library, rows)


def _valid(index: Index, pairs: Pairs, library: ActionLibrary | None, names: list[str]) -> NDArray[np.bool_] | None:
    """(m, actions) what the guard leaves for each query, knowing its previous action alone."""
    if library is None:
        return None
    allowed: dict[str | None, NDArray[np.bool_]] = {}
    for row in pairs.rows:
        previous = index.cases[int(row)].previous_action
        if previous not in allowed:
            known = previous if previous in library.actions or previous == NOTHING_DONE else None
            verdicts = check_actions(library, know(library, previous=known))
            allowed[previous] = np.array([name in verdicts.valid for name in names])
    return np.stack([allowed[index.cases[int(row)].previous_action] for row in pairs.rows])


def _answer(pairs: Pairs, use: Sequence[str], names: list[str], valid: NDArray[np.bool_] | None) -> _Answers:
    count = len(pairs.rows)
    action, lead = np.full(count, -1), np.full(count, -1)
    confidence, order = np.zeros(count), [np.empty(0, dtype=np.int64)] * count
    for fold in crossfit(pairs, use):
        for query, shares in zip(fold.queries.tolist(), fold.belief, strict=True):
            labelled = pairs.labelled[query]
            cases = pairs.cases[query][labelled]
            by_belief = np.argsort(-np.round(shares[labelled], 12), kind="stable")
            order[query] = cases[by_belief]
            codes = pairs.next_action[cases]
            beliefs = believed(codes, shares[labelled], names)
            best = most_believed(beliefs, None if valid is None else [n for n in names if valid[query][names.index(n)]])
            if best is None:
                continue
            action[query], confidence[query] = names.index(best), beliefs[best]
            lead[query] = cases[by_belief[codes[by_belief] == action[query]][0]]
    return _Answers(action, confidence, order, lead)


def _marks(pairs: Pairs, use: Sequence[str], names: list[str]) -> list[bool]:
    answers = _answer(pairs, use, names, None)
    return list((answers.action == pairs.next_action[pairs.rows]).tolist())


def _items(index: Index, pairs: Pairs, names: list[str], ours: _Answers, context: _Answers) -> list[Item]:
    strange = strangenesses(index, pairs)
    told = strange[np.isfinite(strange)]
    items = []
    for query, row in enumerate(pairs.rows.tolist()):
        case = index.cases[row]
        by_photo = pairs.cases[query][pairs.labelled[query]]
        nearest = index.cases[int(by_photo[0])] if len(by_photo) else None
        lead = index.cases[int(ours.lead[query])] if ours.lead[query] >= 0 else None
        right = _right_rows(index, pairs.leave_out, row)
        p_value = float(np.mean(told >= strange[query])) if np.isfinite(strange[query]) else 1.0
        items.append(
            Item(
                file_name=case.file_name,
                next_action=str(case.next_action),
                family=case.family,
                device=case.device,
                step=case.step,
                answer=names[ours.action[query]] if ours.action[query] >= 0 else None,
                confidence=round(float(ours.confidence[query]), 6),
                reason=f"leans on {lead.file_name}" if lead else "no case speaks for a valid action",
                case_device=same_place(lead, case.family, case.device),
                case_step=same_place(lead, case.family, case.device, case.step),
                rank=_place(ours.order[query], right),
                in_domain=p_value >= DOMAIN_LEVEL,
                others={
                    "photo_only": nearest.next_action if nearest else None,
                    "context_only": names[context.action[query]] if context.action[query] >= 0 else None,
                    "majority": _majority(pairs, row, names),
                },
                other_device={"photo_only": same_place(nearest, case.family, case.device)},
                other_step={"photo_only": same_place(nearest, case.family, case.device, case.step)},
                other_rank={"photo_only": _place(by_photo, right)},
            )
        )
    return items


def _right_rows(index: Index, leave_out: LeaveOut, row: int) -> NDArray[np.bool_]:
    fields = ("next_action",) if leave_out == "device" else ("family", "device", "step")
    columns = [index.codes(name)[0] for name in fields]
    return np.asarray(np.logical_and.reduce([(c == c[row]) & (c[row] >= 0) for c in columns]))


def _place(order: NDArray[np.int64], right: NDArray[np.bool_]) -> int | None:
    hits = np.flatnonzero(right[order])
    return int(hits[0]) + 1 if len(hits) else None


def _majority(pairs: Pairs, row: int, names: list[str]) -> str | None:
    """The most common next action outside the query's unit; ties go to the first name."""
    outside = np.array([u != pairs.unit[row] for u in pairs.unit]) & (pairs.next_action >= 0)
    counts = np.bincount(pairs.next_action[outside], minlength=len(names))
    best = sorted(range(len(names)), key=lambda c: (-counts[c], names[c]))
    return names[best[0]] if best and counts[best[0]] else None


def _control(index: Index, pairs: Pairs, names: list[str], shuffles: int) -> dict[str, Any]:
    """With the previous actions shuffled among the cases, what context adds must vanish."""
    rest = np.mean(_marks(pairs, ("picture", "place", "depth"), names))
    true = np.mean(_marks(pairs, FEATURES, names))
    codes = index.codes("previous_action")[0]
    known = np.flatnonzero(codes >= 0)
    gains = []
    for seed in range(shuffles):
        shuffled = codes.copy()
        shuffled[known] = np.random.default_rng(seed).permutation(codes[known])
        gains.append(float(np.mean(_marks(pairs.with_previous(shuffled), FEATURES, names)) - rest))
    return {
        "shuffled": "previous_action",
        "shuffles": shuffles,
        "gain": round(float(true - rest), 4),
        "gain_shuffled_mean": round(float(np.mean(gains)), 4),
        "gain_shuffled_range": [round(min(gains), 4), round(max(gains), 4)],
        "p_value": p_rounded((1 + sum(g >= true - rest for g in gains)) / (shuffles + 1)),
    }
