"""``sagehand vlm probe``: what does a model on a server honour?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.common import AsJson, announce, emit, settings
from sagehand.cli.model import BaseUrl, Model
from sagehand.errors import InputError, Refused, UnknownName, VlmError

if TYPE_CHECKING:
    from sagehand.vlm.probe import ProbeFinding, ProbeReport

__all__ = ["app"]

app = typer.Typer(
    help="Look at the vision-language model behind a server.", no_args_is_help=True, rich_markup_mode=None
)
_MARKS = {True: "ok", False: "no", None: "-"}


@app.callback()
def root() -> None:
    """Look at the vision-language model behind a server."""


@app.command("probe")
def probe_command(
    base_url: BaseUrl = None,
    model: Model = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="S", help="Most seconds of one request. [setting: vlm_seconds]")
    ] = None,
    most_images: Annotated[
        int, typer.Option("--most-images", metavar="N", min=1, help="Pictures to try in one request.")
    ] = 16,
    as_json: AsJson = False,
) -> None:
    """Ask a server what its model honours, test its box coordinates with a drawn square, and save the profile for later calls.

    About 40 short requests. Where the server has one model only, it need not be named. A key is read from OPENAI_API_KEY
    (or the setting api_key), never from the command line.
    """
    import asyncio

    from sagehand.vlm.profile import save_profile

    found = settings(base_url=base_url, vlm_model=model, vlm_seconds=seconds)
    if found.base_url is None:
        raise InputError("no server was named", hint="add --base-url URL, or set base_url or OPENAI_BASE_URL")
    key = found.api_key.reveal() if found.api_key else None
    url, report = asyncio.run(_probe(found.base_url, found.vlm_model, key, found.vlm_seconds, most_images))
    path = save_profile(url, report.model, report.profile)
    doc = {"base_url": url, **report.to_dict(), "saved": str(path)}
    emit(doc, as_json, lambda: _told(doc))


async def _probe(
    base_url: str, model: str | None, key: str | None, seconds: float, most_images: int
) -> tuple[str, ProbeReport]:
    from sagehand.vlm.probe import probe
    from sagehand.vlm.profile import builtin_profile
    from sagehand.vlm.server import OpenAiBackend

    name = model or await _only_model(base_url, key)
    # asked as if for the first time: what an earlier probe saved may be what has to be mended
    backend = OpenAiBackend(base_url, name, key, profile=builtin_profile(name))
    try:
        report = await probe(
            backend, call_seconds=seconds, most_images=most_images, on_finding=_say if sys.stderr.isatty() else None
        )
    except Refused:
        names = await _models(backend)
        if names and name not in names:
            raise UnknownName("model of this server", name, names) from None
        raise
    finally:
        await backend.close()
    return backend.base_url, report


async def _only_model(base_url: str, key: str | None) -> str:
    from sagehand.vlm.server import OpenAiBackend

    backend = OpenAiBackend(base_url, "unknown", key)
    try:
        names = await backend.models()
    finally:
        await backend.close()
    if len(names) != 1:
        listed = ", ".join(names[:30]) or "none"
        raise InputError(f"no model was named; this server has: {listed}", hint="add --model NAME, or set vlm_model")
    return names[0]


async def _models(backend: Any) -> list[str]:
    """Names of the server's models; none where it does not tell."""
    try:
        return list(await backend.models())
    except VlmError:
        return []


def _say(finding: ProbeFinding) -> None:
    announce(f"{finding.what}: {finding.answered}")


def _told(doc: dict[str, Any]) -> str:
    profile = doc["profile"]
    lines = [
        f"{doc['model']} at {doc['base_url']}: {doc['requests']} requests, "
        f"{doc['prompt_tokens']} prompt and {doc['reply_tokens']} reply tokens, {doc['seconds']} s"
    ]
    for finding in doc["findings"]:
        lines += [
            f"{_MARKS[finding['honoured']]:<3} {finding['what']}: {finding['answered']}",
            f"      asked: {finding['asked']}",
        ]
    lines += [
        f"profile: boxes {profile['boxes']}, {' > '.join(profile['modes'])}, "
        f"at most {profile['max_images']} pictures a request",
        f"saved: {doc['saved']}",
    ]
    return "\n".join(lines)
