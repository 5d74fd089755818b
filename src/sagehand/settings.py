"""One typed settings file < environment < flags, and where each value came from.

The file is ``sagehand.toml`` in the working directory, or the one that ``SAGEHAND_CONFIG`` names. A variable is the
setting's name in capitals with ``SAGEHAND_`` before it; ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY`` are read too.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from sagehand.errors import SettingsError, near_misses

__all__ = ["FILE_NAME", "Resolved", "Secret", "Settings", "load_settings"]

FILE_NAME = "sagehand.toml"
PREFIX = "SAGEHAND_"
_ALIASES = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"}
_FLAGS = {"vlm_model": "--model", "decision_seconds": "--seconds"}  # flags that are not named as their setting

_Source = Literal["default", "file", "environment", "flag"]


class Secret:
    """A value that is never shown: not by ``print``, ``repr``, a page or a log. :meth:`reveal` hands it out."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return "(hidden)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        text = core_schema.no_info_after_validator_function(cls, core_schema.str_schema(min_length=1))
        return core_schema.union_schema([text, core_schema.is_instance_schema(cls)], mode="left_to_right")


@dataclass(frozen=True)
class Settings:
    """The settings, typed.

    Attributes:
        cases: Case base used where none is named.
        actions: Action library used where none is named.
        embedder: Embedder of new case bases.
        threads: Processor threads for the embedder; None for all.
        models: Folder that networks named by ``dir:`` and ``onnx:`` are looked for in where their path is not there.
        allow_download: Whether an embedder's weights may be downloaded from the hub.
        crop: Crop strategy of new case bases.
        risk: Greatest acceptable share of wrong answers; None answers uncertified.
        domain_level: Share of right pictures that the domain test may turn away.
        log_decisions: Whether decisions are logged in the case base.
        max_pixels: Largest picture that is decoded [pixels].
        depth_unit: Unit of integer depth images.
        base_url: Address of the OpenAI-compatible server that answers as the VLM; None asks none.
        api_key: Its key; better in the environment than in a file.
        vlm_model: The model's name on that server.
        vlm_seconds: Most seconds that one question to it may take [s].
        vlm_concurrency: Most requests to it at once.
        vlm_cache: File that keeps its valid answers for later; None keeps none.
        decision_seconds: Deadline of a decision [s]; None for none.
        ask_below: The model is asked only where the cases' calibrated confidence is below; None always asks.
        prompts: Folder of own prompts over the packaged ones.
    """

    cases: Path | None = None
    actions: Path | None = None
    embedder: str = "efficientnet-lite0"
    threads: Annotated[int, Ge(1), Le(256)] | None = None
    models: Path | None = None
    allow_download: bool = False
    crop: str = "none"
    risk: Annotated[float, Gt(0), Lt(1)] | None = None
    domain_level: Annotated[float, Ge(0), Lt(1)] = 0.05
    log_decisions: bool = True
    max_pixels: Annotated[int, Ge(1)] = 100_000_000
    depth_unit: Literal["m", "mm", "um"] = "mm"
    base_url: str | None = None
    api_key: Secret | None = None
    vlm_model: str | None = None
    vlm_seconds: Annotated[float, Gt(0), Le(3600)] = 60.0
    vlm_concurrency: Annotated[int, Ge(1), Le(256)] = 16
    vlm_cache: Path | None = None
    decision_seconds: Annotated[float, Gt(0)] | None = None
    ask_below: Annotated[float, Ge(0), Le(1)] | None = None
    prompts: Path | None = None


class Resolved:
    """Settings with the place that each value came from.

    Attributes:
        settings: The values.
        sources: Name → "default", "file", "environment" or "flag".
        file: The settings file that was read, or None.
    """

    def __init__(self, settings: Settings, sources: Mapping[str, _Source], file: Path | None) -> None:
        self.settings, self.sources, self.file = settings, dict(sources), file

    def to_dict(self) -> dict[str, Any]:
        """What ``config show --json`` prints."""
        values = {n: str(v) if isinstance(v, Path | Secret) else v for n, v in asdict(self.settings).items()}
        if values["base_url"]:  # a password has no place there and is refused in use; it is not shown all the same
            values["base_url"] = re.sub(r"//[^/@]*@", "//(hidden)@", values["base_url"])
        return {
            "file": str(self.file) if self.file else None,
            "settings": {n: {"value": values[n], "source": self.sources[n]} for n in values},
        }


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Resolved:
    """Merge file, environment and flags.

    Args:
        flags: Values given on the command line; None means not given.
        environment: Variables; the process's own by default.
        directory: Where ``sagehand.toml`` is looked for; the working directory by default.

    Raises:
        SettingsError: A value or a name is not valid; the message names it, where it stands, and what is valid.
    """
    environment = os.environ if environment is None else environment
    file, from_file = _read_file(environment, directory or Path())
    names = {field.name for field in fields(Settings)}
    layers: list[tuple[_Source, str, Mapping[str, Any]]] = [
        ("file", str(file), from_file),
        ("environment", "the environment", _from_environment(environment, names)),
        ("flag", "the command line", {k: v for k, v in (flags or {}).items() if v is not None}),
    ]
    merged: dict[str, Any] = {}
    sources: dict[str, _Source] = dict.fromkeys((field.name for field in fields(Settings)), "default")
    for source, where, layer in layers:
        for name, value in layer.items():
            if name not in names:
                raise SettingsError(
                    f"{where}: unknown setting {name!r}; known: {', '.join(sorted(names))}", hint=_near(name, names)
                )
            merged[name], sources[name] = value, source
    return Resolved(_validated(merged, sources, file), sources, file)


def _validated(merged: Mapping[str, Any], sources: Mapping[str, str], file: Path | None) -> Settings:
    # pydantic takes a tenth of a second to import: only when settings are read
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Settings).validate_python(dict(merged))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        where = {"file": str(file), "environment": f"{PREFIX}{name.upper()}", "flag": flag}[sources[name]]
        shown = "no text" if Settings.__annotations__[name].startswith("Secret") else repr(first["input"])
        # without the chain for a secret: pydantic's error repeats what was given
        raise SettingsError(
            f"{where}: setting {name!r} is {shown}: {first['msg'][:1].lower()}{first['msg'][1:]}",
            hint="see `sagehand config show`",
        ) from (None if shown == "no text" else error)


def _read_file(environment: Mapping[str, str], directory: Path) -> tuple[Path | None, dict[str, Any]]:
    named = environment.get(f"{PREFIX}CONFIG")
    path = Path(named) if named else directory / FILE_NAME
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise SettingsError(
                f"{path}: there is no such settings file", hint=f"mend or unset {PREFIX}CONFIG"
            ) from None
        return None, {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"{path}: the settings file cannot be read: {error}", hint="it is TOML, one `name = value` a line"
        ) from error


def _from_environment(environment: Mapping[str, str], names: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        value = environment.get(f"{PREFIX}{name.upper()}") or environment.get(_ALIASES.get(name, ""))
        if value:
            found[name] = value
    return found


def _near(name: str, names: set[str]) -> str:
    close = near_misses(name, names)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else "see `sagehand config show`"
