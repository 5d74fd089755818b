"""What an answer cost: calls, tokens and time (SPEC A5, C4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["FREE", "Cost"]


@dataclass(frozen=True)
class Cost:
    """What one or many answers cost.

    Attributes:
        calls: Requests that were sent to a model; those that failed count, too.
        prompt: Prompt tokens.
        completion: Reply tokens.
        seconds: Time that the questions took [s]; of questions asked at once, each counts.
        cached: Answers that came from the cache, for which nothing was sent.
    """

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    seconds: float = 0.0
    cached: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.calls + other.calls,
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.seconds + other.seconds,
            self.cached + other.cached,
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "calls": self.calls,
            "prompt": self.prompt,
            "completion": self.completion,
            "seconds": round(self.seconds, 6),
            "cached": self.cached,
        }


FREE = Cost()
"""What the perceptual judge's answers cost."""
