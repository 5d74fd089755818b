"""Pictures to unit vectors: the packaged network, plug-ins, a test double; and depth images to a vector of relief."""

from sagehand.embed.base import Embedder, EmbedderIdentity, EmbedderInfo, EmbedderPlugin, unit_rows
from sagehand.embed.depth import depth_vector
from sagehand.embed.hashing import HashEmbedder
from sagehand.embed.registry import DEFAULT_EMBEDDER, get_embedder, list_embedders

__all__ = [
    "DEFAULT_EMBEDDER",
    "Embedder",
    "EmbedderIdentity",
    "EmbedderInfo",
    "EmbedderPlugin",
    "HashEmbedder",
    "depth_vector",
    "get_embedder",
    "list_embedders",
    "unit_rows",
]
