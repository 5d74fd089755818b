"""The crop page: true to its document, safe against what a model says, whole in one file."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from PIL import Image

from sagehand.errors import InputError, NotAPicture
from sagehand.pages import crop_page


def jpeg(color: str = "gray") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), color).save(out, "JPEG")
    return out.getvalue()


def step(turn: int, **more: Any) -> dict[str, Any]:
    row = {
        "turn": turn, "shown": [0, 0, 400, 300], "rows": 4, "columns": 5, "view_size": [400, 300], "tool": "Crop",
        "arguments": {"top_left": 7, "bottom_right": 14}, "reason": "the phone lies there", "by": "vlm:m",
        "outcome": "done", "note": "Crop from cell 7 to cell 14: done", "box": [80, 75, 320, 225], "seconds": 1.25,
    }  # fmt: skip
    return row | more


def document(**more: Any) -> dict[str, Any]:
    doc = {
        "name": "folder/phone.jpg", "width": 400, "height": 300, "box": [80, 75, 320, 225],
        "fractions": [0.2, 0.25, 0.6, 0.5], "removal": 0.7, "turns": 2, "finished": True, "reason": "all of it",
        "error": None, "strategy": "grid", "judge": "vlm:m", "instruction": "the phone", "most": 5, "long_side": 1024,
        "steps": [step(1), step(2, tool="Finish", arguments={}, outcome="finished", reason="", note="Finish")],
        "version": "0.1.0", "created": "2026-03-14T09:26:53+00:00",
    }  # fmt: skip
    return doc | more


IMAGES = {"full": jpeg(), "crop": jpeg("red"), "turn:1": jpeg("blue"), "turn:2": jpeg("green")}


def seen(page: str) -> str:
    """The text of the page, every run of blanks as one space."""
    body = re.sub(r"<style>.*?</style>", " ", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def test_the_page_shows_the_crop_and_every_turn() -> None:
    page = crop_page(document(), IMAGES)
    text = seen(page)
    for said in (
        "Crop of phone.jpg", "70\u202f% cut away", "numbered grid", "2 turns", "All of it", "240 × 150 pixels",
        "x 80, y 75", "0.200, 0.250, 0.600, 0.500", "Asked for: “the phone”", "vlm:m", "2 of at most 5", "2.50\u202fs",
        "Turn 1 done", "Crop (top_left=7, bottom_right=14)", "The phone lies there", "Crop from cell 7 to cell 14",
        "in 4 rows and 5 columns", "Turn 2 finished", "0.1.0",
    ):  # fmt: skip
        assert " ".join(said.split()) in text, said
    assert page.count("data:image/jpeg;base64,") == 4
    assert '<rect class="outline" x="80" y="75" width="240" height="150">' in page
    assert "folder/" not in page


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    page = crop_page(document(), IMAGES)
    assert "://" not in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert page.count("<ol") == page.count("</ol>") == 1
    assert page.count("<div") == page.count("</div>")
    assert page.count("<p") == page.count("</p") + page.count("<path") - page.count("</path")


def test_every_target_of_a_link_is_there() -> None:
    page = crop_page(document(), IMAGES)
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))
    assert {"turn-1", "see-turn-1", "pictures"} <= targets


@pytest.mark.parametrize(
    ("outcome", "kind", "said"),
    [("repaired", "ask", "repaired"), ("refused", "bad", "refused"), ("failed", "bad", "no answer")],
)
def test_a_turn_that_went_wrong_says_so(outcome: str, kind: str, said: str) -> None:
    page = crop_page(document(steps=[step(1, outcome=outcome, tool=None, arguments={}, note="because of this")]), {})
    assert f'<li class="card turn {kind}" id="turn-1">' in page
    assert f"Turn 1 {said}" in seen(page)
    assert "Because of this" in page


def test_how_it_ended_is_told() -> None:
    assert "not finished" not in seen(crop_page(document(), {}))
    assert "not finished" in seen(crop_page(document(finished=False), {}))
    failed = seen(crop_page(document(finished=False, error={"kind": "Unreachable", "message": "gone"}), {}))
    assert "the judge failed" in failed
    assert "not finished" not in failed


def test_a_strategy_without_turns_has_none() -> None:
    page = crop_page(document(strategy="truth", judge="", instruction="", most=0, long_side=0, steps=[]), IMAGES)
    assert "Turn" not in seen(page)
    assert "Asked for" not in page
    assert "given by hand" in page


def test_what_a_model_says_is_shown_and_never_run() -> None:
    evil = '<script>alert("x")</script>'
    page = crop_page(
        document(
            name=evil, reason=evil, instruction=evil, judge=evil,
            steps=[step(1, tool=evil, arguments={evil: evil}, reason=evil, note=evil, outcome=evil)],
        ),
        IMAGES,
    )  # fmt: skip
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 8


def test_only_the_box_and_the_size_are_needed() -> None:
    text = seen(crop_page({"box": [0, 0, 4, 3], "width": 4, "height": 3}, {}))
    assert "Crop of picture" in text
    assert "4 × 3 pixels" in text
    with pytest.raises(InputError, match="lacks box and width"):
        crop_page({"height": 3}, {})
    with pytest.raises(NotAPicture, match="turn:1"):
        crop_page(document(), {"turn:1": b"no picture"})
