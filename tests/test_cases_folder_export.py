"""Export: the folder that was imported, given back byte for byte."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folders import jpeg, png
from sagehand.cases import export
from sagehand.cases.base import CaseBase
from sagehand.cases.case import CaseDraft, Where
from sagehand.cases.export import export_folder
from sagehand.cases.folder import import_folder
from sagehand.embed import HashEmbedder
from sagehand.errors import InputError, StoreFull

EMBEDDER = HashEmbedder()


@pytest.fixture
def base() -> Iterator[CaseBase]:
    with CaseBase.in_memory(EMBEDDER.identity) as made:
        yield made


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def make(folder: Path) -> list[str]:
    """Unicode names, folders in folders, odd spacing and key order, unknown keys, depth images that two rows share."""
    names = ["z last.jpg", "größe/Ärger 🙂.jpg", "a/b/c.jpg", "e\u0301.jpg", "1.JPG", "no suffix"]
    for seed, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(jpeg(seed))
    ramp = np.linspace(400, 700, 24 * 32).reshape(24, 32).astype(np.uint16)
    (folder / "depth").mkdir()
    (folder / "depth" / "tiefe.png").write_bytes(png(ramp))
    lines = [
        '{"family": "phone",   "note": "\\u00e4 \\/ ä", "device": "x", "file_name": "z last.jpg", "step": 2}',
        '{"file_name":"größe/Ärger 🙂.jpg","device":"y","family":"phone","depth_file_name":"depth/tiefe.png","f":1.50}',
        '{"file_name": "a/b/c.jpg", "family": "phone", "device": "x", "depth_file_name": "depth/tiefe.png", "k": [{}]}',
        '{"file_name": "e\u0301.jpg", "family": "radio", "device": "x", "step": 1, "previous_action": "none"}\r',
        '  {"file_name": "1.JPG", "family": "phone", "device": "x", "step": 1, "state": null, "is_last": true}  ',
        '{"file_name": "no suffix", "family": "phone", "device": "a", "remaining_actions": [], "": 1e5}',
    ]
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    make(tmp_path / "in")
    return tmp_path / "in"


def test_round_trip_is_byte_identical(folder: Path, base: CaseBase, tmp_path: Path) -> None:
    assert import_folder(folder, base, EMBEDDER).failed == ()
    report = export_folder(base, tmp_path / "out")
    assert tree(tmp_path / "out") == tree(folder)
    assert (report.cases, report.depth_images, report.rewritten, report.renamed) == (6, 2, 0, ())
    assert json.loads(json.dumps(report.to_dict()))["format"] == "jsonl"


def test_the_phones_come_back_byte_for_byte(phones: Path, base: CaseBase, tmp_path: Path) -> None:
    import_folder(phones, base, EMBEDDER)
    export_folder(base, tmp_path / "out")
    there = tree(phones)
    del there["actions.yaml"]  # named by no row
    assert tree(tmp_path / "out") == there


def test_round_trip_from_a_file_after_reopening_and_through_a_second_base(folder: Path, tmp_path: Path) -> None:
    with CaseBase.create(tmp_path / "one.db", embedder=EMBEDDER.identity) as base:
        import_folder(folder, base, EMBEDDER, workers=3)
    with CaseBase.open(tmp_path / "one.db", read_only=True) as base:
        export_folder(base, tmp_path / "new" / "folder" / "out")
    with CaseBase.in_memory(EMBEDDER.identity) as again:
        import_folder(tmp_path / "new" / "folder" / "out", again, EMBEDDER)
        export_folder(again, tmp_path / "out")
    assert tree(tmp_path / "out") == tree(folder)


def test_a_corrected_row_is_written_anew_with_its_keys_in_order(folder: Path, base: CaseBase, tmp_path: Path) -> None:
    import_folder(folder, base, EMBEDDER)
    case = next(case for case in base.cases() if case.file_name == "z last.jpg")
    base.correct(case.id, {"step": 3})
    report = export_folder(base, tmp_path / "out")
    lines = (tmp_path / "out" / "metadata.jsonl").read_text().split("\n")
    assert lines[0] == '{"family": "phone", "note": "ä / ä", "device": "x", "file_name": "z last.jpg", "step": 3}'
    assert lines[1:] == (folder / "metadata.jsonl").read_text().split("\n")[1:]
    assert report.rewritten == 1


def test_what_was_derived_or_retired_is_not_written(folder: Path, base: CaseBase, tmp_path: Path) -> None:
    import_folder(folder, base, EMBEDDER)
    base.retire(next(case.id for case in base.cases() if case.file_name == "1.JPG"))
    export_folder(base, tmp_path / "out")
    assert set(tree(folder)) - set(tree(tmp_path / "out")) == {"1.JPG"}
    assert "history" not in (tmp_path / "out" / "metadata.jsonl").read_text()


def test_some_of_the_cases(folder: Path, base: CaseBase, tmp_path: Path) -> None:
    import_folder(folder, base, EMBEDDER)
    report = export_folder(base, tmp_path / "out", where=Where(family="radio"))
    assert report.cases == 1
    assert set(tree(tmp_path / "out")) == {"e\u0301.jpg", "metadata.jsonl"}


def test_two_imports_with_one_file_name(base: CaseBase, tmp_path: Path) -> None:
    for number, family in enumerate(("phone", "radio", "lamp")):
        folder = tmp_path / family
        folder.mkdir()
        (folder / "a.b.jpg").write_bytes(jpeg(number))
        (folder / "metadata.jsonl").write_text(
            json.dumps({"file_name": "a.b.jpg", "family": family, "device": "x", "extra": number})
        )
        import_folder(folder, base, EMBEDDER)
    report = export_folder(base, tmp_path / "out")
    assert [(r.old, r.new) for r in report.renamed] == [("a.b.jpg", "a.b-2.jpg"), ("a.b.jpg", "a.b-3.jpg")]
    assert {r.case_id for r in report.renamed} == {c.id for c in base.cases() if c.family != "phone"}
    rows = [json.loads(line) for line in (tmp_path / "out" / "metadata.jsonl").read_text().splitlines()]
    assert [(row["file_name"], row["extra"]) for row in rows] == [("a.b.jpg", 0), ("a.b-2.jpg", 1), ("a.b-3.jpg", 2)]
    assert (tmp_path / "out" / "a.b-3.jpg").read_bytes() == jpeg(2)
    with CaseBase.in_memory(EMBEDDER.identity) as again:
        assert import_folder(tmp_path / "out", again, EMBEDDER).added == 3


def add(base: CaseBase, name: str | None, number: int, **more: Any) -> str:
    vector = np.zeros(64, np.float32)
    vector[number] = 1
    row = {"family": "phone", "device": "x"} if name is None else {"file_name": name, "family": "phone", "device": "x"}
    draft = CaseDraft(image=b"\xff\xd8\xff%d" % number, pixel_id=f"{number:032x}", vector=vector, row=row | more)
    return base.add(draft).id


@pytest.mark.parametrize("name", ["../../evil.jpg", "/etc/evil.jpg", "sub/", "metadata.jsonl", None])
def test_no_file_leaves_the_folder_or_overwrites_the_table(base: CaseBase, tmp_path: Path, name: str | None) -> None:
    case_id = add(base, name, 1)
    report = export_folder(base, tmp_path / "deep" / "out")
    [renamed] = report.renamed
    assert renamed.new in (f"{case_id}.jpg", "metadata-2.jsonl")
    assert sorted(tree(tmp_path)) == sorted([f"deep/out/{renamed.new}", "deep/out/metadata.jsonl"])
    row = json.loads((tmp_path / "deep" / "out" / "metadata.jsonl").read_text())
    assert row["file_name"] == renamed.new
    assert next(iter(row)) == "file_name"


def test_a_name_that_is_a_file_here_and_a_folder_there(base: CaseBase, tmp_path: Path) -> None:
    for number, name in enumerate(["a", "a/b.jpg", "c/d.jpg", "c"]):
        add(base, name, number)
    report = export_folder(base, tmp_path / "out")
    assert [(r.old, r.new) for r in report.renamed] == [("a/b.jpg", "a_b.jpg"), ("c", "c-2")]
    assert len(tree(tmp_path / "out")) == 5


def test_a_depth_image_that_the_base_was_never_given_is_not_promised(base: CaseBase, tmp_path: Path) -> None:
    add(base, "a.jpg", 1, depth_file_name="d.png")
    export_folder(base, tmp_path / "out")
    assert "depth" not in (tmp_path / "out" / "metadata.jsonl").read_text()


def test_csv_and_back_says_the_same(folder: Path, base: CaseBase, tmp_path: Path) -> None:
    import_folder(folder, base, EMBEDDER)
    report = export_folder(base, tmp_path / "csv", format="csv")
    assert report.rewritten == report.cases == 6
    with CaseBase.in_memory(EMBEDDER.identity) as again:
        assert import_folder(tmp_path / "csv", again, EMBEDDER).failed == ()
        assert len(again) == 6
        for old, new in zip(base.cases(), again.cases(), strict=True):
            assert {k: v for k, v in vars(old).items() if k != "extra"} == {
                k: v for k, v in vars(new).items() if k != "extra"
            }


def test_a_plain_csv_folder_comes_back_byte_for_byte(base: CaseBase, tmp_path: Path) -> None:
    text = (
        "file_name,family,device,step,previous_action,history,remaining_actions,is_last,polygon,note\n"
        'a.jpg,phone,"x, y",1,none,[],unscrew;pry,false,,"says ""hello"""\n'
        'b.jpg,phone,z,,,,,,"[[0, 0], [9, 0], [9, 9]]",\n'
        "c.jpg,phone,z,2,unscrew,unscrew,pry,true,, spaces kept \n"
    )
    folder = tmp_path / "in"
    folder.mkdir()
    for seed, name in enumerate(("a.jpg", "b.jpg", "c.jpg")):
        (folder / name).write_bytes(jpeg(seed))
    (folder / "metadata.csv").write_text(text, newline="")
    assert import_folder(folder, base, EMBEDDER).failed == ()
    export_folder(base, tmp_path / "out", format="csv")
    assert tree(tmp_path / "out") == tree(folder)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(lambda t: t.strip() == t)


