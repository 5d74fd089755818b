"""``sagehand embedders``, and ``sagehand embedders export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sagehand.cli.common import AsJson, emit, table

__all__ = ["app"]

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def embedders(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the embedders: what they are, where their weights come from, whether they can be used here.

    CLIP and SigLIP2 also go by place: hub:ORG/NAME, dir:FOLDER, onnx:FILE.
    """
    if ctx.invoked_subcommand is not None:
        return
    from sagehand.embed import list_embedders

    docs: list[dict[str, Any]] = [
        {
            "name": e.name,
            "identity": e.identity.to_dict() if e.identity else None,
            "source": e.source,
            "licence": e.licence,
            "available": e.available,
            "why_not": e.why_not,
        }
        for e in list_embedders()
    ]
    emit(docs, as_json, lambda: _listed(docs))


@app.command("export")
def export_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A CLIP or SigLIP2 name, hub:ORG/NAME or dir:FOLDER.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new ONNX file.")],
    as_json: AsJson = False,
) -> None:
    """Write the picture side of a network as an ONNX file that needs no torch.

    Use it as the embedder onnx:FILE. The file is written only if its vectors are the original's within 1e-4. Its
    identity is its own: embed a case base anew with it (`sagehand cases reembed`).
    """
    from sagehand.embed.export import export

    done = export(name, out)
    doc = done.to_dict()
    emit(
        doc,
        as_json,
        lambda: (
            f"{', '.join(doc['files'])}: {done.bytes / 1e6:.1f} MB, at most {done.difference:.1e} from "
            f"{done.original}\nuse it as: --embedder {done.embedder}"
        ),
    )


def _listed(docs: list[dict[str, Any]]) -> str:
    rows = [
        [
            d["name"],
            (d["identity"] or {}).get("dimension"),
            "yes" if d["available"] else "no",
            d["licence"],
            d["source"],
        ]
        for d in docs
    ]
    reasons = [f"{d['name']}: {d['why_not']}" for d in docs if not d["available"]]
    return "\n".join(
        [table(rows, ["name", "dimension", "usable", "licence", "source"]), *[""][: len(reasons)], *reasons]
    )
