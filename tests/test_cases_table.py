"""Tables of cases: metadata.jsonl and metadata.csv to rows, with a line number for every problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.cases.table import Table, path_problem, read_table
from sagehand.errors import InputError

ROW = {"file_name": "a.jpg", "family": "phone", "device": "x"}


def table(folder: Path, data: str | bytes, name: str = "metadata.jsonl") -> Table:
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return read_table(folder)


def picture_in(folder: Path) -> Path:
    (folder / "a.jpg").touch()
    return folder / "a.jpg"


def named(number: int) -> str:
    return json.dumps({**ROW, "file_name": f"{number}.jpg"})


def test_a_row_keeps_its_key_order_its_unknown_keys_and_its_text(tmp_path: Path) -> None:
    text = '{"note": "Ä\\u00e4 ",  "file_name": "sub/ü.jpg", "step": 1,"x": [1, {"y": null}]}'
    found = table(tmp_path, text + "\n")
    assert [row.line for row in found.rows] == [1]
    assert list(found.rows[0].values) == ["note", "file_name", "step", "x"]
    assert found.rows[0].values["x"] == [1, {"y": None}]
    assert found.rows[0].text == text
    assert found.rows[0].file_name == "sub/ü.jpg"
    assert found.problems == ()
    assert found.format == "jsonl"


def test_byte_order_mark_blank_lines_and_a_missing_last_line_feed(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + f"{named(1)}\n\n   \n{named(2)}".encode()
    found = table(tmp_path, data)
    assert [(row.line, row.file_name) for row in found.rows] == [(1, "1.jpg"), (4, "2.jpg")]
    assert found.problems == ()


def test_a_carriage_return_stays_in_the_text_for_export(tmp_path: Path) -> None:
    found = table(tmp_path, f"{named(1)}\r\n{named(2)}\r\n")
    assert [row.text for row in found.rows] == [named(1) + "\r", named(2) + "\r"]


def test_separators_of_unicode_do_not_end_a_line(tmp_path: Path) -> None:
    text = json.dumps({**ROW, "note": "one\u2028two\x85three"}, ensure_ascii=False)
    found = table(tmp_path, text + "\n" + named(2))
    assert [row.line for row in found.rows] == [1, 2]
    assert found.rows[0].values["note"] == "one\u2028two\x85three"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"file_name": "a.jpg", ', "not JSON: "),
        ("[1, 2]", "is no JSON object but list; a row looks like {"),
        ("null", "is no JSON object but NoneType"),
        ('{"file_name": "a.jpg", "score": NaN}', "NaN is no JSON value"),
        ('{"file_name": "a.jpg", "score": -Infinity}', "-Infinity is no JSON value"),
        ('{"file_name": "a.jpg", "score": 1e999}', "the number 1e999 is too large"),
        ('{"file_name": "a.jpg", "score": ' + "9" * 5000 + "}", "Exceeds the limit"),
        ("[" * 100_000, "nested too deeply"),
        ('{"file_name": "a.jpg", "step": 1, "step": 2}', "the key 'step' stands twice"),
        ('{"family": "phone"}', "file_name is missing"),
        ('{"file_name": null}', "file_name is missing"),
        ('{"file_name": 7}', "file_name 7 is no file name"),
        ('{"file_name": " "}', "file_name ' ' is no file name"),
        ('{"file_name": "a\\u0000.jpg"}', "holds a NUL"),
        ('{"file_name": "../a.jpg"}', "file_name '../a.jpg' leads out of the folder"),
        ('{"file_name": "sub/../../a.jpg"}', "leads out of the folder"),
        ('{"file_name": "sub\\\\..\\\\a.jpg"}', "leads out of the folder"),
        ('{"file_name": "/etc/a.jpg"}', "is an absolute path"),
        ('{"file_name": "C:\\\\a.jpg"}', "is an absolute path"),
        ('{"file_name": "sub/"}', "names a folder, not a file"),
        ('{"file_name": "a.jpg", "depth_file_name": "../d.png"}', "depth_file_name '../d.png' leads out"),
    ],
)
def test_a_broken_line_is_named_and_never_stops_the_rest(tmp_path: Path, line: str, reason: str) -> None:
    found = table(tmp_path, f"{named(1)}\n{line}\n{named(3)}\n")
    assert [row.line for row in found.rows] == [1, 3]
    [problem] = found.problems
    assert problem.line == 2
    assert reason in problem.reason
    assert "\n" not in problem.reason


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    found = table(tmp_path, named(1).encode() + b'\n{"file_name": "\xe4.jpg"}\n' + named(3).encode())
    assert [row.line for row in found.rows] == [1, 3]
    assert [(p.line, p.reason) for p in found.problems] == [(2, "not UTF-8 text at byte 16 of the line")]


def test_two_rows_for_one_file_name_both_lines_and_the_first_holds(tmp_path: Path) -> None:
    other = json.dumps({**ROW, "file_name": "./1.jpg", "device": "y"})
    found = table(tmp_path, f"{named(1)}\n{named(2)}\n{other}\n")
    assert [row.line for row in found.rows] == [1, 2]
    [problem] = found.problems
    assert (problem.line, problem.file_name) == (3, "./1.jpg")
    assert problem.reason == "file_name './1.jpg' stands on line 1 already"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: f / "no", "no such folder"),
        (lambda f: f, "is empty (put a metadata.jsonl beside the pictures"),
        (lambda f: picture_in(f).parent, "holds no metadata.jsonl (or metadata.csv)"),
        (lambda f: picture_in(f), "is not a folder"),
    ],
)
def test_a_folder_that_cannot_be_used_says_what_is_wanted(tmp_path: Path, make: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_table(make(tmp_path))  # type: ignore[operator]
    assert message in str(caught.value)
    assert caught.value.hint


def test_a_folder_of_splits_names_the_folders_to_import(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "metadata.jsonl").write_text(named(1))
    with pytest.raises(InputError, match=r"test/metadata\.jsonl does exist \(import .*test and the 1 others"):
        read_table(tmp_path)


def test_both_tables_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_text("file_name\n")
    with pytest.raises(InputError, match=r"both metadata\.jsonl and metadata\.csv"):
        table(tmp_path, named(1))


def test_utf16_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="UTF-16 text"):
        table(tmp_path, named(1).encode("utf-16"))


CSV = """file_name,family,device,step,previous_action,history,remaining_actions,is_last,end_state,polygon,score
a.jpg,phone,x,1,none,[],"[""a"", ""b;c""]",FALSE,false,,0.5
sub/ü.jpg,phone,"x, y",2.0,a,a,b; c,true,,"[[0, 0], [9, 0], [9, 9]]",
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_cells_become_what_a_json_row_would_hold(tmp_path: Path, end: str) -> None:
    found = table(tmp_path, b"\xef\xbb\xbf" + CSV.replace("\n", end).encode(), "metadata.csv")
    assert found.problems == ()
    assert [(row.line, row.text) for row in found.rows] == [(2, None), (3, None)]
    assert found.rows[0].values == {
        "file_name": "a.jpg",
        "family": "phone",
        "device": "x",
        "step": 1,
        "previous_action": "none",
        "history": [],
        "remaining_actions": ["a", "b;c"],
        "is_last": False,
        "end_state": False,
        "score": "0.5",
    }
    assert found.rows[1].values == {
        "file_name": "sub/ü.jpg",
        "family": "phone",
        "device": "x, y",
        "step": 2,
        "previous_action": "a",
        "history": ["a"],
        "remaining_actions": ["b", "c"],
        "is_last": True,
        "polygon": [[0, 0], [9, 0], [9, 9]],
    }


