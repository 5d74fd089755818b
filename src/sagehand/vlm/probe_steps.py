"""The steps of a probe: what each asks, and what it concludes from the replies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sagehand.errors import Malformed
from sagehand.vlm.base import Mode, VlmBackend
from sagehand.vlm.boxes import Convention, Corners, named_corners, read_box
from sagehand.vlm.images import encode
from sagehand.vlm.probe_ask import (
    Asker,
    Outcome,
    Trial,
    asked_in_text,
    code_schema,
    corners_schema,
    list_schema,
    picture_part,
    reply_object,
)
from sagehand.vlm.probe_boxes import SIZES, BoxAnswer, BoxVerdict, iou, judge_boxes, red_square
from sagehand.vlm.profile import Profile

__all__ = ["ProbeFinding", "Steps"]

_SCHEMA_TRIALS = 3
_REQUIRED_TRIALS = 12  # a server that ignores it may still call a tool most of the time
_BOX_ATTEMPTS = 3
_CHECK_SIZES = ((1080, 1920), (407, 663))
_PLAIN = "Say hello in one word of plain text. Do not write JSON, and call no tool."


@dataclass(frozen=True)
class ProbeFinding:
    """One thing that was tried.

    Attributes:
        what: As in "json_schema".
        asked: What was asked, in words.
        answered: What came back, in words.
        honoured: Whether it can be relied on; None where it does not apply.
    """

    what: str
    asked: str
    answered: str
    honoured: bool | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"what": self.what, "asked": self.asked, "answered": self.answered, "honoured": self.honoured}


class Steps:
    """The steps of a probe, and what they have found so far."""

    def __init__(
        self,
        backend: VlmBackend,
        profile: Profile,
        seconds: float,
        rng: random.Random,
        on_finding: Callable[[ProbeFinding], None] | None,
    ) -> None:
        self.asker = Asker(backend, seconds)
        self.profile = profile
        self.findings: list[ProbeFinding] = []
        self._rng, self._on_finding = rng, on_finding
        self._trials: list[Trial] = []
        self._schema = self._tools = False

    def note(self, what: str, asked: str, answered: str, honoured: bool | None) -> None:
        """Add a finding."""
        self.findings.append(ProbeFinding(what, asked, answered, honoured))
        if self._on_finding:
            self._on_finding(self.findings[-1])

    async def reach(self) -> None:
        """Whether there is an answer at all.

        Raises:
            VlmError: There is none.
        """
        trial = await self.asker.ask([_text(_PLAIN)])
        if trial.reply is None:
            raise trial.error or Malformed("no answer")
        self._trials.append(trial)
        self.note("plain text", "one word, no constraint", f"answered in {trial.reply.seconds:.2f} s", True)

    async def schema(self) -> None:
        """Which field constrains a reply, if any does."""
        outcome = await self._constrained("json_schema")
        self._schema = outcome.honoured
        self.note(
            "json_schema", "response_format with a code word that only the schema tells", outcome.words, self._schema
        )
        if self._schema:
            self.profile = replace(self.profile, constrained="response_format")
            return
        outcome = await self._constrained("structured_outputs")
        if outcome.honoured:
            self._schema = True
            self.profile = replace(self.profile, constrained="structured_outputs")
        self.note("structured_outputs", "the same in vLLM's own field", outcome.words, outcome.honoured)

    async def _constrained(self, field: str, **options: Any) -> Outcome:
        """Whether replies hold a code word that only the constraint tells."""
        code = f"{self._rng.getrandbits(40):010x}"
        schema = code_schema(code)
        mode: Mode = "json_schema" if field == "json_schema" else "text"
        extra = {} if field == "json_schema" else {"structured_outputs": {"json": schema}}
        trials = await self.asker.many(_SCHEMA_TRIALS, [_text(_PLAIN)], mode=mode, schema=schema, **extra, **options)
        self._trials += trials
        return _outcome(trials, code)

    async def thinking(self) -> None:
        """Whether thinking can be switched off without losing the constraint (S02)."""
        asked = "the same with enable_thinking: false"
        aloud = sum(trial.thinks for trial in self._trials)
        if 2 * aloud <= sum(trial.reply is not None for trial in self._trials):
            self.note("thinking", "whether replies come with a thought", "no thoughts: nothing is switched", None)
            return
        off: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
        trial = await self.asker.ask([_text(_PLAIN)], **off)
        if trial.reply is None:
            self.note("thinking", asked, f"{trial.why}; thinking stays on", False)
        elif not self._schema:
            honoured = not trial.thinks
            self.note("thinking", asked, "the thought is gone" if honoured else "taken and ignored", honoured)
            self.profile = replace(self.profile, thinking=False if honoured else None)
        else:
            field = "json_schema" if self.profile.constrained == "response_format" else "structured_outputs"
            before = len(self._trials)
            outcome = await self._constrained(field, **off)
            quiet = 2 * sum(t.thinks for t in self._trials[before:]) <= outcome.answered
            honoured = outcome.honoured and quiet
            said = (
                "the thought is gone and the schema is kept to"
                if honoured
                else "taken and ignored"
                if outcome.honoured
                else "the schema is no longer kept to; thinking stays on"
            )
            self.note("thinking", asked, said, honoured)
            self.profile = replace(self.profile, thinking=False if honoured else None)
        self.asker.options.update(self.profile.body_options)

    async def tools(self) -> None:
        """Whether tools are called in form, and whether a call can be demanded (S06)."""
        code = f"{self._rng.getrandbits(40):010x}"
        trials = await self.asker.many(_REQUIRED_TRIALS, [_text(_PLAIN)], mode="tools", schema=code_schema(code))
        answered = [t.reply for t in trials if t.reply is not None]
        called = [r for r in answered if r.tool_calls]
        if not answered:
            why = next((t.why for t in trials), "")
            self.note("tools", "native tools with strict parameters", why, False)
            self.note("required", "tool_choice: required", "does not apply without tools", None)
            self.profile = replace(self.profile, required=False)
            return
        right = sum(any(code in arguments for _, arguments in reply.tool_calls) for reply in called)
        self._tools = bool(called) and 2 * right > len(called)
        fit = f"{right} of {len(called)} calls hold the code word" if called else "no reply is a call"
        self.note("tools", "native tools with strict parameters", fit, self._tools)
        obeyed = len(called) == len(answered)
        said = "obeyed" if obeyed else "ignored"
        self.note(
            "required", "tool_choice: required", f"{said}: {len(called)} of {len(answered)} replies are calls", obeyed
        )
        self.profile = replace(self.profile, required=obeyed)

    def settle_modes(self) -> None:
        """The rungs that hold, best first. A choice of tool that is ignored is no better than asking in text."""
        modes: list[Mode] = ["json_schema"] if self._schema else []
        if self._tools and (self._schema or self.profile.required):
            modes.append("tools")
        self.profile = replace(self.profile, modes=(*modes, "text"))

    async def images(self, most: int) -> None:
        """How many pictures one request may hold."""
        asked = f"1 to {most} small pictures in one request"
        good, bad, why = 0, most + 1, ""
        count = 1
        while good + 1 < bad:
            trial = await self._shown(count)
            if trial.reply is not None:
                good = count
            else:
                bad, why = count, trial.why
            count = min(2 * good, most) if bad > most else (good + bad) // 2
            if good == most or (bad == 1 and good == 0):
                break
        self.profile = replace(self.profile, max_images=good)
        limit = f"at least {good}" if good == most else f"{good}; with {bad}: {why}"
        self.note("images", asked, limit, good > 0)

    async def _shown(self, count: int) -> Trial:
        """A request with so many pictures."""
        pixels = [
            np.full((64, 64, 3), (40 + 11 * (n % 16), 120, 200 - 9 * (n % 16)), dtype=np.uint8) for n in range(count)
        ]
        parts = [picture_part(p, self.profile) for p in pixels]
        return await self.asker.ask([_text("How many pictures are there? One word."), *parts])

    async def boxes(self) -> None:
        """In which units boxes come back, and whether they land right when read so."""
        asked = f"the box of a drawn red square in {len(SIZES)} pictures, no units told"
        if self.profile.max_images == 0:
            self.note("boxes", asked, "not tried: pictures are refused", None)
            return
        answers = await self._box_answers()
        verdict = judge_boxes(answers, self.profile)
        if verdict.convention is None:
            self.note("boxes", asked, _lost(verdict, len(answers)), False)
            return
        self.profile = _with_boxes(self.profile, verdict.convention, verdict)
        scores = ", ".join(f"{name} {score:.2f}" for name, score in list(verdict.scores.items())[:4])
        order = ", lists y first" if verdict.convention == "yx-1000" else ""
        self.note("boxes", asked, f"{verdict.convention}{order} (mean IoU {scores})", True)
        found = await self._check()
        mean = sum(found) / len(found)
        told = f"mean IoU {mean:.2f} over {len(found)} pictures"
        self.note("box check", "the square again, sized and read by the profile that was found", told, mean > 0.5)

    async def _box_answers(self) -> list[BoxAnswer]:
        async def one(size: tuple[int, int], named: bool) -> BoxAnswer | None:
            pixels, truth = red_square(size)
            said = await self._box_of(picture_part(pixels, self.profile, as_is=True), named)
            return BoxAnswer(size, truth, said, named) if said else None

        wanted = [(size, named) for named in (True, False) for size in SIZES]
        return [a for a in await asyncio.gather(*(one(*w) for w in wanted)) if a is not None]

    async def _box_of(self, picture: dict[str, Any], named: bool) -> Corners | None:
        """Four numbers, as they were given; a list keeps its order."""
        schema = corners_schema() if named else list_schema()
        form = "its corners x1, y1, x2, y2" if named else "box_2d, a list of four numbers"
        question = f"Find the red square in the picture and give its bounding box: {form}."
        mode = self.profile.modes[0]
        extra: dict[str, Any] = {}
        if mode == "json_schema" and self.profile.constrained == "structured_outputs":
            mode, extra = "text", {"structured_outputs": {"json": schema}}
        elif mode == "text":
            question = asked_in_text(question, schema)
        for _ in range(_BOX_ATTEMPTS):
            trial = await self.asker.ask([picture, _text(question)], mode=mode, schema=schema, max_tokens=128, **extra)
            given = reply_object(trial)
            if given is None:
                continue
            values = given if named else given.get("box_2d")
            if isinstance(values, dict | list):
                try:
                    # "0-1000" keeps a list in its order
                    return named_corners(_numbers(values), "0-1000")
                except (Malformed, ValueError, TypeError):
                    continue
        return None

    async def _check(self) -> list[float]:
        async def one(size: tuple[int, int]) -> float:
            pixels, truth = red_square(size)
            encoded = encode(pixels, self.profile)
            said = await self._box_of({"type": "image_url", "image_url": {"url": encoded.data_url}}, named=True)
            if said is None:
                return 0.0
            try:
                x, y, w, h = read_box(
                    dict(zip(_CORNERS, said, strict=True)), self.profile.boxes, encoded.frame
                ).fractions
            except Malformed:
                return 0.0
            return iou((x, y, x + w, y + h), truth)

        return list(await asyncio.gather(*(one(size) for size in _CHECK_SIZES)))


_CORNERS = ("x1", "y1", "x2", "y2")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _outcome(trials: Sequence[Trial], code: str) -> Outcome:
    held = sum((found := reply_object(t)) is not None and found.get("code") == code for t in trials)
    failure = next((t.why for t in trials if t.error is not None), "")
    return Outcome(held, sum(t.reply is not None for t in trials), len(trials), failure)


def _numbers(values: dict[str, Any] | list[Any]) -> Any:
    """Numbers that came as text are read: it is the unit that is looked for, not good form."""

    def read(value: Any) -> Any:
        return float(value) if isinstance(value, str) else value

    return {k: read(v) for k, v in values.items()} if isinstance(values, dict) else [read(v) for v in values]


def _lost(verdict: BoxVerdict, answers: int) -> str:
    if not answers:
        return "no reply held a box; the units of the model's family are kept"
    return (
        f"the square was found under no convention (best mean IoU {verdict.agreement:.2f} over {answers} replies): the model "
        "may not see pictures, or cannot point; the units of its family are kept"
    )


def _with_boxes(profile: Profile, convention: Convention, verdict: BoxVerdict) -> Profile:
    """Pixels after a resize tell the model's patches, and the server's cap; the rest of the profile stays."""
    profile = replace(profile, boxes=convention)
    factor = verdict.factor
    if factor is None or factor == 1:
        return profile
    return replace(
        profile,
        patch=factor // 2,
        merge=2,
        min_side=2 * factor,
        min_pixels=4 * factor**2,
        max_pixels=verdict.cap or 16384 * factor**2,
    )
