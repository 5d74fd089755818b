"""Sources that the objects' constants name, and which of them are estimates."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sagehand.world.data_file import parse_yaml

__all__ = ["is_estimate", "is_from_memory", "shared_sources"]


@cache
def shared_sources() -> dict[str, str]:
    """Key → source, for every file of an object: ``data/sources.yaml``."""
    text = (files("sagehand.world.objects") / "data" / "sources.yaml").read_text(encoding="utf-8")
    return {str(key): str(value) for key, value in parse_yaml(text, "sources.yaml").items()}


def is_estimate(source: str) -> bool:
    """Whether a source is nobody's measurement but an estimate of ours."""
    return source.startswith("estimate:")


def is_from_memory(source: str) -> bool:
    """Whether a source could not be looked up again, so that its value is quoted from memory."""
    return source.endswith("(from memory)")
