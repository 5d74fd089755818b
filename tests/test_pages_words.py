"""Numbers in words: rounding never hides a doubt, and what is missing is a dash."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagehand.pages.words import (
    DASH,
    base_name,
    domain_words,
    duration,
    label,
    number,
    percent,
    risk_words,
    share,
    when,
)


def plain(text: str) -> str:
    return text.replace("\u202f", " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 %"), (0.0004, "< 0.1 %"), (0.001, "0.1 %"), (0.05, "5 %"), (0.0473, "4.7 %"), (0.1, "10 %"),
        (0.934, "93 %"), (0.996, "99.6 %"), (0.9996, "> 99.9 %"), (1, "100 %"), (1.2, "100 %"), (None, DASH),
        (math.nan, DASH), (True, DASH), ("0.5", DASH),
    ],
)  # fmt: skip
def test_percent(value: object, text: str) -> None:
    assert plain(percent(value)) == text


@given(st.floats(0, 1))
def test_percent_says_certain_only_of_what_is(value: float) -> None:
    assert (percent(value) == percent(1)) == (value == 1)
    assert (percent(value) == percent(0)) == (value == 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "< 1 ms"), (0.0123, "12 ms"), (0.9994, "999 ms"), (0.9996, "1.00 s"), (9.41, "9.41 s"), (37.71, "37.7 s"),
        (99.96, "1 min 40 s"), (157.25, "2 min 37 s"), (None, DASH), (math.inf, DASH),
    ],
)  # fmt: skip
def test_duration(value: object, text: str) -> None:
    assert plain(duration(value)) == text


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()))
def test_a_bar_stays_inside_its_frame(value: object) -> None:
    part = share(value)
    assert part is None or 0 <= part <= 1
    assert "nan" not in number(value)
    assert "inf" not in number(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("remove_back_cover", "Remove back cover"), ("place_in_cnc", "Place in CNC"), ("cnc_cut", "CNC cut"),
        ("tray-7", "Tray-7"), ("___", "___"), ("", ""), ("S3", "S3"),
    ],
)  # fmt: skip
def test_label(name: str, text: str) -> None:
    assert label(name) == text


@pytest.mark.parametrize("path", ["/srv/cells/a.sage", "C:\\cells\\a.sage", "a.sage", "cells/a.sage/"])
def test_base_name_shows_no_folder(path: str) -> None:
    assert base_name(path) == "a.sage"


def test_when() -> None:
    assert when("2026-03-14T09:26:53.125+00:00") == "2026-03-14 09:26:53 UTC"
    assert when("2026-03-14T09:26:53") == "2026-03-14 09:26:53"
    assert when("yesterday") == "yesterday"
    assert when(None) == ""


def test_risk_is_certified_only_when_it_is_said_to_be() -> None:
    asked = {"asked": 0.05, "bound": 0.0473, "level": 0.95, "certified": True, "smallest": 0.0473}
    sure = risk_words(asked)
    assert sure.certified
    assert plain(sure.headline) == "At most 5 % wrong"
    assert (
        plain(sure.detail) == "Of the answers it gives, at most 5 % are wrong, at a level of 95 %. The bound is 4.7 %."
    )
    assert (
        plain(risk_words({"asked": 0.05, "certified": True}).detail)
        == "Of the answers it gives, at most 5 % are wrong."
    )
    for unsure in (None, {}, {"asked": None, "certified": True}, asked | {"certified": False}, {"asked": 0.05}):
        assert not risk_words(unsure).certified
        assert risk_words(unsure).headline == "Risk not certified"


@pytest.mark.parametrize("smallest", [None, 1.0, math.nan])
def test_a_risk_that_nothing_certifies_names_no_number(smallest: float | None) -> None:
    words = risk_words({"asked": 0.05, "certified": False, "smallest": smallest})
    assert words.detail.endswith("Past answers cannot certify any rate yet.")


def test_domain() -> None:
    assert domain_words(None) == ""
    inside = {"p_value": 0.43, "level": 0.05, "similarity": 0.912, "usual": 0.88, "in_domain": True}
    assert domain_words(inside) == (
        "It looks like the pictures in the case base (nearest case 0.91, which has another at 0.88; p = 0.43, limit 0.05)."
    )
    assert domain_words({"in_domain": False, "p_value": None, "similarity": None}) == "It looks like no case known."
    assert domain_words({"in_domain": None}) == "Too few cases to tell whether it belongs here."
