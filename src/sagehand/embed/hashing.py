"""A public test double: an embedder without a network, for tests and for trying the rest out offline."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sagehand.embed.base import EmbedderIdentity, EmbedderInfo, EmbedderPlugin, check_pictures, unit_rows
from sagehand.errors import InputError

__all__ = ["HashEmbedder"]

_SIDE = 8  # the picture is looked at as 8×8 mean colours
_RECIPE = f"mean-{_SIDE}x{_SIDE}-rgb,centred,sign-projection,v1"


class HashEmbedder:
    """Coarse colours of a picture under a seeded projection: quick, deterministic, and no judge of likeness.

    The picture's 8×8 mean colours are multiplied by a matrix of ±1 that is drawn from SHAKE-256 of the seed, so the
    vectors are the same on every machine and with every NumPy. Pictures that look alike from afar get vectors that lie
    close; the same pixels get equal vectors. It knows nothing of shape or components: it is for tests,
    not for a robot.

    Args:
        dimension: Length of the vectors, 2 to 4096.
        seed: Another seed, another projection (and another identity).
    """

    def __init__(self, dimension: int = 64, seed: int = 0) -> None:
        if not 2 <= dimension <= 4096:
            raise InputError(f"dimension {dimension} of the hash embedder is not within 2 … 4096")
        self._identity = EmbedderIdentity(
            name="hash",
            revision=f"v1-seed{seed}",
            dimension=dimension,
            preprocessing=hashlib.sha256(_RECIPE.encode()).hexdigest()[:12],
        )
        self._projection = _signs(dimension, seed)

    @property
    def identity(self) -> EmbedderIdentity:
        """Name "hash", the seed as the revision."""
        return self._identity

    def embed(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Embed pictures; see :meth:`sagehand.embed.Embedder.embed`."""
        check_pictures(pictures)
        if len(pictures) == 0:
            return np.zeros((0, self._identity.dimension), np.float32)
        return unit_rows(np.stack([_coarse(picture) for picture in pictures]) @ self._projection)


def _coarse(picture: NDArray[np.uint8]) -> NDArray[np.float64]:
    """(193,) mean colours of 8×8 blocks, centred on mid-grey, and a small constant: no picture becomes all zeros."""
    rows, columns = _edges(picture.shape[0]), _edges(picture.shape[1])
    blocks = np.add.reduceat(np.add.reduceat(picture, rows[0], axis=0, dtype=np.float64), columns[0], axis=1)
    means = blocks / (rows[1][:, None, None] * columns[1][None, :, None])
    # A side under 8 pixels gives fewer blocks: repeat them.
    means = means[np.arange(_SIDE) * len(means) // _SIDE][:, np.arange(_SIDE) * means.shape[1] // _SIDE]
    return np.append(means.ravel() / 127.5 - 1.0, 0.5)


def _edges(length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and sizes of at most 8 blocks over ``length`` pixels."""
    starts = np.unique(np.arange(_SIDE) * length // _SIDE)
    return starts, np.diff(np.append(starts, length))


@lru_cache(maxsize=8)
def _signs(dimension: int, seed: int) -> NDArray[np.float64]:
    """(193, d) of ±1 from SHAKE-256 of the seed."""
    count = (_SIDE * _SIDE * 3 + 1) * dimension
    stream = hashlib.shake_256(f"sagehand-hash-v1:{seed}".encode()).digest((count + 7) // 8)
    bits = np.unpackbits(np.frombuffer(stream, np.uint8))[:count]
    return (bits.astype(np.float64) * 2.0 - 1.0).reshape(-1, dimension)


def _info() -> EmbedderInfo:
    return EmbedderInfo(
        name="hash",
        identity=HashEmbedder().identity,
        source="computed (coarse colours, no network); for tests",
        licence="Apache-2.0",
        available=True,
    )


PLUGIN = EmbedderPlugin(info=_info, load=lambda threads: HashEmbedder())
