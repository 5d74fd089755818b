"""Objects by name and by file: what is found, and what is said about a file that is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagehand.errors import InputError, SagehandError, UnknownName
from sagehand.world.data_file import parse_yaml
from sagehand.world.objects.load import (
    GROUPS,
    instance_names,
    load_object,
    load_spec,
    object_and_instance,
    object_names,
    resolve,
    split_of,
)

TASKS = {
    "apple",
    "ball",
    "banana",
    "bottle",
    "bowl",
    "box",
    "cube",
    "cup",
    "phone",
    "screwdriver",
    "vase",
    "wine-glass",
}


def plain() -> dict[str, Any]:
    """The smallest file that is right."""
    return {
        "name": "brick",
        "title": "A brick",
        "category": "brick",
        "superclass": "toy",
        "material": "clay",
        "fragility": 0.1,
        "affordances": ["Clampable"],
        "size_m": {"value": [0.06, 0.04, 0.03], "source": "ruler"},
        "mass_kg": {"value": 0.1, "source": "ruler"},
        "friction": {"value": 0.5, "source": "grasping"},
        "f_safe_n": {"value": 70, "source": "grasping"},
        "parts": [{"shape": "box", "size_m": [0.06, 0.04, 0.03], "at_m": [0, 0, 0.015]}],
        "regions": {
            "sides": {
                "at_m": [0, 0, 0.015],
                "outward": [0, 0, 1],
                "closing": [0, 1, 0],
                "size_m": [0.06, 0.04, 0.03],
                "affordance": "Clampable",
                "types": ["pinch"],
            }
        },
        "sources": {"ruler": "measured with a ruler"},
    }


def write(folder: Path, data: object) -> Path:
    path = folder / "brick.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data), encoding="utf-8")
    return path


def test_the_groups_hold_what_the_tasks_need() -> None:
    assert set(object_names("tasks")) == TASKS
    assert set(object_names("force")) == {"egg", "strawberry", "paper-cup", "pet-bottle", "crisp-bag"}
    assert len(object_names("other")) >= 12
    assert object_names() == [n for group in GROUPS for n in object_names(group)]
    categories = {g: {load_object(n).category for n in object_names(g)} for g in GROUPS}
    assert not categories["other"] & (categories["tasks"] | categories["force"]), "far categories are others"
    with pytest.raises(UnknownName, match="group of objects"):
        object_names("task")


def test_names_are_forgiving() -> None:
    assert resolve("wine_glass") is resolve("Wine glass") is load_object("wine-glass")
    assert resolve("cup/small") is load_object("cup", "small")
    assert (resolve("cup/small").name, resolve("cup/small").base, resolve("cup").name) == ("cup-small", "cup", "cup")


def test_an_unknown_name_names_the_near_ones() -> None:
    with pytest.raises(UnknownName) as caught:
        load_object("cupp")
    assert "cupp" in str(caught.value)
    assert "'cup'" in caught.value.hint
    with pytest.raises(UnknownName, match="instance of cup") as caught:
        resolve("cup/smal")
    assert "'small'" in caught.value.hint


def test_every_object_has_instances_for_the_base() -> None:
    """Experiences are collected on what is in no benchmark (GRASPING §7)."""
    for name in object_names():
        assert len(instance_names(name)) >= 2, name
        if name in object_names("other"):
            assert split_of(name) == "far"
            assert not instance_names(name, "base")
        else:
            assert split_of(name) == "benchmark"
            assert len(instance_names(name, "base")) >= 2, name
    with pytest.raises(UnknownName):
        split_of("cup", "none")


def test_a_file_of_your_own(tmp_path: Path) -> None:
    data = plain() | {"instances": {"big": {"title": "A big brick", "scale": 2.0}}}
    path = write(tmp_path, data)
    model = load_object(path)
    assert model.mass_kg == 0.1
    assert np.allclose(model.size_m, (0.06, 0.04, 0.03))
    assert resolve(str(path)).category == "brick"
    assert load_object(str(path), "big").mass_kg == pytest.approx(0.8)
    assert instance_names(str(path)) == ["big"]


def test_an_instance_of_a_file_of_your_own(tmp_path: Path) -> None:
    """Whoever writes instances can name them as those that ship: with a slash."""
    path = write(tmp_path, plain() | {"instances": {"big": {"title": "A big brick", "scale": 2.0}}})
    loud = path.rename(tmp_path / "Brick.YAML")
    big = resolve(f"{loud}/big")
    assert (big.name, big.base) == ("brick-big", "brick")
    assert np.allclose(big.size_m, (0.12, 0.08, 0.06))
    assert object_and_instance(f"{loud}/big") == (str(loud), "big")
    assert object_and_instance(str(loud)) == (str(loud), None)
    assert object_and_instance("cup/small") == ("cup", "small")
    assert object_and_instance("cup") == ("cup", None)
    with pytest.raises(UnknownName, match="instance of brick 'bif'; known: big"):
        resolve(f"{loud}/bif")


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, plain())
    assert load_object(path).friction == 0.5
    write(tmp_path, plain() | {"friction": {"value": 0.3, "source": "ruler"}})
    assert load_object(path).friction == 0.3


@pytest.mark.parametrize(
    ("change", "said", "hint"),
    [
        ({"mass_kg": {"value": -1, "source": "ruler"}}, "mass_kg.value: it must be above 0 and .*; it is -1", ""),
        ({"mass_kg": {"value": 1e9, "source": "ruler"}}, "above 0 and below 1000000; it is 1000000000", ""),
        ({"fragility": "0.5"}, "fragility: .*valid number; it is '0.5'", ""),
        ({"fragility": True}, "fragility: .*valid number; it is True", ""),
        ({"parts": [{"shape": "box", "size_m": [0.06, "0.04", 0.03]}]}, "size_m.1: .*valid number; it is '0.04'", ""),
        ({"name": "a/b"}, "name: .*'a/b'; a name holds no '/'", "another `name`"),
        ({"name": "table"}, "name: .*'table', which stands for a part of the cell", "another `name`"),
        (
            {"size_m": {"value": [1, 1, 1], "source": "ruler"}},
            r"size_m: it is \[1.0, 1.0, 1.0\] m, but the parts reach over \[0.06, 0.04, 0.03\] m",
            "within 3 mm or 3 %",
        ),
        ({"mass_kg": {"value": "heavy", "source": "ruler"}}, "mass_kg.value: .*valid number.*'heavy'", ""),
        ({"mass_kg": {"value": float("nan"), "source": "ruler"}}, "mass_kg.value: .*finite", ""),
        ({"mass_kg": 0.1}, "mass_kg: .*; it is 0.1", ""),
        ({"mass_kg": {"value": 0.1, "source": "rulr"}}, "mass_kg.source: no source is called 'rulr'", "'ruler'"),
        ({"friction": {"value": 3, "source": "ruler"}}, "friction.value: it must be from 0 to 2; it is 3", ""),
        ({"fragility": 1.5}, "fragility: it must be from 0 to 1", ""),
        ({"friktion": 1}, "there is no field 'friktion'", "'friction'"),
        ({"parts": []}, "parts: an object needs at least one part", ""),
        ({"parts": [{"shape": "cone"}]}, r"parts.0.shape: 'cone' is no shape", "capsule"),
        ({"parts": [{"shape": []}]}, r"parts.0.shape: \[\] is no shape", "capsule"),
        ({"parts": [{"shape": "box"}]}, "parts.0: the field 'size_m' is missing", ""),
        ({"parts": [{"shape": "box", "size_m": [1, 2]}]}, r"parts.0: size_m: too few values; it is \[1, 2\]", ""),
        ({"parts": [{"shape": "sphere", "radius": 1}]}, "parts.0: ", ""),
        ({"parts": [{"shape": "box", "size_m": [0.1, 0, 0.1]}]}, "parts.0.size_m: it must be above 0", ""),
        ({"parts": [{"shape": "capsule", "radius_m": 0.1, "length_m": 0.1}]}, "at least as long as it is thick", ""),
        ({"parts": [{"shape": "sphere", "radius_m": 0.1, "color": "red"}]}, "'red' is no colour", ""),
        ({"parts": [{"shape": "sphere", "radius_m": 0.1, "mass_share": 0.5}]}, "the mass shares make 0.5", ""),
        ({"parts": [{"shape": "sphere", "radius_m": 0.1}]}, "the lowest point is at z = -0.1000", "stands on z = 0"),
        ({"parts": [{"shape": "sphere", "radius_m": 0.1, "repeat": {"count": 0}}]}, "repeat.count", ""),
        ({"regions": {}}, "regions: an object needs at least one region", ""),
        ({"affordances": ["Graspable"]}, "affordances.0: .*'Graspable_Body'.*; it is 'Graspable'", ""),
        ({"instances": {"odd": {"title": "odd", "scale": 0}}}, "instances.odd.scale: it must be above 0", ""),
        ({"instances": {"odd": {"title": "odd", "sclae": 2}}}, "there is no field 'instances.odd.sclae'", "'scale'"),
        ({"cavity": {"radius_m": 0.1, "floor_m": 0.2, "rim_m": 0.1}}, "cavity: its floor", ""),
        ({"format": 2}, "format is 2: it was written for a newer version; this one reads 1", "update"),
        ({"format": 0}, "format is 0; it must be 1", ""),
        (
            {"rolling_friction": {"value": 0.001, "source": "ruler"}},
            "no field 'rolling_friction'",
            "rolling_friction_m",
        ),
        ({"shapes": []}, "there is no field 'shapes'", "parts"),
    ],
)
def test_a_wrong_file_is_told_by_file_field_and_value(
    tmp_path: Path, change: dict[str, Any], said: str, hint: str
) -> None:
    path = write(tmp_path, plain() | change)
    with pytest.raises(InputError, match=said) as caught:
        load_object(path)
    assert str(path) in str(caught.value)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"at_m": [0, 0, 0.2]}, "regions.sides.at_m: .*lies outside the object"),
        ({"closing": [0, 0, 2]}, "regions.sides.closing: it is parallel to outward"),
        ({"outward": [0, 0, 0]}, "regions.sides.outward: it is of no length"),
        ({"size_m": [0.1, -0.1, 0.1]}, "regions.sides.size_m"),
        ({"types": ["hook"]}, "regions.sides.types.0: .*'power', 'pinch' or 'side'"),
        ({"types": []}, "regions.sides.types"),
        ({"turn": "round and round"}, "regions.sides.turn"),
    ],
)
def test_a_wrong_region_is_told(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    data = plain()
    data["regions"]["sides"] |= change
    with pytest.raises(InputError, match=said):
        load_object(write(tmp_path, data))


def test_a_vessel_stays_round(tmp_path: Path) -> None:
    data = plain() | {
        "parts": [
            {
                "shape": "shell",
                "radius_bottom_m": 0.02,
                "radius_top_m": 0.03,
                "height_m": 0.03,
                "wall_m": 0.002,
                "floor_m": 0.002,
            }
        ],
        "instances": {"oval": {"title": "oval", "scale": [1, 2, 1]}},
    }
    with pytest.raises(InputError, match="instances.oval.scale: a vessel must stay round"):
        load_object(write(tmp_path, data))


@pytest.mark.parametrize("text", ["", "[1, 2]", "just words", "a: b: c", "name: [", "\t- x"])
def test_what_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="brick.yaml"):
        load_object(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\nparts:\n  - {shape: box,\n     shape: sphere}", "brick.yaml, line 4: 'shape' is said twice"),
        ("name: a\ntitle: b\n'name': c", "brick.yaml, line 3: 'name' is said twice"),
        ("a: &a [*a]", "line 1: an alias .* stands in what it stands for"),
    ],
)
def test_what_is_said_twice_is_told_by_line_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_object(write(tmp_path, text))


def test_aliases_stand_for_no_more_than_a_file_may_hold() -> None:
    """Nine levels of nine would be 3.9e8 nodes: refused before any is made; a few aliases, and merged fields, are fine."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(InputError, match="b.yaml: its aliases .* more than 10000 values"):
        parse_yaml("\n".join(levels), "b.yaml")
    merged = parse_yaml("a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nd: [*a, *a]", "b.yaml")
    assert merged["b"] == {"x": 3, "y": 2}
    assert merged["d"] == [{"x": 1, "y": 2}] * 2


