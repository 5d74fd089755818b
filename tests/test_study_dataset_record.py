"""Recording: labels that follow from what was done, and nothing lost, doubled or mixed up by a stop."""

from __future__ import annotations

import fcntl
import io
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from command_line import LIBRARY
from folders import jpeg
from sagehand.action.library import ActionLibrary
from sagehand.cases import CaseBase, import_folder
from sagehand.cli import study_record
from sagehand.embed import get_embedder
from sagehand.errors import InputError, NotAPicture, UnknownName
from sagehand.lines import LineFile
from sagehand.study.dataset.camera import CameraSource
from sagehand.study.dataset.capture import Choice, RecordReport, finish_recording, record_study
from sagehand.study.dataset.events import (
    NANO,
    Done,
    End,
    Event,
    Frame,
    Moved,
    Shot,
    merge,
    parse_line,
    parse_time,
    read_events,
)
from sagehand.study.dataset.frames import FramesSource
from sagehand.study.dataset.labels import Steps, labels_after
from sagehand.study.dataset.operator import Lines
from sagehand.study.dataset.recording import JOURNAL, Recording
from sagehand.study.dataset.sample import StudyData
from sagehand.study.dataset.session import Session

PHONE = Session("phone", "x1")
START = 1_700_000_000 * NANO


@pytest.fixture
def library(tmp_path: Path) -> ActionLibrary:
    path = tmp_path / "actions.yaml"
    path.write_text(LIBRARY)
    return ActionLibrary.load(path)


def at(seconds: float) -> int:
    return START + round(seconds * NANO)


def picture(seconds: float, **more: Any) -> Frame:
    data = jpeg(round(seconds * 10))
    return Frame(
        lambda: Shot(data, ".jpg", **more), stamp=at(seconds), key=f"p{seconds}", where=f"picture at {seconds} s"
    )


def done(action: str, seconds: float, sure: bool = False) -> Done:
    return Done(action, sure, where=f"at {seconds} s", stamp=at(seconds), key=f"a{seconds}")


class Script:
    """A source that gives what it was given."""

    def __init__(self, events: Sequence[Event], *, live: bool = False, stop_at: int | None = None) -> None:
        self.live, self.every, self.closed = live, 0.0, False
        self._events, self._stop_at = events, stop_at

    def known(self) -> Sequence[Done]:
        return [] if self.live else [e for e in self._events if isinstance(e, Done)]

    def events(self) -> Iterator[Event]:
        for number, event in enumerate(self._events):
            if number == self._stop_at:
                raise KeyboardInterrupt
            yield event

    def close(self) -> None:
        self.closed = True


RUN: list[Event] = [
    picture(0),
    picture(1),
    done("unscrew", 2),
    picture(3),
    done("pry", 4),
    done("pull_battery", 5),
    picture(6),
    End(stamp=at(7), key="end"),
]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines()]


def record(folder: Path, events: Sequence[Event] = RUN, **options: Any) -> RecordReport:
    source = options.pop("source", None) or Script(events)
    session = options.pop("session", PHONE)
    try:
        return record_study(folder, source, session, **options)
    finally:
        assert getattr(source, "closed", True)


# labels


def test_a_whole_run_gives_exact_labels(tmp_path: Path, library: ActionLibrary) -> None:
    report = record(tmp_path / "set", library=library)
    labels = [
        (r["step"], r["previous_action"], r["next_action"], r["remaining_actions"], r["is_last"], r["end_state"])
        for r in rows_of(tmp_path / "set")
    ]
    assert labels == [
        (1, "none", "unscrew", ["unscrew", "pry", "pull_battery"], False, False),
        (1, "none", "unscrew", ["unscrew", "pry", "pull_battery"], False, False),
        (2, "unscrew", "pry", ["pry", "pull_battery"], False, False),
        (4, "pull_battery", "end", [], False, True),
    ]
    assert [r["stamp_ns"] for r in rows_of(tmp_path / "set")] == [at(s) for s in (0, 1, 3, 6)]
    assert [r["group"] for r in rows_of(tmp_path / "set")][1:3] == ["x1 run 1 step 1", "x1 run 1 step 2"]
    assert (report.images, report.steps, report.complete, report.flagged) == (4, {1: 2, 2: 1, 4: 1}, True, ())
    data = StudyData.load(tmp_path / "set")
    assert (len(data.samples), data.problems, data.actions) == (4, (), tmp_path / "set" / "actions.yaml")
    assert not (tmp_path / "set" / JOURNAL).exists()


