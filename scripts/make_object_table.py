"""Write ``docs/objects.md``, the table of all objects with the source of each constant, from the data files.

    python scripts/make_object_table.py

A test holds the file against the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sagehand.world.constants import GRAVITY
from sagehand.world.grasp import LIFT_ACCELERATION
from sagehand.world.objects.load import GROUPS, load_object, load_spec, object_names, split_of
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.sources import is_estimate, is_from_memory, shared_sources
from sagehand.world.objects.spec import Constant, ObjectSpec, Size

PAGE = Path(__file__).resolve().parents[1] / "docs" / "objects.md"

HEAD = """\
# Objects

Made by `scripts/make_object_table.py` from `src/sagehand/world/objects/data`; do not edit it by hand.

Every object is one data file: what it is made of, how heavy, smooth and fragile it is, where it may be held, and other
instances of it. The same file makes the shapes of the analytic simulator, the bodies of the physics and the pictures. The
constants were set before any grasp was tried, and no result moves them. Each names its source; ⚠ marks an estimate, which is
nobody's measurement, ☾ a published value quoted from memory, which could not be looked up again. Friction is that of the surface
against a dry rubber pad. The safe force is the largest normal force of one finger that does no harm; 70 N is the hand's own limit
and says that the hand can do none. The force by weight, m·(g + 2) / (2·μ), is what each finger needs to lift it at 2 m/s² where
nothing turns it.

Load one with `load_object("cup")`, an instance with `load_object("cup", "small")`, and a file of your own with
`load_object("my-cup.yaml")`; [world-files.md](world-files.md) shows how one is written.
"""

TITLES = {
    "tasks": "Objects of the tasks",
    "force": "Objects added to test knowledge of forces",
    "other": "Objects of other categories",
}

DIFFERENCES = """\
## Where the values differ from GRASPING §8

GRASPING is the list of definitions and constants that the project fixed before its first run; its table of objects was written
from memory, to be held against sources.

| object | there | here | why |
|---|---|---|---|
| apple | 0.180 kg | 0.182 kg | USDA, a medium apple 3 inches across |
| banana | 0.120 kg | 0.118 kg | USDA, a medium banana |
| bottle | 0.600 kg, 58 × 95 × 190 mm | 0.603 kg, 58 × 96 × 191 mm | YCB's table for the mass, the scanned mesh for the size |
| ball | 65 mm | 64.7 mm | YCB's table |
| cube | 0.045 kg | 0.0456 kg | density of beech |
| phone | 147 × 72 × 8 mm | 146.7 × 71.5 × 7.65 mm | the maker's specification of the phone that the mass is of |

All frictions, and the safe forces marked ⚠, are GRASPING's estimates or reasoned from them. Tables give
dry rubber on dry concrete 0.6 to 0.85 (The Engineering Toolbox); none was found for pads on enamel, glazed card or fruit, so ours
stay lower, on the side of the careful. For thin round walls the safe force is
`shell_force_n`, σ·b·t² / (6·0.318·R) with σ = 30 MPa and b = 30 mm, at most 70 N; it is used for the light bulb, the jar, and the
instances of porcelain. GRASPING's own table is kept for the vase (35 N; the formula gives 113 N for 3 mm of sound glass) and the
wine glass (5 N; the formula gives it for a wall of 0.67 mm).
"""


def page() -> str:
    """The page."""
    parts = [HEAD, *(f"## {TITLES[group]}\n\n{_table(group)}" for group in GROUPS), DIFFERENCES]
    parts.append("## Instances\n\n" + _instances())
    parts.append("## Sources\n\n" + _sources())
    return "\n".join(parts)


def _table(group: str) -> str:
    rows = [
        "| object | size mm | kg | material | fragility | μ | by weight N | safe N | regions |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in object_names(group):
        spec, model = load_spec(name), load_object(name)
        size = " × ".join(f"{v * 1000:.3g}" for v in spec.size_m.value)
        rows.append(
            f"| **{name}**: {spec.title} | {size}{_mark(spec, spec.size_m)} | {spec.mass_kg.value:g}{_mark(spec, spec.mass_kg)}"
            f" | {spec.material} | {spec.fragility:g} | {spec.friction.value:g}{_mark(spec, spec.friction)}"
            f" | {_by_weight(model):.2f} | {spec.f_safe_n.value:g}{_mark(spec, spec.f_safe_n)}"
            f" | {', '.join(f'{r.name} {r.width_m * 1000:.3g} mm' for r in model.regions.values())} |"
        )
    return "\n".join(rows) + "\n"


def _instances() -> str:
    rows = ["| instance | what | for | scale | kg | material | μ | safe N |", "|---|---|---|---|---|---|---|---|"]
    for name in object_names():
        spec = load_spec(name)
        for key, instance in spec.instances.items():
            model = load_object(name, key)
            scale = instance.scale if isinstance(instance.scale, tuple) else (instance.scale,)
            rows.append(
                f"| {name}/{key} | {instance.title} | {split_of(name, key)} | {' × '.join(f'{s:g}' for s in scale)}"
                f" | {model.mass_kg:.3g} | {model.material} | {model.friction:g} | {model.f_safe_n:.3g} |"
            )
    return "\n".join(rows) + "\n"


def _sources() -> str:
    lines = ["Named by several files:\n"]
    lines += [f"* `{key}` — {_flagged(text)}" for key, text in shared_sources().items()]
    for name in object_names():
        spec = load_spec(name)
        lines.append(f"\n**{name}**: " + "; ".join(f"{path} `{c.source}`" for path, c in spec.constants) + "\n")
        lines += [f"* `{key}` — {_flagged(text)}" for key, text in spec.sources.items()]
        if spec.notes:
            lines.append(f"* {spec.notes}")
    return "\n".join(lines) + "\n"


def _flagged(text: str) -> str:
    return f"⚠ {text}" if is_estimate(text) else text


def _mark(spec: ObjectSpec, constant: Constant | Size) -> str:
    source = {**shared_sources(), **spec.sources}[constant.source]
    return " ⚠" if is_estimate(source) else " ☾" if is_from_memory(source) else ""


def _by_weight(model: ObjectModel) -> float:
    return model.mass_kg * (GRAVITY + LIFT_ACCELERATION) / (2 * model.friction)


def estimates() -> Iterator[tuple[str, str]]:
    """Object and path of each constant that is an estimate."""
    for name in object_names():
        spec = load_spec(name)
        for path, constant in spec.constants:
            if "⚠" in _mark(spec, constant):
                yield name, path


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(object_names())} objects, {len(list(estimates()))} estimates")
