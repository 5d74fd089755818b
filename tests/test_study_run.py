"""The runner: one record an item, going on where it stopped, and what is refused (FIELD_REPORTS E01, E03, E04)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from folders import png
from guided import call
from sagehand.errors import InputError, NeedsVlm, NotAPicture, RateLimited, UnknownName
from sagehand.settings import Secret, Settings
from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Answer, Bench
from sagehand.study.run.plan import Plan
from sagehand.study.run.runner import Progress, RunInterrupted, RunReport, run_study
from sagehand.study.run.store import read_run
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import Request
from sagehand.vlm.scripted import Reply, ScriptedBackend
from study_runs import ACTIONS, Maker, plan, right, study_folder, without_times

DEVICES, VIEWS = 5, 4  # held-out with two images a step in the base: 30 queries; new-device: 60


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study_folder(tmp_path_factory.mktemp("d") / "data", devices=DEVICES, views=VIEWS)


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 pictures less 4 kept out of sight: 20 queries when each step of two devices gives one to the base."""
    folder = study_folder(tmp_path_factory.mktemp("d") / "data", devices=2, views=5)
    lines = (folder / "metadata.jsonl").read_text().splitlines(keepends=True)
    (folder / "metadata.jsonl").write_text("".join(lines[:26]))
    return folder


def go(plan_: Plan, out: Path, data: Path, make: Maker, **more: object) -> RunReport:
    return run_study(plan_, out, data=data, make=make, **more)  # type: ignore[arg-type]


class TestGoingOn:
    def test_killed_after_7_of_20_a_rerun_makes_exactly_13_calls(self, tmp_path: Path, twenty: Path) -> None:
        plan_ = plan(per_step=1)
        broken = Maker(until=7)
        with pytest.raises(RuntimeError, match="the power went out") as caught:
            go(plan_, tmp_path / "run", twenty, broken)
        assert "while one, seed 0 answered" in caught.value.__notes__[0]
        assert len(read_run(tmp_path / "run").records) == 7
        rest = Maker()
        report = go(plan_, tmp_path / "run", twenty, rest)
        assert len(rest.asked) == report.answered == 13
        assert report.arms["one"]["n"] == 20
        assert {key for *_, key in broken.asked[:7]}.isdisjoint(key for *_, key in rest.asked)

    def test_totals_after_going_on_equal_those_of_an_unbroken_run(self, tmp_path: Path, twenty: Path) -> None:
        plan_ = plan(per_step=1)
        whole = go(plan_, tmp_path / "whole", twenty, Maker())
        with pytest.raises(RuntimeError):
            go(plan_, tmp_path / "run", twenty, Maker(until=7))
        gone_on = go(plan_, tmp_path / "run", twenty, Maker())
        for report in (whole, gone_on):
            report.arms["one"].pop("seconds")  # type: ignore[attr-defined]
        assert gone_on.arms == whole.arms
        assert (whole.arms["one"]["calls"], whole.arms["one"]["tokens"]) == (20, 2200)
        assert without_times(read_run(tmp_path / "run").records) == without_times(read_run(tmp_path / "whole").records)

    def test_what_is_done_is_not_even_set_up_again(self, tmp_path: Path, data: Path) -> None:
        go(plan(), tmp_path / "run", data, Maker())
        again = Maker()
        report = go(plan(), tmp_path / "run", data, again)
        assert (report.answered, report.missing, again.benches) == (0, 0, [])

    def test_arms_and_seeds_may_be_added(self, tmp_path: Path, data: Path) -> None:
        go(plan(), tmp_path / "run", data, Maker())
        more = Maker()
        report = go(plan("two: {method: random}, one: {method: majority}", seeds=[0, 1]), tmp_path / "run", data, more)
        assert report.answered == 30 * 3
        assert {(arm, seed) for arm, seed, _ in more.asked} == {("two", 0), ("two", 1), ("one", 1)}
        run = read_run(tmp_path / "run")
        assert [arm.name for arm in run.plan.arms] == ["two", "one"]
        # a plan that leaves an arm out does not take its records away
        go(plan("two: {method: random}"), tmp_path / "run", data, Maker())
        run = read_run(tmp_path / "run")
        assert ([arm.name for arm in run.plan.arms], run.plan.seeds) == (["two", "one"], (0, 1))
        assert len(run.records) == 30 * 4

    def test_failed_items_are_asked_again_only_when_told(self, tmp_path: Path, data: Path) -> None:
        def fails(bench: Bench, sample: Sample) -> Answer:
            return Answer(failure="Unreachable") if "_v0" in sample.key else right(bench, sample)

        first = go(plan(protocol="paper"), tmp_path / "run", data, Maker(fails))
        assert first.arms["one"]["failures"] == 15
        assert go(plan(protocol="paper"), tmp_path / "run", data, Maker()).answered == 0
        again = Maker()
        report = go(plan(protocol="paper"), tmp_path / "run", data, again, retry_failed=True)
        assert (report.answered, report.arms["one"]["failures"]) == (15, 0)
        assert (report.arms["one"]["n"], report.arms["one"]["right"]) == (60, 60)

    @pytest.mark.slow
    def test_kill_9_at_40_percent_and_going_on_gives_the_same_records(self, tmp_path: Path, data: Path) -> None:
        go(plan(protocol="paper"), tmp_path / "whole", data, Maker())
        out = tmp_path / "run"
        child = _start(out, data)
        try:
            _wait_for_lines(out / "records.jsonl", 24)
        finally:
            child.kill()
            child.communicate()
        before = (out / "records.jsonl").read_bytes().count(b"\n")
        assert 24 <= before < 60
        rest = Maker()
        report = go(plan(protocol="paper"), out, data, rest)
        assert len(rest.asked) == report.answered == 60 - before
        assert without_times(read_run(out).records) == without_times(read_run(tmp_path / "whole").records)
        states = [session["state"] for session in read_run(out).manifest["sessions"]]
        assert states == ["running", "done"]

    @pytest.mark.slow
    def test_ctrl_c_writes_what_is_under_way_and_a_second_run_is_refused_meanwhile(
        self, tmp_path: Path, data: Path
    ) -> None:
        out = tmp_path / "run"
        child = _start(out, data)
        try:
            _wait_for_lines(out / "records.jsonl", 5)
            with pytest.raises(InputError, match=f"process {child.pid} is writing"):
                go(plan(protocol="paper"), out, data, Maker())
            child.send_signal(signal.SIGINT)
            said, _ = child.communicate(timeout=60)
        finally:
            child.kill()
        run = read_run(out)
        assert said == f"stopped {60 - len(run.records)}\n"
        assert run.manifest["sessions"][-1]["state"] == "interrupted"
        assert run.manifest["sessions"][-1]["answered"] == len(run.records)


