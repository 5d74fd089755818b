"""Agreement figures: exact on hand-made outcomes, and against brute force."""

from __future__ import annotations

import csv
import io
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from syrupy.assertion import SnapshotAssertion

from agreement_studies import both, outcome, sample
from sagehand.world.agree.measure import figures, pairs_of
from sagehand.world.agree.report import confusion_csv, write_report
from sagehand.world.agree.scores import auc, cluster_interval, kappa, roc_curve
from sagehand.world.agree.store import Entry
from sagehand.world.agree.text import summary_text
from sagehand.world.agree.worst import caption, draw_worst, worst_pairs
from sagehand.world.failures import Failure
from sagehand.world.objects.load import resolve
from sagehand.world.robot.description import load_robot

scores = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=40)


def a_study() -> list[Entry]:
    """Ten grasps: 4 held in both, 3 in neither, 2 in the analytic alone, 1 in physics alone."""
    rows = [
        both(0, True, True, q=0.9),
        both(1, True, True, q=0.8),
        both(2, True, True, q=0.7, object_="cup/small"),
        both(3, True, True, q=0.6, object_="cup"),
        both(4, True, Failure.SLIP, q=0.85, object_="cup"),
        both(5, True, Failure.DROP, q=0.5, kind="force", sub="weak"),
        both(6, Failure.ORIENTATION, True, q=0.3, object_="apple"),
        both(7, Failure.SLIP, Failure.SLIP, q=0.2, kind="force", sub="weak"),
        both(8, Failure.SLIP, Failure.DROP, q=0.2, kind="force", sub="weak", object_="apple"),
        both(9, Failure.UNREACHABLE, Failure.UNREACHABLE, q=0.1, kind="hopeless", sub="out of reach"),
    ]
    return [entry for row in rows for entry in row]


class TestFigures:
    def test_shares_are_exact(self) -> None:
        found = figures(a_study(), resamples=50)
        assert found["n"] == 10
        assert found["agreement"] == pytest.approx(0.7)
        assert found["success"] == {"both": 4, "analytic_only": 2, "physics_only": 1, "neither": 3}
        assert found["base_rate"] == {"analytic": pytest.approx(0.6), "physics": pytest.approx(0.5)}
        assert found["kappa"] == pytest.approx((0.7 - 0.5) / (1 - 0.5))

    def test_the_wilson_interval_is_that_of_the_share(self) -> None:
        low, high = figures(a_study(), resamples=50)["agreement_wilson"]
        z, n, p = 1.959964, 10, 0.7
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        assert (low, high) == (pytest.approx(middle - half, abs=1e-6), pytest.approx(middle + half, abs=1e-6))

    def test_failure_types_are_counted_where_both_fail(self) -> None:
        types = figures(a_study(), resamples=50)["failure_type"]
        assert types["n_both_fail"] == 3
        assert types["same_type"] == pytest.approx(2 / 3)
        assert types["types"]["slip"] == {"analytic": 2, "physics": 1, "both": 1}
        assert types["types"]["drop"] == {"analytic": 0, "physics": 1, "both": 0}
        assert types["confusion"]["success"] == {"success": 4, "slip": 1, "drop": 1}
        assert sum(v for row in types["confusion"].values() for v in row.values()) == 10

    def test_instances_count_with_their_object(self) -> None:
        by = figures(a_study(), resamples=50)["by_object"]
        assert set(by) == {"apple", "cube", "cup"}
        assert by["cup"]["n"] == 3
        assert by["apple"] == {"n": 2, "agreement": 0.5, "analytic": 0.0, "physics": 0.5}

    def test_kinds_and_what_was_done(self) -> None:
        found = figures(a_study(), resamples=50)
        assert found["by_kind"]["force"]["n"] == 3
        assert found["by_sub"]["force: weak"]["agreement"] == pytest.approx(2 / 3)

    def test_reliability_goes_up_with_q(self) -> None:
        rows = figures(a_study(), resamples=50)["reliability"]
        assert [r["n"] for r in rows] == [1] * 10
        assert [r["mean_q"] for r in rows] == sorted(r["mean_q"] for r in rows)
        assert rows[-1]["physics"] == 1.0

    def test_controls_that_hold_are_named(self) -> None:
        entries = a_study() + both(10, Failure.SLIP, True, kind="hopeless", sub="frictionless")
        controls = figures(entries, resamples=50)["controls"]
        assert controls["frictionless"] == {"n": 1, "held_analytic": [], "held_physics": [10]}
        assert controls["out of reach"] == {"n": 1, "held_analytic": [], "held_physics": []}

    def test_what_broke_is_named_and_left_out(self) -> None:
        broken = outcome(10, "physics", False, error="ValueError: no")
        fine = outcome(10, "analytic", True, q=0.9)
        entries = [*a_study(), Entry(sample(10), broken, "c"), Entry(sample(10), fine, "c")]
        found = figures(entries, resamples=50)
        assert found["n"] == 10
        assert found["errors"] == [{"number": 10, "executor": "physics", "error": "ValueError: no"}]

    def test_a_sample_of_one_executor_alone_is_no_pair(self) -> None:
        assert len(pairs_of(a_study()[:-1])) == 9

    def test_speed_counts_what_was_carried_out(self) -> None:
        speed = figures(a_study(), resamples=50)["speed"]["physics"]
        assert speed["per_second"] == pytest.approx(100)
        assert speed["n_carried_out"] == 9
        assert speed["per_cpu_second_carried_out"] == pytest.approx(200)

    def test_nothing_at_all_is_a_report_too(self) -> None:
        found = figures([], resamples=10)
        assert (found["n"], found["agreement"], found["kappa"]) == (0, None, None)
        assert "0 grasps" in summary_text(found, {"seed": 0, "objects": []})