def test_csv_a_column_without_a_name_is_kept_as_any_unknown_one(tmp_path: Path) -> None:
    found = table(tmp_path, ", file_name ,x y \n0,a.jpg,1\n", "metadata.csv")
    assert found.rows[0].values == {"": "0", "file_name": "a.jpg", "x y ": "1"}


def test_csv_what_does_not_fit_stays_text_for_the_label_check_to_name(tmp_path: Path) -> None:
    found = table(tmp_path, "file_name,step,is_last\na.jpg,two,perhaps\n", "metadata.csv")
    assert found.rows[0].values == {"file_name": "a.jpg", "step": "two", "is_last": "perhaps"}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("2.jpg,phone", "has 2 cells where the header has 3"),
        ("2.jpg,phone,x,y", "has 4 cells where the header has 3"),
        ('2.jpg,"phone"s,x', "not CSV: "),
        ('2.jpg,"phone,x', "not CSV: "),
        (",phone,x", "file_name is missing"),
        ("1.jpg,phone,x", "file_name '1.jpg' stands on line 2 already"),
        ("../2.jpg,phone,x", "leads out of the folder"),
        ("2.jpg,[NaN],x", None),
        ("2.jpg,[NaN,x", None),
    ],
)
def test_csv_a_broken_record_never_stops_the_rest(tmp_path: Path, record: str, reason: str | None) -> None:
    header = "file_name,family,device" if reason else "file_name,history,device"
    found = table(tmp_path, f"{header}\n1.jpg,phone,x\n{record}\n3.jpg,phone,x\n", "metadata.csv")
    assert [row.file_name for row in found.rows] == ["1.jpg", "3.jpg"]
    assert [problem.line for problem in found.problems] == [3]
    assert (reason or "JSON") in found.problems[0].reason


