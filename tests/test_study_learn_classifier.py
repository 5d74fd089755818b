"""Image classifiers: the head on the packaged network for real, whole networks on tiny saved ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from learn_samples import DEVICES, bench, make_folder, of
from sagehand.errors import InputError, MissingExtra, SagehandError
from sagehand.study.dataset.sample import StudyData
from sagehand.study.learn import backbone as backbones
from sagehand.study.learn.backbone import HubBackbone, recipe_of
from sagehand.study.learn.classifier import Classifier, Said
from sagehand.study.learn.options import ClassifierOptions, read_options
from sagehand.study.methods.registry import make_method
from sagehand.study.methods.trained import ClassifierMethod, trained_method
from sagehand.study.run.record import TASKS, right_of

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Of the tiny networks here: more of them only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> StudyData:
    return make_folder(tmp_path_factory.mktemp("data") / "set")


@pytest.fixture(scope="module")
def made(data: StudyData, tmp_path_factory: pytest.TempPathFactory) -> ClassifierMethod:
    """Trained for real on the packaged network's features."""
    method = make_method(bench(data, tmp_path_factory.mktemp("work")))
    assert isinstance(method, ClassifierMethod)
    return method


def save_network(folder: Path, family: str, seed: int = 0) -> Path:
    """A tiny network with random weights and its processor, as a real one lies on disk."""
    from transformers import ConvNextImageProcessorPil, ViTImageProcessorPil

    if family == "clip":
        from tiny_networks import save

        return save(folder, "clip", seed=seed)
    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    if family == "vit":
        from transformers import ViTConfig, ViTForImageClassification

        small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
        ViTForImageClassification(ViTConfig(**small, image_size=32, patch_size=8, num_labels=3)).save_pretrained(folder)
        ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    else:
        from transformers import ResNetConfig, ResNetForImageClassification

        small = {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [2, 1], "layer_type": "basic"}
        ResNetForImageClassification(ResNetConfig(**small, num_labels=3)).save_pretrained(folder)
        ConvNextImageProcessorPil(size={"shortest_edge": 32}, crop_pct=0.875).save_pretrained(folder)
    return folder


def view(sample: Any) -> Any:
    from sagehand.picture import load

    return load(sample.path).pixels


def test_the_packaged_backbone_learns_what_new_views_show(data: StudyData, made: ClassifierMethod) -> None:
    new = of(data, *DEVICES, views=(3,))
    right = [right_of(sample, made.answer(sample)) for sample in new]
    for task in TASKS:
        assert np.mean([row[task] for row in right]) > 0.85, (
            task
        )  # chance: 1/4 of the next actions, 1/6 of what remains
    reports = made.classifier.reports
    assert set(reports) == set(TASKS)
    assert reports["next_action"].classes == ("end", "lift", "pry", "unscrew")
    assert reports["remaining_actions"].classes == (("lift",), ("pry", "lift"), ("pry", "unscrew"), ("unscrew",), ())
    assert (reports["is_last"].train, reports["is_last"].validation, reports["is_last"].unseen) == (18, 9, 0)


def test_answers_follow_the_labels_that_were_learnt(data: StudyData, tmp_path: Path) -> None:
    """The control of the test above: with every label moved on by one step, the answers are moved on, too."""
    moved = {"pry": "unscrew", "unscrew": "end", "lift": "end", "end": "pry"}

    def wrong(samples: Any) -> Any:
        return [replace(s, next_action=moved[str(s.next_action)]) for s in samples]

    train, validation = of(data, *DEVICES, views=(0, 1)), of(data, *DEVICES, views=(2,))
    method = make_method(bench(data, tmp_path, train=wrong(train), validation=wrong(validation)))
    new = of(data, *DEVICES, views=(3,))
    assert np.mean([right_of(s, method.answer(s))["next_action"] for s in wrong(new)]) > 0.85
    assert np.mean([right_of(s, method.answer(s))["next_action"] for s in new]) < 0.15


