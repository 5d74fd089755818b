"""What a thin round wall bears before it cracks (GRASPING §8).

A ring of radius R that two fingers press across its diameter bends most under them, M = 0.318·F·R (Roark's Formulas for
Stress and Strain, circular rings, case 1: M = F·R/π). A strip of wall of width b and thickness t breaks at σ = 6·M / (b·t²), so
F = σ·b·t² / (6·0.318·R).
"""

from __future__ import annotations

from sagehand.errors import InputError

__all__ = ["GLASS_MPA", "STRIP_M", "shell_force_n"]

GLASS_MPA = 30.0
"""Bending strength of a used glass surface [MPa]."""
STRIP_M = 0.03
"""How much of the wall bears with the finger [m]."""
_RING = 0.318


def shell_force_n(
    wall_m: float, radius_m: float, *, strength_mpa: float = GLASS_MPA, strip_m: float = STRIP_M
) -> float:
    """The force of each finger at which a round wall cracks [N].

    Args:
        wall_m: Its thickness [m].
        radius_m: Its radius [m].
        strength_mpa: Bending strength of the material [MPa].
        strip_m: Width of wall that bears [m].

    Raises:
        InputError: A value is not above 0.
    """
    values = {"wall_m": wall_m, "radius_m": radius_m, "strength_mpa": strength_mpa, "strip_m": strip_m}
    for name, value in values.items():
        if not value > 0:
            raise InputError(f"{name} is {value}; it must be above 0")
    return strength_mpa * 1e6 * strip_m * wall_m**2 / (6 * _RING * radius_m)
