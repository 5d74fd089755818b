"""Rendering a data set: the same whatever the processes, stopped at any moment, and never mixed with another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from sagehand.cli import study_data
from sagehand.errors import InputError, MissingExtra, SettingsError
from sagehand.study.cell.dataset import View, demo_views, folder_digest, labels
from sagehand.study.cell.ewaste import ewaste_actions
from sagehand.study.cell.render import CellRenderer
from sagehand.study.dataset.folder import header_of
from sagehand.study.dataset.journal import NAME, Entry, Journal
from sagehand.study.dataset.processes import _uninterrupted
from sagehand.study.dataset.render import RenderReport, render_study
from sagehand.study.dataset.sample import StudyData

VIEWS: list[View] = demo_views()[10:16]
SIZE: dict[str, Any] = {"width": 64, "height": 48}
ENTRIES = [Entry({"file_name": f"{n}.jpg", "device": "ä"}, {f"{n}.jpg": f"{n}"}) for n in range(4)]


@pytest.fixture(scope="module")
def driver() -> None:
    try:
        CellRenderer(64, 48).close()
    except (MissingExtra, SettingsError) as error:
        pytest.skip(str(error))


def rendered(folder: Path, **options: Any) -> RenderReport:
    return render_study(folder, views=VIEWS, **{**SIZE, "jobs": 1, **options})


# the journal, without GL


def test_a_journal_gives_back_what_was_noted_in_the_order_of_the_set(tmp_path: Path) -> None:
    with Journal(tmp_path, {"a": 1}) as journal:
        for place in (2, 0, 3):
            journal.add(place, ENTRIES[place])
        assert [(p, e) for p, e in journal.entries()] == [(p, ENTRIES[p]) for p in (0, 2, 3)]
    with Journal(tmp_path, {"a": 2}) as again:
        assert again.header == {"a": 1}
        assert [p for p, _ in again.entries()] == [0, 2, 3]
        again.add(1, ENTRIES[1])
        assert [e for _, e in again.entries()] == ENTRIES


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_that_a_kill_cut_off_is_taken_away(tmp_path: Path, cut: int) -> None:
    with Journal(tmp_path, {}) as journal:
        for place in range(3):
            journal.add(place, ENTRIES[place])
    data = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(data[:-cut])
    with Journal(tmp_path, {}) as again:
        assert [p for p, _ in again.entries()] == [0, 1]
        again.add(2, ENTRIES[2])
    assert (tmp_path / NAME).read_bytes() == data


def test_a_journal_cut_off_in_its_first_line_begins_anew(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"a":')
    with Journal(tmp_path, {"a": 3}) as journal:
        assert (journal.header, len(journal)) == ({"a": 3}, 0)


def test_two_processes_do_not_render_into_one_folder(tmp_path: Path) -> None:
    with Journal(tmp_path, {}), pytest.raises(InputError, match="another process is rendering"):
        Journal(tmp_path, {})
    Journal(tmp_path, {}).close(remove=True)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_journal_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"{}\nnonsense\n")
    with pytest.raises(InputError, match="damaged at byte 4"):
        Journal(tmp_path, {})


def test_the_header_knows_each_view() -> None:
    parameters = {"seed": 0}
    header = header_of(list(VIEWS), parameters, ewaste_actions())
    assert header_of(VIEWS, parameters, ewaste_actions()) == header
    assert header_of(VIEWS[::-1], parameters, ewaste_actions())["views"] != header["views"]


# the rendering


@pytest.fixture(scope="module")
def unbroken(driver: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RenderReport]:
    folder = tmp_path_factory.mktemp("unbroken") / "set"
    return folder, rendered(folder)


@pytest.mark.render
def test_the_folder_is_whole_and_its_digest_is_that_of_all_its_files(unbroken: tuple[Path, RenderReport]) -> None:
    folder, report = unbroken
    assert (report.made, report.kept, report.images) == (6, 0, 6)
    assert report.digest == folder_digest(folder)
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines()]
    assert [r["file_name"] for r in rows] == [v.file_name for v in VIEWS]
    for row, view in zip(rows, VIEWS, strict=True):
        assert row.items() >= json.loads(json.dumps(labels(view))).items()
        assert row["intrinsics"].keys() == {"fx", "fy", "cx", "cy"}
        assert len(row["polygon"]) >= 3
    card = json.loads((folder / "dataset.json").read_text())
    assert card["digest"] == report.digest
    assert sum(d["images"] for d in card["devices"].values()) == 6
    data = StudyData.load(folder)
    assert (len(data.samples), data.problems) == (6, ())
    assert data.actions is not None
    assert not (folder / NAME).exists()
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)


@pytest.mark.render
@pytest.mark.slow
def test_two_processes_give_the_same_to_the_byte(unbroken: tuple[Path, RenderReport], tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = rendered(tmp_path / "set", jobs=2, on_progress=lambda done, total: seen.append((done, total)))
    assert report.digest == unbroken[1].digest
    assert seen == [(n, 6) for n in range(7)]


@pytest.mark.render
def test_a_whole_folder_is_left_as_it_is(unbroken: tuple[Path, RenderReport]) -> None:
    folder, report = unbroken
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    again = rendered(folder)
    assert (again.made, again.kept, again.digest) == (0, 6, report.digest)
    assert again.images_per_second == 0
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


@pytest.mark.render
def test_a_stop_at_any_view_costs_nothing(unbroken: tuple[Path, RenderReport], tmp_path: Path) -> None:
    folder = tmp_path / "set"

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rendered(folder, on_progress=stop)
    assert not (folder / "metadata.jsonl").exists()
    (folder / ".0123456789ab.tmp").write_bytes(b"half")
    report = rendered(folder)
    assert (report.made, report.kept, report.digest) == (4, 2, unbroken[1].digest)
    assert folder_digest(folder) == report.digest
    assert list(folder.glob(".*")) == []


@pytest.mark.render
def test_files_that_went_missing_are_made_again(unbroken: tuple[Path, RenderReport], tmp_path: Path) -> None:
    folder = tmp_path / "set"
    rendered(folder)
    (folder / VIEWS[4].file_name).unlink()
    (folder / VIEWS[1].file_name.replace(".jpg", "_depth.png")).unlink()
    report = rendered(folder)
    assert (report.made, report.kept, report.digest) == (2, 4, unbroken[1].digest)
    assert folder_digest(folder) == report.digest


SCRIPT = """
import sys
from pathlib import Path
from sagehand.study.cell.dataset import demo_views
from sagehand.study.dataset.render import render_study