def test_the_folder_can_be_imported(tmp_path: Path, library: ActionLibrary) -> None:
    record(tmp_path / "set", library=library)
    embedder = get_embedder("hash")
    with CaseBase.in_memory(embedder.identity) as base:
        done_ = import_folder(tmp_path / "set", base, embedder)
        assert (done_.added, done_.failed, done_.skipped) == (4, (), ())


def test_a_run_that_is_not_complete_claims_nothing_past_its_last_action(tmp_path: Path) -> None:
    report = record(tmp_path / "set", RUN[:-1])
    first, *_, last = rows_of(tmp_path / "set")
    assert (first["next_action"], first["end_state"]) == ("unscrew", False)
    assert "remaining_actions" not in first
    assert "is_last" not in first
    assert not {"next_action", "remaining_actions", "end_state"} & last.keys()
    assert not report.complete
    # the same, when somebody says that nothing remained
    record(tmp_path / "other", RUN[:-1], complete=True)
    assert rows_of(tmp_path / "other")[-1]["next_action"] == "end"


@given(st.lists(st.sampled_from("abc"), max_size=6), st.data())
def test_labels_agree_with_the_run_they_come_from(run: list[str], data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(run)))
    complete = labels_after(run[:length], run, complete=True)
    assert run[:length] + complete["remaining_actions"] == run
    assert complete["is_last"] == (len(run) - length == 1)
    assert complete["end_state"] == (length == len(run)) == (complete["next_action"] == "end")
    assert labels_after(run[:length], run, complete=False).items() <= complete.items()


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=4), max_size=12))
def test_one_history_has_one_number_and_no_two_share_one(histories: list[list[str]]) -> None:
    steps = Steps()
    given_ = {tuple(h): steps.number(h) for h in histories}
    assert len(set(given_.values())) == len(given_)
    assert all(steps.number(h) == n for h, n in given_.items())
    rows = [{"family": "f", "device": "d", "step": n, "history": list(h)} for h, n in given_.items()]
    again = Steps.of(rows, "f", "d")
    assert all(again.number(h) == n for h, n in given_.items())


def test_a_second_run_shares_its_steps_and_a_branch_gets_its_own(tmp_path: Path) -> None:
    record(tmp_path / "set")
    branch = [picture(100), done("unscrew", 101), done("pull_battery", 102), picture(103)]
    report = record(tmp_path / "set", branch)
    assert report.run == 2
    assert report.steps == {1: 1, 3: 1}  # nobody took a picture after unscrew, pry
    deeper = [picture(200), done("unscrew", 201), done("pry", 202), picture(203)]
    assert record(tmp_path / "set", deeper).steps == {1: 1, 5: 1}
    assert len(rows_of(tmp_path / "set")) == 8
    assert len({r["file_name"] for r in rows_of(tmp_path / "set")}) == 8
    other = record(tmp_path / "set", RUN, session=Session("phone", "y"))
    assert (other.run, other.steps) == (1, {1: 2, 2: 1, 4: 1})


def test_places_and_what_was_done_before(tmp_path: Path) -> None:
    session = Session("phone", "x1", "table", {"pry": "vise"}, ("unscrew",), "none")
    events = [picture(0), done("pry", 1), picture(2), Moved("cnc", stamp=at(3)), picture(4)]
    record(tmp_path / "set", events, session=session)
    rows = rows_of(tmp_path / "set")
    assert [r["place"] for r in rows] == ["table", "vise", "cnc"]
    assert [r["history"] for r in rows] == [["unscrew"], ["unscrew", "pry"], ["unscrew", "pry"]]
    assert [r["step"] for r in rows] == [2, 3, 3]
    assert all("group" not in r for r in rows)


