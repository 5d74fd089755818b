"""From a question to messages.

What many questions share stands first (system text, query picture), what the reply must look like stands last, so that
servers reuse the prefix of their caches. Names, meanings and allowed values are in the text whatever the mode (S08); in
mode "text" the JSON schema is there too.

There are no ``tool`` and no ``assistant`` messages: a crop, the outcome of a call, and the error of the last reply all go
out as user messages. So no call id can stay unanswered (S18), no picture can get lost in a tool's result (S19), and no
broken text is ever fed back (S21).
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sagehand.errors import Refused
from sagehand.vlm.base import ImagePart, Mode, Question
from sagehand.vlm.images import EncodedImage, encode
from sagehand.vlm.profile import Profile
from sagehand.vlm.sheet import SHEET_SIDE, contact_sheet
from sagehand.vlm.tools import describe, wire_schema

__all__ = ["PictureShelf", "Prompt", "Shown", "render"]

_CHARACTERS_A_TOKEN = 4
_FORM = 'Look first and write what you see into "reasoning". Then make exactly one of these calls, with allowed values only:'
_JSON = (
    "Answer with one JSON object in compact form, with no blanks or line breaks between its parts: "
    '"reasoning" (text) first, then "call", an object of "tool" (the name of the call) and its arguments.'
)
_SCHEMA = "The object must fit this JSON schema; write no code fence and no other text:"
_NATIVE = 'Answer by calling the tool; its first argument is "reasoning" (text).'
_AGAIN = "Your last answer could not be used: {error}. Answer the same question again, in the form asked for."


class PictureShelf:
    """Encoded pictures, the latest ones kept, so that a picture shown often is encoded once and always the same.

    Args:
        profile: Of the model.
        long_side: Longest side of an encoded picture [px].
        most_bytes: Of data URLs that are kept.
    """

    def __init__(self, profile: Profile, *, long_side: int = 1024, most_bytes: int = 64 * 2**20) -> None:
        self.profile, self.long_side = profile, long_side
        self._most = most_bytes
        self._held: OrderedDict[tuple[str, int], EncodedImage] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def encoded(self, part: ImagePart, *, long_side: int | None = None) -> EncodedImage:
        """The picture as it is sent; its ``frame`` says how boxes in it map to the original. From any thread.

        Raises:
            PictureTooLarge: It cannot be encoded within the byte budget.
        """
        side = long_side or self.long_side
        key = (part.pixel_id, side)
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        image = encode(part.pixels, self.profile, long_side=side)  # unlocked: twice at worst, with the same result
        with self._lock:
            if key not in self._held:
                self._held[key] = image
                self._bytes += len(image.data_url)
            while self._bytes > self._most and len(self._held) > 1:
                self._bytes -= len(self._held.popitem(last=False)[1].data_url)
        return image


@dataclass(frozen=True)
class Shown:
    """A picture in a prompt.

    Attributes:
        pixel_id: Its identity.
        label: What the text calls it.
        image: As it is sent.
    """

    pixel_id: str
    label: str
    image: EncodedImage


@dataclass(frozen=True, eq=False)
class Prompt:
    """A question, ready to be sent in any mode.

    Attributes:
        question: The question.
        parts: Text and pictures in order.
        notes: What was done to fit the server, as in "left out …".
    """

    question: Question
    parts: tuple[str | Shown, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The wire schema of the reply."""
        return wire_schema(self.question.tools)

    @cached_property
    def form(self) -> str:
        """The calls that may be made, in words."""
        return f"{_FORM}\n{describe(self.question.tools)}"

    @property
    def pictures(self) -> list[Shown]:
        """The pictures, in order."""
        return [part for part in self.parts if isinstance(part, Shown)]

    @cached_property
    def tokens(self) -> int:
        """Estimate of the prompt's tokens, the pictures by the profile's rule [tokens]."""
        texts = [self.question.system, self.form, _JSON, *(p if isinstance(p, str) else p.label for p in self.parts)]
        return sum(len(t) // _CHARACTERS_A_TOKEN + 4 for t in texts) + sum(p.image.tokens for p in self.pictures)

    def messages(self, mode: Mode, told: Sequence[str] = (), *, merged: bool = False) -> list[dict[str, Any]]:
        """The messages of a request.

        Args:
            mode: How the reply is asked for.
            told: Errors of earlier replies; each is a further user message.
            merged: Put everything into one user message, for templates that demand that roles alternate.
        """
        form = [self.form, _NATIVE if mode == "tools" else _JSON]
        if mode == "text":
            form += [_SCHEMA, json.dumps(self.schema, ensure_ascii=False, separators=(",", ":"))]
        again = [_AGAIN.format(error=error) for error in told]
        parts = [*self.parts, "\n".join(form), *(again if merged else [])]
        messages: list[dict[str, Any]] = []
        if self.question.system:
            messages.append({"role": "system", "content": self.question.system})
        messages.append({"role": "user", "content": _content(parts)})
        if not merged:
            messages += [{"role": "user", "content": text} for text in again]
        return messages

    def identity(self) -> list[Any]:
        """Everything of the prompt that an answer may depend on, pictures by identity and encoded size."""
        shown = [p if isinstance(p, str) else [p.pixel_id, p.label, p.image.width, p.image.height] for p in self.parts]
        return [self.question.system, shown, self.form, self.schema]


def _content(parts: Sequence[str | Shown]) -> str | list[Mapping[str, Any]]:
    if all(isinstance(part, str) for part in parts):  # as plain text: some text-only servers take nothing else
        return "\n\n".join(part for part in parts if isinstance(part, str))
    content: list[Mapping[str, Any]] = []
    for part in parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": part})
        else:
            content.append({"type": "text", "text": f"{part.label}:"})
            content.append({"type": "image_url", "image_url": {"url": part.image.data_url}})
    return content


def render(question: Question, shelf: PictureShelf, *, max_images: int, drop_all: bool = False) -> Prompt:
    """Make a prompt of a question.

    Where the server takes fewer pictures than are shown, droppable ones are left out, the last first, with a note in their
    place; what is still too many goes onto one sheet, after the pictures that stay on their own.

    Args:
        question: The question.
        shelf: Encodes the pictures.
        max_images: Pictures that a request may hold.
        drop_all: Leave out every droppable picture, for a server whose context is too short.

    Raises:
        Refused: The model takes no pictures, and the question needs one.
        PictureTooLarge: A picture cannot be encoded within the byte budget.
    """
    parts = [part for part in question.parts if part != ""]
    shown = [i for i, part in enumerate(parts) if isinstance(part, ImagePart)]
    droppable = [i for i in shown if _is_droppable(parts[i])]
    excess = len(droppable) if drop_all else max(0, len(shown) - max_images)
    dropped = set(droppable[-excess:]) if excess else set()
    kept = [i for i in shown if i not in dropped]
    if kept and max_images < 1:
        raise Refused(f"{question.name}: the model takes no pictures", hint="choose a vision-language model")
    on_sheet = kept[max_images - 1 :] if len(kept) > max_images else []
    sheet = contact_sheet([p for i in on_sheet if isinstance(p := parts[i], ImagePart)]) if on_sheet else None
    out: list[str | Shown] = []
    notes: list[str] = []
    for i, part in enumerate(parts):
        if isinstance(part, str):
            out.append(part)
        elif i in dropped:
            out.append(f"{part.label}: left out, too many pictures for this server")
            notes.append(f"left out the picture {part.label!r}")
        elif sheet and i in on_sheet:
            if i == on_sheet[0]:
                out.append(Shown(sheet.pixel_id, sheet.label, shelf.encoded(sheet, long_side=SHEET_SIDE)))
                notes.append(f"put {len(on_sheet)} pictures on one sheet: the server takes {max_images}")
            else:
                out.append(f"{part.label}: see the sheet")
        else:
            out.append(Shown(part.pixel_id, part.label, shelf.encoded(part)))
    return Prompt(question, tuple(out), tuple(notes))


def _is_droppable(part: str | ImagePart) -> bool:
    return isinstance(part, ImagePart) and part.droppable
