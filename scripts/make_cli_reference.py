"""Write ``docs/cli.md``, the reference of the command line, from ``--help`` itself.

    python scripts/make_cli_reference.py

A test holds the file against the code.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"

HEAD = """\
# The command line

Made by `scripts/make_cli_reference.py` from `--help`; do not edit it by hand.

Results go to stdout, progress and errors to stderr. `--json` prints the result as JSON and nothing else on stdout.

| exit code | meaning |
|---|---|
| 0 | done, also when sagehand abstains and asks the operator |
| 1 | some of many files failed (each is named on stderr), or `doctor` found something that does not work |
| 2 | the input cannot be used: one line on stderr says why and what to do; nothing was half-written |
| 130 | stopped by Ctrl-C; what was written is whole, and `cases import` goes on where it stopped |

A value marked `[setting: name]` can also stand in `sagehand.toml` as `name = …` or in the environment as `SAGEHAND_NAME`;
a flag wins over the environment, the environment over the file. `sagehand config show` prints what holds.
"""


def commands() -> list[tuple[str, ...]]:
    """Every command and group as its words, the root first."""
    import typer.main

    from sagehand.cli.app import app

    return list(_walk(typer.main.get_command(app), ()))


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from _walk(below, (*words, name))


def help_of(words: tuple[str, ...]) -> str:
    """What ``--help`` prints, 80 columns wide."""
    from sagehand.cli import main

    os.environ.update(COLUMNS="80", LINES="24", NO_COLOR="1", TERM="dumb")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main([*words, "--help"])
    return out.getvalue()


def reference() -> str:
    """The page."""
    parts = [HEAD]
    for words in commands():
        title = " ".join(("sagehand", *words))
        level = "##" if len(words) < 2 else "###"
        parts.append(f"{level} {title}\n\n```text\n{help_of(words).strip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(reference(), encoding="utf-8")
    print(f"{len(commands())} commands in {PAGE}")
