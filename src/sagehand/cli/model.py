"""The vision-language model that the flags and settings name: options and opening, for every command that asks one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sagehand.cli.common import announce, open_base
from sagehand.errors import InputError, NoSuchCase

if TYPE_CHECKING:
    from sagehand.judge.questions import Judge
    from sagehand.picture import Picture
    from sagehand.settings import Settings
    from sagehand.vlm.ask import Vlm

__all__ = ["BaseUrl", "Model", "crop_judge", "crop_of", "open_vlm"]

_IN_PROCESS_SECONDS = 600.0

BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="An OpenAI-compatible server. [setting: base_url]")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="NAME", help="The model on it, or dir:PATH for one in this process. [setting: vlm_model]"
    ),
]


@contextmanager
def open_vlm(settings: Settings) -> Iterator[Vlm | None]:
    """The model that the settings name, closed at the end; None where they name none.

    Raises:
        InputError: A server is named without a model, or a model without a server.
        MissingExtra: The client is not installed.
    """
    if settings.vlm_model is None:  # a server alone, as in OPENAI_BASE_URL, asks for nothing
        yield None
        return
    if settings.vlm_model.startswith("dir:"):
        with _in_process(settings) as vlm:
            yield vlm
        return
    if settings.base_url is None:
        raise InputError(
            f"no server was named for the model {settings.vlm_model!r}",
            hint="add --base-url URL, or set `base_url` or OPENAI_BASE_URL",
        )
    from sagehand.vlm.ask import Vlm
    from sagehand.vlm.cache import ReplyCache
    from sagehand.vlm.profile import profile_for
    from sagehand.vlm.server import OpenAiBackend

    profile = profile_for(settings.base_url, settings.vlm_model)
    key = settings.api_key.reveal() if settings.api_key is not None else None
    backend = OpenAiBackend(settings.base_url, settings.vlm_model, key, profile=profile)
    with ReplyCache(settings.vlm_cache) as cache:
        if cache.note:
            announce(cache.note)
        vlm = Vlm(
            backend,
            profile=profile,
            cache=cache,
            concurrency=settings.vlm_concurrency,
            call_seconds=settings.vlm_seconds,
        )
        try:
            yield vlm
        finally:
            vlm.close()


@contextmanager
def _in_process(settings: Settings) -> Iterator[Vlm]:
    """A model of this process: one question after the other, each with all the time that it takes."""
    from sagehand.vlm.ask import Vlm
    from sagehand.vlm.cache import ReplyCache
    from sagehand.vlm.local import LocalBackend

    backend = LocalBackend(str(settings.vlm_model).removeprefix("dir:"), download=settings.allow_download)
    with ReplyCache(settings.vlm_cache) as cache:
        if cache.note:
            announce(cache.note)
        vlm = Vlm(backend, profile=backend.profile, cache=cache, concurrency=1, call_seconds=_IN_PROCESS_SECONDS)
        try:
            yield vlm
        finally:
            vlm.close()


@contextmanager
def crop_judge(set_: Settings, strategy: str) -> Iterator[Judge]:
    """Who is asked: the model that was named, else the perceptual judge; only "grid" and "box" ask a model."""
    from sagehand.judge.perceptual import PerceptualJudge

    if strategy not in ("grid", "box"):
        yield PerceptualJudge()
        return
    with open_vlm(set_) as vlm:
        if vlm is None:
            announce("no model was named: the perceptual judge makes the moves (name one with --base-url and --model)")
            yield PerceptualJudge()
            return
        from sagehand.judge.vlm import VlmJudge

        yield VlmJudge(vlm, _no_case)


def crop_of(path: Path, set_: Settings) -> str:
    """The crop of a case base that is there, or the one that a new base will have."""
    if not path.is_file():
        return set_.crop
    with open_base(path) as base:
        return base.crop


def _no_case(case: str) -> Picture:
    raise NoSuchCase(f"no case {case!r}", hint="a crop has no case base")