def test_the_rows_of_others_stay_byte_for_byte(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    own = '{"device":"z", "file_name":"mine.jpg","family":"f"}\nnonsense\n'
    (folder / "metadata.jsonl").write_text(own)
    record(folder)
    assert (folder / "metadata.jsonl").read_text().startswith(own)
    assert len((folder / "metadata.jsonl").read_text().splitlines()) == 6


def test_lines_that_are_no_rows_stay_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    own = b'\n{"file_name": ["no", "name"], "family": "f"}\r\n[1]\n{"file_name": "mine.jpg"}'  # and no end of line
    (folder / "metadata.jsonl").write_bytes(own)
    with pytest.raises(KeyboardInterrupt):
        record(folder, source=Script(RUN, stop_at=2))
    record(folder)
    written = (folder / "metadata.jsonl").read_bytes()
    assert written.startswith(own + b"\n")
    assert len(written.removeprefix(own).splitlines()) == 5


def test_metadata_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metadata.jsonl").write_bytes(b'{"file_name": "gr\xf6\xdfe.jpg"}\n')
    with pytest.raises(InputError, match="not UTF-8"):
        record(tmp_path)


def test_devices_that_are_called_alike_do_not_take_each_others_files(tmp_path: Path) -> None:
    sessions = [Session("phone", "x/1"), Session("phone", "x_1"), Session("tablet", "x/1")]
    for n, session in enumerate(sessions):
        one = [Frame(lambda n=n: Shot(jpeg(n), ".jpg"), stamp=at(n), key=f"{n}")]  # type: ignore[misc]
        assert record(tmp_path / "set", one, session=session).run == n + 1
    rows = rows_of(tmp_path / "set")
    assert [(tmp_path / "set" / r["file_name"]).read_bytes() for r in rows] == [jpeg(n) for n in range(3)]
    assert len({r["group"] for r in rows}) == 3


# which pictures


def test_pictures_are_thinned_and_it_is_said(tmp_path: Path) -> None:
    events: list[Event] = [picture(n / 2) for n in range(9)]  # 0 to 4 s
    events.insert(4, done("unscrew", 1.6))
    report = record(tmp_path / "set", events, choice=Choice(every=1.0, settle=1.0, lead=0.5, per_step=2))
    assert [(r["stamp_ns"] - START) / NANO for r in rows_of(tmp_path / "set")] == [0.0, 1.0, 3.0, 4.0]
    # 0.5 and 3.5 s follow too soon; 1.5 s lies before the action, 2 and 2.5 s after it
    assert report.left_out == {
        "less than 1 s after the one before": 3,
        "less than 1 s after an action": 2,
    }
    most = record(tmp_path / "most", events, choice=Choice(per_step=1))
    assert most.steps == {1: 1, 2: 1}
    assert most.left_out == {"1 of its step were there": 7}


def test_no_picture_of_an_action_that_is_being_done(tmp_path: Path) -> None:
    events: list[Event] = [picture(n) for n in range(6)]
    events.insert(4, done("unscrew", 3.5))
    record(tmp_path / "set", events, choice=Choice(lead=2.0))
    assert [(r["stamp_ns"] - START) / NANO for r in rows_of(tmp_path / "set")] == [0, 1, 4, 5]


def test_bad_choices_are_refused() -> None:
    with pytest.raises(InputError, match="settle is -1"):
        Choice(settle=-1)
    with pytest.raises(InputError, match="per_step is 0"):
        Choice(per_step=0)


# the action library


def test_a_name_that_the_library_does_not_have_is_refused_before_anything_is_written(
    tmp_path: Path, library: ActionLibrary
) -> None:
    with pytest.raises(InputError, match=r"at 2 s: unknown action 'unscreww'.*did you mean 'unscrew'"):
        record(tmp_path / "set", [picture(0), done("unscreww", 2)], library=library)
    with pytest.raises(UnknownName, match="unknown family 'fone'"):
        record(tmp_path / "set", session=Session("fone", "x1"), library=library)
    assert not (tmp_path / "set").exists()


def test_an_impossible_action_of_a_bag_is_recorded_and_flagged(tmp_path: Path, library: ActionLibrary) -> None:
    # pry opens; what needs it closed cannot come after
    report = record(tmp_path / "set", [picture(0), done("pry", 1), done("unscrew", 2), picture(3)], library=library)
    assert report.actions == ("pry", "unscrew")
    assert any("at 2 s: unscrew" in line for line in report.flagged)
    sure = record(tmp_path / "sure", [picture(0), done("pry", 1), done("unscrew", 2, sure=True)], library=library)
    assert not any("at 2 s" in line for line in sure.flagged)


def test_an_operator_is_asked_about_an_impossible_action(tmp_path: Path, library: ActionLibrary) -> None:
    told: list[str] = []
    live = [done("pry", 1), done("unscrew", 2), done("nonsense", 3), done("unscrew", 4, sure=True), picture(5)]
    report = record(tmp_path / "set", source=Script(live, live=True), library=library, tell=told.append)
    assert report.actions == ("pry", "unscrew")
    assert any(line.startswith("not recorded: unscrew") and "unscrew !" in line for line in told)
    assert any("unknown action 'nonsense'" in line for line in told)


def test_other_actions_are_not_written_over(tmp_path: Path, library: ActionLibrary) -> None:
    folder = tmp_path / "set"
    record(folder, library=library)
    (folder / "actions.yaml").write_text(LIBRARY.replace("Pry the cover off.", "Pry it."))
    with pytest.raises(InputError, match="holds other actions"):
        record(folder, [picture(100)], library=library)


# stops


def test_a_stop_at_any_event_costs_nothing(tmp_path: Path) -> None:
    record(tmp_path / "unbroken")
    expected = (tmp_path / "unbroken" / "metadata.jsonl").read_text()
    for stop in range(len(RUN)):
        folder = tmp_path / f"stop{stop}"
        with pytest.raises(KeyboardInterrupt):
            record(folder, source=Script(RUN, stop_at=stop))
        assert (folder / JOURNAL).exists() == (stop > 0)
        taken = sum(isinstance(e, Frame) for e in RUN[:stop])
        path = folder / "metadata.jsonl"
        assert (len(rows_of(folder)) if path.exists() else 0) == taken  # each is on disk before the next
        assert record(folder).images == 4
        assert path.read_text() == expected
        assert len(list((folder / "images").iterdir())) == 4


def test_a_stop_does_not_change_the_numbers_of_steps(tmp_path: Path) -> None:
    # the branch's first step has no picture, and takes a number all the same
    branch = [picture(100), done("unscrew", 101), done("cut", 102), done("pry", 103), picture(104)]
    steps = []
    for stop in (None, 3):
        folder = tmp_path / f"{stop}"
        record(folder, [picture(0), done("unscrew", 1), done("pry", 2), picture(3)])
        if stop:
            with pytest.raises(KeyboardInterrupt):
                record(folder, source=Script(branch, stop_at=stop))
        record(folder, branch)
        steps.append([r["step"] for r in rows_of(folder)])
    assert steps[0] == steps[1] == [1, 3, 1, 5]


def test_a_journal_that_was_taken_away_while_it_was_opened_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def late(file: Any, how: int) -> None:
        Path(file.name).unlink()
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(InputError, match="busy .*try again"):
        LineFile(tmp_path / "x", "busy")


def test_after_a_stop_no_picture_slips_into_another_step(tmp_path: Path) -> None:
    # those of before the stop that were left out stay left out, though the history has gone on
    events: list[Event] = [picture(0.0), picture(0.1), done("unscrew", 1), done("pry", 2), picture(3)]
    folder = tmp_path / "set"
    with pytest.raises(KeyboardInterrupt):
        record(folder, source=Script(events, stop_at=4), choice=Choice(every=1))
    record(folder, events, choice=Choice())
    assert [r["step"] for r in rows_of(folder)] == [1, 3]


def test_lines_that_a_kill_cut_off_are_mended(tmp_path: Path) -> None:
    record(tmp_path / "unbroken")
    folder = tmp_path / "set"
    with pytest.raises(KeyboardInterrupt):
        record(folder, source=Script(RUN, stop_at=4))
    for name in (JOURNAL, "metadata.jsonl"):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:-9])
    record(folder)
    assert (folder / "metadata.jsonl").read_text() == (tmp_path / "unbroken" / "metadata.jsonl").read_text()


