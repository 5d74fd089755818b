"""The split: what is never allowed, what is always reached, and folds by device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from folders import jpeg, write_rows
from sagehand.cli import study_data
from sagehand.errors import InputError
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.dataset.split import Split, device_folds, split
from sagehand.study.dataset.subset import write_subset


def sample(key: str, device: str = "d", step: int | None = 1, group: str | None = None) -> Sample:
    labels: dict[str, Any] = dict.fromkeys(Sample.__dataclass_fields__)
    labels |= {"key": key, "path": Path(key), "family": "f", "device": device, "step": step, "group": group}
    return Sample(**labels | {"next_action": "a", "row": {"file_name": key}})


def step_of(s: Sample) -> tuple[str, int | None]:
    return s.device, s.step


@st.composite
def sample_lists(draw: st.DrawFn, groups: bool = True) -> list[Sample]:
    steps = draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), max_size=40))
    names = st.sampled_from([None, None, "g1", "g2", "g3"]) if groups else st.none()
    return [sample(f"{n}.jpg", device, step, draw(names)) for n, (device, step) in enumerate(steps)]


counts = st.integers(1, 3)
seeds = st.integers(0, 1000)


@given(sample_lists(), counts, seeds, st.integers(0, 2))
def test_every_sample_stands_on_one_side_and_no_group_on_two(
    samples: list[Sample], per_step: int, seed: int, certify: int
) -> None:
    done = split(samples, per_step, seed, certify)
    sides = (done.base, done.certify, done.query)
    placed = [s.key for side in (*sides, done.aside) for s in side]
    assert sorted(placed) == sorted(s.key for s in samples)
    groups = [{s.group for s in side} - {None} for side in sides]
    assert not groups[0] & groups[1]
    assert not groups[0] & groups[2]
    assert not groups[1] & groups[2]
    assert {s.group for s in done.aside} <= groups[0] | groups[1]
    for step in {step_of(s) for s in samples}:
        assert sum(step_of(s) == step for s in done.base) <= per_step
        assert sum(step_of(s) == step for s in done.certify) <= certify


@given(sample_lists(groups=False), counts, seeds, st.integers(0, 2))
def test_without_groups_the_sizes_are_exact(samples: list[Sample], per_step: int, seed: int, certify: int) -> None:
    done = split(samples, per_step, seed, certify)
    assert done.aside == ()
    for step in {step_of(s) for s in samples}:
        own, base, kept, query = (
            sum(step_of(s) == step for s in side) for side in (samples, done.base, done.certify, done.query)
        )
        assert base == min(per_step, own)
        assert kept == min(certify, max(0, own - base - 1))  # the last one is left to be asked about
        assert query == own - base - kept


@given(sample_lists(), counts, seeds, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_means_nothing(samples: list[Sample], per_step: int, seed: int, random: Any) -> None:
    shuffled = random.sample(samples, len(samples))
    first, second = split(samples, per_step, seed, 1), split(shuffled, per_step, seed, 1)
    if not any(s.group for s in samples):
        assert {s.key for s in first.base} == {s.key for s in second.base}
    assert split(samples, per_step, seed, 1) == first
    assert [s for s in samples if s in first.base] == list(first.base)


@given(sample_lists())
def test_short_steps_are_those_without_a_full_base_or_a_query(samples: list[Sample]) -> None:
    done = split(samples)
    short = {(s.device, s.step) for s in done.short}
    for step in {step_of(s) for s in samples}:
        base, query = (sum(step_of(s) == step for s in side) for side in (done.base, done.query))
        assert (step in short) == (base < 2 or query == 0)


def test_pictures_of_other_steps_change_nothing() -> None:
    some = [sample(f"{n}.jpg") for n in range(9)]
    more = [sample(f"x{n}.jpg", "other") for n in range(9)]
    assert set(split(some).base) <= set(split(more + some).base)


def test_another_seed_is_another_draw_and_every_picture_comes_up() -> None:
    samples = [sample(f"{n}.jpg") for n in range(8)]
    drawn = [frozenset(s.key for s in split(samples, seed=seed).base) for seed in range(300)]
    share = [sum(s.key in keys for keys in drawn) / 300 for s in samples]
    assert len(set(drawn)) == 28  # all pairs of 8
    assert all(abs(part - 0.25) < 4 * (0.25 * 0.75 / 300) ** 0.5 for part in share)


def test_the_base_takes_different_groups_and_leaves_one_to_ask_about() -> None:
    samples = [sample(f"{g}{n}.jpg", group=g) for g in "abc" for n in range(3)]
    for seed in range(20):
        done = split(samples, seed=seed)
        assert len({s.group for s in done.base}) == 2
        assert len(done.base) == 2
        assert len(done.query) == 3
        assert len(done.aside) == 4
    # two groups only: two pictures of one, so that the other can be asked about
    done = split([s for s in samples if s.group != "c"])
    assert len({s.group for s in done.base}) == 1
    assert (len(done.base), len(done.query), len(done.aside), done.short) == (2, 3, 1, ())


def test_a_group_over_two_steps_stays_on_one_side() -> None:
    samples = [sample(f"{n}.jpg", step=1 + n % 2, group=f"unit{n // 2}") for n in range(8)]
    for seed in range(20):
        done = split(samples, 1, seed)
        assert len(done.base) == 2
        assert len({s.group for s in done.base}) == 1  # the unit that one step drew costs the other nothing
        assert len(done.query) == 6


def test_pictures_without_a_step_number_are_told_apart_by_their_actions() -> None:
    samples = [sample(f"{n}.jpg", step=None) for n in range(5)]
    assert len(split(samples).base) == 2


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="per_step is 0"):
        split([], 0)
    with pytest.raises(InputError, match="certify is -1"):
        split([], certify=-1)
    with pytest.raises(InputError, match="same key"):
        split([sample("a"), sample("a")])


@given(st.integers(3, 40), st.integers(2, 8), seeds)
def test_folds_share_no_device_and_test_each_once(count: int, folds: int, seed: int) -> None:
    devices = [f"d{n}" for n in range(count)]
    if count - -(-count // min(folds, count)) - max(1, round(count / 10)) < 1:
        with pytest.raises(InputError, match="leave none to train on"):
            device_folds(devices, folds, seed)
        return
    made = device_folds(devices, folds, seed)
    assert len(made) == min(folds, count)
    assert sorted(d for fold in made for d in fold.test) == sorted(devices)
    for fold in made:
        assert sorted(fold.train + fold.validation + fold.test) == sorted(devices)
        assert fold.train
        assert fold.test
        assert len(fold.validation) == max(1, round(count / 10))
        assert abs(len(fold.test) - count / len(made)) < 1
    assert device_folds(reversed([*devices, *devices]), folds, seed) == made


def test_six_devices_in_five_folds_are_about_70_10_20() -> None:
    made = device_folds(["a", "b", "c", "d", "e", "f"])
    sizes = sorted((len(f.train), len(f.validation), len(f.test)) for f in made)
    assert sizes == [(3, 1, 2), (4, 1, 1), (4, 1, 1), (4, 1, 1), (4, 1, 1)]
    ten = device_folds(range(10))
    assert {(len(f.train), len(f.validation), len(f.test)) for f in ten} == {(7, 1, 2)}


def test_folds_that_cannot_be_made() -> None:
    with pytest.raises(InputError, match="at least 2"):
        device_folds("abc", 1)
    with pytest.raises(InputError, match="2 devices cannot be divided"):
        device_folds("ab")
    with pytest.raises(InputError, match="leave none to train on"):
        device_folds("abc", 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    into = tmp_path / "set"
    (into / "images").mkdir(parents=True)
    rows = []
    for number in range(12):
        name = f"images/{number}.jpg"
        (into / name).write_bytes(jpeg(number))
        (into / f"images/{number}.png").write_bytes(b"depth")
        rows.append(
            {
                "file_name": name,
                "family": "f",
                "device": f"d{number // 4}",
                "step": 1,
                "previous_action": "none",
                "next_action": "pry",
                "depth_file_name": f"images/{number}.png",
                "note": "kept",
            }
        )
    write_rows(into, rows[:11])
    (into / "actions.yaml").write_text("families: [f]\n")
    return into


def command(*arguments: object) -> Any:
    app = typer.Typer()
    study_data.register(app)
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_the_command_prints_the_split_and_copies_the_base(folder: Path, tmp_path: Path) -> None:
    ran = command("split", folder, "--folds", 5, "--into", tmp_path / "base", "--out", tmp_path / "s.json", "--json")
    assert ran.exit_code == 0
    doc = json.loads(ran.stdout)
    assert doc == json.loads((tmp_path / "s.json").read_text())
    assert doc["counts"] == {"base": 6, "certify": 0, "query": 5, "aside": 0}
    assert [sorted(f["train"] + f["validation"] + f["test"]) for f in doc["folds"]] == [["d0", "d1", "d2"]] * 3
    base = StudyData.load(tmp_path / "base")
    assert [s.key for s in base.samples] == doc["base"]
    assert base.actions is not None
    whole = {s.key: s for s in StudyData.load(folder).samples}
    for s in base.samples:
        assert s.row == whole[s.key].row
        assert s.path.read_bytes() == whole[s.key].path.read_bytes()
        assert s.depth is not None
        assert s.depth.read_bytes() == b"depth"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_the_command_in_words(folder: Path, snapshot: SnapshotAssertion) -> None:
    ran = command("split", folder, "--per-step", 3, "--folds", 3)
    assert (ran.exit_code, ran.stdout, ran.stderr) == snapshot


def test_a_base_is_copied_whole_or_not_at_all(folder: Path, tmp_path: Path) -> None:
    data = StudyData.load(folder)
    (folder / "images" / "3.jpg").unlink()
    with pytest.raises(InputError, match=r"images/3.jpg: cannot be copied"):
        write_subset(data, data.samples, tmp_path / "base")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set"]
    with pytest.raises(InputError, match="is not an empty folder"):
        write_subset(data, data.samples, folder)


def test_a_split_as_plain_data() -> None:
    done = split([sample(f"{n}.jpg") for n in range(3)])
    assert Split.to_dict(done)["short"] == []
    assert len(done.to_dict()["query"]) == 1
