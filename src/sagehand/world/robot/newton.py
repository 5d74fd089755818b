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
    error[:, :3] = T_to[:, :3, 3] - T_from[:, :3, 3]
    D = T_to[:, :3, :3] @ T_from[:, :3, :3].transpose(0, 2, 1)
    flat = D.reshape(-1, 9)
    sine = error[:, 3:]
    sine[:] = (flat[:, (7, 2, 3)] - flat[:, (5, 6, 1)]) / 2
    norm = np.sqrt(np.einsum("ij,ij->i", sine, sine))
    cosine = (flat[:, (0, 4, 8)].sum(axis=1) - 1) / 2
    angle = np.arctan2(norm, cosine)
    half_turn = (norm < 1e-6) & (cosine < 0)
    sine *= np.where(norm > 1e-12, angle / np.maximum(norm, 1e-12), 1.0)[:, None]
    if half_turn.any():  # the axis of a turn by π is not in the sines: it is the column that D + I leaves largest
        for row in np.flatnonzero(half_turn):
            S = D[row] + np.eye(3)
            axis = S[:, int(np.argmax(np.diag(S)))]
            sine[row] = np.pi * axis / np.linalg.norm(axis)
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
    Q = np.clip(Q, lower, upper) if limits else Q.copy()
    held = np.zeros(Q.shape, dtype=bool)
    links: Links = chain.links(Q)
    error = pose_error(links.tcp, T_world_tcp)
    diagonal = np.arange(6)
    for _ in range(steps):
        size = np.abs(error).max(axis=1)
        if size.max() < enough:
            break
        J = chain.jacobian(links)
        if held.any():
            J = np.where(held[:, None, :], 0.0, J)
        Jt = J.transpose(0, 2, 1)
        G = J @ Jt
        G[:, diagonal, diagonal] += (damping + 1e-2 * np.minimum(size, 1.0) ** 2)[:, None]
        dq = (Jt @ np.linalg.solve(G, error[:, :, None]))[:, :, 0]
        longest = np.abs(dq).max(axis=1)
        if longest.max() > _LONGEST:
            dq *= np.minimum(1.0, _LONGEST / np.maximum(longest, _LONGEST))[:, None]
        Q = Q + dq
        if limits:
            held = ((lower + _EDGE >= Q) & (dq < 0)) | ((upper - _EDGE <= Q) & (dq > 0))
            Q = np.minimum(np.maximum(Q, lower), upper)
        links = chain.links(Q)
        error = pose_error(links.tcp, T_world_tcp)
    return Residual(Q, np.sqrt((error[:, :3] ** 2).sum(axis=1)), np.sqrt((error[:, 3:] ** 2).sum(axis=1)))
