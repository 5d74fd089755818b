"""A network exported to ONNX: the original's vectors, an identity of its own, and no torch."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from command_line import run
from sagehand.embed import export as exporting
from sagehand.embed import get_embedder
from sagehand.embed.export import export
from sagehand.embed.onnx_file import KEY, OnnxEmbedder, data_file
from sagehand.errors import InputError, MissingExtra, SagehandError

_MISSING = [n for n in ("torch", "transformers", "safetensors", "onnx") if importlib.util.find_spec(n) is None]
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}"),
]


def pictures(count: int) -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, (20 + 7 * i, 60 - 2 * i, 3), dtype=np.uint8) for i in range(count)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from tiny_networks import save

    root = tmp_path_factory.mktemp("networks")
    return {family: save(root / family, family) for family in ("clip", "siglip", "siglip2")}


@pytest.fixture(scope="module")
def files(saved: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("exported")
    made = {family: root / f"{family}.onnx" for family in ("clip", "siglip")}
    for family, file in made.items():
        assert export(f"dir:{saved[family]}", file).difference < 1e-5
    return made


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SAGEHAND_MODELS", raising=False)


@pytest.mark.parametrize("family", ["clip", "siglip"])
def test_the_vectors_are_those_of_the_original(family: str, saved: dict[str, Path], files: dict[str, Path]) -> None:
    original, made = get_embedder(f"dir:{saved[family]}"), get_embedder(f"onnx:{files[family]}", threads=1)
    seen = [*pictures(18), np.zeros((1, 1, 3), np.uint8)]
    assert np.abs(made.embed(seen) - original.embed(seen)).max() <= 1e-4
    assert made.embed([]).shape == (0, original.identity.dimension)
    for part in ("dimension", "preprocessing"):
        assert getattr(made.identity, part) == getattr(original.identity, part)
    assert made.identity.name == f"onnx:{files[family]}"
    assert made.identity.revision == hashlib.sha256(files[family].read_bytes()).hexdigest()[:12]


def test_it_runs_without_torch_transformers_and_onnx(files: dict[str, Path]) -> None:
    code = (
        "import sys, numpy as np\n"
        "for name in ('torch', 'transformers', 'onnx', 'safetensors', 'huggingface_hub'): sys.modules[name] = None\n"
        "from sagehand.embed import get_embedder\n"
        f"e = get_embedder('onnx:{files['siglip']}')\n"
        "assert 'onnxruntime' not in sys.modules, 'the identity is known without it'\n"
        "print(e.embed([np.zeros((480, 640, 3), np.uint8)]).shape, e.identity.dimension)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(1, 32) 32\n", "")


def test_the_same_network_gives_the_same_file_from_any_folder(
    saved: dict[str, Path], files: dict[str, Path], tmp_path: Path
) -> None:
    from tiny_networks import save

    again = export(f"dir:{save(tmp_path / 'copy', 'clip')}", tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == files["clip"].read_bytes()
    other = export(f"dir:{save(tmp_path / 'other', 'clip', seed=1)}", tmp_path / "other.onnx")
    assert (tmp_path / "other.onnx").stat().st_size == files["clip"].stat().st_size
    assert other.identity.revision != again.identity.revision


def test_a_network_over_2_gb_has_its_weights_in_a_second_file(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "_ONE_FILE", 1000)
    done = export(f"dir:{saved['clip']}", tmp_path / "clip.onnx")
    assert done.files == (tmp_path / "clip.onnx", tmp_path / "clip.onnx.data")
    seen = pictures(2)
    original = get_embedder(f"dir:{saved['clip']}").embed(seen)
    assert np.abs(get_embedder(done.embedder).embed(seen) - original).max() <= 1e-4
    weights = data_file(tmp_path / "clip.onnx")
    held = bytearray(weights.read_bytes())
    held[-1] ^= 1
    used = get_embedder(done.embedder)
    weights.write_bytes(held)
    with pytest.raises(InputError, match="was changed while it was in use"):
        used.embed(seen)
    assert get_embedder(done.embedder).identity.revision != done.identity.revision  # the second file counts too
    weights.unlink()
    with pytest.raises(InputError, match="cannot be loaded"):
        get_embedder(done.embedder).embed(seen)


def test_nothing_is_written_when_the_vectors_differ(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "_difference", lambda original, made: float("nan"))
    with pytest.raises(SagehandError, match="was not exported: a vector of the file differs by nan"):
        export(f"dir:{saved['clip']}", tmp_path / "clip.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_fault_in_the_exporter_is_one_line(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("no symbol for aten::new_thing\nand more")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(
        SagehandError, match=r"cannot be exported: RuntimeError: no symbol for aten::new_thing \(please"
    ):
        export(f"dir:{saved['clip']}", tmp_path / "clip.onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported_says_why(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="takes pictures in their own proportions"):
        export(f"dir:{saved['siglip2']}", tmp_path / "a.onnx")
    with pytest.raises(InputError, match="'hash' is not one that transformers loads"):
        export("hash", tmp_path / "a.onnx")
    (tmp_path / "there.onnx").write_text("mine")
    with pytest.raises(InputError, match=r"there.onnx is there already"):
        export(f"dir:{saved['clip']}", tmp_path / "there.onnx")
    assert (tmp_path / "there.onnx").read_text() == "mine"
    with pytest.raises(InputError, match="cannot be written"):
        export(f"dir:{saved['clip']}", tmp_path / "there.onnx" / "a.onnx")
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'sagehand\[export\]'"):
        export(f"dir:{saved['clip']}", tmp_path / "a.onnx")


def test_a_file_that_is_not_ours_is_told_apart(files: dict[str, Path], tmp_path: Path) -> None:
    from sagehand.embed import packaged

    with pytest.raises(InputError, match=r"does not say how its input is made \(make one with"):
        get_embedder(f"onnx:{packaged._FILE}")
    file = tmp_path / "x.onnx"
    with pytest.raises(InputError, match="there is no ONNX file at"):
        get_embedder(f"onnx:{file}")
    with pytest.raises(InputError, match="cannot be read"):
        get_embedder(f"onnx:{tmp_path}")
    for text in (b"version https://git-lfs.github.com/spec/v1\n", b"", b"\xff" * 40, b"\x0b\x00"):
        file.write_bytes(text)
        with pytest.raises(InputError, match=r"is no ONNX file|does not say"):
            get_embedder(f"onnx:{file}")
    whole = files["clip"].read_bytes()
    for length in range(0, len(whole), len(whole) // 40):
        file.write_bytes(whole[:length])
        with pytest.raises(InputError):
            get_embedder(f"onnx:{file}")


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ('{"format": 2}', "is of the format 2; this sagehand reads 1"),
        ("{}", "metadata is damaged"),
        ("nonsense", "metadata is damaged"),
        ('{"format": 1, "dimension": 24, "recipe": {}}', "recipe of a picture's input cannot be read"),
        ('{"format": 1, "dimension": "24", "recipe": null}', "cannot be read"),
    ],
)
def test_metadata_of_another_kind_is_refused(told: str, text: str, files: dict[str, Path], tmp_path: Path) -> None:
    import onnx

    model = onnx.load(str(files["clip"]))
    model.metadata_props[0].value = told
    onnx.save(model, str(tmp_path / "x.onnx"))
    with pytest.raises(InputError, match=text):
        get_embedder(f"onnx:{tmp_path / 'x.onnx'}")


def test_a_dimension_that_the_graph_does_not_have_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    import onnx

    model = onnx.load(str(files["clip"]))
    (entry,) = model.metadata_props
    assert entry.key == KEY
    entry.value = json.dumps(json.loads(entry.value) | {"dimension": 25})
    onnx.save(model, str(tmp_path / "x.onnx"))
    with pytest.raises(InputError, match=r"vectors have the shape \['n', 24\], not \(n, 25\)"):
        OnnxEmbedder(tmp_path / "x.onnx", "x").embed(pictures(1))


def test_the_command(saved: dict[str, Path], tmp_path: Path) -> None:
    ran = run("embedders", "export", f"dir:{saved['clip']}", "--out", "clip.onnx", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["embedder"] == f"onnx:{tmp_path / 'clip.onnx'}"
    assert ran.json["files"] == [str(tmp_path / "clip.onnx")]
    assert ran.json["difference"] <= 1e-4
    again = run("embedders", "export", f"dir:{saved['clip']}", "--out", "clip.onnx")
    assert "clip.onnx is there already" in again.error
    told = run("embedders", "export", f"dir:{saved['clip']}", "--out", "new/clip.onnx")
    assert told.code == 0
    assert told.out.endswith(f"use it as: --embedder onnx:{tmp_path / 'new' / 'clip.onnx'}\n")
    assert "unknown embedder" in run("embedders", "export", "clop", "--out", "x.onnx").error
