"""``sagehand cases edit …``: insert, move and rename steps, devices and families, while the case base serves."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sagehand.cli.common import AsJson, CasesFile, emit, open_base

__all__ = ["app"]

app = typer.Typer(
    help="Insert, move and rename steps, devices and families.", no_args_is_help=True, rich_markup_mode=None
)

Family = Annotated[str, typer.Argument(metavar="FAMILY", help="The family.")]
Device = Annotated[str, typer.Argument(metavar="DEVICE", help="The device.")]
Step = Annotated[int, typer.Argument(min=1, metavar="STEP", help="The step's number.")]


@app.command("insert-step")
def insert_step(
    cases: CasesFile,
    family: Family,
    device: Device,
    at: Step,
    name: Annotated[str | None, typer.Option(help="The new step's name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make room for a step: the steps from there on move up by one."""
    _edit("insert_step", cases, as_json, family, device, at, name)


@app.command("move-step")
def move_step(
    cases: CasesFile,
    family: Family,
    device: Device,
    step: Step,
    to: Annotated[int, typer.Argument(min=1, metavar="TO", help="The place that it moves to.")],
    as_json: AsJson = False,
) -> None:
    """Renumber a step; the steps between the two places close up."""
    _edit("move_step", cases, as_json, family, device, step, to)


@app.command("rename-step")
def rename_step(
    cases: CasesFile,
    family: Family,
    device: Device,
    step: Step,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
    as_json: AsJson = False,
) -> None:
    """Rename a step: the `state` of all its cases."""
    _edit("rename_step", cases, as_json, family, device, step, name)


@app.command("rename-device")
def rename_device(
    cases: CasesFile,
    family: Family,
    device: Device,
    to: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
    as_json: AsJson = False,
) -> None:
    """Rename a device; a name that is taken is refused."""
    _edit("rename_device", cases, as_json, family, device, to)


@app.command("rename-family")
def rename_family(
    cases: CasesFile,
    family: Family,
    to: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
    as_json: AsJson = False,
) -> None:
    """Rename a family; a name that is taken is refused."""
    _edit("rename_family", cases, as_json, family, to)


@app.command("move-device")
def move_device(
    cases: CasesFile,
    family: Family,
    device: Device,
    to: Annotated[str, typer.Argument(metavar="TO", help="The family to move it to.")],
    as_json: AsJson = False,
) -> None:
    """Move a device to another family."""
    _edit("move_device", cases, as_json, family, device, to)


def _edit(operation: str, cases: Any, as_json: bool, *arguments: Any) -> None:
    with open_base(cases) as base:
        before = base.revision
        changed = getattr(base, operation)(*arguments)
        doc = {"operation": operation, "cases_changed": changed, "revision": base.revision}
        written = doc["revision"] != before  # a step without cases may have changed
        done = f"{changed} cases changed; `sagehand cases undo` takes it back"
        emit(doc, as_json, done if written else "nothing to change")