@settings(deadline=None, max_examples=60)
@given(
    names=st.lists(TEXT.filter(lambda t: t != "none"), max_size=3),
    note=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
)
def test_any_text_survives_a_csv(tmp_path_factory: pytest.TempPathFactory, names: list[str], note: str) -> None:
    from sagehand.cases.table import read_table

    folder = tmp_path_factory.mktemp("csv")
    with CaseBase.in_memory(EMBEDDER.identity) as base:
        add(base, "a.jpg", 1, history=names, note=note)
        export_folder(base, folder / "out", format="csv")
    found = read_table(folder / "out")
    assert found.problems == ()
    assert found.rows[0].values["history"] == names
    expected = note.replace("\r\n", "\n").replace("\r", "\n")
    assert found.rows[0].values.get("note", "") == (expected if expected.strip() else "")


def test_an_empty_case_base(base: CaseBase, tmp_path: Path) -> None:
    assert export_folder(base, tmp_path / "a").cases == 0
    assert tree(tmp_path / "a") == {"metadata.jsonl": b""}
    export_folder(base, tmp_path / "b", format="csv")
    assert (tmp_path / "b" / "metadata.csv").read_text() == "file_name\n"


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(folder: Path, base: CaseBase) -> None:
    import_folder(folder, base, EMBEDDER)
    before = tree(folder)
    for bad in (folder, folder / "1.JPG"):
        with pytest.raises(InputError, match="give the name of a new folder"):
            export_folder(base, bad)
    with pytest.raises(InputError, match=r"unknown format 'xml'; known: coco, csv, jsonl, labelme"):
        export_folder(base, folder / "new", format="xml")  # type: ignore[arg-type]
    assert tree(folder) == before