def test_an_open_recording_is_ended_as_it_is(tmp_path: Path, library: ActionLibrary) -> None:
    folder = tmp_path / "set"
    with pytest.raises(KeyboardInterrupt):
        record(folder, source=Script(RUN, stop_at=4))
    report = finish_recording(folder, library=library)
    assert (report.images, report.actions, report.complete, report.resumed) == (3, ("unscrew",), False, True)
    assert "next_action" not in rows_of(folder)[-1]
    with pytest.raises(InputError, match="no recording is open"):
        finish_recording(folder)


def test_another_session_does_not_go_on_with_an_open_recording(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    with pytest.raises(KeyboardInterrupt):
        record(folder, source=Script(RUN, stop_at=2))
    with pytest.raises(InputError, match=r"another recording is open in it: device 'x1', not 'y'"):
        record(folder, session=Session("phone", "y"))
    with Recording(folder, PHONE), pytest.raises(InputError, match="another process is recording"):
        record(folder)


def test_a_picture_that_cannot_be_used_stops_nothing(tmp_path: Path) -> None:
    def broken() -> Shot:
        raise NotAPicture("frame 2: is no picture")

    report = record(tmp_path / "set", [picture(0), Frame(broken, stamp=at(1), key="x", where="frame 2"), picture(2)])
    assert report.images == 2
    assert report.left_out == {"cannot be used": 1}
    assert report.flagged == ("frame 2: frame 2: is no picture",)


SCRIPT = """
import os, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from test_study_dataset_record import RUN, Script, PHONE, record_study

class Killed(Script):
    def events(self):
        for number, event in enumerate(super().events()):
            if number == int(sys.argv[2]):
                os.kill(os.getpid(), 9)
            yield event

record_study(Path(sys.argv[1]), Killed(RUN), PHONE)
"""


def test_a_kill_costs_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(paths=[str(Path(__file__).parent)]))
    folder = tmp_path / "set"
    assert subprocess.run([sys.executable, script, folder, "6"], check=False).returncode == -9
    assert len(rows_of(folder)) == 3
    record(folder)
    record(tmp_path / "unbroken")
    assert (folder / "metadata.jsonl").read_text() == (tmp_path / "unbroken" / "metadata.jsonl").read_text()