RUN_SLOWLY = """
import sys
from pathlib import Path
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import Request
from sagehand.vlm.scripted import Reply, ScriptedBackend
from study_runs import ACTIONS, Maker, plan
from sagehand.study.run.runner import RunInterrupted, run_study
try:
    run_study(plan(protocol="paper"), Path(sys.argv[1]), data=sys.argv[2], make=Maker(wait=0.05), jobs=2)
except RunInterrupted as stop:
    print("stopped", stop.report.missing)
"""


def _start(out: Path, data: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen(
        [sys.executable, "-c", RUN_SLOWLY, str(out), str(data)], env=env, stdout=subprocess.PIPE, text=True
    )


def _wait_for_lines(path: Path, count: int) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} never had {count} lines")


class TestFailures:
    def test_a_server_that_refuses_every_third_call_changes_no_denominator(self, tmp_path: Path, data: Path) -> None:
        calls = iter(range(1, 1000))

        def say(bench: Bench, sample: Sample) -> Answer:
            if next(calls) % 3 == 0:
                raise RateLimited("the server asked to wait")  # the ladder of waits and tries is `Vlm`'s, and is over
            return right(bench, sample)

        arm = go(plan(), tmp_path / "run", data, Maker(say)).arms["one"]
        assert (arm["n"], arm["right"], arm["failures"], arm["errors"]) == (30, 20, 10, 0)
        failed = [r for r in read_run(tmp_path / "run").records if r.failure]
        assert {(r.failure, r.right["next_action"], r.error) for r in failed} == {("RateLimited", False, None)}

    @pytest.mark.parametrize(("attempts", "answered"), [(4, 30), (1, 20)])
    def test_a_model_behind_a_server_that_refuses_every_third_call(
        self, tmp_path: Path, data: Path, attempts: int, answered: int
    ) -> None:
        calls = iter(range(1, 1000))

        def reply(request: Request) -> Reply:
            if next(calls) % 3 == 0:
                return RateLimited("the server asked to wait", retry_after=0.001)
            said = {"previous_action": "none", "next_action": "open", "remaining_actions": ["open", "pull"]}
            return call("PredictActions", {**said, "is_last": False, "device_class": "phone"})

        with Vlm(ScriptedBackend(reply), attempts=attempts) as vlm:
            plan_ = plan("z: {method: zero-shot, guard: false}")
            arm = run_study(plan_, tmp_path / "run", data=data, vlm=vlm).arms["z"]
        assert (arm["n"], arm["failures"], arm["errors"]) == (30, 30 - answered, 0)
        records = read_run(tmp_path / "run").records
        opens = [r for r in records if r.truth["next_action"] == "open" and r.failure is None]
        assert arm["right"] == len(opens) == sum(bool(r.right["next_action"]) for r in records)
        assert {r.failure for r in records} == ({None} if attempts == 4 else {None, "RateLimited"})
        models = read_run(tmp_path / "run").manifest["models"]
        assert (models["z"]["model"], len(models["z"]["prompts"])) == ("scripted", 16)

    def test_a_sample_that_cannot_be_answered_is_an_error_and_stays(self, tmp_path: Path, data: Path) -> None:
        def say(bench: Bench, sample: Sample) -> Answer:
            if sample.step == 2:
                raise NotAPicture(f"{sample.key}: holds no pixels")
            return right(bench, sample)

        arm = go(plan(), tmp_path / "run", data, Maker(say), jobs=3).arms["one"]
        assert (arm["n"], arm["right"], arm["failures"], arm["errors"]) == (30, 20, 0, 10)
        errors = {r.error for r in read_run(tmp_path / "run").records if r.truth["step"] == 2}
        assert all(error.startswith("NotAPicture: d") for error in errors if error is not None)
        assert None not in errors

    def test_anything_else_stops_the_run_and_closes_the_method(self, tmp_path: Path, data: Path) -> None:
        make = Maker(until=4)
        with pytest.raises(RuntimeError):
            go(plan(), tmp_path / "run", data, make, jobs=3)
        assert make.made[0].closed
        run = read_run(tmp_path / "run")
        assert len(run.records) == 4
        assert run.manifest["sessions"][-1]["state"] == "failed"
        go(plan(), tmp_path / "run", data, Maker())  # the folder was let go


