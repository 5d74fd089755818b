"""A vision-language model with adapters, asked as the zero-shot method asks (paper A §4.4.2, Fig. 11)."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from pathlib import Path

from sagehand.embed.weights import read_json
from sagehand.files import write_whole
from sagehand.judge.prompts import Prompts
from sagehand.study.dataset.sample import Sample
from sagehand.study.learn.fine_tune import ADAPTER, fine_tune, model_folder, need_packages, read_tuning
from sagehand.study.learn.labels import samples_digest
from sagehand.study.learn.options import FineTuneOptions, read_options
from sagehand.study.methods.base import Answer, Bench
from sagehand.study.methods.eyes import prompts_of
from sagehand.study.methods.vlm import ZeroShot

__all__ = ["FineTunedMethod"]

_VERSION = 1  # of what is learnt from the same samples and options; goes into the digest
_CALL_SECONDS = 600.0


class FineTunedMethod:
    """A VLM, fine-tuned on the bench's training samples, that answers in this process.

    What it is compared with is an arm of the method ``zero-shot`` whose model is ``dir:`` and the same weights.

    Args:
        bench: With the options of :class:`~sagehand.study.learn.options.FineTuneOptions`. Its model and base are not used.

    Attributes:
        tuning: How it was fine-tuned.
    """

    name = "fine-tuned-vlm"

    def __init__(self, bench: Bench) -> None:
        options = read_options(FineTuneOptions, bench.arm.options, self.name)
        need_packages()
        from sagehand.vlm.ask import Vlm
        from sagehand.vlm.local import LocalBackend

        base = model_folder(options.weights)
        folder = bench.work / f"fine-tuned-{_digest(bench, base, options)}"
        tuning = read_tuning(folder)
        if tuning is None:
            about = {"weights": str(base), "options": options.model_dump(), "train": [s.key for s in bench.train]}
            write_whole(folder / "settings.json", json.dumps(about, indent=1).encode())
            tuning = fine_tune(bench, base, folder, options)
            gc.collect()  # the model that was trained goes before the one that answers comes
        self.tuning = tuning
        backend = LocalBackend(folder / ADAPTER, four_bit=options.four_bit)
        self.vlm = Vlm(backend, concurrency=1, call_seconds=_CALL_SECONDS, long_side=options.long_side)
        self._method = ZeroShot(replace(bench, vlm=self.vlm, base=None))

    def answer(self, sample: Sample) -> Answer:
        """Ask the model; one that gives no valid answer is told as a failure."""
        return self._method.answer(sample)

    def close(self) -> None:
        """Let go of the model."""
        self._method.close()
        self.vlm.close()


def _digest(bench: Bench, base: Path, options: FineTuneOptions) -> str:
    arm = bench.arm
    told = {
        "version": _VERSION,
        "weights": _weights(base),
        "options": {**options.model_dump(mode="json"), "weights": None},
        "asked": [arm.crop, arm.guard, arm.previous, arm.place, Prompts(prompts_of(bench)).digest],
        "library": bench.library.digest if bench.library else None,
        "seed": bench.seed,
        "train": len(bench.train),
    }
    return samples_digest([*bench.train, *bench.validation], told)


def _weights(folder: Path) -> list[list[object]]:
    """Names and sizes of the files of weights, and what the configuration says: 16 GB take too long to read each time."""
    files = sorted(folder.glob("*.safetensors"))
    return [*([f.name, f.stat().st_size] for f in files), [read_json(folder / "config.json")]]
