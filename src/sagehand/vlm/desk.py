"""What all questions to one model share."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

from sagehand.vlm.base import Usage, VlmBackend
from sagehand.vlm.ladder import Ladder
from sagehand.vlm.profile import Profile
from sagehand.vlm.prompt import PictureShelf

__all__ = ["Desk"]


@dataclass
class Desk:
    """What all questions to one model share; touched on the event loop only, but for ``usage`` and ``events``, read anywhere.

    Attributes:
        backend: Sends requests.
        profile: Of the model, as it came.
        shelf: Encodes pictures.
        ladder: What was learnt about the modes.
        slots: Requests that may be in flight at once.
        attempts: Tries of one question, at most.
        call_seconds: Longest time of one request [s].
        chance: Of the pauses' jitter.
        max_images: Pictures that the server takes in one request, as far as known now.
        merged: Whether everything goes into one user message, because the model's template demands it.
        not_before: Loop time before which nothing is sent, because the server asked for it.
        usage: Tokens and requests so far.
        events: How often what happened: "answered", "repaired", "truncated", "blanks", …
    """

    backend: VlmBackend
    profile: Profile
    shelf: PictureShelf
    ladder: Ladder
    slots: asyncio.Semaphore
    attempts: int
    call_seconds: float
    chance: random.Random
    max_images: int
    merged: bool = False
    not_before: float = 0.0
    usage: Usage = field(default_factory=Usage)
    events: Counter[str] = field(default_factory=Counter)
