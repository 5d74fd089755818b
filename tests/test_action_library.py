"""The action library: what a file may say, and that every slip is one line with file, line and remedy."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.action.library import MAX_BYTES, Action, ActionLibrary, Literal
from sagehand.errors import InputError, LibraryError, UnknownName

GOOD = """\
families: [phone, tablet]
initial: [closed, not wet]
actions:
  pry:
    description: Part two shells.
    preconditions: [closed]
    effects: [not closed]
    families: [phone]
    risk: confirm
    parameters: my_cell.routines:pry
  dry:
    description: >
      Blow it
      dry.
    preconditions: [wet]
    effects: [not wet]
  end:
    description: Nothing is left to do.
    preconditions: [not closed]
    effects: []
"""


def test_a_library_says_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "actions.yaml"
    path.write_text(GOOD)
    library = ActionLibrary.load(path)
    assert library.source == str(path)
    assert library.families == ("phone", "tablet")
    assert library.initial == (Literal("closed", True), Literal("wet", False))
    assert list(library.actions) == ["pry", "dry", "end"]
    assert library.actions["pry"] == Action(
        name="pry",
        description="Part two shells.",
        preconditions=(Literal("closed"),),
        effects=(Literal("closed", False),),
        families=frozenset({"phone"}),
        confirm=True,
        parameters="my_cell.routines:pry",
    )
    dry = library.actions["dry"]
    assert (dry.description, dry.families, dry.confirm, dry.parameters) == ("Blow it dry.", None, False, None)
    assert (library.end, library.facts, library.warnings) == ("end", {"closed", "wet"}, ())
    assert ActionLibrary.load(str(path)) == library


def test_a_library_without_end_has_none() -> None:
    library = ActionLibrary.parse("families: [a]\nactions:\n  go:\n    description: d\n")
    assert library.end is None
    assert library.initial == library.actions["go"].preconditions == library.actions["go"].effects == ()


def test_a_library_can_be_pickled() -> None:
    library = ActionLibrary.parse(GOOD)
    assert pickle.loads(pickle.dumps(library)) == library


def test_the_phones_library_is_read_with_one_warning(phones: Path) -> None:
    library = ActionLibrary.load(phones / "actions.yaml")
    assert len(library.actions) == 7
    assert library.warnings == (
        f"{phones / 'actions.yaml'}:16: action 'unscrew': precondition 'screws_in' is made true or false by nothing: "
        "it counts only when somebody says it",
    )


def change(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


SLIPS = {
    "no families": (
        GOOD.replace("families: [phone, tablet]\n", ""),
        "a.yaml:1: key 'families' is missing (an action library has the keys families, initial and actions)",
    ),
    "unknown key at the top": (
        change("initial:", "inital:"),
        "a.yaml:2: unknown key 'inital'; known: families, initial, actions (did you mean 'initial'?)",
    ),
    "unknown key of an action": (
        change("preconditions: [wet]", "precondition: [wet]"),
        "a.yaml:15: action 'dry': unknown key 'precondition'; known: description, preconditions, effects, families, "
        "risk, parameters (did you mean 'preconditions'?)",
    ),
    "no actions": (
        "families: [a]\nactions:\n",
        "a.yaml:2: 'actions' names no action (write 'name:' under it, with a description below)",
    ),
    "actions as a list": (
        "families: [a]\nactions: [go]\n",
        "a.yaml:2: 'actions' names no action (write 'name:' under it, with a description below)",
    ),
    "no description": (
        change("    description: Part two shells.\n", ""),
        "a.yaml:4: action 'pry': key 'description' is missing (say in a line what it does)",
    ),
    "empty description": (
        change("Part two shells.", "''"),
        "a.yaml:5: action 'pry': 'description' is empty (say in a line what it does)",
    ),
    "control character": (
        change("Part two shells.", r'"Part \x07 shells"'),
        "a.yaml:5: action 'pry': 'description' holds a control character (delete it)",
    ),
    "an action without a body": (
        "families: [a]\nactions:\n  go:\n",
        "a.yaml:3: action 'go': a map of keys is due (write under it: description, preconditions, effects, families, "
        "risk, parameters)",
    ),
    "facts not in a list": (
        change("preconditions: [wet]", "preconditions: wet"),
        "a.yaml:15: action 'dry': 'preconditions' is a text, not a list "
        "(write a list, as in preconditions: [closed, not board_in])",
    ),
    "a map in a list": (
        change("preconditions: [wet]", "preconditions:\n      - not: wet"),
        "a.yaml:16: action 'dry': 'preconditions' holds a map where a name is due "
        "(write a list, as in preconditions: [closed, not board_in])",
    ),
    "not not": (
        change("preconditions: [wet]", "preconditions: [not not wet]"),
        "a.yaml:15: action 'dry': precondition 'not not wet' is no fact "
        "(write 'name' or 'not name'; a name is made of letters, digits, '_' and '-')",
    ),
    "a space in a fact": (
        change("effects: [not wet]", "effects: [all wet]"),
        "a.yaml:16: action 'dry': effect 'all wet' is no fact "
        "(write 'name' or 'not name'; a name is made of letters, digits, '_' and '-')",
    ),
    "contradictory effects": (
        change("effects: [not wet]", "effects: [not wet, wet]"),
        "a.yaml:16: action 'dry': effect 'wet' contradicts 'not wet' (keep one of the two)",
    ),
    "contradictory preconditions": (
        change("preconditions: [wet]", "preconditions:\n    - wet\n    - not wet"),
        "a.yaml:17: action 'dry': precondition 'not wet' contradicts 'wet' (keep one of the two)",
    ),
    "contradictory start": (
        change("initial: [closed, not wet]", "initial: [closed, not wet, wet]"),
        "a.yaml:2: initial fact 'wet' contradicts 'not wet' (keep one of the two)",
    ),
    "a fact twice": (
        change("preconditions: [wet]", "preconditions: [wet, wet]"),
        "a.yaml:15: action 'dry': precondition 'wet' stands twice (keep one of the two)",
    ),
    "a typo in an effect": (
        change("effects: [not closed]", "effects: [not clsoed]"),
        "a.yaml:7: action 'pry': effect 'not clsoed' is in no precondition; known facts: closed, wet "
        "(did you mean 'closed'?)",
    ),
    "a typo at the start": (
        change("initial: [closed, not wet]", "initial: [closd, not wet]"),
        "a.yaml:2: initial fact 'closd' is in no precondition; known facts: closed, wet (did you mean 'closed'?)",
    ),
    "a fact spelled two ways": (
        change("preconditions: [wet]", "preconditions: [Wet]"),
        "a.yaml:15: fact 'Wet' is spelled 'wet' in line 2 (write it the same way everywhere)",
    ),
    "an action spelled two ways": (
        change("  dry:", "  Pry:"),
        "a.yaml:11: action 'Pry' is spelled 'pry' in line 4 (write it the same way everywhere)",
    ),
    "a family spelled two ways": (
        change("[phone, tablet]", "[phone, Phone]"),
        "a.yaml:1: family 'Phone' is spelled 'phone' in line 1 (write it the same way everywhere)",
    ),
    "an unknown family": (
        change("    families: [phone]", "    families: [fone]"),
        "a.yaml:8: action 'pry': unknown family 'fone'; known: phone, tablet "
        "(did you mean 'phone'? a new one stands in 'families' at the top, too)",
    ),
    "an action for no family": (
        change("    families: [phone]", "    families: []"),
        "a.yaml:8: action 'pry': 'families' is empty (leave the key out for every family)",
    ),
    "no family": (
        change("families: [phone, tablet]", "families: []"),
        "a.yaml:1: 'families' is empty (name the device families that the cell handles)",
    ),
    "a family twice": (
        change("[phone, tablet]", "[phone, phone]"),
        "a.yaml:1: family 'phone' stands twice (keep one of the two)",
    ),
    "a family with a space at its end": (
        change("[phone, tablet]", "['phone ', tablet]"),
        "a.yaml:1: family 'phone ' cannot be a name (use printable text without spaces at its ends)",
    ),
    "an unknown risk": (
        change("risk: confirm", "risk: yes"),
        "a.yaml:9: action 'pry': unknown risk 'yes'; known: confirm (leave the key out for no risk)",
    ),
    "parameters that are no entry point": (
        change("my_cell.routines:pry", "my cell"),
        "a.yaml:10: action 'pry': 'parameters' 'my cell' is no entry point "
        "(name an entry point of the group 'sagehand.parameters', or write 'module:attribute')",
    ),
    "parameters in a list": (
        change("my_cell.routines:pry", "[pry]"),
        "a.yaml:10: action 'pry': 'parameters' is a list, not text (write one text)",
    ),
    "none as a name": (
        change("  dry:", "  None:"),
        "a.yaml:11: 'None' cannot be the name of an action "
        "('none' stands for nothing done yet, 'null' for no answer, 'not' for the opposite of a fact)",
    ),
    "a space in a name": (
        change("  dry:", "  blow dry:"),
        "a.yaml:11: 'blow dry' cannot be the name of an action (use up to 64 letters, digits, '_' and '-')",
    ),
    "a key twice": (
        change("  dry:", "  pry:"),
        "a.yaml:11: key 'pry' stands twice (first in line 4) (delete or rename one)",
    ),
    "a list": (
        "- a\n",
        "a.yaml:1: a list where a map of keys is due (an action library has the keys families, initial and actions)",
    ),
    "empty": ("# nothing\n", "a.yaml: empty (an action library has the keys families, initial and actions)"),
    "only a separator": ("---\n", "a.yaml: empty (an action library has the keys families, initial and actions)"),
    "two documents": (
        GOOD + "---\nmore: 1\n",
        "a.yaml:21: a second document starts here (keep one document a file: delete '---')",
    ),
    "a tag": (
        change("Part two shells.", "!!python/name:os.system x"),
        "a.yaml:5: the YAML tag 'tag:yaml.org,2002:python/name:os.system' has no meaning here (delete the tag)",
    ),
    "an alias to nowhere": (
        change("effects: [not wet]", "effects: *off"),
        "a.yaml:16: alias '*off' has no anchor before it (define the anchor first)",
    ),
    "an alias to itself": (
        "families: &f [*f]\n",
        "a.yaml:1: alias '*f' has no anchor before it (define the anchor first)",
    ),
    "a list as a key": ("? [a]\n: b\n", "a.yaml:1: a key is a list or a map (write a name before ':')"),
    "a merge of a text": (
        "<<: a\n",
        "a.yaml:1: '<<' merges a map, or a list of maps (write '<<: *anchor')",
    ),
    "deep": (
        "a: " + "[" * 1000,
        "a.yaml:1: nested more than 16 levels deep (a library needs four levels)",
    ),
    "a control character in the file": (
        "families: [a]\nactions: \0\n",
        "a.yaml:2: the control character U+0000 cannot stand in YAML (delete it)",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_one_line_with_file_line_and_remedy(slip: str) -> None:
    text, expected = SLIPS[slip]
    with pytest.raises(LibraryError) as caught:
        ActionLibrary.parse(text, source="a.yaml")
    assert str(caught.value) == expected


def test_broken_yaml_names_its_line() -> None:
    with pytest.raises(LibraryError, match=r"^a\.yaml:5: not valid YAML: .*quote a text that holds ': '"):
        ActionLibrary.parse(change("Part two shells.", "Part: two shells."), source="a.yaml")


def test_an_escape_beyond_unicode_is_refused() -> None:
    with pytest.raises(LibraryError, match="not valid YAML"):
        ActionLibrary.parse(r'a: "\U00110000"')


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(LibraryError, match=r"^a\.yaml:5: more than 20,000 values once its aliases are unfolded"):
        ActionLibrary.parse("\n".join(lines), source="a.yaml")


def test_a_huge_name_does_not_make_a_huge_error() -> None:
    with pytest.raises(LibraryError) as caught:
        ActionLibrary.parse("'" + "x" * 100_000 + "': 1\n")
    assert len(str(caught.value)) < 800


def test_names_are_the_text_that_was_written() -> None:
    library = ActionLibrary.parse(
        "families: [no, 1, 'smoke detector']\n"
        "initial: [on]\n"
        "actions:\n"
        "  yes: {description: no, preconditions: [on, y], effects: [not on, not y], families: [1]}\n"
        "  007: {description: 1.50}\n"
        "  odpri-čep: {description: 2001-01-01}\n"
    )
    assert library.families == ("no", "1", "smoke detector")
    assert list(library.actions) == ["yes", "007", "odpri-čep"]
    assert [a.description for a in library.actions.values()] == ["no", "1.50", "2001-01-01"]
    assert library.actions["yes"].preconditions == (Literal("on"), Literal("y"))


def test_composed_and_decomposed_letters_are_one_name() -> None:
    library = ActionLibrary.parse("families: [a]\nactions:\n  odpri-c\u030cep: {description: d}\n")
    assert library.require("odpri-\u010dep") is library.require("odpri-c\u030cep")


def test_anchors_and_merge_keys_are_followed_and_the_own_key_wins() -> None:
    library = ActionLibrary.parse(
        "families: &all [phone]\n"
        "actions:\n"
        "  cut: &cut\n"
        "    description: Cut.\n"
        "    effects: [open]\n"
        "    families: *all\n"
        "  cut_again:\n"
        "    <<: *cut\n"
        "    description: Cut again.\n"
        "    preconditions: [open]\n"
        "  both:\n"
        "    <<: [{description: first}, {description: second, risk: confirm}]\n"
    )
    again, both = library.actions["cut_again"], library.actions["both"]
    assert (again.description, again.effects, again.families) == ("Cut again.", (Literal("open"),), {"phone"})
    assert (both.description, both.confirm) == ("first", True)


def test_facts_that_only_one_side_knows_are_warned_of() -> None:
    library = ActionLibrary.parse(
        "families: [a]\n"
        "initial: [screw_1_in, screw_2_in]\n"
        "actions:\n"
        "  go:\n"
        "    description: d\n"
        "    preconditions: [screw_1_in, screw_1_inn]\n"
        "    effects: [not screw_1_in, lit]\n",
        source="a.yaml",
    )
    assert library.warnings == (
        "a.yaml:2: initial fact 'screw_2_in' is in no precondition, so it rules nothing out",
        "a.yaml:6: action 'go': precondition 'screw_1_inn' is made true or false by nothing: it counts only when "
        "somebody says it; did you mean 'screw_1_in'?",
        "a.yaml:7: action 'go': effect 'lit' is in no precondition, so it rules nothing out",
    )


def test_a_fact_that_is_written_twice_is_no_typo() -> None:
    library = ActionLibrary.parse(
        change("initial: [closed,", "initial: [clsoed, closed,").replace(
            "effects: [not c", "effects: [not clsoed, not c"
        )
    )
    assert [w.split(": ", 1)[1] for w in library.warnings] == [
        "initial fact 'clsoed' is in no precondition, so it rules nothing out"
    ]


def test_the_digest_is_of_the_meaning() -> None:
    library = ActionLibrary.parse(GOOD)
    head, body = GOOD.split("actions:\n")
    end = body.index("  end:")
    moved = "# a comment\nactions:\n" + body[end:] + body[:end] + head.replace("phone, tablet", "tablet, phone")
    moved = moved.replace("[closed, not wet]", "\n- not wet\n- 'closed'").replace(
        "Part two shells", "Part  two  shells"
    )
    assert ActionLibrary.parse(moved, source="elsewhere").digest == library.digest
    assert len(library.digest) == 16
    assert library.digest == "55325e8df3f20ba0"  # decisions are kept beside it: the same in every version and process
    for old, new in [
        ("risk: confirm", "risk: confirm #"),
        ("preconditions: [wet]", "preconditions: [not wet]"),
        ("Part two shells.", "Part the shells."),
        ("    families: [phone]", "    families: [tablet]"),
        ("    risk: confirm\n", ""),
        ("my_cell.routines:pry", "pry"),
        ("initial: [closed, not wet]", "initial: [closed]"),
    ]:
        same = new.endswith("#")
        assert (ActionLibrary.parse(change(old, new)).digest == library.digest) is same, old


def test_to_dict_reads_back_as_the_same_meaning() -> None:
    library = ActionLibrary.parse(GOOD)
    again = ActionLibrary.parse(yaml.safe_dump(library.to_dict(), sort_keys=False))
    assert again.to_dict() == library.to_dict()
    assert again.digest == library.digest


def test_an_unknown_action_names_its_near_misses() -> None:
    library = ActionLibrary.parse(GOOD, source="a.yaml")
    assert library.require("pry").name == "pry"
    assert "pry" in library
    assert "none" not in library
    with pytest.raises(UnknownName) as caught:
        library.require("Pyr", "next action")
    assert str(caught.value) == (
        "unknown next action 'Pyr'; known: dry, end, pry (did you mean 'pry'? the actions are those of a.yaml)"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, r"no such file \(name the YAML file of the cell's actions\)"),
        (b"", "empty"),
        (b"a: \xff\xd8\xff", r":1: not UTF-8 text \(save it as YAML in UTF-8\)"),
        (GOOD.encode("utf-16"), "not UTF-8 text"),
        (b"#" * (MAX_BYTES + 1), "larger than 1,000,000 bytes"),
    ],
    ids=["missing", "empty", "binary", "utf-16", "huge"],
)
def test_a_file_that_is_no_library_is_refused(tmp_path: Path, data: bytes | None, message: str) -> None:
    path = tmp_path / "a.yaml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(LibraryError, match=message) as caught:
        ActionLibrary.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="cannot be read: Is a directory"):
        ActionLibrary.load(tmp_path)


def test_a_byte_order_mark_and_windows_lines_are_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert ActionLibrary.load(path).digest == ActionLibrary.parse(GOOD).digest


@pytest.mark.parametrize(
    "text", ["", "not", "not ", " x", "x ", "not  x", "not not x", "a b", "x!", "none", "-x", "x" * 65]
)
def test_what_is_no_fact_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no fact"):
        Literal.parse(text)


@given(
    st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True).filter(lambda n: n not in ("not", "none", "null")),
    st.booleans(),
)
def test_a_fact_reads_back_as_it_is_written(name: str, holds: bool) -> None:
    assert Literal.parse(str(Literal(name, holds))) == Literal(name, holds)


LINES = [
    *GOOD.splitlines(),
    "  x: &a [*a]",
    "  <<: *a",
    "- not",
    "  ? {}",
    "---",
    "a: !!set {b}",
    "\t",
    "'",
    "%YAML 9.1",
]
FRAGMENTS = st.one_of(st.text(), st.lists(st.sampled_from(LINES)).map("\n".join))


@settings(deadline=None, max_examples=150)
@given(FRAGMENTS)
def test_any_text_is_a_library_or_a_library_error_in_one_line(text: str) -> None:
    refused: LibraryError | None = None
    try:
        library = ActionLibrary.parse(text, source="a.yaml")
    except LibraryError as error:
        refused = error
    if refused is None:
        assert ActionLibrary.parse(yaml.safe_dump(library.to_dict())).digest == library.digest
    else:
        assert str(refused).startswith("a.yaml:")
        assert "\n" not in str(refused)
        assert refused.hint
