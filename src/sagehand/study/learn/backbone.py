"""What an image classifier looks with: from pictures to a network's input, and a network with a new head on it.

Of the packaged EfficientNet-Lite0 only the head is trained, a linear layer on its frozen features. Of the networks of paper A
§3.3 (CLIP, ResNet-152, ViT) every weight is, from the hub's weights on; the head is the one that ``transformers`` puts on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sagehand.embed import weights
from sagehand.embed.network import missing_packages
from sagehand.embed.recipe import Recipe
from sagehand.errors import InputError, MissingExtra
from sagehand.study.learn.options import BACKBONES, ClassifierOptions

__all__ = ["Backbone", "HubBackbone", "PackagedBackbone", "make_backbone", "recipe_of"]


class Backbone(Protocol):
    """Makes inputs of pictures, and networks that take them.

    Attributes:
        identity: What tells these weights and this preprocessing from others.
        light: Whether inputs are small enough to be kept, and dear enough to be kept.
    """

    identity: str
    light: bool

    def inputs(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(n, …) inputs of (H, W, 3) RGB pictures."""
        ...

    def network(self, classes: int) -> Any:
        """A torch module with a new head for so many classes; its first weights are drawn from torch's generator."""
        ...

    def logits(self, network: Any, inputs: Any) -> Any:
        """(n, classes) tensor of a network's answers to a tensor of inputs."""
        ...


def make_backbone(options: ClassifierOptions) -> Backbone:
    """The backbone that the options name.

    Raises:
        MissingExtra: torch or transformers is not installed.
        InputError: The weights are not on this machine, or are another network's.
    """
    if missing_packages():
        raise MissingExtra("the method 'classifier'", "torch")
    if options.backbone == "packaged":
        if options.weights is not None:
            raise InputError(
                f"the backbone 'packaged' brings its own weights, not {options.weights!r}",
                hint="leave out `weights`, or name the backbone that they are for: clip, resnet, vit",
            )
        return PackagedBackbone()
    return HubBackbone(_folder(options.backbone, options.weights), options.backbone)


class PackagedBackbone:
    """The packaged EfficientNet-Lite0, frozen, with a linear head.

    A unit vector of d numbers is multiplied by √d: then its entries have a mean square of 1, the scale that learning rates
    are made for.
    """

    light = True

    def __init__(self) -> None:
        from sagehand.embed import get_embedder

        self._embedder = get_embedder("efficientnet-lite0")
        known = self._embedder.identity
        self._dimension = known.dimension
        self.identity = f"{known.name}@{known.revision}/{known.preprocessing}, frozen, linear head"

    def inputs(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(n, 1280) features."""
        return self._embedder.embed(pictures) * np.float32(np.sqrt(self._dimension))

    def network(self, classes: int) -> Any:
        """A linear layer."""
        import torch

        return torch.nn.Linear(self._dimension, classes)

    def logits(self, network: Any, inputs: Any) -> Any:
        """(n, classes)."""
        return network(inputs)


class HubBackbone:
    """A CLIP, ResNet or ViT as ``transformers`` classifies with it; every weight is trained.

    Args:
        folder: Its folder, as ``transformers`` saves it. Nothing else is looked at, and nothing is downloaded.
        family: "clip", "resnet" or "vit".

    Raises:
        InputError: The folder holds another network, or is not whole.
    """

    light = False

    def __init__(self, folder: Path, family: str) -> None:
        config = weights.read_json(folder / "config.json")
        found = config.get("model_type")
        if found != family:
            raise InputError(f"{folder} holds a network of the family {found!r}, not {family!r}")
        self.folder, self.family = folder, family
        self.recipe = recipe_of(family, weights.processor_config(folder))
        self.identity = f"{folder.name}@{weights.revision_of(folder)}/{self.recipe.digest}, whole network"

    def inputs(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(n, 3, H, W) pictures by the network's own recipe."""
        values: NDArray[np.float32] = self.recipe.batch(pictures)["pixel_values"]
        return values

    def network(self, classes: int) -> Any:
        """The network with the saved weights and a new head."""
        import torch
        from transformers import AutoModelForImageClassification

        from sagehand.embed.network import quiet_loading

        try:
            with quiet_loading():
                model, report = AutoModelForImageClassification.from_pretrained(
                    str(self.folder),
                    num_labels=classes,
                    ignore_mismatched_sizes=True,  # the head that it came with is for other classes
                    local_files_only=True,
                    dtype=torch.float32,
                    output_loading_info=True,
                )
        except Exception as error:  # the library has no tree of errors of its own
            first = (str(error).strip().splitlines() or [""])[0]
            raise InputError(
                f"{self.folder}: the network cannot be loaded: {type(error).__name__}: {first}",
                hint="the folder must be a whole one, as transformers saves it",
            ) from error
        lost = sorted(name for name in report["missing_keys"] if not name.startswith("classifier."))
        if lost:  # the library would go on with random numbers in their place
            raise InputError(f"{self.folder}: {len(lost)} weights are missing, the first is {lost[0]}")
        # one draw for every head, also where the saved one happened to have as many classes
        for part in model.classifier.modules():
            if isinstance(part, torch.nn.Linear):
                part.reset_parameters()
        return model

    def logits(self, network: Any, inputs: Any) -> Any:
        """(n, classes)."""
        return network(pixel_values=inputs).logits


def recipe_of(family: str, config: Mapping[str, Any]) -> Recipe:
    """How a network wants its pictures, from its processor's file.

    ViT stretches the whole picture. ResNet's processor (ConvNeXt's) makes the shorter side ``size / crop_pct`` and cuts the
    middle square out of it, and from 384 on stretches; CLIP cuts the middle square.

    Args:
        family: "clip", "resnet" or "vit".
        config: The file; what it leaves out is the family's default.

    Raises:
        InputError: It asks for something that is not done here.
    """
    given = {k: v for k, v in config.items() if v is not None}
    if family == "clip":
        return Recipe.from_config("clip", given)
    if family == "vit":
        return Recipe.from_config("siglip", {"resample": 2, **given})
    size = given.get("size", 384)
    side = int(size if isinstance(size, int) else size.get("shortest_edge", 384))
    asked = {"resample": 3, "image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5), **given}
    if side >= 384:
        return Recipe.from_config("siglip", {**asked, "size": {"height": side, "width": side}})
    shorter = int(side / float(given.get("crop_pct", 224 / 256)))
    middle = {"size": {"shortest_edge": shorter}, "crop_size": {"height": side, "width": side}, "do_center_crop": True}
    return Recipe.from_config("clip", {**asked, **middle})


def _folder(family: str, named: str | None) -> Path:
    if named is not None:
        return weights.find_path(named, "folder")
    repository = str(BACKBONES[family])
    folder = weights.hub_folder(repository, fetch=weights.fetch_allowed())
    if folder is None:
        raise InputError(
            f"the backbone {family!r} ({repository}) is not on this machine",
            hint=f"`hf download {repository}`, name its folder as the option `weights`, or set SAGEHAND_ALLOW_DOWNLOAD=1",
        )
    return folder
