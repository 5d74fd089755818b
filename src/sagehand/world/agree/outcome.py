"""What one executor made of one sample: the record that a study writes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sagehand.world.agree.sample import Sample
from sagehand.world.executor import Executor

__all__ = ["Outcome", "outcome_of", "plain"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """One sample in one executor.

    Attributes:
        number: Of the sample.
        executor: Its name.
        success: Lifted, held, whole.
        failure: Why not.
        terminal: What cannot be undone.
        why: One sentence.
        quality: The factors and their total, where the executor computes them.
        margin: A margin of its own, positive for success, where it names one.
        truth: What else was true: forces, slip, turn, what was lifted.
        observation: What the robot noticed.
        seconds: It took by the clock [s].
        cpu_s: And of the processor [s].
        error: What the executor raised, if it broke; the outcome is then none.
    """

    number: int
    executor: str
    success: bool
    failure: str | None
    terminal: str | None
    why: str
    quality: Mapping[str, float] | None
    margin: float | None
    truth: Mapping[str, Any]
    observation: Mapping[str, Any]
    seconds: float
    cpu_s: float
    error: str | None = None

    @property
    def verdict(self) -> str:
        """What became of it: "success", or the failure's name."""
        return "success" if self.success else (self.failure or "unknown")

    @property
    def total(self) -> float | None:
        """Q, where the executor computes it."""
        return None if self.quality is None else float(self.quality["total"])

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> Outcome:
        """The outcome of :meth:`to_dict`.

        Raises:
            KeyError: A field is missing.
            TypeError: A field is unknown.
        """
        fields = {k: doc[k] for k in cls.__dataclass_fields__}
        return cls(**fields)


def outcome_of(executor: Executor, sample: Sample) -> Outcome:
    """Try a sample. What an executor raises that is not Ctrl-C is an outcome too: a study must not end by one grasp."""
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        with executor.start(sample.scene) as trial:
            attempt = trial.grasp(sample.command)
    except Exception as error:
        spent = time.perf_counter() - begun, time.process_time() - cpu
        what = f"{type(error).__name__}: {error}"
        return Outcome(
            sample.item.number, executor.name, False, None, None, what, None, None, {}, {}, *spent, error=what
        )
    spent = time.perf_counter() - begun, time.process_time() - cpu
    truth = attempt.truth
    margin = truth.details.get("margin")
    return Outcome(
        sample.item.number,
        executor.name,
        bool(truth.success),
        None if truth.failure is None else str(truth.failure),
        None if truth.terminal is None else str(truth.terminal),
        truth.why,
        None if truth.quality is None else truth.quality.to_dict(),
        float(margin) if isinstance(margin, int | float) and np.isfinite(margin) else None,
        plain(
            {
                "required_n": truth.required_n,
                "applied_n": truth.applied_n,
                "slip_m": truth.slip_m,
                "turn_rad": truth.turn_rad,
                "lifted": truth.lifted,
                "neighbours_m": truth.neighbours_m,
                "details": truth.details,
            }
        ),
        plain(asdict(attempt.observation)),
        *spent,
    )


def plain(value: Any) -> Any:
    """NumPy's kin as plain data, numbers rounded to 1e-6; what is not finite is None: why, the outcome says in words."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return round(value, 6) if np.isfinite(value) else None
    return str(value)
