"""A CLIP or SigLIP2 network to an ONNX file that needs no torch: the quick path, for the robot's computer."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.embed.base import EmbedderIdentity
from sagehand.embed.hub import HubEmbedder
from sagehand.embed.onnx_file import FORMAT, KEY, OnnxEmbedder, data_file
from sagehand.embed.registry import get_embedder
from sagehand.errors import InputError, MissingExtra, SagehandError

__all__ = ["TOLERANCE", "Exported", "export"]

TOLERANCE = 1e-4
"""Most that a number of a vector may differ from the original's."""

_OPSET = 17
_ONE_FILE = 1_900_000_000  # bytes of weights: an ONNX file over 2 GB cannot be read
_PROBES = ((480, 640), (300, 200), (64, 64), (1, 9))


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        files: The ONNX file, and the file of its weights where they are over 2 GB.
        embedder: Name to use it by, ``onnx:FILE``.
        identity: Its identity; vectors of the original are not compared with its own.
        original: Identity of the original.
        difference: Largest difference of a number of a vector from the original's, over the pictures tried.
        bytes: Size of the files together.
    """

    files: tuple[Path, ...]
    embedder: str
    identity: EmbedderIdentity
    original: EmbedderIdentity
    difference: float
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, for JSON."""
        return {
            "files": [str(file) for file in self.files],
            "embedder": self.embedder,
            "identity": self.identity.to_dict(),
            "original": self.original.to_dict(),
            "difference": self.difference,
            "bytes": self.bytes,
        }


def export(name: str, out: Path) -> Exported:
    """Write the picture side of a network as an ONNX file, once its vectors are the original's.

    Args:
        name: A name, ``hub:ORG/NAME`` or ``dir:FOLDER`` of the CLIP or SigLIP family.
        out: The new file; nothing that is there is replaced, and nothing is written when the vectors differ.

    Raises:
        InputError: The embedder is not of these families or takes input of no fixed size, or ``out`` cannot be made.
        MissingExtra: torch, transformers or onnx is not installed.
        SagehandError: The file's vectors are not the original's within :data:`TOLERANCE`.
    """
    out = out.expanduser().absolute()
    for place in (out, data_file(out)):
        if place.exists():
            raise InputError(f"{place} is there already", hint="name another place, or remove it")
    original = get_embedder(name)
    if not isinstance(original, HubEmbedder):
        raise InputError(f"embedder {name!r} is not one that transformers loads", hint="export CLIP or SigLIP2")
    if original.recipe.how == "patches":
        raise InputError(
            f"embedder {name!r} takes pictures in their own proportions; an exported network has one fixed size",
            hint="export one of a fixed size, as siglip2-large-patch16-512",
        )
    if find_spec("onnx") is None:
        raise MissingExtra("an export to ONNX", "export")
    original.network  # noqa: B018 — loaded and tried before anything is written
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
            made = Path(scratch) / "made" / out.name
            made.parent.mkdir()
            _write(original, Path(scratch), made)
            difference = _difference(original, OnnxEmbedder(made, "made"))
            if not difference <= TOLERANCE:
                raise SagehandError(
                    f"{name} was not exported: a vector of the file differs by {difference:.1e} from the original's",
                    hint="please report it, with the versions of torch and transformers",
                )
            files = tuple(place for place in (data_file(made), made) if place.exists())
            for file in files:  # the weights first: a file without its weights is never in place
                os.replace(file, out.with_name(file.name))
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}", hint="name another place") from error
    here = tuple(out.with_name(file.name) for file in reversed(files))
    finished = OnnxEmbedder(out, f"onnx:{out}")
    return Exported(
        files=here,
        embedder=f"onnx:{out}",
        identity=finished.identity,
        original=original.identity,
        difference=difference,
        bytes=sum(file.stat().st_size for file in here),
    )


def _write(original: HubEmbedder, scratch: Path, target: Path) -> None:
    """The graph by torch's exporter, then what it says of itself."""
    import onnx

    graph = scratch / "graph" / "graph.onnx"  # a large one becomes a folder full of files here
    graph.parent.mkdir()
    _trace(original, graph)
    model = onnx.load(str(graph))
    entry = model.metadata_props.add()
    entry.key = KEY
    entry.value = json.dumps(
        {
            "format": FORMAT,
            "dimension": original.identity.dimension,
            "recipe": original.recipe.to_dict(),
            "made_from": _origin(original.identity),
        },
        sort_keys=True,
    )
    held = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    onnx.save(
        model,
        str(target),
        save_as_external_data=held > _ONE_FILE,
        all_tensors_to_one_file=True,
        location=data_file(target).name,
    )


def _origin(identity: EmbedderIdentity) -> dict[str, Any]:
    """Without a path of this machine: the same network gives the same file, and so the same identity, from anywhere."""
    told = identity.to_dict()
    return told | {"name": "a folder"} if identity.name.startswith("dir:") else told


def _trace(original: HubEmbedder, file: Path) -> None:
    import torch

    from sagehand.embed.network import pooled

    class UnitFeatures(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self, network: Any) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: Any) -> Any:
            features = pooled(self.network.get_image_features(pixel_values=pixels))
            # No eps: a row of zeros must come out as NaN and be refused, not pass as a vector.
            return features / features.norm(dim=1, keepdim=True)

    network = original.network
    pixels = torch.zeros(2, 3, original.recipe.height, original.recipe.width, device=network.device)
    with _plain_attention(network.model), _told_apart(original), warnings.catch_warnings(), torch.no_grad():
        # The exporter's own notes; what it made is held against the original afterwards.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            UnitFeatures(network.model).eval(),
            (pixels,),
            str(file),
            input_names=["pixels"],
            output_names=["vector"],
            dynamic_axes={"pixels": {0: "n"}, "vector": {0: "n"}},
            opset_version=_OPSET,
            dynamo=False,  # the newer exporter always writes the weights to a second file
        )


@contextlib.contextmanager
def _plain_attention(model: Any) -> Iterator[None]:
    """Attention in plain operations while tracing: the fused ones pick a path by the shapes that they see."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextlib.contextmanager
def _told_apart(original: HubEmbedder) -> Iterator[None]:
    """What goes wrong inside torch's exporter, in one line; its errors have no common root."""
    try:
        yield
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise SagehandError(
            f"{original.identity.name} cannot be exported: {type(error).__name__}: {first}",
            hint="please report it, with the versions of torch and transformers",
        ) from error


def _difference(original: HubEmbedder, made: OnnxEmbedder) -> float:
    """Largest difference of a number over random pictures of several sizes, in one batch and alone."""
    rng = np.random.default_rng(0)
    pictures: list[NDArray[np.uint8]] = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in _PROBES]
    truth = original.embed(pictures)
    alone = np.concatenate([made.embed([picture]) for picture in pictures])
    return float(max(np.abs(truth - made.embed(pictures)).max(), np.abs(truth - alone).max()))