def test_only_the_head_of_the_packaged_backbone_is_trained(made: ClassifierMethod) -> None:
    from sagehand.embed.packaged import SHA256, EfficientNetLite0

    weights = torch.load(next(made.classifier.folder.glob("next_action/best.pt")), weights_only=True)["network"]
    assert {name: tuple(w.shape) for name, w in weights.items()} == {"weight": (4, 1280), "bias": (4,)}
    assert SHA256[:12] in json.loads((made.classifier.folder / "settings.json").read_text())["backbone"]
    features = backbones.PackagedBackbone().inputs([np.full((9, 9, 3), 70, np.uint8)])
    vector = EfficientNetLite0().embed([np.full((9, 9, 3), 70, np.uint8)])
    np.testing.assert_allclose(features / np.sqrt(1280), vector, rtol=1e-6)
    assert np.mean(features**2) == pytest.approx(1, rel=1e-5)


def test_an_answer_is_the_linear_head_on_the_features(data: StudyData, made: ClassifierMethod) -> None:
    sample = data.samples[5]
    weights = torch.load(made.classifier.folder / "is_last" / "best.pt", weights_only=True)["network"]
    logits = (
        weights["weight"].numpy() @ backbones.PackagedBackbone().inputs([view(sample)])[0] + weights["bias"].numpy()
    )
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    said = made.classifier.answer(view(sample))["is_last"]
    np.testing.assert_allclose(said.shares, shares, atol=1e-5)
    assert said.classes == (False, True)
    assert made.answer(sample).is_last is bool(shares[1] > shares[0])


def test_same_seed_same_answers_and_what_was_trained_is_used_again(data: StudyData, tmp_path: Path) -> None:
    quick = {"epochs": 2}
    first = make_method(bench(data, tmp_path / "a", options=quick))
    again = make_method(bench(data, tmp_path / "b", options=quick))
    other = make_method(bench(data, tmp_path / "b", options=quick, seed=1))
    sample = data.samples[0]
    assert first.answer(sample).confidence == again.answer(sample).confidence
    assert first.answer(sample).confidence != other.answer(sample).confidence
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "a").rglob("*.pt")}
    assert len(before) == len(TASKS)
    taken = make_method(bench(data, tmp_path / "a", options=quick))
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "a").rglob("*.pt")} == before
    assert taken.answer(sample).confidence == first.answer(sample).confidence
    assert isinstance(taken, ClassifierMethod)
    assert isinstance(first, ClassifierMethod)
    assert taken.classifier.reports == first.classifier.reports
    for more in ({"seed": 1}, {"options": {"epochs": 3}}, {"crop": "truth"}, {"train": of(data, "nokia")}):
        changed = make_method(bench(data, tmp_path / "a", **{"options": quick, **more}))
        assert isinstance(changed, ClassifierMethod)
        assert changed.classifier.folder != first.classifier.folder, more


def test_a_training_broken_off_between_two_tasks_goes_on(data: StudyData, tmp_path: Path) -> None:
    class CtrlC(Exception):
        pass

    def break_off(task: str, epoch: Any) -> None:
        if task == "next_action" and epoch.number == 1:
            raise CtrlC

    train, validation = of(data, *DEVICES, views=(0,)), of(data, *DEVICES, views=(1,))
    options = ClassifierOptions(epochs=3)
    whole = Classifier.train(train, validation, tmp_path / "a", options, view)
    with pytest.raises(CtrlC):
        Classifier.train(train, validation, tmp_path / "b", options, view, on_epoch=break_off)
    seen: list[tuple[str, int]] = []
    resumed = Classifier.train(
        train, validation, tmp_path / "b", options, view, on_epoch=lambda task, e: seen.append((task, e.number))
    )
    assert seen[0] == ("next_action", 2)
    assert "previous_action" not in {task for task, _ in seen}
    assert resumed.answer(view(train[0])) == whole.answer(view(train[0]))


