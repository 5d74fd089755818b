"""Samples as conversations: what zero-shot asks, what the labels answer, and the chat file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from learn_samples import bench, make_folder
from sagehand.cli import study_learn
from sagehand.errors import InputError, SagehandError, UnknownName
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.learn.dialogue import Teacher, export_chat
from sagehand.study.learn.parts import part_of
from sagehand.study.methods.registry import make_method
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import RawReply
from sagehand.vlm.profile import builtin_profile
from sagehand.vlm.reply import read_reply
from sagehand.vlm.scripted import ScriptedBackend


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> StudyData:
    return make_folder(tmp_path_factory.mktemp("data") / "set", views=2)


@pytest.fixture
def teacher(data: StudyData, tmp_path: Path) -> Iterator[Teacher]:
    made = Teacher(bench(data, tmp_path, method="zero-shot", guard=True))
    yield made
    made.close()


@pytest.mark.parametrize(
    "arm",
    [{}, {"guard": True}, {"previous": False}, {"guard": True, "previous": False, "place": False}, {"crop": "truth"}],
)
def test_every_answer_is_a_valid_call_that_says_the_labels(
    data: StudyData, tmp_path: Path, arm: dict[str, Any]
) -> None:
    teacher = Teacher(bench(data, tmp_path, method="zero-shot", **arm))
    for sample in data.samples:
        dialogue = teacher.dialogue(sample)
        reading = read_reply(RawReply(dialogue.answer, finish_reason="stop"), dialogue.question.tools, "json_schema")
        assert reading.repairs == ()
        said = reading.tool.model_dump()
        assert said["previous_action"] == (sample.previous_action if arm.get("previous", True) else "not_known")
        assert said["next_action"] == sample.next_action
        assert tuple(said["remaining_actions"]) == sample.remaining_actions
        assert said["is_last"] is sample.is_last
        assert said["device_class"] == sample.family
        assert sample.family in reading.reasoning
    teacher.close()


def test_the_question_is_the_very_one_that_zero_shot_asks(data: StudyData, tmp_path: Path) -> None:
    """What a server gets in the baseline's arm and what is taught are the same messages, pictures included."""
    backend = ScriptedBackend(lambda request: RawReply("no", finish_reason="stop"))
    asked = bench(data, tmp_path, method="zero-shot", guard=True, crop="truth")
    profile = builtin_profile("qwen3-vl")
    with Vlm(backend, profile=profile, attempts=1) as vlm:
        method = make_method(replace(asked, vlm=vlm))
        teacher = Teacher(asked, profile=profile)
        for sample in data.samples[::4]:
            method.answer(sample)
            assert list(teacher.dialogue(sample).messages) == list(backend.requests[-1].messages)
        teacher.close()
        method.close()


def test_a_sample_whose_labels_do_not_say_the_answer_is_told(
    data: StudyData, teacher: Teacher, snapshot: SnapshotAssertion
) -> None:
    first = data.samples[0]
    odd = [
        replace(first, remaining_actions=None, is_last=None),
        replace(first, next_action="lift"),  # the guard knows that nothing was opened yet
        replace(first, next_action="paint"),
        replace(first, family="boat"),
        first,
    ]
    good, problems = teacher.dialogues(odd)
    assert good == [first]
    assert problems == snapshot


