"""Decisions: what is answered, what is never answered, and when the operator is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import ACTIONS, VectorEmbedder, base_of, draft, near, picture_of, separable, unit
from sagehand.action.decision import Known
from sagehand.action.library import ActionLibrary
from sagehand.action.page import write_logged_page, write_page, write_pages
from sagehand.action.predict import Predictor
from sagehand.cases import CaseBase
from sagehand.errors import EmbedderMismatch, InputError, NeedsVlm, ReadOnlyCaseBase, UnknownName
from sagehand.judge.calibration import learn
from sagehand.judge.questions import Prediction
from sagehand.judge.risk import Answer
from sagehand.judge.scripted import ScriptedJudge

LIBRARY = ActionLibrary.parse(ACTIONS, source="test.yaml")
D0 = picture_of(unit([1, 0.05, 0.02]))


def predictor(
    base: CaseBase | None = None, *, calibrated: bool = True, library: Any = LIBRARY, **options: Any
) -> Predictor:
    base = separable() if base is None else base
    if calibrated:
        base.set_calibration(learn(base.index()).to_dict())
    return Predictor(base, library, embedder=VectorEmbedder(), **({"domain_level": 0} | options))


def test_a_query_without_depth_is_cut_by_colour_and_says_so() -> None:
    drafts = separable()
    base = CaseBase.in_memory(drafts.embedder, crop="relief")
    decision = predictor(base, calibrated=False).predict(D0)
    assert any("'relief' is by colour here" in w for w in decision.warnings)


def test_the_previous_action_decides_between_steps_that_look_alike() -> None:
    hand = predictor()
    for previous, following in (("none", "a1"), ("a1", "a2"), ("a2", "a3"), ("a3", "end")):
        decision = hand.predict(D0, Known(previous=previous))
        assert decision.next_action == following
        assert decision.case is not None
        assert decision.case.case.device == "d0"
        assert decision.case.case.next_action == following
        assert decision.end_state is (following == "end")
        assert decision.needs_confirmation is (following == "a3")
        assert decision.device_class == "f"
        assert decision.previous_action == previous


def test_the_document_is_plain_finite_json_and_is_logged_whole() -> None:
    hand = predictor()
    decision = hand.predict(D0, Known(previous="a1", object_id="o"))
    doc = decision.to_dict()
    text = json.dumps(doc, allow_nan=False)
    assert set(json.loads(text)) >= {
        "next_action", "abstained", "reason", "confidence", "valid_actions", "ruled_out", "previous_action", "remaining_actions",
        "is_last", "end_state", "device_class", "needs_confirmation", "certified_risk", "decision", "case", "candidates",
        "method", "judge", "seconds",
    }  # fmt: skip
    assert set(doc["case"]) >= {"id", "family", "device", "step", "similarity"}
    logged = hand.base.decision(doc["decision"])
    assert {k: logged[k] for k in ("next_action", "confidence", "case", "ruled_out")} == {
        k: doc[k] for k in ("next_action", "confidence", "case", "ruled_out")
    }
    assert doc["timings"]["log"] > 0
    assert sum(doc["timings"].values()) <= doc["seconds"]


@pytest.mark.parametrize("seed", range(30))
def test_an_action_that_is_ruled_out_is_never_the_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hand = predictor(separable(seed), log=False)
    facts = tuple(f if rng.random() < 0.5 else f"not {f}" for f in LIBRARY.facts if rng.random() < 0.5)
    decision = hand.predict(picture_of(near([1, 1, 1], 1.0, rng)), Known(facts=facts))
    assert decision.next_action is None or decision.next_action in decision.valid_actions
    assert not set(decision.ruled_out) & set(decision.valid_actions)
    assert decision.abstained is (decision.next_action is None)


def test_nothing_allowed_asks_the_operator() -> None:
    decision = predictor().predict(D0, Known(facts=("not closed", "not one", "not two", "not three")))
    assert decision.abstained
    assert "every action is ruled out" in decision.reason
    assert set(decision.ruled_out) == set(LIBRARY.actions)


def test_a_judge_that_answers_what_is_not_valid_is_not_obeyed() -> None:
    bad = Prediction("a3", 0.99, None, None, None, None, None, (), "scripted")
    hand = predictor(judge=ScriptedJudge({"predict": lambda question: bad}))
    decision = hand.predict(D0, Known(facts=("not two",)))
    assert decision.abstained
    assert decision.next_action is None
    assert "'a3', which is ruled out: needs two" in decision.reason


@pytest.mark.parametrize("confidence", [float("nan"), 1.5, -0.1])
def test_a_confidence_that_is_no_share_is_not_believed(confidence: float) -> None:
    bad = Prediction("a1", confidence, None, None, None, None, None, (), "scripted")
    decision = predictor(judge=ScriptedJudge({"predict": lambda question: bad})).predict(D0, Known(previous="none"))
    assert decision.abstained
    assert "is no share" in decision.reason
    json.dumps(decision.to_dict(), allow_nan=False)


def test_a_certificate_does_not_trust_the_confidence_of_another_judge() -> None:
    base = calibrated_with([Answer(0.99, True, str(i)) for i in range(400)])
    sure = Prediction("a1", 0.999, None, None, None, None, None, (), "scripted")
    vague = picture_of(unit([1, 1, 1]))
    hand = predictor(base, calibrated=False, risk=0.05, judge=ScriptedJudge({"predict": lambda question: sure}))
    decision = hand.predict(vague, Known())
    assert decision.ranking is not None
    assert max(decision.ranking.actions.values()) < 0.99
    assert decision.abstained
    assert decision.proposed == "a1"


def test_an_empty_history_means_that_nothing_was_done() -> None:
    decision = predictor().predict(D0, Known(history=()))
    assert (decision.next_action, decision.previous_action) == ("a1", "none")
    assert not any("previous action is not known" in w for w in decision.warnings)


def test_names_are_compared_in_one_spelling() -> None:
    import unicodedata

    name = unicodedata.normalize("NFC", "löten")
    rows = [
        {"family": "f", "device": d, "previous_action": p, "next_action": a}
        for d, p, a in (("x", name, "a1"), ("y", "b", "a2"))
    ]
    base = base_of([draft(str(i), unit([1, 0.1 * i]), r) for i, r in enumerate(rows)])
    hand = predictor(base, calibrated=False, library=None)
    decision = hand.predict(D0, Known(previous=unicodedata.normalize("NFD", name)))
    assert decision.candidates[0].evidence.previous == 1


def test_pictures_without_a_label_do_not_silence_the_cases_that_have_one() -> None:
    rng = np.random.default_rng(0)
    rows = [{"family": "f", "device": "d", **({"next_action": "a1"} if i % 2 else {})} for i in range(30)]
    base = base_of([draft(str(i), near([1], 0.2, rng), r) for i, r in enumerate(rows)])
    decision = predictor(base).predict(D0, Known(previous="none"))
    assert (decision.next_action, decision.confidence) == ("a1", 1.0)


def test_the_same_answer_three_times_in_a_row_asks_the_operator() -> None:
    hand = predictor(library=None)
    known = Known(previous="a1", object_id="box 7")
    # it goes on asking: an abstention does not start the count anew
    assert [hand.predict(D0, known).next_action for _ in range(5)] == ["a2", "a2", None, None, None]
    unlogged = predictor(library=None, log=False).predict(D0, known)
    assert any("not logged" in w for w in unlogged.warnings)
    assert hand.predict(D0, Known(previous="a1", object_id="box 8")).next_action == "a2"
    assert hand.predict(D0, Known(previous="a1")).next_action == "a2"


def test_out_of_domain_abstains_and_says_how_far() -> None:
    hand = predictor(domain_level=0.05)
    assert not hand.predict(D0, Known(previous="a1")).abstained
    strange = hand.predict(picture_of(unit([0, 0, 0, 0, 0, 0, 0, 1])), Known(previous="a1"))
    assert strange.abstained
    assert strange.reason.startswith("out of domain: the nearest case (d0, step ")
    assert strange.domain is not None
    assert strange.domain["in_domain"] is False


def test_the_own_picture_is_recalled_only_when_allowed() -> None:
    own = draft("own", unit([1]), {"family": "f", "device": "own", "next_action": "a1"})
    picture = picture_of(unit([1]))
    from sagehand.picture import load

    own = type(own)(image=own.image, pixel_id=load(picture).pixel_id, vector=own.vector, row=own.row)
    other = draft("other", unit([1, 0.3]), {"family": "f", "device": "other", "next_action": "a2"})
    hand = predictor(base_of([own, other]), calibrated=False)
    assert [c.case.device for c in hand.predict(picture).candidates] == ["other"]
    assert {c.case.device for c in hand.predict(picture, allow_own=True).candidates} == {"own", "other"}


def test_an_empty_base_and_an_unknown_family_ask_the_operator() -> None:
    decision = predictor(base_of([]), calibrated=False).predict(D0)
    assert decision.abstained
    assert decision.reason == "the case base holds no case to compare with"
    assert decision.case is None
    json.dumps(decision.to_dict(), allow_nan=False)


def calibrated_with(answers: list[Answer]) -> CaseBase:
    base = separable()
    from dataclasses import replace

    base.set_calibration(replace(learn(base.index()), answers=tuple(answers)).to_dict())
    return base


def test_a_risk_that_is_certified_answers_and_one_that_is_not_abstains() -> None:
    base = calibrated_with([Answer(0.9, True, str(i)) for i in range(400)])
    sure = predictor(base, calibrated=False, risk=0.05).predict(D0, Known(previous="a1"))
    assert sure.certified_risk is not None
    assert sure.certified_risk.certified
    confident = sure.confidence is not None and sure.confidence >= 0.9
    assert sure.abstained is not confident
    asks_much = predictor(base, calibrated=False, risk=0.001).predict(D0, Known(previous="a1"))
    assert asks_much.abstained
    assert "cannot be certified" in asks_much.reason
    assert "smallest that can be" in asks_much.reason


def test_no_certificate_covers_an_answer_that_the_guard_forced() -> None:
    base = calibrated_with([Answer(0.001, True, str(i)) for i in range(400)])
    hand = predictor(base, calibrated=False, risk=0.05)
    assert hand.predict(D0, Known(previous="a1")).next_action == "a2"
    forced = hand.predict(D0, Known(previous="a1", facts=("not one",)))
    assert forced.abstained
    assert "no certificate covers" in forced.reason


def test_a_stale_calibration_warns_and_certifies_nothing() -> None:
    base = calibrated_with([Answer(0.001, True, str(i)) for i in range(400)])
    base.retire(base.cases()[-1].id)
    decision = predictor(base, calibrated=False, risk=0.05).predict(D0, Known(previous="a1"))
    assert any("cases calibrate" in w for w in decision.warnings)
    assert decision.abstained
    assert "the cases have changed since the calibration was learnt" in decision.reason
    assert not predictor(base, calibrated=False).predict(D0, Known(previous="a1")).abstained


def test_a_case_added_while_serving_is_used_at_once() -> None:
    hand = predictor()
    vector = unit([0, 0, 0, 0, 0, 1])
    hand.base.add(draft("new", vector, {"family": "f", "device": "new", "previous_action": "a1", "next_action": "a2"}))
    decision = hand.predict(picture_of(vector), Known(previous="a1"))
    assert decision.case is not None
    assert decision.case.case.device == "new"


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    hand = predictor()
    with pytest.raises(UnknownName, match="did you mean 'a1'"):
        hand.predict(D0, Known(previous="a_1"))
    with pytest.raises(UnknownName, match="unknown method 'guess'; known: guided, single, zero-shot"):
        hand.predict(D0, method="guess")
    with pytest.raises(NeedsVlm, match="vision-language model"):
        hand.predict(D0, method="zero-shot")
    with pytest.raises(UnknownName, match="previous action 'x'"):
        predictor(library=None).predict(D0, Known(previous="x"))
    with pytest.raises(UnknownName, match="family 'g'; known: f"):
        predictor(library=None).predict(D0, Known(family="g"))
    assert any(
        "no case has the place 'shelf'" in w for w in hand.predict(D0, Known(previous="a1", place="shelf")).warnings
    )
    with pytest.raises(InputError, match="facts need an action library"):
        predictor(library=None).predict(D0, Known(facts=("closed",)))
    for risk in (0, 1, -0.1, float("nan")):
        with pytest.raises(InputError, match="risk .* is not a share"):
            predictor(risk=risk)
    from sagehand.embed import HashEmbedder

    with pytest.raises(EmbedderMismatch, match="reembed"):
        Predictor(separable(), LIBRARY, embedder=HashEmbedder())


def test_a_base_that_cannot_be_written_decides_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    hand = predictor()

    def refuse(*_: Any, **__: Any) -> int:
        raise ReadOnlyCaseBase("the case base cannot be written")

    monkeypatch.setattr(hand.base, "record_decision", refuse)
    decision = hand.predict(D0, Known(previous="a1"))
    assert (decision.next_action, decision.decision) == ("a2", None)
    assert any("not logged" in w for w in decision.warnings)


def test_pages_of_a_decision_of_a_folder_and_from_the_log(tmp_path: Path) -> None:
    from PIL import Image

    hand = predictor()
    folder = tmp_path / "in"
    folder.mkdir()
    Image.fromarray(D0).save(folder / "a.png")
    decision = hand.predict(folder / "a.png", Known(previous="a1"))
    write_page(tmp_path / "deep" / "page.html", decision, hand.base, folder / "a.png")
    assert "A2" in (tmp_path / "deep" / "page.html").read_text()
    write_logged_page(tmp_path / "again.html", hand.base.decision(decision.decision or 0), hand.base)
    assert "data:image/jpeg" in (tmp_path / "again.html").read_text()
    write_pages(tmp_path / "all", folder, [("a.png", decision), ("b.png", "no picture")], hand.base)
    assert sorted(p.name for p in (tmp_path / "all").iterdir()) == ["0001.html", "index.html"]
    with pytest.raises(InputError, match="cannot be written"):
        write_page(folder / "a.png" / "page.html", decision, hand.base, folder / "a.png")


def test_what_holds_less_belief_than_a_guess_is_no_answer() -> None:
    decision = predictor().predict(D0, Known(previous="a1", facts=("not one",)))
    assert decision.abstained
    assert decision.reason.startswith("cannot tell: the belief in 'a3' is 0.")
    assert decision.proposed == "a3"


def test_a_library_that_does_not_fit_the_cases_is_refused_or_told() -> None:
    other = ActionLibrary.parse(
        ACTIONS.replace("a1:", "b1:").replace("a2:", "b2:").replace("a3:", "b3:"), source="other.yaml"
    )
    with pytest.raises(InputError, match="none of the cases' next actions is in other.yaml: a1, a2, a3"):
        predictor(library=other).predict(D0)
    part = ActionLibrary.parse(
        ACTIONS.replace("a3:", "b3:").replace("families: [f]", "families: [g]"), source="part.yaml"
    )
    warnings = predictor(library=part).predict(D0, Known(previous="a1")).warnings
    assert any("part.yaml does not have: a3" in w for w in warnings)
    assert any("families of the cases that part.yaml does not have: f" in w for w in warnings)


@pytest.mark.parametrize(
    ("remaining", "kept"),
    [
        (("a2", "a3"), ("a2", "a3")),
        (("a3",), None),
        (("a2", "a1"), None),
        (("a2", "zap"), None),
        ((), None),
        (None, None),
    ],
)
def test_what_remains_is_handed_on_only_where_it_fits(
    remaining: tuple[str, ...] | None, kept: tuple[str, ...] | None
) -> None:
    said = Prediction("a2", None, None, remaining, False, None, None, (), "scripted")
    library = ActionLibrary.parse(
        ACTIONS.replace("[not closed, one]", "[not closed, one]").replace(
            "effects: [two]", "effects: [two, not closed]"
        ),
        source="t",
    )
    hand = predictor(library=library, judge=ScriptedJudge({"predict": lambda question: said}))
    decision = hand.predict(D0, Known(previous="a1"))
    assert decision.next_action == "a2"
    assert decision.remaining_actions == kept
    assert any("what remains was left out" in w for w in decision.warnings) is (kept is None and remaining is not None)
    if kept is not None:
        assert decision.is_last is (len(kept) == 1)


def test_end_leaves_nothing_to_do_whatever_is_said() -> None:
    said = Prediction("end", None, None, ("a1", "a1"), True, None, None, (), "scripted")
    decision = predictor(judge=ScriptedJudge({"predict": lambda question: said})).predict(D0, Known(previous="a3"))
    assert (decision.next_action, decision.remaining_actions, decision.is_last, decision.end_state) == (
        "end",
        (),
        False,
        True,
    )


@pytest.mark.parametrize(
    "wrong", [{"previous": 5}, {"history": "a1"}, {"history": [1]}, {"facts": "closed"}, {"place": 3}]
)
def test_what_is_known_is_text(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="not text|not a sequence of names"):
        Known(**wrong)
