"""``sagehand demo | doctor | config show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sagehand.cli.common import AsJson, emit, finish, progress, table

__all__ = ["config", "register"]

config = typer.Typer(help="Show the settings in force.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(demo)
    app.command()(doctor)


@config.callback()
def config_root() -> None:
    """Show the settings in force."""


@config.command("show")
def show(as_json: AsJson = False) -> None:
    """Print every setting, its value, and where the value came from: default, file or environment."""
    from sagehand.settings import load_settings

    doc = load_settings().to_dict()
    rows = [[name, e["value"], e["source"]] for name, e in doc["settings"].items()]
    emit(
        doc,
        as_json,
        lambda: (
            f"file: {doc['file'] or 'none (sagehand.toml is not here)'}\n" + table(rows, ["setting", "value", "from"])
        ),
    )


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the case base and the page go.")] = Path("out/demo"),
    as_json: AsJson = False,
) -> None:
    """Build a case base from the pictures that ship with sagehand, and decide on one that is not in it."""
    from sagehand.cli.predict import decision_text
    from sagehand.study.demo import run

    with progress("importing") as report:
        shown = run(out, on_progress=report)
    doc = {**shown.decision.to_dict(), "page": str(shown.page), "case_base": str(shown.cases), "truth": shown.truth}
    places = f"truth: {shown.truth}\npage: {shown.page}\ncase base: {shown.cases}"
    emit(doc, as_json, f"{shown.told}\n\n{decision_text(doc)}\n\n{places}")


def doctor(
    cases: Annotated[
        Path | None, typer.Option("--cases", metavar="FILE", help="Also check this case base. [setting: cases]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the set-up: Python, packages, the embedder, the settings, and a case base. Exit code 1 when something fails."""
    from sagehand.study.doctor import examine

    findings = examine(cases)
    marks = {"ok": "ok  ", "note": "note", "fail": "FAIL"}
    doc: list[dict[str, Any]] = [
        {"what": f.what, "state": f.state, "detail": f.detail, "remedy": f.remedy} for f in findings
    ]

    def text() -> str:
        return "\n".join(
            f"{marks[f.state]}  {f.what}: {f.detail}" + (f"\n      {f.remedy}" if f.remedy else "") for f in findings
        )

    emit(doc, as_json, text)
    finish(1 if any(f.state == "fail" for f in findings) else 0)
