"""What every trial is beside its physics: open until it is closed, and with one thing in the hand or none."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

import numpy as np

from sagehand.errors import InputError
from sagehand.world.frames import Pose
from sagehand.world.noise import ExecutionNoise, Motion

__all__ = ["InHand", "OneHand"]


@dataclass(frozen=True, eq=False)
class InHand:
    """What is in the hand.

    Attributes:
        name: Of the object.
        T_tcp_object: (4, 4) where it is in the TCP's frame, as it was grasped [m].
    """

    name: str
    T_tcp_object: Pose


H = TypeVar("H", bound=InHand)


class OneHand(Generic[H]):
    """A trial that is closed at the end of its ``with``, and knows what is in its hand."""

    def __init__(self, noise: ExecutionNoise | None = None) -> None:
        """Begin with an empty hand; noise moves each motion, none by default."""
        self._noise = noise
        self._in_hand: H | None = None
        self._closed = False

    @property
    def held(self) -> str | None:
        """Name of what is in the hand."""
        return None if self._in_hand is None else self._in_hand.name

    def close(self) -> None:
        """End the trial; where things are can still be asked."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise InputError("this trial was closed", hint="start another one in its scene")

    def _refuse_full(self) -> None:
        if self._in_hand is not None:
            raise InputError(f"the {self._in_hand.name} is in the hand", hint="put it down first")

    def _what_is_held(self) -> H:
        if self._in_hand is None:
            raise InputError("nothing is in the hand", hint="grasp something first")
        return self._in_hand

    def _motion(self) -> Motion:
        """What the next motion does otherwise than told."""
        return self._noise.motion() if self._noise is not None else Motion(np.eye(4), 1.0)
