"""What a model and the server in front of it are known to honour, and where that is kept.

A profile belongs to a model *on* a server: the same name behind another engine may drop a constraint or answer in other
box units. Built-in profiles say what is known of a family; ``sagehand vlm probe`` finds out the rest and saves it, and
later calls with the same base URL and model use what was saved.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Gt

from sagehand.errors import InputError, SettingsError
from sagehand.files import write_whole
from sagehand.vlm.base import Mode
from sagehand.vlm.boxes import Convention

__all__ = [
    "Profile",
    "builtin_profile",
    "load_profile",
    "normal_url",
    "profile_for",
    "profile_path",
    "save_profile",
]

_Count = Annotated[int, Ge(1)]


@dataclass(frozen=True)
class Profile:
    """What a model on a server honours.

    Attributes:
        family: Model family, as in "qwen3-vl", or "unknown".
        boxes: Units of the boxes that it names.
        patch: Side of a vision patch [px].
        merge: Patches that are merged into one token, along a side.
        min_side: Shortest side of a picture that is sent [px].
        max_aspect: Longest side over shortest side of a picture that is sent, at most.
        min_pixels: Fewest pixels that the model's own resize leaves [px²].
        max_pixels: Most pixels that the model's own resize leaves [px²].
        max_images: Pictures that one request may hold.
        token_rule: How pictures are counted: by merged patches, or in tiles as OpenAI or Gemini do.
        modes: Rungs of the ladder, best first.
        constrained: The body's field that carries the schema in mode "json_schema".
        required: Whether ``tool_choice: required`` is obeyed; None where it was not tried.
        thinking: What is sent as ``enable_thinking``; None sends nothing.
        token_field: The body's field that caps the reply.
        greedy: Whether ``temperature`` is sent; some models take no other than their own.
        options: Further fields of every request's body.
        probed: Whether it was found by asking the server.
        evidence: What it rests on, in words.
    """

    family: str = "unknown"
    boxes: Convention = "0-1"
    patch: _Count = 14
    merge: _Count = 2
    min_side: _Count = 56
    max_aspect: Annotated[float, Gt(1)] = 100.0
    min_pixels: _Count = 4 * 28**2
    max_pixels: _Count = 16384 * 28**2
    max_images: Annotated[int, Ge(0)] = 4
    token_rule: Literal["patches", "openai-tiles", "gemini-tiles"] = "patches"
    modes: tuple[Mode, ...] = ("json_schema", "tools", "text")
    constrained: Literal["response_format", "structured_outputs"] = "response_format"
    required: bool | None = None
    thinking: bool | None = None
    token_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    greedy: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    probed: bool = False
    evidence: tuple[str, ...] = ()

    @property
    def factor(self) -> int:
        """Sides of a picture that the model leaves as it is are multiples of this [px]."""
        return self.patch * self.merge

    @property
    def body_options(self) -> dict[str, Any]:
        """Fields of every request's body: ``options`` and the thinking flag."""
        if self.thinking is None:
            return dict(self.options)
        template = {**self.options.get("chat_template_kwargs", {}), "enable_thinking": self.thinking}
        return {**self.options, "chat_template_kwargs": template}

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {**asdict(self), "modes": list(self.modes), "evidence": list(self.evidence)}

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> Profile:
        """Read what :meth:`to_dict` wrote.

        Raises:
            InputError: A field is unknown or not valid.
        """
        from pydantic import TypeAdapter, ValidationError

        unknown = sorted(set(doc) - set(cls.__dataclass_fields__))
        if unknown:
            raise InputError(f"profile: unknown field {unknown[0]!r}", hint="run `sagehand vlm probe` again")
        try:
            return TypeAdapter(cls).validate_python(dict(doc))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(
                f"profile: {where} is {first['input']!r}: {first['msg']}", hint="run `sagehand vlm probe` again"
            ) from error


_UNKNOWN = Profile(
    evidence=(
        "model family not known: boxes are asked for as fractions, with few pictures; `sagehand vlm probe` finds out",
    )
)


def _qwen(family: str, boxes: Convention, patch: int, told: str) -> Profile:
    factor = 2 * patch
    return Profile(
        family=family,
        boxes=boxes,
        patch=patch,
        min_side=2 * factor,
        min_pixels=4 * factor**2,
        max_pixels=16384 * factor**2,
        max_images=8,
        evidence=(told, "resize rule of qwen-vl-utils; the server may set other pixel caps"),
    )


