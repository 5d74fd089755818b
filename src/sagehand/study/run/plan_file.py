"""A plan's YAML file, read twice: as text with its lines, for what can be said of an error, and as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sagehand.action.yaml_lines import Node, parse_yaml
from sagehand.errors import InputError, LibraryError, near_misses
from sagehand.study.run.plan import CROPS, METHODS, PROTOCOLS, Arm, Plan, VlmPlan

__all__ = ["MAX_BYTES", "parse_plan", "read_plan"]

MAX_BYTES = 1_000_000

_LISTS = {"method": tuple(METHODS), "crop": CROPS, "protocol": tuple(PROTOCOLS)}
Model = TypeVar("Model", bound=BaseModel)
_SECRETS = ("key", "token", "secret", "password")


def read_plan(path: Path) -> Plan:
    """Read a plan's file.

    Raises:
        InputError: It cannot be read, or is no plan.
    """
    hint = "as in examples/study-offline.yaml"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such plan", hint=hint) from None
    except OSError as error:
        raise InputError(f"{path}: the plan cannot be read: {error.strerror or error}", hint=hint) from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES:,} bytes, so no plan", hint=hint)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text", hint="save it in UTF-8") from error
    return parse_plan(text, str(path))


def parse_plan(text: str, source: str) -> Plan:
    """Read a plan.

    Args:
        text: The YAML text.
        source: What the errors call it.

    Raises:
        InputError: It is no plan; the message starts with ``source:line:`` and names field, value and what is valid.
    """
    try:
        root = parse_yaml(text, source)
    except LibraryError as error:
        raise InputError(error.message, hint=error.hint.replace("library", "plan")) from error
    try:
        doc = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:  # as a date that there is not
        raise InputError(f"{source}: not valid YAML: {' '.join(str(error).split())}", hint="quote texts") from error
    if root is None or root.kind != "map" or not isinstance(doc, dict):
        raise InputError(
            f"{source}: is no plan", hint="a plan has a `name:` and `arms:`, as examples/study-offline.yaml"
        )
    return _Reading(source, root).plan(doc)


class _Reading:
    """One plan under way.

    Args:
        source: What the errors call it.
        root: The tree with its lines.
    """

    def __init__(self, source: str, root: Node) -> None:
        self._source, self._root = source, root

    def plan(self, doc: Mapping[Any, Any]) -> Plan:
        """The plan of a document."""
        self._known(doc, ("defaults", *Plan.model_fields), (), "the plan")
        defaults = self._map(doc.get("defaults"), ("defaults",), "defaults")
        self._known(defaults, _ARM_FIELDS, ("defaults",), "defaults")
        vlm = self._map(doc.get("vlm"), ("vlm",), "vlm")
        self._known(vlm, tuple(VlmPlan.model_fields), ("vlm",), "vlm")
        arms = self._map(doc.get("arms"), ("arms",), "arms")
        if not arms:
            self._fail(("arms",), "the plan has no arms", f"valid methods: {', '.join(METHODS)}")
        values = {name: value for name, value in doc.items() if name not in ("defaults", "arms", "vlm")}
        values["arms"] = tuple(self._arm(name, value, defaults) for name, value in arms.items())
        values["vlm"] = self._made(VlmPlan, vlm, "vlm", ("vlm",))
        return self._made(Plan, values, "the plan", ())

    def _arm(self, name: Any, fields: Any, defaults: Mapping[Any, Any]) -> Arm:
        at, what = ("arms", name), f"arm {name!r}"
        own = self._map(fields, at, what)
        self._known(own, _ARM_FIELDS, at, what)
        values = {**defaults, **own, "name": name}
        if isinstance(options := defaults.get("options"), dict) and isinstance(own.get("options"), dict):
            values["options"] = {**options, **own["options"]}
        if "method" not in values:
            if name not in METHODS:
                self._fail(at, f"{what} says no method", f"valid: {', '.join(METHODS)}")
            values["method"] = name
        return self._made(Arm, values, what, at, ("defaults",))

    def _made(self, kind: type[Model], values: dict[str, Any], what: str, *places: tuple[Any, ...]) -> Model:
        try:
            return kind(**values)
        except ValidationError as error:
            self._wrong(error.errors()[0], what, places)

    def _wrong(self, error: ErrorDetails, what: str, places: Iterable[tuple[Any, ...]]) -> NoReturn:
        """Say what pydantic found, in this program's words and with the line."""
        field = str(error["loc"][0])
        at = next((place for place in places if self._node((*place, field))), next(iter(places)))
        if error["type"] == "missing":
            self._fail(at, f"{what} has no {field}", f"add `{field}: …`")
        value = error["input"]
        valid, hint = _LISTS.get(field), ""
        if valid is not None:
            message = f"valid: {', '.join(valid)}"
            hint = _meant(value, valid)
        elif error["type"] == "value_error":
            message = error["msg"].removeprefix("Value error, ")
        else:
            message = error["msg"][:1].lower() + error["msg"][1:]
        if field == "name" and error["type"] == "string_pattern_mismatch":
            message = "valid: letters, digits and . _ + - , a letter or digit first"
        if error["type"] == "tuple_type":
            message = "valid: a list, as in [0, 1]"
        if error["type"] == "string_type" and isinstance(value, bool | int | float):
            hint = hint or f"quote it: {field}: '…'"
        self._fail((*at, field), f"{what}: {field} is {_shown(value)}; {message}", hint)

    def _map(self, value: Any, at: tuple[Any, ...], what: str) -> dict[Any, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._fail(at, f"{what} is {_shown(value)}, not fields with values", f"as in `{at[-1]}: {{field: value}}`")
        return value

    def _known(self, given: Mapping[Any, Any], valid: Iterable[str], at: tuple[Any, ...], what: str) -> None:
        names = sorted(valid)
        for name in given:
            if name in names:
                continue
            if at == ("vlm",) and any(word in str(name).casefold() for word in _SECRETS):
                self._fail(
                    (*at, name), f"{what}: {name!r} has no place in a plan", "set OPENAI_API_KEY in the environment"
                )
            known = f"unknown field {name!r}; known: {', '.join(names)}"
            self._fail((*at, name), f"{what}: {known}", _meant(name, names))

    def _fail(self, at: tuple[Any, ...], message: str, hint: str) -> NoReturn:
        node = self._node(at)
        while node is None:
            at = at[:-1]
            node = self._node(at)
        raise InputError(f"{self._source}:{node.line}: {message}", hint=hint)

    def _node(self, at: tuple[Any, ...]) -> Node | None:
        """The node of a place, by its keys; of a pair the key's, whose line a reader looks for."""
        node, found = self._root, self._root
        for key in at:
            # a key's text is as written; what YAML made of it (1, true) is compared as text too
            pair = next(((k, v) for k, v in node.pairs if k.text == key or k.text == str(key)), None)
            if pair is None:
                return None
            found, node = pair
        return found


_ARM_FIELDS = tuple(name for name in Arm.model_fields if name != "name")


def _meant(value: Any, valid: Iterable[str]) -> str:
    close = near_misses(value, valid) if isinstance(value, str) else []
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
