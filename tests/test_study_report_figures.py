"""The report's figures and galleries against counts by hand."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest

from report_runs import DEVICES, OFFLINE, STEPS, VIEWS, WITH_MODEL, study_of
from sagehand.errors import MissingExtra
from sagehand.study.report.cells import Share
from sagehand.study.report.duels import paper_duels
from sagehand.study.report.figures import retrieval_figures
from sagehand.study.report.galleries import LIKE_STEP, MOST, NO_CASE, TOTAL, WRONG_STEP, galleries
from sagehand.study.report.load import Study
from sagehand.study.report.overview import confusion, main_table
from sagehand.study.report.parts import Bars, Chart, Counterpart, Counts, Curves, Grid, Histograms, RankPanel
from sagehand.study.report.tasks import task_figures
from sagehand.study.run.plan import Arm, Plan
from sagehand.study.run.record import TASKS, Record

pytest.importorskip("statsmodels", reason="the report's tests need the extra `study`")


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_of(tmp_path_factory.mktemp("run") / "pics", OFFLINE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_of(tmp_path_factory.mktemp("run") / "pics", OFFLINE | WITH_MODEL)


def paper_figures(study: Study) -> list[Counterpart]:
    return [*retrieval_figures(study), *task_figures(study)]


def by_name(parts: list[Counterpart]) -> dict[str, Counterpart]:
    return {p.name: p for p in parts}


def here(part: Counterpart) -> dict[str, str]:
    return {b.what: b.here for b in part.beside}


def right(records: list[Record], task: str = "next_action") -> Share:
    return Share(sum(bool(r.right[task]) for r in records), len(records))


def test_figure_7_counts_the_whole_folder_or_the_queries(offline: Study) -> None:
    part = by_name(paper_figures(offline))["figure-7"]
    assert isinstance(part.chart, Counts)
    assert sum(map(sum, part.chart.series.values())) == len(DEVICES) * STEPS * VIEWS
    assert here(part)["pictures a step"] == f"{VIEWS:.1f}"
    part = by_name(paper_figures(Study("run", offline.plan, {}, offline.records)))["figure-7"]
    assert here(part)["pictures"] == str(len(DEVICES) * STEPS * (VIEWS - 2))
    assert "only the queries" in part.notes[0]


def test_figure_8_shows_similarity_alone_by_crop(offline: Study) -> None:
    part = by_name(paper_figures(offline))["figure-8"]
    assert isinstance(part.chart, Bars)
    for crop, arm in (("none", "nearest-none"), ("perceptual", "nearest")):
        mine = [r for r in offline.records if r.arm == arm]
        assert list(part.chart.series[crop]) == [Share(sum(bool(r.case_step) for r in mine), len(mine))]
    whole_, cropped = (part.chart.series[c][0] for c in ("none", "perceptual"))
    assert whole_ is not None
    assert cropped is not None
    gain = 100 * (cropped.right - whole_.right) / whole_.right
    assert here(part)["relative gain by cropping"] == f"{gain:+.1f}\u202f%".replace("-", "−")


def test_figure_9_fits_the_ranks_that_there_are(offline: Study) -> None:
    part = by_name(paper_figures(offline))["figure-9"]
    assert isinstance(part.chart, Histograms)
    for panel in part.chart.panels:
        mine = [r.rank for r in offline.records if r.arm == panel.title]
        assert sorted(panel.ranks) == sorted(r for r in mine if r is not None)
    assert {p.title for p in part.chart.panels} == {"nearest", "nearest-none", "perceptual"}


def test_figure_10_holds_each_subset_apart_and_random_beside(whole: Study) -> None:
    part = by_name(paper_figures(whole))["figure-10"]
    assert isinstance(part.chart, Bars)
    assert list(part.chart.series) == ["resnet, train", "resnet, validation", "resnet, test", "random"]
    mine = [r for r in whole.records if r.arm == "resnet" and r.subset == "test"]
    assert list(part.chart.series["resnet, test"]) == [right(mine, task) for task in TASKS]


def test_figure_11_takes_the_base_on_the_same_pictures(whole: Study) -> None:
    part = by_name(paper_figures(whole))["figure-11"]
    assert isinstance(part.chart, Bars)
    items = {r.item for r in whole.records if r.arm == "tuned" and r.subset == "test"}
    shown = part.chart.series["zero, test"][TASKS.index("next_action")]
    ours = part.chart.series["tuned, test"][TASKS.index("next_action")]
    assert shown is not None
    assert ours is not None
    assert shown.n == ours.n
    base = [r for r in whole.records if r.arm == "zero" and r.item in items]
    assert shown == right(base)


def test_figure_12_has_one_arm_a_method_and_model(whole: Study) -> None:
    part = by_name(paper_figures(whole))["figure-12"]
    assert isinstance(part.chart, Bars)
    assert list(part.chart.series) == [
        "random", "majority", "context", "nearest", "perceptual", "zero", "single", "bad", "guided", "guided-4o",
    ]  # fmt: skip


def test_figures_13_to_16_pair_arms_of_one_model(whole: Study, offline: Study) -> None:
    for study, pairs in (
        (whole, [{"zero", "single"}, {"zero", "bad"}, {"single", "guided"}, {"zero", "guided"}]),
        (offline, [{"context", "nearest"}, None, {"nearest", "perceptual"}, {"nearest", "perceptual"}]),
    ):
        for part, names in zip(paper_duels(study), pairs, strict=True):
            if names is None:
                assert part.chart is None
                continue
            assert isinstance(part.chart, Bars)
            assert set(part.chart.series) == names
            assert bool(part.missing) == (study is offline)
            assert bool(part.stand_in) == (study is offline)


def test_figure_16_adds_up_to_the_arm(offline: Study) -> None:
    part = paper_duels(offline)[3]
    assert isinstance(part.chart, Bars)
    assert part.chart.groups == tuple(sorted(DEVICES))
    shares = [s for s in part.chart.series["perceptual"] if s is not None]
    mine = [r for r in offline.records if r.arm == "perceptual"]
    assert Share(sum(s.right for s in shares), sum(s.n for s in shares)) == right(mine)


def test_every_counterpart_is_there_with_the_paper_or_a_reason(offline: Study) -> None:
    parts = [*paper_figures(offline), *paper_duels(offline), *galleries(offline)]
    assert [p.number for p in parts if p.number] == [f"Figure {n}" for n in range(7, 19)]
    for part in parts:
        assert part.table is not None or part.missing
        assert part.beside


def test_a_gallery_shows_each_picture_once_and_at_most_twelve(whole: Study) -> None:
    for part in galleries(whole):
        assert part.gallery is not None
        shown = part.gallery.shown
        assert len(shown) <= MOST
        assert len({s.query for s in shown}) == len(shown)
        kinds = (
            {row[0] for row in part.table.rows if isinstance(row[-1], Share) and row[-1].right} if part.table else set()
        )
        if len(kinds) <= len(shown):
            assert {s.kind for s in shown} == kinds


def test_galleries_do_not_depend_on_the_order_of_the_records(whole: Study) -> None:
    mixed = list(whole.records)
    random.Random(3).shuffle(mixed)
    assert galleries(Study("run", whole.plan, {}, mixed, whole.data)) == galleries(whole)


def test_a_wrong_device_in_the_same_state_of_work_is_no_total_failure(offline: Study) -> None:
    part = galleries(offline)[1]
    assert part.table is not None
    shares = {row[0]: row[-1] for row in part.table.rows}
    counts = dict.fromkeys((WRONG_STEP, LIKE_STEP, TOTAL), 0)
    samples = {s.key: s for s in offline.data[None].samples}
    for r in offline.records:
        if r.arm != "perceptual" or r.case_step:
            continue
        case = samples[r.answer["case"]]
        if case.device == r.truth["device"]:
            counts[WRONG_STEP] += 1
        # the drawn devices all share their steps: the same number is the same state of work
        elif case.step == r.truth["step"]:
            counts[LIKE_STEP] += 1
        else:
            counts[TOTAL] += 1
    assert sum(counts.values()) > 5
    for kind, n in counts.items():
        assert shares.get(kind, Share(0, 72)) == Share(n, 72), kind


def test_without_pictures_nothing_is_shown_and_nothing_made_up(offline: Study) -> None:
    for part in galleries(Study("run", offline.plan, {}, offline.records)):
        assert part.gallery is None
        for row in part.table.rows if part.table else ():
            assert row[0] not in (TOTAL, LIKE_STEP)


def test_no_failure_is_said_and_no_case_is_a_kind() -> None:
    arm = Arm(name="p", method="perceptual")
    truth = {"next_action": "end", "device": "d", "family": "f", "step": 1}

    def record(item: str, mark: bool | None) -> Record:
        return Record("p", 0, 0, item, "query", truth, {"next_action": "end"}, {"next_action": True}, mark, mark)

    plan = Plan(name="p", arms=(arm,))
    assert galleries(Study("run", plan, {}, [record("1.jpg", True)]))[1].notes == ("Nothing failed.",)
    part = galleries(Study("run", plan, {}, [record("1.jpg", True), record("2.jpg", None)]))[1]
    assert part.table is not None
    assert part.table.rows[0][0] == NO_CASE


LONG = "a very long name of a device that nobody would give, with $maths$ and <b>&\n漢字"
CHARTS: dict[str, Chart] = {
    "bars": Bars(("one", LONG), {"a": [Share(1, 3), None], LONG: [Share(0, 0), Share(5, 5)]}),
    "many bars": Bars(tuple(f"{LONG}{i}" for i in range(24)), {f"arm {i}": [Share(i, 20)] * 24 for i in range(20)}),
    "counts": Counts((LONG,), {"step 1": [0], "step 2": [7]}),
    "curves": Curves({LONG: [(0.1, 0.0), (1.0, 0.5)]}, "coverage", "risk"),
    "grid": Grid((LONG, "b"), ("a", LONG), ((1, 0), (0, 0)), "answer", "truth"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_drawn_alike_each_time_with_no_date(name: str) -> None:
    pytest.importorskip("matplotlib")
    from sagehand.study.report.draw import svg_of

    first = svg_of(CHARTS[name])
    assert first == svg_of(CHARTS[name])
    assert b"<svg" in first[:1000]
    assert not re.search(rb"<dc:date>|\b20\d\d-\d\d-\d\dT", first)
    assert b"<script" not in first


def test_ranks_that_are_all_the_same_are_drawn_without_a_log_normal() -> None:
    pytest.importorskip("matplotlib")
    from sagehand.study.metrics import fit_ranks
    from sagehand.study.report.draw import svg_of

    assert b"<svg" in svg_of(Histograms((RankPanel("a", (1, 1, 1), fit_ranks([1, 1, 1])),)))


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, snapshot: Any) -> None:
    from sagehand.study.report.draw import svg_of

    for module in ("matplotlib", "matplotlib.backends.backend_svg", "matplotlib.figure"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtra) as raised:
        svg_of(CHARTS["counts"])
    assert str(raised.value) == snapshot


def shown(arm: str, item: str, step: bool | None, **truth: Any) -> Record:
    labels = {"next_action": "end", "device": "d", "family": "f", "step": 1, **truth}
    return Record(arm, 0, 0, item, "query", labels, {"next_action": "lever"}, {"next_action": False}, step, step)


def test_figure_8_holds_no_crop_made_by_hand_against_the_papers() -> None:
    marks = {"none": "1100", "perceptual": "1110", "truth": "1111"}
    arms = tuple(Arm(name=crop, method="nearest", crop=crop) for crop in marks)
    records = [shown(crop, f"{i}.jpg", mark == "1") for crop, word in marks.items() for i, mark in enumerate(word)]
    part = by_name(retrieval_figures(Study("run", Plan(name="p", arms=arms), {}, records)))["figure-8"]
    here = [b.here for b in part.beside]
    assert here[0].startswith("50.0")
    assert here[1].startswith("75.0")
    assert here[2] == "+50.0\u202f%"
    assert part.table is not None
    assert part.table.rows[-1][1:3] == ("truth", Share(4, 4))  # it stays in the table


def test_figure_8_holds_a_crop_against_none_of_one_protocol() -> None:
    arms = (
        Arm(name="whole", method="nearest", crop="none", protocol="paper"),
        Arm(name="cut", method="nearest", protocol="held-out"),
    )
    records = [shown(a.name, "1.jpg", True) for a in arms]
    part = by_name(retrieval_figures(Study("run", Plan(name="p", arms=arms), {}, records)))["figure-8"]
    assert part.table is not None
    assert [row[1] for row in part.table.rows] == ["none"]


def test_where_the_device_is_left_out_a_method_of_the_run_is_not_told_as_lacking() -> None:
    arms = (Arm(name="near", method="nearest"), Arm(name="judge", method="perceptual"))
    records = [shown(a.name, "1.jpg", False) for a in arms]
    study = Study("run", Plan(name="p", arms=arms, protocol="new-device"), {}, records)
    told = {p.name: p.missing for p in [*retrieval_figures(study), *galleries(study)]}
    for name in ("figure-8", "figure-9", "figure-17"):
        assert told[name] == "In near the device is left out of the base, so no case can be the right one."
    assert "`method: guided`" in told["figure-18"]
    assert "In judge the device is left out" in told["figure-18"]


def test_figure_9_says_that_no_right_case_was_in_the_base() -> None:
    arms = (Arm(name="near", method="nearest"), Arm(name="judge", method="perceptual"))
    records = [shown(a.name, "1.jpg", False) for a in arms]
    study = Study("run", Plan(name="p", arms=arms, protocol="paper"), {}, records)
    told = by_name(retrieval_figures(study))["figure-9"].missing
    assert told == "In near, judge no case of the query's device and step was in the base, so no answer has a rank."


def test_of_a_run_with_trained_arms_alone_it_is_said_where_they_are_shown() -> None:
    arms = (Arm(name="net", method="classifier"),)
    records = [replace(shown("net", "1.jpg", None), subset="test")]
    told = (
        "Every arm of this run is a trained one; it answers the devices of folds, and is shown there: net (Figure 10)."
    )
    study = Study("run", Plan(name="p", arms=arms), {}, records)
    assert [part.missing for part in (main_table(study), confusion(study), galleries(study)[2])] == [told] * 3


def test_confused_cuts_are_counted_only_where_something_is_cut() -> None:
    arm = Arm(name="p", method="perceptual")
    for action, here in (("end", "–"), ("cnc_cut_circular", "0 of 1: one of these cuts taken for the other")):
        records = [shown("p", "1.jpg", True, next_action=action)]
        part = galleries(Study("run", Plan(name="p", arms=(arm,)), {}, records))[2]
        assert part.beside[0].here == here


def test_lines_and_bars_of_one_color_can_be_told_apart() -> None:
    pytest.importorskip("matplotlib")
    from sagehand.study.report.draw import svg_of

    same = [(0.5, 0.1), (1.0, 0.5)]
    assert svg_of(Curves({"a": same, "b": same}, "x", "y")).count(b"stroke-dasharray") >= 2  # the line, and its key
    assert b"<pattern" in svg_of(Counts(("d",), {f"step {i}": [1] for i in range(11)}))
    assert b"<pattern" not in svg_of(Counts(("d",), {f"step {i}": [1] for i in range(10)}))


def test_the_legend_of_ranks_knows_a_fit_that_the_first_panel_lacks() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from sagehand.study.metrics import fit_ranks
    from sagehand.study.report.draw import _histograms

    figure = Figure()
    _histograms(figure, Histograms(tuple(RankPanel("a", r, fit_ranks(r)) for r in ((1, 1, 1), (1, 2, 4)))))
    names = {t.get_text() for t in figure.legends[0].get_texts()}
    assert names == {"queries", "exponential fit", "log-normal fit"}
