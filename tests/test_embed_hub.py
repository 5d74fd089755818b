"""CLIP and SigLIP2 from a folder or the hub's cache: identity, vectors, texts, errors; nothing is downloaded unasked."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sagehand.embed import Embedder, get_embedder, hub, list_embedders, network, registry, weights
from sagehand.embed.hub import HubEmbedder
from sagehand.errors import BadVector, InputError, MissingExtra, UnknownName

_NO_TORCH = [n for n in ("torch", "transformers", "safetensors") if importlib.util.find_spec(n) is None]
needs_torch = [
    pytest.mark.torch,
    pytest.mark.skipif(bool(_NO_TORCH), reason=f"not installed: {', '.join(_NO_TORCH)}"),
]
FAMILIES = ("clip", "siglip", "siglip2")
DIMENSION = {"clip": 24, "siglip": 32, "siglip2": 32}


def pictures(count: int, seed: int = 0) -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (20 + 7 * i, 60 - 2 * i, 3), dtype=np.uint8) for i in range(count)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from tiny_networks import save

    root = tmp_path_factory.mktemp("networks")
    return {family: save(root / family, family) for family in FAMILIES}


@pytest.fixture
def clip(saved: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved["clip"], tmp_path / "clip"))


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("SAGEHAND_CONFIG", "SAGEHAND_MODELS", "SAGEHAND_ALLOW_DOWNLOAD"):
        monkeypatch.delenv(name, raising=False)


class TestVectors:
    pytestmark = needs_torch

    @pytest.mark.parametrize("family", FAMILIES)
    def test_they_are_the_networks_own(self, family: str, saved: dict[str, Path]) -> None:
        import torch
        from transformers import AutoImageProcessor, AutoModel

        seen = pictures(3)
        processor = AutoImageProcessor.from_pretrained(saved[family], backend="pil")
        model = AutoModel.from_pretrained(saved[family]).eval()
        with torch.inference_mode():
            their_input = processor(images=seen, input_data_format="channels_last", return_tensors="pt")
            theirs = model.get_image_features(**their_input).pooler_output.numpy()
        theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
        embedder = get_embedder(f"dir:{saved[family]}")
        assert isinstance(embedder, Embedder)
        ours = embedder.embed(seen)
        assert ours.shape == (3, DIMENSION[family])
        assert np.abs(ours - theirs).max() < 1e-3  # a byte here and there is rounded the other way

    @pytest.mark.parametrize("family", FAMILIES)
    def test_unit_rows_that_do_not_depend_on_the_batch(self, family: str, saved: dict[str, Path]) -> None:
        embedder = get_embedder(f"dir:{saved[family]}", threads=1)
        seen = [*pictures(18), np.zeros((1, 1, 3), np.uint8), np.full((1, 900, 3), 77, np.uint8)]
        together = embedder.embed(seen)
        assert together.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(together.astype(np.float64), axis=1), 1.0, atol=1e-6)
        for i in (0, 7, 8, 17, 18, 19):
            np.testing.assert_allclose(embedder.embed([seen[i]])[0], together[i], atol=2e-6)
        assert embedder.embed([]).shape == (0, DIMENSION[family])
        with pytest.raises(InputError, match="picture 0 is float32"):
            embedder.embed([np.zeros((4, 4, 3), np.float32)])  # type: ignore[list-item]

    def test_threads_share_one_network(self, saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Path] = []
        load = network._load_model
        monkeypatch.setattr(network, "_load_model", lambda folder: made.append(folder) or load(folder))
        shared = HubEmbedder(saved["clip"], "shared", threads=1)
        seen, captions = pictures(4), ["red wire", "a screw", "battery", "cover off"]
        alone, said = get_embedder(f"dir:{saved['clip']}", threads=1).embed(seen), shared.embed_text(captions)
        made.clear()
        shared = HubEmbedder(saved["clip"], "shared", threads=1)
        wrong: list[object] = []

        def work(i: int) -> None:
            try:
                for _ in range(5):
                    if np.abs(shared.embed([seen[i]])[0] - alone[i]).max() > 2e-6:
                        wrong.append(i)
                    if np.abs(shared.embed_text([captions[i]])[0] - said[i]).max() > 2e-6:
                        wrong.append(captions[i])
            except Exception as error:
                wrong.append(error)

        workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert wrong == []
        assert len(made) == 1

    def test_a_vector_that_is_not_finite_is_refused(self, clip: Path) -> None:
        import torch

        embedder = HubEmbedder(clip, "broken")
        with torch.no_grad():
            embedder.network.model.visual_projection.weight[0, 0] = torch.nan
        with pytest.raises(BadVector, match="vector 0 of 1 is not finite"):
            embedder.embed(pictures(1))


class TestTexts:
    pytestmark = needs_torch

    @pytest.mark.parametrize("family", FAMILIES)
    def test_alone_and_in_a_batch_they_are_the_same(self, family: str, saved: dict[str, Path]) -> None:
        embedder = HubEmbedder(saved[family], "t")
        captions = ["a red wire", "the back cover of a smoke detector " * 9]
        together = embedder.embed_text(captions)
        assert together.shape == (2, DIMENSION[family])
        np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-6)
        for i in range(2):
            np.testing.assert_allclose(embedder.embed_text([captions[i]])[0], together[i], atol=1e-6)
        assert together[0] @ together[1] < 0.999
        np.testing.assert_array_equal(embedder.embed_text(["A Red WIRE"]), embedder.embed_text(["a red wire"]))

    @pytest.mark.parametrize("family", ["siglip", "siglip2"])
    def test_siglip_texts_are_padded_to_64_on_the_right_without_a_mask(
        self, family: str, saved: dict[str, Path]
    ) -> None:
        import torch
        from transformers import AutoModel

        model = AutoModel.from_pretrained(saved[family]).eval()
        letters = [ord(letter) - ord("a") + 6 for letter in "screw"]
        words = [*letters, 1]  # and <eos>; <pad> is 0
        padded = torch.tensor([words + [0] * (64 - len(words))])
        with torch.inference_mode():
            right, short = (
                model.get_text_features(input_ids=ids).pooler_output[0].numpy()
                for ids in (padded, torch.tensor([words]))
            )
        ours = HubEmbedder(saved[family], "t").embed_text(["screw"])[0]
        np.testing.assert_allclose(ours, right / np.linalg.norm(right), atol=2e-6)
        assert ours @ (short / np.linalg.norm(short)) < 0.99  # so that the padding is seen to matter

    def test_what_is_no_list_of_texts_is_refused(self, saved: dict[str, Path]) -> None:
        embedder = HubEmbedder(saved["clip"], "t")
        assert embedder.embed_text([]).shape == (0, 24)
        with pytest.raises(InputError, match="text 1 is a int"):
            embedder.embed_text(["a", 3])  # type: ignore[list-item]
        with pytest.raises(InputError, match=r"one text, not a list of texts \(\[text\]\)"):
            embedder.embed_text("battery")

    def test_a_folder_without_a_tokenizer_still_embeds_pictures(self, clip: Path) -> None:
        for file in clip.glob("tokenizer*"):
            file.unlink()
        embedder = HubEmbedder(clip, "t")
        assert embedder.embed(pictures(1)).shape == (1, 24)
        with pytest.raises(InputError, match="has no tokenizer for texts"):
            embedder.embed_text(["a"])


class TestIdentity:
    pytestmark = needs_torch

    def test_it_changes_with_the_weights_alone(self, saved: dict[str, Path], tmp_path: Path) -> None:
        from tiny_networks import save

        first = get_embedder(f"dir:{saved['clip']}").identity
        second = get_embedder(f"dir:{save(tmp_path / 'clip', 'clip', seed=1)}").identity
        assert (first.dimension, first.preprocessing) == (second.dimension, second.preprocessing)
        sizes = [(folder / "model.safetensors").stat().st_size for folder in (saved["clip"], tmp_path / "clip")]
        assert sizes[0] == sizes[1]
        assert first.revision != second.revision

    def test_one_changed_byte_in_place_is_seen(self, clip: Path) -> None:
        before = get_embedder(f"dir:{clip}").identity
        with (clip / "model.safetensors").open("r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)
            file.seek(-1, 2)
            file.write(bytes([last[0] ^ 1]))
        assert get_embedder(f"dir:{clip}").identity.revision != before.revision

    def test_weights_that_are_replaced_before_they_are_loaded_are_refused(self, clip: Path) -> None:
        from tiny_networks import save

        embedder = get_embedder(f"dir:{clip}")
        save(clip, "clip", seed=1)
        with pytest.raises(InputError, match="was changed while it was in use"):
            embedder.embed(pictures(1))

    def test_it_changes_with_what_changes_the_vectors_and_with_nothing_else(self, clip: Path) -> None:
        def identity_with(file: str, **changes: object) -> Any:
            path = clip / file
            before = path.read_text()
            path.write_text(json.dumps(json.loads(before) | changes))
            found = get_embedder(f"dir:{clip}").identity
            path.write_text(before)
            return found

        base = get_embedder(f"dir:{clip}").identity
        assert identity_with("config.json", transformers_version="9.0", dtype="float16") == base
        assert identity_with("config.json", logit_scale_init_value=1.0).revision != base.revision
        assert identity_with("preprocessor_config.json", resample=2).preprocessing != base.preprocessing
        (clip / "README.md").write_text("another word")
        assert get_embedder(f"dir:{clip}").identity == base

    def test_the_name_is_the_full_path_and_models_stands_in_on_another_machine(
        self, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        there = get_embedder("dir:clip").identity
        assert there.name == f"dir:{tmp_path / 'clip'}"
        shutil.move(clip, tmp_path / "elsewhere" / "clip")
        with pytest.raises(InputError, match=r"there is no folder at .*set `models`"):
            get_embedder(there.name)
        monkeypatch.setenv("SAGEHAND_MODELS", str(tmp_path / "elsewhere"))
        assert get_embedder(there.name).identity == there

    def test_it_is_known_without_torch_being_loaded(self, clip: Path) -> None:
        code = (
            "import sys\nfrom sagehand.embed import get_embedder, list_embedders\n"
            f"print(get_embedder('dir:{clip}').identity.dimension, len(list_embedders()))\n"
            "assert not {'torch', 'transformers', 'PIL', 'onnxruntime'} & set(sys.modules), 'loaded early'\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "24 7\n", "")


class TestFolders:
    pytestmark = needs_torch

    def test_pickled_weights_are_taken_where_there_are_no_safetensors(self, tmp_path: Path) -> None:
        from tiny_networks import save

        pickled = get_embedder(f"dir:{save(tmp_path / 'bin', 'clip', safe=False)}")
        safe = get_embedder(f"dir:{save(tmp_path / 'safe', 'clip')}")
        np.testing.assert_allclose(pickled.embed(pictures(2)), safe.embed(pictures(2)), atol=1e-6)

    def test_the_layout_with_one_file_for_all_processors(self, clip: Path) -> None:
        before = get_embedder(f"dir:{clip}").identity
        inner = json.loads((clip / "preprocessor_config.json").read_text())
        (clip / "preprocessor_config.json").unlink()
        (clip / "processor_config.json").write_text(json.dumps({"image_processor": inner}))
        assert get_embedder(f"dir:{clip}").identity == before

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("config.json", "has no config.json"),
            ("preprocessor_config.json", "has no preprocessor"),
            ("model.safetensors", "no weights"),
        ],
    )
    def test_a_missing_file_is_named(self, file: str, text: str, clip: Path) -> None:
        (clip / file).unlink()
        with pytest.raises(InputError, match=text):
            get_embedder(f"dir:{clip}")

    def test_another_family_is_refused(self, clip: Path) -> None:
        (clip / "config.json").write_text('{"model_type": "dinov2"}')
        with pytest.raises(InputError, match="family 'dinov2'; usable: clip, siglip, siglip2"):
            get_embedder(f"dir:{clip}")
        (clip / "config.json").write_text("[1]")
        with pytest.raises(InputError, match="holds a list, not an object"):
            get_embedder(f"dir:{clip}")

    def test_weights_that_are_not_there_do_not_become_random_ones(self, clip: Path) -> None:
        from safetensors.numpy import load_file, save_file

        held = load_file(clip / "model.safetensors")
        held.pop("visual_projection.weight")
        save_file(held, clip / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(
            InputError, match=r"1 weights are missing from model.safetensors, the first is visual_projection"
        ):
            get_embedder(f"dir:{clip}").embed(pictures(1))

    def test_damaged_weights_and_a_wrong_dimension_are_one_line(self, clip: Path) -> None:
        config = json.loads((clip / "config.json").read_text())
        (clip / "config.json").write_text(json.dumps(config | {"projection_dim": 25}))
        with pytest.raises(InputError, match="cannot be loaded") as caught:
            get_embedder(f"dir:{clip}").embed(pictures(1))
        assert "\n" not in str(caught.value)
        (clip / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
        with pytest.raises(InputError, match="the network cannot be loaded"):
            get_embedder(f"dir:{clip}").embed(pictures(1))

    def test_a_missing_part_of_the_weights_is_named(self, clip: Path) -> None:
        (clip / "model.safetensors").unlink()
        index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
        (clip / "model.safetensors.index.json").write_text(json.dumps(index))
        (clip / "model-00001-of-00002.safetensors").write_bytes(b"")
        with pytest.raises(InputError, match=r"parts of the weights are missing: model-00002-of-00002.safetensors"):
            get_embedder(f"dir:{clip}")

    def test_an_input_that_the_network_refuses_is_told_at_the_start(self, clip: Path) -> None:
        path = clip / "preprocessor_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"size": {"shortest_edge": 48}, "crop_size": 48}))
        with pytest.raises(InputError, match="refuses its own kind of input"):
            get_embedder(f"dir:{clip}").embed(pictures(1))


class TestPooled:
    """Transformers 4 returned the tensor, 5 returns an object that holds it (FIELD_REPORTS K08)."""

    tensor = SimpleNamespace(detach=lambda: None)

    def test_a_tensor_and_an_object(self) -> None:
        assert network.pooled(self.tensor) is self.tensor
        assert network.pooled(SimpleNamespace(pooler_output=self.tensor, last_hidden_state=1)) is self.tensor

    @pytest.mark.parametrize("output", [SimpleNamespace(pooler_output=None), SimpleNamespace(last_hidden_state=1), ()])
    def test_neither(self, output: object) -> None:
        with pytest.raises(InputError, match="without pooled vectors"):
            network.pooled(output)

    @pytest.mark.torch
    @pytest.mark.skipif(bool(_NO_TORCH), reason=f"not installed: {', '.join(_NO_TORCH)}")
    def test_a_network_that_returns_tensors_works_the_same(self, clip: Path) -> None:
        old, new = HubEmbedder(clip, "old"), HubEmbedder(clip, "new")
        model = old.network.model
        returns_object = model.get_image_features
        model.get_image_features = lambda **inputs: returns_object(**inputs).pooler_output
        np.testing.assert_array_equal(old.embed(pictures(2)), new.embed(pictures(2)))


class TestHub:
    """The hub's cache, laid out by hand: refs, blobs named by their digest, snapshots of links."""

    pytestmark = needs_torch
    repository = "openai/clip-vit-base-patch32"

    @pytest.fixture
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        import huggingface_hub

        place = tmp_path / "cache"
        place.mkdir()
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(place))
        return place

    @staticmethod
    def put(cache: Path, repository: str, folder: Path, commit: str = "c" * 40) -> Path:
        repo = cache / f"models--{repository.replace('/', '--')}"
        (repo / "refs").mkdir(parents=True, exist_ok=True)
        (repo / "refs" / "main").write_text(commit)
        (repo / "blobs").mkdir(exist_ok=True)
        snapshot = repo / "snapshots" / commit
        snapshot.mkdir(parents=True)
        for file in folder.iterdir():
            blob = repo / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
            shutil.copy(file, blob)
            (snapshot / file.name).symlink_to(blob)
        return snapshot

    def test_a_network_in_the_cache_goes_by_its_name(
        self, cache: Path, saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.put(cache, self.repository, saved["clip"])
        reads: list[str] = []
        monkeypatch.setattr(weights, "_read_sha256", lambda path, *rest: reads.append(path) or "")
        embedder = get_embedder("clip-vit-base-patch32")
        assert embedder.identity.name == "clip-vit-base-patch32"
        assert get_embedder(f"hub:{self.repository}").identity == embedder.identity
        assert embedder.embed(pictures(2)).shape == (2, 24)
        listed = {info.name: info for info in list_embedders()}["clip-vit-base-patch32"]
        assert (listed.available, listed.identity) == (True, embedder.identity)
        assert reads == []  # the cache names a file of weights by its digest
        monkeypatch.undo()
        assert get_embedder(f"dir:{saved['clip']}").identity.revision == embedder.identity.revision

    def test_another_commit_with_the_same_network_is_the_same(self, cache: Path, saved: dict[str, Path]) -> None:
        self.put(cache, "me/mine", saved["siglip"])
        before = get_embedder("hub:me/mine").identity
        self.put(cache, "me/mine", saved["siglip"], commit="d" * 40)
        assert get_embedder("hub:me/mine").identity == before
        pinned = get_embedder(f"hub:me/mine@{'c' * 40}").identity
        assert (pinned.revision, pinned.name) == (before.revision, f"hub:me/mine@{'c' * 40}")

    def test_nothing_is_downloaded_unasked(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = self.record_calls(monkeypatch)
        with pytest.raises(InputError) as caught:
            get_embedder("clip-vit-base-patch32")
        assert str(caught.value) == (
            "embedder 'clip-vit-base-patch32' is not available: not on this machine (0.6 GB): "
            "`hf download openai/clip-vit-base-patch32`, or set SAGEHAND_ALLOW_DOWNLOAD=1 (and no HF_HUB_OFFLINE)"
        )
        with pytest.raises(InputError, match="hf download me/mine --revision v2"):
            get_embedder("hub:me/mine@v2")
        assert not {i.name for i in list_embedders() if i.available} - {"efficientnet-lite0", "hash"}
        assert calls
        assert all(call["local_files_only"] for call in calls)

    def test_a_download_that_was_broken_off_is_told(self, cache: Path, saved: dict[str, Path]) -> None:
        snapshot = self.put(cache, self.repository, saved["clip"])
        (snapshot / "model.safetensors").unlink()
        (snapshot / "model.safetensors.index.json").write_text(
            '{"weight_map": {"a": "model-00001-of-00002.safetensors"}}'
        )
        with pytest.raises(
            InputError, match=r"parts of the weights are missing.*`hf download openai/clip-vit-base-patch32`"
        ):
            get_embedder("clip-vit-base-patch32")

    def test_offline_means_offline_even_when_downloads_are_allowed(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import huggingface_hub

        monkeypatch.setenv("SAGEHAND_ALLOW_DOWNLOAD", "1")
        monkeypatch.setattr(huggingface_hub, "is_offline_mode", lambda: True)
        calls = self.record_calls(monkeypatch)
        with pytest.raises(InputError, match="not on this machine"):
            get_embedder("siglip2-large-patch16-512")
        assert all(call["local_files_only"] for call in calls)

    def test_an_allowed_download_takes_safetensors_only(
        self, cache: Path, saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SAGEHAND_ALLOW_DOWNLOAD", "1")
        calls = self.record_calls(monkeypatch, lambda: self.put(cache, "me/mine", saved["clip"]))
        assert get_embedder("hub:me/mine").embed(pictures(1)).shape == (1, 24)
        (fetched,) = [call for call in calls if not call["local_files_only"]]
        assert "model.safetensors" in fetched["allow_patterns"]
        assert not any("bin" in pattern for pattern in fetched["allow_patterns"])

    def test_a_failed_download_is_one_line(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> None:
            raise ConnectionError("no route\nto host")

        monkeypatch.setenv("SAGEHAND_ALLOW_DOWNLOAD", "1")
        self.record_calls(monkeypatch, fail)
        with pytest.raises(InputError) as caught:
            get_embedder("hub:me/mine")
        assert str(caught.value) == (
            "me/mine cannot be downloaded: ConnectionError: no route (fetch it elsewhere and name its folder: dir:FOLDER)"
        )

    @staticmethod
    def record_calls(monkeypatch: pytest.MonkeyPatch, download: Any = None) -> list[dict[str, Any]]:
        import huggingface_hub

        local, calls = huggingface_hub.snapshot_download, []

        def snapshot_download(repository: str, **options: Any) -> str:
            calls.append(options)
            if not options["local_files_only"]:
                return str(download())
            return str(local(repository, **options))

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        return calls


def test_without_the_packages_the_list_and_the_error_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(network, "find_spec", lambda name: None)
    listed = {info.name: info for info in list_embedders()}
    assert set(hub.NAMED) < set(listed)
    for name in hub.NAMED:
        assert listed[name].why_not == "torch, transformers, safetensors not installed: pip install 'sagehand[torch]'"
        with pytest.raises(InputError, match=r"is not available: torch, .*pip install 'sagehand\[torch\]'"):
            get_embedder(name)
    with pytest.raises(MissingExtra, match=r"pip install 'sagehand\[torch\]'"):
        get_embedder(f"dir:{tmp_path}")


@pytest.mark.parametrize("name", ["hub:", "dir:", "onnx:"])
def test_a_place_without_a_name(name: str) -> None:
    with pytest.raises(InputError, match="names nothing"):
        get_embedder(name)


@pytest.mark.parametrize("name", ["hub:clip", "hub:a/b/c", "hub:../../etc", "hub:a/b@"])
def test_what_is_no_hub_id_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is no hub id"):
        get_embedder(name)


def test_another_place_is_an_unknown_name() -> None:
    with pytest.raises(UnknownName, match="or by place: hub:ORG/NAME, dir:FOLDER, onnx:FILE"):
        get_embedder("s3:bucket/clip")
    assert set(registry._PLACES) == {"hub", "dir", "onnx"}
