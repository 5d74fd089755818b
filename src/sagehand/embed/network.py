"""The torch side of CLIP and SigLIP: a network from a folder, pictures and texts through it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.embed.weights import weight_files
from sagehand.errors import InputError, MissingExtra

__all__ = ["Network", "missing_packages", "pooled", "quiet_loading"]

_SIGLIP_WORDS = 64  # SigLIP and SigLIP2 were trained on texts padded to this length, and on no other
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json")
_loading = threading.Lock()


def missing_packages() -> list[str]:
    """Those of torch, transformers and safetensors that are not installed."""
    return [name for name in ("torch", "transformers", "safetensors") if find_spec(name) is None]


def pooled(output: Any) -> Any:
    """The pooled vectors of what ``get_image_features`` or ``get_text_features`` returned.

    Transformers up to 4 returns the tensor itself, from 5 on an object that holds it.

    Raises:
        InputError: It holds none.
    """
    found = output if hasattr(output, "detach") else getattr(output, "pooler_output", None)
    if found is None or not hasattr(found, "detach"):
        raise InputError(f"the network returned a {type(output).__name__} without pooled vectors: no picture embedder")
    return found


class Network:
    """A CLIP or SigLIP network in memory, in float32; several threads may use it at once.

    Args:
        folder: Where its files are. Nothing else is looked at, and nothing is downloaded.
        family: "clip", "siglip" or "siglip2".
        words: Length that texts are padded to, at most what the network takes.
        threads: Threads for one call; None for torch's own choice.

    Raises:
        MissingExtra: A package is not installed.
        InputError: The files are no such network, or are not whole.
    """

    def __init__(self, folder: Path, family: str, *, words: int, threads: int | None = None) -> None:
        if missing_packages():
            raise MissingExtra(f"a network from {folder.name}", "torch")
        import torch

        self._torch, self._folder, self._family = torch, folder, family
        self._words = min(words, _SIGLIP_WORDS) if family != "clip" else words
        self._threads = threads or torch.get_num_threads()
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        with _loading:  # the library's loading changes settings of the process
            self.model = _load_model(folder).to(self.device)
        self._tokenizer: Any = None
        self._reading = threading.Lock()  # a tokenizer keeps the padding of its last call

    def pictures(self, batch: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """(n, d) pooled features of an input that :meth:`sagehand.embed.recipe.Recipe.batch` made."""
        return self._run(self.model.get_image_features, batch)

    def texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) pooled features of texts, each padded to the full length: alone and in a batch they are the same."""
        with self._reading:
            if self._tokenizer is None:
                self._tokenizer = _load_tokenizer(self._folder)
            tokens = self._tokenizer(
                [text.lower() for text in texts],  # all of them were trained on lower case; not every file says so
                padding="max_length",
                max_length=self._words,
                truncation=True,
                padding_side="right",
                return_tensors="np",
            )
        # SigLIP saw its padding in training: no mask.
        names = ("input_ids", "attention_mask") if self._family == "clip" else ("input_ids",)
        return self._run(self.model.get_text_features, {name: tokens[name].astype(np.int64) for name in names})

    def _run(self, features: Any, batch: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        torch = self._torch
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        with torch.inference_mode():
            tensors = {name: torch.from_numpy(array).to(self.device) for name, array in batch.items()}
            vectors = pooled(features(**tensors)).detach()
        out: NDArray[np.float32] = vectors.to("cpu", torch.float32).numpy()
        return out


def _load_model(folder: Path) -> Any:
    import torch
    from transformers import AutoModel

    files = weight_files(folder)
    if not files:
        raise InputError(f"{folder} has no weights", hint="there must be a model.safetensors (or pytorch_model.bin)")
    try:
        with quiet_loading():
            model, report = AutoModel.from_pretrained(
                str(folder),
                local_files_only=True,
                use_safetensors=files[0].suffix == ".safetensors",
                dtype=torch.float32,
                output_loading_info=True,
            )
    except Exception as error:  # the library has no tree of errors of its own
        raise _unusable(folder, "the network", error) from error
    if report["missing_keys"]:  # the library would go on with random numbers in their place
        names = sorted(report["missing_keys"])
        raise InputError(f"{folder}: {len(names)} weights are missing from {files[0].name}, the first is {names[0]}")
    return model.eval()


def _load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    if not any((folder / name).is_file() for name in _TOKENIZERS):  # the library would make one without words
        raise InputError(f"{folder} has no tokenizer for texts", hint=f"one of {', '.join(_TOKENIZERS)} must be there")
    try:
        with _loading, quiet_loading():
            return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise _unusable(folder, "the tokenizer for texts", error) from error


def _unusable(folder: Path, what: str, error: Exception) -> InputError:
    first = (str(error).strip().splitlines() or [""])[0]
    return InputError(
        f"{folder}: {what} cannot be loaded: {type(error).__name__}: {first}",
        hint="the folder must be a whole one, as transformers saves it",
    )


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Without the library's bars and advice on stderr; as it was, afterwards."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
