"""The command line: thin over the API. Data goes to stdout, progress and errors to stderr; exit codes 0, 1, 2, 130."""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the program's name; the process's own by default.

    Returns:
        0: done, also when sagehand abstains. 1: some files of many failed. 2: the input cannot be used. 130: Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file name may hold bytes, and a terminal lack letters
            stream.reconfigure(errors="backslashreplace")
    try:
        from sagehand.cli.app import run  # within: Ctrl-C may come while it loads

        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
