"""Logged decisions run again: the same against the cases as they were, told where not against those of today."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from builders import ACTIONS, IDENTITY, VectorEmbedder, base_of, draft, near, picture_of, separable, unit
from command_line import enter, phone_base, photo, run
from guided import call, pictured
from sagehand.action.decision import Known
from sagehand.action.library import ActionLibrary
from sagehand.action.predict import Predictor
from sagehand.action.replay import Replayer, replay
from sagehand.cases import CaseBase, Embedded
from sagehand.cases.schema import SCHEMA_VERSION
from sagehand.errors import InputError, NoSuchCase, StoreError, UnknownName
from sagehand.judge.calibration import Calibration, learn
from sagehand.judge.questions import Prediction
from sagehand.judge.scripted import ScriptedJudge
from sagehand.vlm.ask import Vlm
from sagehand.vlm.scripted import ScriptedBackend

LIBRARY = ActionLibrary.parse(ACTIONS, source="test.yaml")
OTHER = ActionLibrary.parse(ACTIONS.replace("Second.", "Another."), source="other.yaml")
D0 = picture_of(unit([1, 0.05, 0.02]))


def calibrated(base: CaseBase) -> CaseBase:
    base.set_calibration(learn(base.index()).to_dict())
    return base


def hand(base: CaseBase, **options: Any) -> Predictor:
    return Predictor(base, LIBRARY, embedder=VectorEmbedder(), **({"domain_level": 0} | options))


class Life:
    """A case base in use: decisions, and changes of the cases between them, all drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.base = separable(seed=seed)
        self.learnt = learn(self.base.index())
        self.base.set_calibration(self.learnt.to_dict())
        self.views: dict[int, dict[str, Any]] = {}
        self.gone: list[Any] = []
        self.decided: dict[int, Any] = {}

    def look(self) -> None:
        """Keep what the index holds now, by revision."""
        index = self.base.index()
        self.views[index.revision] = {
            i: (index.cases[row], index.vectors[row].tobytes()) for row, i in enumerate(index.ids)
        }

    def decide(self) -> None:
        rng = self.rng
        # now and then from nowhere: out of domain
        vector = near(np.eye(8)[rng.integers(3)] * 3, 0.7, rng) if rng.random() < 0.8 else near(np.eye(8)[7], 0.1, rng)
        known = Known(
            previous=(None, "none", "a1", "a2", "a3")[rng.integers(5)],
            facts=((), ("not one",))[int(rng.random() < 0.2)],
            previous_failed=bool(rng.random() < 0.1),
            family=(None, "f")[rng.integers(2)],
            place=(None, "table")[rng.integers(2)],
            object_id=(None, "o")[int(rng.random() < 0.4)],
        )
        options = {
            "domain_level": (0, 0.1)[rng.integers(2)],
            "guard": ("on", "off")[int(rng.random() < 0.2)],
            "risk": (None, 0.3)[rng.integers(2)],
        }
        one = hand(self.base, **options)
        try:
            made = one.predict(picture_of(vector, int(rng.integers(99))), known, allow_own=bool(rng.random() < 0.1))
        except InputError:  # what is known contradicts itself
            return
        assert made.decision is not None
        self.decided[made.decision] = made

    def change(self) -> None:
        rng, base = self.rng, self.base
        cases = base.cases()
        one = cases[rng.integers(len(cases))]
        what = rng.integers(7)
        if what == 0:
            label = {"family": "f", "device": "d9", "step": 1, "previous_action": "none", "next_action": "a1"}
            base.add(draft(f"new {len(self.views)}", near([0, 3], 0.7, rng), label))
        elif what == 1:
            base.retire(one.id)
        elif what == 2:
            base.correct(one.id, {"next_action": "a2", "place": "table"})
        elif what == 3:
            base.insert_step(one.family, one.device, 2)
        elif what == 4:
            base.rename_device(one.family, one.device, f"{one.device}x{len(self.views)}")
        elif what == 5 and base.log(1)[0].operation not in ("undo", "add"):
            base.undo()
        elif what == 6:
            weights = tuple(rng.uniform(0.5, 2, 4).tolist())  # as if learnt anew
            base.set_calibration(replace(self.learnt, weights=weights, revision=base.revision).to_dict())
        self.look()


@pytest.mark.parametrize("seed", range(8))
def test_against_the_cases_as_they_were_every_decision_comes_out_the_same(seed: int) -> None:
    life = Life(seed)
    for _ in range(14):
        life.decide()
        life.decide()
        life.change()
    again = Replayer(life.base, LIBRARY)
    logged = len(life.base.decisions(limit=None))
    for number, made in life.decided.items():
        found = again.replay(number)
        assert found.same, (found.differences, found.limits)
        assert (found.part, found.limits, found.why) == ("all", (), ())
        assert found.again is not None
        assert found.again.domain == made.domain
        assert found.again.ruled_out == made.ruled_out
        assert dict(found.again.device_classes) == pytest.approx(dict(made.device_classes))
    assert len(life.base.decisions(limit=None)) == logged, "a replay is not logged"