def test_a_picture_that_cannot_be_read_is_left_out(data: StudyData, teacher: Teacher, tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(data.samples[0].path.read_bytes()[:200])
    torn = replace(data.samples[0], key="torn.png", path=tmp_path / "torn.png")
    report = export_chat([torn, data.samples[1]], teacher, tmp_path / "chat.jsonl")
    assert report.written == 1
    assert [key for key, _ in report.problems] == ["torn.png"]


def test_without_actions_there_is_nothing_to_choose_from(data: StudyData, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without an action library"):
        Teacher(bench(data, tmp_path, method="zero-shot", library=False))


def test_a_crop_that_asks_a_model_is_refused(data: StudyData, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the crop 'grid' asks a model"):
        Teacher(bench(data, tmp_path, method="zero-shot", crop="grid"))


def test_a_chat_file_names_pictures_relative_to_itself(data: StudyData, teacher: Teacher, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "chat.jsonl"
    done: list[tuple[int, int]] = []
    report = export_chat(data.samples, teacher, file, on_progress=lambda *at: done.append(at))
    assert (report.written, report.pictures, report.problems) == (len(data.samples), 0, ())
    assert done[-1] == (len(data.samples), len(data.samples))
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for row, sample in zip(rows, data.samples, strict=True):
        assert row["id"] == sample.key
        assert (file.parent / row["images"][0]).resolve() == sample.path.resolve()
        assert not Path(row["images"][0]).is_absolute()
        assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant"]
        kinds = [part["type"] for part in row["messages"][1]["content"]]
        assert kinds.count("image") == len(row["images"]) == 1
        assert "data:image" not in json.dumps(row)
        assert row["messages"][2]["content"] == [{"type": "text", "text": teacher.dialogue(sample).answer}]
    before = file.read_bytes()
    export_chat(data.samples, teacher, file)
    assert file.read_bytes() == before


def test_a_cut_picture_is_written_beside_the_file(data: StudyData, tmp_path: Path) -> None:
    teacher = Teacher(bench(data, tmp_path, method="zero-shot", crop="truth"))
    report = export_chat(data.samples[:2], teacher, tmp_path / "chat.jsonl")
    teacher.close()
    assert report.pictures == 2
    row = json.loads((tmp_path / "chat.jsonl").read_text().splitlines()[0])
    cut = np.asarray(Image.open(tmp_path / row["images"][0]).convert("RGB"))
    whole = np.asarray(Image.open(data.samples[0].path).convert("RGB"))
    np.testing.assert_array_equal(cut, whole[4:31, 4:37])


def test_pictures_that_differ_only_in_their_format_are_cut_into_two_files(data: StudyData, tmp_path: Path) -> None:
    one, other = data.samples[:2]
    jpeg = tmp_path / "nokia_1_0.jpg"
    Image.open(other.path).save(jpeg)
    teacher = Teacher(bench(data, tmp_path, method="zero-shot", crop="truth"))
    export_chat([one, replace(one, key=jpeg.name, path=jpeg)], teacher, tmp_path / "chat.jsonl")
    teacher.close()
    named = [json.loads(line)["images"][0] for line in (tmp_path / "chat.jsonl").read_text().splitlines()]
    first, second = (np.asarray(Image.open(tmp_path / name)) for name in named)
    assert not np.array_equal(first, second)


def test_nothing_to_export_is_an_error(data: StudyData, teacher: Teacher, tmp_path: Path) -> None:
    blank = [replace(s, is_last=None) for s in data.samples[:2]]
    with pytest.raises(InputError, match="nothing to export: nokia_1_0.png: no label for is_last"):
        export_chat(blank, teacher, tmp_path / "chat.jsonl")
    assert not (tmp_path / "chat.jsonl").exists()


def devices(samples: tuple[Sample, ...]) -> set[str]:
    return {s.device for s in samples}


def test_parts_of_a_fold_share_no_device_and_parts_of_a_draw_no_picture(data: StudyData) -> None:
    base, query = (part_of(data.samples, part, per_step=1) for part in ("base", "query"))
    assert {s.key for s in base}.isdisjoint(s.key for s in query)
    assert len(base) == len(query) == 9
    for fold in range(3):
        parts = [part_of(data.samples, part, fold=fold, folds=3) for part in ("train", "validation", "test")]
        assert sum(map(len, parts)) == len(data.samples)
        assert sum(len(devices(part)) for part in parts) == 3
    assert part_of(data.samples, "all") == data.samples
    with pytest.raises(UnknownName, match="'half'"):
        part_of(data.samples, "half")
    with pytest.raises(InputError, match="there is no fold 3; the folds are 0 to 2"):
        part_of(data.samples, "train", fold=3, folds=3)


def test_export_chat_on_the_command_line(data: StudyData, tmp_path: Path) -> None:
    app = typer.Typer()
    study_learn.register(app)
    app.command()(lambda: None)  # with one command alone, its name would not be asked for
    out = tmp_path / "chat.jsonl"
    words = ["export-chat", str(data.folder), "--out", str(out), "--split", "base", "--per-step", "1"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0
    assert told.stdout == f"9 dialogues in {out}\n"
    doc = json.loads(CliRunner().invoke(app, [*words, "--crop", "truth", "--json"]).stdout)
    assert doc == {"file": str(out), "written": 9, "pictures": 9, "left_out": []}
    wrong = CliRunner().invoke(app, [*words, "--crop", "scissors"])
    assert isinstance(wrong.exception, SagehandError)
    assert "scissors" in str(wrong.exception)
