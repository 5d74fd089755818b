"""The guard: an action is ruled out when no possible world has its preconditions, and only then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sagehand.action.guard import Knowledge, check_actions, conflicts, know, repeats
from sagehand.action.library import Action, ActionLibrary, Literal
from sagehand.errors import InputError, UnknownName

PHONE = ActionLibrary.parse(
    """
families: [phone, tablet]
initial: [closed, board_in]
actions:
  pry:
    description: Part two shells.
    preconditions: [closed]
    effects: [not closed]
  remove_battery:
    description: Take the battery out.
    preconditions: [battery_in]
    effects: [not battery_in]
  remove_board:
    description: Lift the board out.
    preconditions: [board_in, not closed]
    effects: [not board_in]
    families: [phone]
  end:
    description: Nothing is left to do.
    preconditions: [not closed]
    effects: []
""",
    source="actions.yaml",
)


def ruled_out(**known: object) -> dict[str, str]:
    return dict(check_actions(PHONE, know(PHONE, **known)).ruled_out)  # type: ignore[arg-type]


# ── what is known ──


def test_nothing_done_is_the_initial_facts_and_no_more() -> None:
    knowledge = know(PHONE, previous="none")
    assert knowledge.facts == {"closed": True, "board_in": True}
    assert knowledge.because == {"closed": "it was true at the start", "board_in": "it was true at the start"}
    assert know(PHONE, history=()) == knowledge == know(PHONE, previous="none", history=[])


def test_not_known_is_not_nothing_done() -> None:
    assert know(PHONE).facts == {}
    assert ruled_out() == {}


def test_a_previous_action_alone_proves_its_preconditions_and_effects() -> None:
    knowledge = know(PHONE, previous="remove_board")
    assert knowledge.facts == {"board_in": False, "closed": False}
    assert knowledge.because == {"board_in": "remove_board made it false", "closed": "remove_board needed it false"}


def test_a_history_remembers_what_the_last_action_does_not_touch() -> None:
    assert know(PHONE, history=["pry", "remove_board"]).facts == {"closed": False, "board_in": False}
    assert know(PHONE, history=["pry", "remove_battery"]).because == {
        "closed": "pry made it false",
        "board_in": "it was true at the start",
        "battery_in": "remove_battery made it false",
    }


def test_the_first_reason_stays_when_a_later_action_only_needs_the_fact() -> None:
    assert know(PHONE, history=["pry", "remove_board", "end"]).because["closed"] == "pry made it false"


def test_what_happened_wins_over_what_the_library_allows_and_is_noted() -> None:
    knowledge = know(PHONE, history=["remove_board"])
    assert knowledge.facts == {"closed": False, "board_in": False}
    assert knowledge.notes == (
        "remove_board needs closed to be false, but it was true at the start; "
        "remove_board was done, so it is taken to have been false",
    )


def test_what_is_said_wins_and_is_noted_when_it_contradicts() -> None:
    knowledge = know(PHONE, previous="pry", facts=["closed", "not battery_in"])
    assert knowledge.facts == {"closed": True, "battery_in": False}
    assert knowledge.because == {"closed": "you said it is true", "battery_in": "you said it is false"}
    assert knowledge.notes == ("you said closed is true, but pry made it false; what you said is taken",)
    assert know(PHONE, previous="pry", facts=["not closed"]).notes == ()


def test_a_failed_action_leaves_the_facts_it_names_unknown() -> None:
    assert know(PHONE, previous="pry", previous_failed=True).facts == {}
    after = know(PHONE, history=["pry", "remove_board"], previous_failed=True)
    assert after.facts == after.because == {}
    assert know(PHONE, history=["pry", "remove_battery"], previous_failed=True).facts == {
        "closed": False,
        "board_in": True,
    }
    assert know(PHONE, previous="pry", previous_failed=True, facts=["closed"]).facts == {"closed": True}
    assert "pry" in check_actions(PHONE, know(PHONE, history=["pry"], previous_failed=True)).valid


# ── what is refused ──


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (
            {"previous": "pyr"},
            "unknown previous action 'pyr'; known: end, none, pry, remove_battery, remove_board (did you mean 'pry'? "
            "the actions are those of actions.yaml, and 'none' when nothing was done yet)",
        ),
        (
            {"previous": "None"},
            "unknown previous action 'None'; known: end, none, pry, remove_battery, remove_board (did you mean 'none'? "
            "the actions are those of actions.yaml, and 'none' when nothing was done yet)",
        ),
        (
            {"history": ["none"]},
            "unknown action in the history 'none'; known: end, pry, remove_battery, remove_board "
            "(the actions are those of actions.yaml)",
        ),
        (
            {"history": "pry"},
            "history 'pry' is one text, not a list of actions (write ['pry'])",
        ),
        (
            {"previous": "pry", "history": ["pry", "end"]},
            "the previous action is 'pry', but the history ends with 'end' "
            "(the history runs from the first action to the last and holds the previous one)",
        ),
        (
            {"previous": "none", "history": ["pry"]},
            "the previous action is 'none', but the history ends with 'pry' "
            "(the history runs from the first action to the last and holds the previous one)",
        ),
        (
            {"previous": "pry", "history": []},
            "the previous action is 'pry', but the history says that nothing was done "
            "(the history runs from the first action to the last and holds the previous one)",
        ),
        (
            {"facts": ["batery_in"]},
            "unknown fact 'batery_in'; known: battery_in, board_in, closed "
            "(did you mean 'battery_in' or 'board_in'? the facts are those of actions.yaml)",
        ),
        (
            {"facts": ["closed=true"]},
            "'closed=true' is no fact (write 'name' or 'not name'; a name is made of letters, digits, '_' and '-')",
        ),
        ({"facts": ["closed", "not closed"]}, "you said both 'closed' and 'not closed' (keep one of the two)"),
        ({"facts": "closed"}, "facts 'closed' are one text, not a list (write ['closed'])"),
        (
            {"previous": "none", "previous_failed": True},
            "previous_failed is set, but nothing was done yet (name the action that failed as the previous one)",
        ),
        (
            {"previous_failed": True},
            "previous_failed is set, but the previous action is not known "
            "(name the action that failed as the previous one)",
        ),
    ],
)
def test_what_cannot_be_known_is_refused_in_one_line(known: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        know(PHONE, **known)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"unknown family 'fone'; known: phone, tablet \(did you mean 'phone'\?"):
        check_actions(PHONE, know(PHONE), family="fone")


# ── what is ruled out ──


def test_an_action_is_ruled_out_with_the_reason_in_words() -> None:
    assert ruled_out(previous="pry") == {"pry": "needs closed, but pry made it false"}
    assert ruled_out(facts=["not battery_in"]) == {"remove_battery": "needs battery_in, but you said it is false"}
    assert ruled_out(previous="none") == {
        "remove_board": "needs closed to be false, but it was true at the start",
        "end": "needs closed to be false, but it was true at the start",
    }
    assert ruled_out(facts=["closed", "not board_in"])["remove_board"] == (
        "needs board_in, but you said it is false; needs closed to be false, but you said it is true"
    )
    assert check_actions(PHONE, Knowledge({"closed": False})).ruled_out == {"pry": "needs closed, but it is false"}


def test_an_action_of_another_family_is_ruled_out() -> None:
    verdicts = check_actions(PHONE, know(PHONE), family="tablet")
    assert verdicts.ruled_out == {"remove_board": "is for phone, not tablet"}
    assert verdicts.valid == ("pry", "remove_battery", "end")
    assert check_actions(PHONE, know(PHONE), family="phone").ruled_out == {}
    assert check_actions(PHONE, know(PHONE)).ruled_out == {}


# ── truth: against every possible world ──

FACTS = ("a", "b", "c", "d")
World = dict[str, bool]

literals = st.dictionaries(st.sampled_from(FACTS), st.booleans(), max_size=3).map(
    lambda d: tuple(Literal(fact, holds) for fact, holds in d.items())
)
bodies = st.tuples(literals, literals, st.sampled_from([None, frozenset({"x"}), frozenset({"x", "y"})]))


@st.composite
def libraries(draw: st.DrawFn) -> ActionLibrary:
    actions = {
        f"act{i}": Action(f"act{i}", "d", pre, eff, families)
        for i, (pre, eff, families) in enumerate(draw(st.lists(bodies, min_size=1, max_size=4)))
    }
    return ActionLibrary("drawn", ("x", "y"), draw(literals), actions)


def holds_in(world: World, wanted: tuple[Literal, ...]) -> bool:
    return all(world[literal.fact] is literal.holds for literal in wanted)


def worlds_that_agree(facts: dict[str, bool]) -> Iterator[World]:
    for values in product((True, False), repeat=len(FACTS)):
        world = dict(zip(FACTS, values, strict=True))
        if facts.items() <= world.items():
            yield world


def run(library: ActionLibrary, worlds: list[World], names: list[str]) -> list[World]:
    """The worlds that may be left when every world in which an action could not have been done is dropped."""
    for name in names:
        action = library.actions[name]
        possible = [world for world in worlds if holds_in(world, action.preconditions)]
        worlds = [world | {e.fact: e.holds for e in action.effects} for world in possible]
    return worlds


def shared(worlds: list[World]) -> dict[str, bool]:
    return {fact: worlds[0][fact] for fact in FACTS if len({world[fact] for world in worlds}) == 1}


@settings(deadline=None, max_examples=200)
@given(libraries(), st.data())
def test_an_action_is_ruled_out_iff_no_possible_world_allows_it(library: ActionLibrary, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(library.actions)), max_size=4))
    from_start = data.draw(st.booleans())
    start = list(worlds_that_agree({literal.fact: literal.holds for literal in library.initial} if from_start else {}))
    if from_start:
        knowledge = know(library, history=names)
    else:
        names = names[-1:]
        knowledge = know(library, previous=names[0] if names else None)
    worlds = run(library, start, names)
    assume(worlds)  # a contradictory history is another test's
    assert knowledge.notes == ()
    assert knowledge.facts == shared(worlds)
    family = data.draw(st.sampled_from([None, "x", "y"]))
    verdicts = check_actions(library, knowledge, family=family)
    for name, action in library.actions.items():
        fits = family is None or action.families is None or family in action.families
        possible = fits and any(holds_in(world, action.preconditions) for world in worlds)
        assert (name in verdicts.valid) is possible
        assert (name in verdicts.ruled_out) is not possible
    assert [n for n in library.actions if n in verdicts.valid] == list(verdicts.valid)


@settings(deadline=None, max_examples=100)
@given(libraries(), st.data())
def test_a_contradictory_history_is_noted_and_the_last_action_still_holds(
    library: ActionLibrary, data: st.DataObject
) -> None:
    names = data.draw(st.lists(st.sampled_from(list(library.actions)), min_size=1, max_size=5))
    start = list(worlds_that_agree({literal.fact: literal.holds for literal in library.initial}))
    knowledge = know(library, history=names)
    assert bool(knowledge.notes) is not bool(run(library, start, names))
    last = library.actions[names[-1]]
    after = {p.fact: p.holds for p in last.preconditions} | {e.fact: e.holds for e in last.effects}
    assert after.items() <= knowledge.facts.items()
    assert knowledge.because.keys() == knowledge.facts.keys()


@settings(deadline=None, max_examples=100)
@given(libraries(), st.data())
def test_learning_an_unknown_fact_never_allows_what_was_ruled_out(library: ActionLibrary, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(library.actions)), max_size=3))
    before = know(library, history=names)
    unknown = sorted(library.facts - before.facts.keys())
    truths = data.draw(st.lists(st.sampled_from([True, False, None]), min_size=len(unknown), max_size=len(unknown)))
    said = [str(Literal(f, holds)) for f, holds in zip(unknown, truths, strict=True) if holds is not None]
    after = know(library, history=names, facts=said)
    assert after.notes == before.notes
    assert before.facts.items() <= after.facts.items()
    assert check_actions(library, before).ruled_out.keys() <= check_actions(library, after).ruled_out.keys()


@settings(deadline=None, max_examples=100)
@given(libraries(), st.data())
def test_a_failure_forgets_exactly_what_the_failed_action_names(library: ActionLibrary, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(library.actions)), min_size=1, max_size=4))
    failed = library.actions[names[-1]]
    before = know(library, history=names[:-1])
    after = know(library, history=names, previous_failed=True)
    named = {literal.fact for literal in failed.preconditions + failed.effects}
    assert after.facts == {f: v for f, v in before.facts.items() if f not in named}
    assert after.notes == before.notes
    assert failed.name in check_actions(library, after).valid
    assert know(library, previous=names[-1], previous_failed=True).facts == {}


@settings(deadline=None, max_examples=50)
@given(libraries(), st.permutations([Literal("a", True), Literal("b", False), Literal("c", True)]))
def test_the_order_of_facts_means_nothing(library: ActionLibrary, said: list[Literal]) -> None:
    texts = [str(literal) for literal in said if literal.fact in library.facts]
    assert know(library, previous="act0", facts=texts) == know(library, previous="act0", facts=sorted(texts))


# ── repeated answers, labels in conflict ──


@pytest.mark.parametrize(
    ("answers", "answer", "limit", "expected"),
    [
        ([], "pry", 3, False),
        (["pry"], "pry", 3, False),
        (["pry", "pry"], "pry", 3, True),
        (["pry", "end", "pry"], "pry", 3, False),
        (["end", "pry", "pry"], "pry", 3, True),
        (["pry", "pry"], "end", 3, False),
        (["pry", None], "pry", 3, False),
        ([None, None], None, 3, False),
        (["pry"], "pry", 2, True),
        ([], "pry", 2, False),
        (["pry"] * 3, "pry", 5, False),
        (["pry"] * 4, "pry", 5, True),
    ],
)
def test_the_same_answer_in_a_row_repeats(
    answers: list[str | None], answer: str | None, limit: int, expected: bool
) -> None:
    assert repeats(answers, answer, limit) is expected


def test_a_repeat_limit_below_two_is_refused() -> None:
    with pytest.raises(InputError, match="repeat limit 1 is less than 2"):
        repeats([], "pry", 1)


def test_labels_that_the_guard_would_not_allow_are_named() -> None:
    steps = [
        ("fits", "pry", ["pry"], "remove_board", "phone"),
        ("nothing-known", None, None, "end", None),
        ("no-answer", "pry", None, None, "phone"),
        ("closed-again", "pry", None, "pry", "phone"),
        ("wrong-family", None, None, "remove_board", "tablet"),
        ("bad-name", "prie", None, "pry", "phone"),
        ("bad-answer", "none", None, "prie", "phone"),
        ("bad-family", "none", None, "pry", "fridge"),
        ("two-stories", "pry", ["remove_battery"], "end", "phone"),
    ]
    found = conflicts(PHONE, steps)
    assert [line.split(" (")[0] for line in found] == [
        "closed-again: next action 'pry' is ruled out: needs closed, but pry made it false",
        "wrong-family: next action 'remove_board' is ruled out: is for phone, not tablet",
        "bad-name: unknown previous action 'prie'; known: end, none, pry, remove_battery, remove_board",
        "bad-answer: unknown next action 'prie'; known: end, pry, remove_battery, remove_board",
        "bad-family: unknown family 'fridge'; known: phone, tablet",
        "two-stories: the previous action is 'pry', but the history ends with 'remove_battery'",
    ]


def test_the_labels_of_the_phones_do_not_conflict_with_their_library(phones: Path) -> None:
    library = ActionLibrary.load(phones / "actions.yaml")
    rows = [json.loads(line) for line in (phones / "metadata.jsonl").read_text().splitlines()]
    steps = [
        (r["file_name"], r.get("previous_action"), r.get("history"), r.get("next_action"), r["family"]) for r in rows
    ]
    assert len(steps) == 38
    assert conflicts(library, steps) == []
