"""LoRA on a tiny Qwen3-VL from disk: the real trainer, the real adapters, the real question in process."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from learn_samples import bench, make_folder, of
from sagehand.errors import InputError, MissingExtra, SagehandError
from sagehand.study.dataset.sample import StudyData
from sagehand.study.learn import fine_tune as tuner
from sagehand.study.learn.dialogue import Teacher
from sagehand.study.learn.lessons import Lessons
from sagehand.study.methods.registry import make_method

NEEDED = ("torch", "transformers", "peft", "trl", "datasets", "accelerate", "xgrammar")
needs_all = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED), reason=f"needs {', '.join(NEEDED)}"
)
# what transformers says of a name that trl still uses
pytestmark = [
    pytest.mark.filterwarnings("ignore:`(is_)?gradient_checkpointing` is deprecated:FutureWarning"),
    pytest.mark.torch,
]
FEW = {"epochs": 2, "lr": 1e-3, "long_side": 64, "rank": 4}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> StudyData:
    return make_folder(tmp_path_factory.mktemp("data") / "set", views=1)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_qwen3vl import save_tiny

    return save_tiny(tmp_path_factory.mktemp("weights") / "Tiny-Qwen3-VL")


def of_folds(data: StudyData, base: Path, work: Path, **options: Any) -> Any:
    return bench(
        data,
        work,
        method="fine-tuned-vlm",
        train=of(data, "nokia"),
        validation=of(data, "fairphone"),
        options={"weights": str(base), **FEW, **options},
    )


@pytest.fixture(scope="module")
def method(data: StudyData, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import warnings

    with warnings.catch_warnings():  # a fixture is not covered by the marks
        warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing` is deprecated", FutureWarning)
        made = make_method(of_folds(data, base, tmp_path_factory.mktemp("work")))
    yield made
    made.close()


def weights_of(method: Any) -> Any:
    return method.vlm._desk.backend._writer._weights


def folder_of(work: Path) -> Path:
    return next(work.glob("fine-tuned-*"))


@needs_all
@pytest.mark.slow
def test_adapters_are_learnt_and_the_frozen_weights_stay(method: Any, base: Path) -> None:
    tuning = method.tuning
    assert (tuning.train, tuning.validation, tuning.left_out) == (3, 3, ())
    assert len(tuning.losses) == 2
    assert tuning.losses[1][0] < tuning.losses[0][0]  # type: ignore[operator]
    # 2 layers; rank 4: q and o are 64 × 64, k and v 64 × 32
    assert tuning.trained == 2 * 4 * (2 * (64 + 64) + 2 * (64 + 32))
    from safetensors.torch import load_file

    frozen = load_file(base / "model.safetensors")
    held = weights_of(method).model.state_dict()
    name = "model.language_model.layers.0.mlp.down_proj.weight"
    assert bool((frozen[name] == held[name]).all())
    adapters = {n: w for n, w in held.items() if "lora_B" in n}
    assert len(adapters) == 8
    assert all(bool((w != 0).any()) for w in adapters.values())  # B starts as zeros: it was trained, saved and loaded


@needs_all
@pytest.mark.slow
def test_the_model_that_answers_has_the_validation_loss_that_was_kept(
    data: StudyData, base: Path, method: Any, tmp_path: Path
) -> None:
    import torch

    weights = weights_of(method)
    teacher = Teacher(of_folds(data, base, tmp_path), profile=weights.profile, long_side=64)
    lessons, losses = Lessons(weights, teacher, of(data, "fairphone")), []
    for row in range(3):
        inputs = lessons([{"row": row}])
        labels = inputs.pop("labels")
        told = weights.tokenizer.decode(labels[labels != -100])
        assert told == teacher.dialogue(of(data, "fairphone")[row]).answer + "<|im_end|>"
        with torch.inference_mode():
            logits = weights.model(**inputs).logits
        losses.append(float(torch.nn.functional.cross_entropy(logits[0, :-1], labels[0, 1:], ignore_index=-100)))
    teacher.close()
    kept = method.tuning.losses[method.tuning.best - 1][1]
    assert np.mean(losses) == pytest.approx(kept, rel=1e-3)
    assert kept == min(pair[1] for pair in method.tuning.losses)


@needs_all
@pytest.mark.slow
def test_a_batch_of_two_is_the_two_padded(data: StudyData, base: Path, method: Any, tmp_path: Path) -> None:
    import torch

    weights = weights_of(method)
    teacher = Teacher(of_folds(data, base, tmp_path), profile=weights.profile, long_side=64)
    lessons = Lessons(weights, teacher, data.samples)
    both, alone = lessons([{"row": 0}, {"row": 2}]), lessons([{"row": 2}])
    teacher.close()
    length = alone["input_ids"].shape[1]
    assert both["input_ids"].shape[1] > length, "the first answer is the longer one"
    assert bool((both["labels"][1, length:] == -100).all())
    assert int(both["attention_mask"][1].sum()) == length
    with torch.inference_mode():
        labels = [batch.pop("labels") for batch in (both, alone)]
        two, one = (weights.model(**batch).logits for batch in (both, alone))
    np.testing.assert_allclose(two[1, :length].numpy(), one[0].numpy(), atol=1e-4)
    assert torch.equal(labels[0][1, :length], labels[1][0])


@needs_all
@pytest.mark.slow
def test_an_answer_is_a_valid_call_and_what_was_trained_is_used_again(
    data: StudyData, base: Path, method: Any, tmp_path: Path
) -> None:
    answer = method.answer(data.samples[0])
    assert answer.failure is None
    assert answer.usage.calls >= 1
    assert answer.previous_action is not None
    work = Path(weights_of(method).model.name_or_path).parents[1]
    folder = folder_of(work)
    assert not (folder / "course").exists()
    assert (folder / "adapter" / "model.safetensors").resolve() == (base / "model.safetensors").resolve()
    before = (folder / "adapter" / "adapter_model.safetensors").stat().st_mtime_ns
    again = make_method(of_folds(data, base, work))
    assert (folder / "adapter" / "adapter_model.safetensors").stat().st_mtime_ns == before
    assert again.answer(data.samples[0]).previous_action == answer.previous_action
    again.close()


@needs_all
@pytest.mark.slow
def test_a_tuning_that_was_broken_off_goes_on_to_the_same_adapters(
    data: StudyData, base: Path, method: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file
    from transformers import EarlyStoppingCallback

    class CtrlC(Exception):
        pass

    def break_off(self: Any, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.epoch >= 1:
            raise CtrlC

    with monkeypatch.context() as patch:
        patch.setattr(EarlyStoppingCallback, "on_epoch_begin", break_off)
        with pytest.raises(CtrlC):
            make_method(of_folds(data, base, tmp_path))
    folder = folder_of(tmp_path)
    assert tuner.read_tuning(folder) is None
    assert list((folder / "course").glob("checkpoint-*"))
    resumed = make_method(of_folds(data, base, tmp_path))
    resumed.close()
    assert resumed.tuning == method.tuning
    whole = load_file(Path(weights_of(method).model.name_or_path) / "adapter_model.safetensors")
    mine = load_file(folder / "adapter" / "adapter_model.safetensors")
    for name, weight in whole.items():
        np.testing.assert_allclose(mine[name].numpy(), weight.numpy(), atol=1e-6)


@needs_all
@pytest.mark.slow
def test_errors_name_what_is_wrong(data: StudyData, base: Path, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    wrong: list[dict[str, Any]] = [
        {"weights": str(tmp_path / "nowhere")},
        {"targets": ["no_such_layer"]},
        {"ranks": 3},
        {"rank": 0},
    ]
    texts = []
    for options in wrong:
        with pytest.raises(SagehandError) as caught:
            make_method(of_folds(data, base, tmp_path, **options))
        texts.append(str(caught.value).replace(str(tmp_path), "FOLDER"))
    texts[1] = texts[1].split("@")[0] + "…" + texts[1][-60:]  # the fingerprint of random weights differs
    assert texts == snapshot


def test_weights_must_be_named(data: StudyData, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the method 'fine-tuned-vlm' needs the option 'weights'"):
        make_method(bench(data, tmp_path, method="fine-tuned-vlm"))


def test_without_the_packages_the_extra_is_named(
    data: StudyData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuner, "find_spec", lambda name: None if name == "trl" else object())
    with pytest.raises(MissingExtra, match="'fine-tuned-vlm'") as caught:
        make_method(bench(data, tmp_path, method="fine-tuned-vlm", options={"weights": "x"}))
    assert "sagehand[finetune]" in caught.value.hint


def test_a_checkpoint_that_a_kill_tore_is_not_gone_on_from(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    assert tuner._last_whole(tmp_path) is None
    for step, state in ((3, "{}"), (6, '{"epoch": 2.'), (9, None)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(b"torn")
        if state is not None:
            (folder / "trainer_state.json").write_text(state)
    assert tuner._last_whole(tmp_path) == str(tmp_path / "checkpoint-3")
    assert [folder.name for folder in tmp_path.iterdir()] == ["checkpoint-3"]


def test_losses_are_read_from_the_trainers_log() -> None:
    log = [
        {"loss": 2.0, "epoch": 1.0}, {"eval_loss": 1.5, "epoch": 1.0}, {"loss": 1.0, "epoch": 2.0},
        {"eval_loss": 1.7, "epoch": 2.0}, {"train_loss": 1.5, "epoch": 2.0},
    ]  # fmt: skip
    losses = tuner._losses(log)
    assert losses == [(2.0, 1.5), (1.0, 1.7)]
    assert tuner._best(losses, validated=True) == 1
    assert tuner._best([(2.0, None), (1.0, None)], validated=False) == 2
    with pytest.raises(InputError, match="training diverged"):
        tuner._best([(1.0, float("nan"))], validated=True)
    assert json.dumps(losses)
