"""What a grip can bear: the wrenches that two pads can put on an object by pressing and by friction.

Each pad presses with the normal force f, spread in any way over the points where it touches. At a point with normal n the force
and the turning moment about n obey the limit surface of a soft finger, an ellipsoid (Howe & Cutkosky, "Practical force-motion
models for sliding manipulation", IJRR 1996; Xydas & Kao, "Modeling of contact mechanics and friction limit surfaces for soft
fingers", IJRR 1999)::

    (F_t / μ)² + (τ / c)² ≤ N²

with c = 5 mm (:data:`TORSION_M`), the same ellipsoid that MuJoCo's elliptic cone uses. All wrenches of unit f are a convex set K;
a grip holds an external wrench w when w / f lies in K (plastic limit analysis). What pulls along the closing axis is borne by the
coupling of the two fingers and is left out. So ``required_force`` is 1 / max {λ : λ·w ∈ K}, found by the simplex method, its
columns made as they are needed: the best wrench of a pad in a direction has a closed form. Weight at a distance from the pads is
thereby borne by the shift of pressure in the patch, by friction couples and by torsion, as in GRASPING §2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sagehand.world.constants import GRAVITY

__all__ = ["LENGTH_M", "TORSION_M", "Contacts", "GripStatics", "weight_force"]

Array = NDArray[np.float64]
TORSION_M = 0.005
"""Moment about its normal that a contact bears per newton pressed [m]; as in :func:`sagehand.world.model.build_model`."""
LENGTH_M = 0.01
"""Moments are measured against forces at this arm [m]; about the half pad."""
_MOST = 100
_DEAR = -1e3
"""Price of an artificial column that must go."""
_TOLERANCE = 1e-6
_PRECISE = 3e-3
"""Share of the optimum that may be left."""


@dataclass(frozen=True, eq=False)
class Contacts:
    """Where the pads touch an object, in the grasp frame.

    Attributes:
        points: (K, 3) [m].
        inward: (K, 3) unit normals, into the object.
        pad: (K,) 0 for the pad at +y, 1 for that at −y.
    """

    points: Array
    inward: Array
    pad: NDArray[np.int64]


def weight_force(mass_kg: float, friction: float, acceleration: float) -> float:
    """F = m (g + a) / 2μ: the normal force of each finger that carries a weight at its centre [N] (GRASPING §2)."""
    return mass_kg * (GRAVITY + acceleration) / (2 * max(friction, 1e-9))


class GripStatics:
    """The set K of a grip, and what it bears.

    This is the authority on what force a grasp needs; :func:`~sagehand.world.grip.holding_force` is a quicker, more cautious law.
    """

    def __init__(self, contacts: Contacts, friction: float, torsion_m: float = TORSION_M) -> None:
        """Take the contacts; ``friction`` is Coulomb's coefficient between pad and object."""
        order = np.argsort(contacts.pad, kind="stable")
        self.friction = friction
        """Coulomb's coefficient."""
        self._count = len(order)
        self._split = self._count - int(contacts.pad.sum())
        points, normal = contacts.points.take(order, 0), contacts.inward.take(order, 0)
        first = np.where(np.abs(normal[:, :1]) < 0.9, _X, _Z)
        first = first - (first * normal).sum(axis=1, keepdims=True) * normal
        first /= np.sqrt((first * first).sum(axis=1, keepdims=True))
        # rows: pressing, the two ways of friction, torsion; a point's wrench is the first plus a unit ball of the others
        force = np.zeros((4, self._count, 3))
        force[0] = normal
        np.multiply(friction, first, out=force[1])
        np.multiply(friction, _cross(normal, first), out=force[2])
        wrenches = np.empty((4, self._count, 5))
        wrenches[..., :2] = force[..., ::2]
        np.divide(_cross(points, force[:3]), LENGTH_M, out=wrenches[:3, :, 2:])
        np.divide(torsion_m * normal, LENGTH_M, out=wrenches[3, :, 2:])
        self._against = -wrenches.reshape(-1, 5)
        self._points = np.ascontiguousarray(wrenches.transpose(1, 0, 2))  # (K, 4, 5)
        self._settled: _Basis | None = None
        self._last: _Basis | None = None

    @property
    def stable(self) -> bool:
        """Whether the squeeze by itself is in balance (0 ∈ K): the object stays where it is between the pads (Nguyen 1988)."""
        return float(np.abs(self.residual).sum()) < 1e-3

    @property
    def residual(self) -> Array:
        """(5,) F_x, F_z [N] and M_x, M_y, M_z [N at 10 mm] on the object that a squeeze of 1 N leaves unbalanced at least."""
        if self._settled is None:
            self._settled = _Basis(-1.0)
            self._simplex(self._settled, None)
        basis = self._settled
        return np.asarray(-(np.array(basis.columns).T[:5] * np.where(basis.made, basis.x, 0)).sum(axis=1))

    def required_force(self, wrench: Array) -> float:
        """Normal force of each finger [N] that bears a wrench on the object, to 0.3 %; inf if no force does.

        Args:
            wrench: (6,) force [N] and moment about the TCP [Nm] that act on the object, in the grasp frame.
        """
        size, extra = _asked(wrench)
        if size < 1e-12:
            return 0.0
        basis = self._last = _Basis(_DEAR)
        self._simplex(basis, extra)
        if basis.left > 1e-4:
            return math.inf
        return size / basis.reach if basis.reach > 1e-9 else math.inf

    def bears(self, wrench: Array, force_n: float) -> bool:
        """Whether a normal force of each finger [N] bears a wrench (6,): :meth:`required_force` is no more than it.

        Begun where the last wrench ended, and ended as soon as what is found suffices by more than the method's precision; where
        it does not come so far, :meth:`required_force` itself is asked.
        """
        size, extra = _asked(wrench)
        if self._last is not None and size >= 1e-12:
            self._last.forget()
            self._simplex(self._last, extra, size / force_n * (1 + 2 * _PRECISE) if force_n > 0 else math.inf)
            if self._last.left < 1e-5 and self._last.reach * force_n >= size * (1 + 2 * _PRECISE):
                return True
        return self.required_force(wrench) <= force_n

    def _simplex(self, basis: _Basis, extra: Array | None, enough: float = math.inf) -> None:
        """Maximise cost·x with columns made as they are needed, in place; ``enough`` of the extra column ends it.

        As the weights of a pad sum to 1, the gains that are left bound how far the optimum may still be.
        """
        for _ in range(_MOST):
            dual = basis.cost.dot(basis.inverse)
            gains, best = self._supports(dual)
            bound = max(gains[0], 0.0) + max(gains[1], 0.0)
            price, made, known = 0.0, False, False
            entering: Array | None = None
            if extra is None:
                if bound < 1e-4:  # an artificial column may come back with the other sign
                    row = int(np.abs(dual[:5]).argmax())
                    if abs(dual[row]) <= 1 + 1e-6:
                        return
                    entering, price, made = np.zeros(7), -1.0, True
                    entering[row] = -math.copysign(1, dual[row])
            else:
                own = 1.0 - float(dual.dot(extra))
                if own > max(gains[0], gains[1], _TOLERANCE):
                    entering, price, known = extra, 1.0, True
                elif bound < _PRECISE * abs(float(basis.cost.dot(basis.x))) + _TOLERANCE:
                    return
            if entering is None:
                entering = self._column(int(gains[1] > gains[0]), best)
            if not basis.enter(entering, price, made, known):
                return
            if enough < math.inf and basis.reach > enough and basis.left < 1e-5:
                return

    def _supports(self, dual: Array) -> tuple[tuple[float, float], tuple[int, int]]:
        """How much each pad's best wrench of unit force gains against the dual (7,), and at which point."""
        split = self._split
        if not 0 < split < self._count:
            return (-math.inf, -math.inf), (0, 0)
        ways = self._ways = self._against.dot(dual[:5]).reshape(4, -1)
        squares = ways * ways
        sums = np.sqrt(squares[1] + squares[2] + squares[3])
        sums += ways[0]
        total = sums.tolist()
        one, two = max(total[:split]), max(total[split:])
        return (one - float(dual[5]), two - float(dual[6])), (total.index(one), total.index(two, split))

    def _column(self, side: int, best: tuple[int, int]) -> Array:
        """The best wrench of a pad, found last by :meth:`_supports`, as a column (7,)."""
        k = best[side]
        _, x, y, twist = self._ways[:, k].tolist()
        reach = max(math.sqrt(x * x + y * y + twist * twist), 1e-15)
        column = np.zeros(7)
        column[:5] = np.array([1.0, x / reach, y / reach, twist / reach]).dot(self._points[k])
        column[5 + side] = 1.0
        return column


