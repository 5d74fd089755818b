"""What stands in a model's text: thoughts, fences, JSON objects, and text that runs in circles. Nothing is guessed here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["CONFLICT", "Found", "find_objects", "load_object", "looped", "without_thought"]

_TAG = re.compile(r"<\s*(/?)\s*think(?:ing)?\s*>", re.IGNORECASE)
_START = re.compile(r'\{\s*["}]')
_FENCE = re.compile(r"^```[\w-]*\s*|\s*```$")
_MOST_STARTS = 50  # of objects that turn out to be none; more is no answer
_MOST_CHARACTERS = 100_000
_BLANKS = 200
_REPEATS = 8
_TAIL = 1600


class _Conflict:
    """Stands where one key was given twice with different values."""

    def __repr__(self) -> str:
        return "two different values"


CONFLICT = _Conflict()
"""The value of a key that was given twice with different values."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        out[key] = CONFLICT if key in out and out[key] != value else value
    return out


# control characters inside text are taken: what was meant is certain. NaN and Infinity become floats, and are refused
# where a number is checked, so that the error names the field
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_pairs)


@dataclass(frozen=True)
class Found:
    """JSON objects in a text.

    Attributes:
        objects: The outermost ones, in order.
        open_end: Whether a further object starts and never ends: the text was cut, whatever the server says.
        around: What stands outside the objects, code fences and blanks taken away.
        fenced: Whether there was a code fence.
    """

    objects: tuple[dict[str, Any], ...]
    open_end: bool
    around: str
    fenced: bool


def load_object(text: str) -> dict[str, Any] | None:
    """The object that the whole text is, or None."""
    stripped = text.strip()
    if not stripped.startswith("{"):
        return None
    try:
        value, end = _DECODER.raw_decode(stripped)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and end == len(stripped) else None


def find_objects(text: str) -> Found:
    """Every outermost JSON object in a text, wherever it stands: in a fence, in tags, in prose."""
    text = text[:_MOST_CHARACTERS]
    objects: list[dict[str, Any]] = []
    around: list[str] = []
    position, kept, failures, open_end = 0, 0, 0, False
    while (match := _START.search(text, position)) and failures < _MOST_STARTS:
        try:
            value, end = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            failures += 1
            if not _closes(text, match.start()):
                open_end = True
                break
            position = match.start() + 1
            continue
        objects.append(value)
        around.append(text[kept : match.start()])
        position = kept = end
    around.append(text[kept:])
    bare = [_FENCE.sub("", piece.strip()).strip() for piece in around]
    return Found(tuple(objects), open_end, "\n".join(filter(None, bare)), any("```" in piece for piece in around))


def _closes(text: str, start: int) -> bool:
    """Whether the brace at ``start`` is closed again, as braces inside text do not count."""
    depth = 0
    for match in re.compile(r'"(?:[^"\\]|\\.)*"?|[{}]', re.DOTALL).finditer(text, start):
        piece = match.group()
        depth += (piece == "{") - (piece == "}")
        if depth == 0:
            return True
    return False


def without_thought(text: str) -> tuple[str, str | None, bool]:
    """Split what a thinking model wrote into its answer and its thought (S04).

    Everything up to the last closing tag is thought, with or without an opening one: that one may be part of the prompt's
    template. After an opening tag that is never closed nothing is an answer.

    Returns:
        The answer, the thought (None without tags), and whether the thought was never closed.
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return text, None, False
    closing = [tag for tag in tags if tag.group(1)]
    start = closing[-1].end() if closing else 0
    thought = _TAG.sub("", text[:start]).strip()
    opened = next((tag for tag in tags if not tag.group(1) and tag.start() >= start), None)
    if opened:
        return text[start : opened.start()].strip(), text[opened.end() :].strip(), True
    return text[start:].strip(), thought, False


def looped(text: str) -> str | None:
    """Whether a text ran in circles, and how: "blanks" (S22), "repetition" (S23), or None."""
    blanks = len(text) - len(text.rstrip())
    if blanks >= _BLANKS:
        return "blanks"
    tail = text[-_TAIL:]
    if len(tail) >= 80 and re.search(rf"(.{{1,150}}?)\1{{{_REPEATS - 1},}}.{{0,150}}$", tail, re.DOTALL):
        return "repetition"
    return None
