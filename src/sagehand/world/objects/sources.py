"""Sources that the objects' constants name, and which of them are estimates."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["is_estimate", "is_from_memory", "read_yaml", "shared_sources"]


def read_yaml(text: str) -> Any:
    """What a YAML text says, by the safe loader (the quick one where it is built in).

    Raises:
        yaml.YAMLError: It is no YAML.
    """
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def shared_sources() -> dict[str, str]:
    """Key → source, for every file of an object: ``data/sources.yaml``."""
    text = (files("sagehand.world.objects") / "data" / "sources.yaml").read_text(encoding="utf-8")
    return {str(key): str(value) for key, value in read_yaml(text).items()}


def is_estimate(source: str) -> bool:
    """Whether a source is nobody's measurement but an estimate of ours."""
    return source.startswith("estimate:")


def is_from_memory(source: str) -> bool:
    """Whether a source could not be looked up again, so that its value is quoted from memory."""
    return source.endswith("(from memory)")
