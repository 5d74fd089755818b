"""What a case base has learnt about itself: how much each kind of evidence counts, how sure an answer may be, what is usual.

Learnt from the case base by leaving out (:mod:`sagehand.judge.leaveout`) at import and by ``cases calibrate``, stored
with it, and stale as soon as a case changes. ``predict`` never learns.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import Index
from sagehand.judge.evidence import FEATURES, Scaling
from sagehand.judge.leaveout import LeaveOut, Pairs, crossfit, gather, strangenesses
from sagehand.judge.model import believed, fit_belief, fit_match, most_believed
from sagehand.judge.risk import Answer

__all__ = ["LEFT_OUT", "OUTSIDE", "RECIPE", "Calibration", "learn"]

RECIPE = 3
"""Version of the recipe; a calibration of another version is stale."""

LEFT_OUT = "cases left out"
"""Where the answers of a calibration come from when it is learnt: each case of the base, answered without itself."""

OUTSIDE = "pictures outside the base"
"""Where they come from once :func:`~sagehand.action.certify.certify_on` has put others in their place."""

_GRADED = 15  # paper A §2.4: the n nearest that a search looks at
_DEFAULT_MATCH = (1.0, 1.0, 1.0, 1.0, -2.0)


@dataclass(frozen=True)
class Calibration:
    """The learnt numbers of one case base.

    Attributes:
        weights: Weight of each of :data:`~sagehand.judge.evidence.FEATURES` in the belief.
        match: The same four and an intercept, for "does this one case match?".
        scaling: The scale of the evidence.
        usual: Sorted picture cosines of each case to its nearest other one: what is usual in this base.
        strange: Sorted strangeness of each case to the others, for the domain test.
        answers: Answers given without knowing the truth, for certifying a risk.
        answers_from: Whose answers they are: :data:`LEFT_OUT` or :data:`OUTSIDE`.
        refused: Pictures outside the base that were turned away, because a case is the same picture or almost.
        leave_out: What was left out to learn: "case" (the devices are known ones) or "device" (they are new).
        queries: Cases that taught.
        revision: Revision of the case base that it was learnt from.
        recipe: Version of the recipe.
        seconds: How long learning took.
    """

    weights: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    match: tuple[float, ...] = _DEFAULT_MATCH
    scaling: Scaling = field(default_factory=Scaling)
    usual: tuple[float, ...] = ()
    strange: tuple[float, ...] = ()
    answers: tuple[Answer, ...] = ()
    leave_out: LeaveOut = "case"
    queries: int = 0
    revision: int = -1
    recipe: int = RECIPE
    seconds: float = 0.0
    answers_from: str = LEFT_OUT
    refused: int = 0

    def stale(self, revision: int) -> bool:
        """Whether the case base has changed since, or the recipe is another."""
        return self.revision != revision or self.recipe != RECIPE

    def to_dict(self) -> dict[str, Any]:
        """As plain data, to be stored with the case base."""
        return {
            "recipe": self.recipe,
            "revision": self.revision,
            "leave_out": self.leave_out,
            "queries": self.queries,
            "seconds": self.seconds,
            "weights": dict(zip(FEATURES, self.weights, strict=True)),
            "match": dict(zip((*FEATURES, "intercept"), self.match, strict=True)),
            "scaling": self.scaling.to_dict(),
            "usual": list(self.usual),
            "strange": list(self.strange),
            "answers": [[a.confidence, a.right, a.unit, a.case] for a in self.answers],
            "answers_from": self.answers_from,
            "refused": self.refused,
        }

    def brief(self) -> dict[str, Any]:
        """What a decision rests on, without the long lists: kept with each decision that is logged."""
        return {
            "recipe": self.recipe,
            "revision": self.revision,
            "leave_out": self.leave_out,
            "queries": self.queries,
            "weights": dict(zip(FEATURES, self.weights, strict=True)),
            "scaling": self.scaling.to_dict(),
        }

    @classmethod
    def from_brief(cls, doc: Mapping[str, Any]) -> Calibration:
        """Read what :meth:`brief` wrote; of another recipe too, for its weights were what counted.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        return cls(
            weights=tuple(float(doc["weights"][name]) for name in FEATURES),
            scaling=Scaling(**doc["scaling"]),
            leave_out="device" if doc["leave_out"] == "device" else "case",
            queries=int(doc["queries"]),
            revision=int(doc["revision"]),
            recipe=int(doc["recipe"]),
        )

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> Calibration:
        """Read what :meth:`to_dict` wrote; of another recipe nothing is taken but that it is stale."""
        if doc.get("recipe") != RECIPE:
            other = doc.get("recipe")
            return cls(
                recipe=other if isinstance(other, int) else 0,
                leave_out="device" if doc.get("leave_out") == "device" else "case",
            )
        try:
            return cls(
                weights=tuple(float(doc["weights"][name]) for name in FEATURES),
                match=tuple(float(doc["match"][name]) for name in (*FEATURES, "intercept")),
                scaling=Scaling(**doc["scaling"]),
                usual=tuple(doc["usual"]),
                strange=tuple(doc["strange"]),
                answers=tuple(Answer(float(c), bool(r), str(u), str(i)) for c, r, u, i in doc["answers"]),
                leave_out=doc["leave_out"],
                queries=int(doc["queries"]),
                revision=int(doc["revision"]),
                recipe=int(doc["recipe"]),
                seconds=float(doc["seconds"]),
                # calibrations of before pictures outside the base could certify say neither
                answers_from=OUTSIDE if doc.get("answers_from") == OUTSIDE else LEFT_OUT,
                refused=int(doc.get("refused", 0)),
            )
        except (KeyError, TypeError, ValueError):  # damaged: as good as none, and stale
            return cls()

    @property
    def accuracy(self) -> float | None:
        """Share of the answers that were right, or None without any."""
        return sum(a.right for a in self.answers) / len(self.answers) if self.answers else None


