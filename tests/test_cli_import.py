"""``cases import`` when things go wrong midway: Ctrl-C, a full disk, a folder that cannot be written, broken lines."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from command_line import LIBRARY, Ran, enter, files_below, phone_base, phone_folder, photo, row, run, state
from folders import write_rows
from sagehand.cases import CaseBase

SAGEHAND = [sys.executable, "-m", "sagehand"]
IMPORT = ["cases", "import", "many", "--into", "p.cases", "--embedder", "hash"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)


def many(number: int) -> Path:
    """A folder of many pictures of one phone, large enough that reading them takes a while."""
    folder = Path("many")
    folder.mkdir()
    rows = []
    for view in range(number):
        photo(1 + view % 4, view, size=(320, 240)).save(folder / f"{view:03}.png", compress_level=1)
        rows.append({**row(1 + view % 4, view), "file_name": f"{view:03}.png"})
    write_rows(folder, rows)
    return folder


def run_apart(*arguments: str, **options: Any) -> Ran:
    """Run a command in a process of its own."""
    done = subprocess.run([*SAGEHAND, *arguments], capture_output=True, text=True, check=False, timeout=60, **options)
    return Ran(done.returncode, done.stdout, done.stderr)


def cases_of(base: Path) -> dict[str, tuple[Any, ...]]:
    """Everything that must be the same whether an import was stopped or not."""
    with CaseBase.open(base) as opened:
        index = opened.index()
        vectors = {case.id: index.vectors[n].tobytes() for n, case in enumerate(index.cases)}
        return {c.id: (c, opened.line(c.id), opened.image(c.id), vectors[c.id]) for c in opened.cases()}


def test_ctrl_c_keeps_what_was_read_and_the_same_command_goes_on() -> None:
    many(200)
    base = Path("p.cases")
    with subprocess.Popen(
        [*SAGEHAND, *IMPORT, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as p:
        give_up = time.monotonic() + 30
        while not (base.exists() and state(base)[0] >= 32):
            assert p.poll() is None, "the import ended before it could be stopped"
            assert time.monotonic() < give_up
            time.sleep(0.01)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=30)
    assert p.returncode == 130, err
    assert err == "stopped; what was read is kept. Run the same command again to go on\n"
    stopped = json.loads(out)
    assert stopped["interrupted"] is True
    assert 32 <= stopped["added"] < 200
    assert state(base) == (stopped["added"], stopped["added"], "ok")
    on = run(*IMPORT, "--json")
    assert (on.code, on.err) == (0, "")
    assert (on.json["unchanged"], on.json["added"]) == (stopped["added"], 200 - stopped["added"])
    whole = run("cases", "import", "many", "--into", "whole.cases", "--embedder", "hash", "--json")
    assert whole.json["calibration"] == on.json["calibration"] is not None
    assert cases_of(base) == cases_of(Path("whole.cases"))
    assert files_below(Path()) == {"p.cases", "whole.cases", *(f"many/{p.name}" for p in Path("many").iterdir())}


def test_ctrl_c_elsewhere_is_130_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sagehand.study.check

    def stopped(*arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sagehand.study.check, "check", stopped)
    ran = run("cases", "check", phone_base(tmp_path))
    assert (ran.code, ran.out, ran.err) == (130, "", "interrupted\n")


def test_an_import_that_was_stopped_before_it_calibrated_calibrates_when_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sagehand.recall.build

    folder = phone_folder(Path("phones"), views=2)
    command = ("cases", "import", folder, "--into", "p.cases", "--embedder", "hash")
    assert run(*command).code == 0
    photo(1, 7).save(folder / "more.png")
    with (folder / "metadata.jsonl").open("a") as table:
        table.write(json.dumps({**row(1, 7), "file_name": "more.png"}) + "\n")
    with monkeypatch.context() as patch:

        def stopped(*arguments: Any, **named: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(sagehand.recall.build, "calibrate", stopped)
        assert run(*command).code == 130
    again = run(*command, "--json").json
    assert (again["added"], again["unchanged"]) == (0, 9)
    assert again["calibration"]["queries"] == 9
    warnings = run("predict", folder / "more.png", "--cases", "p.cases", "--json").json["warnings"]
    assert not any("calibration" in w for w in warnings)


def test_a_disk_that_runs_full(monkeypatch: pytest.MonkeyPatch) -> None:
    import sagehand.cases.store

    many(120)
    connect = sagehand.cases.store._connect

    def on_a_small_disk(path: Path, read_only: bool) -> Any:
        connection = connect(path, read_only)
        connection.execute("PRAGMA max_page_count = 130")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sagehand.cases.store, "_connect", on_a_small_disk)
        told = run(*IMPORT).error
    base = Path("p.cases")
    active, changes, verdict = state(base)
    assert (active, verdict) == (changes, "ok")
    assert 0 < active < 120
    kept = f"free some space, then try again; {active} cases before it are kept; run the import again to go on"
    assert told == f"error: p.cases: the disk is full; nothing was written ({kept})"
    on = run(*IMPORT, "--json").json
    assert (on["unchanged"], on["added"]) == (active, 120 - active)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root to mount a small disk")
def test_a_real_disk_that_runs_full() -> None:
    many(120)
    Path("disk").mkdir()
    script = 'mount -t tmpfs -o size=700k none disk && { "$@"; code=$?; cp disk/p.cases* .; exit $code; }'
    words = [*SAGEHAND, "cases", "import", "many", "--into", "disk/p.cases", "--embedder", "hash"]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *words], capture_output=True, text=True, check=False
    )
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    told = Ran(done.returncode, done.stdout, done.stderr).error
    assert "disk/p.cases: the disk is full; nothing was written" in told
    assert state(Path("p.cases"))[2] == "ok"
    assert run("cases", "import", "many", "--into", "p.cases").code == 0
    assert state(Path("p.cases")) == (120, 120, "ok")


@pytest.mark.slow
def test_a_file_that_may_not_grow() -> None:
    many(60)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    told = run_apart(*IMPORT, preexec_fn=small_files).error
    assert told.startswith("error: p.cases: ")
    active, changes, verdict = state(Path("p.cases"))
    assert (active, verdict) == (changes, "ok")
    assert active < 60
    assert run(*IMPORT).code == 0
    assert state(Path("p.cases")) == (60, 60, "ok")


ROOT = os.geteuid() == 0


SEVERAL = """
import json, sys
from dataclasses import asdict
from command_line import run
print(json.dumps([asdict(run(*words)) for words in json.loads(sys.argv[1])]))
"""


def run_without_powers(*commands: list[str]) -> list[Ran]:
    """Run commands, one after the other in one process, so that permissions count, for root too."""
    words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if ROOT else []
    words += [sys.executable, "-c", SEVERAL, json.dumps(commands)]
    place = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60, env=place)
    return [Ran(**ran) for ran in json.loads(done.stdout)]


@pytest.mark.skipif(ROOT and shutil.which("setpriv") is None, reason="root may write everywhere, without setpriv")
def test_a_folder_that_cannot_be_written(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    base = phone_base(tmp_path)
    folder = phone_folder(tmp_path / "phones")
    photo(2, 9).save("q.png")
    shutil.copy("q.png", folder)
    write_rows(folder, [{**row(2, 9), "file_name": "q.png"}])
    for path in (base, folder, Path("q.png")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    tmp_path.chmod(0o555)
    before, files = state(base), files_below(tmp_path)
    writes = [
        ["cases", "import", "phones", "--into", "p.cases"],
        ["cases", "import", "phones", "--into", "new.cases", "--embedder", "hash"],
        ["cases", "add", "p.cases", "q.png", "--set", "family=phone", "--set", "device=x1"],
        ["cases", "undo", "p.cases"],
        ["cases", "calibrate", "p.cases"],
        ["cases", "reembed", "p.cases"],
        ["cases", "edit", "rename-device", "p.cases", "phone", "x1", "x9"],
        ["cases", "export", "p.cases", "out"],
    ]
    predict = ["predict", "q.png", "--cases", "p.cases"]
    try:
        told, tree, page, *refused = run_without_powers(
            [*predict, "--json"], ["cases", "tree", "p.cases"], [*predict, "--report", "page.html"], *writes
        )
    finally:
        tmp_path.chmod(0o755)
        folder.chmod(0o755)
    assert (told.code, told.err) == (0, "")
    assert any("the decision was not logged" in warning for warning in told.json["warnings"])
    assert tree.code == 0
    assert (page.code, page.err) == (2, "error: page.html: cannot be written: Permission denied (name another place)\n")
    for words, ran in zip(writes, refused, strict=True):
        assert ran.error == snapshot(name=" ".join(words))
    assert state(base) == before
    assert files_below(tmp_path) == files


def test_broken_lines_are_named_and_the_rest_comes_in(snapshot: SnapshotAssertion) -> None:
    folder = phone_folder(Path("phones"), views=1)
    good = [json.dumps(row(step, 0)) for step in (1, 2, 3, 4)]
    lines = [
        good[0],
        '{"file_name": "s2v0.png", "family": ',
        "",
        good[1],
        '["a", "list"]',
        '{"family": "phone", "device": "x1"}',
        json.dumps({**row(3, 0), "file_name": "../s3v0.png"}),
        json.dumps({**row(3, 0), "file_name": "S3V0.png"}),
        json.dumps({**row(3, 0), "step": -1}),
        good[1],
        json.dumps({**row(4, 0), "file_name": "nowhere.png"}),
        json.dumps({k: v for k, v in row(4, 0).items() if k != "device"}),
    ]
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    ran = run("cases", "import", folder, "--into", "p.cases", "--embedder", "hash")
    assert ran.code == 1
    assert ran.err == snapshot
    assert ran.out.startswith("2 cases added, 0 there already, 0 conflicts, ")
    assert state(Path("p.cases")) == (2, 2, "ok")


def test_labels_that_the_library_does_not_know_stay_out(snapshot: SnapshotAssertion) -> None:
    folder = phone_folder(Path("phones"), views=1)
    rows = [row(step, 0) for step in (1, 2, 3, 4)]
    rows[1]["next_action"] = "prey"
    rows[2]["previous_action"] = "unscrw"
    rows[3]["history"] = ["unscrew", "pry", "pul_battery"]
    write_rows(folder, rows)
    Path("actions.yaml").write_text(LIBRARY)
    ran = run("cases", "import", folder, "--into", "p.cases", "--embedder", "hash", "--actions", "actions.yaml")
    assert ran.code == 1
    assert ran.err == snapshot
    assert state(Path("p.cases")) == (1, 1, "ok")


def test_pictures_without_a_row_are_told_and_are_no_failure() -> None:
    folder = phone_folder(Path("phones"), views=1)
    photo(1, 40).save(folder / "stray.png")
    ran = run("cases", "import", folder, "--into", "p.cases", "--embedder", "hash")
    assert (ran.code, ran.err) == (0, "")
    assert "1 pictures have no row: stray.png" in ran.out


def test_a_conflict_keeps_the_case_that_is_there() -> None:
    folder = phone_folder(Path("phones"), views=1)
    assert run("cases", "import", folder, "--into", "p.cases", "--embedder", "hash").code == 0
    before = cases_of(Path("p.cases"))
    write_rows(folder, [row(1, 0), {**row(2, 0), "next_action": "pull_battery"}, row(3, 0), row(4, 0)])
    ran = run("cases", "import", folder, "--into", "p.cases", "--json")
    assert ran.code == 1
    told = "the same picture is in the case base as 's2v0.png', but next_action is 'pry' there, 'pull_battery' here"
    assert ran.err == f"phones: line 2: s2v0.png: {told}\n"
    assert (ran.json["added"], ran.json["unchanged"], len(ran.json["conflicts"])) == (0, 3, 1)
    assert cases_of(Path("p.cases")) == before


@pytest.mark.slow
def test_the_progress_bar_is_for_a_terminal_only() -> None:
    many(60)
    terminal, end = pty.openpty()
    shown = b""
    with open("out.json", "w") as out:
        colours = {**os.environ, "TERM": "xterm"}
        with subprocess.Popen([*SAGEHAND, *IMPORT, "--json"], stdout=out, stderr=end, env=colours) as process:
            os.close(end)
            with contextlib.suppress(OSError):  # how the end of a terminal reads
                while piece := os.read(terminal, 4096):
                    shown += piece
            os.close(terminal)
    assert process.returncode == 0
    assert b"importing" in shown
    assert json.loads(Path("out.json").read_text())["added"] == 60
    again = run(*IMPORT)
    assert (again.code, again.err) == (0, "")
