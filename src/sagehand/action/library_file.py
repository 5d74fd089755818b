"""From the text of an action library to :class:`ActionLibrary`, with every slip named by its line."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from typing import NoReturn

from sagehand.action.library import PARAMETERS_GROUP, RESERVED, Action, ActionLibrary, Literal, is_name
from sagehand.action.yaml_lines import Node, parse_yaml
from sagehand.errors import InputError, LibraryError, near_misses

__all__ = ["read_library"]

_TOP_KEYS = ("families", "initial", "actions")
_ACTION_KEYS = ("description", "preconditions", "effects", "families", "risk", "parameters")
_RISKS = ("confirm",)
_ENTRY_POINT = re.compile(r"[\w-]+(\.[\w-]+)*|[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_MAX_MESSAGE = 600  # a name may be as long as the file
_SHAPE_HINT = "an action library has the keys families, initial and actions"


def read_library(text: str, source: str) -> ActionLibrary:
    """Check the text of a YAML file and build the library.

    Args:
        text: The YAML.
        source: Name of the file, for errors.

    Raises:
        LibraryError: See :meth:`ActionLibrary.load`.
    """
    root = parse_yaml(unicodedata.normalize("NFC", text), source)
    if root is None or root.kind == "empty":
        raise LibraryError(f"{source}: empty", hint=_SHAPE_HINT)
    return _Reader(source).library(root)


class _Reader:
    """One pass over one file; remembers where each fact is written and read."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.written: dict[str, list[tuple[int, str]]] = defaultdict(list)  # fact → line and place, initial and effects
        self.needed: dict[str, list[tuple[int, str]]] = defaultdict(list)  # fact → line and place, preconditions

    def fail(self, line: int, message: str, hint: str) -> NoReturn:
        shown = message if len(message) <= _MAX_MESSAGE else message[:_MAX_MESSAGE] + "…"
        raise LibraryError(f"{self.source}:{line}: {shown}", hint=hint)

    def library(self, root: Node) -> ActionLibrary:
        if root.kind != "map":
            self.fail(root.line, f"a {_KIND[root.kind]} where a map of keys is due", _SHAPE_HINT)
        top = self.keys(root, _TOP_KEYS, "")
        for key in ("families", "actions"):
            if key not in top:
                self.fail(root.line, f"key '{key}' is missing", _SHAPE_HINT)
        families = self.families(top["families"], "")
        initial = self.literals(top["initial"], "initial", "", self.written) if "initial" in top else ()
        body = top["actions"]
        if body.kind != "map" or not body.pairs:
            self.fail(body.line, "'actions' names no action", "write 'name:' under it, with a description below")
        actions: dict[str, Action] = {}
        for name, value in body.pairs:
            actions[name.text] = self.action(name, value, families)
        self.one_spelling("action", ((name.text, name.line) for name, _ in body.pairs))
        uses = ((fact, line) for where in (self.written, self.needed) for fact, at in where.items() for line, _ in at)
        self.one_spelling("fact", sorted(uses, key=lambda use: use[1]))
        return ActionLibrary(self.source, families, initial, actions, self.lonely_facts())

    def action(self, key: Node, body: Node, families: tuple[str, ...]) -> Action:
        name = key.text
        if not is_name(name):
            taken = "'none' stands for nothing done yet, 'null' for no answer, 'not' for the opposite of a fact"
            hint = taken if name.casefold() in RESERVED else "use up to 64 letters, digits, '_' and '-'"
            self.fail(key.line, f"{name!r} cannot be the name of an action", hint)
        where = f"action {name!r}: "
        if body.kind != "map":
            self.fail(key.line, f"{where}a map of keys is due", f"write under it: {', '.join(_ACTION_KEYS)}")
        values = self.keys(body, _ACTION_KEYS, where)
        if "description" not in values:
            self.fail(key.line, f"{where}key 'description' is missing", "say in a line what it does")
        description = " ".join(self.text(values["description"], "description", where).split())
        if not description:
            self.fail(values["description"].line, f"{where}'description' is empty", "say in a line what it does")
        if not description.isprintable():
            self.fail(values["description"].line, f"{where}'description' holds a control character", "delete it")
        lists = {
            part: self.literals(values[part], part, where, store) if part in values else ()
            for part, store in (("preconditions", self.needed), ("effects", self.written))
        }
        return Action(
            name,
            description,
            lists["preconditions"],
            lists["effects"],
            self.action_families(values["families"], where, families) if "families" in values else None,
            "risk" in values and self.risk(values["risk"], where),
            self.parameters(values["parameters"], where) if "parameters" in values else None,
        )

    def keys(self, node: Node, known: tuple[str, ...], where: str) -> dict[str, Node]:
        for key, _ in node.pairs:
            if key.text not in known:
                self.fail(
                    key.line,
                    f"{where}unknown key {key.text!r}; known: {', '.join(known)}",
                    " ".join(_did_you_mean(key.text, known)) or "delete it",
                )
        return {key.text: value for key, value in node.pairs}

    def text(self, node: Node, key: str, where: str) -> str:
        if node.kind not in ("text", "empty"):
            self.fail(node.line, f"{where}{key!r} is a {_KIND[node.kind]}, not text", "write one text")
        return "" if node.kind == "empty" else node.text

    def texts(self, node: Node, key: str, where: str, example: str) -> list[tuple[str, int]]:
        """A list of texts, with their lines; an empty value is an empty list."""
        hint = f"write a list, as in {key}: [{example}]"
        if node.kind == "empty":
            return []
        if node.kind != "list":
            self.fail(node.line, f"{where}{key!r} is a {_KIND[node.kind]}, not a list", hint)
        for item in node.items:
            if item.kind != "text":
                self.fail(item.line, f"{where}{key!r} holds a {_KIND[item.kind]} where a name is due", hint)
        return [(item.text, item.line) for item in node.items]

    def literals(
        self, node: Node, key: str, where: str, store: dict[str, list[tuple[int, str]]]
    ) -> tuple[Literal, ...]:
        singular = {"initial": "initial fact", "preconditions": "precondition", "effects": "effect"}[key]
        found: dict[str, Literal] = {}
        for text, line in self.texts(node, key, where, "closed, not board_in"):
            try:
                literal = Literal.parse(text)
            except InputError as error:
                self.fail(line, f"{where}{singular} {text!r} is no fact", error.hint)
            if (before := found.get(literal.fact)) is not None:
                what = "stands twice" if before == literal else f"contradicts {str(before)!r}"
                self.fail(line, f"{where}{singular} {str(literal)!r} {what}", "keep one of the two")
            found[literal.fact] = literal
            store[literal.fact].append((line, f"{where}{singular} {str(literal)!r}"))
        return tuple(found.values())

    def families(self, node: Node, where: str) -> tuple[str, ...]:
        found: dict[str, int] = {}
        for text, line in self.texts(node, "families", where, "phone"):
            if not text.strip() or text != text.strip() or not text.isprintable():
                self.fail(
                    line, f"{where}family {text!r} cannot be a name", "use printable text without spaces at its ends"
                )
            if text in found:
                self.fail(line, f"{where}family {text!r} stands twice", "keep one of the two")
            found[text] = line
        if not found:
            hint = "leave the key out for every family" if where else "name the device families that the cell handles"
            self.fail(node.line, f"{where}'families' is empty", hint)
        self.one_spelling("family", found.items())
        return tuple(found)

    def action_families(self, node: Node, where: str, known: tuple[str, ...]) -> frozenset[str]:
        found = self.families(node, where)
        for name, item in zip(found, node.items, strict=True):
            if name not in known:
                hint = " ".join([*_did_you_mean(name, known), "a new one stands in 'families' at the top, too"])
                self.fail(item.line, f"{where}unknown family {name!r}; known: {', '.join(known)}", hint)
        return frozenset(found)

    def risk(self, node: Node, where: str) -> bool:
        if (text := self.text(node, "risk", where)) not in _RISKS:
            self.fail(
                node.line, f"{where}unknown risk {text!r}; known: {', '.join(_RISKS)}", "leave the key out for no risk"
            )
        return True

    def parameters(self, node: Node, where: str) -> str:
        text = self.text(node, "parameters", where)
        if not _ENTRY_POINT.fullmatch(text):
            hint = f"name an entry point of the group {PARAMETERS_GROUP!r}, or write 'module:attribute'"
            self.fail(node.line, f"{where}'parameters' {text!r} is no entry point", hint)
        return text

    def one_spelling(self, kind: str, uses: Iterable[tuple[str, int]]) -> None:
        """Refuse two names that differ in case, ``-``, ``_`` and spaces only: nobody means both."""
        seen: dict[str, tuple[str, int]] = {}
        for name, line in uses:
            first, at = seen.setdefault(re.sub(r"[-_ ]", "", name.casefold()), (name, line))
            if first != name:
                self.fail(
                    line, f"{kind} {name!r} is spelled {first!r} in line {at}", "write it the same way everywhere"
                )

    def lonely_facts(self) -> tuple[str, ...]:
        """Warn of facts that only one side knows; refuse one that is written once and looks like another's typo.

        A precondition that nothing makes true or false may be meant: it stays unknown until somebody says it.
        """
        warnings: list[tuple[int, str]] = []
        for fact in sorted(self.written.keys() - self.needed.keys()):
            close = _typo_of(fact, self.needed.keys())
            line, place = min(self.written[fact])
            if close and len(self.written[fact]) == 1:
                known = ", ".join(sorted((self.written.keys() | self.needed.keys()) - {fact}))
                self.fail(line, f"{place} is in no precondition; known facts: {known}", f"did you mean {close!r}?")
            warnings.append((line, f"{place} is in no precondition, so it rules nothing out"))
        for fact in sorted(self.needed.keys() - self.written.keys()):
            close = _typo_of(fact, self.written.keys())
            line, place = min(self.needed[fact])
            guess = f"; did you mean {close!r}?" if close else ""
            text = f"{place} is made true or false by nothing: it counts only when somebody says it{guess}"
            warnings.append((line, text))
        return tuple(f"{self.source}:{line}: {text}" for line, text in sorted(warnings))


_KIND = {"text": "text", "empty": "missing value", "list": "list", "map": "map"}


def _did_you_mean(name: str, known: Iterable[str]) -> list[str]:
    close = near_misses(name, known)
    return [f"did you mean {' or '.join(repr(c) for c in close)}?"] if close else []


def _typo_of(fact: str, known: Iterable[str]) -> str | None:
    """A known fact that this one is probably a slip of; ``screw_1`` is no slip of ``screw_2``."""
    same_digits = sorted(k for k in known if re.findall(r"\d", k) == re.findall(r"\d", fact))
    close = difflib.get_close_matches(fact, same_digits, n=1, cutoff=0.8)
    return close[0] if close else None
