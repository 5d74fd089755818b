"""Protocols: who is in the base, who is asked, and that nobody is on two sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from sagehand.errors import InputError
from sagehand.study.dataset.sample import StudyData
from sagehand.study.run.plan import Plan
from sagehand.study.run.units import Unit, Units
from study_runs import plan, study_folder


def units_of(plan_: Plan, data: StudyData, seed: int = 0) -> list[Unit]:
    return list(Units(plan_, lambda _: data).of(plan_.arms[0], seed))


def keys(samples: object) -> set[str]:
    return {s.key for s in samples}  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> StudyData:
    return StudyData.load(study_folder(tmp_path_factory.mktemp("d") / "data", devices=6, views=5))


def test_held_out_asks_about_what_is_neither_base_nor_kept_apart(data: StudyData) -> None:
    (unit,) = units_of(plan(protocol="held-out", certify=1), data)
    asked = {sample.key for _, sample in unit.asked}
    assert (len(unit.train), len(unit.certify), len(asked)) == (36, 18, 36)
    assert keys(unit.train) | keys(unit.certify) | asked == keys(data.samples)  # 90 in all: no overlap either
    assert {subset for subset, _ in unit.asked} == {"query"}


def test_paper_asks_about_every_picture_but_those_kept_apart(data: StudyData) -> None:
    (unit,) = units_of(plan(protocol="paper", certify=1), data)
    assert {s.key for _, s in unit.asked} == keys(data.samples) - keys(unit.certify)


def test_new_device_leaves_each_device_out_once(data: StudyData) -> None:
    units = units_of(plan(protocol="new-device", certify=1), data)
    assert [unit.fold for unit in units] == list(range(6))
    for unit in units:
        (out,) = {sample.device for _, sample in unit.asked}
        assert out not in {s.device for s in (*unit.train, *unit.certify)}
        assert len(unit.asked) == 15
    assert {s.key for unit in units for _, s in unit.asked} == keys(data.samples)


def test_folds_share_no_device_and_ask_a_trained_method_of_all_three(data: StudyData) -> None:
    units = units_of(plan("c: {method: classifier}"), data)
    assert len(units) == 5
    tested = []
    for unit in units:
        sides = {
            name: {s.device for subset, s in unit.asked if subset == name} for name in ("train", "validation", "test")
        }
        assert sum(map(len, sides.values())) == 6
        assert sides["train"] == {s.device for s in unit.train}
        assert sides["validation"] == {s.device for s in unit.validation}
        tested += sorted(sides["test"])
    assert sorted(tested) == [f"d{i}" for i in range(6)]
    others = units_of(plan("n: {method: nearest, protocol: folds}"), data)
    assert {subset for unit in others for subset, _ in unit.asked} == {"test"}


def test_another_seed_is_another_base(data: StudyData) -> None:
    plan_ = plan()
    assert keys(units_of(plan_, data, 0)[0].train) != keys(units_of(plan_, data, 1)[0].train)
    assert keys(units_of(plan_, data, 0)[0].train) == keys(units_of(plan_, data, 0)[0].train)


def test_keys_of_a_unit_are_unique_over_a_whole_plan(data: StudyData) -> None:
    arms = "a: {method: nearest}, b: {method: nearest, protocol: new-device}, c: {method: classifier}"
    plan_ = plan(arms, seeds=[0, 1])
    units = Units(plan_, lambda _: data)
    found = [key for arm in plan_.arms for seed in plan_.seeds for unit in units.of(arm, seed) for key in unit.keys]
    assert len(found) == len(set(found))


def test_what_cannot_be_divided_is_told(tmp_path: Path) -> None:
    one = StudyData.load(study_folder(tmp_path / "one", devices=1, views=2))
    with pytest.raises(InputError, match="none is left to ask about"):
        units_of(plan(), one)
    with pytest.raises(InputError, match="shows one device"):
        units_of(plan(protocol="new-device"), one)
