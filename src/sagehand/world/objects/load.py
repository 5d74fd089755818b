"""Objects by name, or from a file of your own."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sagehand.errors import InputError, UnknownName
from sagehand.world.data_file import is_yaml_name, parse_yaml, read_yaml_file
from sagehand.world.objects.build import build_object
from sagehand.world.objects.check import read_spec
from sagehand.world.objects.instances import instance_of
from sagehand.world.objects.model import ObjectModel
from sagehand.world.objects.sources import shared_sources
from sagehand.world.objects.spec import InstanceSpec, ObjectSpec, Split

__all__ = [
    "GROUPS",
    "instance_names",
    "load_object",
    "load_spec",
    "object_and_instance",
    "object_names",
    "resolve",
    "split_of",
]

GROUPS = ("tasks", "force", "other")
"""Objects of the paper's tasks, those added to test force knowledge, and those of other categories."""


def object_names(group: str | None = None) -> list[str]:
    """Objects that ship: of one group, or all, group by group.

    Raises:
        UnknownName: There is no such group.
    """
    if group is not None and group not in GROUPS:
        raise UnknownName("group of objects", group, GROUPS)
    return [name for name, (of, _) in _shipped().items() if group in (None, of)]


def instance_names(name: str, split: Split | None = None) -> list[str]:
    """Instances of an object beside itself: of one split, or all.

    Raises:
        UnknownName: There is no such object.
    """
    instances = load_spec(name).instances
    return [i for i in instances if split in (None, split_of(name, i))]


def split_of(name: str, instance: str | None = None) -> Split:
    """What an object or an instance of it may be used for (GRASPING §7).

    The objects of tasks and force are the benchmark's own unless an instance says otherwise; all the others are far.

    Raises:
        UnknownName: There is no such object or instance.
    """
    spec = load_spec(name)
    default: Split = "far" if _shipped().get(_folded(name), ("",))[0] == "other" else "benchmark"
    return default if instance is None else _instance(spec, instance)[1].split or default


def load_object(name_or_path: str | Path, instance: str | None = None) -> ObjectModel:
    """An object that ships, by name, or one of your own, by the path of its YAML file; or an instance of it.

    Raises:
        UnknownName: There is no object or instance of this name.
        InputError: The file cannot be read, or a field is missing or wrong.
    """
    if is_yaml_name(name_or_path):
        return _made(load_spec(name_or_path), str(name_or_path), instance)
    return _loaded(_folded(str(name_or_path)), instance and _folded(instance))


def resolve(text: str) -> ObjectModel:
    """The object of "cup", "cup/small", the path of a YAML file, or "my.yaml/small": an instance of that file.

    Raises:
        UnknownName: There is no object or instance of this name.
        InputError: The file cannot be read, or a field is missing or wrong.
    """
    return load_object(*object_and_instance(text))


def object_and_instance(text: str) -> tuple[str, str | None]:
    """Name or path of the object, and name of the instance, of what :func:`resolve` takes."""
    if is_yaml_name(text):
        return text, None
    path, _, instance = text.rpartition("/")
    if is_yaml_name(path) and instance:
        return path, instance
    name, _, instance = text.partition("/")
    return name, instance or None


def load_spec(name_or_path: str | Path) -> ObjectSpec:
    """What the file of an object says, with its sources.

    Raises:
        UnknownName: There is no object of this name.
        InputError: The file cannot be read, or a field is missing or wrong.
    """
    if is_yaml_name(name_or_path):
        path = Path(name_or_path)
        return read_spec(read_yaml_file(path, "an object's file"), str(path), shared_sources())
    return _shipped_spec(_folded(str(name_or_path)))


@cache
def _loaded(name: str, instance: str | None) -> ObjectModel:
    return _made(_shipped_spec(name), f"{name}.yaml", instance)


def _made(spec: ObjectSpec, where: str, instance: str | None) -> ObjectModel:
    model = build_object(spec, where)
    return model if instance is None else instance_of(model, *_instance(spec, instance))


def _instance(spec: ObjectSpec, name: str) -> tuple[str, InstanceSpec]:
    name = _folded(name)
    if name not in spec.instances:
        raise UnknownName(f"instance of {spec.name}", name, spec.instances)
    return name, spec.instances[name]


@cache
def _shipped_spec(name: str) -> ObjectSpec:
    if name not in _shipped():
        raise UnknownName("object", name, object_names())
    file = _shipped()[name][1]
    spec = read_spec(parse_yaml(file.read_text(encoding="utf-8"), file.name), file.name, shared_sources())
    if spec.name != name:
        raise InputError(f"{file.name}: name: it is {spec.name!r}; it must be that of the file")
    return spec


@cache
def _shipped() -> dict[str, tuple[str, Traversable]]:
    """Name → group and file."""
    data = files("sagehand.world.objects") / "data"
    found: dict[str, tuple[str, Traversable]] = {}
    for group in GROUPS:
        for file in sorted((data / group).iterdir(), key=lambda f: f.name):
            if file.name.endswith(".yaml"):
                found[file.name.removesuffix(".yaml")] = (group, file)
    return found


def _folded(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")
