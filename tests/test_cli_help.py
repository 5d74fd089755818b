"""``--help`` of every command, pinned; and the written reference is the one of this code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from command_line import enter, run

_SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "make_cli_reference.py"
_spec = importlib.util.spec_from_file_location("make_cli_reference", _SCRIPT)
assert _spec is not None
assert _spec.loader is not None
made = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)


@pytest.mark.parametrize("words", made.commands(), ids=lambda words: "-".join(words) or "sagehand")
def test_help(words: tuple[str, ...], snapshot: SnapshotAssertion) -> None:
    ran = run(*words, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == snapshot
    assert all(len(line) <= 80 for line in ran.out.splitlines())


@pytest.mark.parametrize("words", [w for w in made.commands() if w and w[0] in ("cases", "decisions") and len(w) > 1])
def test_every_command_that_prints_a_result_takes_json(words: tuple[str, ...]) -> None:
    text = run(*words, "--help").out
    assert "--json" in text or "COMMAND" in text.splitlines()[0]


def test_the_reference_is_current() -> None:
    assert made.PAGE.read_text(encoding="utf-8") == made.reference(), "run scripts/make_cli_reference.py"


def test_without_a_command_the_help_is_shown_and_nothing_done() -> None:
    for words in ((), ("cases",), ("decisions",), ("config",), ("cases", "edit")):
        ran = run(*words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == run(*words, "--help").out


def test_version() -> None:
    from sagehand import __version__

    assert run("--version").out == f"{__version__}\n"
