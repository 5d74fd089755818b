"""Certificates from labelled pictures outside the case base."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from builders import VectorEmbedder, base_of, draft, near, picture_of, png, separable, unit
from command_line import enter, phone_base, photo, row, run
from folders import png as png_of
from folders import write_rows
from sagehand.action.certify import CertifyItem, certify_items, certify_on
from sagehand.action.decision import Known
from sagehand.action.predict import Predictor
from sagehand.cases import CaseBase
from sagehand.embed import HashEmbedder
from sagehand.errors import EmbedderMismatch, InputError
from sagehand.judge.calibration import LEFT_OUT, OUTSIDE, Calibration, learn
from sagehand.judge.risk import certify
from sagehand.picture import load

EMBEDDER = VectorEmbedder()


def item(folder: Path, name: str, vector: Any, previous: str | None, following: str, **more: Any) -> CertifyItem:
    """A picture that embeds as the vector, and its label."""
    path = folder / f"{name}.png"
    path.write_bytes(png_of(picture_of(vector, zlib.crc32(name.encode()))))
    told = {"unit": name, "key": name} | more
    return CertifyItem(path, None, Known(previous=previous), following, **told)


def items(folder: Path, count: int, seed: int = 1, wrong: int = 0, steps: int = 4) -> list[CertifyItem]:
    """Fresh pictures of the devices of ``separable``; the labels of the first ``wrong`` of them are not true."""
    rng = np.random.default_rng(seed)
    found = []
    for n in range(count):
        device, step = n % 3, n // 3 % steps + 1
        following = "end" if step == steps else f"a{step}"
        if n < wrong:
            following = "a9"
        previous = "none" if step == 1 else f"a{step - 1}"
        found.append(item(folder, f"q{n}", near(np.eye(8)[device] * 3, 0.7, rng), previous, following))
    return found


def test_a_small_base_certifies_five_percent_only_by_pictures_outside_it(tmp_path: Path) -> None:
    base = separable(devices=4, steps=7, views=2)
    assert len(base) == 56
    left_out = learn(base.index())
    assert left_out.accuracy == 1.0
    assert not certify(left_out.answers, 0.05).certified
    learnt = certify_on(base, items(tmp_path, 200, steps=7), embedder=EMBEDDER)
    certificate = certify(learnt.answers, 0.05)
    assert certificate.certified, certificate.words()
    assert (len(learnt.answers) + learnt.refused, learnt.answers_from) == (200, OUTSIDE)
    # weights and the domain test are the cases' alone
    assert replace(learnt, answers=(), answers_from=LEFT_OUT, refused=0, seconds=0) == replace(
        left_out, answers=(), seconds=0
    )
    assert Calibration.from_dict(base.calibration() or {}) == learnt
    hand = Predictor(base, embedder=EMBEDDER, risk=0.05, domain_level=0)
    told = hand.predict(picture_of(unit([1, 0.1])), Known(previous="a1"))
    assert told.certified_risk is not None
    assert told.certified_risk.certified
    assert told.next_action == "a2"


def test_wrong_answers_count_against_the_certificate(tmp_path: Path) -> None:
    base = separable()
    learnt = certify_on(base, items(tmp_path, 120, wrong=40), embedder=EMBEDDER)
    assert [a.right for a in learnt.answers] == [False] * 40 + [True] * 80
    assert not certify(learnt.answers, 0.05).certified


def test_each_answer_is_what_predict_believes_of_the_same_picture(tmp_path: Path) -> None:
    base = separable(seed=3)
    asked = items(tmp_path, 24, seed=5)
    learnt = certify_on(base, asked, embedder=EMBEDDER)
    hand = Predictor(base, embedder=EMBEDDER, domain_level=0, log=False)
    for one, answer in zip(asked, learnt.answers, strict=True):
        ranking = hand.predict(one.picture, one.known).ranking
        assert ranking is not None
        assert (answer.case, answer.confidence) == (one.key, round(max(ranking.actions.values()), 6))


def test_the_depth_image_and_the_crop_are_used_as_for_the_cases(tmp_path: Path) -> None:
    shape = (48, 64)
    flat, bumpy = np.full(shape, 700, np.uint16), np.full(shape, 700, np.uint16)
    bumpy[8:20, 8:24] -= 90
    flat[30:44, 40:60] -= 40
    from sagehand.recall.build import add_picture, calibrate

    polygon = [[2, 2], [60, 2], [60, 46], [2, 46]]
    with CaseBase.in_memory(HashEmbedder().identity, crop="truth") as base:
        for n in range(6):
            (tmp_path / "c.png").write_bytes(png(n, (64, 48)))
            (tmp_path / "c-d.png").write_bytes(png_of(flat if n % 2 else bumpy))
            label = {"family": "f", "device": f"d{n % 2}", "next_action": f"x{n % 2}", "polygon": polygon}
            add_picture(base, tmp_path / "c.png", label, depth=tmp_path / "c-d.png", depth_unit="mm")
        learnt = calibrate(base)
        # the weight of depth is set, not learnt: six cases teach little
        base.set_calibration(replace(learnt, weights=(0.0, 0.0, 0.0, 5.0)).to_dict())
        (tmp_path / "q.png").write_bytes(png(99, (64, 48)))
        answers = {}
        for name, relief in (("flat", flat), ("bumpy", bumpy)):
            (tmp_path / f"{name}.png").write_bytes(png_of(relief))
            asked = CertifyItem(
                tmp_path / "q.png",
                tmp_path / f"{name}.png",
                Known(),
                "x1",
                "u",
                "q",
                polygon=((2, 2), (60, 2), (60, 46)),
            )
            answers[name] = certify_on(base, [asked]).answers[0]
        assert (answers["flat"].right, answers["bumpy"].right) == (True, False)
        assert min(a.confidence for a in answers.values()) > 0.9


def test_what_the_base_knows_certifies_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(50)
    twin = near([3], 0.7, rng)
    base = separable()
    (tmp_path / "own.png").write_bytes(png_of(picture_of(twin)))
    own = load(tmp_path / "own.png")
    label = {"family": "f", "device": "d0", "step": 1, "previous_action": "none", "next_action": "a1", "group": "g"}
    base.add(replace(draft("own", EMBEDDER.embed([own.pixels])[0], label), pixel_id=own.pixel_id))
    asked = [
        CertifyItem(tmp_path / "own.png", None, Known(), "a1", "own", "own"),
        item(tmp_path, "twin", twin, "none", "a1"),
        item(tmp_path, "group", near([0, 3], 0.7, rng), "none", "a1", group="g"),
        item(tmp_path, "new", near([0, 3], 0.7, rng), "none", "a1", group="h"),
        CertifyItem(tmp_path / "gone.png", None, Known(), "a1", "gone", "gone"),
    ]
    refused: dict[str, str] = {}
    failed: dict[str, str] = {}
    learnt = certify_on(
        base,
        asked,
        embedder=EMBEDDER,
        on_refused=lambda one, why: refused.update({one.key: why}),
        on_failed=lambda one, why: failed.update({one.key: why}),
    )
    assert [a.case for a in learnt.answers] == ["new"]
    assert learnt.refused == 3
    assert refused["own"] == "it is in the case base"
    assert refused["twin"].startswith("a near-duplicate is in the case base: own (cosine 1.0")
    assert refused["group"] == "its group 'g' is in the case base"
    assert list(failed) == ["gone"]


def test_where_devices_are_left_out_a_known_device_certifies_nothing(tmp_path: Path) -> None:
    base = separable()
    base.set_calibration(learn(base.index(), "device").to_dict())
    rng = np.random.default_rng(50)
    known = item(tmp_path, "known", near([3], 0.7, rng), "none", "a1", family="f", device="d0")
    others = [
        item(tmp_path, "new", near([0, 0, 3], 0.7, rng), "none", "a1", family="f", device="d9"),
        item(tmp_path, "same name", near([0, 0, 3], 0.7, rng), "none", "a1", family="g", device="d0"),
    ]
    told: list[str] = []
    learnt = certify_on(base, [known, *others], embedder=EMBEDDER, on_refused=lambda _, why: told.append(why))
    assert [a.case for a in learnt.answers] == ["new", "same name"]
    assert told == ["its device 'd0' is in the case base, whose calibration is for new devices"]
    base.set_calibration(learn(base.index(), "case").to_dict())
    assert certify_on(base, [known, *others], embedder=EMBEDDER).refused == 0


def test_near_duplicates_among_the_pictures_are_one_unit(tmp_path: Path) -> None:
    base = separable()
    vectors = [unit([1, 0.4, 0, 0.5]), unit([1, 0.4, 0, 0.5]), unit([0, 1, 0, 0.8]), unit([0, 0, 1, 0, 0.7])]
    asked = [item(tmp_path, f"q{n}", vector, "none", "a1") for n, vector in enumerate(vectors)]
    asked[2] = replace(asked[2], unit="q1")  # shares its unit with one of the pair
    learnt = certify_on(base, asked, embedder=EMBEDDER)
    assert [a.unit for a in learnt.answers] == ["q0", "q0", "q0", "q3"]


def test_a_change_makes_it_stale_and_learning_again_takes_it_away(tmp_path: Path) -> None:
    base = separable()
    certify_on(base, items(tmp_path, 200), embedder=EMBEDDER)
    base.retire(base.cases()[0].id)
    hand = Predictor(base, embedder=EMBEDDER, risk=0.05, domain_level=0)
    decision = hand.predict(picture_of(unit([1, 0.1])), Known(previous="a1"))
    assert decision.certified_risk is not None
    assert decision.certified_risk.stale
    again = certify_on(base, items(tmp_path, 200), embedder=EMBEDDER)  # it calibrates first
    assert again.revision == base.revision
    assert not again.stale(base.revision)
    from sagehand.recall.build import calibrate

    assert calibrate(base).answers_from == LEFT_OUT


def test_calibrations_of_before_are_of_cases_left_out() -> None:
    doc = json.loads(json.dumps(learn(separable().index()).to_dict()))
    del doc["answers_from"], doc["refused"]
    old = Calibration.from_dict(doc)
    assert (old.answers_from, old.refused, len(old.answers)) == (LEFT_OUT, 0, len(doc["answers"]))
    assert len(old.answers) > 0


def test_nothing_is_stored_where_nothing_can_certify(tmp_path: Path) -> None:
    base = separable()
    before = learn(base.index()).to_dict()
    base.set_calibration(before)
    one = items(tmp_path, 1)[0]
    for asked, told in (
        ([], "there is no picture"),
        ([one, one], "'q0'"),
        ([replace(one, picture=Path("no"))], "none of 1"),
    ):
        with pytest.raises(InputError, match=told):
            certify_on(base, asked, embedder=EMBEDDER)
    with pytest.raises(EmbedderMismatch):
        certify_on(base, [one], embedder=HashEmbedder())
    assert base.calibration() == before


def test_an_empty_base_answers_nothing_with_no_confidence(tmp_path: Path) -> None:
    base = base_of([])
    (answer,) = certify_on(base, items(tmp_path, 1), embedder=EMBEDDER).answers
    assert (answer.confidence, answer.right) == (0.0, False)


def test_the_items_of_a_folder(tmp_path: Path) -> None:
    rows = [
        {**row(1, 0), "group": "g", "place": "table", "depth_file_name": "d.png", "polygon": [[0, 0], [9, 0], [0, 9]]},
        {"file_name": "a.png", "family": "phone", "device": "x1"},
        {"file_name": "b.png", "family": "phone"},
        row(2, 0),
    ]
    write_rows(tmp_path, rows)
    found, left = certify_items(tmp_path)
    assert [(i.key, i.unit, i.next_action, i.known.previous, i.known.place) for i in found] == [
        ("s1v0.png", "g", "unscrew", "none", "table"),
        ("s2v0.png", "s2v0.png", "pry", "unscrew", None),
    ]
    assert (found[0].depth, found[1].depth) == (tmp_path / "d.png", None)
    assert found[0].polygon == ((0, 0), (9, 0), (0, 9))
    assert [name for name, _ in left] == ["a.png", "b.png"]
    assert [i.unit for i in certify_items(tmp_path, "device")[0]] == ["phone/x1"] * 2


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of fresh photos of the phone, beside its case base ``p.cases``."""
    enter(tmp_path, monkeypatch)
    phone_base(tmp_path)
    folder = tmp_path / "fresh"
    folder.mkdir()
    rows = []
    for step in (1, 2, 3, 4):
        for view in range(10, 35):
            photo(step, view).save(folder / f"s{step}v{view}.png")
            rows.append(row(step, view))
    write_rows(folder, rows)
    return folder


