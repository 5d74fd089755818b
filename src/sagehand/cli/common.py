"""What the commands share: options, opening things, printing results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.errors import InputError

if TYPE_CHECKING:
    from sagehand.action.library import ActionLibrary
    from sagehand.cases import CaseBase
    from sagehand.settings import Settings

__all__ = [
    "Actions",
    "AsJson",
    "CasesFile",
    "CasesOption",
    "announce",
    "announce_warnings",
    "emit",
    "fields_text",
    "finish",
    "library_at",
    "open_base",
    "progress",
    "settings",
    "table",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
CasesFile = Annotated[Path, typer.Argument(metavar="CASES", help="The case base (one file).")]
CasesOption = Annotated[Path | None, typer.Option("--cases", metavar="FILE", help="The case base. [setting: cases]")]
Actions = Annotated[
    Path | None, typer.Option("--actions", metavar="FILE", help="The action library (YAML). [setting: actions]")
]


def settings(**flags: Any) -> Settings:
    """The settings, with the flags of this call on top."""
    from sagehand.settings import load_settings

    return load_settings(flags=flags).settings


def open_base(path: Path | None) -> CaseBase:
    """Open the case base that was named, by a flag or by the settings."""
    from sagehand.cases import CaseBase

    if path is None:
        raise InputError("no case base was named", hint="add --cases FILE, or set `cases` in sagehand.toml")
    return CaseBase.open(path)


def library_at(path: Path | None) -> ActionLibrary | None:
    """Load the action library that was named, if one was."""
    if path is None:
        return None
    from sagehand.action.library import ActionLibrary

    return ActionLibrary.load(path)


def emit(doc: Any, as_json: bool, text: Callable[[], str] | str) -> None:
    """Print a result: the document as JSON, or the text."""
    if as_json:
        typer.echo(json.dumps(doc, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(text if isinstance(text, str) else text())


def announce(line: str) -> None:
    """Say something that is no result: on stderr."""
    print(line, file=sys.stderr)


def announce_warnings(library: ActionLibrary | None) -> None:
    """Say what in an action library looks like a slip of the pen."""
    for warning in library.warnings if library else ():
        announce(f"warning: {warning}")


def finish(code: int) -> None:
    """Leave with an exit code; 0 goes on."""
    if code:
        raise typer.Exit(code)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on stderr, on a terminal only; hands out ``report(done, total)`` or None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report


def fields_text(doc: Mapping[str, Any]) -> str:
    """Fields and values, aligned; what is empty is left out, and lists are told in words."""
    return table(
        [[key, _told(value)] for key, value in doc.items() if value not in (None, (), [], {})], ["field", "value"]
    )


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, list | tuple) and all(isinstance(item, list | tuple) for item in value):
        return f"{len(value)} points"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple | dict) else str(value)


def table(rows: Sequence[Sequence[Any]], header: Sequence[str]) -> str:
    """Plain columns, aligned."""
    cells = [list(header), *[["" if c is None else str(c) for c in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)