def _asked(wrench: Array) -> tuple[float, Array]:
    """The size of what a grip has to put against a wrench (6,) [N, moments at 10 mm], and the column (7,) for 1 N of it."""
    need = -np.array([wrench[0], wrench[2], *(np.asarray(wrench[3:]) / LENGTH_M)])
    size = float(np.linalg.norm(need))
    return size, np.concatenate([-need / max(size, 1e-12), [0.0, 0.0]])


_RHS = np.array([1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 1.0, 1.0])
"""Right-hand side; the small numbers keep the simplex method from circling."""


_X, _Z = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])
_TURNED, _BACK = np.array([1, 2, 0]), np.array([2, 0, 1])


class _Basis:
    """A basis of the simplex method, its inverse and its solution, kept up to date together; artificial columns at first."""

    def __init__(self, price: float) -> None:
        self._table = np.eye(7, 8)
        self._table[:, 7] = _RHS
        self.inverse, self.x = self._table[:, :7], self._table[:, 7]
        self.columns = list(np.eye(7))
        self.made = [True] * 7
        """Whether a column is artificial."""
        self.extra = -1
        """Which is the one that is asked for; −1 while it is not in."""
        self.cost = np.array([price] * 5 + [_DEAR] * 2)

    @property
    def reach(self) -> float:
        """How much of the extra column there is."""
        return float(self.x[self.extra]) if self.extra >= 0 else 0.0

    @property
    def left(self) -> float:
        """How much of the artificial columns is left."""
        return float(self.x[self.made].sum())

    def forget(self) -> None:
        """The extra column is asked for no more: it has to go, as an artificial one."""
        if self.extra >= 0:
            self.cost[self.extra], self.made[self.extra], self.extra = _DEAR, True, -1

    def enter(self, column: Array, price: float, made: bool, extra: bool) -> bool:
        """Let a column in for the one that falls to zero first; False if none does."""
        step = self.inverse.dot(column)
        rises = step.tolist()
        leave, amount = -1, math.inf
        for row, (rise, value) in enumerate(zip(rises, self.x.tolist(), strict=True)):
            if rise > 1e-9 and value < amount * rise:
                leave, amount = row, max(value, 0.0) / rise
        if leave < 0:
            return False
        row_of = self._table[leave] / rises[leave]
        row_of[7] = amount
        self._table -= step.reshape(7, 1).dot(row_of.reshape(1, 8))
        self._table[leave] = row_of
        self.columns[leave], self.cost[leave], self.made[leave] = column, price, made
        if extra:
            self.extra = leave
        elif self.extra == leave:
            self.extra = -1
        return True


def _cross(a: Array, b: Array) -> Array:
    """Cross products of (..., 3) and (..., 3); far quicker than numpy's for a few rows."""
    product = a.take(_TURNED, -1) * b.take(_BACK, -1)
    product -= a.take(_BACK, -1) * b.take(_TURNED, -1)
    return np.asarray(product)
