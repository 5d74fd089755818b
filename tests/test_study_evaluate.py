"""`evaluate`: what is fair to compare, what the label must say, and figures that carry their reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from builders import ACTIONS, IDENTITY, VectorEmbedder, near, picture_of
from folders import png, write_rows
from sagehand.action.library import ActionLibrary
from sagehand.action.predict import Predictor
from sagehand.cases import CaseBase, CaseDraft
from sagehand.picture import Limits, load
from sagehand.recall.build import calibrate
from sagehand.study.baselines import Baselines
from sagehand.study.evaluate import EvaluateReport, evaluate
from sagehand.study.score import Item, p_rounded, p_text, same_place, summarise

LIBRARY = ActionLibrary.parse(ACTIONS, source="test.yaml")


def scene(device: int, seed: int, spread: float = 0.7) -> Any:
    return picture_of(near(np.eye(8)[device] * 3, spread, np.random.default_rng(seed)), seed)


def label(device: int, step: int, **more: Any) -> dict[str, Any]:
    previous, following = ("none" if step == 1 else f"a{step - 1}"), ("end" if step == 4 else f"a{step}")
    row = {"family": "f", "device": f"d{device}", "step": step, "previous_action": previous, "next_action": following}
    return {**row, **more}


def base_of(pictures: Sequence[tuple[Any, Mapping[str, Any]]]) -> CaseBase:
    base = CaseBase.in_memory(IDENTITY)
    embedder = VectorEmbedder()
    drafts = []
    for number, (pixels, row) in enumerate(pictures):
        seen = load(pixels)
        row = {"file_name": f"case{number}.png", **row}
        drafts.append(CaseDraft(png(pixels), seen.pixel_id, embedder.embed([pixels])[0], row))
    base.add_many(drafts)
    return base


CASES = [(scene(d, 100 * d + 10 * s + v), label(d, s)) for d in range(3) for s in (1, 2, 3, 4) for v in range(2)]


def ask(folder: Path, rows: Sequence[tuple[Any, Mapping[str, Any]]], base: CaseBase, **options: Any) -> EvaluateReport:
    folder.mkdir()
    for number, (pixels, _) in enumerate(rows):
        Image.fromarray(pixels).save(folder / f"{number}.png")
    write_rows(folder, [{"file_name": f"{number}.png", **row} for number, (_, row) in enumerate(rows)])
    hand = Predictor(base, LIBRARY, embedder=VectorEmbedder(), log=False, domain_level=0)
    return evaluate(folder, hand, **options)


def test_pictures_that_the_base_knows_are_counted(tmp_path: Path) -> None:
    almost = CASES[3][0].copy()
    almost[5, 5] ^= 1
    rows = [
        (scene(1, 900), label(1, 2)),
        (CASES[0][0], label(0, 1)),
        (almost, label(0, 2)),
        (scene(2, 901), label(2, 1, group="tripod")),
        (scene(2, 902), label(2, 1, group="another")),
    ]
    base = base_of([*CASES, (scene(2, 903), label(2, 1, group="tripod"))])
    report = ask(tmp_path / "q", rows, base)
    assert report.figures["overlap"] == 3
    assert [i.overlap for i in report.items] == [
        "",
        "the picture is in the case base",
        "a near-duplicate is in the case base: case3.png",
        "its group 'tripod' is in the case base",
        "",
    ]
    assert report.items[1].to_dict()["overlap"]


def test_the_own_picture_answers_for_no_arm(tmp_path: Path) -> None:
    alone = (scene(0, 7), label(0, 2, previous_action="a1", next_action="a2", place="vise"))
    others = [(scene(1, 20 + i), label(1, 1, previous_action="none", next_action="a1", place="table")) for i in (1, 2)]
    tie = (scene(2, 30), label(2, 2, previous_action="a1", next_action="a3", place="floor"))
    base = base_of([alone, *others, tie, (scene(2, 31), label(2, 2, next_action="a2", place="floor"))])
    (item,) = ask(tmp_path / "q", [alone], base).items
    # a1 and a2 stand twice each in the base, but one a2 is the picture itself
    assert item.others["majority"] == "a1"
    assert item.others["context_only"] in ("a2", "a3")
    only = base_of([alone])
    (item,) = ask(tmp_path / "r", [alone], only).items
    assert item.others == {"photo_only": None, "context_only": None, "majority": None}


def test_the_context_is_weighed_as_the_base_was_calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base for new devices: what its other devices tell of the place is not learnt from the device itself."""
    place = {(d, s): f"p{(d + s) % 3}" for d in range(3) for s in (1, 2, 3, 4)}
    base = base_of([(p, {**row, "place": place[int(row["device"][1]), row["step"]]}) for p, row in CASES])
    calibrate(base, "device")
    by_device, by_case = Baselines.of(base), Baselines(base.index())
    told = [list(b.context_shares("a1", "p2", None)) for b in (by_device, by_case, Baselines(base.index(), "device"))]
    assert told[0] == told[2]
    assert told[0] != told[1]
    used: list[CaseBase] = []

    def of(base: CaseBase) -> Baselines:
        used.append(base)
        return by_device

    monkeypatch.setattr(Baselines, "of", of)
    ask(tmp_path / "q", [(scene(0, 900), label(0, 2, place="p2"))], base)
    assert used == [base]


