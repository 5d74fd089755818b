"""CLIP and SigLIP2 by name, by hub id, or from a folder, through ``transformers``."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.embed import weights
from sagehand.embed.base import EmbedderIdentity, EmbedderInfo, EmbedderPlugin, check_pictures, unit_rows
from sagehand.embed.network import Network, missing_packages
from sagehand.embed.recipe import FAMILIES, Recipe
from sagehand.errors import InputError, MissingExtra

__all__ = ["NAMED", "HubEmbedder", "by_folder", "by_id"]

_BATCH = {"cpu": 8, "cuda": 32}


@dataclass(frozen=True, slots=True)
class _Published:
    """A network that goes by a name of its own."""

    name: str
    repository: str
    licence: str
    gigabytes: float


NAMED = {
    p.name: p
    for p in (
        _Published("clip-vit-base-patch32", "openai/clip-vit-base-patch32", "MIT", 0.6),
        _Published("clip-vit-large-patch14", "openai/clip-vit-large-patch14", "MIT", 1.7),
        _Published("clip-vit-large-patch14-336", "openai/clip-vit-large-patch14-336", "MIT", 1.7),
        _Published("laion-clip-vit-huge-patch14", "laion/CLIP-ViT-H-14-laion2B-s32B-b79K", "MIT", 3.9),
        _Published("siglip2-large-patch16-512", "google/siglip2-large-patch16-512", "Apache-2.0", 3.5),
    )
}
"""The networks of SPEC A4 by name: hub id, licence of the weights, size of the download [GB]."""


class HubEmbedder:
    """Pooled features of a CLIP or SigLIP network, at unit length; texts into the same space.

    The pictures' input is made by the network's own recipe. CLIP's cuts the middle square out of a picture and does not
    see what is left and right of it; SigLIP2's stretches the whole picture. Torch and the weights are loaded at the
    first call (several seconds), once, whichever thread comes first; on a GPU where torch has one.

    Args:
        folder: The network's folder, as ``transformers`` saves it and the hub's cache keeps it.
        name: Its name in the identity.
        threads: Threads for one call; None for torch's own choice.

    Raises:
        InputError: The folder is no network of these families, or not whole.
    """

    def __init__(self, folder: Path, name: str, *, threads: int | None = None) -> None:
        config = weights.read_json(folder / "config.json")
        family = config.get("model_type")
        if family not in FAMILIES:
            raise InputError(
                f"{folder} holds a network of the family {family!r}; usable: {', '.join(FAMILIES)}",
                hint="a plug-in can offer another one: see docs/embedders.md",
            )
        self.folder, self.family = folder, str(family)
        self.recipe = Recipe.from_config(self.family, weights.processor_config(folder))
        words = (config.get("text_config") or {}).get("max_position_embeddings")
        self._words, self._threads = int(words or (77 if family == "clip" else 64)), threads
        self._lock = threading.Lock()
        self._network: Network | None = None
        self._identity = EmbedderIdentity(
            name, weights.revision_of(folder), _dimension(self.family, config), self.recipe.digest
        )

    @property
    def identity(self) -> EmbedderIdentity:
        """Weights and configuration by the digest of their content, preprocessing by the digest of the recipe."""
        return self._identity

    @property
    def network(self) -> Network:
        """The network; loaded when first asked for, and tried on one picture.

        Raises:
            MissingExtra: torch, transformers or safetensors is not installed.
            InputError: It cannot be loaded, or its vectors do not have the dimension that its configuration says.
        """
        with self._lock:
            if self._network is None:
                revision = weights.revision_of(self.folder)
                weights.check_unchanged(self.folder, self._identity.revision, revision)
                network = Network(self.folder, self.family, words=self._words, threads=self._threads)
                try:
                    tried = network.pictures(self.recipe.batch([np.zeros((8, 8, 3), np.uint8)])).shape
                except (ValueError, RuntimeError, TypeError) as error:
                    raise InputError(f"{self.folder}: the network refuses its own kind of input: {error}") from error
                if tried != (1, self._identity.dimension):
                    raise InputError(
                        f"{self.folder}: the network's vectors have the shape {tried}, not (1, {self._identity.dimension})",
                        hint="config.json and weights do not belong together",
                    )
                self._network = network
            return self._network

    def embed(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Embed pictures; see :meth:`sagehand.embed.Embedder.embed`.

        A vector does not depend on what else is in the list, up to the rounding of float32.
        """
        check_pictures(pictures)
        if len(pictures) == 0:
            return np.zeros((0, self._identity.dimension), np.float32)
        network, step = self.network, _BATCH[self.network.device]
        batches = (pictures[start : start + step] for start in range(0, len(pictures), step))
        return unit_rows(np.concatenate([network.pictures(self.recipe.batch(batch)) for batch in batches]))

    def embed_text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts into the pictures' space.

        Args:
            texts: Any length; what is over the network's (77 tokens for CLIP, 64 for SigLIP) is cut off.

        Returns:
            (n, d) unit rows. A text's vector does not depend on the others, up to the rounding of float32.

        Raises:
            InputError: Something is no text, or the network has no tokenizer.
        """
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"text {i} is a {type(text).__name__}, not a text")
        if isinstance(texts, str):
            raise InputError("embed_text was handed one text, not a list of texts", hint="[text]")
        if len(texts) == 0:
            return np.zeros((0, self._identity.dimension), np.float32)
        network, size = self.network, _BATCH["cuda"]
        parts = [network.texts(texts[start : start + size]) for start in range(0, len(texts), size)]
        vectors = np.concatenate(parts)
        if vectors.shape[1] != self._identity.dimension:
            raise InputError(
                f"{self.folder}: texts have {vectors.shape[1]} numbers and pictures {self._identity.dimension}"
            )
        return unit_rows(vectors)


def by_id(repository: str) -> EmbedderPlugin:
    """The plug-in of ``hub:ORG/NAME`` or ``hub:ORG/NAME@REVISION``.

    Raises:
        InputError: It is no hub id.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", repository):
        raise InputError(f"embedder 'hub:{repository}' is no hub id", hint="as in hub:openai/clip-vit-base-patch32")
    for published in NAMED.values():
        if published.repository == repository:
            return _plugin(published)
    return _plugin(_Published(f"hub:{repository}", repository, "see the hub", 0.0))


