"""The 14 ways in which a grasp fails (paper B §IV-B), and the outcomes after which no retry helps."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Failure", "FailureGroup", "Terminal", "group_of"]


class FailureGroup(StrEnum):
    """The four groups of failures."""

    PRE_CONTACT = "pre_contact"
    CONTACT = "contact"
    POST_GRASP = "post_grasp"
    TASK = "task"


class Failure(StrEnum):
    """Why a grasp failed."""

    POSITION_ERROR = "position_error"
    """The fingers closed beside the object."""
    UNREACHABLE = "unreachable"
    """No joint angles within the limits bring the hand there."""
    APPROACH_ANGLE = "approach_angle"
    """The hand could be there, but not from this side: an arm link or the hand would meet the table."""
    WIDTH_MISMATCH = "width_mismatch"
    """The object does not fit between the fingers as they are opened."""
    COLLISION = "collision"
    """Hand, finger or arm met something on the way."""
    ORIENTATION = "orientation"
    """The fingers met the object at an angle at which friction cannot hold it, or turned it."""
    SLIP = "slip"
    """Friction did not carry the weight: it slid out of the fingers."""
    DROP = "drop"
    """It was lifted and then lost, by its moment or by a shake."""
    FORCE_DAMAGE = "force_damage"
    """Pressed harder than 1.5 times its safe force."""
    DEFORMATION = "deformation"
    """Pressed harder than its safe force."""
    WRONG_OBJECT = "wrong_object"
    """Something else was lifted."""
    CONSTRAINT_VIOLATION = "constraint_violation"
    """Lifted, but something else came to harm: a neighbour pushed, a content spilt, what it carried thrown down."""
    TIMEOUT = "timeout"
    """It took longer than allowed."""
    UNKNOWN = "unknown"
    """None of these."""


class Terminal(StrEnum):
    """What cannot be undone: no retry follows."""

    BROKEN = "broken"
    SPILT = "spilt"
    TOPPLED = "toppled"


_GROUPS = {
    FailureGroup.PRE_CONTACT: (Failure.POSITION_ERROR, Failure.UNREACHABLE, Failure.APPROACH_ANGLE),
    FailureGroup.CONTACT: (Failure.WIDTH_MISMATCH, Failure.COLLISION, Failure.ORIENTATION),
    FailureGroup.POST_GRASP: (Failure.SLIP, Failure.DROP, Failure.FORCE_DAMAGE, Failure.DEFORMATION),
    FailureGroup.TASK: (Failure.WRONG_OBJECT, Failure.CONSTRAINT_VIOLATION, Failure.TIMEOUT, Failure.UNKNOWN),
}


def group_of(failure: Failure) -> FailureGroup:
    """The group of a failure."""
    return next(group for group, failures in _GROUPS.items() if failure in failures)
