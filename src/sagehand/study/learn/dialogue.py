"""Samples as conversations to fine-tune a vision-language model on: what zero-shot asks, and the answer that the labels give.

The question is not written here: it is the one that the study's zero-shot method asks of the same sample, heard as it is
asked. So a fine-tuned model and the same model without tuning (paper A, Fig. 11) are asked alike, to the letter. (The paper
puts the list of actions into the system text; in this project it stands in the question.)

The answer is one call in the project's wire format, ``{"reasoning": …, "call": {…}}``. A label has no reasoning: what stands
there is the family and the place, in one sentence, and nothing that was not labelled.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from sagehand.errors import InputError, PictureError, VlmError
from sagehand.files import write_whole
from sagehand.judge.vlm_tools import NOT_KNOWN
from sagehand.study.dataset.sample import Sample
from sagehand.study.learn.labels import label_of
from sagehand.study.methods.base import Bench
from sagehand.study.methods.vlm import ZeroShot
from sagehand.study.run.record import TASKS
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import ImagePart, Question, ToolCall
from sagehand.vlm.budget import Budget
from sagehand.vlm.profile import Profile, builtin_profile
from sagehand.vlm.prompt import PictureShelf, render
from sagehand.vlm.scripted import ScriptedBackend
from sagehand.vlm.tools import Tool

__all__ = ["Dialogue", "ExportReport", "Teacher", "export_chat"]

_ASKED_CROPS = ("grid", "box")


@dataclass(frozen=True, eq=False)
class Dialogue:
    """A question about a sample and the answer that its labels give.

    Attributes:
        key: The sample's key.
        question: What zero-shot asks.
        messages: The same as messages in the form of OpenAI's chat completions, pictures as data URLs: system and user.
        answer: The assistant's reply, one call in the wire format.
        pixels: (H, W, 3) RGB: the picture that is shown.
    """

    key: str
    question: Question
    messages: Sequence[Mapping[str, Any]]
    answer: str
    pixels: NDArray[np.uint8]


class _Listener(Vlm):
    """Stands where a model does, hears what is asked, and never answers."""

    def __init__(self, profile: Profile, long_side: int) -> None:
        super().__init__(ScriptedBackend([], model="listener"), profile=profile, long_side=long_side, attempts=1)
        self._heard: Question | None = None

    def ask(self, question: Question, *, budget: Budget | None = None) -> ToolCall:
        """Hear a question.

        Raises:
            VlmError: Always.
        """
        self._heard = question
        raise VlmError("nothing is answered here")

    def take(self) -> Question | None:
        """What was asked last, once."""
        heard, self._heard = self._heard, None
        return heard


class Teacher:
    """Makes dialogues of samples. Safe between threads; to be closed.

    Args:
        bench: Its arm says what is told (previous action, place), whether the guard narrows the choice, and the crop; its
            settings may name a folder of own prompts. Its case base and model are not used.
        profile: Of the model that will be taught, for the size of the pictures.
        long_side: Longest side of a picture [px].

    Raises:
        InputError: The arm's crop asks a model, or there is no action library.
    """

    def __init__(self, bench: Bench, *, profile: Profile | None = None, long_side: int = 1024) -> None:
        if bench.arm.crop in _ASKED_CROPS:
            raise InputError(
                f"the crop {bench.arm.crop!r} asks a model, and the one to be taught is not there yet",
                hint="crop by none, perceptual or truth",
            )
        self._tells = bench.arm.previous
        self._profile = profile or builtin_profile("qwen3-vl")
        self._shelf = PictureShelf(self._profile, long_side=long_side)
        self._listener = _Listener(self._profile, long_side)
        try:
            self._method = ZeroShot(replace(bench, vlm=self._listener, base=None))
        except InputError:
            self._listener.close()
            raise
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of its threads."""
        self._method.close()
        self._listener.close()

    def dialogue(self, sample: Sample) -> Dialogue:
        """The dialogue about a sample.

        Raises:
            InputError: Its labels do not say the whole answer, or say one that is ruled out.
            PictureError: Its picture cannot be used.
        """
        unknown = [task for task in TASKS[1:] if label_of(sample, task) is None]
        if unknown:
            raise InputError(f"{sample.key}: no label for {', '.join(unknown)}", hint="label it, or leave it out")
        with self._lock:
            self._method.answer(sample)
            question = self._listener.take()
        if question is None:
            raise InputError(f"{sample.key}: every action is ruled out by what is known, so nothing would be asked")
        shown = next(part for part in question.parts if isinstance(part, ImagePart))
        messages = render(question, self._shelf, max_images=self._profile.max_images).messages("json_schema")
        return Dialogue(sample.key, question, messages, self._answer(sample, question.tools[0]), shown.pixels)

    def dialogues(self, samples: Sequence[Sample]) -> tuple[list[Sample], list[tuple[str, str]]]:
        """The samples that there are dialogues of, and (key, reason) of the others; the dialogues themselves are not kept."""
        good, problems = [], []
        for sample in samples:
            try:
                self.dialogue(sample)
                good.append(sample)
            except (InputError, PictureError) as error:
                problems.append((sample.key, error.message))
        return good, problems

    def _answer(self, sample: Sample, tool: type[Tool]) -> str:
        previous = sample.previous_action if self._tells and sample.previous_action is not None else NOT_KNOWN
        told = {task: label_of(sample, task) for task in TASKS}
        arguments = told | {"previous_action": previous, "remaining_actions": list(told["remaining_actions"])}
        try:
            call = tool.model_validate(arguments)
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0])
            raise InputError(
                f"{sample.key}: the label {field} {arguments[field]!r} cannot be answered: {first['msg'].lower()}",
                hint="the label is wrong, or the action library is",
            ) from None
        place = f" It is in this place: {sample.place}." if sample.place else ""
        said = {
            "reasoning": f"The device belongs to the family {sample.family}.{place}",
            "call": {"tool": tool.__name__, **call.model_dump(mode="json")},
        }
        return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class ExportReport:
    """What was exported.

    Attributes:
        file: The JSONL.
        written: Dialogues in it.
        pictures: Cut pictures written beside it.
        problems: (key, reason) of samples left out.
    """

    file: Path
    written: int
    pictures: int
    problems: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        problems = [{"file_name": key, "reason": reason} for key, reason in self.problems]
        return {"file": str(self.file), "written": self.written, "pictures": self.pictures, "left_out": problems}