class TestNoAnswers:
    """A server that is not there, or that refuses all, is asked ten times and not a thousand (R06)."""

    ARMS = "gone: {method: majority}, there: {method: majority}"

    @staticmethod
    def say(bench: Bench, sample: Sample) -> Answer:
        gone = bench.arm.name == "gone"
        return Answer(failure="Unreachable", reason="nobody listens") if gone else right(bench, sample)

    @pytest.mark.parametrize("jobs", [1, 4])
    def test_the_rest_of_the_arm_is_left_and_others_go_on(self, tmp_path: Path, data: Path, jobs: int) -> None:
        first, notes = Maker(self.say), []
        plan_ = plan(self.ARMS, seeds=[0, 1])
        report = run_study(plan_, tmp_path / "run", data=data, make=first, jobs=jobs, on_note=notes.append)
        asked = [seed for arm, seed, _ in first.asked if arm == "gone"]
        assert 10 <= len(asked) < 10 + jobs
        assert set(asked) == {0}
        assert report.arms["gone"]["failures"] == len(asked)
        assert (report.arms["there"]["n"], report.missing) == (60, 60 - len(asked))
        told = [n for n in notes if "in a row (Unreachable: nobody listens)" in n and "--retry-failed" in n]
        assert [n.split(" items")[0] for n in told] == [f"gone, seed 0: {30 - len(asked)}", "gone, seed 1: 30"]
        assert read_run(tmp_path / "run").manifest["sessions"][-1]["state"] == "failed"
        # the server is back: what failed and what was left is asked, nothing else
        second = Maker()
        report = go(plan_, tmp_path / "run", data, second, retry_failed=True)
        assert len(second.asked) == report.answered == 60
        assert {arm for arm, *_ in second.asked} == {"gone"}
        assert (report.missing, report.arms["gone"]["right"], report.arms["gone"]["failures"]) == (0, 60, 0)

    def test_an_answer_in_between_starts_the_count_anew(self, tmp_path: Path, data: Path) -> None:
        said = iter(range(1000))

        def ninth(bench: Bench, sample: Sample) -> Answer:
            return right(bench, sample) if next(said) % 10 == 9 else Answer(failure="Refused", reason="no")

        report = go(plan(), tmp_path / "run", data, Maker(ninth))
        assert (report.arms["one"]["n"], report.arms["one"]["failures"], report.missing) == (30, 27, 0)

    def test_an_answer_under_way_ends_the_row(self, tmp_path: Path, data: Path) -> None:
        said = iter(range(1000))

        def late(bench: Bench, sample: Sample) -> Answer:
            number = next(said)
            if number == 0:
                time.sleep(0.5)
            return right(bench, sample) if number in (0, *range(11, 30)) else Answer(failure="Refused", reason="no")

        report = go(plan(), tmp_path / "run", data, Maker(late), jobs=2)
        assert (report.arms["one"]["n"], report.arms["one"]["failures"], report.missing) == (30, 10, 0)

    def test_what_is_the_models_own_fault_stops_nothing(self, tmp_path: Path, data: Path) -> None:
        def malformed(bench: Bench, sample: Sample) -> Answer:
            return Answer(failure="Malformed", reason="what?")

        report = go(plan(), tmp_path / "run", data, Maker(malformed))
        assert (report.arms["one"]["failures"], report.missing) == (30, 0)

    @pytest.mark.parametrize("retry_failed", [False, True])
    def test_failures_bind_their_arm_like_answers(self, tmp_path: Path, data: Path, retry_failed: bool) -> None:
        """A rerun that is broken off would leave failures of the old arm beside answers of the new one."""
        go(plan(), tmp_path / "run", data, Maker(lambda *_: Answer(failure="Malformed", reason="what?")))
        with pytest.raises(InputError, match="holds a run of another plan"):
            go(plan("one: {method: random}"), tmp_path / "run", data, Maker(), retry_failed=retry_failed)

    def test_the_row_goes_on_from_unit_to_unit(self, tmp_path: Path, data: Path) -> None:
        """Units of few items, as where one device is left out, are no way round it."""
        small = study_folder(tmp_path / "small", devices=6, views=1)
        gone = Maker(lambda *_: Answer(failure="Unreachable", reason="nobody listens"))
        notes: list[str] = []
        plan_ = plan(protocol="new-device", per_step=1)
        report = run_study(plan_, tmp_path / "run", data=small, make=gone, on_note=notes.append)
        units = len({n.split(":")[0] for n in notes if "are skipped" in n})
        assert len({bench.fold for bench in gone.benches}) > 1
        assert (len(gone.asked), report.missing, units) == (10, 8, 3)

    def test_what_is_skipped_of_what_failed_before_is_counted(self, tmp_path: Path, data: Path) -> None:
        go(plan(), tmp_path / "run", data, Maker(lambda *_: Answer(failure="Malformed", reason="what?")))
        gone, notes = Maker(lambda *_: Answer(failure="Unreachable", reason="nobody listens")), []
        steps: list[Progress] = []
        run_study(
            plan(),
            tmp_path / "run",
            data=data,
            make=gone,
            retry_failed=True,
            on_note=notes.append,
            on_progress=steps.append,
        )
        assert len(gone.asked) == 10
        assert any("20 items are skipped after no answer 10 times in a row" in n for n in notes)
        assert max(s.done for s in steps) == 10


