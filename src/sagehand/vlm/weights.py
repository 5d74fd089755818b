"""Weights on disk, made ready to answer: model, tokenizer and image processor of the Qwen-VL family, and their profile.

The parts are put together here and not by the family's own processor class: that one wants torchvision, for videos that we
never send. Only ``.safetensors`` are read, never pickles, and no code that came with the weights is run.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib.util
import inspect
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sagehand.errors import InputError, MissingExtra, Refused
from sagehand.vlm.profile import Profile, builtin_profile

__all__ = ["Weights", "load_weights"]

_SAMPLES, _SAMPLE = 256, 4096  # of each file, evenly spread; bytes of one: no layer of a large file lies between them


@dataclass(frozen=True, eq=False)
class Weights:
    """A model that is loaded.

    Attributes:
        name: As it stands in results and cache keys: the folder's or the hub's name, and a fingerprint of the weights.
        profile: Of the family, with the picture sizes that this model's image processor has.
        device: Where it runs.
        model: The network (``transformers``).
        tokenizer: Text to tokens and back; holds the chat template.
        images: Pictures to patches.
        ends: Tokens that end a reply.
        context: Longest prompt and reply together [tokens].
    """

    name: str
    profile: Profile
    device: str
    model: Any
    tokenizer: Any
    images: Any
    ends: tuple[int, ...]
    context: int

    def inputs(self, messages: Sequence[Mapping[str, Any]], template: Mapping[str, Any]) -> dict[str, Any]:
        """What the network takes for a conversation, on its device.

        Args:
            messages: In the form of OpenAI's chat completions; pictures as data URLs.
            template: Further variables of the chat template, as in ``{"enable_thinking": False}``.

        Raises:
            Refused: A picture is none, or a text holds the token that stands for pictures.
        """
        import torch

        said, pictures = _in_parts(messages)
        text = self.tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True, **template)
        found: dict[str, Any] = {}
        spans: list[int] = []
        if pictures:
            found = dict(self.images(images=pictures, return_tensors="pt"))
            spans = [int(n) for n in found["image_grid_thw"].prod(dim=1) // self.images.merge_size**2]
        pad = self.model.config.image_token_id
        mark = self.tokenizer.convert_ids_to_tokens(pad)
        if text.count(mark) != len(spans):
            raise Refused(
                f"{self.name}: {len(spans)} pictures, and {text.count(mark)} places for pictures in the prompt",
                hint=f"leave {mark} out of texts",
            )
        left = iter(spans)
        found |= self.tokenizer(
            re.sub(re.escape(mark), lambda _: mark * next(left), text), return_tensors="pt", add_special_tokens=False
        )
        if pictures:
            found["mm_token_type_ids"] = (found["input_ids"] == pad).int()
        known = inspect.signature(self.model.forward).parameters
        return {
            name: value.to(self.device, self.model.dtype if torch.is_floating_point(value) else value.dtype)
            for name, value in found.items()
            if name in known
        }


def load_weights(
    source: str | Path, *, device: str | None, dtype: str, four_bit: bool, download: bool, revision: str | None
) -> Weights:
    """Load a model of the Qwen-VL family; the arguments are those of :class:`sagehand.vlm.local.LocalBackend`.

    Raises:
        MissingExtra: A package is not installed.
        InputError: The weights are not there, or cannot be read, or are of another family.
    """
    try:
        import torch
        import xgrammar  # noqa: F401  # only to say early that it is not there
        from transformers import AutoConfig, AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer
    except ImportError:
        raise MissingExtra("a VLM in process", "local") from None
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    more: dict[str, Any] = _quantised(where) if four_bit else {}
    name = str(source)
    asked = {"revision": revision, "local_files_only": not download}
    try:
        config = AutoConfig.from_pretrained(name, **asked)
        tokenizer = AutoTokenizer.from_pretrained(name, **asked)
        images = AutoImageProcessor.from_pretrained(name, **asked)
        _must_be_qwen(name, config, tokenizer, images)
        model = AutoModelForImageTextToText.from_pretrained(name, dtype=dtype, use_safetensors=True, **asked, **more)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{name}: the weights cannot be loaded: {' '.join(str(error).split())[:200]}",
            hint="name a folder that holds them" + ("" if download else ", or allow the download (download=True)"),
        ) from error
    if not four_bit:
        model.to(where)
    model.eval()
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [tokenizer.eos_token_id if ends is None else ends]
    return Weights(
        name=f"{Path(name).name}@{_fingerprint(name, config)}{'-4bit' if four_bit else ''}",
        profile=_profile(name, config, images),
        device=where,
        model=model,
        tokenizer=tokenizer,
        images=images,
        ends=tuple(ends),
        context=int(config.get_text_config().max_position_embeddings),
    )


def _quantised(device: str) -> dict[str, Any]:
    for package in ("bitsandbytes", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"4-bit weights ({package})", "fourbit")
    import torch
    from transformers import BitsAndBytesConfig

    # NF4 with the scales quantised, too: what QLoRA (arXiv 2305.14314) found to cost the least
    plan = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return {"quantization_config": plan, "device_map": {"": device}}


def _must_be_qwen(name: str, config: Any, tokenizer: Any, images: Any) -> None:
    hint = "other families are asked through a server: docs/serving.md"
    if not hasattr(config, "image_token_id") or not hasattr(images, "merge_size"):
        raise InputError(f"{name}: a model of type {config.model_type!r}, not of the Qwen-VL family", hint=hint)
    if not tokenizer.chat_template:
        raise InputError(f"{name}: the tokenizer has no chat template", hint="use an instruction-tuned model")


def _profile(name: str, config: Any, images: Any) -> Profile:
    """The family's profile, by name or type, with the sizes that this image processor works with."""
    known = builtin_profile(Path(name).name)
    if known.family == "unknown":
        known = builtin_profile(config.model_type)
    size = images.size
    return replace(
        known,
        patch=images.patch_size,
        merge=images.merge_size,
        min_side=2 * images.patch_size * images.merge_size,
        min_pixels=size["shortest_edge"],
        max_pixels=size["longest_edge"],
        modes=("json_schema", "text"),
        evidence=(*known.evidence, "in process: patches and pixel caps read from the model's image processor"),
    )


def _fingerprint(name: str, config: Any) -> str:
    """Eight characters that tell these weights from others: the hub's commit, else a digest of samples of the files."""
    commit = getattr(config, "_commit_hash", None)
    if commit:
        return str(commit)[:8]
    digest = hashlib.sha256()
    for path in sorted(Path(name).glob("*.safetensors")):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for i in range(_SAMPLES):
                file.seek(max(0, size - _SAMPLE) * i // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:8]


def _in_parts(messages: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """The messages in the form that chat templates take, and the pictures of all of them in order."""
    said: list[dict[str, Any]] = []
    pictures: list[Any] = []
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        parts: list[dict[str, Any]] = []
        for part in content:
            if part["type"] == "image_url":
                pictures.append(_decoded(part["image_url"]["url"]))
                parts.append({"type": "image"})
            else:
                parts.append({"type": "text", "text": part["text"]})
        said.append({"role": message["role"], "content": parts})
    return said, pictures


def _decoded(url: str) -> Any:
    from PIL import Image, UnidentifiedImageError

    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise Refused(f"a picture in process is a data URL in base64; got {url[:40]!r}")
    try:
        return Image.open(io.BytesIO(base64.b64decode(data, validate=True))).convert("RGB")
    except (binascii.Error, UnidentifiedImageError, OSError) as error:
        raise Refused(f"a picture cannot be read: {error}") from error