def test_an_exponent_needs_no_point() -> None:
    assert parse_yaml("[1e-3, -2E4, .5e1, 1.5e+3, 1e, e5, 0.5]", "n.yaml") == [
        0.001,
        -2e4,
        5.0,
        1500.0,
        "1e",
        "e5",
        0.5,
    ]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_object(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        load_object(tmp_path / "binary.yaml")


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(field=st.sampled_from(sorted(plain())), value=junk)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_junk_in_any_field_is_an_input_error_or_an_object(tmp_path: Path, field: str, value: object) -> None:
    """Never another error, and never an object whose numbers are not sound."""
    told: list[str] = []
    try:
        model = load_object(write(tmp_path, plain() | {field: value}))
    except SagehandError as error:
        told.append(str(error))
    if told:
        assert "brick.yaml" in told[0]
        return
    low, high = model.bounds_m
    assert np.isfinite([model.mass_kg, model.friction, model.f_safe_n, *low, *high, *model.com_m]).all()
    assert model.mass_kg > 0
    assert model.f_safe_n > 0


def leaves(doc: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    rows = doc.items() if isinstance(doc, dict) else enumerate(doc) if isinstance(doc, list) else ()
    return [leaf for key, value in rows for leaf in leaves(value, (*path, key))] + ([path] if path else [])


@given(path=st.sampled_from(leaves(plain())), value=junk, name=st.none() | st.text(max_size=5) | st.integers())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_mutated_anywhere_is_an_input_error_or_an_object(
    tmp_path: Path, path: tuple[Any, ...], value: object, name: object
) -> None:
    """A value is junk, or a field is called by something else."""
    doc: Any = plain()
    at = doc
    for key in path[:-1]:
        at = at[key]
    if name is not None and isinstance(at, dict):
        at[name] = at.pop(path[-1])
    else:
        at[path[-1]] = value
    told = ""
    try:
        model = load_object(write(tmp_path, doc))
    except InputError as error:
        told = error.message
    assert "brick.yaml" in told or np.isfinite([*model.bounds_m[1], *model.com_m]).all()


def test_sources_are_named() -> None:
    for name in object_names():
        spec = load_spec(name)
        paths = {path for path, _ in spec.constants}
        assert {"size_m", "mass_kg", "friction", "f_safe_n"} <= paths


def test_importing_costs_little() -> None:
    code = (
        "import sys, sagehand.world.objects.load, sagehand.world.objects.shell\n"
        "print([m for m in ('pydantic', 'yaml', 'scipy', 'mujoco', 'matplotlib') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
