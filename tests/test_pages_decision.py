"""The decision page: true to its document, safe against what labels hold, whole in one file."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape
from PIL import Image

from sagehand.errors import InputError, NotAPicture
from sagehand.pages import decision_page

VOID = {"meta", "link", "img", "br", "hr", "input"}
KEYS = [
    "next_action",
    "next_action_description",
    "abstained",
    "reason",
    "confidence",
    "valid_actions",
    "ruled_out",
    "previous_action",
    "remaining_actions",
    "is_last",
    "end_state",
    "device_class",
    "device_classes",
    "needs_confirmation",
    "certified_risk",
    "decision",
    "case",
    "candidates",
    "method",
    "judge",
    "seconds",
    "timings",
    "evidence",
    "warnings",
    "known",
    "query",
    "base",
    "actions",
    "domain",
    "version",
    "created",
]


class Structure(HTMLParser):
    """Fails on an element that is closed in the wrong place; collects what a reader sees and every attribute."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(page)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        last = self.open.pop()
        assert last == tag, f"</{tag}> closes <{last}>"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    @property
    def seen(self) -> str:
        """The text between the tags, every run of blanks as one space."""
        return " ".join(" ".join(self.text).split())


def jpeg(color: str = "gray", size: tuple[int, int] = (40, 30)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, color).save(out, "JPEG")
    return out.getvalue()


def candidate(ident: str, device: str, step: int, action: str, **more: Any) -> dict[str, Any]:
    row = {
        "id": ident, "family": "phone", "device": device, "step": step, "state": "battery out - screws visible",
        "file_name": f"{device}/{step}.jpg", "next_action": action, "previous_action": "remove_battery",
        "place": "table", "similarity": 0.912, "probability": 0.87,
        "evidence": {"picture": 0.912, "previous": "agrees", "place": "agrees", "depth": 0.77},
    }  # fmt: skip
    return row | more


def answered() -> dict[str, Any]:
    """A document as `predict --json` prints it, where sagehand answers."""
    first = candidate("a1b2c3", "samsung_galaxy_s3", 3, "unscrew")
    return {
        "next_action": "unscrew",
        "next_action_description": "Drive out every screw that can be reached.",
        "abstained": False,
        "reason": "",
        "confidence": 0.934,
        "valid_actions": ["remove_keyboard", "unscrew", "pry"],
        "ruled_out": {
            "remove_back_cover": "needs closed, which remove_back_cover made false",
            "remove_battery": "needs battery_in, which remove_battery made false",
        },
        "previous_action": "remove_battery",
        "remaining_actions": ["unscrew", "pry"],
        "is_last": False,
        "end_state": False,
        "device_class": "samsung_galaxy_s3",
        "device_classes": {"samsung_galaxy_s3": 0.87, "lg_nitro_hd": 0.09, "nokia_lumia_620": 0.04},
        "needs_confirmation": True,
        "certified_risk": {
            "asked": 0.05, "bound": 0.0473, "level": 0.95, "certified": True, "smallest": 0.0473, "coverage": 0.82,
            "answered": 74, "threshold": 0.71,
        },
        "decision": 42,
        "case": {
            "id": "a1b2c3", "family": "phone", "device": "samsung_galaxy_s3", "step": 3,
            "state": "battery out - screws visible", "similarity": 0.912, "next_action": "unscrew",
            "previous_action": "remove_battery", "file_name": "samsung_galaxy_s3/3.jpg",
        },
        "candidates": [
            first,
            candidate(
                "d4e5f6", "lg_nitro_hd", 2, "remove_battery", probability=0.09, similarity=0.861, place=None,
                state="back cover off",
                evidence={"picture": 0.861, "previous": "differs", "place": "unknown", "depth": None},
            ),
            candidate(
                "0718aa", "nokia_lumia_620", 3, "pry", probability=0.0004, similarity=0.8,
                evidence={"picture": 0.8, "previous": "unknown", "place": "differs", "depth": 0.31},
            ),
        ],
        "method": "guided",
        "judge": "perceptual",
        "seconds": 0.0742,
        "timings": {"load": 0.011, "crop": 0.0, "embed": 0.0147, "search": 0.0021, "judge": 0.0304, "check": 0.0009},
        "evidence": [
            "The nearest case looks alike: similarity 0.91, where two pictures of one step usually reach 0.88.",
            "Its previous action, remove_battery, is the one that was done here.",
            "Nothing is said about shape or components: this judge cannot tell.",
        ],
        "warnings": ["The picture is small (340 × 544 pixels); cases of this device are 1000 pixels wide."],
        "known": {
            "previous": "remove_battery", "history": ["remove_back_cover", "remove_battery"],
            "facts": {"battery_in": False, "closed": False, "board_in": True}, "family": "phone", "place": "table",
            "object": "tray-7",
        },
        "query": {
            "name": "3-view.jpg", "width": 1000, "height": 750, "box": [180, 90, 860, 660], "pixel_id": "9f" * 16,
            "notes": ["turned by EXIF 6"],
        },
        "base": {
            "name": "/srv/cells/phones.sage", "revision": 61, "cases": 37,
            "embedder": "efficientnet-lite0@1a2b3c4d (1280-d)", "crop": "perceptual",
        },
        "actions": {
            "remove_back_cover": {"description": "Lift off the clipped back cover by its edge.", "confirm": False},
            "remove_battery": {"description": "Take the loose battery out of its bay.", "confirm": False},
            "unscrew": {"description": "Drive out every screw that can be reached.", "confirm": True},
            "pry": {"description": "Part two clipped or glued shells with a pick along the seam.", "confirm": False},
            "remove_keyboard": {"description": "Lift the keyboard off its connector.", "confirm": False},
        },
        "domain": {"p_value": 0.43, "level": 0.05, "similarity": 0.912, "usual": 0.88, "in_domain": True},
        "version": "0.1.0",
        "created": "2026-03-14T09:26:53+00:00",
    }  # fmt: skip


