"""What can be measured between a query and a case without a VLM, as numbers that add up.

Four features: likeness of the pictures, agreement of the previous action, agreement of the place, likeness of the depth
relief. What is not known on either side is 0: it speaks neither for nor against.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COSINE_FLOOR", "FEATURES", "Scaling", "agreement", "picture_likeness", "stack"]

FEATURES = ("picture", "previous", "place", "depth")

Floats = NDArray[np.float64]

COSINE_FLOOR = 0.01
"""About the cosine distance of two shots from one tripod: nothing is nearer than that, and no logarithm infinite."""


def picture_likeness(cosine: Floats) -> Floats:
    """−ln(1 − cosine + 0.01): halving the distance counts the same near and far, as in kernel density estimates."""
    return -np.log(1.0 - np.minimum(cosine, 1.0) + COSINE_FLOOR)


def agreement(query: NDArray[np.int32] | int, cases: NDArray[np.int32]) -> NDArray[np.int8]:
    """1 where two known codes are equal, −1 where they differ, 0 where either is unknown (−1)."""
    known = (cases >= 0) & (np.asarray(query) >= 0)
    return np.where(known, np.where(cases == query, 1, -1), 0).astype(np.int8)


@dataclass(frozen=True)
class Scaling:
    """Mean and spread of the continuous features over the pairs that a calibration was learnt from.

    Attributes:
        picture_mean: Mean picture likeness.
        picture_sd: Its standard deviation.
        depth_mean: Mean depth cosine.
        depth_sd: Its standard deviation.
    """

    picture_mean: float = 1.0
    picture_sd: float = 0.5
    depth_mean: float = 0.5
    depth_sd: float = 0.25

    @classmethod
    def of(cls, likeness: Floats, depth: Floats) -> Scaling:
        """Measure the pairs; NaN is left out; fewer than two pairs keep the defaults."""
        base = cls()

        def moments(values: Floats, mean: float, sd: float) -> tuple[float, float]:
            values = values[np.isfinite(values)]
            spread = float(values.std()) if values.size > 1 else 0.0
            return (float(values.mean()), spread) if spread > 1e-6 else (mean, sd)

        pm, ps = moments(likeness, base.picture_mean, base.picture_sd)
        dm, ds = moments(depth, base.depth_mean, base.depth_sd)
        return cls(pm, ps, dm, ds)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def stack(likeness: Floats, previous: NDArray[np.int8], place: NDArray[np.int8], depth: Floats, by: Scaling) -> Floats:
    """The features side by side, on one scale.

    Args:
        likeness: (…,) :func:`picture_likeness`.
        previous: (…,) :func:`agreement` of the previous action.
        place: (…,) the same of the place.
        depth: (…,) depth cosine, NaN where either side has no depth.
        by: The scale.

    Returns:
        (…, 4) in the order of :data:`FEATURES`.
    """
    relief = np.where(np.isfinite(depth), (depth - by.depth_mean) / by.depth_sd, 0.0)
    return np.stack([(likeness - by.picture_mean) / by.picture_sd, previous, place, relief], axis=-1).astype(np.float64)