@pytest.mark.parametrize("seed", range(8))
def test_the_index_as_of_a_revision_is_the_one_of_then(seed: int) -> None:
    life = Life(seed)
    life.look()
    for _ in range(30):
        life.change()
    assert len(life.views) > 10
    for revision, view in life.views.items():
        past = life.base.index_as_of(revision)
        assert past.other_vectors == ()
        assert past.index.revision == revision
        then = {i: (past.index.cases[row], past.index.vectors[row].tobytes()) for row, i in enumerate(past.index.ids)}
        assert then == view
    with pytest.raises(InputError, match="no revision 9999"):
        life.base.index_as_of(9999)


def test_against_the_cases_of_today_what_has_changed_is_told() -> None:
    base = calibrated(separable())
    made = hand(base).predict(D0, Known(previous="a1"))
    assert made.next_action == "a2"
    assert made.case is not None
    same = replay(hand(base), 1, "now")
    assert (same.same, same.differences, same.why) == (True, (), ())
    for case in base.cases():
        if case.previous_action == "a1":
            base.correct(case.id, {"next_action": "a3"}, reason="seen wrong")
    lead = made.case.case.id[:8]
    now = replay(hand(base), 1, "now")
    assert now.same is False
    assert now.replayed is not None
    assert (now.logged["next_action"], now.replayed["proposed"]) == ("a2", "a3")
    assert any(w.startswith(f"case {lead}: correct at revision") and "'a2' → 'a3'" in w for w in now.why), now.why
    then = replay(hand(base), 1)
    assert (then.same, then.revision) == (True, 36)
    base.retire(made.case.case.id)
    assert "the case base held 36 cases then, and holds 35 now" in replay(hand(base), 1, "now").why


def test_a_difference_that_should_not_be_is_seen() -> None:
    base = calibrated(separable())
    hand(base).predict(D0, Known(previous="a1"))
    base._store.connection.execute(
        'UPDATE decisions SET doc = replace(doc, \'"next_action": "a2"\', \'"next_action": "a1"\')'
    )
    found = replay(hand(base), 1)
    assert found.same is False
    assert found.differences[0] == "answer: 'a1' then, 'a2' in the replay"
    assert found.why == ("nothing that was logged explains it",)
    # a vector that is another one changes the belief
    hand(base).predict(D0, Known(previous="a2"))
    other = near([0, 3], 0.1, np.random.default_rng(1))
    base._store.connection.execute("UPDATE decisions SET vector = ? WHERE n = 2", (other.tobytes(),))
    assert any(line.startswith("confidence: ") for line in replay(hand(base), 2).differences)


def test_the_weights_of_then_count_and_not_those_of_today() -> None:
    base = calibrated(separable())
    hand(base, domain_level=0.1).predict(D0, Known(previous="a1"))
    base.set_calibration(replace(learn(base.index()), weights=(9.0, 0.0, 0.0, 0.0), revision=35, strange=()).to_dict())
    then = replay(hand(base), 1)
    assert then.same, then.differences
    assert then.again is not None
    assert then.again.domain is not None, "the outcome of the domain test is the logged one"
    now = replay(hand(base), 1, "now")
    assert now.same is False
    assert "the calibration was of revision 36 then, and is of revision 35 now" in now.why


def test_the_library_of_then_or_what_the_log_says_of_it() -> None:
    base = calibrated(separable())
    hand(base).predict(D0, Known(previous="a1", facts=("not one",)))
    assert Replayer(base, LIBRARY).replay(1).limits == ()
    for library, told in (
        (None, "no action library was given"),
        (OTHER, "the action library is another one than then"),
    ):
        found = Replayer(base, library).replay(1)
        assert found.same
        assert found.limits == (f"{told}: what the guard said is taken from the log",)
    with pytest.raises(InputError, match="facts need an action library"):
        Replayer(base, None).replay(1, "now")
    Predictor(base, None, embedder=VectorEmbedder(), domain_level=0).predict(D0, Known(previous="a1"))
    assert Replayer(base, LIBRARY).replay(2).same
    hand(base).predict(D0, Known(previous="a1"))
    assert Replayer(base, None).replay(3, "now").limits == ("no action library was given: no action is ruled out",)