class TestAuc:
    @given(scores)
    def test_it_is_the_share_of_pairs_in_order(self, rows: list[tuple[int, bool]]) -> None:
        wins = [s for s, y in rows if y]
        losses = [s for s, y in rows if not y]
        found = auc([s for s, _ in rows], [y for _, y in rows])
        if not wins or not losses:
            assert found is None
            return
        count = sum((a > b) + (a == b) / 2 for a, b in itertools.product(wins, losses))
        assert found == pytest.approx(count / (len(wins) * len(losses)), abs=1e-12)

    @given(scores)
    def test_it_is_the_area_under_the_curve(self, rows: list[tuple[int, bool]]) -> None:
        values, right = [s for s, _ in rows], [y for _, y in rows]
        found = auc(values, right)
        false, true = roc_curve(values, right)
        assert false[0] == true[0] == 0
        if found is not None:
            area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))
            assert area == pytest.approx(found, abs=1e-12)

    def test_known_values(self) -> None:
        assert auc([1, 2, 3, 4], [False, False, True, True]) == 1
        assert auc([4, 3, 2, 1], [False, False, True, True]) == 0
        assert auc([1, 1, 1, 1], [False, True, False, True]) == 0.5


class TestKappa:
    def test_published_value(self) -> None:
        """Fifty proposals, two readers: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: κ = 0.4."""
        a = [1] * 25 + [0] * 25
        b = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
        assert kappa(a, b) == pytest.approx(0.4)

    def test_where_chance_agrees_fully_there_is_none(self) -> None:
        assert kappa([1, 1, 1], [1, 1, 1]) is None
        assert kappa([], []) is None


class TestInterval:
    @settings(max_examples=20)
    @given(st.integers(0, 100))
    def test_it_covers_the_mean_and_is_the_same_for_a_seed(self, seed: int) -> None:
        values = np.arange(20) % 2
        clusters = [str(i // 4) for i in range(20)]
        first = cluster_interval(clusters, lambda i: float(values[i].mean()), seed=seed, resamples=100)
        assert first == cluster_interval(clusters, lambda i: float(values[i].mean()), seed=seed, resamples=100)
        assert first == (0.5, 0.5)  # every cluster holds as many of each

    def test_clusters_make_it_wider(self) -> None:
        """Four objects, each all right or all wrong: their number counts, not that of the grasps."""
        values = np.repeat([0, 1, 0, 1], 50)

        def mean(drawn: np.ndarray) -> float:
            return float(values[drawn].mean())

        wide = cluster_interval([str(i // 50) for i in range(200)], mean)
        narrow = cluster_interval([str(i) for i in range(200)], mean)
        assert wide is not None
        assert narrow is not None
        assert wide[1] - wide[0] > 5 * (narrow[1] - narrow[0])

    def test_one_cluster_has_none(self) -> None:
        assert cluster_interval(["a", "a"], lambda i: 1.0) is None


class TestWorst:
    def test_the_loudest_come_first_and_sides_take_turns(self) -> None:
        assert [p.analytic.number for p in worst_pairs(pairs_of(a_study()), 9)] == [4, 6, 5]

    def test_two_of_an_object_at_most(self) -> None:
        entries = [e for n in range(5) for e in both(n, True, Failure.SLIP, q=0.9 - n / 100)]
        assert [p.analytic.number for p in worst_pairs(pairs_of(entries), 9)] == [0, 1]

    def test_a_caption_tells_both_sides(self) -> None:
        pair = pairs_of(both(4, True, Failure.SLIP, q=0.85, object_="cup", kind="disturbed", sub="10 mm"))[0]
        assert caption(pair).splitlines() == [
            "grasp 4: cup, disturbed: 10 mm, 8.0 N a finger, opened 50 mm",
            "analytic: success, Q 0.85; no reason given",
            "physics: slip; because of slip (slipped 1 mm, turned 6°)",
        ]

    @pytest.mark.render
    def test_a_disagreement_is_drawn_with_the_hand_at_its_place(self, tmp_path: Path) -> None:
        pytest.importorskip("mujoco")
        pytest.importorskip("frankik")
        pairs = pairs_of(both(0, True, Failure.SLIP, q=0.9))
        made, why = draw_worst(tmp_path, pairs, load_robot(), resolve)
        assert (why, [p.name for p in made]) == ("", ["01.png"])
        with Image.open(made[0]) as picture:
            assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 1000


class TestReport:
    def test_the_summary(self, snapshot: SnapshotAssertion) -> None:
        entries = a_study()
        found = figures(entries, resamples=200)
        captions = [caption(p) for p in worst_pairs(pairs_of(entries), 2)]
        assert summary_text(found, {"seed": 7, "objects": ["cube", "cup", "apple"]}, captions) == snapshot

    def test_the_confusion_as_csv(self) -> None:
        text = confusion_csv({"success": {"success": 4, "slip": 1}, "slip": {"drop": 2}})
        rows = list(csv.reader(io.StringIO(text)))
        assert rows[0] == ["analytic \\ physics", "success", "drop", "slip"]
        assert rows[1] == ["success", "4", "0", "1"]
        assert rows[3] == ["slip", "0", "2", "0"]

    def test_everything_is_written(self, tmp_path: Path) -> None:
        folder = tmp_path
        report = write_report(folder, a_study(), {"seed": 0, "objects": ["cube"]}, pictures=0)
        names = {p.name for p in folder.iterdir()}
        assert {"summary.md", "summary.json", "confusion.csv"} <= names
        assert report.to_dict()["agreement"] == pytest.approx(0.7)
        assert report.summary == (folder / "summary.md").read_text(encoding="utf-8")