# what a family's published names look like, as file names, hub ids and Ollama tags write them; first match wins
_FAMILIES: tuple[tuple[str, Profile], ...] = (
    (
        r"qwen-?3[._-]?vl",
        _qwen("qwen3-vl", "0-1000", 16, "boxes 0-1000, x first: maintainers in QwenLM/Qwen3-VL#1486 and #1623"),
    ),
    (
        r"qwen-?2[._-]5[._-]?vl",
        _qwen(
            "qwen2.5-vl", "pixels", 14, "boxes in pixels after the resize: maintainers in QwenLM/Qwen3-VL#866 and #676"
        ),
    ),
    (r"qwen-?2[._-]?vl", _qwen("qwen2-vl", "0-1000", 14, "boxes 0-1000, x first: maintainers in QwenLM/Qwen3-VL#866")),
    (
        r"deepseek[._-]?vl[._-]?2",
        Profile(family="deepseek-vl2", boxes="0-999", evidence=("boxes 0-999: the parser of roboflow/supervision",)),
    ),
    (
        r"gemini",
        Profile(
            family="gemini",
            boxes="yx-1000",
            max_images=16,
            token_rule="gemini-tiles",
            evidence=("boxes 0-1000, lists y first: the parser of roboflow/supervision",),
        ),
    ),
    (
        r"gpt-?4o|gpt-?4[._-]1|chatgpt-4o",
        Profile(
            family="gpt-4o",
            max_images=16,
            token_rule="openai-tiles",
            required=True,
            evidence=("no box units of its own are known: asked for as fractions",),
        ),
    ),
    (
        r"gpt-?5|(^|/)o[134](-|$)",
        Profile(
            family="gpt-5",
            max_images=16,
            token_rule="openai-tiles",
            required=True,
            token_field="max_completion_tokens",
            greedy=False,
            evidence=("takes no temperature, and caps replies by max_completion_tokens",),
        ),
    ),
)


def builtin_profile(model: str) -> Profile:
    """What is known of a model by its name; a cautious profile where the name tells nothing."""
    folded = model.lower()
    return next((profile for pattern, profile in _FAMILIES if re.search(pattern, folded)), _UNKNOWN)


def normal_url(base_url: str) -> str:
    """A base URL in the form that profiles are kept under: scheme and host in small letters, no slash at the end.

    Raises:
        SettingsError: It is no http(s) address, or holds a user name or password.
    """
    hint = "as in http://127.0.0.1:8000/v1"
    try:
        parts = urlsplit(base_url.strip())
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise SettingsError("the base URL is not valid: it cannot be read as an address", hint=hint) from None
    if parts.username or parts.password:
        raise SettingsError("the base URL holds a user name or password", hint="set the key by OPENAI_API_KEY")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"the base URL is {base_url!r}, no http:// or https:// address", hint=hint)
    if parts.query or parts.fragment:
        raise SettingsError("the base URL holds a ? or # part", hint=hint)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def profile_path(base_url: str, model: str, *, folder: Path | None = None) -> Path:
    """Where the profile of a model on a server is kept.

    Args:
        base_url: Of the server.
        model: Its name there.
        folder: By default ``$XDG_CACHE_HOME/sagehand/profiles``, or the same below ``~/.cache``.
    """
    url = normal_url(base_url)
    if folder is None:
        cache = os.environ.get("XDG_CACHE_HOME", "")
        folder = (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "sagehand" / "profiles"
    readable = re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-.")[-40:] or "model"
    digest = hashlib.sha256(f"{url}\n{model}".encode()).hexdigest()[:12]
    return folder / f"{readable}-{digest}.json"


def save_profile(base_url: str, model: str, profile: Profile, *, folder: Path | None = None) -> Path:
    """Keep a profile for later calls; returns the file.

    Raises:
        InputError: It cannot be written.
    """
    path = profile_path(base_url, model, folder=folder)
    doc = {"format": 1, "base_url": normal_url(base_url), "model": model, "profile": profile.to_dict()}
    write_whole(path, (json.dumps(doc, indent=2, ensure_ascii=False) + "\n").encode())
    return path


def load_profile(base_url: str, model: str, *, folder: Path | None = None) -> Profile | None:
    """The profile that was saved for this model on this server, or None.

    Raises:
        InputError: The file is there and cannot be read.
    """
    path = profile_path(base_url, model, folder=folder)
    remedy = "delete it, or run `sagehand vlm probe` again"
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
        if doc["format"] != 1 or (doc["base_url"], doc["model"]) != (normal_url(base_url), model):
            raise InputError(f"{path}: the profile is of another form or model", hint=remedy)
        saved = Profile.from_dict(doc["profile"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: the profile cannot be read: {error}", hint=remedy) from error
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=remedy) from error
    return replace(saved, probed=True)


def profile_for(base_url: str | None, model: str, *, folder: Path | None = None) -> Profile:
    """The saved profile of a model on a server, else the built-in one of its family."""
    saved = load_profile(base_url, model, folder=folder) if base_url else None
    return saved or builtin_profile(model)
