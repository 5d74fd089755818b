"""The predictor of a command: opened from the settings, with the options that say what it may answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.common import library_at, open_base

if TYPE_CHECKING:
    from sagehand.action.predict import Predictor
    from sagehand.settings import Settings
    from sagehand.vlm.ask import Vlm

__all__ = ["DomainLevel", "Risk", "open_predictor"]

Risk = Annotated[
    float | None,
    typer.Option(
        help="Greatest share of wrong answers you accept, as 0.05; abstains where it cannot be certified. [setting: risk]"
    ),
]
DomainLevel = Annotated[
    float | None,
    typer.Option(
        help="Share of right pictures that the domain test may turn away; 0 switches it off. [setting: domain_level]"
    ),
]


def open_predictor(set_: Settings, *, log: bool, vlm: Vlm | None = None, **asking: Any) -> Predictor:
    """Open the case base and the library that were named; the predictor closes them.

    Args:
        set_: The settings.
        log: Whether decisions may be logged; the settings can still say no.
        vlm: The model to ask, or None.
        **asking: More of what :class:`~sagehand.action.predict.Predictor` takes.
    """
    from sagehand.action.predict import Predictor
    from sagehand.embed import get_embedder

    library = library_at(set_.actions)
    base = open_base(set_.cases)
    try:
        return Predictor(
            base,
            library,
            embedder=get_embedder(base.embedder.name, threads=set_.threads),
            risk=set_.risk,
            domain_level=set_.domain_level,
            log=log and set_.log_decisions,
            vlm=vlm,
            prompts=set_.prompts,
            seconds=set_.decision_seconds,
            ask_below=set_.ask_below if vlm is not None else None,
            **asking,
        )
    except BaseException:
        base.close()
        raise
