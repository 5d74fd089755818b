"""What guided decisions make of a VLM server that misbehaves: all its faults mixed, then each alone at 100 % and cleared.

Run: ``python bench/faults.py [--decisions 300] [--share 0.3] [--seconds 30] [--json]``. The stand-in server draws a fault for
each request: fenced or cut-off replies, thoughts, strings for numbers, unknown tools, blanks, 429 and 5xx, dropped
connections, requests that hang. A decision is *complete* when the model's prediction was had, whatever it says; the others
must end with a typed reason, in time, and none may name an action that is not valid. "Recovered" is the decision right
after a fault was cleared.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from figures import Figure, Report, parser_for, processors, show
from servers import SCRIPT, stand_in, tell

from guided import case_base, picture
from sagehand.action.decision import Decision
from sagehand.action.predict import Predictor
from sagehand.embed import HashEmbedder
from sagehand.recall.search import SearchParams
from sagehand.vlm.ask import Vlm
from sagehand.vlm.server import OpenAiBackend

FAULTS = (
    *("fenced", "think", "think_close_only", "reasoning_field", "prose", "ignored", "strings", "wrong_tool"),
    *("extra_args", "missing_arg", "out_of_range", "nan", "two_calls", "truncated", "whitespace", "empty"),
    *("http429", "http500", "http503", "reset", "slow", "hang", "bad_json_body"),
)
AT_ONCE = 4
GRACE = 0.5
"""Seconds past the deadline that a decision may take to come to its end on a busy machine."""
TYPED = ("no decision at the deadline", "no decision within the budget", "gave no valid answer")


class Tally:
    """What became of the decisions."""

    def __init__(self, predictor: Predictor, seconds: float) -> None:
        self.predictor, self.seconds = predictor, seconds
        self.crashes: list[BaseException] = []
        self.decisions: list[Decision] = []
        self.late = 0

    def decide(self, seed: int) -> Decision | None:
        """One decision on a picture of its own."""
        seen = picture(seed, (256, 192))
        started = time.monotonic()
        try:
            decision = self.predictor.predict(seen, method="guided")
        except Exception as error:
            self.crashes.append(error)
            return None
        self.late += time.monotonic() - started > self.seconds + GRACE
        self.decisions.append(decision)
        return decision

    @property
    def invalid(self) -> int:
        return sum(d.next_action is not None and d.next_action not in d.valid_actions for d in self.decisions)

    @property
    def complete(self) -> int:
        return sum(map(complete, self.decisions))

    @property
    def untyped(self) -> int:
        """Decisions without a prediction whose reason does not say which failure it was."""
        return sum(not complete(d) and not any(text in d.reason for text in TYPED) for d in self.decisions)


def complete(decision: Decision) -> bool:
    """Whether the model's prediction was had."""
    return decision.model is not None and decision.model["answer"] is not None


def figures_of(name: str, tally: Tally, asked: int) -> list[Figure]:
    return [
        Figure(f"{name}: crashes", float(len(tally.crashes)), "", 0.0),
        Figure(f"{name}: invalid actions", float(tally.invalid), "", 0.0),
        Figure(f"{name}: failures without a type", float(tally.untyped), "", 0.0),
        Figure(f"{name}: decisions past the deadline", float(tally.late), "", 0.0),
        Figure(f"{name}: decisions", float(asked)),
    ]


def measure(decisions: int, share: float, seconds: float, alone: bool) -> Report:
    """Faults mixed, then each alone."""
    setup = {"seconds a decision": seconds, "at once": AT_ONCE, "processors": processors()}
    if not SCRIPT.is_file():
        missing = [Figure("mixed: complete (no stand-in server)", None, "%", 99.0, False)]
        return Report("A server that misbehaves", setup, missing, [f"there is no {SCRIPT.name} beside the checkout"])
    base = case_base(2, HashEmbedder())
    search = SearchParams(leaves=2, most_leaves=2)
    # a request that hangs keeps its slot at the server: there must be enough of them
    with stand_in(slots=4096, seed=1) as url, Vlm(OpenAiBackend(url, "stand-in"), call_seconds=2.0) as vlm:

        def predictor(limit: float) -> Predictor:
            return Predictor(base, embedder=HashEmbedder(), vlm=vlm, seconds=limit, search=search, domain_level=0)

        mixed = Tally(predictor(seconds), seconds)
        # the server tries one fault after the other: together they strike the share that is asked for
        tell(url, "/faults", dict.fromkeys(FAULTS, 1 - (1 - share) ** (1 / len(FAULTS))))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(mixed.decide, range(10_000, 10_000 + decisions)))
        stats = tell(url, "/stats")
        rate = round(100 * stats["faults"] / max(stats["requests"], 1), 2)
        took = np.array([d.seconds for d in mixed.decisions] or [0.0])
        figures = [
            Figure("mixed: complete", round(100 * mixed.complete / decisions, 2), "%", 99.0, False),
            *figures_of("mixed", mixed, decisions),
            Figure("mixed: requests with a fault", rate, "%"),
            Figure("mixed: requests a decision", round(stats["requests"] / decisions, 2)),
            Figure("mixed: longest decision", round(float(took.max()), 3), "s"),
        ]
        if alone:
            limit = min(seconds, 6.0)
            single, recovered = Tally(predictor(limit), limit), Tally(predictor(seconds), seconds)
            for number, name in enumerate(FAULTS):
                tell(url, "/faults", {name: 1.0})
                single.decide(20_000 + number)
                tell(url, "/faults", {})
                recovered.decide(30_000 + number)
            figures += [
                Figure("alone: complete all the same", float(single.complete)),
                *figures_of("alone", single, len(FAULTS)),
                Figure("recovered", round(100 * recovered.complete / len(FAULTS), 2), "%", 100.0, False),
            ]
        told = [*(f"crash: {error!r}" for error in mixed.crashes[:3])]
        told += sorted({d.reason for d in mixed.decisions if not complete(d)})[:5]
    return Report("A server that misbehaves", setup, figures, told)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--decisions", type=int, default=300, help="decisions under mixed faults (300)")
    parser.add_argument("--share", type=float, default=0.3, help="share of requests with a fault (0.3)")
    parser.add_argument("--seconds", type=float, default=30.0, help="deadline of a decision (30)")
    parser.add_argument("--no-alone", action="store_true", help="leave out the faults one by one")
    options = parser.parse_args()
    show(measure(options.decisions, options.share, options.seconds, not options.no_alone), options.json)


if __name__ == "__main__":
    main()