def abstained() -> dict[str, Any]:
    """The same, where sagehand asks the operator."""
    return answered() | {
        "next_action": None,
        "next_action_description": None,
        "abstained": True,
        "reason": "The picture looks like no case in the base: an empty fixture, or a device that was never shown.",
        "confidence": 0.31,
        "remaining_actions": None,
        "needs_confirmation": False,
        "certified_risk": {
            "asked": 0.01, "bound": None, "level": 0.95, "certified": False, "smallest": 0.082, "coverage": None,
            "answered": 0,
        },
        "domain": {"p_value": 0.004, "level": 0.05, "similarity": 0.52, "usual": 0.88, "in_domain": False},
        "warnings": [],
    }  # fmt: skip


def minimal() -> dict[str, Any]:
    """Every key, every value null."""
    return dict.fromkeys(KEYS)


def pictures() -> dict[str, bytes]:
    return {name: jpeg() for name in ("query", "crop", "case", "candidate:a1b2c3", "candidate:d4e5f6")}


def see(doc: dict[str, Any], images: dict[str, bytes] | None = None) -> str:
    return Structure(decision_page(doc, images or {})).seen


def hostile(value: Any, text: str) -> Any:
    """The document with ``text`` before every string in it; keys and numbers stay."""
    if isinstance(value, str):
        return text + value
    if isinstance(value, dict):
        return {key: hostile(part, text) for key, part in value.items()}
    if isinstance(value, list):
        return [hostile(v, text) for v in value]
    return value


