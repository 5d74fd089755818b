"""The rungs json_schema → tools → text, and what this process has learnt about them for one model on one server (S01, S07).

A rung is blamed only when a lower one then answered the same question: a server that is down or out of memory teaches
nothing about its modes. A refused rung is left out for as long as the process lives; one that was ignored or that broke
the connection three times without a success between is left out for a hundred questions and then tried again. The same
goes for the full schema on a rung, where the reduced one was taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from sagehand.vlm.base import Mode

__all__ = ["Blame", "Ladder"]

Blame = Literal["refused", "ignored", "fault"]
_STRIKES = 3
_REST = 100


class Ladder:
    """Which rungs to try, in which order. Used from one thread.

    Args:
        modes: By preference; the last one is never left out.
    """

    def __init__(self, modes: Sequence[Mode]) -> None:
        self._modes = tuple(modes)
        self._refused: set[Mode] = set()
        self._loose: set[Mode] = set()
        self._strikes: dict[Mode, int] = dict.fromkeys(modes, 0)
        self._full_strikes: dict[Mode, int] = dict.fromkeys(modes, 0)
        self._rest: dict[Mode, int] = dict.fromkeys(modes, 0)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The rungs in use now, best first."""
        out = [m for m in self._modes[:-1] if m not in self._refused and not self._rest[m]]
        return (*out, self._modes[-1])

    def start(self) -> tuple[Mode, ...]:
        """The rungs for one more question; those that rest come nearer to their next try."""
        modes = self.modes
        for mode, left in self._rest.items():
            self._rest[mode] = max(0, left - 1)
        return modes

    def is_loose(self, mode: Mode) -> bool:
        """Whether the server takes only the reduced schema in this mode."""
        return mode in self._loose

    def answered(
        self, mode: Mode, *, failed: Mapping[Mode, Blame], loose: bool = False, full_failed: Blame | None = None
    ) -> None:
        """Learn from a question that was answered.

        Args:
            mode: The rung that answered.
            failed: The rungs above that were given up, and why.
            loose: Whether it was asked with the reduced schema.
            full_failed: What became of the full schema on this rung, if it was tried and failed.
        """
        self._strikes[mode] = 0
        if not loose:
            self._full_strikes[mode] = 0
        elif full_failed:
            self._full_strikes[mode] += _STRIKES if full_failed == "refused" else 1
            if self._full_strikes[mode] >= _STRIKES:
                self._loose.add(mode)
        for other, why in failed.items():
            if why == "refused":
                self._refused.add(other)
                continue
            self._strikes[other] += 1
            if self._strikes[other] >= _STRIKES:
                self._strikes[other] = _STRIKES - 1  # the next try is one try
                self._rest[other] = _REST
