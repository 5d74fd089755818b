"""The plan of a study: which data, which arms, which seeds. A YAML file, checked when it is read.

.. code-block:: yaml

    name: nearest against perceptual
    seeds: [0, 1]
    defaults: {crop: truth}        # as needed: of every arm that does not say otherwise
    arms:
      nearest: {crop: none}        # an arm without a ``method`` is named as its method
      cropped: {method: perceptual, guard: false}
    vlm: {base_url: "http://localhost:8000/v1", model: some-model}   # as needed, over the settings; never a key

Paths are looked for from the working directory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["CROPS", "METHODS", "PROTOCOLS", "TRAINED", "Arm", "Plan", "Protocol", "VlmPlan"]

Protocol = Literal["paper", "held-out", "new-device", "folds"]
PROTOCOLS: dict[str, str] = {
    "paper": "every picture is a query; its own copy is removed from the base (paper A §3.3)",
    "held-out": "queries are the pictures outside the base",
    "new-device": "one device in turn is left out of the base; all its pictures are queries",
    "folds": "5 folds by device, about 70/10/20: training, validation and test devices (paper A §3.3)",
}
METHODS: dict[str, str] = {
    "random": "a random action, seeded (paper A §4.4.1)",
    "majority": "the commonest answer of the base",
    "context": "previous action and place alone, no picture",
    "nearest": "the nearest picture's labels: Single-RAG without a model",
    "perceptual": "picture, context and depth weighed by the perceptual judge",
    "zero-shot": "a VLM without a case (paper A §3.3)",
    "single-rag": "a VLM with the nearest picture's case (paper A §3.3)",
    "bad-single-rag": "a VLM with a wrong case, seeded: other device or other step (paper A §3.3)",
    "guided": "a VLM with the case of the guided search (paper A §2.4)",
    "guided-always": "the guided search without a first look: always the full search",
    "classifier": "an image classifier trained for each task (paper A §4.4.1)",
    "fine-tuned-vlm": "a VLM fine-tuned by LoRA (paper A §4.4.2)",
}
TRAINED = ("classifier", "fine-tuned-vlm")
"""Methods that are trained. They are asked of what they were trained on, too: the paper reports all three (§4.4.1)."""
CROPS = ("none", "perceptual", "relief", "truth", "grid", "box")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Arm(_Strict):
    """One way to answer.

    Attributes:
        name: Its name in records, reports and ``study compare``.
        method: A name in :data:`METHODS`.
        crop: A name in :data:`CROPS`; cases and queries are cropped alike.
        embedder: Name of the embedder.
        guard: Whether impossible actions are ruled out.
        previous: Whether the previous action is told to the method.
        place: Whether the place is told to it.
        depth: Whether depth images are used.
        risk: Greatest share of wrong answers, certified on samples kept apart; None answers always.
        domain: Whether the domain test may abstain. Off by default: a study counts forced answers.
        protocol: A protocol of its own; None for the plan's ("folds" for trained methods).
        model: Model name of a VLM arm; None for the settings'.
        options: What is particular to the method (for example ``backbone``, ``epochs``, ``images_per_step``).
    """

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
    method: str
    crop: str = "perceptual"
    embedder: str = "packaged"
    guard: bool = True
    previous: bool = True
    place: bool = True
    depth: bool = True
    risk: float | None = Field(default=None, gt=0, lt=1)
    domain: bool = False
    protocol: Protocol | None = None
    model: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("method")
    @classmethod
    def _method(cls, value: str) -> str:
        if value not in METHODS:
            raise ValueError(f"unknown method {value!r}; valid: {', '.join(METHODS)}")
        return value

    @field_validator("crop")
    @classmethod
    def _crop(cls, value: str) -> str:
        if value not in CROPS:
            raise ValueError(f"unknown crop {value!r}; valid: {', '.join(CROPS)}")
        return value

    @field_validator("options")
    @classmethod
    def _options(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{error}; valid: texts, numbers, true, false, lists and maps of them") from None
        return value


class VlmPlan(_Strict):
    """Which model the VLM arms ask: what the plan says over the settings file. A key has no place in a plan.

    Attributes:
        base_url: Address of the server.
        model: Name of the model, for arms that name none.
        seconds: Most seconds that one question may take [s].
        concurrency: Most requests at once.
        cache: File that keeps valid answers.
        prompts: Folder of own prompts.
    """

    base_url: str | None = None
    model: str | None = None
    seconds: float | None = Field(default=None, gt=0)
    concurrency: int | None = Field(default=None, ge=1)
    cache: str | None = None
    prompts: str | None = None

    def settings(self) -> dict[str, Any]:
        """The same by the names that settings have; what is not given is left out."""
        names = {"model": "vlm_model", "seconds": "vlm_seconds", "concurrency": "vlm_concurrency", "cache": "vlm_cache"}
        return {names.get(name, name): value for name, value in self if value is not None}


class Plan(_Strict):
    """A whole study.

    Attributes:
        name: Its name.
        data: Folder of labelled pictures; ``{seed}`` in it stands for the seed, where each seed has its own pictures.
        actions: Action library; None for the folder's ``actions.yaml``, else the packaged cell's where it knows all actions
            of the labels, else none.
        protocol: A name in :data:`PROTOCOLS`.
        per_step: Images of the base for each step of each device (paper A §3.3: 2).
        certify: Images of each step that are kept apart to certify a risk, neither base nor query.
        seeds: Seeds of the split and of everything random.
        arms: The arms, in the order of the report.
        vlm: The model that VLM arms ask, over the settings.
    """

    name: str = Field(min_length=1)
    data: str | None = None
    actions: str | None = None
    protocol: Protocol = "held-out"
    per_step: int = Field(default=2, ge=1)
    certify: int = Field(default=0, ge=0)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    arms: tuple[Arm, ...] = Field(min_length=1)
    vlm: VlmPlan = VlmPlan()

    @field_validator("seeds")
    @classmethod
    def _seeds(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value) or min(value) < 0:
            raise ValueError(f"seeds are {list(value)}; valid: different whole numbers from 0")
        return value

    @field_validator("arms")
    @classmethod
    def _arms(cls, value: tuple[Arm, ...]) -> tuple[Arm, ...]:
        names = [arm.name for arm in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two arms are named {twice[0]!r}; valid: different names")
        return value

    def protocol_of(self, arm: Arm) -> Protocol:
        """The protocol of an arm; trained methods go by folds unless told otherwise."""
        if arm.protocol is not None:
            return arm.protocol
        return "folds" if arm.method in TRAINED else self.protocol

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan.

        Raises:
            InputError: The file cannot be read, is no plan, or an arm is wrong: names the field, the value, and what is valid.
        """
        from sagehand.study.run.plan_file import read_plan

        return read_plan(Path(path))

    @classmethod
    def parse(cls, text: str, *, source: str = "<text>") -> Plan:
        """Read a plan from YAML text.

        Raises:
            InputError: As for :meth:`load`.
        """
        from sagehand.study.run.plan_file import parse_plan

        return parse_plan(text, source)

    def to_yaml(self) -> str:
        """The plan as YAML with everything said, which :meth:`parse` reads as the same plan."""
        import yaml

        doc = _said(self.model_dump(mode="json"))
        doc["arms"] = {arm.pop("name"): _said(arm) for arm in doc["arms"]}
        doc["vlm"] = _said(doc["vlm"])
        return yaml.safe_dump(doc, sort_keys=False, allow_unicode=True, width=120)


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
