"""An exported network as an embedder: ``onnx:FILE``, without torch."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sagehand.embed import weights
from sagehand.embed.base import EmbedderIdentity, EmbedderInfo, EmbedderPlugin, check_pictures, unit_rows
from sagehand.embed.recipe import Recipe
from sagehand.embed.session import default_threads, open_session
from sagehand.errors import InputError

__all__ = ["FORMAT", "KEY", "OnnxEmbedder", "by_file", "data_file"]

KEY = "sagehand"
"""Entry of the ONNX file's metadata that holds the recipe and where the network came from, as JSON."""

FORMAT = 1
_BATCH = 8
_METADATA, _KEY, _VALUE = 14, 1, 2  # field numbers of onnx.proto: ModelProto.metadata_props, its key and its value


class OnnxEmbedder:
    """A network that ``sagehand embedders export`` wrote.

    Args:
        file: The ONNX file; a file of its name with ``.data`` added holds the weights of a large one.
        name: Its name in the identity.
        threads: Threads for one call; by default as many as this process may use, at most 4.

    Raises:
        InputError: The file is not one of ours, or is a later version's.
    """

    def __init__(self, file: Path, name: str, *, threads: int | None = None) -> None:
        told = _told(file)
        self.file, self.recipe = file, Recipe.from_dict(told["recipe"])
        self._threads = threads or default_threads()
        self._lock = threading.Lock()
        self._session: Any = None
        self._identity = EmbedderIdentity(name, _revision(file), told["dimension"], self.recipe.digest)

    @property
    def identity(self) -> EmbedderIdentity:
        """Weights by the digest of the file, preprocessing by the digest of the recipe in it."""
        return self._identity

    def embed(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Embed pictures; see :meth:`sagehand.embed.Embedder.embed`."""
        check_pictures(pictures)
        if len(pictures) == 0:
            return np.zeros((0, self._identity.dimension), np.float32)
        session, parts = self._open(), []
        for start in range(0, len(pictures), _BATCH):
            pixels = self.recipe.batch(pictures[start : start + _BATCH])["pixel_values"]
            parts.append(session.run(None, {"pixels": pixels})[0])
        return unit_rows(np.concatenate(parts))

    def _open(self) -> Any:
        with self._lock:
            if self._session is None:
                weights.check_unchanged(self.file, self._identity.revision, _revision(self.file))
                try:
                    session = open_session(self.file, self._threads)
                except Exception as error:  # the runtime's errors have no common root
                    first = (str(error).strip().splitlines() or [""])[0]
                    raise InputError(f"{self.file} cannot be loaded: {first}", hint="export it anew") from error
                shape = session.get_outputs()[0].shape
                if shape[1:] != [self._identity.dimension]:
                    raise InputError(
                        f"{self.file}: vectors have the shape {shape}, not (n, {self._identity.dimension})"
                    )
                self._session = session
            return self._session


def by_file(file: str) -> EmbedderPlugin:
    """The plug-in of ``onnx:FILE``; its name is the full path, so that a case base can name it from anywhere."""
    path = Path(file).expanduser().absolute()
    name = f"onnx:{path}"

    def load(threads: int | None) -> OnnxEmbedder:
        return OnnxEmbedder(weights.find_path(str(path), "ONNX file"), name, threads=threads)

    return EmbedderPlugin(info=lambda: EmbedderInfo(name, None, str(path), "see its source", available=True), load=load)


def data_file(file: Path) -> Path:
    """Where the weights of a network over 2 GB lie, beside its file."""
    return file.with_name(file.name + ".data")


def _revision(file: Path) -> str:
    digests = [weights.content_sha256(part) for part in (file, data_file(file)) if part.exists()]
    return (digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest())[:12]


def _told(file: Path) -> dict[str, Any]:
    """What the file says of itself."""
    hint = "make one with `sagehand embedders export NAME --out FILE`"
    try:
        entries = dict(_metadata(file))
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError) as error:
        raise InputError(f"{file} is no ONNX file: {error}", hint=hint) from error
    if KEY not in entries:
        raise InputError(f"{file} does not say how its input is made", hint=hint)
    try:
        told: dict[str, Any] = json.loads(entries[KEY])
        number = told["format"]
        if number == FORMAT:
            return {"dimension": told["dimension"], "recipe": told["recipe"]}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} cannot be read: its metadata is damaged", hint=hint) from error
    raise InputError(
        f"{file} is of the format {number}; this sagehand reads {FORMAT}", hint="update sagehand, or " + hint
    )


def _metadata(file: Path) -> Iterator[tuple[str, str]]:
    """The entries of ModelProto.metadata_props. Only the outermost fields are walked: the graph is skipped unread."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        while stream.tell() < size:
            field, payload = _field(stream, size, wanted=_METADATA)
            if field == _METADATA and payload is not None:
                yield _entry(payload)


def _entry(payload: bytes) -> tuple[str, str]:
    import io

    found, stream = {_KEY: b"", _VALUE: b""}, io.BytesIO(payload)
    while stream.tell() < len(payload):
        field, inner = _field(stream, len(payload), wanted=None)
        found[field] = inner or b""
    return found[_KEY].decode(), found[_VALUE].decode()


def _field(stream: BinaryIO, size: int, *, wanted: int | None) -> tuple[int, bytes | None]:
    """The next field of a protocol buffer: its number, and its bytes where it is wanted (None: every one)."""
    tag = _varint(stream)
    number, kind = tag >> 3, tag & 7
    if number == 0 or kind not in (0, 1, 2, 5):
        raise ValueError(f"a field of kind {kind} at byte {stream.tell()}")
    if kind == 0:
        _varint(stream)
        return number, None
    length = _varint(stream) if kind == 2 else {1: 8, 5: 4}[kind]
    if stream.tell() + length > size:
        raise ValueError("it ends too early")
    if kind == 2 and wanted in (None, number):
        return number, stream.read(length)
    stream.seek(length, 1)
    return number, None


def _varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            raise ValueError("it ends too early")
        value |= (byte[0] & 0x7F) << shift
        if not byte[0] & 0x80:
            return value
    raise ValueError("a number without an end")