def test_labels_outside_the_library_fail_and_conflicts_are_listed(tmp_path: Path) -> None:
    rows = [
        (scene(0, 900), label(0, 1)),
        (scene(0, 901), label(0, 2, next_action="a22")),
        (scene(0, 902), label(0, 3, history=["a1", "zap"], previous_action=None)),
        (scene(0, 903), label(0, 2, next_action="a1")),
    ]
    base = base_of([*CASES, (scene(0, 904), label(0, 2, next_action="a1"))])
    report = ask(tmp_path / "q", rows, base)
    assert [name for name, _ in report.failed] == ["1.png", "2.png"]
    assert "unknown next action 'a22'; known: a1, a2, a3, end (did you mean 'a2'" in report.failed[0][1]
    assert "'zap'" in report.failed[1][1]
    ours, theirs = report.figures["conflicts"]
    assert ours.startswith("case24.png")
    assert theirs.startswith(f"{tmp_path / 'q' / '3.png'}: next action 'a1' is ruled out")
    assert report.figures["n"] == 2


def test_the_mean_rank_of_the_nearest_picture_is_computed(tmp_path: Path) -> None:
    rows = [(scene(d, 900 + d), label(d, s)) for d, s in ((0, 1), (1, 2), (2, 4))]
    report = ask(tmp_path / "q", rows, base_of(CASES))
    ranks = [item.other_rank["photo_only"] for item in report.items]
    assert None not in ranks
    assert report.figures["photo_only"]["mean_rank"] == pytest.approx(sum(filter(None, ranks)) / 3, abs=1e-3)
    # the steps of a device look alike here: only the previous action tells them apart
    assert report.figures["photo_only"]["mean_rank"] > report.figures["mean_rank"]


def test_a_step_that_is_not_known_is_no_wrong_step(tmp_path: Path) -> None:
    report = ask(tmp_path / "q", [(scene(0, 900), {**label(0, 1), "step": None})], base_of(CASES))
    (item,) = report.items
    assert (item.rank, item.other_rank["photo_only"], item.case_step, item.other_step["photo_only"]) == (None,) * 4
    assert report.figures["unranked"] == 1


def test_the_unit_and_the_cap_are_those_that_were_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "q"
    folder.mkdir()
    small, large = scene(0, 900), np.zeros((60, 80, 3), np.uint8)
    depth = np.full(small.shape[:2], 35_000, np.uint16)
    for name, pixels in {"small.png": small, "large.png": large, "depth.png": depth}.items():
        (folder / name).write_bytes(png(pixels))
    write_rows(
        folder,
        [
            {"file_name": "small.png", **label(0, 1), "depth_file_name": "depth.png"},
            {"file_name": "large.png", **label(0, 1)},
        ],
    )
    hand = Predictor(base_of(CASES), LIBRARY, embedder=VectorEmbedder(), log=False, domain_level=0)
    report = evaluate(folder, hand, depth_unit="um", limits=Limits(max_pixels=2000))
    assert ([i.file_name for i in report.items], [n for n, _ in report.failed]) == (["small.png"], ["large.png"])
    report = evaluate(folder, hand)  # millimetres, and no cap that bites
    assert [i.file_name for i in report.items] == ["large.png"]
    assert "median depth would be 35 m" in report.failed[0][1]


def test_figures_that_are_null_say_why() -> None:
    figures = summarise([Item("a", "x", "f", "d", None, "x", 0.9)], rank_of="r", no_device="left out")

    def nulls(doc: Any, path: str = "") -> list[str]:
        if not isinstance(doc, dict):
            return []
        bad = [f"{path}.{k}" for k, v in doc.items() if v is None and not (doc.get("reason") or doc.get(f"{k}_reason"))]
        return bad + [b for k, v in doc.items() for b in nulls(v, f"{path}.{k}")]

    assert nulls(figures) == []
    for arm in ("context_only", "majority"):
        assert figures[arm]["device"]["accuracy"] is None
        assert "recalls no" in figures[arm]["step"]["reason"]
        assert figures[arm]["mean_rank"] is None
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_a_small_p_value_is_not_0() -> None:
    items = [Item(str(i), "x", "f", "d", 1, "x", 0.9, others={"photo_only": "y"}) for i in range(40)]
    p_value = summarise(items, rank_of="r")["discordant"]["photo_only"]["p_value"]
    assert p_value == pytest.approx(2 * 0.5**40, rel=5e-3)
    assert p_rounded(0.0123456) == 0.0123
    assert [p_text(p) for p in (p_value, 1e-4, 0.04761, 1.0)] == ["p < 0.0001", "p = 0.0001", "p = 0.0476", "p = 1"]


def test_same_place() -> None:
    (case,) = base_of([(scene(0, 1), label(0, 2))]).cases()
    assert same_place(None, "f", "d0") is None
    assert [same_place(case, *place) for place in (("f", "d0"), ("f", "d1"), ("g", "d0"))] == [True, False, False]
    assert [same_place(case, "f", "d0", step) for step in (2, 3)] == [True, False]
