"""A vision-language model fine-tuned by adapters (LoRA, arXiv 2106.09685) with ``peft`` and ``trl`` (paper A §4.4.2).

At most so many epochs; the end comes when the validation loss was not lower for ``patience`` epochs; the adapters of the lowest
one are kept. The loss is that of the answer alone, token by token as the model will have to write it: what stands before it is
the very prompt of the zero-shot question. Without validation samples every epoch is run, and the last one is kept.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sagehand.embed.weights import fetch_allowed, find_path, hub_folder, weight_files
from sagehand.errors import InputError, MissingExtra
from sagehand.files import write_whole
from sagehand.study.dataset.sample import Sample
from sagehand.study.learn.course import TRAINING
from sagehand.study.learn.dialogue import Teacher
from sagehand.study.learn.lessons import Lessons
from sagehand.study.learn.options import FineTuneOptions
from sagehand.study.methods.base import Bench

if TYPE_CHECKING:
    from sagehand.vlm.weights import Weights

__all__ = ["ADAPTER", "Tuning", "fine_tune", "model_folder", "need_packages", "read_tuning"]

ADAPTER = "adapter"
"""Folder of the adapters, with all that a model in process is loaded from; the frozen weights are linked to, not copied."""
_REPORT, _COURSE = "report.json", "course"
_PACKAGES = ("torch", "transformers", "peft", "trl", "accelerate", "datasets", "xgrammar")


@dataclass(frozen=True)
class Tuning:
    """How a model was fine-tuned.

    Attributes:
        losses: For each epoch (training, validation) mean cross-entropy of an answer's token [nats]; None for no validation.
        best: Number, from 1, of the epoch whose adapters are kept.
        ended: "patience" or "epochs".
        train: Dialogues that were learnt from.
        validation: Dialogues that decided when to stop.
        left_out: (key, reason) of samples that make no dialogue.
        trained: Numbers that were trained.
        frozen: Numbers that were not.
    """

    losses: tuple[tuple[float | None, float | None], ...]
    best: int
    ended: Literal["patience", "epochs"]
    train: int
    validation: int
    left_out: tuple[tuple[str, str], ...]
    trained: int
    frozen: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def need_packages() -> None:
    """Check that all that fine-tuning needs is installed.

    Raises:
        MissingExtra: Something is not.
    """
    if any(find_spec(name) is None for name in _PACKAGES):
        raise MissingExtra("the method 'fine-tuned-vlm'", "finetune")


def model_folder(named: str) -> Path:
    """The folder of a model's weights: a path, or a name on the hub whose files are in the cache.

    Raises:
        InputError: It is at neither place.
    """
    if Path(named).expanduser().is_dir():
        return Path(named).expanduser().absolute()
    if re.fullmatch(r"[\w.-]+/[\w.-]+", named) and (folder := hub_folder(named, fetch=fetch_allowed())) is not None:
        return folder
    return find_path(named, "folder of weights or model on the hub").absolute()


def read_tuning(folder: Path) -> Tuning | None:
    """The tuning that has ended in a folder, or None."""
    path = folder / _REPORT
    if not path.exists() or not (folder / ADAPTER / "adapter_config.json").exists():
        return None
    doc = json.loads(path.read_text(encoding="utf-8"))
    pairs = {name: tuple(map(tuple, doc[name])) for name in ("losses", "left_out")}
    return Tuning(**{**doc, **pairs})


def fine_tune(bench: Bench, base: Path, folder: Path, options: FineTuneOptions) -> Tuning:
    """Fine-tune on ``bench.train``; goes on from the last epoch where a training was broken off in ``folder``.

    Args:
        bench: Its arm says how the samples are asked about.
        base: Folder of the model's weights.
        folder: Gets ``adapter/``, and ``course/`` with the checkpoints as long as it trains.
        options: The training.

    Raises:
        MissingExtra: peft, trl or what they need is not installed.
        InputError: The weights cannot be loaded, no training sample makes a dialogue, no layer has a name of ``targets``, or
            training diverged.
    """
    need_packages()
    from sagehand.vlm.weights import load_weights

    weights = load_weights(base, device=None, dtype="auto", four_bit=options.four_bit, download=False, revision=None)
    teacher = Teacher(bench, profile=weights.profile, long_side=options.long_side)
    try:
        train, lost = teacher.dialogues(bench.train)
        validation, more_lost = teacher.dialogues(bench.validation)
        if not train:
            reason = lost[0][1] if lost else "there is none"
            raise InputError(
                f"no training sample makes a dialogue: {reason}", hint="label the pictures in metadata.jsonl"
            )
        with TRAINING, _own_chance():
            tuning = _train(weights, teacher, train, validation, folder, options, bench.seed, (*lost, *more_lost))
        _link_weights(base, folder / ADAPTER)
    finally:
        teacher.close()
    write_whole(folder / _REPORT, json.dumps(tuning.to_dict(), indent=1, ensure_ascii=False).encode())
    shutil.rmtree(folder / _COURSE, ignore_errors=True)
    return tuning


def _train(
    weights: Weights,
    teacher: Teacher,
    train: Sequence[Sample],
    validation: Sequence[Sample],
    folder: Path,
    options: FineTuneOptions,
    seed: int,
    lost: tuple[tuple[str, str], ...],
) -> Tuning:
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import EarlyStoppingCallback, PrinterCallback
    from trl import SFTTrainer

    course = folder / _COURSE
    course.mkdir(parents=True, exist_ok=True)
    lessons = Lessons(weights, teacher, [*train, *validation])
    try:
        trainer = SFTTrainer(
            model=weights.model,
            args=_settings(weights, course, options, seed, validated=bool(validation)),
            data_collator=lessons,
            train_dataset=Dataset.from_dict({"row": list(range(len(train)))}),
            eval_dataset=Dataset.from_dict({"row": list(range(len(train), len(train) + len(validation)))})
            if validation
            else None,
            processing_class=weights.tokenizer,
            callbacks=[EarlyStoppingCallback(options.patience)] if validation else [],
            peft_config=LoraConfig(
                task_type="CAUSAL_LM",
                r=options.rank,
                lora_alpha=options.alpha,
                lora_dropout=options.dropout,
                target_modules=list(options.targets),
            ),
        )
    except ValueError as error:  # peft: no layer of such a name
        raise InputError(
            f"{weights.name}: the adapters cannot be made: {' '.join(str(error).split())[:200]}",
            hint="name layers of the model in the option `targets`",
        ) from error
    trainer.remove_callback(PrinterCallback)  # it prints to stdout, which is for results
    trainer.train(resume_from_checkpoint=_last_whole(course))
    losses = _losses(trainer.state.log_history)
    adapter = folder / ADAPTER
    trainer.model.save_pretrained(str(adapter))
    for part in (trainer.model.config, weights.tokenizer, weights.images):
        part.save_pretrained(str(adapter))
    numbers = [(p.numel(), p.requires_grad) for p in trainer.model.parameters()]
    best = _best(losses, validated=bool(validation))
    early = bool(validation) and len(losses) - best >= options.patience
    return Tuning(
        tuple(losses),
        best,
        "patience" if early else "epochs",
        len(train),
        len(validation),
        lost,
        sum(n for n, learns in numbers if learns),
        sum(n for n, learns in numbers if not learns),
    )


def _last_whole(course: Path) -> str | None:
    """The last checkpoint to go on from, or None; one that a kill tore is taken away: the trainer writes its state last."""
    from transformers.trainer_utils import get_last_checkpoint

    while (last := get_last_checkpoint(str(course))) is not None:
        try:
            json.loads((Path(last) / "trainer_state.json").read_text(encoding="utf-8"))
            break
        except (FileNotFoundError, ValueError):
            shutil.rmtree(last)
    return None if last is None else str(last)


def _link_weights(base: Path, adapter: Path) -> None:
    """Put the frozen weights beside the adapters: the library takes the two together where they lie in one folder."""
    beside = [base / name for name in ("model.safetensors.index.json", "generation_config.json")]
    for file in (*weight_files(base), *(file for file in beside if file.is_file())):
        place = adapter / file.name
        place.unlink(missing_ok=True)
        place.symlink_to(file.resolve())


def _settings(weights: Weights, course: Path, options: FineTuneOptions, seed: int, *, validated: bool) -> Any:
    import torch
    from trl import SFTConfig

    on_gpu = weights.device.startswith("cuda")
    each = "epoch" if validated else "no"
    return SFTConfig(
        output_dir=str(course),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch,
        per_device_eval_batch_size=options.batch,
        learning_rate=options.lr,
        weight_decay=options.weight_decay,
        seed=seed,
        data_seed=seed,
        eval_strategy=each,
        save_strategy="epoch",
        logging_strategy="epoch",
        load_best_model_at_end=validated,
        metric_for_best_model="eval_loss" if validated else None,
        greater_is_better=False if validated else None,
        save_total_limit=2,  # the best one and the last
        restore_callback_states_from_checkpoint=True,  # the patience that is used up
        bf16=on_gpu and weights.model.dtype == torch.bfloat16,
        use_cpu=not on_gpu,
        gradient_checkpointing=on_gpu,
        dataloader_pin_memory=False,
        dataset_kwargs={"skip_prepare_dataset": True},  # rows are made into tokens by the collator
        remove_unused_columns=False,
        max_length=None,
        report_to="none",
        disable_tqdm=True,
        push_to_hub=False,
    )


def _losses(log: Sequence[Mapping[str, Any]]) -> list[tuple[float | None, float | None]]:
    """(training, validation) loss of each epoch."""
    found: dict[int, list[float | None]] = {}
    for entry in log:
        for at, name in enumerate(("loss", "eval_loss")):
            if name in entry:
                found.setdefault(round(entry["epoch"]), [None, None])[at] = float(entry[name])
    return [(found[number][0], found[number][1]) for number in sorted(found)]


def _best(losses: Sequence[tuple[float | None, float | None]], *, validated: bool) -> int:
    """The epoch whose adapters are kept: of the lowest validation loss, or the last one.

    Raises:
        InputError: No loss is a number.
    """
    known = [pair[1 if validated else 0] for pair in losses]
    finite = [(loss, number) for number, loss in enumerate(known, 1) if loss is not None and np.isfinite(loss)]
    if not finite:
        raise InputError("training diverged: no loss is a number", hint="give a smaller learning rate `lr`")
    return min(finite)[1] if validated else len(losses)


@contextmanager
def _own_chance() -> Iterator[None]:
    """Keep the process's sources of chance as they are: the trainer seeds all of them."""
    import torch

    kept = random.getstate(), np.random.get_state()  # noqa: NPY002  # the trainer sets the old one
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
