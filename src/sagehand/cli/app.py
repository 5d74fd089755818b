"""The root of the command line: groups, global options, and what becomes of an error."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
import typer.core

from sagehand.cli import cases, crop, decisions, embedders, evaluate, predict, setup, study, vlm, world
from sagehand.cli.common import announce
from sagehand.errors import SagehandError

__all__ = ["app", "run"]


class _Root(typer.core.TyperGroup):
    """Says that Ctrl-C was heard; typer leaves with 130 without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            announce("interrupted")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Root,
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
app.add_typer(vlm.app, name="vlm")
app.add_typer(embedders.app, name="embedders")
app.add_typer(study.app, name="study")
app.add_typer(world.app, name="world")
predict.register(app)
evaluate.register(app)
crop.register(app)
setup.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        from sagehand.version import __version__

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
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0