def test_an_empty_folder_is_taken_and_a_link_is_not(folder: Path, base: CaseBase, tmp_path: Path) -> None:
    import_folder(folder, base, EMBEDDER)
    (tmp_path / "empty").mkdir()
    export_folder(base, tmp_path / "empty")
    assert tree(tmp_path / "empty") == tree(folder)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError):
        export_folder(base, tmp_path / "link")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), StoreFull, "the disk is full; nothing was written"),
        (PermissionError(errno.EACCES, "Permission denied"), InputError, "cannot be written: Permission denied"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
    ],
)
def test_nothing_half_written_is_left_behind(
    folder: Path,
    base: CaseBase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    kind: type[BaseException],
    message: str,
) -> None:
    import_folder(folder, base, EMBEDDER)
    write_bytes, left = Path.write_bytes, [3]

    def failing(self: Path, data: bytes) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise error
        return write_bytes(self, data)

    monkeypatch.setattr(export.Path, "write_bytes", failing)
    with pytest.raises(kind) as caught:
        export_folder(base, tmp_path / "out")
    assert message in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_a_folder_that_fills_meanwhile_is_not_overwritten(
    folder: Path, base: CaseBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_folder(folder, base, EMBEDDER)
    (tmp_path / "out").mkdir()
    rename = os.rename

    def late(source: Any, target: Any) -> None:
        (tmp_path / "out" / "mine.txt").write_text("mine")
        rename(source, target)

    monkeypatch.setattr(export.os, "rename", late)
    with pytest.raises(InputError, match="cannot be written"):
        export_folder(base, tmp_path / "out")
    assert tree(tmp_path / "out") == {"mine.txt": b"mine"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out"]