def by_folder(folder: str) -> EmbedderPlugin:
    """The plug-in of ``dir:FOLDER``; its name is the full path, so that a case base can name it from anywhere."""
    path = Path(folder).expanduser().absolute()
    name = f"dir:{path}"

    def load(threads: int | None) -> HubEmbedder:
        if missing_packages():
            raise MissingExtra(f"embedder {name!r}", "torch")
        return HubEmbedder(weights.find_path(str(path), "folder"), name, threads=threads)

    return EmbedderPlugin(info=lambda: EmbedderInfo(name, None, str(path), "see the folder", available=True), load=load)


def _plugin(published: _Published) -> EmbedderPlugin:
    return EmbedderPlugin(info=partial(_info, published), load=partial(_load, published))


def _info(published: _Published) -> EmbedderInfo:
    """Without loading or downloading anything; a copy on this machine that cannot be used says why."""
    identity, why_not = None, ""
    if missing_packages():
        why_not = f"{', '.join(missing_packages())} not installed: pip install 'sagehand[torch]'"
    else:
        try:
            folder = _folder(published, fetch=False)
            if folder is not None:
                identity = HubEmbedder(folder, published.name).identity
            elif not weights.fetch_allowed():
                why_not = _how_to_get(published)
        except InputError as error:
            why_not = str(error)
    return EmbedderInfo(
        name=published.name,
        identity=identity,
        source=f"{published.repository} on the hub",
        licence=published.licence,
        available=not why_not,
        why_not=why_not,
    )


def _load(published: _Published, threads: int | None) -> HubEmbedder:
    if missing_packages():
        raise MissingExtra(f"embedder {published.name!r}", "torch")
    folder = _folder(published, fetch=weights.fetch_allowed())
    if folder is None:
        raise InputError(f"embedder {published.name!r} is not available: {_how_to_get(published)}")
    return HubEmbedder(folder, published.name, threads=threads)


def _folder(published: _Published, *, fetch: bool) -> Path | None:
    repository, _, revision = published.repository.partition("@")
    return weights.hub_folder(repository, revision or None, fetch=fetch)


def _how_to_get(published: _Published) -> str:
    repository, _, revision = published.repository.partition("@")
    command = f"hf download {repository}" + (f" --revision {revision}" if revision else "")
    size = f" ({published.gigabytes} GB)" if published.gigabytes else ""
    return f"not on this machine{size}: `{command}`, or set SAGEHAND_ALLOW_DOWNLOAD=1 (and no HF_HUB_OFFLINE)"


def _dimension(family: str, config: dict[str, Any]) -> int:
    """Length of the vectors, as the configuration says."""
    if family == "clip":
        return int(config.get("projection_dim") or 512)
    return int((config.get("vision_config") or {}).get("hidden_size") or 768)


CLIP_B32, CLIP_L14, CLIP_L14_336, LAION_H14, SIGLIP2_L512 = (_plugin(published) for published in NAMED.values())
