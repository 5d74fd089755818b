"""A report's cells and the paper's figures: what is written must be what was counted, or what the paper says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagehand.study.report.cells import (
    Cell,
    Gain,
    Number,
    P,
    Percent,
    Seconds,
    Share,
    Spread,
    csv_of,
    text_of,
    words_of,
)
from sagehand.study.report.parts import Table
from sagehand.study.report.reference import QUOTES, beside

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (None, "–"),
        ("a name", "a name"),
        (7, "7"),
        # Wilson's interval of 81 of 263: Newcombe 1998, table I, method 3
        (Share(81, 263), "30.8\u202f% [25.5–36.6]"),
        (Share(0, 20), "0.0\u202f% [0.0–16.1]"),
        (Share(0, 0), "–"),
        (Gain(0.1234, -0.05, 0.25), "+12.3 pp [−5.0 to +25.0]"),
        (Gain(-0.0001), "0.0 pp"),
        (Percent(-0.05, signed=True), "−5.0\u202f%"),
        (Percent(0.954), "95.4\u202f%"),
        (Spread(0.5, 0.75), "50.0–75.0"),
        (P(0.00004), "< 0.0001"),
        (P(0.0158), "0.0158"),
        (P(1.0), "1"),
        (Seconds(0.0123), "12.3\u202fms"),
        (Seconds(157.25), "157.25\u202fs"),
        (Seconds(float("nan")), "–"),
        (Number(2.434), "2.43"),
        (Number(float("inf")), "–"),
    ],
)
def test_a_cell_is_written_as_what_it_is(cell: Cell, words: str) -> None:
    assert words_of(cell) == words


def test_csv_spreads_a_share_over_columns_and_keeps_plain_numbers() -> None:
    lines = csv_of(
        ("arm", "right", "gain", "seeds"),
        [("a", Share(1, 4), Gain(0.5, 0.25, 0.75), None), ("b", None, Gain(-1), Spread(0, 1))],
    )
    assert lines[0] == [
        "arm", "right", "right low", "right high", "right right", "right n", "gain", "gain low", "gain high",
        "seeds least", "seeds greatest",
    ]  # fmt: skip
    assert lines[1] == ["a", 0.25, pytest.approx(0.045587), pytest.approx(0.699358), 1, 4, 0.5, 0.25, 0.75, "", ""]
    assert lines[2] == ["b", "", "", "", "", "", -1, "", "", 0, 1]


finite = st.floats(-1, 1)
cells = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.integers(0, 9),
    st.integers(0, 9).flatmap(lambda n: st.builds(Share, st.integers(0, n), st.just(n))),
    st.builds(Gain, finite, finite, finite),
    st.builds(Percent, finite),
    st.builds(P, st.floats(0, 1)),
    st.builds(Seconds, st.floats()),
    st.builds(Number, st.floats()),
    st.builds(Spread, finite, finite),
)


@given(st.integers(1, 4).flatmap(lambda w: st.lists(st.lists(cells, min_size=w, max_size=w), min_size=1, max_size=4)))
def test_every_line_of_a_csv_is_as_long_as_its_header(rows: list[list[Cell]]) -> None:
    lines = csv_of([f"c{i}" for i in range(len(rows[0]))], rows)
    assert {len(line) for line in lines} == {len(lines[0])}
    for row in rows:
        for cell in row:
            assert "nan" not in text_of(cell)[0] or isinstance(cell, str)


def test_a_table_refuses_a_row_of_another_length() -> None:
    with pytest.raises(ValueError, match="not as long"):
        Table(("a", "b"), (("x",),))


def paper() -> str:
    found = sorted((SHARED / "papers").glob("000_*.txt"))
    if not found:
        pytest.skip("no text of the paper beside the checkout")
    return " ".join(found[0].read_text(encoding="utf-8").split())


@pytest.mark.parametrize("key", [key for key, quote in QUOTES.items() if quote.says])
def test_the_paper_says_what_it_is_quoted_for(key: str) -> None:
    quote = QUOTES[key]
    assert quote.says in paper()
    numbers = re.findall(r"\d+\.?\d*", quote.paper)
    for number in numbers if key != "devices" else []:
        digits = len(number.partition(".")[2])
        said = [float(n) for n in re.findall(r"\d*\.?\d+", quote.says)]
        words = {"seven": 7.0, "one": 1.0}
        said += [value for word, value in words.items() if f" {word} " in quote.says]
        if key == "guided against single":  # "the 5% threshold" is p < .05
            said += [0.05, 5.0]
        assert any(round(s, digits) == float(number) for s in said), (number, said)


def test_the_share_of_full_searches_follows_from_the_three_means() -> None:
    confirmed, searched, everything = (
        float(QUOTES[key].paper.split()[0]) for key in ("time confirmed", "time searched", "time guided")
    )
    assert round(100 * (everything - confirmed) / (searched - confirmed)) == 19
    assert "19" in QUOTES["searched"].paper


def test_what_a_run_does_not_have_is_a_dash_beside_the_paper() -> None:
    assert beside("mean rank", None).here == "–"
    assert beside("mean rank", "1.72").here == "1.72"
