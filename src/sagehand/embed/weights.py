"""Where a published network's files are, and what tells one set of weights from another. Nothing is fetched unasked."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sagehand.errors import InputError, MissingExtra

__all__ = [
    "check_unchanged",
    "content_sha256",
    "fetch_allowed",
    "find_path",
    "hub_folder",
    "processor_config",
    "read_json",
    "revision_of",
    "weight_files",
]

_SMALL = ["*.json", "*.txt", "*.model"]
_SAFE = ["model.safetensors", "model-*.safetensors"]
_PICKLED = ["pytorch_model.bin", "pytorch_model-*.bin"]
# What a later version of a library writes anew without a change to the network.
_NOT_THE_NETWORK = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"}


def find_path(name: str, what: str) -> Path:
    """A file or folder by its path, or by its last part in the folder of the setting ``models``.

    A case base names its embedder by the full path. On another machine the same weights lie elsewhere: they are
    looked for in ``models`` then, and the digest of their content says whether they are the same.

    Raises:
        InputError: It is at neither place.
    """
    path = Path(name)
    if path.exists():
        return path
    from sagehand.settings import load_settings

    models = load_settings().settings.models
    if models is not None and (models / path.name).exists():
        return models / path.name
    where = f" nor in {models}" if models is not None else ""
    hint = "mend the path" if models is not None else "mend the path, or set `models` to the folder that it lies in"
    raise InputError(f"there is no {what} at {path}{where}", hint=hint)


def fetch_allowed() -> bool:
    """Whether a network may be downloaded: the setting ``allow_download``, and the hub's client not set offline."""
    from huggingface_hub import is_offline_mode

    from sagehand.settings import load_settings

    return load_settings().settings.allow_download and not is_offline_mode()


def hub_folder(repository: str, revision: str | None = None, *, fetch: bool = False) -> Path | None:
    """The folder of a network in the hub's cache on this machine.

    Args:
        repository: As in "openai/clip-vit-base-patch32".
        revision: A branch, tag or commit; None for the main branch.
        fetch: Download what is missing. Weights as safetensors where there are any.

    Returns:
        The folder; None when the network is not here, or its weights are not.

    Raises:
        InputError: Only parts of the weights are here, the cache cannot be read, or the download failed.
        MissingExtra: huggingface_hub is not installed.
    """
    if find_spec("huggingface_hub") is None:
        raise MissingExtra(f"the network {repository}", "torch")
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    def snapshot(patterns: Sequence[str], local: bool) -> Path:
        found = snapshot_download(repository, revision=revision, allow_patterns=list(patterns), local_files_only=local)
        return Path(found)

    try:
        folder = snapshot([*_SMALL, *_SAFE, *_PICKLED], local=True)
        if weight_files(folder):
            return folder
    except FileNotFoundError:
        pass
    except InputError as error:  # a download that was broken off
        if not fetch:
            raise InputError(error.message, hint=f"`hf download {repository}` fetches the rest") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{repository} cannot be looked up in the hub's cache: {error}") from error
    if not fetch:
        return None
    try:
        if not sys.stderr.isatty():
            disable_progress_bars()
        folder = snapshot([*_SMALL, *_SAFE], local=False)
        return folder if weight_files(folder) else snapshot([*_SMALL, *_PICKLED], local=False)
    except Exception as error:  # the client has many kinds: no network, no such repository, a gate, a full disk
        why = str(error).strip().splitlines()[:1]
        raise InputError(
            f"{repository} cannot be downloaded: {type(error).__name__}: {' '.join(why)}",
            hint="fetch it elsewhere and name its folder: dir:FOLDER",
        ) from error


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights, safetensors before pickled ones; none where there are none.

    Raises:
        InputError: A list of parts names one that is not there.
    """
    for whole, parts in (
        ("model.safetensors", "model.safetensors.index.json"),
        ("pytorch_model.bin", "pytorch_model.bin.index.json"),
    ):
        if (folder / whole).is_file():
            return [folder / whole]
        if (folder / parts).is_file():
            files = [folder / name for name in sorted(set(read_json(folder / parts).get("weight_map", {}).values()))]
            missing = [file.name for file in files if not file.is_file()]
            if missing:
                raise InputError(f"{folder}: parts of the weights are missing: {', '.join(missing)}")
            if files:
                return files
    return []


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file.

    Raises:
        InputError: There is none.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{path.parent} has no {path.name}", hint="it must be a network's folder as transformers saves it"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"{path} holds a {type(data).__name__}, not an object")
    return data


def processor_config(folder: Path) -> dict[str, Any]:
    """What the network's processor of pictures is told, from the file of either layout.

    Raises:
        InputError: There is none: how a network wants its pictures is not guessed.
    """
    whole = folder / "processor_config.json"
    if whole.is_file():
        inner = read_json(whole).get("image_processor")
        if isinstance(inner, dict):
            return inner
    return read_json(folder / "preprocessor_config.json")


def revision_of(folder: Path) -> str:
    """Twelve hex digits of a digest over the network's configuration and the whole content of its weights.

    The commit of a hub's snapshot is not taken: it changes with a word in a README. In the hub's cache a
    file of weights is a link to one that is named by its sha256, which is then taken as read; else the file is read.

    Raises:
        InputError: No configuration or no weights.
    """
    files = weight_files(folder)
    if not files:
        raise InputError(f"{folder} has no weights", hint="there must be a model.safetensors (or pytorch_model.bin)")
    config = {k: v for k, v in read_json(folder / "config.json").items() if k not in _NOT_THE_NETWORK}
    whole = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for file in files:
        whole.update(content_sha256(file).encode())
    return whole.hexdigest()[:12]


def check_unchanged(place: Path, expected: str, found: str) -> None:
    """Refuse weights that were replaced between the naming of their identity and their loading.

    Raises:
        InputError: ``found`` is another revision than ``expected``.
    """
    if found != expected:
        raise InputError(
            f"{place} was changed while it was in use: revision {found}, not {expected}", hint="start anew"
        )


def content_sha256(file: Path) -> str:
    """The sha256 of a file's content; read once while its size and time of change stay."""
    real = Path(os.path.realpath(file))
    if real.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", real.name):
        return real.name
    stat = real.stat()
    return _read_sha256(str(real), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _read_sha256(path: str, size: int, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