class TestRefused:
    def test_a_changed_arm_is_refused_with_what_differs(self, tmp_path: Path, data: Path, snapshot: object) -> None:
        go(plan(), tmp_path / "run", data, Maker())
        told = []
        for changed in (plan("one: {method: random, guard: false}"), plan(per_step=1), plan(protocol="paper")):
            with pytest.raises(InputError) as caught:
                go(changed, tmp_path / "run", data, Maker())
            told.append(str(caught.value).replace(str(tmp_path), "DIR"))
        # one that is in the plan but not run now must not be rewritten either
        with pytest.raises(InputError) as caught:
            go(plan("one: {method: random}, two: {method: random}"), tmp_path / "run", data, Maker(), only=["two"])
        told.append(str(caught.value).replace(str(tmp_path), "DIR"))
        assert told == snapshot

    def test_other_pictures_are_refused(self, tmp_path: Path, data: Path) -> None:
        go(plan(), tmp_path / "run", data, Maker())
        other = study_folder(tmp_path / "other", devices=3, views=5)
        with pytest.raises(InputError, match=r"the labels of seed 0 changed \(60 pictures then, 45 now\)"):
            go(plan(), tmp_path / "run", other, Maker())
        with pytest.raises(InputError, match="the labels of seed 0"):
            go(plan(seeds=[1]), tmp_path / "run", other, Maker())

    def test_a_plan_that_could_not_be_run_may_be_mended(self, tmp_path: Path, data: Path) -> None:
        with pytest.raises(RuntimeError):
            go(plan(), tmp_path / "run", data, Maker(until=0))
        assert go(plan("one: {method: random}"), tmp_path / "run", data, Maker()).answered == 30

    def test_only_arms_and_seeds_with_records_bind(self, tmp_path: Path, data: Path) -> None:
        with Vlm(ScriptedBackend(lambda _: "x")) as vlm:
            arms = "a: {method: majority}, z: {method: zero-shot}"
            with pytest.raises(RuntimeError):
                go(plan(arms), tmp_path / "run", data, Maker(until=30), vlm=vlm)
            assert read_run(tmp_path / "run").manifest["arms"]["z"]["model"] == "scripted"
            changed = plan("a: {method: majority}, z: {method: zero-shot, guard: false}", seeds=[0, 1])
            assert go(changed, tmp_path / "run", data, Maker(), vlm=vlm).answered == 90

    def test_a_mended_picture_is_said_and_refuses_nothing(self, tmp_path: Path) -> None:
        folder = study_folder(tmp_path / "data", views=4)
        plan_ = plan("one: {method: majority}, n: {method: nearest}", protocol="paper")
        go(plan_, tmp_path / "run", folder, Maker(), only=["n"])
        picture = folder / "d0_s1_v0.jpg"
        (before,) = (tmp_path / "run" / "bases").iterdir()
        picture.write_bytes(picture.read_bytes() + b"\0" * 9)
        notes: list[str] = []
        report = go(
            plan("one: {method: majority}, n: {method: nearest}, m: {method: nearest, guard: false}", protocol="paper"),
            tmp_path / "run",
            folder,
            Maker(),
            on_note=notes.append,
        )
        assert (report.answered, report.missing) == (48, 0)
        (line,) = notes
        assert line.startswith("pictures of seed 0 changed since 20")
        assert line.endswith("; answers given before stay")
        assert len(set((tmp_path / "run" / "bases").iterdir()) - {before}) == 1
        notes.clear()
        go(plan_, tmp_path / "run", folder, Maker(), on_note=notes.append)
        assert notes == []

    def test_an_older_runs_digest_of_sizes_binds_nobody(self, tmp_path: Path, data: Path) -> None:
        go(plan(), tmp_path / "run", data, Maker())
        path = tmp_path / "run" / "manifest.json"
        manifest = json.loads(path.read_text())
        del manifest["data"]["0"]["pictures"]
        manifest["data"]["0"]["digest"] = "of sizes, too"
        path.write_text(json.dumps(manifest))
        assert go(plan(), tmp_path / "run", data, Maker()).missing == 0

    def test_a_folder_of_something_else_is_left_alone(self, tmp_path: Path, data: Path) -> None:
        before = sorted(p.name for p in data.iterdir())
        with pytest.raises(InputError, match="is no run folder and is not empty"):
            go(plan(), data, data, Maker())
        assert sorted(p.name for p in data.iterdir()) == before

    def test_what_would_stop_the_run_later_is_told_before_anything_is_asked(self, tmp_path: Path, data: Path) -> None:
        make = Maker()
        with pytest.raises(NeedsVlm, match="arm 'two'.*asks a vision-language model"):
            go(plan("one: {method: majority}, two: {method: guided}"), tmp_path / "run", data, make)
        with pytest.raises(UnknownName, match="embedder"):
            go(plan("one: {method: nearest, embedder: hsh}"), tmp_path / "run", data, make)
        with pytest.raises(UnknownName, match="unknown arm 'on'"):
            go(plan(), tmp_path / "run", data, make, only=["on"])
        with pytest.raises(InputError, match="seed 7 is not in the plan"):
            go(plan(), tmp_path / "run", data, make, seeds=[7])
        with pytest.raises(InputError, match="no pictures were named"):
            run_study(plan(), tmp_path / "run", make=make)
        assert make.asked == []
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("arm", "message"),
        [
            ("{method: nearest, options: {k: 3}}", "unknown option of the method 'nearest' 'k'"),
            ("{method: classifier, options: {epochs: 0}}", "option 'epochs' is 0"),
            ("{method: context, risk: 0.1}", "no calibrated belief, so it cannot hold a risk"),
            ("{method: classifier, domain: true}", "no calibrated belief, so it cannot test the domain"),
        ],
    )
    def test_a_mistake_in_the_last_arm_is_told_first(self, tmp_path: Path, data: Path, arm: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            run_study(plan(f"one: {{method: random}}, two: {arm}"), tmp_path / "run", data=data)
        assert not (tmp_path / "run").exists()

    def test_labels_that_the_actions_do_not_know(self, tmp_path: Path, data: Path) -> None:
        (tmp_path / "actions.yaml").write_text(ACTIONS.replace("  open:", "  opn:"))
        plan_ = plan(actions=tmp_path / "actions.yaml")
        with pytest.raises(InputError, match=r"40 labels do not fit the actions of .*did you mean 'opn'"):
            go(plan_, tmp_path / "run", data, Maker())


class TestBench:
    def test_a_bench_has_what_its_protocol_allows(self, tmp_path: Path, data: Path) -> None:
        make = Maker()
        arms = "n: {method: nearest, protocol: new-device}, r: {method: random}"
        go(plan(arms, certify=1), tmp_path / "run", data, make)
        *nearest, other = make.benches
        assert [bench.fold for bench in nearest] == list(range(DEVICES))
        for bench in nearest:
            assert bench.base is not None
            assert (len(bench.train), len(bench.certify)) == (24, 12)
        assert other.base is None
        assert other.library is not None
        assert other.library.families == ("phone",)
        assert other.settings["depth_unit"] == "mm"

    def test_the_cases_are_named_as_the_samples_and_the_base_is_calibrated(self, tmp_path: Path, data: Path) -> None:
        seen: list[tuple[set[str], object, int]] = []

        def say(bench: Bench, sample: Sample) -> Answer:
            assert bench.base is not None
            if not seen:
                names = {case.file_name for case in bench.base.cases()}
                seen.append((names, bench.base.calibration(), bench.base.revision))
            return Answer(case=bench.base.cases()[0].file_name)

        make = Maker(say)
        go(plan("n: {method: nearest}"), tmp_path / "run", data, make)
        names, calibration, revision = seen[0]
        assert names == {s.key for s in make.benches[0].train}
        assert isinstance(calibration, dict)
        assert (calibration["leave_out"], calibration["revision"]) == ("case", revision)

    def test_bases_are_shared_by_arms_and_built_once(self, tmp_path: Path, data: Path) -> None:
        arms = "a: {method: nearest}, b: {method: perceptual}, c: {method: nearest, protocol: new-device}"
        go(plan(arms), tmp_path / "run", data, Maker())
        bases = sorted((tmp_path / "run" / "bases").iterdir())
        assert len(bases) == 1 + DEVICES
        assert {path.suffix for path in bases} == {".cases"}
        made = {path: path.stat().st_mtime_ns for path in bases}
        go(plan(arms + ", d: {method: context}"), tmp_path / "run", data, Maker())
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "bases").iterdir()} == made

    def test_a_base_with_a_picture_that_cannot_be_used_is_gone_on_with(self, tmp_path: Path) -> None:
        folder = study_folder(tmp_path / "data")
        plan_ = plan("n: {method: nearest}", protocol="paper", per_step=4)
        broken = folder / "d1_s2_v1.jpg"
        good = broken.read_bytes()
        broken.write_bytes(b"\xff\xd8\xff" + b"0" * (len(good) - 3))  # the same size: the same pictures
        with pytest.raises(InputError, match=r"1 of 24 pictures cannot be used; the first: d1_s2_v1.jpg"):
            go(plan_, tmp_path / "run", folder, Maker())
        broken.write_bytes(good)
        make = Maker()
        report = go(plan_, tmp_path / "run", folder, make)
        assert report.arms["n"]["n"] == 24
        assert [path.suffix for path in (tmp_path / "run" / "bases").iterdir()] == [".cases"]

    @pytest.mark.parametrize("gone", [False, True])
    def test_a_base_that_cannot_be_built_skips_its_unit_alone(self, tmp_path: Path, gone: bool) -> None:
        folder = study_folder(tmp_path / "data")
        plan_ = plan("a: {method: majority}, n: {method: nearest}, z: {method: random}", protocol="paper", per_step=4)
        broken = folder / "d1_s2_v1.jpg"
        good = broken.read_bytes()
        broken.unlink() if gone else broken.write_bytes(b"\xff\xd8\xff")
        for answered in (48, 0):
            report = go(plan_, tmp_path / "run", folder, Maker())
            assert (report.answered, report.missing, list(report.arms)) == (answered, 24, ["a", "z"])
            (line,) = report.notes
            assert "the case base of n, seed 0: 1 of 24 pictures cannot be used; the first: d1_s2_v1.jpg" in line
            assert line.endswith("24 items are skipped")
        assert read_run(tmp_path / "run").manifest["sessions"][-1]["state"] == "failed"
        broken.write_bytes(good)
        report = go(plan_, tmp_path / "run", folder, Maker())
        assert (report.answered, report.missing) == (24, 0)

    def test_a_model_that_fails_to_crop_is_said_to_have_failed(self, tmp_path: Path, data: Path) -> None:
        arms = "a: {method: majority}, n: {method: nearest, crop: grid}"
        with Vlm(ScriptedBackend(lambda _: RateLimited("the server asked to wait")), attempts=1) as vlm:
            report = go(plan(arms), tmp_path / "run", data, Maker(), vlm=vlm)
            assert (report.answered, report.missing) == (30, 30)
            (line,) = report.notes
            assert "the case base of n, seed 0: the model that crops failed on 30 of 30 pictures" in line
            assert "run again: it is asked again" in line
            with pytest.raises(InputError, match="the model that crops failed"):
                go(plan(arms), tmp_path / "run", data, Maker(), vlm=vlm, only=["n"])

    @pytest.mark.parametrize(("protocol", "certify", "said"), [("held-out", 0, 1), ("paper", 0, 1), ("held-out", 1, 0)])
    def test_a_risk_without_pictures_kept_apart_is_said(
        self, tmp_path: Path, data: Path, protocol: str, certify: int, said: int
    ) -> None:
        plan_ = plan("p: {method: perceptual, risk: 0.2}", protocol=protocol, certify=certify, seeds=[0, 1])
        notes = go(plan_, tmp_path / "run", data, Maker()).notes
        assert len(notes) == said
        assert all("nothing is kept apart" in line and "certify: 8" in line for line in notes)

    def test_each_seed_may_have_its_own_folder(self, tmp_path: Path) -> None:
        for seed in (0, 1):
            study_folder(tmp_path / f"data-{seed}", seed=seed, views=3 + seed)
        make = Maker()
        report = go(plan(protocol="paper", seeds=[0, 1]), tmp_path / "run", tmp_path / "data-{seed}", make)
        assert report.arms["one"]["n"] == 18 + 24
        manifest = read_run(tmp_path / "run").manifest
        assert [manifest["data"][seed]["samples"] for seed in ("0", "1")] == [18, 24]
        assert manifest["data"]["0"]["digest"] != manifest["data"]["1"]["digest"]

    def test_a_risk_is_certified_on_the_pictures_kept_apart(self, tmp_path: Path, data: Path) -> None:
        seen = []

        def say(bench: Bench, sample: Sample) -> Answer:
            assert bench.base is not None
            seen.append(bench.base.calibration())
            return right(bench, sample)

        go(plan("p: {method: perceptual, risk: 0.2}", certify=1), tmp_path / "run", data, Maker(say), jobs=1)
        calibration = seen[0]
        assert calibration is not None
        assert calibration["answers_from"] == "pictures outside the base"
        assert len(calibration["answers"]) == 15
        assert {key for *_, key in calibration["answers"]} <= {
            f"d{d}_s{s}_v{v}.jpg" for d in range(5) for s in (1, 2, 3) for v in range(4)
        }

    def test_depth_is_left_out_where_the_arm_says_so(self, tmp_path: Path) -> None:
        folder = study_folder(tmp_path / "data")
        rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines()]
        depth = png(np.random.default_rng(0).integers(400, 900, (24, 32), dtype=np.uint16))
        (folder / "depth.png").write_bytes(depth)
        lines = "".join(json.dumps({**row, "depth_file_name": "depth.png"}) + "\n" for row in rows)
        (folder / "metadata.jsonl").write_text(lines)
        found: dict[str, int] = {}

        def say(bench: Bench, sample: Sample) -> Answer:
            assert bench.base is not None
            found[bench.arm.name] = sum(case.has_depth for case in bench.base.cases())
            return right(bench, sample)

        go(
            plan("with: {method: nearest}, without: {method: nearest, depth: false}"),
            tmp_path / "run",
            folder,
            Maker(say),
        )
        assert found == {"with": 12, "without": 0}


