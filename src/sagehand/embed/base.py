"""What an embedder is: pictures in, unit vectors out, and a name that says which vectors belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import BadVector, InputError

__all__ = ["Embedder", "EmbedderIdentity", "EmbedderInfo", "EmbedderPlugin", "check_pictures", "unit_rows"]


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """Which vectors may be compared: those of equal identity, and no others.

    Two networks of the same dimension give vectors that can be multiplied and mean nothing, so a case base keeps the
    whole identity, not the dimension alone.

    Attributes:
        name: Name under which :func:`~sagehand.embed.get_embedder` finds it, as in "efficientnet-lite0".
        revision: What tells one set of weights from another: a digest of the weights' file, or a version.
        dimension: Length of a vector.
        preprocessing: Short digest of the recipe that turns a picture into the network's input.
    """

    name: str
    revision: str
    dimension: int
    preprocessing: str

    def __post_init__(self) -> None:
        for field in ("name", "revision", "preprocessing"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value:
                raise InputError(f"embedder identity: {field} is {value!r}, not a text")
        if not isinstance(self.dimension, int) or isinstance(self.dimension, bool) or self.dimension < 1:
            raise InputError(f"embedder identity: dimension is {self.dimension!r}, not a whole number above 0")

    def to_dict(self) -> dict[str, Any]:
        """The identity as plain data, for JSON."""
        return {
            "name": self.name,
            "revision": self.revision,
            "dimension": self.dimension,
            "preprocessing": self.preprocessing,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EmbedderIdentity:
        """The identity that :meth:`to_dict` wrote; keys that are not known are left aside.

        Raises:
            InputError: A key is missing, or a value has the wrong type.
        """
        fields = ("name", "revision", "dimension", "preprocessing")
        missing = [field for field in fields if field not in data]
        if missing:
            raise InputError(
                f"embedder identity: no {', '.join(missing)}; found: {', '.join(map(str, data)) or 'nothing'}"
            )
        return cls(**{field: data[field] for field in fields})

    def __str__(self) -> str:
        return f"{self.name}@{self.revision[:8]} ({self.dimension}-d)"


@runtime_checkable
class Embedder(Protocol):
    """Turns pictures into unit vectors; the same picture always into the same vector."""

    @property
    def identity(self) -> EmbedderIdentity:
        """Which vectors these are; known without loading weights."""

    def embed(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Embed pictures.

        Args:
            pictures: Each (H, W, 3) RGB, of any size.

        Returns:
            (n, d) rows of unit length, always finite; (0, d) for no pictures.

        Raises:
            InputError: An array is no (H, W, 3) uint8 picture.
            BadVector: A row came out without length or not finite.
        """


@dataclass(frozen=True, slots=True)
class EmbedderInfo:
    """One line of the list of embedders.

    Attributes:
        name: Name to ask for.
        identity: Its identity, found without loading weights; None when the plug-in could not be asked.
        source: Where network and weights come from.
        licence: Licence of the weights.
        available: Whether it can be used on this installation.
        why_not: What is missing when it is not available, else "".
    """

    name: str
    identity: EmbedderIdentity | None
    source: str
    licence: str
    available: bool
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class EmbedderPlugin:
    """What an entry point of the group ``sagehand.embedders`` holds; the built-in embedders are such objects too.

    Attributes:
        info: Tells about the embedder without loading weights.
        load: Makes the embedder; its argument is the number of threads, or None for the embedder's own choice.
    """

    info: Callable[[], EmbedderInfo]
    load: Callable[[int | None], Embedder]


def check_pictures(pictures: Sequence[NDArray[np.uint8]]) -> None:
    """Refuse what is no (H, W, 3) uint8 picture with at least one pixel.

    Raises:
        InputError: Names the position, the shape and the type of the first bad one.
    """
    for i, picture in enumerate(pictures):
        if not isinstance(picture, np.ndarray):
            raise InputError(
                f"picture {i} is a {type(picture).__name__}, not an array", hint="hand over picture.pixels in a list"
            )
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or picture.size == 0:
            raise InputError(
                f"picture {i} is {picture.dtype} of shape {picture.shape}, not uint8 of shape (H, W, 3)",
                hint="sagehand.picture.load() makes one of any image",
            )


def unit_rows(array: NDArray[Any]) -> NDArray[np.float32]:
    """Rows of unit length.

    The norm is taken in float64, after a division by the row's largest value, so that neither very large nor very
    small numbers overflow or vanish.

    Args:
        array: (n, d) numbers.

    Returns:
        (n, d) float32; each row's length is 1 within 1e-6.

    Raises:
        BadVector: The array is not two-dimensional, or a row is not finite or has no length; names the first such row.
    """
    rows = np.asarray(array, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise BadVector(f"vectors have the shape {rows.shape}, not (n, d)")
    if len(rows) == 0:
        return np.zeros(rows.shape, np.float32)
    largest = np.abs(rows).max(axis=1)
    bad = np.flatnonzero(~(np.isfinite(largest) & (largest > 0)))
    if bad.size:
        row = int(bad[0])
        what = "has no length (all zeros)" if largest[row] == 0 else "is not finite"
        raise BadVector(
            f"vector {row} of {len(rows)} {what}", hint="it cannot be compared with others; nothing was kept"
        )
    scaled = rows / largest[:, None]
    unit: NDArray[np.float64] = scaled / np.sqrt(np.einsum("nd,nd->n", scaled, scaled))[:, None]
    return unit.astype(np.float32)
