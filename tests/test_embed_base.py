"""Identity of an embedder, unit rows, and the hash embedder that stands in for a network."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sagehand.embed as embed
from sagehand.embed import Embedder, EmbedderIdentity, HashEmbedder, unit_rows
from sagehand.errors import BadVector, InputError


def test_public_names_exist() -> None:
    assert sorted(embed.__all__) == embed.__all__
    assert all(hasattr(embed, name) for name in embed.__all__)


def test_identity_survives_json() -> None:
    identity = HashEmbedder(dimension=32, seed=3).identity
    assert EmbedderIdentity.from_dict(json.loads(json.dumps(identity.to_dict())) | {"later": 1}) == identity
    assert str(identity) == "hash@v1-seed3 (32-d)"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dimension": "64"}, "dimension is '64'"),
        ({"dimension": 0}, "dimension is 0"),
        ({"dimension": True}, "dimension is True"),
        ({"name": ""}, "name is ''"),
        ({"revision": None}, "revision is None"),
    ],
)
def test_a_bad_identity_names_the_field(change: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        EmbedderIdentity.from_dict(HashEmbedder().identity.to_dict() | change)


def test_an_identity_without_a_field_names_it() -> None:
    with pytest.raises(InputError, match="no dimension, preprocessing; found: name, revision"):
        EmbedderIdentity.from_dict({"name": "a", "revision": "b"})


@settings(deadline=None, max_examples=60)
@given(arrays(np.float64, (3, 5), elements=st.floats(-1e300, 1e300, allow_subnormal=False)))
def test_unit_rows_have_length_one_and_keep_their_direction(rows: np.ndarray) -> None:
    rows[:, 0] = np.where(np.abs(rows).max(axis=1) == 0, 1.0, rows[:, 0])
    unit = unit_rows(rows)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(unit.astype(np.float64), axis=1), 1.0, atol=1e-6)
    scaled = rows / np.abs(rows).max(axis=1, keepdims=True)
    np.testing.assert_allclose(unit * np.linalg.norm(scaled, axis=1, keepdims=True), scaled, atol=1e-6)


@pytest.mark.parametrize(
    ("row", "text"), [([0, 0], "has no length"), ([np.nan, 1], "not finite"), ([np.inf, 1], "not finite")]
)
def test_unit_rows_names_the_bad_row(row: list[float], text: str) -> None:
    with pytest.raises(BadVector, match=rf"vector 1 of 3 .*{text}"):
        unit_rows(np.array([[1.0, 2.0], row, [0.0, 0.0]]))


@pytest.mark.parametrize("shape", [(4,), (2, 0), (1, 2, 3)])
def test_unit_rows_refuses_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadVector, match="not \\(n, d\\)"):
        unit_rows(np.ones(shape))


def test_no_rows_give_no_rows() -> None:
    assert unit_rows(np.empty((0, 7))).shape == (0, 7)


GOLDEN = [-0.1413898, 0.8488019, -0.0972601, 0.5000848]


def _picture(seed: int, height: int = 60, width: int = 80) -> np.ndarray:
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return coarse[np.arange(height) * 4 // height][:, np.arange(width) * 5 // width]


def test_hash_embedder_puts_alike_pictures_close_and_others_far() -> None:
    a, b = _picture(0), _picture(1)
    noisy = np.clip(a + np.random.default_rng(2).normal(0, 12, a.shape), 0, 255).astype(np.uint8)
    larger = a.repeat(2, axis=0).repeat(2, axis=1)
    va, vb, vn, vl = HashEmbedder().embed([a, b, noisy, larger])
    assert va @ vn > 0.99
    assert va @ vl > 0.999
    assert va @ vb < 0.9


def test_hash_embedder_is_the_same_everywhere() -> None:
    # Written down: a change of this vector is a change of every test base and must bump the recipe's version.
    vector = HashEmbedder(dimension=4, seed=7).embed([_picture(0)])[0]
    np.testing.assert_allclose(vector, GOLDEN, atol=1e-6)


def test_hash_embedder_by_dimension_and_seed() -> None:
    pictures = [_picture(i) for i in range(3)]
    first, second = HashEmbedder(dimension=16, seed=0), HashEmbedder(dimension=16, seed=1)
    assert isinstance(first, Embedder)
    assert first.identity != second.identity
    assert not np.allclose(first.embed(pictures), second.embed(pictures))
    assert HashEmbedder(dimension=16).embed([]).shape == (0, 16)
    with pytest.raises(InputError, match="dimension 1 of the hash embedder"):
        HashEmbedder(dimension=1)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 255))
def test_hash_embedder_takes_any_size_and_any_flat_colour(height: int, width: int, value: int) -> None:
    vector = HashEmbedder(dimension=8).embed([np.full((height, width, 3), value, np.uint8)])
    assert abs(np.linalg.norm(vector) - 1) < 1e-6


@pytest.mark.parametrize(
    "bad", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8), "picture.jpg"]
)
def test_what_is_no_picture_is_refused(bad: object) -> None:
    with pytest.raises(InputError, match="picture 1 is"):
        HashEmbedder().embed([_picture(0), bad])  # type: ignore[list-item]
