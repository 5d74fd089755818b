"""The agreement study, mended: no stale answer is paired, nothing of a command is lost, tables are written by the script."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from agreement_studies import both, outcome, sample
from sagehand.errors import InputError, MissingExtra
from sagehand.world.agree import digest, run, work
from sagehand.world.agree.digest import answer_digest, code_modules, file_digests
from sagehand.world.agree.measure import figures, mismatched, pairs_of
from sagehand.world.agree.outcome import plain
from sagehand.world.agree.plan import Item
from sagehand.world.agree.report import write_report
from sagehand.world.agree.run import run_agreement
from sagehand.world.agree.sample import Sample, Sampler
from sagehand.world.agree.store import HEADER, RECORDS, Entry, read_entries
from sagehand.world.agree.subjects import base_of, file_of
from sagehand.world.agree.text import summary_text
from sagehand.world.failures import Failure
from sagehand.world.frames import pose, translation
from sagehand.world.grasp import GraspCommand, GraspType
from sagehand.world.objects.load import load_object, resolve
from sagehand.world.robot.description import load_robot
from test_world_agree_run import DOUBLES, Canned, lines, study

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _canned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "Sampler", Canned)


def two_samples() -> list[Entry]:
    """A pair, and an analytic answer to another sample than that which the physics answered."""
    stale, fresh = both(1, True, Failure.SLIP)
    other = dict(stale.sample) | {"required_n": 2.0}
    return [*both(0, True, True), Entry(other, stale.outcome, "c"), fresh]


class TestStale:
    def test_answers_to_different_samples_are_no_pair(self) -> None:
        entries = two_samples()
        assert [p.analytic.number for p in pairs_of(entries)] == [0]
        assert mismatched(entries) == [1]
        found = figures(entries, resamples=10)
        assert (found["n"], found["mismatched"]) == (1, [1])
        assert "1 (grasps 1) are left out, for the two executors answered different" in summary_text(found, {"seed": 0})

    def test_the_order_of_keys_and_a_way_through_json_make_no_difference(self) -> None:
        a, p = both(0, True, True)
        turned = dict(reversed(list(json.loads(json.dumps(p.sample)).items())))
        assert mismatched([a, Entry(turned, p.outcome, "c")]) == []

    def test_they_are_answered_again(self, tmp_path: Path) -> None:
        out = tmp_path / "s"
        study(out, grasps=4)
        docs = lines(out)
        docs[2]["sample"]["required_n"] = 99.0
        (out / RECORDS).write_text("".join(json.dumps(d) + "\n" for d in docs), encoding="utf-8")
        assert len(mismatched(read_entries(out / RECORDS)[0])) == 1
        report = study(out, grasps=4)
        assert (report.made, report.figures["n"], report.figures["mismatched"]) == (1, 4, [])

    def test_both_executors_depend_on_what_sampling_lets_settle(self) -> None:
        for name in ("analytic", "physics"):
            assert {"sagehand.world.physics.control", "sagehand.world.agree.place"} <= set(code_modules(name))
        assert "sagehand.world.analytic.executor" not in code_modules("physics")

    @pytest.mark.parametrize("shown", ["render", "rgbd", "film", "animate", "viewer", "tries", "scripted", "scenes"])
    def test_what_only_shows_things_is_no_part(self, shown: str) -> None:
        for name in ("analytic", "physics"):
            assert f"sagehand.world.{shown}" not in code_modules(name)

    def test_a_change_of_the_physics_makes_analytic_answers_stale(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = answer_digest("analytic", ())
        real = digest._source

        def changed(name: str) -> str | None:
            return f"{real(name)}\nX = 1\n" if name == "sagehand.world.physics.control" else real(name)

        monkeypatch.setattr(digest, "_source", changed)
        assert answer_digest("analytic", ()) != before

    def test_a_comment_does_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = answer_digest("analytic", ())
        real = digest._source
        monkeypatch.setattr(digest, "_source", lambda name: None if (s := real(name)) is None else f"{s}\n# so\n")
        assert answer_digest("analytic", ()) == before

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["analytic", "physics"])
    def test_every_module_that_runs_is_counted(self, name: str) -> None:
        """Against what Python has really imported when a sample was made and tried."""
        pytest.importorskip("mujoco")
        pytest.importorskip("frankik")
        script = (
            "import sys\n"
            "from sagehand.world.agree.sample import agreement_grasps\n"
            f"from sagehand.world.agree.run import EXECUTORS\n"
            "samples = agreement_grasps(['cube', 'cup'], 6, 0)\n"
            "before = set(sys.modules)\n"
            f"executor = EXECUTORS[{name!r}]('panda')\n"
            "for s in samples:\n"
            "    with executor.start(s.scene) as trial: trial.grasp(s.command)\n"
            "print('\\n'.join(m for m in sys.modules if m.startswith('sagehand.world.')))\n"
        )
        said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
        frame = {
            "digest",
            "markdown",
            "measure",
            "outcome",
            "report",
            "run",
            "scores",
            "store",
            "text",
            "work",
            "worst",
        }
        ran = {m for m in said.stdout.split() if m.removeprefix("sagehand.world.agree.") not in frame}
        assert f"sagehand.world.{name}.executor" in ran
        assert ran <= set(code_modules(name))


class TestMissing:
    @pytest.mark.parametrize("package", ["mujoco", "frankik", "dm_robotics.panda"])
    def test_it_is_told_before_a_folder_is_made_or_a_process_begun(
        self, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("mujoco")
        pytest.importorskip("frankik")
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed

        def no_pool(*rest: object) -> None:
            pytest.fail("processes were begun")

        monkeypatch.setattr(run, "side_by_side", no_pool)
        with pytest.raises(MissingExtra) as told:
            run_agreement(tmp_path / "s", grasps=4, objects="cube", jobs=2, pictures=0)
        assert "pip install" in told.value.hint
        assert not (tmp_path / "s").exists()


class TestVersionsAndFiles:
    def test_another_version_of_a_package_is_another_answer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "s"
        study(out, grasps=2)
        assert study(out, grasps=2).made == 0
        now = digest.versions()
        newer = {**now, "mujoco": "99.0"}
        monkeypatch.setattr(digest, "versions", lambda: newer)
        monkeypatch.setattr(run, "versions", lambda: newer)
        assert study(out, grasps=2).made == 2
        assert json.loads((out / HEADER).read_text(encoding="utf-8"))["versions"]["mujoco"] == "99.0"

    @pytest.mark.parametrize("package", ["mujoco", "frankik", "numpy"])
    def test_each_package_counts_but_not_the_own_version(self, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        now, before = digest.versions(), answer_digest("physics", ())
        monkeypatch.setattr(digest, "versions", lambda: {**now, "sagehand": "99"})
        assert answer_digest("physics", ()) == before
        monkeypatch.setattr(digest, "versions", lambda: {**now, package: "99"})
        assert answer_digest("physics", ()) != before

    def test_a_file_of_ones_own_counts_by_its_content(self, tmp_path: Path) -> None:
        mine = tmp_path / "mine.yaml"
        mine.write_text("mass_kg: 1\n", encoding="utf-8")
        names = ("cup", "cup/small", str(mine), f"{mine}/small")
        first = answer_digest("analytic", names)
        assert list(file_digests(names)) == [str(mine)]
        assert answer_digest("analytic", names) == first
        mine.write_text("mass_kg: 2\n", encoding="utf-8")
        assert answer_digest("analytic", names) != first
        with pytest.raises(InputError, match=r"gone.yaml: cannot be read"):
            file_digests([str(tmp_path / "gone.yaml")])

    def test_an_edited_object_is_tried_again(self, tmp_path: Path) -> None:
        from importlib.resources import files

        mine, out = tmp_path / "mine.yaml", tmp_path / "s"
        text = (files("sagehand.world.objects") / "data" / "tasks" / "cube.yaml").read_text(encoding="utf-8")
        mine.write_text(text, encoding="utf-8")
        assert study(out, grasps=2, objects=str(mine)).made == 2
        assert study(out, grasps=2, objects=str(mine)).made == 0
        mine.write_text(text + "# heavier tomorrow\n", encoding="utf-8")
        assert study(out, grasps=2, objects=str(mine)).made == 2

    def test_files_and_their_instances(self) -> None:
        assert (file_of("a/My.YAML/small"), file_of("b.yml"), file_of("cup/small")) == ("a/My.YAML", "b.yml", None)
        assert (base_of("/a/b.yaml/small"), base_of("/a/b.yaml"), base_of("cup/small")) == (
            "/a/b.yaml",
            "/a/b.yaml",
            "cup",
        )

    def test_another_robot_is_another_study(self, tmp_path: Path) -> None:
        from importlib.resources import files

        mine, out = tmp_path / "mine.yaml", tmp_path / "s"
        mine.write_text((files("sagehand.world.robot") / "panda.yaml").read_text(encoding="utf-8"), encoding="utf-8")
        study(out, grasps=1, robot=str(mine))
        with pytest.raises(InputError, match="was begun with robot"):
            study(out, grasps=1)


class TestPlainData:
    def test_what_is_not_finite_is_null(self) -> None:
        value = {"a": np.inf, "b": [np.float64(-np.inf), float("nan"), 1.5], "c": np.array([np.nan, 2.0])}
        assert plain(value) == {"a": None, "b": [None, None, 1.5], "c": [None, 2.0]}

    def test_nothing_of_a_command_is_lost(self) -> None:
        T = translation(0.5, 0.0)
        command = GraspCommand(
            "target",
            pose((0.5, 0, 0.02), np.diag([1.0, -1, -1])),
            0.05,
            8.0,
            GraspType.SIDE,
            0.5,
            0.12,
            "rim",
            0.07,
            1.5,
        )
        for f in fields(GraspCommand):  # each value must differ from its default to be a test
            assert f.name in ("target", "T_world_grasp", "width_m", "force_n") or getattr(command, f.name) != f.default
        made = Sample(Item(0, "cube", "good", 0), "", {"target": ("cube", T, None)}, command, True, 1.0)
        back = Sample.from_dict(json.loads(json.dumps(made.to_dict())), resolve).command
        assert np.allclose(back.T_world_grasp, command.T_world_grasp)
        assert replace(back, T_world_grasp=command.T_world_grasp).__dict__ == command.__dict__

    def test_a_sampler_keeps_one_kinematics(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("mujoco")
        pytest.importorskip("frankik")
        from sagehand.world.robot import kinematics

        made: list[object] = []
        real = kinematics.Kinematics

        def counted(robot: object) -> object:
            made.append(robot)
            return real(robot)  # type: ignore[arg-type]

        monkeypatch.setattr(kinematics, "Kinematics", counted)
        sampler = Sampler(("cube",), 0, load_robot(), lambda name: load_object("cube"))
        for number in range(3):
            sampler.sample(Item(number, "cube", "good", number))
        assert len(made) == 1


class TestForceEstimate:
    def test_it_is_the_searchs_force_over_the_analytic_one(self) -> None:
        entries = []
        for number, (kind, sub, rough, better) in enumerate(
            [
                ("good", "", 4.0, 1.0),
                ("force", "weak", 10.0, 5.0),
                ("force", "weak", 9.0, 9.0),
                ("natural", "", 9.0, 1.0),
            ]
        ):
            doc = sample(number, kind=kind, sub=sub) | {"required_n": rough}
            a = outcome(number, "analytic", True, q=0.5)
            a = replace(a, truth={**a.truth, "required_n": better})
            entries += [Entry(doc, a, "c"), Entry(doc, outcome(number, "physics", True), "c")]
        found = figures(entries, resamples=10)["force_estimate"]
        assert (found["n"], found["ratio"]["0.5"]) == (3, 2.0)  # 4, 2 and 1
        assert (found["n_weak"], found["weak_enough"]) == (2, 0.5)  # 8 N commanded: enough for 5 N, not for 9 N


class TestPictures:
    def test_without_pictures_the_worst_are_told_all_the_same(self, tmp_path: Path) -> None:
        entries = [e for n in range(3) for e in both(n, True, Failure.SLIP, q=0.9, object_=("cup", "apple", "cube")[n])]
        report = write_report(tmp_path, entries, {"seed": 0, "objects": []}, pictures=0)
        rows = report.figures["worst"]
        assert [(r["number"], r["analytic"], r["physics"], r["q"]) for r in rows] == [
            (n, "success", "slip", pytest.approx(0.9)) for n in range(3)
        ]
        assert not (tmp_path / "worst").exists()

    def test_the_command_asks_for_pictures_and_a_robot(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from typer.testing import CliRunner

        from sagehand.cli.world import app

        asked: dict[str, object] = {}

        def fake(out: Path, **rest: object) -> object:
            asked.update(rest)
            return run_agreement(out, **({**rest, "executors": DOUBLES, "jobs": 1, "on_progress": None}))  # type: ignore[arg-type]

        monkeypatch.setattr(run, "run_agreement", fake)
        said = CliRunner().invoke(
            app,
            ["agree", "--out", str(tmp_path / "s"), "--grasps", "2", "--pictures", "0", "--robot", "panda", "--json"],
        )
        assert said.exit_code == 0, said.output
        assert (asked["pictures"], asked["robot"]) == (0, "panda")


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_agreement_tables", ROOT / "scripts" / "make_agreement_tables.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_folder(folder: Path, seed: int, entries: list[Entry], **other: object) -> Path:
    folder.mkdir()
    versions = {"mujoco": "3.3.7", "frankik": ""}
    told = {"seed": seed, "grasps": 3, "robot": "panda", "objects": ["cup", "cube"], "versions": versions}
    write_report(folder, entries, told | other, pictures=0)
    return folder


def three(last: bool | Failure) -> list[Entry]:
    rows = [
        both(0, True, True, q=0.9),
        both(1, Failure.SLIP, Failure.DROP, q=0.2, kind="hopeless", sub="frictionless"),
        both(2, True, last, q=0.8, object_="cup", kind="force", sub="weak"),
    ]
    return [e for row in rows for e in row]


class TestTables:
    def test_figures_of_both_stand_beside_each_other(self, tmp_path: Path, tables: ModuleType) -> None:
        zero = a_folder(tmp_path / "0", 0, three(True))
        one = a_folder(tmp_path / "1", 1, three(Failure.SLIP))
        page = tmp_path / "page.md"
        page.write_text(f"before\n\n{tables.BEGIN}\nold 12.3 %\n{tables.END}\n\nafter\n", encoding="utf-8")
        tables.main([str(zero), str(one)], page)
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"before\n\n{tables.BEGIN}\n")
        assert text.endswith(f"{tables.END}\n\nafter\n")
        assert "old 12.3 %" not in text
        assert "| agreement of success (objects drawn anew) | 100.0 % (100.0–100.0) | 66.7 % (0.0–100.0) |" in text
        assert "| force: weak | 1 | 100.0 % | 100.0 % | 100.0 % | 1 | 0.0 % | 100.0 % | 0.0 % |" in text
        assert "| cup | 1 | 100.0 % | 100.0 % | 100.0 % | 1 | 0.0 % | 100.0 % | 0.0 % |" in text
        assert "| frictionless | 1 | none | none | 1 | none | none |" in text
        assert "| success | 2 / 1 | · | 0 / 1 |" in text
        assert "| drop | 0 | 1 | 0 | 0 | 1 | 0 |" in text
        assert "| physics | 1 | 3 | 100.0 | 3 | 100.0 | 200.0 | 10.0 |" in text
        assert "| 2 | cup | force: weak | 8.0 N, 50 mm | 0.80 | **success** | **slip**: because of slip |" in text
        assert "sagehand world agree --grasps 3 --seed 1 --out OUT1" in text
        tables.main([str(zero), str(one)], page)
        assert page.read_text(encoding="utf-8") == text

    def test_studies_that_do_not_belong_together_are_refused(
        self, tmp_path: Path, tables: ModuleType, capsys: pytest.CaptureFixture[str]
    ) -> None:
        zero = tables.read_study(a_folder(tmp_path / "0", 0, three(True), code={"analytic": "a"}))
        again = tables.read_study(a_folder(tmp_path / "1", 0, three(True), code={"analytic": "a"}))
        newer = tables.read_study(a_folder(tmp_path / "2", 1, three(True), code={"analytic": "b"}))
        with pytest.raises(InputError, match="differ in their code"):
            tables.figures_text([zero, newer])
        with pytest.raises(InputError, match="same seed"):
            tables.figures_text([zero, again])
        with pytest.raises(InputError, match="2 of 3 grasps count"):
            tables.read_study(a_folder(tmp_path / "3", 0, three(True)[:5]))
        with pytest.raises(InputError, match="no place for figures"):
            tables.rewritten("nothing here", "x")
        with pytest.raises(SystemExit, match="cannot be read"):
            tables.main([str(tmp_path / "0"), str(tmp_path / "none")], tmp_path / "page.md")

    def test_a_broken_outcome_is_named(self, tmp_path: Path, tables: ModuleType) -> None:
        entries = [
            *three(True)[:5],
            Entry(three(True)[5].sample, outcome(2, "physics", False, error="ValueError"), "c"),
        ]
        told = tables.read_study(a_folder(tmp_path / "0", 0, entries))
        other = tables.read_study(a_folder(tmp_path / "1", 1, three(True)))
        assert "With seed 0 an executor broke, and left out are 1 (grasps 2)." in tables.figures_text([told, other])

    def test_the_page_has_its_place(self, tables: ModuleType) -> None:
        page = tables.PAGE.read_text(encoding="utf-8")
        assert tables.rewritten(page, "x").count(tables.END) == 1