@pytest.mark.parametrize("doc", [answered(), abstained(), minimal()], ids=["answered", "abstained", "minimal"])
@pytest.mark.parametrize("images", [{}, pictures()], ids=["bare", "pictures"])
def test_page_is_one_whole_file(doc: dict[str, Any], images: dict[str, bytes]) -> None:
    page = decision_page(doc, images)
    parts = Structure(page)
    assert page.startswith("<!doctype html>")
    assert parts.tags[0] == "html"
    assert not {"script", "iframe", "object", "form", "base"} & set(parts.tags)
    assert not [word for word in ("://", "@import", "url(") if word in page]
    for tag, name, value in parts.attributes:
        assert not name.startswith("on")
        if name in ("src", "href"):
            assert value.startswith(("data:", "#")), (tag, name, value[:40])
    policy = next(value for _, name, value in parts.attributes if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert len(page) < 40_000 + 2 * sum(map(len, images.values())), "the page itself stays small"


def test_links_inside_the_page_lead_somewhere() -> None:
    parts = Structure(decision_page(answered(), pictures()))
    ids = [value for _, name, value in parts.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = {value[1:] for tag, name, value in parts.attributes if tag == "a" and name == "href"}
    assert targets
    assert targets <= set(ids)


def test_answer_page_says_what_the_document_says() -> None:
    seen = see(answered(), pictures())
    for text in (
        "Unscrew",
        "Drive out every screw that can be reached.",
        "An operator must say yes",
        "93 %",
        "At most 5 % wrong",
        "The bound is 4.7 %, from 74 past answers.",
        "answers 82 % of pictures",
        "needs battery_in, which remove_battery made false",
        "Its previous action, remove_battery, is the one that was done here.",
        "not battery_in",
        "turned by EXIF 6",
        "phones.sage, revision 61, 37 cases",
        "2026-03-14 09:26:53 UTC",
        "efficientnet-lite0@1a2b3c4d (1280-d)",
        "< 0.1 %",
        "74 ms",
    ):
        assert text in seen, text
    assert "Ask the operator" not in seen
    assert "The case it leans on" in seen
    assert "/srv" not in seen


def test_abstention_leads_with_the_reason_and_offers_no_answer() -> None:
    page = decision_page(abstained() | {"needs_confirmation": True}, pictures())
    seen = Structure(page).seen
    assert re.search(r"<h1>Ask the operator</h1>", page)
    assert "The picture looks like no case in the base" in seen
    assert "Risk not certified" in seen
    assert "Confidence in its best guess 31 %" in seen
    assert "leans on" not in seen
    assert "The smallest that past answers certify is 8.2 %." in seen
    assert "the answer" not in seen
    assert "An operator must say yes" not in seen, "there is nothing to confirm"
    assert seen.index("Possible now") < seen.index("Why"), "what the operator may choose comes first"


def test_an_abstention_never_shows_a_next_action_as_the_answer() -> None:
    page = decision_page(abstained() | {"next_action": "pry"}, {})
    assert "<h1>Ask the operator</h1>" in page
    assert "the answer" not in Structure(page).seen


def test_minimal_page_claims_nothing() -> None:
    seen = see(minimal())
    assert "Ask the operator" in seen
    assert "Risk not certified" in seen
    assert "Confidence" not in seen
    assert "Not known." in seen
    assert "None" not in seen
    assert "null" not in seen


def test_nothing_remains_is_not_the_same_as_not_known() -> None:
    assert "Nothing remains." in see(minimal() | {"remaining_actions": []})
    assert "Nothing remains." not in see(minimal())


def test_none_as_previous_action_means_nothing_was_done() -> None:
    assert "Done before nothing yet" in see(minimal() | {"known": {"previous": "none"}})
    assert "Done before not known" in see(minimal() | {"known": {"previous": None}})


def test_case_and_answer_are_marked_once() -> None:
    seen = see(answered(), pictures())
    assert seen.count("leaned on") == 1
    assert seen.count("Unscrew the answer needs a yes") == 1


def test_crop_is_outlined_in_pixels_of_the_original() -> None:
    page = decision_page(answered(), pictures())
    assert '<svg viewBox="0 0 1000 750"' in page
    assert '<rect class="outline" x="180" y="90" width="680" height="570">' in page
    assert "<svg" not in decision_page(answered() | {"query": answered()["query"] | {"box": None}}, pictures())


def test_bars_are_as_long_as_their_numbers() -> None:
    doc = answered() | {"device_classes": {"a": 0.25, "b": 7.0, "c": float("nan")}}
    page = decision_page(doc, {})
    assert "width:25.0%" in page
    widths = [float(w) for w in re.findall(r"width:([\d.]+)%\"", page)]
    assert 0 < max(widths) <= 100
    grown = [float(g) for g in re.findall(r"flex-grow:([\d.]+)", page)]
    assert sum(grown) == pytest.approx(1.0, abs=1e-3)
    assert "nan" not in page.casefold().replace("nano", "")


def test_time_that_no_part_accounts_for_is_shown() -> None:
    doc = minimal() | {"seconds": 2.0, "timings": {"embed": 0.5, "total": 2.0}}
    assert "Embed 500 ms Other 1.50 s" in see(doc)


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "\"><img src=x onerror='y'>", "{{ 7 * 7 }}", "</style>", "<!--"]
)
def test_html_in_any_string_is_shown_and_not_run(text: str) -> None:
    plain = Structure(decision_page(answered(), pictures()))
    doc = hostile(answered(), text)
    doc["ruled_out"] = {text: text}
    doc["device_classes"] = {text: 1.0}
    doc["timings"] = {text: 0.1}
    doc["actions"] = {text: {"description": text, "confirm": True}}
    doc["valid_actions"] = [text]
    doc["known"]["facts"] = [text]
    page = decision_page(doc, pictures())
    parts = Structure(page)
    assert set(parts.tags) <= set(plain.tags)
    assert {name for _, name, _ in parts.attributes} <= {name for _, name, _ in plain.attributes}
    assert str(escape(text + answered()["evidence"][0])) in page
    assert "49" not in see(minimal() | {"reason": text})


@settings(deadline=None, max_examples=25)
@given(st.text(max_size=40))
def test_any_text_leaves_the_page_whole(text: str) -> None:
    page = decision_page(hostile(answered(), text), pictures())
    Structure(page)
    page.encode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", page)


def test_a_file_name_that_is_no_utf8_can_be_written() -> None:
    page = decision_page(answered() | {"query": {"name": b"caf\xe9.jpg".decode("utf-8", "surrogateescape")}}, {})
    assert "caf\\udce9.jpg" in page.encode("utf-8").decode("utf-8")


def test_page_is_the_same_each_time_and_takes_json_as_it_comes_back() -> None:
    doc = answered()
    assert decision_page(doc, pictures()) == decision_page(json.loads(json.dumps(doc)), pictures())
    assert doc == answered(), "the document is not changed"


def test_what_is_no_decision_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="lacks abstained") as caught:
        decision_page({"next_action": "pry"}, {})
    assert "predict --json" in caught.value.hint


def test_a_picture_of_another_kind_is_refused_by_name() -> None:
    with pytest.raises(NotAPicture, match="page picture 'crop': 5 bytes"):
        decision_page(minimal(), {"crop": b"hello"})
