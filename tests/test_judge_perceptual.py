"""The perceptual judge says what was measured, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from builders import picture_of, separable, unit
from sagehand.errors import JudgeError
from sagehand.judge.calibration import learn
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Candidate, Grade, LeafScore, PredictQuestion, Query
from sagehand.judge.saliency import stands_out, stands_up
from sagehand.judge.scripted import ScriptedJudge
from sagehand.picture import Box, load
from sagehand.recall.rank import rank

BASE = separable()
INDEX = BASE.index()
LEARNT = learn(INDEX)
JUDGE = PerceptualJudge(LEARNT)
QUERY = Query(unit([1, 0.1, 0.05]), previous_action="a1")


def candidates(query: Query = QUERY) -> tuple[Candidate, ...]:
    return rank(INDEX, query, LEARNT).candidates


def question(query: Query = QUERY, valid: tuple[str, ...] = ("a1", "a2", "a3", "end")) -> PredictQuestion:
    ranking = rank(INDEX, query, LEARNT)
    return PredictQuestion(
        query, (*ranking.candidates, *ranking.leading.values()), ranking.actions, ranking.classes, valid
    )


def test_shape_and_components_are_never_claimed() -> None:
    for candidate in candidates():
        for answer in (JUDGE.bool_grade(QUERY, candidate), JUDGE.grade(QUERY, candidate)):
            by_topic = {f.topic: f.verdict for f in answer.findings}
            assert by_topic["shape"] == by_topic["components"] == "cannot tell"
            assert answer.by == "perceptual"


def test_what_is_not_known_is_said_not_to_be_known() -> None:
    bare = Query(QUERY.vector)
    for finding in JUDGE.findings(bare, candidates(bare)[0]):
        if finding.topic in ("previous action", "place"):
            assert finding.verdict == "cannot tell"
            assert "not known" in finding.text


def test_without_a_calibration_it_cannot_tell() -> None:
    judge = PerceptualJudge()
    best = candidates()[0]
    assert judge.bool_grade(QUERY, best).accepted is None
    assert judge.grade(QUERY, best).score is None
    assert judge.leaf_score(QUERY, "d0", [judge.grade(QUERY, best)]).score is None
    assert judge.expand(QUERY, {}).expand is None
    assert next(f for f in judge.findings(QUERY, best)).verdict == "cannot tell"


def test_the_same_device_and_step_grades_above_another_and_a_contradiction_is_rejected() -> None:
    ranked = candidates()
    right = next(c for c in ranked if (c.case.device, c.case.step) == ("d0", 2))
    wrong = next(
        c for c in rank(INDEX, QUERY, LEARNT, keep=36).candidates if c.case.device == "d2" and c.case.step == 4
    )
    good, bad = JUDGE.grade(QUERY, right), JUDGE.grade(QUERY, wrong)
    assert good.score is not None
    assert bad.score is not None
    assert 0 <= bad.score < good.score <= 10
    assert JUDGE.bool_grade(QUERY, wrong).accepted is False
    contradicted = Query(QUERY.vector, previous_action="a3")
    again = next(c for c in rank(INDEX, contradicted, LEARNT, keep=36).candidates if c.case.id == right.case.id)
    assert JUDGE.bool_grade(contradicted, again).accepted is False


def test_comparing_is_antisymmetric_and_equal_is_cannot_tell() -> None:
    first, second = candidates()[0], candidates()[-1]
    assert JUDGE.compare(QUERY, first, second).better == "first"
    assert JUDGE.compare(QUERY, second, first).better == "second"
    assert JUDGE.compare(QUERY, first, first).better is None


def test_leaves_and_expansion() -> None:
    grades = [Grade(3, (), "x"), Grade(None, (), "x"), Grade(4, (), "x")]
    leaf = JUDGE.leaf_score(QUERY, "d0", grades)
    assert leaf.score == 4
    assert JUDGE.expand(QUERY, {"d0": leaf}).expand is True
    assert JUDGE.expand(QUERY, {"d0": leaf, "d1": LeafScore(9, "", "x")}).expand is False


def test_predict_answers_from_the_valid_actions_only() -> None:
    answer = JUDGE.predict(question())
    assert answer.next_action == "a2"
    assert answer.case is not None
    assert answer.case.case.next_action == "a2"
    assert answer.remaining_actions == ("a2", "a3")
    assert answer.device_class == "f"
    assert JUDGE.predict(question(valid=("a3",))).next_action == "a3"
    none = JUDGE.predict(question(valid=()))
    assert none.next_action is None
    assert "ruled out" in none.findings[0].text


def test_without_a_labelled_case_it_cannot_tell() -> None:
    answer = JUDGE.predict(PredictQuestion(QUERY, candidates(), {}, {"f": 1.0}, ("a1", "a2")))
    assert answer.next_action is None
    assert answer.findings[0].text == "of no case near it is the next action known"


def test_what_contradicts_anything_known_is_rejected() -> None:
    elsewhere = Query(QUERY.vector, previous_action="a1", family="another")
    right = next(c for c in candidates() if (c.case.device, c.case.step) == ("d0", 2))
    assert JUDGE.bool_grade(QUERY, right).accepted is True
    answer = JUDGE.bool_grade(elsewhere, right)
    assert answer.accepted is False
    assert any(f.topic == "device class" and f.verdict == "differs" for f in answer.findings)


def plain(*standing: tuple[tuple[int, int, int, int], float], tilt: float = 0.0, noise: float = 0.001) -> np.ndarray:
    """(240, 320) depth [m] of a table 0.4 m away on which boxes (left, top, right, bottom) stand so high [m]."""
    distance = 0.4 / (1.0 + tilt * np.linspace(-1, 1, 320))[None, :].repeat(240, axis=0)
    for (left, top, right, bottom), height in standing:
        distance[top:bottom, left:right] *= 1.0 - height / 0.4
    return (distance + np.random.default_rng(1).normal(0, noise, distance.shape)).astype(np.float32)


def holds(box: Box | None, thing: tuple[int, int, int, int], most: float) -> bool:
    left, top, right, bottom = thing
    return (
        box is not None
        and (box.left <= left and box.top <= top and box.right >= right and box.bottom >= bottom)
        and box.area <= most * 320 * 240
    )


THING = (130, 80, 210, 150)
GREY = np.full((240, 320, 3), 120, np.uint8)


@pytest.mark.parametrize("tilt", [0.0, 0.25])
def test_what_stands_up_is_cut_out_whatever_its_colour(tilt: float) -> None:
    pixels = GREY.copy()
    pixels[10:60, 10:60] = 255  # a bright paper beside a device of the table's colour
    box, text = stands_up(pixels, plain((THING, 0.02), tilt=tilt))
    assert holds(box, THING, 0.15)
    assert "stands up from the surface" in text


def test_what_stands_on_a_plate_that_reaches_the_edge_is_cut_out() -> None:
    box, _ = stands_up(GREY, plain(((60, 30, 290, 240), 0.03), (THING, 0.05)))
    assert holds(box, THING, 0.15)


def test_within_what_reaches_the_edge_colour_decides() -> None:
    pixels = GREY.copy()
    pixels[80:150, 130:210] = (20, 120, 40)
    pixels[10:120, 5:45] = 255
    box, text = stands_up(pixels, plain(((60, 30, 290, 240), 0.03)))  # a device flush with the plate
    assert holds(box, THING, 0.2)
    assert "reaches the edge" in text


def test_without_relief_it_is_the_crop_by_colour() -> None:
    pixels = disc("darkgreen")
    by_colour, why = stands_out(pixels)
    for depth in (None, plain(), np.full((240, 320), np.nan, np.float32)):
        box, text = stands_up(pixels, depth)
        assert box == by_colour
        assert why in text
    assert stands_up(pixels[:8], None)[0] is None


def test_the_relief_crop_is_the_judges_too() -> None:
    picture = load(GREY, depth=plain((THING, 0.02)))
    assert holds(JUDGE.relief_crop(picture).box, THING, 0.15)


def disc(background: str, size: tuple[int, int] = (320, 240)) -> np.ndarray:
    image = Image.new("RGB", size, background)
    ImageDraw.Draw(image).ellipse((120, 60, 220, 160), fill="white")
    noise = np.random.default_rng(0).normal(0, 4, (size[1], size[0], 3))
    return np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("background", ["black", "darkgreen", "saddlebrown", "gray"])
def test_the_crop_holds_the_disc_and_removes_much(background: str) -> None:
    answer = JUDGE.crop(load(disc(background)))
    box = answer.box
    assert box is not None
    assert box.left <= 120
    assert box.top <= 60
    assert box.right >= 220
    assert box.bottom >= 160
    assert box.area < 0.4 * 320 * 240


def test_an_even_or_tiny_picture_has_no_crop_and_says_why() -> None:
    even = np.full((120, 160, 3), 90, dtype=np.uint8)
    assert stands_out(even)[0] is None
    assert "nothing stands out" in stands_out(even)[1]
    assert stands_out(np.zeros((1, 1, 3), dtype=np.uint8))[0] is None
    assert stands_out(np.zeros((3, 900, 3), dtype=np.uint8))[0] is None
    assert JUDGE.crop(load(picture_of(unit([1])))).findings[0].verdict == "cannot tell"


def test_the_scripted_judge_plays_its_script_and_says_when_it_ends() -> None:
    grade = Grade(7, (), "me")
    judge = ScriptedJudge(
        {"grade": [grade], "expand": lambda query, scores: JUDGE.expand(query, scores), "compare": [3]}
    )
    assert judge.grade(QUERY, candidates()[0]) is grade
    assert judge.expand(QUERY, {}).expand is None
    with pytest.raises(JudgeError, match="no answer left for 'grade'"):
        judge.grade(QUERY, candidates()[0])
    with pytest.raises(JudgeError, match="answers 'compare' with a int"):
        judge.compare(QUERY, *candidates()[:2])
    assert judge.asked == ["grade", "expand", "grade", "compare"]
