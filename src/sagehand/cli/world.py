"""``sagehand world …``: objects and scenes to grasp in, pictures of them, tries. Long commands are in files of their own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli import world_agree, world_picture, world_try
from sagehand.cli.common import AsJson, emit, table

if TYPE_CHECKING:
    from sagehand.world.objects.model import ObjectModel
    from sagehand.world.objects.spec import InstanceSpec, ObjectSpec

__all__ = ["app"]

app = typer.Typer(
    name="world",
    help="A simulated table to grasp at: objects, scenes, pictures, grasps tried by statics or physics.",
    epilog="Start with: sagehand world try cup --grasp rim    See what there is: sagehand world objects",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def objects(
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Only those of one group: tasks, force or other.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the objects: their numbers, and where they can be held.

    Every number's source is told by `sagehand world show NAME`.
    """
    from sagehand.world.objects.load import instance_names, object_names, resolve

    docs = [{**_brief(resolve(name)), "instances": instance_names(name)} for name in object_names(group)]

    def text() -> str:
        header = ["object", "size mm", "kg", "friction", "f_safe N", "fragility", "regions"]
        return table(
            [
                [
                    d["name"],
                    _millimetres(d["size_m"]),
                    f"{d['mass_kg']:.3f}",
                    d["friction"],
                    f"{d['f_safe_n']:g}",
                    d["fragility"],
                    ", ".join(d["regions"]),
                ]
                for d in docs
            ],
            header,
        )

    emit(docs, as_json, text)


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="OBJECT", help="OBJECT, OBJECT/INSTANCE, or an object's file, *.yaml (or *.yaml/INSTANCE)."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show one object: every number with its source, regions, instances."""
    from sagehand.world.objects.load import load_spec, object_and_instance, resolve
    from sagehand.world.objects.sources import shared_sources

    model = resolve(name)
    of = object_and_instance(name)[0]
    spec = load_spec(of)
    doc = _whole(model, spec, {**shared_sources(), **spec.sources})
    by = of if of.lower().endswith((".yaml", ".yml")) else model.base
    emit(doc, as_json, lambda: _shown(doc, by))


def scenes(as_json: AsJson = False) -> None:
    """List the scenes that ship.

    An object by itself is a scene too, and so is a file of your own (YAML): a list named objects of rows as
    {object: cup, at_m: [0.5, 0.1], yaw_deg: 30, filled: 0.6} or {object: vase, beside: cup, gap_m: 0.08}. Fields: object,
    name, at_m, yaw_deg, filled, beside, behind, on_top_of, gap_m; what is not given is drawn from the seed.
    """
    from sagehand.world.scenes import scene_names, scene_objects, scene_title

    docs = [{"name": n, "title": scene_title(n), "objects": scene_objects(n)} for n in scene_names()]
    emit(docs, as_json, lambda: table([[d["name"], d["title"]] for d in docs], ["scene", "what it shows"]))


def _brief(model: ObjectModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "category": model.category,
        "superclass": model.superclass,
        "material": model.material,
        "size_m": [round(float(v), 4) for v in model.size_m],
        "mass_kg": round(model.mass_kg, 4),
        "friction": model.friction,
        "f_safe_n": model.f_safe_n,
        "fragility": model.fragility,
        "regions": list(model.regions),
    }


def _whole(model: ObjectModel, spec: ObjectSpec, sources: dict[str, str]) -> dict[str, Any]:
    regions = {
        region.name: {
            "affordance": str(region.affordance),
            "types": [str(t) for t in region.types],
            "turn": str(region.turn),
            "size_m": [round(float(v), 4) for v in region.size_m],
            "T_object_region": [[round(float(v), 6) for v in row] for row in region.T_object_region],
        }
        for region in model.regions.values()
    }
    instance = _instance_of(model, spec)
    return {
        **_brief(model),
        "base": spec.name,
        "title": spec.title if instance is None else instance.title,
        "affordances": [str(a) for a in model.affordances],
        "centre_of_mass_m": [round(float(v), 4) for v in model.com_m],
        "regions": regions,
        "instances": {key: instance.title for key, instance in spec.instances.items()},
        "sources": _told(spec, instance, sources),
        "notes": spec.notes,
    }


def _instance_of(model: ObjectModel, spec: ObjectSpec) -> InstanceSpec | None:
    """Which of the file's instances a model is; None for the object itself."""
    return spec.instances.get(model.name.removeprefix(f"{spec.name}-")) if model.name != spec.name else None