def test_a_label_that_was_not_learnt_is_never_answered(data: StudyData, tmp_path: Path) -> None:
    phones, clocks = of(data, "nokia"), of(data, "junghans")
    method = trained_method(bench(data, tmp_path, train=phones, validation=clocks, options={"epochs": 3}))
    assert isinstance(method, ClassifierMethod)
    report = method.classifier.reports["next_action"]
    assert report.classes == ("end", "pry", "unscrew")
    assert (report.validation, report.unseen) == (12, 4)
    answers = [method.answer(sample) for sample in clocks]
    assert {a.next_action for a in answers} <= set(report.classes)
    lifts = [right_of(s, a)["next_action"] for s, a in zip(clocks, answers, strict=True) if s.next_action == "lift"]
    assert lifts == [False] * 4
    # not one validation device's family was learnt: no validation loss, and it is said so
    family = method.classifier.reports["device_class"]
    assert (family.course.by, family.unseen, family.validation_accuracy) == ("training", 12, 0.0)


def test_a_task_without_labels_has_no_answer(data: StudyData, tmp_path: Path) -> None:
    train = [replace(s, remaining_actions=None) for s in of(data, "nokia")]
    method = make_method(bench(data, tmp_path, train=train, validation=(), options={"epochs": 1}))
    answer = method.answer(train[0])
    assert answer.remaining_actions is None
    assert answer.next_action is not None
    blank = [replace(s, remaining_actions=None, is_last=None, next_action=None, previous_action=None) for s in train]
    with pytest.raises(InputError, match="none of the 12 training samples has a label of next_action"):
        Classifier.train(blank, (), tmp_path, ClassifierOptions(), view, tasks=("next_action",))


def test_the_guard_keeps_impossible_actions_from_being_answered(data: StudyData, tmp_path: Path) -> None:
    free = make_method(bench(data, tmp_path, options={"epochs": 2}))
    kept = make_method(bench(data, tmp_path, options={"epochs": 2}, guard=True))
    blind = make_method(bench(data, tmp_path, options={"epochs": 2}, guard=True, previous=False))
    for sample in data.samples:
        done = replace(sample, previous_action="none")  # nothing was done: the shells are closed, only pry is possible
        assert kept.answer(done).next_action == "pry"
        assert blind.answer(done).next_action == free.answer(done).next_action
    assert {free.answer(s).next_action for s in data.samples} > {"pry"}


def test_the_crop_is_that_of_the_arm(data: StudyData, tmp_path: Path) -> None:
    answer = make_method(bench(data, tmp_path, crop="truth", options={"epochs": 1})).answer(data.samples[0])
    assert answer.box == (4.0, 4.0, 33.0, 27.0)
    assert answer.size == (40, 40)
    assert {"load", "crop", "classify"} <= set(answer.timings)


def test_best_takes_the_first_of_equals_and_skips_what_is_ruled_out() -> None:
    said = Said(("a", "b", "c"), (0.4, 0.4, 0.2))
    assert said.best() == ("a", 0.4)
    assert said.best(("a",)) == ("b", 0.4)
    assert said.best(("a", "b", "c")) is None


@pytest.mark.parametrize("family", ["clip", "resnet", "vit"])
def test_a_whole_network_is_fine_tuned_saved_and_loaded(data: StudyData, tmp_path: Path, family: str) -> None:
    folder = save_network(tmp_path / "net", family)
    options = {"backbone": family, "weights": str(folder), "epochs": 3, "lr": 1e-3}
    method = make_method(bench(data, tmp_path / "work", options=options))
    assert isinstance(method, ClassifierMethod)
    course = method.classifier.reports["next_action"].course
    assert course.epochs[-1].train_loss < course.epochs[0].train_loss
    start = HubBackbone(folder, family).network(4).state_dict()
    trained = torch.load(method.classifier.folder / "next_action" / "best.pt", weights_only=True)["network"]
    # all but the weights that the class does not use: ViT's and CLIP's own position numbers never change
    moved = [n for n, w in trained.items() if w.is_floating_point() and not torch.equal(w, start[n])]
    assert len(moved) > 0.7 * len(trained), "the whole network, not the head alone"
    again = make_method(bench(data, tmp_path / "work", options=options))
    for sample in data.samples[::5]:
        assert again.answer(sample).extra == method.answer(sample).extra