def export_chat(
    samples: Sequence[Sample],
    teacher: Teacher,
    out: str | Path,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> ExportReport:
    """Write samples as chat JSONL for fine-tuning elsewhere (``trl`` and others read it).

    A line holds ``id``, ``messages`` (system, user, assistant; each content a list of ``{"type": "text", "text"}`` and
    ``{"type": "image"}``) and ``images``: the paths of the pictures in order, relative to the file's folder. A picture that was
    cut is written beside the file, into ``NAME-images``, as PNG; one that was not is named where it lies.

    Args:
        samples: What is exported.
        teacher: Makes the dialogues.
        out: The file; replaced where it is there.
        on_progress: Called with (done, all).

    Raises:
        InputError: No sample makes a dialogue, or the file cannot be written.
    """
    out = Path(out)
    lines: list[str] = []
    problems: list[tuple[str, str]] = []
    cut = 0
    for done, sample in enumerate(samples, 1):
        try:
            dialogue = teacher.dialogue(sample)
        except (InputError, PictureError) as error:
            problems.append((sample.key, error.message))
        else:
            path, written = _picture_of(dialogue, sample, out)
            cut += written
            lines.append(json.dumps(_row(dialogue, path, out.parent), ensure_ascii=False))
        if on_progress:
            on_progress(done, len(samples))
    if not lines:
        reason = problems[0][1] if problems else "there is no sample"
        raise InputError(f"nothing to export: {reason}", hint="label the pictures in metadata.jsonl")
    write_whole(out, "".join(f"{line}\n" for line in lines).encode())
    return ExportReport(out, len(lines), cut, tuple(problems))


def _row(dialogue: Dialogue, picture: Path, folder: Path) -> dict[str, Any]:
    messages = [
        {"role": m["role"], "content": _content(m["content"])}
        for m in (*dialogue.messages, {"role": "assistant", "content": dialogue.answer})
    ]
    where = Path(os.path.relpath(picture.absolute(), folder.absolute())).as_posix()
    return {"id": dialogue.key, "messages": messages, "images": [where]}


def _content(content: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [{"type": "image"} if part["type"] == "image_url" else dict(part) for part in content]


def _picture_of(dialogue: Dialogue, sample: Sample, out: Path) -> tuple[Path, int]:
    """Where the picture that is shown lies; one that was cut is written."""
    import io

    from PIL import Image

    from sagehand.picture import load

    if load(sample.path).pixels.shape == dialogue.pixels.shape:
        return sample.path, 0
    held = io.BytesIO()
    Image.fromarray(cast(Any, dialogue.pixels)).save(held, "PNG")
    path = out.with_name(f"{out.stem}-images") / f"{sample.key}.png"  # a.jpg and a.png are two pictures
    write_whole(path, held.getvalue())
    return path, 1