def _told(spec: ObjectSpec, instance: InstanceSpec | None, sources: dict[str, str]) -> dict[str, str]:
    """Where each number comes from: of an instance its own source, or how it follows from the object's."""
    from sagehand.world.objects.instances import HARMLESS_N

    told = {key: sources.get(constant.source, constant.source) for key, constant in spec.constants}
    if instance is None:
        return told
    told = {key: source for key, source in told.items() if not key.startswith("instances.")}
    factors = [instance.scale] * 3 if isinstance(instance.scale, int | float) else list(instance.scale)
    by = " x ".join(f"{v:g}" for v in (factors if len(set(factors)) > 1 else factors[:1]))
    scaled = any(v != 1 for v in factors)
    if scaled:
        told["size_m"] = f"scaled, lengths by {by}, from: {told['size_m']}"
    changes = [f"volume by {math.prod(factors):.4g}"] if scaled else []
    changes += [f"density by {instance.density:g}"] if instance.density != 1 else []
    if changes:
        told["mass_kg"] = f"scaled, {' and '.join(changes)}, from: {told['mass_kg']}"
    if scaled and spec.f_safe_n.value < HARMLESS_N:
        told["f_safe_n"] = f"scaled, area by {math.prod(factors) ** (2 / 3):.4g}, from: {told['f_safe_n']}"
    for key, own in (("mass_kg", instance.mass_kg), ("friction", instance.friction), ("f_safe_n", instance.f_safe_n)):
        if own is not None:
            told[key] = sources.get(own.source, own.source)
    return told


def _shown(doc: dict[str, Any], by: str) -> str:
    """A page for a person; its instances can be asked for as ``by``/instance."""
    sources = list(dict.fromkeys(doc["sources"].values()))
    rows = [
        [label, value, sources.index(doc["sources"][key]) + 1 if key in doc["sources"] else ""]
        for label, key, value in (
            ("size", "size_m", f"{_millimetres(doc['size_m'])} mm"),
            ("mass", "mass_kg", f"{doc['mass_kg']:.4g} kg"),
            ("friction", "friction", f"{doc['friction']:g}"),
            ("safe force", "f_safe_n", f"{doc['f_safe_n']:.4g} N"),
        )
    ]
    lines = [f"{doc['name']}: {doc['title']}", f"{doc['material']}, fragility {doc['fragility']:g}", ""]
    lines += [table(rows, ["what", "value", "source"]), ""]
    header = ["region", "spans mm", "affordance", "types", "turn"]
    regions = [
        [name, f"{1000 * r['size_m'][1]:.1f}", r["affordance"], ", ".join(r["types"]), r["turn"]]
        for name, r in doc["regions"].items()
    ]
    lines.append(table(regions, header))
    if doc["instances"]:
        lines += [
            "",
            table(
                [[f"{by}/{k}", v] for k, v in doc["instances"].items()],
                ["instance", "what it is"],
            ),
        ]
    lines += ["", "sources", *(f"  {number}  {source}" for number, source in enumerate(sources, 1))]
    if doc["notes"]:
        lines += ["", doc["notes"]]
    return "\n".join(lines)


def _millimetres(size_m: list[float]) -> str:
    return "x".join(f"{1000 * v:.0f}" for v in size_m)


for command in (objects, show, scenes):  # the list of commands begins with what there is
    app.command()(command)
for part in (world_picture, world_try, world_agree):
    part.register(app)
