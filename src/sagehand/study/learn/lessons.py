"""Dialogues as what a network is trained on: tokens and patches, the loss on the answer alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sagehand.errors import InputError
from sagehand.study.dataset.sample import Sample
from sagehand.study.learn.dialogue import Teacher

if TYPE_CHECKING:
    from sagehand.vlm.weights import Weights

__all__ = ["Lessons"]


class Lessons:
    """Makes batches of dialogues: prompt and answer as tokens, the prompt kept out of the loss.

    Args:
        weights: The model, before anything is wrapped around it.
        teacher: Makes the dialogues.
        samples: All samples; a row of the data set is a place in it.
    """

    def __init__(self, weights: Weights, teacher: Teacher, samples: Sequence[Sample]) -> None:
        self._weights, self._teacher, self._samples = weights, teacher, samples
        ends, usual = weights.ends, weights.tokenizer.eos_token_id
        self._end = usual if usual in ends else ends[0]

    def __call__(self, rows: Sequence[Mapping[str, int]]) -> dict[str, Any]:
        """The input of a step."""
        return self._batch([self._one(self._samples[row["row"]]) for row in rows])

    def _one(self, sample: Sample) -> dict[str, Any]:
        import torch

        dialogue = self._teacher.dialogue(sample)
        made = {name: value.cpu() for name, value in self._weights.inputs(dialogue.messages, {}).items()}
        answer = [*self._weights.tokenizer(dialogue.answer, add_special_tokens=False)["input_ids"], self._end]
        told = torch.tensor([answer])
        prompt = made["input_ids"]
        made["labels"] = torch.cat([torch.full_like(prompt, -100), told], dim=1)
        for name, more in (("input_ids", told), ("attention_mask", told * 0 + 1), ("mm_token_type_ids", told * 0)):
            if name in made:
                made[name] = torch.cat([made[name], more.to(made[name].dtype)], dim=1)
        if made["input_ids"].shape[1] > self._weights.context:
            raise InputError(
                f"{sample.key}: {made['input_ids'].shape[1]} tokens are more than the {self._weights.context} that "
                f"{self._weights.name} takes",
                hint="give a smaller `long_side`",
            )
        return made

    def _batch(self, ones: list[dict[str, Any]]) -> dict[str, Any]:
        """Texts padded at the right; patches of all pictures one after the other, as the model takes them."""
        import torch

        fill = {"input_ids": self._weights.tokenizer.pad_token_id or 0, "labels": -100}
        longest = max(one["input_ids"].shape[1] for one in ones)
        batch = {}
        for name in ones[0]:
            parts = [one[name] for one in ones]
            if name in ("input_ids", "labels", "attention_mask", "mm_token_type_ids"):
                pad = torch.nn.functional.pad
                parts = [pad(p, (0, longest - p.shape[1]), value=fill.get(name, 0)) for p in parts]
            batch[name] = torch.cat(parts)
        return batch