def test_a_library_that_is_not_given_now_explains_the_difference() -> None:
    base = calibrated(separable())
    hand(base).predict(D0, Known(previous="a1"))
    base._store.connection.execute(
        'UPDATE decisions SET doc = replace(doc, \'"next_action": "a2"\', \'"next_action": "a1"\')'
    )
    found = Replayer(base, None).replay(1, "now")
    assert found.why == (f"the action library of then ({LIBRARY.source}) was not given to the replay",)


def test_of_a_models_decision_only_the_recall_is_replayed() -> None:
    base = pictured()
    said = {
        "previous_action": "a1", "next_action": "a2", "remaining_actions": ["a2", "a3"], "is_last": False, "device_class": "f",
    }  # fmt: skip
    with Vlm(ScriptedBackend(lambda request: call("PredictActions", said))) as vlm:
        for method in ("single", "zero-shot"):
            made = hand(base, vlm=vlm).predict(D0, Known(previous="a1"), method=method)
            assert made.judge.startswith("vlm:"), made.reason
    found = replay(hand(base), 1)
    assert (found.part, found.same) == ("recall", True)
    assert found.limits[-1].endswith("is not asked again: only the recall is replayed")
    assert found.replayed is not None
    assert [c["id"] for c in found.replayed["candidates"]] == [c["id"] for c in found.logged["candidates"]]
    base.retire(found.logged["candidates"][0]["id"])
    assert replay(hand(base), 1).same
    assert replay(hand(base), 1, "now").differences[0].startswith("candidates: ")
    none = replay(hand(base), 2)
    assert (none.part, none.same, none.replayed) == ("none", None, None)
    own = ScriptedJudge({"predict": lambda q: Prediction("a2", 0.5, None, None, None, None, None, (), "mine")})
    hand(base, judge=own).predict(D0, Known(previous="a1"))
    assert replay(hand(base), 3).part == "recall"


def test_the_relief_of_the_query_is_logged_and_counts(tmp_path: Path) -> None:
    high, low = np.zeros(576, np.float32), np.zeros(576, np.float32)
    high[0] = low[1] = 1
    rows = [{"family": "f", "device": f"d{n}", "previous_action": "none", "next_action": f"a{n + 1}"} for n in range(2)]
    vector = unit([1, 0.2])
    base = base_of(
        [
            draft("high", vector, rows[0], depth_vector=high),
            draft("low", near(vector[:8], 0.05, np.random.default_rng(0)), rows[1], depth_vector=low),
        ]
    )
    base.set_calibration(replace(learn(base.index()), weights=(0.0, 0.0, 0.0, 5.0), queries=2).to_dict())
    one = hand(base)
    look = one._eye.look
    one._eye.look = lambda view, known: replace(look(view, known), depth_vector=low)  # type: ignore[method-assign]
    made = one.predict(picture_of(vector), Known(facts=("closed", "one")))
    assert made.next_action == "a2"
    np.testing.assert_array_equal(base.decision_relief(1), low)
    assert replay(hand(base), 1).same
    # as a sagehand of before has logged it
    base._store.connection.execute(
        "UPDATE decisions SET relief = NULL, doc = json_remove(json_set(doc, '$.query.depth', json('true')), '$.setup')"
    )
    old = replay(hand(base), 1)
    assert old.same is False
    assert "the relief of its depth image was not logged then: replayed without it" in old.limits


def test_a_file_of_before_opens_and_its_decisions_are_replayed_with_limits(tmp_path: Path) -> None:
    file = tmp_path / "old.cases"
    with CaseBase.create(file, embedder=IDENTITY) as base:
        source = separable()
        base.add_many(
            [
                draft(c.file_name, source.index().vectors[source.index().row(c.id) or 0], source.row(c.id))
                for c in source.cases()
            ]
        )
        calibrated(base)
        hand(base).predict(D0, Known(previous="a1"))
        base.retire(base.cases()[0].id)
        calibrated(base)
    connection = sqlite3.connect(file)
    connection.execute("UPDATE decisions SET doc = json_remove(doc, '$.setup')")
    connection.execute("ALTER TABLE decisions DROP COLUMN relief")
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()
    with CaseBase.open(file) as again:
        assert again.decision_relief(1) is None
        found = replay(hand(again), 1)
        assert (found.same, found.limits) == (True, ("the calibration was not logged then: it is learnt again",))
        hand(again).predict(D0, Known(previous="a2"))
        assert replay(hand(again), 2).limits == ()
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    connection.close()


