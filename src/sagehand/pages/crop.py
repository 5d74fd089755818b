"""The crop page: what was kept of a picture, and every turn that led to it (SPEC A3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagehand.errors import InputError
from sagehand.pages.page import data_uri, render
from sagehand.pages.words import base_name, duration, number, percent, when

__all__ = ["crop_page"]

_STRATEGIES = {
    "none": "nothing cut away",
    "perceptual": "what stands out",
    "relief": "what stands up",
    "truth": "given by hand",
    "grid": "numbered grid",
    "box": "bounding box",
}
_OUTCOMES = {
    "done": ("done", "good"),
    "finished": ("finished", "good"),
    "repaired": ("repaired", "ask"),
    "refused": ("refused", "bad"),
    "failed": ("no answer", "bad"),
}


def crop_page(doc: Mapping[str, Any], images: Mapping[str, bytes]) -> str:
    """One self-contained HTML page for one crop.

    Args:
        doc: What ``sagehand crop --json`` prints.
        images: JPEG or PNG bytes by name: ``full`` (the whole picture), ``crop`` and ``turn:<number>`` for the view of
            each turn. Any may be missing; the caller scales them down.

    Returns:
        The page. It holds its pictures and styles, runs no script, and fetches nothing.

    Raises:
        InputError: ``doc`` is no crop.
        NotAPicture: One of the images is no JPEG or PNG.
    """
    missing = [key for key in ("box", "width", "height") if key not in doc]
    if missing:
        raise InputError(
            f"no crop document: it lacks {' and '.join(missing)}", hint="hand in what `crop --json` prints"
        )
    uris = {name: data_uri(name, data) for name, data in images.items()}
    left, top, right, bottom = (int(edge) for edge in doc["box"])
    name = base_name(doc.get("name") or "picture")
    return render(
        "crop.html",
        title=f"Crop of {name}",
        tags=_tags(doc),
        reason=_sentence(doc.get("reason")),
        instruction=str(doc.get("instruction") or ""),
        name=name,
        full=uris.get("full"),
        crop=uris.get("crop"),
        size={"width": int(doc["width"]), "height": int(doc["height"])},
        outline={"left": left, "top": top, "width": right - left, "height": bottom - top},
        rows=_rows(doc),
        turns=[_turn(step, uris) for step in doc.get("steps") or ()],
        footer=[("sagehand", str(doc.get("version") or "")), ("made", when(doc.get("created")))],
    )


def _tags(doc: Mapping[str, Any]) -> list[tuple[str, str]]:
    tags = [(f"{percent(doc.get('removal'))} cut away", "good")]
    if doc.get("strategy"):
        tags.append((_STRATEGIES.get(doc["strategy"], str(doc["strategy"])), ""))
    turns = len(doc.get("steps") or ())
    if turns:
        tags.append((f"{turns} turn{'' if turns == 1 else 's'}", ""))
    if doc.get("error"):
        tags.append(("the judge failed", "bad"))
    elif not doc.get("finished", True):
        tags.append(("not finished", "ask"))
    return tags


def _rows(doc: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The numbers of the crop, as rows of name and value."""
    left, top, right, bottom = doc["box"]
    steps = doc.get("steps") or ()
    fractions = ", ".join(number(value, 3) for value in doc.get("fractions") or ())
    turns = f"{len(steps)} of at most {doc['most']}" if doc.get("most") else ""
    rows = [
        ("Kept", f"{right - left} × {bottom - top} pixels"),
        ("Top left corner", f"x {left}, y {top}"),
        ("Whole picture", f"{doc['width']} × {doc['height']} pixels"),
        ("x, y, width, height", fractions),
        ("Cut away", percent(doc.get("removal"))),
        ("Strategy", str(doc.get("strategy") or "")),
        ("Judge", str(doc.get("judge") or "")),
        ("Turns", turns),
        ("Waited for the judge", duration(sum(step.get("seconds") or 0.0 for step in steps)) if steps else ""),
        ("Views", f"at most {doc['long_side']} pixels long" if doc.get("long_side") else ""),
    ]
    return [row for row in rows if row[1]]


def _turn(step: Mapping[str, Any], uris: Mapping[str, str]) -> dict[str, Any]:
    outcome, kind = _OUTCOMES.get(step.get("outcome") or "", (str(step.get("outcome") or ""), ""))
    left, top, right, bottom = step["shown"]
    grid = f", in {step['rows']} rows and {step['columns']} columns" if step.get("rows") else ""
    return {
        "number": step["turn"],
        "view": uris.get(f"turn:{step['turn']}"),
        "tool": step.get("tool") or "",
        "arguments": [(name, _argument(value)) for name, value in (step.get("arguments") or {}).items()],
        "reason": _sentence(step.get("reason")),
        "note": _sentence(step.get("note")),
        "outcome": outcome,
        "kind": kind,
        "shown": f"It saw {right - left} × {bottom - top} pixels at x {left}, y {top}{grid}.",
        "seconds": duration(step.get("seconds")),
    }


def _sentence(text: object) -> str:
    """As it reads on its own: with a capital letter and without space around it."""
    plain = str(text or "").strip()
    return plain[:1].upper() + plain[1:]


def _argument(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
