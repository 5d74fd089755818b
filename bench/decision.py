"""How long a decision takes, against the bare forward pass of the network that it embeds with.

Run: ``python bench/decision.py [--rounds 200] [--json]``. The packaged demo cell becomes two case bases on disk, one
without a crop and one with the perceptual crop. In one process and in turn: the network alone on a ready tensor (the very
session that the predictor uses), the embedder, and whole decisions on a decoded 640×480 array, with the action library,
the evidence and the durable write of the decision log. A ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from figures import Figure, Report, in_turn, milliseconds, parser_for, processors, ratio, show
from numpy.typing import NDArray

from sagehand.action.decision import Decision, Known
from sagehand.action.predict import Predictor
from sagehand.demo import cell_folder
from sagehand.embed import get_embedder, shrink
from sagehand.embed.packaged import EfficientNetLite0
from sagehand.picture import load
from sagehand.recall.build import build
from sagehand.study.demo import DEMO_QUERY

TARGETS = {"none": 1.5, "perceptual": 2.5}
WORDS = {"none": "decision, no crop", "perceptual": "decision, perceptual crop"}


def query() -> tuple[NDArray[np.uint8], Known]:
    """The demo's query as a decoded array, and what is known beside it."""
    folder = cell_folder() / "queries"
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]
    row = next(row for row in rows if all(row.get(key) == value for key, value in DEMO_QUERY.items()))
    pixels = load(folder / row["file_name"]).pixels
    if pixels.shape != (480, 640, 3):
        raise SystemExit(f"the demo's query is of shape {pixels.shape}, not 640×480")
    return pixels, Known(previous=row["previous_action"], place=row["place"])


def measure(rounds: int) -> Report:
    pixels, known = query()
    actions = cell_folder() / "actions.yaml"
    embedder = get_embedder()
    if not isinstance(embedder, EfficientNetLite0):
        raise SystemExit(f"the default embedder is {embedder.identity}; this compares with the packaged network")
    embedder.embed([pixels])
    session = embedder._session  # the predictor's own: the same threads and options by construction
    tensor = np.empty((1, 3, shrink.SIDE, shrink.SIDE), np.float32)
    shrink.to_input(pixels, tensor[0])
    with tempfile.TemporaryDirectory(prefix="sagehand-bench-") as name:
        predictors = {}
        for crop in WORDS:
            build(cell_folder(), Path(name, f"{crop}.cases"), crop=crop)
            predictors[crop] = Predictor.open(Path(name, f"{crop}.cases"), actions, embedder=embedder)
        made: dict[str, list[Decision]] = {crop: [] for crop in WORDS}

        def deciding(crop: str) -> Callable[[], None]:
            return lambda: made[crop].append(predictors[crop].predict(pixels, known))

        arms: dict[str, Callable[[], object]] = {
            "bare": lambda: session.run(None, {"pixels": tensor}),
            "embed": lambda: embedder.embed([pixels]),
            **{crop: deciding(crop) for crop in WORDS},
        }
        taken = in_turn(arms, rounds)
        cases = len(predictors["none"].base)
        for predictor in predictors.values():
            predictor.close()
    unlogged = sum(decision.decision is None for decisions in made.values() for decision in decisions)
    if unlogged:
        raise SystemExit(f"{unlogged} decisions were not logged: the log's write would be missing from the time")
    figures = [
        Figure("bare forward pass on a ready tensor", milliseconds(taken["bare"]), "ms"),
        Figure("embedder, from 640×480 pixels", milliseconds(taken["embed"]), "ms"),
        *(Figure(WORDS[crop], milliseconds(taken[crop]), "ms") for crop in WORDS),
        Figure("embedder / bare forward pass", ratio(taken["embed"], taken["bare"])),
        *(
            Figure(f"{WORDS[crop]} / bare forward pass", ratio(taken[crop], taken["bare"]), target=TARGETS[crop])
            for crop in WORDS
        ),
        *(figure for crop in WORDS for figure in parts(WORDS[crop], made[crop][-rounds:])),
    ]
    setup = {"rounds": rounds, "cases": cases, "embedder": embedder.identity, "processors": processors()}
    return Report(
        "Decision against the bare forward pass, medians",
        {key: value if isinstance(value, int) else str(value) for key, value in setup.items()},
        figures,
        ["every decision was written durably into the case base's log, and that is part of its time"],
    )


def parts(name: str, decisions: list[Decision]) -> list[Figure]:
    """Medians of what the decisions say about their own parts, and of what lies between them."""
    rest = [decision.seconds - sum(decision.timings.values()) for decision in decisions]
    return [
        *(
            Figure(f"  {name}: {part}", milliseconds(np.array([d.timings[part] for d in decisions])), "ms")
            for part in decisions[0].timings
        ),
        Figure(f"  {name}: what lies between the parts", milliseconds(np.array(rest)), "ms"),
    ]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="times each arm is measured (default 200)")
    arguments = parser.parse_args()
    show(measure(arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
