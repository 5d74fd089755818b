"""The sample: shares kept, every object in every kind, reproducible, and spoilt as it is said."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError, UnknownName
from sagehand.world.agree.place import GAP_M, REACH_X_M, REACH_Y_M, lone_scene, with_neighbour
from sagehand.world.agree.plan import BLOCK, KINDS, plan_items
from sagehand.world.agree.sample import Sample, agreement_grasps
from sagehand.world.agree.spoil import MUST_FAIL, spoiled
from sagehand.world.agree.subjects import all_objects, base_of, chosen_objects
from sagehand.world.footprints import footprint, footprint_gap
from sagehand.world.frames import angle_between, pose
from sagehand.world.grasp import GraspCommand, GraspType
from sagehand.world.objects.load import load_object, object_names, resolve
from sagehand.world.robot.description import load_robot

ROBOT = load_robot()
COMMAND = GraspCommand("target", pose((0.5, 0.1, 0.04), np.diag([1.0, -1.0, -1.0])), 0.05, 8.0)


class TestPlan:
    @settings(max_examples=20)
    @given(st.integers(0, 1000), st.integers(1, 9), st.integers(1, 5))
    def test_each_block_keeps_the_shares(self, seed: int, objects: int, blocks: int) -> None:
        items = plan_items([str(i) for i in range(objects)], range(BLOCK * blocks), seed)
        counts = Counter(i.kind for i in items)
        assert counts == {kind: blocks * share for kind, share in KINDS.items()}
        for kind in KINDS:
            of = Counter(i.object for i in items if i.kind == kind)
            assert max(of.values()) - min(of.get(str(o), 0) for o in range(objects)) <= 1

    def test_the_shares_are_those_that_were_fixed(self) -> None:
        assert {k: v / BLOCK for k, v in KINDS.items()} == {
            "good": 0.35,
            "natural": 0.15,
            "disturbed": 0.20,
            "force": 0.10,
            "opening": 0.10,
            "hopeless": 0.10,
        }

    def test_a_small_study_begins_a_large_one(self) -> None:
        names = ["a", "b", "c"]
        assert plan_items(names, range(100), 5)[:30] == plan_items(names, range(30), 5)
        assert plan_items(names, [17, 3], 5) == [plan_items(names, range(30), 5)[i] for i in (17, 3)]

    def test_an_object_meets_every_way_of_a_kind(self) -> None:
        items = plan_items(["a", "b", "c", "d"], range(40 * BLOCK), 0)
        ways = {(i.object, i.turn % 4) for i in items if i.kind == "hopeless"}
        assert len(ways) == 16


class TestPlace:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10_000), st.sampled_from(["cube", "banana", "box"]), st.sampled_from(["cup", "bottle"]))
    def test_targets_are_in_reach_and_neighbours_at_their_gap(self, seed: int, one: str, two: str) -> None:
        rng = np.random.default_rng(seed)
        target = lone_scene(load_object(one), np.eye(4), rng)["target"]
        x, y, z = target.T_world_object[:3, 3]
        assert REACH_X_M[0] <= x <= REACH_X_M[1]
        assert REACH_Y_M[0] <= y <= REACH_Y_M[1]
        assert z == 0
        beside = load_object(two)
        T = with_neighbour(target, beside, np.eye(4), rng)
        if T is not None:
            gap = footprint_gap(footprint(target.model, target.T_world_object), footprint(beside, T))
            assert GAP_M[0] - 1e-6 <= gap <= GAP_M[1] + 1e-6


class TestSpoil:
    def spoilt(self, kind: str, turn: int, needed: float = 2.0, name: str = "apple", seed: int = 0):  # type: ignore[no-untyped-def]
        rng = np.random.default_rng(seed)
        return spoiled(kind, turn, COMMAND, load_object(name), needed, ROBOT, rng)

    def test_weak_is_below_what_is_needed_and_strong_above_what_is_safe(self) -> None:
        safe = load_object("apple").f_safe_n
        weak = [self.spoilt("force", 0, seed=s).command.force_n for s in range(200)]
        strong = [self.spoilt("force", 1, seed=s).command.force_n for s in range(200)]
        assert 0.4 <= min(weak) < 0.5
        assert 1.8 < max(weak) <= 2.0
        assert safe <= min(strong) < 1.1 * safe
        assert max(strong) <= ROBOT.force_n[1]

    def test_what_cannot_be_crushed_is_pressed_too_little(self) -> None:
        assert self.spoilt("force", 1, name="cube").sub == "weak"

    @pytest.mark.parametrize(("turn", "sigma"), [(0, 0.005), (1, 0.010), (2, 0.020)])
    def test_disturbances_have_their_spread(self, turn: int, sigma: float) -> None:
        moved = [self.spoilt("disturbed", turn, seed=s).command for s in range(400)]
        shifts = np.array([m.T_world_grasp[:3, 3] - COMMAND.T_world_grasp[:3, 3] for m in moved])
        assert shifts.std(axis=0) == pytest.approx([sigma] * 3, rel=0.15)
        angles = [angle_between(m.T_world_grasp, COMMAND.T_world_grasp) for m in moved]
        assert max(angles) <= math.radians(15) + 1e-9
        assert max(angles) > math.radians(14)

    def test_openings(self) -> None:
        narrow, tight, across, kind = (self.spoilt("opening", t) for t in range(4))
        assert (narrow.command.width_m, tight.command.width_m) == (0.020, pytest.approx(0.035))
        assert across.command.closing @ COMMAND.closing == pytest.approx(0, abs=1e-9)
        assert across.command.approach == pytest.approx(COMMAND.approach)
        assert kind.command.type is GraspType.SIDE

    def test_hopeless(self) -> None:
        subs = [self.spoilt("hopeless", t) for t in range(4)]
        assert [s.sub for s in subs] == ["frictionless", "50 mm", "out of reach", "below table"]
        assert set(MUST_FAIL) < {s.sub for s in subs}
        assert subs[0].friction == 0
        assert np.hypot(*subs[2].command.T_world_grasp[:2, 3]) == pytest.approx(1.3)
        assert subs[3].command.T_world_grasp[2, 3] < 0

    def test_no_such_kind(self) -> None:
        with pytest.raises(UnknownName, match="kind of spoilt grasp"):
            self.spoilt("odd", 0)


class TestSubjects:
    def test_all_objects_come_with_their_instances(self) -> None:
        names = all_objects()
        assert set(object_names()) <= set(names)
        assert "cup/small" in names
        assert base_of("cup/small") == "cup"
        assert base_of("/a/b/mine.yaml") == "/a/b/mine.yaml"

    def test_names_groups_and_commas(self) -> None:
        assert chosen_objects("cube/steel, apple/small") == ("cube/steel", "apple/small")
        assert {"cup", "cup/small"} <= set(chosen_objects(["cup"]))
        assert set(chosen_objects("force")) >= set(object_names("force"))
        with pytest.raises(UnknownName, match="cubbe"):
            chosen_objects("cubbe")
        with pytest.raises(InputError, match="no object is named"):
            chosen_objects(" , ")


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    pytest.importorskip("mujoco")
    pytest.importorskip("frankik")
    return agreement_grasps(["cube", "screwdriver"], BLOCK, 3)


class TestSamples:
    def test_they_are_the_same_again(self, samples: list[Sample]) -> None:
        again = agreement_grasps(["cube", "screwdriver"], 4, 3)
        assert [s.to_dict() for s in again] == [s.to_dict() for s in samples[:4]]

    def test_they_survive_json(self, samples: list[Sample]) -> None:
        for sample in samples:
            doc = json.loads(json.dumps(sample.to_dict()))
            back = Sample.from_dict(doc, resolve)
            assert np.allclose(back.command.T_world_grasp, sample.command.T_world_grasp, atol=1e-12)
            assert back.command.force_n == sample.command.force_n
            assert [o.name for o in back.scene.objects] == [o.name for o in sample.scene.objects]
            assert back.scene["target"].model.friction == sample.scene["target"].model.friction

    def test_good_grasps_are_reached_and_within_their_window(self, samples: list[Sample]) -> None:
        good = [s for s in samples if s.item.kind == "good"]
        assert all(s.reachable for s in good)
        held = 0
        for s in good:
            model = s.scene["target"].model
            high = min(model.f_safe_n, ROBOT.force_n[1])
            if s.required_n is not None and 1.1 * s.required_n < high:
                held += 1
                assert 1.1 * s.required_n <= s.command.force_n <= high + 1e-9
            else:  # no force would do by the search's statics: what is safe
                assert s.command.force_n == pytest.approx(high)
        assert held > len(good) / 2

    def test_neighbours_stand_apart(self, samples: list[Sample]) -> None:
        with_one = [s for s in samples if "neighbour" in s.places]
        assert 2 <= len(with_one) <= 14
        for s in with_one:
            one, two = s.scene.objects
            gap = footprint_gap(footprint(one.model, one.T_world_object), footprint(two.model, two.T_world_object))
            assert gap > 0.04