def learn(index: Index, leave_out: LeaveOut = "case") -> Calibration:
    """Learn a calibration from the cases, leaving out (SPEC C1).

    Args:
        index: The cases.
        leave_out: "case" where the robot meets the devices of the base again, "device" where it meets new ones.

    Returns:
        The calibration; with too few cases to learn from, the prior: every kind of evidence counts alike.
    """
    started = time.perf_counter()
    if len(index.cases) < 2:
        return Calibration(leave_out=leave_out, revision=index.revision)
    pairs = gather(index, leave_out)
    scaling = pairs.scaling(pairs.present)
    features = pairs.features(scaling)
    return Calibration(
        weights=_floats(fit_belief(features, pairs.labelled, pairs.right)),
        match=_floats(_match(index, pairs, features)),
        scaling=scaling,
        usual=tuple(sorted(float(c) for c in pairs.cosine.max(axis=1, initial=-1.0) if c > -1.0)),
        strange=tuple(sorted(s for s in strangenesses(index, pairs).tolist() if s == s)),
        answers=tuple(_answers(index, pairs)),
        leave_out=leave_out,
        queries=int((pairs.right.any(axis=1)).sum()),
        revision=index.revision,
        seconds=round(time.perf_counter() - started, 3),
    )


def _answers(index: Index, pairs: Pairs) -> list[Answer]:
    names = index.codes("next_action")[1]
    answers = []
    for fold in crossfit(pairs):
        for place, shares in zip(fold.queries.tolist(), fold.belief, strict=True):
            labelled = pairs.labelled[place]
            beliefs = believed(pairs.next_action[pairs.cases[place][labelled]], shares[labelled], names)
            row = int(pairs.rows[place])
            best = most_believed(beliefs)
            right = best is not None and names.index(best) == int(pairs.next_action[row])
            answers.append(Answer(round(beliefs[best], 6) if best else 0.0, right, pairs.unit[row], index.ids[row]))
    return answers


def _match(index: Index, pairs: Pairs, features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Learn when one case matches: the same device and step, or, with devices left out, the same next action."""
    near = pairs.present[:, :_GRADED]
    if pairs.leave_out == "device":
        same = pairs.right[:, :_GRADED]
    else:
        columns = [index.codes(name)[0] for name in ("family", "device", "step")]
        cases = pairs.cases[:, :_GRADED]
        same = np.logical_and.reduce([c[cases] == c[pairs.rows][:, None] for c in columns])
    if not near.any():
        return np.array(_DEFAULT_MATCH)
    return fit_match(features[:, :_GRADED][near], same[near])


def _floats(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(v), 6) for v in values)
