"""Which class answers for which method of a plan, made only when it is asked for (:data:`~sagehand.study.run.plan.METHODS`)."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

from sagehand.errors import InputError, NeedsVlm, UnknownName
from sagehand.recall.params import SearchParams
from sagehand.study.learn.options import ClassifierOptions, FineTuneOptions, read_options
from sagehand.study.methods.base import Bench, Method
from sagehand.study.run.plan import TRAINED, Arm

__all__ = ["ASKS", "RECALLS", "check_arm", "make_method"]

RECALLS = frozenset(
    ("context", "nearest", "perceptual", "single-rag", "bad-single-rag", "guided", "guided-always")
)  # fmt: skip
"""The methods that need a case base."""

ASKS = frozenset(("zero-shot", "single-rag", "bad-single-rag", "guided", "guided-always"))
"""The methods that need a model."""

_UNCERTIFIED = frozenset(("random", "majority", "context", "nearest", "zero-shot", *TRAINED))
"""The methods whose belief nothing calibrates: they can hold no risk, and know no domain."""

_ROOM = "sagehand.study.methods."
_MAKERS = {
    "random": ("simple", "Random"),
    "majority": ("simple", "Majority"),
    "context": ("simple", "Context"),
    "nearest": ("simple", "Nearest"),
    "perceptual": ("perceptual", "Perceptual"),
    "zero-shot": ("vlm", "ZeroShot"),
    "single-rag": ("vlm", "SingleRag"),
    "bad-single-rag": ("vlm", "BadSingleRag"),
    "guided": ("vlm", "Guided"),
    "guided-always": ("vlm", "Guided"),
    "classifier": ("trained", "trained_method"),
    "fine-tuned-vlm": ("trained", "trained_method"),
}


def make_method(bench: Bench) -> Method:
    """The method of a bench's arm, ready to answer.

    Raises:
        UnknownName: There is no method of that name, or the arm has an option that the method does not have.
        InputError: The bench lacks a case base, or the arm asks the method for what it cannot do.
        NeedsVlm: The method asks a model, and the bench has none.
        MissingExtra: A package that it needs is not installed.
    """
    arm = bench.arm
    check_arm(arm)
    if arm.method in ASKS and bench.vlm is None:
        raise NeedsVlm(
            f"arm {arm.name!r}: the method {arm.method!r} asks a vision-language model, and none is set up",
            hint="add --base-url and --model, or leave the arm out",
        )
    room, name = _MAKERS[arm.method]
    made: Method = getattr(import_module(_ROOM + room), name)(bench)
    return made


def check_arm(arm: Arm) -> None:
    """Whether an arm asks its method only for what it can do, before there is a bench: a run asks of all arms at once.

    Raises:
        UnknownName: There is no method of that name, or the arm has an option that the method does not have.
        InputError: The arm asks the method for what it cannot do, or a trained method's option is not valid.
    """
    if arm.method not in _MAKERS:
        raise UnknownName("method", arm.method, _MAKERS)
    if arm.method in _UNCERTIFIED and (arm.risk is not None or arm.domain):
        what = "hold a risk" if arm.risk is not None else "test the domain"
        raise InputError(
            f"arm {arm.name!r}: the method {arm.method!r} has no calibrated belief, so it cannot {what}",
            hint="leave risk and domain out of this arm; the perceptual method has both",
        )
    if not arm.guard and (arm.risk is not None or arm.domain):
        raise InputError(
            f"arm {arm.name!r}: with the guard off an answer that is known to be impossible is counted, and no risk holds for it",
            hint="leave guard: false out of this arm, or risk and domain",
        )
    if arm.method in TRAINED:
        kind = ClassifierOptions if arm.method == "classifier" else FineTuneOptions
        read_options(kind, arm.options, arm.method)
    else:
        _check_options(arm)


def _check_options(arm: Arm) -> None:
    """Every option must be the method's own: one that is not heeded would look like one that is."""
    valid: set[str] = set()
    if arm.method in ("guided", "guided-always"):
        valid = {field.name for field in fields(SearchParams)}
        valid -= {"first_look"} if arm.method == "guided-always" else set()
    elif arm.method == "single-rag":
        valid = {"case"}
    for name in arm.options:
        if name not in valid:
            raise UnknownName(f"option of the method {arm.method!r}", name, valid)
