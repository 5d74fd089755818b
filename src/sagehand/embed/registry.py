"""Embedders by name. Built-in ones and plug-ins are entry points of the group ``sagehand.embedders``."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from sagehand.embed.base import Embedder, EmbedderInfo, EmbedderPlugin
from sagehand.errors import InputError, UnknownName

__all__ = ["DEFAULT_EMBEDDER", "GROUP", "get_embedder", "list_embedders"]

GROUP = "sagehand.embedders"
"""Entry-point group of plug-ins; each entry point holds an :class:`~sagehand.embed.EmbedderPlugin`."""

DEFAULT_EMBEDDER = "efficientnet-lite0"
"""Name of the embedder that is used when none is named."""

# Written here and not in the package's metadata: they work from a source tree, and asking for one of them does not
# read the metadata of everything that is installed.
_BUILT_IN = {
    point.name: point
    for point in (
        EntryPoint("efficientnet-lite0", "sagehand.embed.packaged:PLUGIN", GROUP),
        EntryPoint("hash", "sagehand.embed.hashing:PLUGIN", GROUP),
        EntryPoint("clip-vit-base-patch32", "sagehand.embed.hub:CLIP_B32", GROUP),
        EntryPoint("clip-vit-large-patch14", "sagehand.embed.hub:CLIP_L14", GROUP),
        EntryPoint("clip-vit-large-patch14-336", "sagehand.embed.hub:CLIP_L14_336", GROUP),
        EntryPoint("laion-clip-vit-huge-patch14", "sagehand.embed.hub:LAION_H14", GROUP),
        EntryPoint("siglip2-large-patch16-512", "sagehand.embed.hub:SIGLIP2_L512", GROUP),
    )
}

# What stands before the colon of a name that says where the network is; each makes a plug-in from the rest.
_PLACES = {
    "hub": EntryPoint("hub", "sagehand.embed.hub:by_id", GROUP),
    "dir": EntryPoint("dir", "sagehand.embed.hub:by_folder", GROUP),
    "onnx": EntryPoint("onnx", "sagehand.embed.onnx_file:by_file", GROUP),
}


def get_embedder(name: str = DEFAULT_EMBEDDER, *, threads: int | None = None) -> Embedder:
    """The embedder of that name.

    Args:
        name: A name from :func:`list_embedders`; or where the network is: ``hub:ORG/NAME`` (with ``@REVISION``),
            ``dir:FOLDER`` for one that transformers saved, ``onnx:FILE`` for an exported one.
        threads: Threads that one call may use; None leaves it to the embedder.

    Returns:
        A new embedder. Weights may be loaded here or at the first :meth:`~sagehand.embed.Embedder.embed`.

    Raises:
        UnknownName: No such embedder; lists those that there are.
        InputError: It cannot be used on this installation (says why), or ``threads`` is below 1.
    """
    if threads is not None and threads < 1:
        raise InputError(f"threads is {threads}, not a whole number above 0", hint="leave it out for the default")
    place, colon, rest = name.partition(":")
    if colon and place in _PLACES:
        if not rest:
            raise InputError(f"embedder {name!r} names nothing", hint="hub:ORG/NAME, dir:FOLDER or onnx:FILE")
        by_place: Callable[[str], EmbedderPlugin] = _PLACES[place].load()
        return by_place(rest).load(threads)
    point = _BUILT_IN.get(name) or _plugins().get(name)
    if point is None:
        others = "or by place: hub:ORG/NAME, dir:FOLDER, onnx:FILE"
        raise UnknownName("embedder", name, _BUILT_IN.keys() | _plugins().keys(), hint=others)
    try:
        plugin = _load(point)
    except Exception as error:
        raise InputError(
            f"embedder {name!r} cannot be loaded from {point.value}: {type(error).__name__}: {error}",
            hint="mend or uninstall the package that offers it",
        ) from error
    info = plugin.info()
    if not info.available:
        raise InputError(f"embedder {name!r} is not available: {info.why_not}")
    return plugin.load(threads)


def list_embedders() -> list[EmbedderInfo]:
    """All embedders of this installation, built-in ones first, without loading weights.

    A plug-in that cannot be loaded is listed as not available, with the reason.
    """
    infos = [_load(point).info() for point in _BUILT_IN.values()]
    for name, point in sorted(_plugins().items()):
        try:
            infos.append(_load(point).info())
        except Exception as error:  # a stranger's code; what it raised goes into the list
            why = f"{type(error).__name__}: {error}"
            infos.append(EmbedderInfo(name, None, source=point.value, licence="", available=False, why_not=why))
    return infos


def _plugins() -> dict[str, EntryPoint]:
    """Plug-ins by name, without those that take the name of a built-in embedder."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in _BUILT_IN}


def _load(point: EntryPoint) -> EmbedderPlugin:
    plugin = point.load()
    if not isinstance(plugin, EmbedderPlugin):
        raise InputError(f"entry point {point.value} holds a {type(plugin).__name__}, not an EmbedderPlugin")
    return plugin
