"""What does a model on a server honour? Asked once at set-up, written into a profile that later calls use.

A field that a server does not know is dropped without a word, so nothing is taken on trust: a constraint counts as
honoured when the reply holds a code word that only the constraint tells.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sagehand.errors import InputError
from sagehand.vlm.base import Usage, VlmBackend
from sagehand.vlm.probe_steps import ProbeFinding, Steps
from sagehand.vlm.profile import Profile, builtin_profile

__all__ = ["ProbeFinding", "ProbeReport", "probe"]


@dataclass(frozen=True)
class ProbeReport:
    """What a probe found.

    Attributes:
        model: The model's name.
        findings: In the order they were tried.
        profile: For later calls.
        usage: What the probe cost.
        seconds: How long it took [s].
    """

    model: str
    findings: tuple[ProbeFinding, ...]
    profile: Profile
    usage: Usage
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "model": self.model,
            "findings": [f.to_dict() for f in self.findings],
            "profile": self.profile.to_dict(),
            "requests": self.usage.calls,
            "prompt_tokens": self.usage.prompt,
            "reply_tokens": self.usage.completion,
            "seconds": round(self.seconds, 2),
        }


async def probe(
    backend: VlmBackend,
    *,
    start: Profile | None = None,
    most_images: int = 16,
    call_seconds: float = 60.0,
    seed: int = 0,
    on_finding: Callable[[ProbeFinding], None] | None = None,
) -> ProbeReport:
    """Ask a model on a server what it honours: about 40 short requests.

    Args:
        backend: The model; it is not closed.
        start: What is known already; by default the built-in profile of the model's family.
        most_images: Pictures that a request is tried with, at most.
        call_seconds: Most seconds of one request [s].
        seed: Of the code words.
        on_finding: Called with each finding as it is made.

    Raises:
        InputError: ``most_images`` is below 1.
        VlmError: The first plain question got no answer: unreachable, refused, wrong model or key, …
    """
    if most_images < 1:
        raise InputError(f"most_images is {most_images}; it is 1 or more")
    started = time.monotonic()
    run = Steps(backend, start or builtin_profile(backend.model), call_seconds, random.Random(seed), on_finding)
    await run.reach()
    await run.schema()
    await run.thinking()
    await run.tools()
    run.settle_modes()
    await run.images(most_images)
    await run.boxes()
    evidence = tuple(f"{f.what}: {f.answered}" for f in run.findings)
    profile = replace(run.profile, probed=True, evidence=evidence)
    return ProbeReport(backend.model, tuple(run.findings), profile, run.asker.usage, time.monotonic() - started)
