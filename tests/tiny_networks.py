"""Tiny random CLIP and SigLIP2 networks, saved as their real ones are: configuration, weights, tokenizer, processor."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

SIDE = 32
_SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 37,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def save(folder: Path, family: str, *, seed: int = 0, safe: bool = True) -> Path:
    """A network of a family ("clip", "siglip", "siglip2") in a folder.

    "siglip" is the layout of the SigLIP2 networks of fixed size (google/siglip2-large-patch16-512 is one), "siglip2" that
    of those which keep a picture's proportions.
    """
    import torch

    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    model, processor, tokenizer = {"clip": _clip, "siglip": _siglip, "siglip2": _naflex}[family]()
    with torch.no_grad():  # the usual start is so small that all vectors point the same way
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    if safe:
        model.save_pretrained(folder)
    else:
        model.config.save_pretrained(folder)
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    processor.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _clip() -> tuple[Any, Any, Any]:
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer

    letters = string.ascii_lowercase
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    text = {**_SMALL, "vocab_size": len(words), "max_position_embeddings": 77}
    text |= {"bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1, "pad_token_id": len(words) - 1}
    vision = {**_SMALL, "image_size": SIDE, "patch_size": 8}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    size = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
    tokenizer = CLIPTokenizer(vocab={word: i for i, word in enumerate(words)}, merges=[])
    return CLIPModel(config), CLIPImageProcessorPil(**size), tokenizer


def _siglip() -> tuple[Any, Any, Any]:
    from transformers import SiglipConfig, SiglipImageProcessorPil, SiglipModel

    text = {**_SMALL, "vocab_size": 40, "max_position_embeddings": 64}
    vision = {**_SMALL, "image_size": SIDE, "patch_size": 8}
    processor = SiglipImageProcessorPil(size={"height": SIDE, "width": SIDE}, resample=2)
    return SiglipModel(SiglipConfig(text_config=text, vision_config=vision)), processor, _gemma("GemmaTokenizer")


def _naflex() -> tuple[Any, Any, Any]:
    from transformers import Siglip2Config, Siglip2ImageProcessorPil, Siglip2Model

    text = {**_SMALL, "vocab_size": 40, "max_position_embeddings": 64}
    vision = {**_SMALL, "num_patches": 16, "patch_size": 8}
    processor = Siglip2ImageProcessorPil(patch_size=8, max_num_patches=24)
    return Siglip2Model(Siglip2Config(text_config=text, vision_config=vision)), processor, _gemma("Siglip2Tokenizer")


def _gemma(kind: str) -> Any:
    import transformers

    words = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *string.ascii_lowercase]
    vocab = {word: i for i, word in enumerate(words)}
    return getattr(transformers, kind)(vocab=vocab, merges=[], add_bos_token=False, add_eos_token=True)
