"""Numbers and names in the words an operator reads. A value that is missing or not finite is a dash, never a guess."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = [
    "DASH",
    "Risk",
    "base_name",
    "domain_words",
    "duration",
    "finite",
    "label",
    "number",
    "percent",
    "risk_words",
    "sentence",
    "share",
    "when",
]

DASH = "–"
_CAPITALS = {"cnc", "led", "pcb", "sim", "usb"}
_THIN = "\u202f"  # narrow no-break space, between a number and its unit


@dataclass(frozen=True, slots=True)
class Risk:
    """What is promised about wrong answers.

    Attributes:
        certified: Whether the risk that was asked for is certified.
        headline: The promise in a few words.
        detail: What it rests on, in a sentence or two.
    """

    certified: bool
    headline: str
    detail: str


def label(name: str) -> str:
    """A name from a file as people write it: ``place_in_cnc`` → ``Place in CNC``."""
    words = [word.upper() if word in _CAPITALS else word for word in name.replace("_", " ").split()]
    text = " ".join(words) or name
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Text with a capital letter in front; the rest stays as it is."""
    return text[:1].upper() + text[1:]


def base_name(path: str) -> str:
    """The last part of a path, whichever way its slashes lean: a page shows no folder of the machine it was made on."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def finite(value: object) -> float | None:
    """``value`` as a float; None when it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def share(value: object) -> float | None:
    """``value`` held to [0, 1], for the length of a bar; None when it is no finite number."""
    plain = finite(value)
    return None if plain is None else min(1.0, max(0.0, plain))


def percent(value: object) -> str:
    """0.934 → ``93 %``. Neither a doubt nor a chance is rounded away: 0.996 is ``99.6 %``, 0.0004 ``< 0.1 %``."""
    part = share(value)
    if part is None:
        return DASH
    if 0 < part < 0.001:
        return f"<{_THIN}0.1{_THIN}%"
    if 0.999 < part < 1:
        return f">{_THIN}99.9{_THIN}%"
    digits = 1 if 0 < part < 0.1 or 0.99 < part < 1 else 0
    text = f"{100 * part:.{digits}f}"
    return f"{text.removesuffix('.0')}{_THIN}%"


def number(value: object, digits: int = 2) -> str:
    """A plain number with ``digits`` decimals."""
    plain = finite(value)
    return DASH if plain is None else f"{plain:.{digits}f}"


def duration(seconds: object) -> str:
    """Seconds [s] in the unit that suits them: ``12 ms``, ``1.40 s``, ``2 min 37 s``."""
    plain = finite(seconds)
    if plain is None:
        return DASH
    if plain < 0.001:
        return f"<{_THIN}1{_THIN}ms"
    if plain < 0.9995:
        return f"{1000 * plain:.0f}{_THIN}ms"
    if plain < 99.95:
        return f"{plain:.{2 if plain < 9.995 else 1}f}{_THIN}s"
    minutes, rest = divmod(round(plain), 60)
    return f"{minutes}{_THIN}min {rest}{_THIN}s"


def when(created: str | None) -> str:
    """An ISO time as ``2026-03-14 09:26:53 UTC``; text that is no ISO time stays as it is."""
    if not created:
        return ""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    zone = moment.tzname() or ""
    return f"{moment:%Y-%m-%d %H:%M:%S} {zone}".strip()


def risk_words(risk: Mapping[str, Any] | None) -> Risk:
    """What the certified risk of a decision means (SPEC C3: risk = P(wrong | answered), one-sided bound)."""
    if not risk or risk.get("asked") is None:
        detail = "No highest error rate was set, so nothing is promised about how often its answers are wrong."
        return Risk(False, "Risk not certified", detail)
    asked = percent(risk["asked"])
    if not risk.get("certified"):
        smallest = risk.get("smallest")
        reach = (
            "Past answers cannot certify any rate yet."
            if share(smallest) in (None, 1.0)
            else f"The smallest that past answers certify is {percent(smallest)}."
        )
        return Risk(False, "Risk not certified", f"At most {asked} wrong answers were asked for. {reach}")
    level = f", at a level of {percent(risk['level'])}" if risk.get("level") is not None else ""
    bound = ""
    if risk.get("bound") is not None:
        count = risk.get("answered")
        bound = f" The bound is {percent(risk['bound'])}" + (
            f", from {count} past answers." if count is not None else "."
        )
    cover = risk.get("coverage")
    asks = f" It answers {percent(cover)} of pictures and asks about the rest." if cover is not None else ""
    return Risk(
        True, f"At most {asked} wrong", f"Of the answers it gives, at most {asked} are wrong{level}.{bound}{asks}"
    )


def domain_words(domain: Mapping[str, Any] | None) -> str:
    """How far the picture is from everything in the case base; "" when this was not looked at."""
    if not domain:
        return ""
    looks = {
        True: "It looks like the pictures in the case base",
        False: "It looks like no case known",
        None: "Too few cases to tell whether it belongs here",
    }[domain.get("in_domain")]
    parts = []
    if domain.get("similarity") is not None:
        usual = f", which has another at {number(domain['usual'])}" if domain.get("usual") is not None else ""
        parts.append(f"nearest case {number(domain['similarity'])}{usual}")
    if domain.get("p_value") is not None:
        level = f", limit {domain['level']:.2g}" if domain.get("level") is not None else ""
        parts.append(f"p = {domain['p_value']:.2g}{level}")
    return f"{looks} ({'; '.join(parts)})." if parts else f"{looks}."
