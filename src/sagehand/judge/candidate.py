"""What is in front of the robot, a past case beside it, and what was measured and found between the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sagehand.cases import Case
from sagehand.picture import Picture

__all__ = ["Candidate", "Evidence", "Finding", "Query", "Verdict"]

Verdict = Literal["agrees", "differs", "cannot tell"]


@dataclass(frozen=True)
class Finding:
    """One sentence of evidence.

    Attributes:
        topic: What was looked at: "picture", "depth", "place", "previous action", "shape", "components", …
        verdict: Whether query and candidate agree in it; "cannot tell" where nothing measured it.
        text: The finding in words.
    """

    topic: str
    verdict: Verdict
    text: str


@dataclass(frozen=True, eq=False)
class Query:
    """What is in front of the robot, and what is known about it.

    Attributes:
        vector: (d,) unit embedding of the (cropped) picture.
        picture: The picture itself, cropped as the case base is; None where only vectors are compared.
        depth_vector: (576,) unit relief, or None without depth.
        previous_action: The action that led here; "none" when nothing was done yet; None when not known.
        place: Where the device sits, when known.
        family: Its family, when known.
    """

    vector: NDArray[np.float32]
    picture: Picture | None = None
    depth_vector: NDArray[np.float32] | None = None
    previous_action: str | None = None
    place: str | None = None
    family: str | None = None


@dataclass(frozen=True)
class Evidence:
    """What was measured between a query and one case.

    Attributes:
        picture: Cosine of the two picture embeddings, in [-1, 1].
        previous: 1 the same known previous action, -1 another one, 0 not known on either side.
        place: The same for the place.
        depth: Cosine of the two reliefs when both have depth, else None.
    """

    picture: float
    previous: int
    place: int
    depth: float | None


@dataclass(frozen=True)
class Candidate:
    """A past case beside the query.

    Attributes:
        case: The case.
        evidence: What was measured between the two.
        score: The calibrated sum of the evidence; only differences mean something.
        probability: Share of belief among all cases compared, in [0, 1].
    """

    case: Case
    evidence: Evidence
    score: float
    probability: float
