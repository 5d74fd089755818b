"""The index of a folder of decisions, and what all pages share."""

from __future__ import annotations

import io
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError
from PIL import Image

import sagehand.pages
from sagehand.errors import InputError, NotAPicture
from sagehand.pages import IndexEntry, data_uri, index_page, render


def jpeg() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (32, 24), "gray").save(out, "JPEG")
    return out.getvalue()


def hrefs(page: str) -> list[str]:
    return [unescape(found) for found in re.findall(r'<a href="([^"]*)"', page)]


def test_index_counts_and_links_what_there_is() -> None:
    page = index_page(
        [
            IndexEntry(
                "a.jpg", "a.html", "remove_battery", confidence=0.934, needs_confirmation=True, thumbnail=jpeg()
            ),
            IndexEntry("b.jpg", "b.html", reason="no case looks like it", confidence=0.2),
            IndexEntry("c.jpg", reason="the data ends after 10 bytes", failed=True),
        ],
        title="Tray 7",
        version="0.1.0",
        created="2026-03-14T09:26:53+00:00",
    )
    assert hrefs(page) == ["a.html", "b.html"]
    for text in ("Tray 7", "3 pictures", "1 answered", "1 ask the operator", "1 failed", "Remove battery", "93\u202f%"):
        assert text in page, text
    assert page.count("needs a yes") == 1
    assert page.count("data:image/jpeg;base64,") == 1
    assert "no case looks like it" in page
    assert "the data ends after 10 bytes" in page
    assert "://" not in page


def test_index_of_nothing_says_so() -> None:
    page = index_page([])
    assert "0 pictures" in page
    assert "No pictures." in page


@settings(deadline=None, max_examples=50)
@given(st.text(min_size=1, max_size=30).filter(lambda name: name[0] not in "/\\"))
def test_links_lead_back_to_the_file_and_never_to_a_scheme(name: str) -> None:
    page = index_page([IndexEntry(name, name)])
    (href,) = hrefs(page)
    assert re.fullmatch(r"[A-Za-z0-9_.~/%-]+", href)
    assert unquote(href) == name
    assert "<script" not in page


@pytest.mark.parametrize("name", ["javascript:alert(1)", "data:text/html,x", 'a b&c"<script>.html', "caf\udce9.html"])
def test_links_of_odd_names_stay_relative(name: str) -> None:
    (href,) = hrefs(index_page([IndexEntry(name, name)]))
    assert ":" not in href
    assert unquote(href, errors="surrogateescape") == name


@pytest.mark.parametrize("href", ["/etc/passwd", "//host/x.html", "\\\\host\\x"])
def test_a_link_that_is_not_relative_is_refused(href: str) -> None:
    with pytest.raises(InputError, match="not relative"):
        index_page([IndexEntry("a", href)])


@pytest.mark.parametrize(
    ("kind", "start"),
    [("jpeg", b"\xff\xd8\xff\xe0"), ("png", b"\x89PNG\r\n\x1a\n"), ("gif", b"GIF89a"), ("webp", b"RIFF\0\0\0\0WEBP")],
)
def test_the_kind_of_a_picture_is_read_from_its_bytes(kind: str, start: bytes) -> None:
    assert data_uri("x", start + b"...").startswith(f"data:image/{kind};base64,")


@pytest.mark.parametrize("data", [b"", b"<svg onload=alert(1)>", b"BM123", b"RIFF\0\0\0\0AVI "])
def test_what_no_browser_shows_is_refused(data: bytes) -> None:
    with pytest.raises(NotAPicture, match="neither JPEG, PNG, GIF nor WebP"):
        data_uri("x", data)


def test_a_value_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("base.html", title="no footer")


def test_every_file_of_the_templates_is_packaged() -> None:
    folder = Path(sagehand.pages.__file__).parent / "templates"
    kinds = {path.suffix for path in folder.iterdir()}
    assert kinds == {".html", ".css"}, (
        "these suffixes are package data in pyproject.toml; another one would be left out"
    )


def test_every_class_that_a_page_uses_has_a_style() -> None:
    folder = Path(sagehand.pages.__file__).parent / "templates"
    css = (folder / "page.css").read_text(encoding="utf-8")
    assert css.count("{") == css.count("}")
    for name in ("hero", "answer", "ask", "tag", "bar", "stack", "tile", "frame", "outline", "candidates", "chosen"):
        assert re.search(rf"\.{name}\b", css), name
    assert "prefers-color-scheme: dark" in css
    assert "@media print" in css


def test_public_names() -> None:
    assert set(sagehand.pages.__all__) == {
        "IndexEntry",
        "crop_page",
        "data_uri",
        "decision_page",
        "index_page",
        "render",
        "study_page",
    }
    assert all(hasattr(sagehand.pages, name) for name in sagehand.pages.__all__)
