"""The root of the command line: groups, global options, and what becomes of an error."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sagehand.cli import cases, decisions, predict, setup
from sagehand.errors import SagehandError

__all__ = ["app", "run"]

app = typer.Typer(
    name="sagehand",
    help="Look, recall the past cases that matter, and say what to do next, with the evidence.",
    epilog="Start with: sagehand demo    Check the set-up: sagehand doctor    Every command takes --help and --json.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(cases.app, name="cases")
app.add_typer(decisions.app, name="decisions")
app.add_typer(setup.config, name="config")
predict.register(app)
setup.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        from sagehand import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Look, recall the past cases that matter, and say what to do next, with the evidence."""


def run(arguments: list[str]) -> int:
    """Run a command; an error that the user can mend is one line on stderr and exit code 2."""
    try:
        app(arguments, prog_name="sagehand")
    except SagehandError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a place that cannot be read or entered, whatever was looked for there
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"error: {where}{error.strerror or error} (check the path and its permissions)", file=sys.stderr)
        return 2
    except UnicodeEncodeError as error:
        print(f"error: {error.object!r} is not UTF-8 text", file=sys.stderr)
        return 2
    except OverflowError:
        print("error: a number is too large for a case base (the largest is 9223372036854775807)", file=sys.stderr)
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0
