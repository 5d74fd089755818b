"""What decisions will cost, before a model is asked: calls and tokens, at least and at most (SPEC A5: budgets).

At least: the first look is accepted. At most: every leaf that may be looked at is graded, and a tie of
``tie_pairs_up_to`` pictures is compared in all pairs. Retries, crops by a model and cached answers are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sagehand.cases import Tree
from sagehand.recall.params import SearchParams

if TYPE_CHECKING:
    from sagehand.vlm.base import Usage
    from sagehand.vlm.profile import Profile

__all__ = ["Estimate", "estimate"]

_TEXT = 1500  # tokens of a question's text: system, what is known, action list
_REPLY = 120  # tokens of a reply: a sentence or three of reasons, and the call
_VIEW = (1024, 768)  # pixels of a picture as it is sent


@dataclass(frozen=True)
class Estimate:
    """Of one decision, or of many.

    Attributes:
        least: Calls and tokens if every first look is accepted.
        most: The same if every search is a full one.
    """

    least: Usage
    most: Usage


def estimate(method: str, decisions: int, tree: Tree, params: SearchParams, profile: Profile) -> Estimate:
    """Estimate what decisions will ask of a model.

    Args:
        method: "single", "guided" or "zero-shot".
        decisions: How many.
        tree: Of the case base: how many pictures a search may grade.
        params: Of the search.
        profile: Of the model: what a picture costs.
    """
    from sagehand.vlm.base import Usage
    from sagehand.vlm.images import image_tokens

    picture = image_tokens(*_VIEW, profile)

    def usage(questions: dict[int, int]) -> Usage:
        """From pictures in a question → how many such questions."""
        calls = sum(questions.values())
        prompt = sum(count * (_TEXT + shown * picture) for shown, count in questions.items())
        return Usage(decisions * prompt, decisions * calls * _REPLY, decisions * calls)

    if method != "guided":
        one = usage({1 if method == "zero-shot" else 2: 1})
        return Estimate(one, one)
    devices = sorted(
        (
            sum(min(step.cases, params.images_per_step) for step in device.steps)
            for family in tree.nodes
            for device in family.devices
        ),
        reverse=True,
    )[: params.most_leaves]
    graded, ties = sum(devices), min(params.tie_pairs_up_to, sum(devices))
    compared = ties * (ties - 1) // 2 * (2 if params.both_orders else 1)
    texts = len(devices) + max(len(devices) - params.leaves + 1, 0)
    full = usage({0: texts, 2: graded + int(params.first_look) + 1, 3: compared})
    return Estimate(usage({2: 2}) if params.first_look else full, full)
