"""A case base by CLIP or SigLIP2, from import to decision, and the refusal of vectors that cannot be compared (K07)."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from command_line import LIBRARY, STEPS, run
from folders import write_rows
from sagehand.cases import CaseBase

_MISSING = [n for n in ("torch", "transformers", "safetensors", "onnx") if importlib.util.find_spec(n) is None]
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three phones in four steps; a step's pictures look alike."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SAGEHAND_MODELS", raising=False)
    rng = np.random.default_rng(0)
    scenes = rng.integers(0, 256, (4, 4, 4, 3)).astype(np.int16)
    place, rows = tmp_path / "phones", []
    place.mkdir()
    for device in "abc":
        for step, (previous, following) in enumerate(STEPS):
            pixels = np.clip(scenes[step] + rng.integers(-12, 13, (4, 4, 3)), 0, 255).astype(np.uint8)
            name = f"{device}{step}.png"
            Image.fromarray(pixels).resize((64, 48)).save(place / name)
            rows.append(
                {"file_name": name, "family": "phone", "device": device, "step": step, "next_action": following}
            )
            rows[-1] |= {"previous_action": previous}
    write_rows(place, rows)
    query = np.clip(scenes[1] + rng.integers(-12, 13, (4, 4, 3)), 0, 255).astype(np.uint8)
    Image.fromarray(query).resize((64, 48)).save("q.png")
    Path("actions.yaml").write_text(LIBRARY)
    return place


def predict() -> Any:
    ran = run("predict", "q.png", "--cases", "p.cases", "--actions", "actions.yaml", "--previous", "unscrew", "--json")
    assert ran.code == 0, ran.err
    return ran.json


@pytest.mark.parametrize("family", ["clip", "siglip", "siglip2"])
def test_import_decide_and_refuse_other_weights(family: str, folder: Path, tmp_path: Path) -> None:
    from tiny_networks import save

    save(tmp_path / "net", family)
    done = run("cases", "import", folder, "--into", "p.cases", "--embedder", "dir:net", "--json")
    assert (done.code, done.json["cases"]) == (0, 12), done.err
    with CaseBase.open("p.cases") as base:
        kept = base.embedder
    assert kept.name == f"dir:{tmp_path / 'net'}"
    decision = predict()
    assert decision["next_action"] == "pry"
    assert decision["case"]["step"] == 1

    shutil.rmtree("net")
    save(tmp_path / "net", family, seed=1)  # the same name, dimension and recipe
    for words in (
        ("predict", "q.png", "--cases", "p.cases", "--actions", "actions.yaml", "--previous", "unscrew"),
        ("cases", "import", folder, "--into", "p.cases"),
        ("cases", "add", "p.cases", "q.png", "--set", "family=phone", "--set", "device=d"),
    ):
        error = run(*words).error
        assert "p.cases holds vectors of" in error, words
        assert f"sagehand cases reembed p.cases --embedder {kept.name}" in error, words

    assert run("cases", "reembed", "p.cases", "--embedder", "dir:net").code == 0
    with CaseBase.open("p.cases") as base:
        assert base.embedder.revision != kept.revision
        assert base.embedder.dimension == kept.dimension
    assert predict()["next_action"] == "pry"


def test_from_torch_to_the_exported_file_by_reembed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiny_networks import save

    save(tmp_path / "net", "siglip")
    assert run("embedders", "export", "dir:net", "--out", "net.onnx").code == 0
    assert run("cases", "import", folder, "--into", "p.cases", "--embedder", "dir:net").code == 0
    original = predict()
    assert (
        "p.cases holds vectors of dir:"
        in run("cases", "import", folder, "--into", "p.cases", "--embedder", "onnx:net.onnx").error
    )
    assert run("cases", "reembed", "p.cases", "--embedder", "onnx:net.onnx").code == 0
    shutil.rmtree("net")
    quick = predict()
    assert quick["next_action"] == original["next_action"] == "pry"
    assert quick["case"]["id"] == original["case"]["id"]
    assert quick["case"]["similarity"] == pytest.approx(original["case"]["similarity"], abs=1e-4)
    # on another machine the file lies elsewhere
    (tmp_path / "robot").mkdir()
    shutil.move("net.onnx", "robot/net.onnx")
    assert (
        "there is no ONNX file at" in run("predict", "q.png", "--cases", "p.cases", "--actions", "actions.yaml").error
    )
    monkeypatch.setenv("SAGEHAND_MODELS", "robot")
    assert predict()["case"]["id"] == original["case"]["id"]