if __name__ == "__main__":
    try:
        render_study(Path(sys.argv[1]), views=demo_views()[10:16], width=64, height=48, jobs=2,
                     on_progress=lambda done, total: print(done, flush=True))
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


@pytest.mark.render
@pytest.mark.slow
def test_after_a_kill_exactly_the_rest_is_made_and_no_process_stays(
    unbroken: tuple[Path, RenderReport], tmp_path: Path
) -> None:
    script, folder = tmp_path / "script.py", tmp_path / "set"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == 2:
                children = _children(process.pid)
                process.send_signal(signal.SIGKILL)
                break
    assert len(children) >= 2
    limit = time.monotonic() + 30
    while any(_alive(pid) for pid in children) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in children)
    report = rendered(folder)
    assert report.kept >= 2
    assert (report.made + report.kept, report.digest) == (6, unbroken[1].digest)


@pytest.mark.render
@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 3])
def test_ctrl_c_is_told_once_and_keeps_what_was_made(
    unbroken: tuple[Path, RenderReport], tmp_path: Path, after: int
) -> None:
    script, folder = tmp_path / "script.py", tmp_path / "set"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < after:
            pass
        while len(_children(process.pid)) < 2:  # a terminal sends it to all of them, also to one that has only begun
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "stopped"
    report = rendered(folder)
    assert report.kept >= after
    assert (report.made + report.kept, report.digest) == (6, unbroken[1].digest)


def test_ctrl_c_that_another_thread_gets_waits_until_a_process_has_started() -> None:
    done: list[str] = []
    ready, go = threading.Event(), threading.Event()

    def driver() -> None:  # as a GL driver's thread: SIGINT is not masked in it
        ready.set()
        go.wait(10)

    thread = threading.Thread(target=driver)
    thread.start()
    ready.wait(10)

    def start() -> None:
        with _uninterrupted():
            signal.pthread_kill(thread.ident or 0, signal.SIGINT)
            go.set()
            thread.join()
            done.append("started")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["started"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


# what is refused


def error_of(folder: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        rendered(folder, **options)
    return str(caught.value).replace(str(folder), "FOLDER")


@pytest.mark.render
def test_another_rendering_is_refused_with_the_remedy(
    unbroken: tuple[Path, RenderReport], snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unbroken[0]
    with pytest.raises(InputError) as caught:
        render_study(folder, views=VIEWS[:3], **SIZE)
    told = [error_of(folder, width=80), str(caught.value).replace(str(folder), "FOLDER")]
    told.append(error_of(folder, resume=False))
    monkeypatch.setattr("sagehand.study.dataset.folder._generator", lambda: "0123456789abcdef")
    generator = json.loads((folder / "dataset.json").read_text())["generator"]
    told.append(error_of(folder).replace(generator, "GENERATOR"))
    assert told == snapshot


def test_a_folder_of_something_else_is_refused(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    told = [
        error_of(tmp_path),
        error_of(tmp_path / "mine.txt"),
        error_of(tmp_path, jobs=0),
        error_of(tmp_path, width=0),
    ]
    assert told == snapshot
    assert os.listdir(tmp_path) == ["mine.txt"]


# the command


def command(*arguments: object) -> Any:
    app = typer.Typer(rich_markup_mode=None)
    study_data.register(app)
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_the_command_prints_what_was_rendered(monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    asked: dict[str, Any] = {}

    def render(out: Path, **options: Any) -> RenderReport:
        asked.update(options, out=out)
        devices = {f"random_{n:05d}": 3 for n in range(22)}
        return RenderReport(str(out), 66, devices, 22, "d" * 64, made=60, kept=6, seconds=20.0)

    monkeypatch.setattr("sagehand.study.dataset.render.render_study", render)
    ran = command("render", "--out", "set", "--per-step", 3, "--devices", "random:22", "--jobs", 2, "--seed", 5)
    assert (ran.exit_code, ran.stdout) == snapshot
    assert asked == {
        "out": Path("set"),
        "images": 196,
        "per_step": 3,
        "seed": 5,
        "devices": "random:22",
        "jobs": 2,
        "on_progress": None,
    }
    doc = json.loads(command("render", "--out", "set", "--json").stdout)
    assert doc.keys() >= {"folder", "images", "devices", "steps", "images_per_second", "digest", "made", "kept"}
    assert doc["images_per_second"] == 3.0


def test_the_command_says_how_to_go_on_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def render(out: Path, **options: Any) -> RenderReport:
        raise KeyboardInterrupt

    monkeypatch.setattr("sagehand.study.dataset.render.render_study", render)
    ran = command("render", "--out", "set")
    assert (ran.exit_code, ran.stdout) == (130, "")
    assert "Run the same command again to go on" in ran.stderr
