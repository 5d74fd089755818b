"""Import of a folder of cases: every file that can be used, a reason for every one that cannot, and resume."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from folders import jpeg, png, write_rows
from sagehand.cases.base import CaseBase
from sagehand.cases.case import Case, CaseDraft
from sagehand.cases.folder import ImportInterrupted, image_files, import_folder
from sagehand.embed import HashEmbedder, depth_vector
from sagehand.errors import CaseConflict, CropMismatch, EmbedderMismatch, InputError, StoreFull
from sagehand.picture import Box, Picture, load

EMBEDDER = HashEmbedder()
NAMES = {"family": "f", "device": "d"}


class CountingEmbedder(HashEmbedder):
    """Counts the pictures it embeds, and may be slow now and then."""

    def __init__(self, slow: bool = False) -> None:
        super().__init__()
        self.count, self._slow, self._lock = 0, slow, threading.Lock()

    def embed(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        with self._lock:
            self.count += len(pictures)
            turn = self.count
        if self._slow and turn % 3 == 0:
            time.sleep(0.01)
        return super().embed(pictures)


def make(folder: Path, count: int) -> list[dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    rows = []
    for i in range(count):
        (folder / f"{i}.jpg").write_bytes(jpeg(i))
        rows.append({"file_name": f"{i}.jpg", "family": "phone", "device": "x", "step": i, "next_action": "pry"})
    write_rows(folder, rows)
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make(tmp_path / "folder", 8)
    return tmp_path / "folder"


@pytest.fixture
def base() -> Iterator[CaseBase]:
    with CaseBase.in_memory(EMBEDDER.identity) as made:
        yield made


def added_names(base: CaseBase) -> list[str]:
    rows = [entry.after["row"]["file_name"] for entry in reversed(base.log(None)) if entry.after]
    return [str(name) for name in rows]


def test_a_folder_is_imported_with_pictures_labels_and_vectors(folder: Path, base: CaseBase) -> None:
    report = import_folder(folder, base, EMBEDDER)
    assert (report.added, report.unchanged, report.conflicts, report.failed, report.skipped) == (8, 0, (), (), ())
    assert report.images_per_second > 0
    case = base.cases()[3]
    picture = load(folder / "3.jpg")
    assert case.id == picture.pixel_id
    assert base.image(case.id) == (folder / "3.jpg").read_bytes()
    assert base.line(case.id) == (folder / "metadata.jsonl").read_text().splitlines()[3]
    hit = base.search(EMBEDDER.embed([picture.pixels])[0], k=1)[0]
    assert (hit.case.id, hit.similarity) == (case.id, 1.0)


def test_the_report_is_plain_data(folder: Path, base: CaseBase) -> None:
    (folder / "more.PNG").write_bytes(b"")
    with (folder / "metadata.jsonl").open("a") as file:
        file.write("{\n")
    report = import_folder(folder, base, EMBEDDER)
    doc = json.loads(json.dumps(report.to_dict()))
    assert doc["failed"][0]["line"] == 9
    assert doc["skipped"] == ["more.PNG"]
    assert set(doc) >= {"folder", "added", "unchanged", "conflicts", "seconds", "images_per_second", "interrupted"}


def test_one_truncated_file_of_five_is_listed_and_four_are_added(tmp_path: Path, base: CaseBase) -> None:
    make(tmp_path, 5)
    whole = (tmp_path / "2.jpg").read_bytes()
    (tmp_path / "2.jpg").write_bytes(whole[: len(whole) // 2])
    report = import_folder(tmp_path, base, EMBEDDER)
    assert report.added == len(base) == 4
    [failed] = report.failed
    assert (failed.line, failed.file_name) == (3, "2.jpg")
    assert not failed.reason.startswith("2.jpg")
    (tmp_path / "2.jpg").write_bytes(whole)  # mended: only that one is left to do
    report = import_folder(tmp_path, base, EMBEDDER)
    assert (report.added, report.unchanged, report.failed) == (1, 4, ())


def test_each_file_that_cannot_be_used_has_its_own_reason(tmp_path: Path, base: CaseBase) -> None:
    rows = make(tmp_path, 3)
    names = ["text.jpg", "empty.jpg", "gone.jpg", "CAFE\u0301.JPG", "dir.jpg", "sub\\a.jpg", "pipe.jpg", "large.jpg"]
    (tmp_path / "text.jpg").write_text("no picture at all")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "caf\u00e9.jpg").write_bytes(jpeg(50))
    (tmp_path / "dir.jpg").mkdir()
    os.mkfifo(tmp_path / "pipe.jpg")
    with (tmp_path / "large.jpg").open("wb") as file:
        file.truncate(2**30)  # a hole: no room is taken
    write_rows(tmp_path, [*rows[:2], *({**rows[0], "file_name": name} for name in names), rows[2]])
    report = import_folder(tmp_path, base, EMBEDDER)
    assert report.added == 3
    assert [problem.file_name for problem in report.failed] == names
    assert [problem.line for problem in report.failed] == list(range(3, 11))
    reasons = {problem.file_name: problem.reason for problem in report.failed}
    assert reasons["gone.jpg"] == "no such file"
    assert reasons["CAFE\u0301.JPG"] == "no such file (did you mean 'caf\u00e9.jpg'?)"
    assert reasons["sub\\a.jpg"] == "no such file (write '/' between folders)"
    assert reasons["dir.jpg"] == reasons["pipe.jpg"] == "is not a file"
    assert "1,073,741,824 bytes are more than the cap" in reasons["large.jpg"]
    assert all(problem.reason and "\n" not in problem.reason for problem in report.failed)
    assert report.skipped == ("caf\u00e9.jpg",)


def test_bad_rows_and_bad_labels_are_listed_by_line(tmp_path: Path, base: CaseBase) -> None:
    rows = make(tmp_path, 4)
    rows[1]["step"] = "two"
    del rows[2]["device"]
    write_rows(tmp_path, rows)
    with (tmp_path / "metadata.jsonl").open("a") as file:
        file.write('{"file_name": "../secret.jpg", "family": "phone", "device": "x"}\n')
        file.write('{"file_name": "0.jpg", "family": "phone", "device": "x"}\nnot json\n')
    report = import_folder(tmp_path, base, EMBEDDER)
    assert report.added == 2
    assert [problem.line for problem in report.failed] == [2, 3, 5, 6, 7]
    assert "'two'" in report.failed[0].reason
    assert "device" in report.failed[1].reason
    assert report.skipped == ()  # a picture whose row is broken is not one without a row


def test_a_file_that_vanishes_midway_fails_alone(folder: Path, base: CaseBase) -> None:
    def crop(picture: Picture, fields: object) -> None:
        if picture.name == "0.jpg":
            (folder / "7.jpg").unlink()

    with CaseBase.in_memory(EMBEDDER.identity, crop="test") as cropped:
        report = import_folder(folder, cropped, EMBEDDER, cropper=crop, workers=1)
    assert report.added == 7
    assert [(p.file_name, p.reason) for p in report.failed] == [
        ("7.jpg", "no such file (it was there when the import began)")
    ]


def test_nothing_done_and_not_known_are_kept_apart(tmp_path: Path, base: CaseBase) -> None:
    rows = make(tmp_path, 3)
    rows[0]["previous_action"] = "none"
    rows[1]["previous_action"] = None
    write_rows(tmp_path, [{**row, "step": None} for row in rows])
    import_folder(tmp_path, base, EMBEDDER)
    assert {case.file_name: case.previous_action for case in base.cases()} == {
        "0.jpg": "none",
        "1.jpg": None,
        "2.jpg": None,
    }


def test_again_is_resume_nothing_is_embedded_twice(folder: Path, base: CaseBase) -> None:
    import_folder(folder, base, EMBEDDER)
    rows = make(folder, 10)
    embedder = CountingEmbedder()
    before = base.revision
    report = import_folder(folder, base, embedder)
    assert (report.added, report.unchanged) == (2, 8)
    assert embedder.count == 2
    report = import_folder(folder, base, embedder)
    assert (report.added, report.unchanged, embedder.count) == (0, 10, 2)
    assert base.revision == before + 2
    assert len(base) == len(rows) == 10


def test_another_label_for_a_known_picture_is_a_conflict_and_changes_nothing(folder: Path, base: CaseBase) -> None:
    rows = make(folder, 8)
    import_folder(folder, base, EMBEDDER)
    rows[2] |= {"next_action": "unscrew", "note": "seen twice"}
    write_rows(folder, rows)
    report = import_folder(folder, base, EMBEDDER)
    [conflict] = report.conflicts
    assert (report.unchanged, conflict.line, conflict.file_name) == (7, 3, "2.jpg")
    assert conflict.reason == (
        "the same picture is in the case base as '2.jpg', but next_action is 'pry' there, 'unscrew' here; "
        "note is None there, 'seen twice' here"
    )
    assert base.cases()[2].next_action == "pry"


def test_the_same_pixels_twice_name_both_files_and_the_first_holds(tmp_path: Path, base: CaseBase) -> None:
    rows = make(tmp_path, 2)
    pixels = load(tmp_path / "0.jpg").pixels
    (tmp_path / "copy.png").write_bytes(png(pixels))
    (tmp_path / "other.png").write_bytes(png(pixels))
    rows += [{**rows[0], "file_name": "copy.png"}, {**rows[0], "file_name": "other.png", "device": "y"}]
    write_rows(tmp_path, rows)
    for _ in range(2):  # again: the same answer
        report = import_folder(tmp_path, base, EMBEDDER)
        assert [(c.line, c.file_name) for c in report.conflicts] == [(3, "copy.png"), (4, "other.png")]
        assert report.conflicts[0].reason == "the same picture is in the case base as '0.jpg', with the same label"
        assert "as '0.jpg', but device is 'x' there, 'y' here" in report.conflicts[1].reason
    assert len(base) == 2


def test_a_picture_saved_anew_with_the_same_pixels_is_unchanged(tmp_path: Path, base: CaseBase) -> None:
    rows = make(tmp_path, 1)
    pixels = load(tmp_path / "0.jpg").pixels
    for level in (1, 9):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG", compress_level=level)
        (tmp_path / "0.png").write_bytes(file.getvalue())
        write_rows(tmp_path, [{**rows[0], "file_name": "0.png"}])
        report = import_folder(tmp_path, base, EMBEDDER)
    assert (report.added, report.unchanged, report.conflicts) == (0, 1, ())


def test_what_was_undone_comes_back(folder: Path, base: CaseBase) -> None:
    import_folder(folder, base, EMBEDDER)
    base.undo()
    assert len(base) == 0
    assert import_folder(folder, base, EMBEDDER).added == 8


def test_an_import_of_many_batches_is_undone_in_one_go_unless_something_came_in_between(
    folder: Path, tmp_path: Path
) -> None:
    with CaseBase.create(tmp_path / "p.cases", embedder=EMBEDDER.identity) as base:
        base.add(CaseDraft(b"x", "1" * 32, EMBEDDER.embed([np.zeros((8, 8, 3), np.uint8)])[0], NAMES))
        import_folder(folder, base, EMBEDDER, batch=2)
        assert len({entry.batch for entry in base.log(None)}) == 2
        assert len(base.undo()) == 8
        assert len(base) == 1

        def meddle(done: int, total: int) -> None:
            if done == 4:
                with CaseBase.open(tmp_path / "p.cases") as other:
                    other.correct("1" * 32, {"place": "vise"})

        import_folder(folder, base, EMBEDDER, batch=2, on_progress=meddle)
        assert [(len(base.undo()), len(base)) for _ in range(4)] == [(4, 5), (1, 5), (4, 1), (1, 0)]


def test_a_run_that_wrote_nothing_does_not_join_what_came_before(base: CaseBase) -> None:
    vectors = EMBEDDER.embed([np.full((8, 8, 3), n, np.uint8) for n in range(2)])
    drafts = [CaseDraft(b"%d" % n, f"{n}" * 32, vectors[n], NAMES) for n in range(2)]
    base.add(drafts[0])
    base.add_many(drafts[:1], run="r")
    base.add_many(drafts, run="r")
    assert [entry.batch for entry in base.log(None)] == [2, 1]


def test_depth_images_come_along(tmp_path: Path, base: CaseBase) -> None:
    rows = make(tmp_path, 2)
    ramp = np.linspace(400, 700, 24 * 32).reshape(24, 32).astype(np.uint16)
    ramp[8:16, 8:16] -= 40
    (tmp_path / "d.png").write_bytes(png(ramp))
    (tmp_path / "small.png").write_bytes(png(ramp[:4]))
    rows[0]["depth_file_name"] = "d.png"
    rows[1]["depth_file_name"] = "small.png"
    write_rows(tmp_path, rows)
    report = import_folder(tmp_path, base, EMBEDDER)
    assert [(p.file_name, p.line) for p in report.failed] == [("1.jpg", 2)]
    assert report.skipped == ()
    [case] = base.cases()
    assert case.has_depth
    assert base.depth_image(case.id) == (tmp_path / "d.png").read_bytes()
    expected = depth_vector(load(tmp_path / "0.jpg", depth=tmp_path / "d.png", depth_unit="mm").depth)  # type: ignore[arg-type]
    assert expected is not None
    np.testing.assert_array_equal(base.index().depth_vectors[0], expected)
    (tmp_path / "d.png").write_bytes(png(ramp + 1))
    [conflict] = import_folder(tmp_path, base, EMBEDDER).conflicts
    assert "another depth image" in conflict.reason


def test_real_depth_images(rgbd: Path, tmp_path: Path, base: CaseBase) -> None:
    for file in rgbd.glob("*.[pj][np]g"):
        shutil.copy(file, tmp_path)
    names = sorted(file.name.removesuffix("-rgb.jpg") for file in tmp_path.glob("*-rgb.jpg"))
    rows = [
        {"file_name": f"{n}-rgb.jpg", "depth_file_name": f"{n}-depth-mm.png", "family": "glass", "device": n}
        for n in names
    ]
    write_rows(tmp_path, rows)
    report = import_folder(tmp_path, base, EMBEDDER)
    assert (report.added, report.failed) == (2, ())
    assert len(report.skipped) == 2  # the masks
    assert all(case.has_depth for case in base.cases())


def test_a_crop_is_embedded_and_its_box_kept(folder: Path) -> None:
    def crop(picture: Picture, fields: Any) -> Box | None:
        return Box(4, 2, 20, 18) if fields["step"] == 1 else None

    with CaseBase.in_memory(EMBEDDER.identity, crop="test") as base:
        import_folder(folder, base, EMBEDDER, cropper=crop)
        assert [case.box for case in base.cases()][:3] == [None, Box(4, 2, 20, 18), None]
        view = load(folder / "1.jpg").pixels[2:18, 4:20]
        found = base.search(EMBEDDER.embed([np.ascontiguousarray(view)])[0], k=1)[0]
        assert (found.case.step, found.similarity) == (1, 1.0)
        with pytest.raises(CropMismatch):
            import_folder(folder, base, EMBEDDER)


def test_labels_that_must_not_come_in_are_listed(folder: Path, base: CaseBase) -> None:
    def check(fields: Any) -> None:
        if fields["step"] in (2, 5):
            raise InputError(f"unknown action in step {fields['step']}")

    report = import_folder(folder, base, EMBEDDER, check=check)
    assert report.added == 6
    assert [(p.line, p.reason) for p in report.failed] == [
        (3, "unknown action in step 2"),
        (6, "unknown action in step 5"),
    ]


def test_image_files_below_a_folder(tmp_path: Path) -> None:
    for name in ("b.JPG", "sub/a.tiff", ".hidden.jpg", ".git/c.png", "note.txt", "ä.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert image_files(tmp_path) == ["b.JPG", "sub/a.tiff", "ä.webp"]


def test_a_case_base_built_otherwise_is_refused(folder: Path, base: CaseBase) -> None:
    with pytest.raises(EmbedderMismatch):
        import_folder(folder, base, HashEmbedder(seed=1))
    with pytest.raises(CropMismatch):
        import_folder(folder, base, EMBEDDER, cropper=lambda picture, fields: None)
    with pytest.raises(InputError, match="at least 1"):
        import_folder(folder, base, EMBEDDER, workers=0)
    assert len(base) == 0


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_order_of_writing_is_the_order_of_the_rows(tmp_path: Path, base: CaseBase, workers: int) -> None:
    rows = make(tmp_path, 40)
    np.random.default_rng(3).shuffle(rows)  # type: ignore[arg-type]
    write_rows(tmp_path, rows)
    progress: list[tuple[int, int]] = []
    import_folder(
        tmp_path,
        base,
        CountingEmbedder(slow=True),
        workers=workers,
        batch=7,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert added_names(base) == [row["file_name"] for row in rows]
    assert progress[-1] == (40, 40)
    assert progress == sorted(progress)


def test_two_imports_give_the_same_case_base(folder: Path) -> None:
    found = []
    for workers in (1, 4):
        with CaseBase.in_memory(EMBEDDER.identity) as base:
            import_folder(folder, base, EMBEDDER, workers=workers)
            found.append((base.cases(), base.index().vectors.tobytes()))
    assert found[0] == found[1]


def test_ctrl_c_keeps_the_batch_in_hand_and_the_next_run_goes_on(tmp_path: Path, base: CaseBase) -> None:
    make(tmp_path, 30)
    embedder = CountingEmbedder()

    def press(done: int, total: int) -> None:
        if done == 8:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(ImportInterrupted) as caught:
        import_folder(tmp_path, base, embedder, workers=2, batch=4, on_progress=press)
    report = caught.value.report
    assert isinstance(caught.value, KeyboardInterrupt)
    assert report.interrupted
    assert 8 <= report.added == len(base) < 30
    assert embedder.count == report.added  # what was worked out is written
    assert added_names(base) == [f"{i}.jpg" for i in range(report.added)]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    rest = import_folder(tmp_path, base, embedder)
    assert (rest.added + report.added, rest.unchanged, embedder.count) == (30, report.added, 30)


def test_a_failing_callback_loses_nothing_that_was_worked_out(tmp_path: Path) -> None:
    make(tmp_path, 20)
    calls: list[str] = []

    def crop(picture: Picture, fields: Any) -> None:
        if fields["step"] == 7:
            raise ZeroDivisionError("a fault of the cropper's")
        calls.append(picture.name)

    with CaseBase.in_memory(EMBEDDER.identity, crop="test") as base:
        with pytest.raises(ZeroDivisionError):
            import_folder(tmp_path, base, EMBEDDER, cropper=crop, workers=2)
        assert sorted(case.file_name for case in base.cases()) == sorted(calls)
        done = len(calls)
        import_folder(tmp_path, base, EMBEDDER, cropper=lambda p, f: calls.append(p.name), workers=2)
        assert len(base) == len(calls) == 20
        assert done >= 7


class FullBase(CaseBase):
    """Runs out of room at the second batch."""

    batches = 0

    def add_many(self, drafts: Any, *, run: str | None = None) -> list[Case | CaseConflict]:
        self.batches += 1
        if self.batches == 2:
            raise StoreFull("the disk is full", hint="make room")
        return super().add_many(drafts, run=run)


def test_a_full_disk_says_what_is_kept_and_how_to_go_on(tmp_path: Path) -> None:
    make(tmp_path, 12)
    with FullBase.in_memory(EMBEDDER.identity) as base:
        with pytest.raises(StoreFull) as caught:
            import_folder(tmp_path, base, EMBEDDER, batch=5)
        assert caught.value.hint == "make room; 5 cases before it are kept; run the import again to go on"
        assert len(base) == 5
        assert import_folder(tmp_path, base, EMBEDDER, batch=5).added == 7


def test_from_another_thread(folder: Path, base: CaseBase) -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(import_folder(folder, base, EMBEDDER).added))
    thread.start()
    thread.join()
    assert found == [8]


def test_each_batch_is_durable_on_its_own(tmp_path: Path) -> None:
    make(tmp_path / "folder", 9)
    seen: list[int] = []
    with CaseBase.create(tmp_path / "cases.db", embedder=EMBEDDER.identity) as base:

        def look(done: int, total: int) -> None:
            with CaseBase.open(tmp_path / "cases.db", read_only=True) as other:
                seen.append(len(other))

        import_folder(tmp_path / "folder", base, EMBEDDER, batch=3, on_progress=look)
    assert seen == sorted(seen)
    assert {3, 6, 9} <= set(seen)


def test_csv_folder(tmp_path: Path, base: CaseBase) -> None:
    make(tmp_path, 2)
    (tmp_path / "metadata.jsonl").unlink()
    table = "file_name,family,device,step,history,is_last\n0.jpg,phone,x,1,[],false\n1.jpg,phone,x,2,pry;lever,TRUE\n"
    (tmp_path / "metadata.csv").write_text(table)
    report = import_folder(tmp_path, base, EMBEDDER)
    assert (report.added, report.failed) == (2, ())
    assert [(c.history, c.is_last) for c in base.cases()] == [((), False), (("pry", "lever"), True)]


def test_the_phones(phones: Path, base: CaseBase) -> None:
    report = import_folder(phones, base, EMBEDDER)
    assert (report.added, report.failed, report.conflicts, report.skipped) == (38, (), (), ())
    draft_lines = [base.line(case.id) for case in base.cases()]
    assert None not in draft_lines


def test_a_draft_keeps_what_the_row_says(folder: Path, base: CaseBase, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts: list[CaseDraft] = []
    add_many = base.add_many
    monkeypatch.setattr(base, "add_many", lambda new, run: drafts.extend(new) or add_many(new, run=run))
    import_folder(folder, base, EMBEDDER, batch=3)
    assert [draft.row["file_name"] for draft in drafts] == [f"{i}.jpg" for i in range(8)]
    assert all(draft.box is None and draft.depth_image is None for draft in drafts)


IMPORT = """
import sys, time
from sagehand.cases import CaseBase, import_folder
from sagehand.embed import HashEmbedder

class Slow(HashEmbedder):
    def embed(self, pictures):
        time.sleep(0.02)
        return super().embed(pictures)

with CaseBase.create(sys.argv[2], embedder=Slow().identity) as base:
    import_folder(sys.argv[1], base, Slow(), workers=2, batch=4, on_progress=lambda done, _: print(done, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_import_keeps_every_batch_it_told_of_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    make(tmp_path / "folder", 60)
    command = [sys.executable, "-c", IMPORT, str(tmp_path / "folder"), str(tmp_path / "cases.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        told = int(process.stdout.readline())
        process.send_signal(number)
        told = max([told, *map(int, process.stdout)])
    assert process.returncode != 0
    with CaseBase.open(tmp_path / "cases.db") as base:
        kept = len(base)
        assert told <= kept < 60
        assert added_names(base) == [f"{i}.jpg" for i in range(kept)]
        report = import_folder(tmp_path / "folder", base, EMBEDDER)
        assert (report.added, report.unchanged) == (60 - kept, kept)
