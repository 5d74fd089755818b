"""Embedders by name, built in and plugged in."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

from sagehand.embed import (
    EmbedderIdentity,
    EmbedderInfo,
    EmbedderPlugin,
    HashEmbedder,
    get_embedder,
    list_embedders,
    registry,
)
from sagehand.errors import InputError, UnknownName

_INFO = EmbedderInfo("mine", HashEmbedder(seed=9).identity, source="here", licence="MIT", available=True)
GOOD = EmbedderPlugin(info=lambda: _INFO, load=lambda threads: HashEmbedder(seed=9))
AWAY = EmbedderPlugin(
    info=lambda: EmbedderInfo("away", None, "hub", "MIT", available=False, why_not="no weights on disk"),
    load=lambda threads: HashEmbedder(),
)
WRONG = object()
BUILT_IN = [
    "efficientnet-lite0",
    "hash",
    "clip-vit-base-patch32",
    "clip-vit-large-patch14",
    "clip-vit-large-patch14-336",
    "laion-clip-vit-huge-patch14",
    "siglip2-large-patch16-512",
]


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        EntryPoint(name, value, registry.GROUP)
        for name, value in [
            ("mine", f"{__name__}:GOOD"),
            ("away", f"{__name__}:AWAY"),
            ("wrong", f"{__name__}:WRONG"),
            ("broken", "no_such_module_at_all:PLUGIN"),
            ("hash", f"{__name__}:GOOD"),
        ]
    )
    monkeypatch.setattr(registry, "entry_points", lambda group: points.select(group=group))


def test_the_list_names_source_licence_and_identity_without_loading_weights() -> None:
    infos = {info.name: info for info in list_embedders()}
    assert list(infos) == BUILT_IN
    lite = infos["efficientnet-lite0"]
    assert lite.available
    assert lite.licence == "Apache-2.0"
    assert lite.identity == get_embedder().identity
    assert isinstance(lite.identity, EmbedderIdentity)
    assert lite.identity.dimension == 1280


def test_an_unknown_name_lists_the_choices() -> None:
    with pytest.raises(UnknownName) as caught:
        get_embedder("efficientnet_lite")
    assert str(caught.value) == (
        f"unknown embedder 'efficientnet_lite'; known: {', '.join(sorted(BUILT_IN))} "
        "(did you mean 'efficientnet-lite0'? or by place: hub:ORG/NAME, dir:FOLDER, onnx:FILE)"
    )


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_below_one_are_refused(threads: int) -> None:
    with pytest.raises(InputError, match=f"threads is {threads}"):
        get_embedder("hash", threads=threads)


@pytest.mark.usefixtures("plugged")
def test_a_plug_in_is_found_by_name_and_cannot_take_a_built_in_name() -> None:
    assert get_embedder("mine").identity.revision == "v1-seed9"
    assert get_embedder("hash").identity.revision == "v1-seed0"
    assert get_embedder("mine").embed([np.zeros((2, 2, 3), np.uint8)]).shape == (1, 64)


@pytest.mark.usefixtures("plugged")
def test_a_broken_plug_in_is_listed_with_its_reason_and_hides_no_other() -> None:
    infos = {info.name: info for info in list_embedders()}
    assert list(infos) == [*BUILT_IN, "away", "broken", "mine", "wrong"]
    assert "No module named 'no_such_module_at_all'" in infos["broken"].why_not
    assert "holds a object, not an EmbedderPlugin" in infos["wrong"].why_not
    plugged_in = list(infos.values())[len(BUILT_IN) :]
    assert [info.name for info in plugged_in if not info.available] == ["away", "broken", "wrong"]


@pytest.mark.usefixtures("plugged")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken", "'broken' cannot be loaded from no_such_module_at_all:PLUGIN: ModuleNotFoundError"),
        ("wrong", "'wrong' cannot be loaded"),
        ("away", "'away' is not available: no weights on disk"),
    ],
)
def test_a_plug_in_that_cannot_be_used_says_why(name: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        get_embedder(name)
