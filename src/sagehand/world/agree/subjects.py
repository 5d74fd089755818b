"""The objects of a study: all that ship, each with its instances, or those that are named."""

from __future__ import annotations

from collections.abc import Sequence

from sagehand.errors import InputError

__all__ = ["all_objects", "base_of", "chosen_objects", "file_of"]


def all_objects() -> tuple[str, ...]:
    """Everything that ships, as "cup" and "cup/small"."""
    from sagehand.world.objects.load import instance_names, object_names

    return tuple(ref for name in object_names() for ref in (name, *(f"{name}/{i}" for i in instance_names(name))))


def chosen_objects(names: Sequence[str] | str | None) -> tuple[str, ...]:
    """Objects by name, also separated by commas: "cup" with all its instances, "cup/small", a group, or a file; None for all.

    Raises:
        InputError: None is named.
        UnknownName: There is no object or instance of a name.
    """
    if names is None:
        return all_objects()
    from sagehand.world.objects.load import GROUPS, instance_names, object_names, resolve

    asked = [n.strip() for n in ([names] if isinstance(names, str) else names) for n in n.split(",") if n.strip()]
    if not asked:
        raise InputError("no object is named", hint="leave it out for all of them")
    found: list[str] = []
    for name in asked:
        for one in object_names(name) if name in GROUPS else [name]:
            resolve(one)
            whole = "/" not in one and one in object_names()
            found += [one, *(f"{one}/{i}" for i in instance_names(one))] if whole else [one]
    return tuple(dict.fromkeys(found))


def file_of(name: str) -> str | None:
    """The file of one's own that a name means, "my.yaml" of "my.yaml/small"; None for what ships."""
    lower = name.lower()
    for suffix in (".yaml", ".yml"):
        if lower.endswith(suffix):
            return name
        if (at := lower.rfind(suffix + "/")) >= 0:
            return name[: at + len(suffix)]
    return None


def base_of(ref: str) -> str:
    """The object of an instance: "cup" of "cup/small", "my.yaml" of "my.yaml/small"."""
    return file_of(ref) or ref.partition("/")[0]