def test_calibrate_certify_with_a_folder(fresh: Path) -> None:
    before = run("cases", "calibrate", "p.cases", "--json").json["certified_by"]
    assert (before["answers_from"], before["answers"]) == ("cases left out", 12)
    done = run("cases", "calibrate", "p.cases", "--certify-with", fresh, "--json")
    assert (done.code, done.err) == (0, "")
    told = done.json["certified_by"]
    assert (told["answers_from"], told["answers"], told["units"], told["refused"]) == (
        "pictures outside the base", 100, 100, 0
    )  # fmt: skip
    assert told["smallest_risk"] < (before["smallest_risk"] or 1)
    again = run("cases", "calibrate", "p.cases", "--json")
    assert again.json["certified_by"] == before
    assert "give --certify-with again" in again.err


def test_calibrate_tells_what_certifies_nothing_and_what_cannot_be_used(
    fresh: Path, snapshot: SnapshotAssertion
) -> None:
    photo(1, 0).save(fresh / "s1v0.png")  # a case
    lines = (fresh / "metadata.jsonl").read_text()
    bad = {"file_name": "gone.png", "family": "phone", "device": "x1", "next_action": "pry"}
    unlabelled = {"file_name": "s1v10b.png", "family": "phone", "device": "x1"}
    more = "".join(json.dumps(r) + "\n" for r in (row(1, 0), bad, unlabelled))
    (fresh / "metadata.jsonl").write_text(lines + more)
    done = run("cases", "calibrate", "p.cases", "--certify-with", "fresh", "--json")
    assert done.code == 1
    assert (done.json["certified_by"]["answers"], done.json["certified_by"]["refused"]) == (100, 1)
    assert done.err == snapshot


def test_a_folder_that_certifies_nothing_leaves_the_calibration_as_it_was(fresh: Path) -> None:
    run("cases", "calibrate", "p.cases", "--certify-with", fresh)
    with CaseBase.open("p.cases") as base:
        before = base.calibration()
    known = fresh.parent / "known"
    known.mkdir()
    photo(1, 0).save(known / "s1v0.png")
    write_rows(known, [row(1, 0)])
    done = run("cases", "calibrate", "p.cases", "--certify-with", "known")
    assert "none of 1 pictures can certify anything: it is in the case base" in done.err
    assert done.code == 2
    with CaseBase.open("p.cases") as base:
        assert base.calibration() == before
