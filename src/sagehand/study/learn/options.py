"""What an arm may say of a training: options with their defaults and where those come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sagehand.errors import InputError, UnknownName

__all__ = ["BACKBONES", "ClassifierOptions", "FineTuneOptions", "read_options"]

BACKBONES = {
    "packaged": None,
    "clip": "openai/clip-vit-base-patch32",
    "resnet": "microsoft/resnet-152",
    "vit": "google/vit-base-patch16-224",
}
"""Backbones of image classifiers: name → name on the hub (paper A §3.3); None for the network in the package."""


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ClassifierOptions(_Options):
    """Options of an image classifier. Epochs and patience are the paper's (§4.4.1), which names no other.

    Attributes:
        backbone: A name in :data:`BACKBONES`. Of "packaged" only the head is trained; of the others the whole network.
        weights: Folder of the backbone's weights; None for the hub's cache. Not for "packaged".
        epochs: Most epochs.
        patience: Epochs without a lower validation loss after which training ends.
        lr: Learning rate of AdamW; None for 1e-3 for a head (the default of torch's Adam), 5e-5 for a whole network (the
            default of ``transformers``' trainer).
        batch: Pictures a step; 8 is the default of ``transformers``' trainer.
        weight_decay: Of AdamW; 0 as in ``transformers``' trainer.
    """

    backbone: Literal["packaged", "clip", "resnet", "vit"] = "packaged"
    weights: str | None = None
    epochs: int = Field(default=30, ge=1)
    patience: int = Field(default=2, ge=1)
    lr: float | None = Field(default=None, gt=0, allow_inf_nan=False, strict=False)  # YAML reads 5e-5 as a text
    batch: int = Field(default=8, ge=1)
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False, strict=False)

    @property
    def rate(self) -> float:
        """The learning rate that is used."""
        return self.lr if self.lr is not None else 1e-3 if self.backbone == "packaged" else 5e-5


class FineTuneOptions(_Options):
    """Options of a fine-tuned vision-language model. Epochs and early stopping are the paper's (§4.4.2).

    Attributes:
        weights: Folder of the model to fine-tune, or its name on the hub; needed.
        epochs: Most epochs.
        patience: Epochs without a lower validation loss after which training ends. The paper names none; 2 as for its
            classifiers.
        rank: Rank of the adapters, r (LoRA, arXiv 2106.09685).
        alpha: Their scale, α: what they add is multiplied by α / r.
        dropout: Share of an adapter's input that is dropped in training.
        targets: Names of the layers that get an adapter: the attention of the language model by default, as in LoRA §4.2
            and with the two that it leaves out.
        lr: Learning rate of AdamW; 1e-4 is the default that ``trl`` documents for LoRA ("10× that of full fine-tuning").
        batch: Pictures a step.
        weight_decay: Of AdamW.
        long_side: Longest side of a picture [px], in training and in answering alike.
        four_bit: Quantise the frozen weights to 4 bits (QLoRA), on a GPU.
    """

    weights: str = Field(min_length=1)
    epochs: int = Field(default=20, ge=1)
    patience: int = Field(default=2, ge=1)
    rank: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.05, ge=0, lt=1)
    targets: tuple[str, ...] = Field(default=("q_proj", "k_proj", "v_proj", "o_proj"), min_length=1, strict=False)
    lr: float = Field(default=1e-4, gt=0, allow_inf_nan=False, strict=False)
    batch: int = Field(default=1, ge=1)
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False, strict=False)
    long_side: int = Field(default=1024, ge=64)
    four_bit: bool = False


_Some = TypeVar("_Some", bound=_Options)


def read_options(kind: type[_Some], given: Mapping[str, Any], method: str) -> _Some:
    """Options of an arm, checked.

    Args:
        kind: The class of the options.
        given: As in the plan.
        method: The method's name, for errors.

    Raises:
        UnknownName: An option that the method does not have.
        InputError: A value that is not valid: names it and what is wrong.
    """
    for name in given:
        if name not in kind.model_fields:
            raise UnknownName(f"option of the method {method!r}", str(name), list(kind.model_fields))
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise InputError(
                f"the method {method!r} needs the option {name!r}", hint="name a folder of weights"
            ) from None
        said = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
        raise InputError(
            f"method {method!r}: option {name!r} is {first['input']!r}: {said}", hint="mend it in the arm's options"
        ) from None