def test_a_run_tells_how_far_it_is_and_where_it_stands(tmp_path: Path, data: Path) -> None:
    told: list[Progress] = []
    go(plan(seeds=[0, 1]), tmp_path / "run", data, Maker(), on_progress=told.append)
    assert (told[-1].done, told[-1].total, told[-1].unit) == (60, 60, "one, seed 1")
    assert [p.done for p in told] == sorted(p.done for p in told)


def test_each_session_keeps_its_settings(tmp_path: Path, data: Path) -> None:
    for number, seconds in enumerate((30.0, 60.0)):
        go(plan(seeds=[0, 1]), tmp_path / "run", data, Maker(), settings=Settings(vlm_seconds=seconds), seeds=[number])
    sessions = read_run(tmp_path / "run").manifest["sessions"]
    assert [session["settings"]["vlm_seconds"] for session in sessions] == [30.0, 60.0]
    assert len({session["source"] for session in sessions}) == 1


def test_settings_that_change_answers_bind_an_arm_and_a_fact_unknown_to_an_older_run_does_not(
    tmp_path: Path, data: Path
) -> None:
    go(plan(seeds=[0, 1]), tmp_path / "run", data, Maker(), seeds=[0])
    with pytest.raises(InputError, match=r"depth_unit of arm 'one' \(\"mm\" then, \"um\" now\)"):
        go(plan(seeds=[0, 1]), tmp_path / "run", data, Maker(), settings=Settings(depth_unit="um"), seeds=[1])
    path = tmp_path / "run" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["arms"]["one"]["depth_unit"]
    path.write_text(json.dumps(manifest))
    go(plan(seeds=[0, 1]), tmp_path / "run", data, Maker(), seeds=[1])
    assert {record.seed for record in read_run(tmp_path / "run").records} == {0, 1}