def test_a_folder_of_something_else_is_refused(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    told = []
    for name in ("dataset.json", "metadata.csv", "mine.txt"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("{}")
        with pytest.raises(InputError) as caught:
            record(folder)
        told.append(str(caught.value).replace(str(tmp_path), ""))
        assert os.listdir(folder) == [name]
    assert told == snapshot


def test_the_same_pictures_do_not_come_in_twice(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    record(folder, [picture(0, extra={"source": "a.bag"})])
    with pytest.raises(InputError, match=r"a\.bag: was recorded into .* already"):
        record(folder, [picture(0, extra={"source": "a.bag"})])
    assert not (folder / JOURNAL).exists()


# lines and times


def outcome(function: Callable[..., Any], text: str) -> tuple[Any, str]:
    """What a parser makes of a text, or what it says against it."""
    try:
        return function(text, where="line 1"), ""
    except InputError as error:
        return None, error.message


@given(st.text(max_size=30))
def test_any_line_is_an_event_or_a_clear_refusal(text: str) -> None:
    event, told = outcome(parse_line, text)
    assert not told or told.startswith("line 1: ")
    if isinstance(event, Done):
        assert event.action
        assert not event.action.startswith("#")
        assert not any(c.isspace() for c in event.action)


def test_lines() -> None:
    assert parse_line("  lever # done", where="") == Done("lever")
    assert parse_line("lever !", where="") == Done("lever", True)
    assert parse_line("lever!", where="") == Done("lever", True)
    assert parse_line("at vise", where="") == Moved("vise")
    assert parse_line("end", where="") == End()
    assert parse_line(" # nothing", where="") is None
    for wrong in ("place in vise", "at", "end !", "!", "snap !", "at vise !"):
        with pytest.raises(InputError, match="is no event"):
            parse_line(wrong, where="line 1")


@given(st.integers(0, 9_999_999_999), st.integers(0, NANO - 1))
def test_times_are_exact_to_the_nanosecond(seconds: int, nanoseconds: int) -> None:
    assert parse_time(f"{seconds}.{nanoseconds:09d}", where="") == ("at", seconds * NANO + nanoseconds)
    assert parse_time(f"+{seconds}.{nanoseconds:09d}", where="") == ("after", seconds * NANO + nanoseconds)


def test_times() -> None:
    assert parse_time("12", where="") == ("at", 12 * NANO)
    assert parse_time("+1.5", where="") == ("after", 3 * NANO // 2)
    assert parse_time("1e3", where="") == ("at", 1000 * NANO)
    assert parse_time("1970-01-01T01:00:00.25+01:00", where="") == ("at", NANO // 4)
    for wrong in ("soon", "nan", "inf", "2025-01-01T00:00:00", "1e30", ""):
        with pytest.raises(InputError):
            parse_time(wrong, where="line 1")


@given(st.text(max_size=20))
def test_any_time_is_one_or_a_clear_refusal(text: str) -> None:
    found, told = outcome(parse_time, text)
    assert told.startswith("line 1: ") if found is None else found[0] in ("at", "after")


def test_a_file_of_events(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"
    path.write_text(f"# who did what\n+2.5,pry\n{START // NANO + 1} unscrew  # first\n\n+3 at vise\n+4, end\n")
    events = read_events(path, START)
    assert [type(e) for e in events] == [Done, Done, Moved, End]
    assert [e.stamp - START for e in events if e.stamp] == [NANO, 5 * NANO // 2, 3 * NANO, 4 * NANO]
    path.write_text("+1\tpry\n+2 ,\tat vise\n")
    assert [type(e) for e in read_events(path, START)] == [Done, Moved]
    for text, why in (("+1", "without an event"), ("+1 snap", "in the past"), ("x pry", "is no time")):
        path.write_text(f"\n{text}\n")
        with pytest.raises(InputError, match=f"line 2: .*{why}"):
            read_events(path, START)
    path.write_text("+1 pry")
    with pytest.raises(InputError, match="no first picture"):
        read_events(path, None)
    with pytest.raises(InputError, match="No such file"):
        read_events(tmp_path / "none", None)


def test_of_one_moment_the_picture_shows_what_was_before_the_action() -> None:
    frames, events = [picture(1), picture(2)], [done("a", 0), done("b", 1), done("c", 5)]
    assert [e.key for e in merge(frames, events)] == ["a0", "p1", "a1", "p2", "a5"]


# a folder of pictures


def grab(folder: Path, name: str, seconds: float) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(jpeg(round(seconds * 10)))
    os.utime(folder / name, ns=(at(seconds), at(seconds)))


def test_a_folder_with_events(tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    for name, seconds in (("b.jpg", 0), ("a.jpg", 1), ("c.jpeg", 3)):
        grab(frames, name, seconds)
    (frames / "broken.png").write_bytes(b"nothing")
    os.utime(frames / "broken.png", ns=(at(4), at(4)))
    (tmp_path / "events.txt").write_text("+2 unscrew\n+5 end\n")
    report = record(tmp_path / "set", source=FramesSource(frames, events=tmp_path / "events.txt"))
    rows = rows_of(tmp_path / "set")
    assert [(r["step"], r["source"]) for r in rows] == [(1, "frames/b.jpg"), (1, "frames/a.jpg"), (2, "frames/c.jpeg")]
    assert [(tmp_path / "set" / r["file_name"]).read_bytes() for r in rows] == [jpeg(0), jpeg(10), jpeg(30)]
    assert report.complete
    assert len(report.flagged) == 1
    assert "broken.png" in report.flagged[0]


def test_depth_beside_a_picture_comes_along_if_it_fits(tmp_path: Path) -> None:
    import numpy as np

    from folders import png

    frames = tmp_path / "frames"
    for number, shape in enumerate([(24, 32), (5, 5)]):
        grab(frames, f"{number}.jpg", number)
        (frames / f"{number}_depth.png").write_bytes(png(np.full(shape, 700, np.uint16)))
    (tmp_path / "events.txt").write_text("")
    report = record(tmp_path / "set", source=FramesSource(frames, events=tmp_path / "events.txt"))
    rows = rows_of(tmp_path / "set")
    assert (report.images, report.depth_images) == (2, 1)
    depth = tmp_path / "set" / rows[0]["depth_file_name"]
    assert depth.read_bytes() == (frames / "0_depth.png").read_bytes()
    assert "5x5" in report.flagged[0]


def test_a_folder_that_fills_while_somebody_says_what_is_done(tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    frames.mkdir()

    def lines() -> Iterator[str]:
        whole = jpeg(1)
        (frames / "1.jpg").write_bytes(whole[:200])  # half written when the line comes
        yield "nonsense line\n"
        time.sleep(0.05)
        (frames / "1.jpg").write_bytes(whole)
        (frames / "2.jpg").write_bytes(jpeg(2))
        yield "unscrew\n"
        time.sleep(1.0)
        (frames / "3.jpg").write_bytes(jpeg(3))
        yield "end\n"

    refused: list[str] = []
    source = FramesSource(frames, lines=Lines(lines()), refuse=refused.append)
    report = record(tmp_path / "set", source=source)
    assert [(r["source"], r["step"]) for r in rows_of(tmp_path / "set")] == [
        ("frames/1.jpg", 1),
        ("frames/2.jpg", 1),
        ("frames/3.jpg", 2),
    ]
    assert report.complete
    assert len(refused) == 1


def test_a_folder_needs_events_or_lines(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a file of events or lines"):
        FramesSource(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        FramesSource(tmp_path / "none")


# a camera


class FakeCapture:
    """A camera that counts its pictures in their pixels, and buffers old ones."""

    broken_after: int | None = None

    def __init__(self, which: object) -> None:
        self.which, self.released = which, False
        self._count = itertools.count()

    def isOpened(self) -> bool:
        return self.which != 9

    def read(self) -> tuple[bool, Any]:
        import numpy as np

        time.sleep(0.002)
        number = next(self._count)
        if self.broken_after is not None and number >= self.broken_after:
            return False, None
        pixels = np.zeros((24, 32, 3), np.uint8)
        pixels[:, :, 0], pixels[:, :, 2] = 200, number % 200
        return True, pixels

    def release(self) -> None:
        self.released = True


@pytest.fixture
def cv2(monkeypatch: pytest.MonkeyPatch) -> type[FakeCapture]:
    import types

    module = types.ModuleType("cv2")
    module.VideoCapture = FakeCapture  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cv2", module)
    monkeypatch.setattr(FakeCapture, "broken_after", None)
    return FakeCapture


def test_a_camera_takes_what_is_asked_for_and_it_is_fresh(cv2: type[FakeCapture], tmp_path: Path) -> None:
    from PIL import Image

    asked: list[int] = []

    def lines() -> Iterator[str]:
        for line in ("snap", "unscrew", "snap", "at vise", "snap", "what is this", "end", "never"):
            time.sleep(0.15)
            asked.append(time.time_ns())
            yield f"{line}\n"

    refused: list[str] = []
    report = record(tmp_path / "set", source=CameraSource(0, Lines(lines()), refuse=refused.append))
    rows = rows_of(tmp_path / "set")
    assert [(r["step"], r.get("place")) for r in rows] == [(1, None), (2, None), (2, "vise")]
    for row, when in zip(rows, (asked[0], asked[2], asked[4]), strict=True):
        assert row["stamp_ns"] > when
    pixels = Image.open(tmp_path / "set" / rows[0]["file_name"]).getpixel((0, 0))
    assert isinstance(pixels, tuple)
    assert pixels[2] == 200  # blue came first
    assert report.complete
    assert len(refused) == 1


def test_a_camera_takes_pictures_in_an_interval(cv2: type[FakeCapture], tmp_path: Path) -> None:
    def lines() -> Iterator[str]:
        time.sleep(0.5)
        yield "end\n"

    report = record(tmp_path / "set", source=CameraSource(0, Lines(lines()), interval=0.1))
    assert 2 <= report.images <= 6


def test_a_camera_that_breaks_leaves_the_recording_open(
    cv2: type[FakeCapture], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagehand.study.dataset.camera.PATIENCE", 0.3)
    monkeypatch.setattr(FakeCapture, "broken_after", 100)

    def lines() -> Iterator[str]:
        yield "snap\n"
        yield "unscrew\n"
        time.sleep(0.6)
        yield "snap\n"

    with pytest.raises(InputError, match="gives no picture any more"):
        record(tmp_path / "set", source=CameraSource("rtsp://x", Lines(lines())))
    monkeypatch.setattr(FakeCapture, "broken_after", None)
    report = record(tmp_path / "set", source=CameraSource(0, Lines(["snap\n", "end\n"])))
    assert (report.images, report.actions, report.resumed) == (2, ("unscrew",), True)
    assert [r["step"] for r in rows_of(tmp_path / "set")] == [1, 2]


def test_a_camera_that_is_not_there(cv2: type[FakeCapture]) -> None:
    with pytest.raises(InputError, match="camera 9 cannot be opened"):
        CameraSource(9, Lines([]))
    with pytest.raises(InputError, match="interval is 0"):
        CameraSource(0, Lines([]), interval=0)


# the command


def command(*arguments: object, lines: str = "") -> Any:
    app = typer.Typer(rich_markup_mode=None)
    study_record.register(app)
    return CliRunner().invoke(app, [str(a) for a in arguments], input=lines)


def test_the_command_records_a_folder(tmp_path: Path, snapshot: SnapshotAssertion, library: ActionLibrary) -> None:
    for number in range(3):
        grab(tmp_path / "frames", f"{number}.jpg", number)
    (tmp_path / "events.txt").write_text("+1.5 unscrew\n+9 pry\n+10 pull_battery\n+11 end\n")
    arguments = ["--out", tmp_path / "set", "--family", "phone", "--device", "x1", "--frames", tmp_path / "frames"]
    arguments += ["--events", tmp_path / "events.txt", "--actions", tmp_path / "actions.yaml"]
    arguments += ["--place", "table", "--place-after", "pry=vise"]
    ran = command(*arguments)
    assert ran.exit_code == 0
    assert ran.stdout.replace(str(tmp_path), "") == snapshot
    assert [r["step"] for r in rows_of(tmp_path / "set")] == [1, 1, 2]
    again = command(*arguments)
    assert isinstance(again.exception, InputError)
    assert "was recorded into" in again.exception.message


def test_the_command_reads_lines(tmp_path: Path, cv2: type[FakeCapture]) -> None:
    ran = command(
        "--out",
        tmp_path / "set",
        "--family",
        "f",
        "--device",
        "d",
        "--camera",
        0,
        "--json",
        lines="snap\nx\nsnap\nend\n",
    )
    assert ran.exit_code == 0, ran
    doc = json.loads(ran.stdout)
    assert (doc["images"], doc["actions"], doc["complete"], doc["steps"]) == (2, ["x"], True, {"1": 1, "2": 1})
    assert "x done; step 2" in ran.stderr


def test_the_command_says_how_to_go_on_after_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Script(RUN, stop_at=4)
    monkeypatch.setattr("sagehand.study.dataset.frames.FramesSource", lambda *_, **__: stopped)
    ran = command("--out", tmp_path / "set", "--family", "f", "--device", "d", "--frames", tmp_path)
    assert (ran.exit_code, ran.stdout, stopped.closed) == (130, "", True)
    assert "Run the same command again to go on, or with --finish to end it" in ran.stderr
    ended = json.loads(command("--out", tmp_path / "set", "--finish", "--json").stdout)
    assert (ended["images"], ended["actions"], ended["complete"]) == (3, ["unscrew"], False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--family", "f"], "needs --family and --device"),
        (["--family", "f", "--device", "d"], "no source was named"),
        (["--family", "f", "--device", "d", "--camera", "0", "--bag", "x"], "--camera and --bag were named"),
        (["--family", "f", "--device", "d", "--camera", "0", "--image-topic", "x"], "topics are a bag's"),
        (["--family", "f", "--device", "d", "--camera", "0", "--events", "x"], "--events is for a bag"),
        (["--family", "f", "--device", "d", "--place-after", "x"], "is no ACTION=PLACE"),
        (["--finish"], "no recording is open"),
    ],
)
def test_what_the_command_refuses(tmp_path: Path, arguments: list[str], message: str) -> None:
    ran = command("--out", tmp_path / "set", *arguments)
    assert isinstance(ran.exception, InputError)
    assert message in ran.exception.message
    assert not (tmp_path / "set").exists()


def test_lines_end() -> None:
    lines = Lines(io.StringIO("a\nb\n"), "x")
    found = [lines.wait(1), lines.wait(1), lines.wait(1)]
    assert [f and (f[0], f[1]) for f in found] == [("a\n", "x, line 1"), ("b\n", "x, line 2"), None]
    assert lines.ended
