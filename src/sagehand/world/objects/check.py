"""The reader that holds a data file against :mod:`~sagehand.world.objects.spec`, and says what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

from sagehand.errors import InputError, near_misses
from sagehand.world.data_file import check_format
from sagehand.world.grasp import GraspType
from sagehand.world.objects.spec import (
    PARTS,
    CapsulePart,
    CavitySpec,
    Constant,
    InstanceSpec,
    ObjectSpec,
    Part,
    RegionSpec,
    Repeat,
    ShellPart,
    Size,
    Three,
)

__all__ = ["read_spec"]

_T = TypeVar("_T")


def read_spec(raw: object, where: str, shared: Mapping[str, str]) -> ObjectSpec:
    """Hold what a YAML file says against the schema.

    Args:
        raw: What the YAML says.
        where: The file, for messages.
        shared: Sources that every file may name.

    Raises:
        InputError: A field is missing, unknown or wrong; the message names the file, the field and the value.
    """
    if not isinstance(raw, Mapping):
        raise InputError(f"{where}: the file describes no object", hint="it must hold fields: name, title, category, …")
    check_format(raw, where)
    if "shapes" in raw:
        raise InputError(f"{where}: there is no field 'shapes'", hint="did you mean 'parts'?")
    spec = _validated(ObjectSpec, raw, where, "")
    shapes = tuple(_part(part, f"{where}: parts.{number}") for number, part in enumerate(spec.parts))
    spec = replace(spec, shapes=shapes)
    for path, problem in _problems(spec):
        raise InputError(f"{where}: {path}: {problem}")
    _check_name(spec.name, where)
    known = {**shared, **spec.sources}
    for path, constant in spec.constants:
        if constant.source not in known:
            close = near_misses(constant.source, known)
            hint = f"did you mean {close[0]!r}?" if close else f"known sources: {', '.join(sorted(known))}"
            raise InputError(f"{where}: {path}.source: no source is called {constant.source!r}", hint=hint)
    return spec


def _check_name(name: str, where: str) -> None:
    from sagehand.world.scene import check_name  # here, for a scene holds objects, and is above them

    try:
        check_name(name)
    except InputError as error:
        raise InputError(f"{where}: name: {error.message}", hint=error.hint) from error


def _part(raw: Mapping[str, Any], where: str) -> Part:
    kind = raw.get("shape")
    if not isinstance(kind, str) or kind not in PARTS:
        raise InputError(f"{where}.shape: {kind!r} is no shape", hint=f"shapes: {', '.join(PARTS)}")
    return _validated(PARTS[kind], raw, where, "")


def _validated(cls: type[_T], raw: Mapping[str, Any], where: str, path: str) -> _T:
    from pydantic import ValidationError

    kind: Any = cls
    try:
        checked: _T = _adapter(kind).validate_python(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = [str(p) for p in first["loc"] if p != "__root__"]
        name = ".".join(([path] if path else []) + place)
        given = _shortened(first["input"])
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            known = [f.name for f in fields(_owner(cls, place)) if f.name != "shapes"]
            close = near_misses(place[-1], known)
            hint = f"did you mean {close[0]!r}?" if close else f"fields: {', '.join(known)}"
            raise InputError(f"{where}: there is no field {name!r}", hint=hint) from error
        if first["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
            if place[-1].isdigit():
                raise InputError(f"{where}: {name.rpartition('.')[0]}: too few values; it is {given}") from error
            raise InputError(f"{where}: the field {name!r} is missing") from error
        raise InputError(f"{where}: {name}: {first['msg'][0].lower()}{first['msg'][1:]}; it is {given}") from error
    return checked


@cache
def _adapter(cls: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def _owner(cls: Any, place: Iterable[str]) -> Any:
    """The dataclass that holds the last name of a path."""
    blocks = {
        "regions": RegionSpec,
        "instances": InstanceSpec,
        "cavity": CavitySpec,
        "repeat": Repeat,
        "size_m": Size,
        "mass_kg": Constant,
        "friction": Constant,
        "f_safe_n": Constant,
        "rolling_friction_m": Constant,
    }
    for name in list(place)[:-1]:
        cls = blocks.get(name, cls)
    return cls


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _problems(spec: ObjectSpec) -> Iterator[tuple[str, str]]:
    """Path and problem of each number out of its range."""
    if not 0 <= spec.fragility <= 1:
        yield "fragility", f"it must be from 0 to 1; it is {spec.fragility}"
    yield from _physical(spec.mass_kg, spec.friction, spec.f_safe_n, "")
    yield from _positive("size_m.value", spec.size_m.value)
    if spec.rolling_friction_m and not 0 <= spec.rolling_friction_m.value < 0.1:
        yield "rolling_friction_m.value", f"it must be from 0 to 0.1 m; it is {spec.rolling_friction_m.value}"
    if not spec.shapes:
        yield "parts", "an object needs at least one part"
    if not spec.regions:
        yield "regions", "an object needs at least one region where it may be held"
    for number, part in enumerate(spec.shapes):
        for name, problem in _part_problems(part):
            yield f"parts.{number}.{name}", problem
    given = [p.mass_share for p in spec.shapes if p.mass_share is not None]
    if sum(given) > 1 + 1e-9 or (len(given) == len(spec.shapes) and abs(sum(given) - 1) > 1e-6):
        yield "parts", f"the mass shares make {sum(given):g}; all together they must make 1"
    for name, region in spec.regions.items():
        yield from _positive(f"regions.{name}.size_m", region.size_m)
        if not region.types:
            yield f"regions.{name}.types", f"at least one of {', '.join(GraspType)}"
        for axis in ("outward", "closing"):
            if math.hypot(*getattr(region, axis)) < 1e-6:
                yield f"regions.{name}.{axis}", "it is of no length, so it is no direction"
        if math.hypot(*_cross(region.outward, region.closing)) < 1e-6:
            yield f"regions.{name}.closing", "it is parallel to outward"
    if spec.cavity and not 0 <= spec.cavity.floor_m < spec.cavity.rim_m:
        yield "cavity", "its floor must be from 0 up to below its rim"
    if spec.cavity:
        yield from _positive("cavity.radius_m", [spec.cavity.radius_m])
    for name, instance in spec.instances.items():
        at = f"instances.{name}."
        scale = instance.scale if isinstance(instance.scale, tuple) else (instance.scale,)
        yield from _positive(f"{at}scale", scale)
        if len(scale) == 3 and scale[0] != scale[1] and _is_round(spec):
            yield f"{at}scale", "a vessel must stay round: give the same factor along x and y"
        yield from _positive(f"{at}density", [instance.density])
        if instance.fragility is not None and not 0 <= instance.fragility <= 1:
            yield f"{at}fragility", f"it must be from 0 to 1; it is {instance.fragility}"
        yield from _physical(instance.mass_kg, instance.friction, instance.f_safe_n, at)


def _is_round(spec: ObjectSpec) -> bool:
    return spec.cavity is not None or any(isinstance(p, ShellPart) for p in spec.shapes)


def _physical(
    mass: Constant | None, friction: Constant | None, f_safe: Constant | None, at: str
) -> Iterator[tuple[str, str]]:
    if mass:
        yield from _positive(f"{at}mass_kg.value", [mass.value])
    if f_safe:
        yield from _positive(f"{at}f_safe_n.value", [f_safe.value])
    if friction and not 0 <= friction.value <= 2:
        yield f"{at}friction.value", f"it must be from 0 to 2; it is {friction.value}"


def _part_problems(part: Part) -> Iterator[tuple[str, str]]:
    text = part.color.removeprefix("#")
    if len(text) not in (6, 8) or text == part.color or not all(c in "0123456789abcdefABCDEF" for c in text):
        yield "color", f"{part.color!r} is no colour; write #rrggbb or #rrggbbaa"
    if part.mass_share is not None and not 0 <= part.mass_share <= 1:
        yield "mass_share", f"it must be from 0 to 1; it is {part.mass_share}"
    if part.repeat and not 1 <= part.repeat.count <= 200:
        yield "repeat.count", f"it must be from 1 to 200; it is {part.repeat.count}"
    for f in fields(part):
        if f.name.endswith("_m") and f.name != "at_m":
            value = getattr(part, f.name)
            yield from _positive(f.name, value if isinstance(value, tuple) else (value,))
    if isinstance(part, CapsulePart) and part.length_m < 2 * part.radius_m:
        yield "length_m", f"a capsule is at least as long as it is thick ({2 * part.radius_m:g}); it is {part.length_m}"
    if isinstance(part, ShellPart):
        if part.wall_m >= min(part.radius_bottom_m, part.radius_top_m):
            yield "wall_m", f"the wall must be thinner than the radius; it is {part.wall_m}"
        if part.floor_m >= part.height_m:
            yield "floor_m", f"the floor must be thinner than the height; it is {part.floor_m}"
        if not 6 <= part.sides <= 96:
            yield "sides", f"it must be from 6 to 96; it is {part.sides}"


def _positive(path: str, values: Iterable[float]) -> Iterator[tuple[str, str]]:
    for value in values:
        if not (math.isfinite(value) and 0 < value < 1e6):
            yield path, f"it must be above 0 and below 1000000; it is {value}"


def _cross(a: Three, b: Three) -> Three:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