def test_the_manifest_says_what_the_results_stand_on_and_no_secret(tmp_path: Path, data: Path) -> None:
    settings = Settings(api_key=Secret("sk-hidden"), base_url="http://user:pass@host/v1", vlm_model="m")
    go(plan(), tmp_path / "run", data, Maker(), settings=settings)
    text = (tmp_path / "run" / "manifest.json").read_text()
    assert "sk-hidden" not in text
    assert "pass@" not in text
    manifest = read_run(tmp_path / "run").manifest
    (session,) = manifest["sessions"]
    assert session["state"] == "done"
    assert session["started"] <= session["finished"]
    assert {"sagehand", "python", "numpy", "onnxruntime"} <= set(session["versions"])
    assert manifest["settings"]["vlm_model"] == "m"
    assert manifest["actions"]["digest"]
    assert len(manifest["digests"]["one"]) == 16
    assert os.uname().nodename not in json.dumps(session["machine"])


def test_what_a_run_prints_is_in_the_plans_order(tmp_path: Path, data: Path) -> None:
    report = go(plan("z: {method: random}, a: {method: random}"), tmp_path / "run", data, Maker(), jobs=4)
    assert list(report.arms) == ["z", "a"]
    assert json.loads(json.dumps(report.to_dict()))["arms"]["z"]["right"] == 30


def test_real_methods_run_from_end_to_end(tmp_path: Path, data: Path) -> None:
    arms = "random: , majority: , context: , nearest: , perceptual: "
    report = run_study(plan(arms), tmp_path / "run", data=data, jobs=2)
    assert [(name, arm["n"], arm["errors"]) for name, arm in report.arms.items()] == [
        (name, 30, 0) for name in ("random", "majority", "context", "nearest", "perceptual")
    ]
    assert report.arms["context"]["right"] == 30  # the previous action alone tells the step here


def test_the_interruption_says_how_to_go_on() -> None:
    assert "run it again to go on" in str(RunInterrupted(RunReport(Path("run"), {}, 3, 17, 1.0)))