def test_what_cannot_be_replayed_says_why() -> None:
    base = calibrated(separable())
    hand(base).predict(D0, Known(previous="a1"))
    base.record_decision({"answer": 1})
    base.record_decision(base.decision(1))
    with pytest.raises(UnknownName, match="as_of"):
        replay(hand(base), 1, "then")
    with pytest.raises(NoSuchCase, match="no decision 9"):
        replay(hand(base), 9)
    with pytest.raises(InputError, match="not logged by predict"):
        replay(hand(base), 2)
    with pytest.raises(InputError, match="without the vector"):
        replay(hand(base), 3)
    changed: list[dict[str, Any]] = [
        {"known": {"previous": "a1", "mood": "good"}},
        {"query": {"name": "x"}},
        {"base": []},
        {"candidates": [{"id": "x"}]},
        {"certified_risk": {"asked": 0.1}},
        {"domain": {"level": 0.1, "new": 1}},
        {"ruled_out": "a1"},
    ]
    for part in changed:
        number = base.record_decision({**base.decision(1), **part}, vector=base.decision_vector(1))
        with pytest.raises(InputError, match=f"decision {number} is not as predict of this sagehand logs it"):
            replay(hand(base), number)
    index = base.index()
    base.reembed(IDENTITY, [Embedded(i, index.vectors[row]) for row, i in enumerate(index.ids)], "none")
    for as_of in ("decision", "now"):
        with pytest.raises(StoreError, match="embedded anew at revision 37"):
            replay(hand(base), 1, as_of)


def test_a_case_that_came_back_with_another_crop_is_told() -> None:
    from sagehand.picture import Box

    base = calibrated(separable())
    made = hand(base).predict(D0, Known(previous="a1"))
    assert made.case is not None
    case = made.case.case
    vector = base.index().vectors[base.index().row(case.id) or 0].copy()
    base.retire(case.id)
    base.add(draft(case.file_name, vector, base.row(case.id)))
    assert replay(hand(base), 1).limits == ()
    base.retire(case.id)
    base.add(draft(case.file_name, vector, base.row(case.id), box=Box(0, 0, 5, 5)))
    (limit,) = replay(hand(base), 1).limits
    assert limit.startswith(f"1 cases were embedded again since, by another crop or depth: {case.id[:8]}")


def test_a_calibration_keeps_its_brief_through_json() -> None:
    learnt = learn(separable().index())
    again = Calibration.from_brief(learnt.brief())
    assert again.brief() == learnt.brief()
    assert (again.weights, again.scaling) == (learnt.weights, learnt.scaling)


@pytest.fixture
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A phone's case base with three decisions, of which the second was by cases that were corrected since."""
    enter(tmp_path, monkeypatch)
    base = phone_base(tmp_path)
    for step, previous in ((1, "none"), (2, "unscrew"), (3, "pry")):
        photo(step, 40).save(f"q{step}.png")
        told = run(
            "predict", f"q{step}.png", "--cases", base, "--actions", "actions.yaml", "--previous", previous, "--json"
        )
        assert told.code in (0, 1), told
    return base


def test_replay_on_the_command_line(used: Path) -> None:
    done = run("decisions", "replay", "p.cases", "--all", "--actions", "actions.yaml", "--json")
    assert (done.code, [d["same"] for d in done.json], done.err) == (0, [True] * 3, "")
    assert [d["decision"] for d in run("decisions", "replay", "p.cases", "3", "1", "--json").json] == [3, 1]
    assert [d["decision"] for d in run("decisions", "replay", "p.cases", "--last", "2", "--json").json] == [2, 3]
    with CaseBase.open(used) as base:
        for case in base.cases():
            if case.step == 2:
                base.retire(case.id)
        assert len(base.decisions()) == 3
    done = run("decisions", "replay", "p.cases", "--all", "--as-of", "now", "--actions", "actions.yaml", "--json")
    assert done.code == 0, "that the cases of today say something else is no failure"
    assert done.json[1]["same"] is False
    assert (
        run("decisions", "replay", "p.cases", "--all", "--actions", "actions.yaml").out.splitlines()[-1]
        == "3 of 3 the same"
    )


def test_replay_goes_on_after_a_decision_that_cannot_be_replayed(used: Path) -> None:
    with CaseBase.open(used) as base:
        base.record_decision({"answer": 1})
    done = run("decisions", "replay", "p.cases", "--all", "--actions", "actions.yaml", "--json")
    assert (done.code, len(done.json)) == (1, 3)
    assert done.err.startswith("decision 4: was not logged by predict")
    alone = run("decisions", "replay", "p.cases", "4")
    assert (alone.code, alone.out) == (2, "")


def test_what_is_asked_wrongly_is_told(used: Path, snapshot: SnapshotAssertion) -> None:
    asked = {
        "which": ("p.cases",),
        "both": ("p.cases", "1", "--all"),
        "as of": ("p.cases", "1", "--as-of", "then"),
        "no such": ("p.cases", "77"),
    }
    told = {name: run("decisions", "replay", *arguments) for name, arguments in asked.items()}
    assert {name: ran.code for name, ran in told.items()} == dict.fromkeys(asked, 2)
    assert {name: ran.err for name, ran in told.items()} == snapshot
