"""Samples of a study's folder: what is read, and what its digest stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from folders import jpeg, write_rows
from sagehand.cases import CaseBase, export_folder, import_folder
from sagehand.embed import HashEmbedder
from sagehand.errors import InputError
from sagehand.study.dataset.sample import StudyData
from study_runs import study_folder


def test_what_a_method_may_know_is_the_previous_action_and_the_place(tmp_path: Path) -> None:
    data = StudyData.load(study_folder(tmp_path / "data", devices=1, views=1))
    first = data.samples[0]
    known = first.known
    assert (known.previous, known.place) == ("none", "table")
    assert (known.history, known.facts, known.family, known.object_id) == (None, (), None, None)
    assert first.place_in_tree == ("phone", "d0", 1)


def test_unlabelled_rows_are_left_out_and_a_folder_without_labels_is_refused(tmp_path: Path) -> None:
    rows = [
        {"file_name": f"{n}.jpg", "family": "phone", "device": "d", "next_action": a}
        for n, a in enumerate(["open", None])
    ]
    for row in rows:
        (tmp_path / str(row["file_name"])).write_bytes(jpeg(int(str(row["file_name"])[0])))
    write_rows(tmp_path, rows)
    assert [s.key for s in StudyData.load(tmp_path).samples] == ["0.jpg"]
    write_rows(tmp_path, rows[1:])
    with pytest.raises(InputError, match="no picture in .* has a next_action"):
        StudyData.load(tmp_path)


@pytest.mark.parametrize("kind", ["jsonl", "coco", "labelme"])
def test_the_digest_follows_every_label_in_every_format(tmp_path: Path, kind: str) -> None:
    folder = study_folder(tmp_path / "data", devices=1, views=1)
    with CaseBase.create(tmp_path / "a.cases", embedder=HashEmbedder().identity) as base:
        import_folder(folder, base, HashEmbedder())
        export_folder(base, tmp_path / "out", format=kind)
    before = StudyData.load(tmp_path / "out")
    assert len(before.samples) == 3
    assert StudyData.load(tmp_path / "out").digest == before.digest
    changed = 0
    for path in [*(tmp_path / "out").rglob("*.json"), *(tmp_path / "out").rglob("*.jsonl")]:
        text = path.read_text()
        new = text.replace(json.dumps("pull"), json.dumps("open"))
        changed += new != text
        path.write_text(new)
    assert changed
    assert StudyData.load(tmp_path / "out").digest != before.digest


def test_the_digest_is_of_labels_and_names_and_the_pictures_of_sizes(tmp_path: Path) -> None:
    folder = study_folder(tmp_path / "data", devices=1, views=1)
    told = [StudyData.load(folder)]
    picture = told[0].samples[0].path
    picture.write_bytes(picture.read_bytes() + b"0")
    told.append(StudyData.load(folder))
    picture.unlink()
    told.append(StudyData.load(folder))
    assert len({data.digest for data in told}) == 1
    assert len({data.pictures for data in told}) == 3