@pytest.mark.parametrize(
    ("family", "config"),
    [
        ("vit", {"do_normalize": True, "do_resize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": 224}),
        (
            "resnet",
            {
                "crop_pct": 0.875, "do_normalize": True, "do_resize": True,
                "feature_extractor_type": "ConvNextFeatureExtractor", "image_mean": [0.485, 0.456, 0.406],
                "image_std": [0.229, 0.224, 0.225], "resample": 3, "size": 224,
            },
        ),
        ("resnet", {"size": {"shortest_edge": 384}}),
    ],
)  # fmt: skip
def test_pictures_are_made_as_the_networks_own_processor_makes_them(family: str, config: dict[str, Any]) -> None:
    """The files as published with google/vit-base-patch16-224 and microsoft/resnet-152."""
    from transformers import ConvNextImageProcessorPil, ViTImageProcessorPil

    kind = ViTImageProcessorPil if family == "vit" else ConvNextImageProcessorPil
    processor = kind(**{k: v for k, v in config.items() if k != "feature_extractor_type"})
    rng = np.random.default_rng(0)
    for height, width in ((480, 640), (300, 200), (224, 224)):
        pixels = np.kron(rng.integers(0, 256, (height // 20, width // 20, 3), np.uint8), np.ones((20, 20, 1), np.uint8))
        theirs = processor(pixels, return_tensors="np")["pixel_values"]
        ours = recipe_of(family, config).batch([pixels])["pixel_values"]
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).mean() < 2e-3
        assert np.quantile(np.abs(ours - theirs), 0.999) < 0.02  # of a range of about 4; a grey level is 0.016


def test_errors_name_what_is_wrong(
    data: StudyData, tmp_path: Path, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backbones.weights, "hub_folder", lambda *_, **__: None)
    vit = save_network(tmp_path / "vit", "vit")
    torn = save_network(tmp_path / "torn", "vit")
    from safetensors.torch import load_file, save_file

    held = load_file(torn / "model.safetensors")
    lost = sorted(name for name in held if "layer" in name)[0]
    save_file({n: w for n, w in held.items() if n != lost}, torn / "model.safetensors", metadata={"format": "pt"})
    wrong: list[dict[str, Any]] = [
        {"options": {"backbone": "alexnet"}},
        {"options": {"epoch": 3}},
        {"options": {"epochs": 0}},
        {"options": {"lr": "fast"}},
        {"options": {"weights": str(vit)}},
        {"options": {"backbone": "resnet"}},
        {"options": {"backbone": "resnet", "weights": str(vit)}},
        {"options": {"backbone": "vit", "weights": str(torn)}},
        {"options": {"backbone": "clip", "weights": str(tmp_path / "nowhere")}},
        {"risk": 0.1},
        {"domain": True},
    ]
    texts = []
    for arm in wrong:
        with pytest.raises(SagehandError) as caught:
            make_method(bench(data, tmp_path / "work", **arm))
        texts.append(str(caught.value).replace(str(tmp_path), "FOLDER"))
    assert texts == snapshot


def test_a_rate_as_yaml_reads_it() -> None:
    """YAML 1.1 takes 5e-5, without a dot, for a text."""
    import yaml

    given = yaml.safe_load("{lr: 5e-5, epochs: 3}")
    assert given["lr"] == "5e-5"
    assert read_options(ClassifierOptions, given, "classifier").rate == 5e-5
    assert ClassifierOptions().rate == 1e-3
    assert ClassifierOptions(backbone="vit").rate == 5e-5


def test_without_torch_the_extra_is_named(data: StudyData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbones, "missing_packages", lambda: ["torch"])
    with pytest.raises(MissingExtra, match="'classifier'") as caught:
        make_method(bench(data, tmp_path))
    assert "sagehand[torch]" in caught.value.hint
