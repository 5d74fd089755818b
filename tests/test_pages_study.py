"""The study page: true to its document, safe against what a file says, whole in one file."""

from __future__ import annotations

import html
import io
import re
from typing import Any

import pytest
from PIL import Image

from sagehand.errors import InputError, NotAPicture
from sagehand.pages import study_page


def jpeg() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), "gray").save(out, "JPEG")
    return out.getvalue()


SVG = b"<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


def part(**more: Any) -> dict[str, Any]:
    return {
        "name": "table-1", "number": "Table 1", "title": "Crops", "missing": "", "stand_in": "",
        "beside": [("coverage", "95.4 %", "91.7 %", "§4.1")], "chart": "table-1",
        "table": {
            "header": [("arm", "name"), ("next_action", "number")],
            "rows": [[("a", "", "name"), ("81.2 %", "78.0–84.1", "number")]],
        },
        "notes": ["Each once."],
        "gallery": {
            "rule": "Nobody picked.",
            "shown": [{"query": "q", "case": None, "name": "1.jpg", "kind": "total", "rows": [("step", "1", "2")]}],
        },
    } | more  # fmt: skip


def document(**more: Any) -> dict[str, Any]:
    groups = [{"title": "The paper's tables", "parts": [part(**more)]}]
    return {"title": "A study", "summary": [("arms", "3")], "warnings": ["Few."], "groups": groups, "version": "0.1.0"}


IMAGES = {"table-1": SVG, "q": jpeg()}


def seen(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", " ", page, flags=re.DOTALL)
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", body).split()))


def test_the_page_shows_what_the_document_says() -> None:
    text = seen(study_page(document(), IMAGES))
    for said in (
        "A study", "arms: 3", "Few.", "The paper's tables", "Table 1", "Crops", "95.4 %", "91.7 %", "§4.1", "81.2 %",
        "78.0–84.1", "Each once.", "Nobody picked.", "total", "no case", "1.jpg",
    ):  # fmt: skip
        assert said in text, said


def test_a_chart_is_an_image_in_which_nothing_runs() -> None:
    page = study_page(document(), IMAGES)
    assert "<script" not in page
    assert "data:image/svg+xml;base64," in page


def test_what_is_missing_is_said_in_the_contents_too() -> None:
    page = study_page(document(missing="Not in this run.", table=None, chart=None, gallery=None), {})
    assert seen(page).count("nothing to show") == 1
    assert "Not in this run." in page


def test_names_are_escaped_and_may_break_after_an_underscore() -> None:
    table = {"header": [("<i>", "name")], "rows": [[("cut_<b>_off", "", "name")]]}
    page = study_page(document(table=table), IMAGES)
    assert "<b>" not in page
    assert "cut_<wbr>&lt;b&gt;_<wbr>off" in page
    assert "&lt;i&gt;" in page


def test_a_document_that_is_none_and_a_chart_that_is_none_are_named(snapshot: Any) -> None:
    with pytest.raises(InputError) as raised:
        study_page({"title": "x"}, {})
    assert str(raised.value) == snapshot
    with pytest.raises(NotAPicture) as refused:
        study_page(document(), {"table-1": b"nothing <svg here"})
    assert str(refused.value) == snapshot


def test_what_is_typed_stands_out_and_names_stay_text() -> None:
    page = study_page(document(missing="set `crop: <b>` or `x", table=None, chart=None, gallery=None), {})
    assert "set <code>crop: &lt;b&gt;</code> or `x" in page