def test_csv_a_record_over_several_lines_keeps_the_count(tmp_path: Path) -> None:
    found = table(tmp_path, 'file_name,note\n1.jpg,"one\ntwo"\n\n2.jpg,x\n', "metadata.csv")
    assert [(row.line, row.values["note"]) for row in found.rows] == [(2, "one\ntwo"), (5, "x")]


def test_csv_only_the_record_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    found = table(tmp_path, b"file_name,note\n1.jpg,\xe4\n2.jpg,\xc3\xa4\n", "metadata.csv")
    assert [row.values["note"] for row in found.rows] == ["ä"]
    assert [(p.line, p.reason) for p in found.problems] == [(2, "not UTF-8 text; save the table as 'CSV UTF-8'")]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "is empty"),
        ("image,family", "no column file_name; found: image, family"),
        ("file_name;family", "separated by ';'"),
        ("file_name, step ,step", "the column 'step' stands twice"),
        ("file_name,step,step", "the column 'step' stands twice"),
    ],
)
def test_csv_a_header_that_cannot_be_used(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        table(tmp_path, header + "\n", "metadata.csv")
    assert message in str(caught.value)


@settings(deadline=None, max_examples=150)
@given(data=st.binary(max_size=300), name=st.sampled_from(["metadata.jsonl", "metadata.csv"]))
def test_any_bytes_give_rows_and_problems_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    try:
        found = table(folder, data, name)
    except InputError:
        return
    lines = [entry.line for entry in (*found.rows, *found.problems)]
    assert len(lines) == len(set(lines))
    assert all(path_problem(row.file_name) is None for row in found.rows)


@settings(deadline=None, max_examples=60)
@given(
    good=st.lists(st.booleans(), min_size=1, max_size=12),
    broken=st.sampled_from(['{"file_name"', "[]", '{"file_name": "../x"}', "\\", '"', "\x00"]),
)
def test_good_lines_survive_any_broken_neighbours(
    tmp_path_factory: pytest.TempPathFactory, good: list[bool], broken: str
) -> None:
    text = "\n".join(named(i) if fine else broken for i, fine in enumerate(good, start=1))
    found = table(tmp_path_factory.mktemp("mix"), text)
    assert [row.line for row in found.rows] == [i for i, fine in enumerate(good, start=1) if fine]
    assert [problem.line for problem in found.problems] == [i for i, fine in enumerate(good, start=1) if not fine]


def test_the_labels_of_the_phones_are_all_read(phones: Path) -> None:
    found = read_table(phones)
    assert len(found.rows) == 38
    assert found.problems == ()
    assert "".join(f"{row.text}\n" for row in found.rows).encode() == (phones / "metadata.jsonl").read_bytes()


@pytest.mark.parametrize(("name", "text"), [("jsonl", ""), ("jsonl", "\n \n"), ("csv", "file_name,family\n\n")])
def test_a_table_without_a_row_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / f"metadata.{name}").write_text(text)
    with pytest.raises(InputError, match="holds no row"):
        read_table(tmp_path)
