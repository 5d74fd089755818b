"""YAML as a small tree that knows its lines, so that an error can name the line it is about.

Scalars stay the text that was written: ``no``, ``on`` and ``1`` are names here, never booleans or numbers (as YAML 1.1
would have it). The tree is built from parser events, with caps on depth and on its unfolded size, so that neither deep
nesting nor a bomb of aliases costs more than a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn

import yaml

from sagehand.errors import LibraryError

__all__ = ["MAX_DEPTH", "MAX_NODES", "Node", "parse_yaml"]

MAX_NODES = 20_000
MAX_DEPTH = 16

_PLAIN_TAGS = {None, "!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
_QUOTE_HINT = "indent with spaces, and quote a text that holds ': ' or ' #'"


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a YAML file.

    Attributes:
        kind: "text" for a scalar, "empty" for a missing value or an unquoted ``null`` or ``~``, "list" or "map".
        line: Where it starts in the file; the first line is 1.
        size: Number of nodes in it with its aliases unfolded, itself included.
        text: A scalar as it was written, without its quotes; "" for lists and maps.
        items: The members of a list.
        pairs: Keys (always "text" or "empty") and values of a map, in the order of the file, merge keys resolved.
    """

    kind: Literal["text", "empty", "list", "map"]
    line: int
    size: int = 1
    text: str = ""
    items: tuple[Node, ...] = ()
    pairs: tuple[tuple[Node, Node], ...] = ()


def parse_yaml(text: str, source: str) -> Node | None:
    """Read one YAML document.

    Args:
        text: The whole file.
        source: Name of the file, for errors.

    Returns:
        The root, or None when the text holds nothing but white space and comments.

    Raises:
        LibraryError: Not YAML, more than one document, a key given twice, a tag, an undefined or recursive alias, or a
            tree that is too deep or too large. The message starts with ``source:line:``.
    """
    try:
        return _Builder(yaml.parse(text, Loader=yaml.SafeLoader), source).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        problem = " ".join((error.problem or error.context or "cannot be read").split())
        raise LibraryError(f"{where}: not valid YAML: {problem}", hint=_QUOTE_HINT) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        raise LibraryError(
            f"{source}:{line}: the control character U+{code:04X} cannot stand in YAML", hint="delete it"
        ) from error
    except (ValueError, OverflowError) as error:  # an escape such as "\\UFFFFFFFF" passes the scanner's own check
        raise LibraryError(
            f"{source}: not valid YAML: {error}", hint="look for an escape beyond \\U0010FFFF"
        ) from error


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1


class _Builder:
    """Turns parser events into nodes, depth first."""

    def __init__(self, events: Iterator[yaml.Event], source: str) -> None:
        self.events, self.source = events, source
        self.anchors: dict[str, Node] = {}
        self.read = 0  # nodes read so far; the unfolded size is checked apart

    def fail(self, line: int, message: str, hint: str) -> NoReturn:
        raise LibraryError(f"{self.source}:{line}: {message}", hint=hint)

    def document(self) -> Node | None:
        next(self.events)  # start of the stream
        if isinstance(next(self.events), yaml.StreamEndEvent):
            return None
        root = self.node(next(self.events), 1)
        next(self.events)  # end of the document
        more = next(self.events)
        if not isinstance(more, yaml.StreamEndEvent):
            self.fail(_line(more), "a second document starts here", "keep one document a file: delete '---'")
        return root

    def node(self, event: yaml.Event, depth: int) -> Node:
        line = _line(event)
        self.read += 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                self.fail(line, f"alias '*{event.anchor}' has no anchor before it", "define the anchor first")
            return self.anchors[event.anchor]
        if depth > MAX_DEPTH:
            self.fail(line, f"nested more than {MAX_DEPTH} levels deep", "a library needs four levels")
        if not isinstance(event, yaml.ScalarEvent | yaml.SequenceStartEvent | yaml.MappingStartEvent):
            raise TypeError(f"unexpected YAML event {event!r}")  # the parser never sends one here
        if event.tag not in _PLAIN_TAGS:
            self.fail(line, f"the YAML tag {event.tag!r} has no meaning here", "delete the tag")
        if isinstance(event, yaml.ScalarEvent):
            empty = event.tag is None and not event.style and event.value in ("", "~", "null", "Null", "NULL")
            node = Node("empty" if empty else "text", line, text=event.value)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self.sequence(line, depth)
        else:
            node = self.mapping(line, depth)
        if max(node.size, self.read) > MAX_NODES:
            self.fail(line, f"more than {MAX_NODES:,} values once its aliases are unfolded", "write a smaller library")
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def sequence(self, line: int, depth: int) -> Node:
        items: list[Node] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, depth + 1))
        return Node("list", line, 1 + sum(i.size for i in items), items=tuple(items))

    def mapping(self, line: int, depth: int) -> Node:
        own: dict[str, tuple[Node, Node]] = {}
        merged: list[Node] = []
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            merge = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and not event.style
            key = self.node(event, depth + 1)
            value = self.node(next(self.events), depth + 1)
            if key.kind in ("list", "map"):
                self.fail(key.line, "a key is a list or a map", "write a name before ':'")
            if merge:
                merged += self.merge_sources(value)
            elif key.text in own:
                first = own[key.text][0].line
                self.fail(key.line, f"key {key.text!r} stands twice (first in line {first})", "delete or rename one")
            else:
                own[key.text] = (key, value)
        for source in merged:  # what the map says itself wins, then the sources in their order
            for key, value in source.pairs:
                own.setdefault(key.text, (key, value))
        pairs = tuple(own.values())
        return Node("map", line, 1 + sum(k.size + v.size for k, v in pairs), pairs=pairs)

    def merge_sources(self, value: Node) -> list[Node]:
        sources = list(value.items) if value.kind == "list" else [value]
        for source in sources:
            if source.kind != "map":
                self.fail(source.line, "'<<' merges a map, or a list of maps", "write '<<: *anchor'")
        return sources
