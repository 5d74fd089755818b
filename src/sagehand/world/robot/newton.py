"""Newton's method on the pose of the TCP, inside the joint limits, for many starts at once.

Damped least squares (Nakamura and Hanafusa 1986): ``dq = Jᵀ (J Jᵀ + λ² I)⁻¹ e`` with the error ``e`` of position and rotation.
A joint that is at its limit and would go beyond is held, and the others do its part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sagehand.world.robot.chain import Chain, Links

__all__ = ["Residual", "newton", "pose_error"]

Array = NDArray[np.float64]

_EDGE = 1e-9
"""How near a limit a joint counts as at it [rad]."""
_LONGEST = 0.5
"""Longest step of a joint in one iteration [rad]: beyond it the linear picture is worth nothing."""


_ONES = np.ones(3)
_PARTS = np.zeros((9, 4))
"""What makes of a rotation's nine numbers, row by row, half of what is off its diagonal, and half its trace."""
_PARTS[(7, 2, 3), (0, 1, 2)], _PARTS[(5, 6, 1), (0, 1, 2)], _PARTS[(0, 4, 8), 3] = 0.5, -0.5, 0.5


class Residual(NamedTuple):
    """Joint angles, and how far they leave the TCP from where it should be.

    Attributes:
        q: (N, n) joint angles [rad].
        position_m: (N,) [m].
        rotation_rad: (N,) [rad].
    """

    q: Array
    position_m: Array
    rotation_rad: Array


def pose_error(T_from: Array, T_to: Array) -> Array:
    """(N, 6) shift [m] and turn [rad, about world axes] from poses (N, 4, 4) to poses (N or 1, 4, 4)."""
    error = np.empty((len(T_from), 6))
    np.subtract(T_to[:, :3, 3], T_from[:, :3, 3], out=error[:, :3])
    D = T_to[:, :3, :3] @ T_from[:, :3, :3].transpose(0, 2, 1)
    parts = D.reshape(-1, 9) @ _PARTS
    sine, cosine = parts[:, :3], parts[:, 3] - 0.5
    norm = np.sqrt((sine * sine) @ _ONES)
    np.multiply(sine, (np.arctan2(norm, cosine) / np.maximum(norm, 1e-12))[:, None], out=error[:, 3:])
    if cosine.min(initial=0.0) < 0 and (half_turn := (norm < 1e-6) & (cosine < 0)).any():
        for row in np.flatnonzero(half_turn):  # the axis of a turn by π is not in the sines: D + I leaves it largest
            S = D[row] + np.eye(3)
            axis = S[:, int(np.argmax(np.diag(S)))]
            error[row, 3:] = np.pi * axis / np.linalg.norm(axis)
    return error


def newton(
    chain: Chain,
    Q: Array,
    T_world_tcp: Array,
    *,
    steps: int,
    damping: float = 1e-6,
    limits: bool = True,
    enough: float = 1e-9,
) -> Residual:
    """Go from joint angles Q (N, n) [rad] towards poses (N or 1, 4, 4) [m].

    Args:
        chain: The arm.
        Q: Where to begin.
        T_world_tcp: Where the TCP is to be.
        steps: Iterations at most.
        damping: λ² beside J Jᵀ; more of it is added while the error is large.
        limits: Keep within the joint limits.
        enough: End when no part of any error is larger [m or rad].
    """
    lower, upper = chain.robot.lower, chain.robot.upper
    low, high = lower + _EDGE, upper - _EDGE
    Q = np.minimum(np.maximum(Q, lower), upper) if limits else Q.copy()
    held: NDArray[np.bool_] | None = None
    links: Links = chain.links(Q)
    error = pose_error(links.tcp, T_world_tcp)
    for _ in range(steps):
        size = np.abs(error).max(axis=1)
        if size.max() < enough:
            break
        J = chain.jacobian(links)
        if held is not None:
            J = np.where(held[:, None, :], 0.0, J)
        Jt = J.transpose(0, 2, 1)
        G = J @ Jt
        G.reshape(-1, 36)[:, ::7] += (damping + 1e-2 * np.minimum(size, 1.0) ** 2)[:, None]
        dq = (Jt @ np.linalg.solve(G, error[:, :, None]))[:, :, 0]
        longest = np.abs(dq).max(axis=1)
        if longest.max() > _LONGEST:
            dq *= np.minimum(1.0, _LONGEST / np.maximum(longest, _LONGEST))[:, None]
        Q = Q + dq
        held = None
        if limits and ((under := low >= Q).any() | (over := high <= Q).any()):
            held = (under & (dq < 0)) | (over & (dq > 0))
            Q = np.minimum(np.maximum(Q, lower), upper)
        links = chain.links(Q)
        error = pose_error(links.tcp, T_world_tcp)
    squares = error * error
    return Residual(Q, np.sqrt(squares[:, :3].sum(axis=1)), np.sqrt(squares[:, 3:].sum(axis=1)))
