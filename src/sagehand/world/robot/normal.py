"""The step of damped least squares for one set of joint angles, in plain numbers: ``dq = Jᵀ (J Jᵀ + λ² I)⁻¹ e``.

Six equations are too few for array code: calling it takes longer than working them out.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Column", "least_step"]

Column = tuple[float, float, float, float, float, float]
"""Of a Jacobian: how the TCP shifts [m/rad] and turns [rad/rad] as one joint turns."""


def least_step(columns: Sequence[Column], error: Sequence[float], damping: float) -> list[float]:
    """(n,) change of the joint angles [rad] that takes away an error (6,) [m, rad].

    Args:
        columns: (n,) of the Jacobian; zeros for a joint that is held.
        error: (6,) shift [m] and turn [rad] that are left.
        damping: λ².
    """
    # what is on and over the diagonal of J Jᵀ + λ² I
    g00 = g11 = g22 = g33 = g44 = g55 = damping
    g01 = g02 = g03 = g04 = g05 = g12 = g13 = g14 = g15 = g23 = g24 = g25 = g34 = g35 = g45 = 0.0
    for a, b, c, d, e, f in columns:
        g00, g01, g02, g03, g04, g05 = g00 + a * a, g01 + a * b, g02 + a * c, g03 + a * d, g04 + a * e, g05 + a * f
        g11, g12, g13, g14, g15 = g11 + b * b, g12 + b * c, g13 + b * d, g14 + b * e, g15 + b * f
        g22, g23, g24, g25 = g22 + c * c, g23 + c * d, g24 + c * e, g25 + c * f
        g33, g34, g35 = g33 + d * d, g34 + d * e, g35 + d * f
        g44, g45, g55 = g44 + e * e, g45 + e * f, g55 + f * f
    y0, y1, y2, y3, y4, y5 = error
    # Gauss; the matrix is positive definite, so no pivot is looked for
    r1, r2, r3, r4, r5 = g01 / g00, g02 / g00, g03 / g00, g04 / g00, g05 / g00
    g11, g12, g13, g14, g15 = g11 - r1 * g01, g12 - r1 * g02, g13 - r1 * g03, g14 - r1 * g04, g15 - r1 * g05
    g22, g23, g24, g25 = g22 - r2 * g02, g23 - r2 * g03, g24 - r2 * g04, g25 - r2 * g05
    g33, g34, g35 = g33 - r3 * g03, g34 - r3 * g04, g35 - r3 * g05
    g44, g45, g55 = g44 - r4 * g04, g45 - r4 * g05, g55 - r5 * g05
    y1, y2, y3, y4, y5 = y1 - r1 * y0, y2 - r2 * y0, y3 - r3 * y0, y4 - r4 * y0, y5 - r5 * y0
    r2, r3, r4, r5 = g12 / g11, g13 / g11, g14 / g11, g15 / g11
    g22, g23, g24, g25 = g22 - r2 * g12, g23 - r2 * g13, g24 - r2 * g14, g25 - r2 * g15
    g33, g34, g35 = g33 - r3 * g13, g34 - r3 * g14, g35 - r3 * g15
    g44, g45, g55 = g44 - r4 * g14, g45 - r4 * g15, g55 - r5 * g15
    y2, y3, y4, y5 = y2 - r2 * y1, y3 - r3 * y1, y4 - r4 * y1, y5 - r5 * y1
    r3, r4, r5 = g23 / g22, g24 / g22, g25 / g22
    g33, g34, g35 = g33 - r3 * g23, g34 - r3 * g24, g35 - r3 * g25
    g44, g45, g55 = g44 - r4 * g24, g45 - r4 * g25, g55 - r5 * g25
    y3, y4, y5 = y3 - r3 * y2, y4 - r4 * y2, y5 - r5 * y2
    r4, r5 = g34 / g33, g35 / g33
    g44, g45, g55 = g44 - r4 * g34, g45 - r4 * g35, g55 - r5 * g35
    y4, y5 = y4 - r4 * y3, y5 - r5 * y3
    r5 = g45 / g44
    y5 = (y5 - r5 * y4) / (g55 - r5 * g45)
    y4 = (y4 - g45 * y5) / g44
    y3 = (y3 - g34 * y4 - g35 * y5) / g33
    y2 = (y2 - g23 * y3 - g24 * y4 - g25 * y5) / g22
    y1 = (y1 - g12 * y2 - g13 * y3 - g14 * y4 - g15 * y5) / g11
    y0 = (y0 - g01 * y1 - g02 * y2 - g03 * y3 - g04 * y4 - g05 * y5) / g00
    return [a * y0 + b * y1 + c * y2 + d * y3 + e * y4 + f * y5 for a, b, c, d, e, f in columns]
