"""Why a server refused a request, from what it said: servers share no codes for it, only habits of speech."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sagehand.errors import Refused

__all__ = ["Refusal", "why_refused"]

_HOPELESS = frozenset((401, 402, 403, 404, 429))
_PICTURES = re.compile(r"image|picture|multimodal", re.IGNORECASE)
_TOO_MANY = re.compile(r"at most|too many|more than|limit|maximum|only (?:one|\d+)|exceed", re.IGNORECASE)
_LIMIT = re.compile(r"(?:at most|maximum(?: of)?|limit(?: of| is)?|only|up to)\s+(\d+)", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context (?:length|window|size)|too (?:long|large)|maximum.{0,40}(?:tokens|length)", re.IGNORECASE
)


@dataclass(frozen=True)
class Refusal:
    """What is to be changed.

    Attributes:
        kind: "final" (nothing), "pictures" (fewer of them), "length" (a shorter prompt), "roles" (they must alternate), or
            "form" (schema, tools, or a field that the server does not take).
        limit: Pictures that the server says it takes, or None.
    """

    kind: Literal["final", "pictures", "length", "roles", "form"]
    limit: int | None = None


def why_refused(error: Refused) -> Refusal:
    """Read a refusal. One without an HTTP status (a filter, a model that declines) is final."""
    status, said = error.status, error.message
    if status is None or status in _HOPELESS:
        return Refusal("final")
    if status == 413 or _TOO_LONG.search(said):
        return Refusal("length")
    if _PICTURES.search(said) and _TOO_MANY.search(said):
        limit = _LIMIT.search(said)
        return Refusal("pictures", int(limit.group(1)) if limit else None)
    if "alternate" in said:
        return Refusal("roles")
    return Refusal("form")
