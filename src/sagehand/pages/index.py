"""The index of a folder of decision pages: what was answered for which picture, with a link to each page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from sagehand.errors import InputError
from sagehand.pages.page import data_uri, render
from sagehand.pages.words import label, percent, share, when

__all__ = ["IndexEntry", "index_page"]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One picture of the folder.

    Attributes:
        name: What the picture is called.
        href: Its decision page, relative to the index; None when there is none.
        answer: Name of the next action; None when sagehand abstained or failed.
        reason: Why it abstained, or what went wrong.
        confidence: Probability that the answer is right, in [0, 1]; None when not known.
        needs_confirmation: Whether an operator must confirm the action first.
        failed: Whether no decision was made at all (a picture that cannot be read).
        thumbnail: JPEG or PNG bytes, about 320 pixels wide; None when there is none.
    """

    name: str
    href: str | None = None
    answer: str | None = None
    reason: str = ""
    confidence: float | None = None
    needs_confirmation: bool = False
    failed: bool = False
    thumbnail: bytes | None = None


def index_page(entries: Sequence[IndexEntry], *, title: str = "Decisions", version: str = "", created: str = "") -> str:
    """One page that links the decision pages of a folder.

    Args:
        entries: In the order they shall appear.
        title: Heading of the page, usually the folder's name.
        version: Version of sagehand, for the footer.
        created: ISO time, for the footer.

    Raises:
        InputError: A link is not relative.
        NotAPicture: A thumbnail is no JPEG or PNG.
    """
    failed = sum(e.failed for e in entries)
    answered = sum(e.answer is not None and not e.failed for e in entries)
    counts = [
        ("answered", answered, "good"),
        ("ask the operator", len(entries) - answered - failed, "ask"),
        ("failed", failed, "bad"),
    ]
    return render(
        "index.html",
        title=title,
        total=len(entries),
        counts=[c for c in counts if c[1]],
        entries=[_entry(e) for e in entries],
        footer=[("sagehand", version), ("made", when(created))],
    )


def _entry(entry: IndexEntry) -> dict[str, object]:
    kind = "bad" if entry.failed else "ask" if entry.answer is None else "good"
    answer = "Failed" if entry.failed else "Ask the operator" if entry.answer is None else label(entry.answer)
    return {
        "name": entry.name,
        "href": _link(entry.href),
        "answer": answer,
        "kind": kind,
        "reason": entry.reason,
        "confidence": percent(entry.confidence) if share(entry.confidence) is not None else "",
        "share": share(entry.confidence),
        "confirm": entry.needs_confirmation and kind == "good",
        "thumbnail": data_uri(entry.name, entry.thumbnail) if entry.thumbnail is not None else None,
    }


def _link(href: str | None) -> str | None:
    if href is None:
        return None
    if href.startswith(("/", "\\")):
        raise InputError(
            f"link {href!r} of an index page is not relative", hint="give it relative to the index's folder"
        )
    # Quoting takes the colon too, so that no name reads as a scheme ("javascript:").
    return quote(href.encode("utf-8", "surrogateescape"))
