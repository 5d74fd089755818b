"""The tree of errors. Catch :class:`SagehandError` for all of it.

* :class:`InputError` — the user can mend it: a file, a label, a name, a setting. The command line prints it in one line
  and exits with 2.
* :class:`StoreError` — the case base cannot be used as asked; nothing was written.
* :class:`MissingExtra` — an optional package is not installed; the hint is the install line.
* :class:`JudgeError` — a judge could not answer in time or in form.

Every error says what was wrong, and in ``hint`` what to do; ``retryable`` says whether the same call may work later.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "BadVector",
    "CaseConflict",
    "CropMismatch",
    "DeadlineExceeded",
    "DepthError",
    "EmbedderMismatch",
    "InputError",
    "JudgeError",
    "LabelError",
    "LibraryError",
    "Malformed",
    "MissingExtra",
    "NeedsVlm",
    "NewerCaseBase",
    "NoSuchCase",
    "NotACaseBase",
    "NotAPicture",
    "NotEnforced",
    "OutOfBudget",
    "PictureError",
    "PictureTooLarge",
    "RateLimited",
    "ReadOnlyCaseBase",
    "Refused",
    "SagehandError",
    "ServerFault",
    "SettingsError",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "Truncated",
    "TruncatedPicture",
    "UnknownName",
    "Unreachable",
    "UnsupportedPicture",
    "VlmError",
    "near_misses",
]


class SagehandError(Exception):
    """Root of every error that sagehand raises on purpose.

    Attributes:
        message: What is wrong; names the bad value and, where there are any, the valid ones.
        hint: What the user can do about it, or "".
        retryable: Whether the same call may succeed later without a change.
    """

    retryable: bool = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(SagehandError):
    """What was handed in cannot be used; the user can mend it."""


class SettingsError(InputError):
    """A setting, from file, environment or flag, is not valid."""


class UnknownName(InputError):
    """A name that must come from a list is not on it.

    Attributes:
        kind: What the name stands for, as in "previous action".
        name: The bad name.
        known: The valid names.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], *, hint: str = "") -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        close = near_misses(name, self.known)
        if close:
            hint = f"did you mean {' or '.join(repr(c) for c in close)}?" + (f" {hint}" if hint else "")
        listed = ", ".join(self.known[:30]) + (f", … ({len(self.known)} in all)" if len(self.known) > 30 else "")
        super().__init__(f"unknown {kind} {name!r}; known: {listed or 'none'}", hint=hint)


class LabelError(InputError):
    """A row of labels cannot be used."""


class LibraryError(InputError):
    """An action library (YAML) is not valid; the message names file and line."""


class PictureError(InputError):
    """A picture cannot be used. The message starts with the picture's name."""


class NotAPicture(PictureError):
    """The bytes are no picture of a known kind, or hold no pixels."""


class TruncatedPicture(PictureError):
    """The picture's data ends too early or is damaged."""


class PictureTooLarge(PictureError):
    """More pixels or bytes than the caps allow; nothing was decoded."""


class UnsupportedPicture(PictureError):
    """A known kind that this installation cannot decode (HEIC without its decoder)."""


class DepthError(PictureError):
    """A depth image does not fit its picture, or its unit is missing or implausible."""


class StoreError(SagehandError):
    """A case base cannot be used as asked; nothing was written."""


class NotACaseBase(StoreError):
    """The file is no sagehand case base."""


class NewerCaseBase(StoreError):
    """The file was written by a newer sagehand."""


class ReadOnlyCaseBase(StoreError):
    """The case base, or the folder it lies in, cannot be written."""


class StoreFull(StoreError):
    """The disk is full; the write was rolled back."""

    retryable = True


class StoreBusy(StoreError):
    """Another process held the write lock for too long."""

    retryable = True


class EmbedderMismatch(StoreError):
    """The case base was built with another embedder."""


class CropMismatch(StoreError):
    """The case base was built with another crop strategy."""


class BadVector(StoreError):
    """A vector is not finite, has no length, or has the wrong dimension."""


class CaseConflict(StoreError):
    """The same pixels are in the case base already; the message names both cases."""


class NoSuchCase(StoreError):
    """No case, step, device or decision of that name."""


class MissingExtra(SagehandError):
    """An optional package is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package", hint=f"pip install 'sagehand[{extra}]'")


class JudgeError(SagehandError):
    """A judge could not answer."""


class NeedsVlm(JudgeError):
    """The question can only be answered by a vision-language model."""


class VlmError(JudgeError):
    """A vision-language model gave no valid answer; the subclasses say why. ``attempts`` counts the requests made."""

    attempts: int = 0


class Unreachable(VlmError):
    """No connection, or it broke; the server may come back."""

    retryable = True


class RateLimited(VlmError):
    """The server asked to wait (429, or 503 while it loads).

    Attributes:
        retry_after: Seconds that it asked for, or None.
    """

    retryable = True

    def __init__(self, message: str, *, retry_after: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class ServerFault(VlmError):
    """The server failed (5xx), or its body is no answer."""

    retryable = True


class Refused(VlmError):
    """The server refuses this request (4xx): another one must be made, or the set-up mended.

    Attributes:
        status: The HTTP status, or None where the refusal is none of a server's (a filter, a model that declines).
    """

    def __init__(self, message: str, *, status: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class NotEnforced(VlmError):
    """The server took the constraint and answered outside it."""


class Malformed(VlmError):
    """The reply is no valid call, and its meaning is not certain enough to repair it."""


class Truncated(VlmError):
    """The reply was cut off at the token limit."""


class OutOfBudget(VlmError):
    """No call or token is left in the budget."""


class DeadlineExceeded(VlmError):
    """The time of the call or the decision is up."""


def near_misses(name: str, known: Iterable[str]) -> list[str]:
    """Up to three names on the list that look like ``name``, best first."""
    by_folded = {k.casefold().replace("-", "_").replace(" ", "_"): k for k in known}
    folded = name.casefold().replace("-", "_").replace(" ", "_")
    return [by_folded[c] for c in difflib.get_close_matches(folded, by_folded, n=3, cutoff=0.6)]
