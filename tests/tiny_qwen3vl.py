"""A Qwen3-VL of random weights and half a million parameters, written to disk as a real one lies there.

A random model does not end a text by itself. So one direction of its state is held up, and the closing quote and
bracket lean on it, blanks lean away: texts and lists end soon, where a grammar lets them. What else is said is left to chance.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

IMAGE, VIDEO, START, END = "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", START, END, IMAGE, VIDEO)
UPHELD, LEAN = 1.0, {'"': 2.0, "]": 1.0, "Ġ": -2.0, "Ċ": -2.0, "č": -2.0, "ĉ": -2.0}  # the last four: blanks
WORDS = (
    '{"reasoning": "the same device seen from above", "call": {"tool": "GradeImage", "score": 7}} user system assistant'
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_tiny(folder: Path) -> Path:
    """Write model, tokenizer and processor; returns the folder."""
    import torch
    from transformers import Qwen2VLImageProcessorPil, Qwen3VLForConditionalGeneration

    tokenizer = _tokenizer()
    torch.manual_seed(3)
    model = Qwen3VLForConditionalGeneration(_config(tokenizer)).eval()
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model.generation_config.pad_token_id = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    model.save_pretrained(folder)
    half = [0.5, 0.5, 0.5]
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, temporal_patch_size=2, image_mean=half, image_std=half,
        size={"shortest_edge": 64 * 64, "longest_edge": 512 * 512},
    ).save_pretrained(folder)  # fmt: skip
    bend(folder)
    return folder


def bend(folder: Path) -> None:
    """Make the random weights of a tiny Qwen3-VL on disk end their texts, and heed what they are shown."""
    from safetensors.torch import load_file, save_file
    from tokenizers import Tokenizer

    file = folder / "model.safetensors"
    weights = load_file(file)
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
    weights["model.language_model.embed_tokens.weight"][:, 0] = UPHELD
    for token, lean in LEAN.items():
        weights["lm_head.weight"][tokens.token_to_id(token), 0] += lean
    for name in weights:
        if name.startswith("model.language_model") and ("v_proj" in name or "o_proj" in name):
            weights[name] *= 6
        if name.startswith("model.language_model") and ("o_proj" in name or "down_proj" in name):
            weights[name][0] = 0  # no layer moves the direction that is held up
    save_file(weights, file, metadata={"format": "pt"})


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bytes_to_text = Tokenizer(models.BPE())
    bytes_to_text.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_to_text.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=list(SPECIAL), initial_alphabet=alphabet)
    bytes_to_text.train_from_iterator([WORDS] * 10, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bytes_to_text,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens={
            "image_token": IMAGE, "video_token": VIDEO, "vision_start_token": START, "vision_end_token": END,
        },
    )  # fmt: skip


def _config(tokenizer: Any) -> Any:
    from transformers import Qwen3VLConfig

    number = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [8, 4, 4], "mrope_interleaved": True}
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 16_384,
            "rope_parameters": rope, "eos_token_id": number("<|im_end|>"), "pad_token_id": number("<|endoftext|>"),
        },
        vision_config={
            "depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2, "out_hidden_size": 64,
            "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=number(IMAGE), video_token_id=number(VIDEO),
        vision_start_token_id=number(START), vision_end_token_id=number(END), tie_word_embeddings=False,
    )  # fmt: skip
