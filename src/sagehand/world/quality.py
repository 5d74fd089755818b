"""The seven quality factors and their sum Q (paper B eq. 2, thresholds and definitions GRASPING §2)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["THRESHOLD", "WEIGHTS", "Quality"]

WEIGHTS = {
    "position": 0.20,
    "width": 0.15,
    "force": 0.10,
    "type": 0.15,
    "clearance": 0.15,
    "difficulty": 0.10,
    "security": 0.15,
}
"""ω of paper B eq. 2."""
THRESHOLD = 0.4
"""θ: a factor under it fails by itself, in the faithful reading; the paper gives only that of the width."""


@dataclass(frozen=True)
class Quality:
    """φ1 to φ7, each from 0 to 1."""

    position: float
    """φ1: how near the region."""
    width: float
    """φ2: how well the opening suits the object."""
    force: float
    """φ3: where in the window from required to safe."""
    type: float
    """φ4: whether the type suits the region."""
    clearance: float
    """φ5: how far hand and arm stay from everything on their way; 0 where there is no way."""
    difficulty: float
    """φ6: how easy the object is."""
    security: float
    """φ7: how much wrench the grip can bear beyond what it must, the whole moment of the centre of mass included."""

    @property
    def total(self) -> float:
        """Q = Σ ω·φ."""
        return float(sum(WEIGHTS[f.name] * getattr(self, f.name) for f in fields(self)))

    @property
    def below(self) -> tuple[str, ...]:
        """Factors under the threshold."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) < THRESHOLD)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, with the total."""
        return {k: round(v, 4) for k, v in asdict(self).items()} | {"total": round(self.total, 4)}
