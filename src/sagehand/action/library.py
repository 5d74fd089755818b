"""What the cell can do: actions with their preconditions and effects, as the integrator wrote them (SPEC A6).

Paper A §3.3 gives the model "the list of available actions, including their preconditions and effects"; here the list
is a YAML file, so that a new cell needs no code:

.. code-block:: yaml

    families: [phone]
    initial: [closed]              # holds when nothing was done yet; "not x" is known to be false; all else is unknown
    actions:
      pry:
        description: Part two clipped shells along the seam.
        preconditions: [closed]
        effects: [not closed]
        families: [phone]          # as needed: for these families only
        risk: confirm              # as needed: an operator must agree
        parameters: my_cell:pry    # as needed: an entry point "name", or "module:attribute", of the integrator's
      end:                         # as needed: stands for "nothing remains"
        description: Nothing is left to do.
        preconditions: [not closed]
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sagehand.errors import InputError, LibraryError, UnknownName

__all__ = [
    "END",
    "MAX_BYTES",
    "NOTHING_DONE",
    "PARAMETERS_GROUP",
    "RESERVED",
    "Action",
    "ActionLibrary",
    "Literal",
    "is_name",
]

NOTHING_DONE = "none"
"""As a previous action: nothing was done yet. No action can have this name."""

END = "end"
"""Name of the action that stands for "nothing remains"."""

RESERVED = ("not", NOTHING_DONE, "null")
"""What neither an action nor a fact can be called, in any case of letters."""

PARAMETERS_GROUP = "sagehand.parameters"
"""Group of entry points that an action's ``parameters`` names one of."""

MAX_BYTES = 1_000_000

_NAME = re.compile(r"\w[\w-]{0,63}")


def is_name(text: str) -> bool:
    """Whether an action or a fact may be called so: up to 64 letters, digits, ``_`` or ``-``."""
    return _NAME.fullmatch(text) is not None and text.casefold() not in RESERVED


@dataclass(frozen=True, slots=True, order=True)
class Literal:
    """A fact, or its opposite.

    Attributes:
        fact: Name of the fact.
        holds: True for ``fact``, False for ``not fact``.
    """

    fact: str
    holds: bool = True

    @classmethod
    def parse(cls, text: str) -> Literal:
        """Read ``battery_in`` or ``not battery_in``.

        Raises:
            InputError: The text is neither.
        """
        words = unicodedata.normalize("NFC", text).split(" ")
        holds = not (len(words) > 1 and words[0] == "not")
        name = " ".join(words if holds else words[1:])
        if not is_name(name):
            raise InputError(
                f"{text!r} is no fact",
                hint="write 'name' or 'not name'; a name is made of letters, digits, '_' and '-'",
            )
        return cls(name, holds)

    def __str__(self) -> str:
        return self.fact if self.holds else f"not {self.fact}"


@dataclass(frozen=True, slots=True)
class Action:
    """Something the cell can do.

    Attributes:
        name: What it is called in labels and answers.
        description: What it does, in a line for operators and models.
        preconditions: What must hold before it.
        effects: What holds after it; facts that are not named stay as they were.
        families: The families it is for; None for all of the library's.
        confirm: Whether an operator must agree before it is done (``risk: confirm``).
        parameters: Entry point of the integrator's routine that fills in its parameters: the name of one in the group
            ``sagehand.parameters``, or "module:attribute"; None where it has none.
    """

    name: str
    description: str
    preconditions: tuple[Literal, ...] = ()
    effects: tuple[Literal, ...] = ()
    families: frozenset[str] | None = None
    confirm: bool = False
    parameters: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data, with the keys of the YAML file; the order of facts, which means nothing, is alphabetical."""
        return {
            "description": self.description,
            "preconditions": sorted(str(p) for p in self.preconditions),
            "effects": sorted(str(e) for e in self.effects),
            **({"families": sorted(self.families)} if self.families is not None else {}),
            **({"risk": "confirm"} if self.confirm else {}),
            **({"parameters": self.parameters} if self.parameters is not None else {}),
        }


@dataclass(frozen=True)
class ActionLibrary:
    """The actions of a cell.

    Attributes:
        source: The file it came from, as it was named.
        families: The device families that the cell handles, in the order of the file.
        initial: What is known when nothing was done yet.
        actions: Name → action, in the order of the file.
        warnings: What looks like a slip of the pen but may be meant, one line each with file and line.
    """

    source: str
    families: tuple[str, ...]
    initial: tuple[Literal, ...]
    actions: Mapping[str, Action]
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def load(cls, path: str | Path) -> ActionLibrary:
        """Read a library from a YAML file.

        Raises:
            LibraryError: The file cannot be read, is no YAML, or does not describe a library. One line that names the
                file, the line, the bad value and the remedy.
        """
        source = str(path)
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError as error:
            raise LibraryError(f"{source}: no such file", hint="name the YAML file of the cell's actions") from error
        except OSError as error:
            raise LibraryError(
                f"{source}: cannot be read: {error.strerror}", hint="name a readable YAML file"
            ) from error
        if len(data) > MAX_BYTES:
            raise LibraryError(
                f"{source}: larger than {MAX_BYTES:,} bytes",
                hint="an action library has a few kilobytes: is it this file?",
            )
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise LibraryError(f"{source}:{line}: not UTF-8 text", hint="save it as YAML in UTF-8") from error
        return cls.parse(text, source=source)

    @classmethod
    def parse(cls, text: str, *, source: str = "<text>") -> ActionLibrary:
        """Read a library from the text of a YAML file; see :meth:`load`.

        Args:
            text: The YAML.
            source: What errors call it.
        """
        from sagehand.action.library_file import read_library

        return read_library(text, source)

    @property
    def end(self) -> str | None:
        """Name of the action that stands for "nothing remains"; None where the library has none."""
        return END if END in self.actions else None

    @cached_property
    def facts(self) -> frozenset[str]:
        """Every fact that the library names."""
        lists = [self.initial, *(a.preconditions + a.effects for a in self.actions.values())]
        return frozenset(literal.fact for literals in lists for literal in literals)

    @cached_property
    def digest(self) -> str:
        """16 hex digits that stand for the meaning: the same whatever the comments, the layout and the order."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def require(self, name: str, kind: str = "action") -> Action:
        """The action of that name.

        Args:
            name: As in a label or an answer.
            kind: What errors call it, as in "previous action".

        Raises:
            UnknownName: There is none; names the near misses and all that there are.
        """
        if name not in self:
            raise UnknownName(kind, name, self.actions, hint=f"the actions are those of {self.source}")
        return self.actions[unicodedata.normalize("NFC", name)]

    def __contains__(self, name: str) -> bool:
        return unicodedata.normalize("NFC", name) in self.actions

    def to_dict(self) -> dict[str, Any]:
        """The meaning as plain data, with the keys of the YAML file; no source, no warnings."""
        return {
            "families": sorted(self.families),
            "initial": sorted(str(i) for i in self.initial),
            "actions": {name: action.to_dict() for name, action in self.actions.items()},
        }
