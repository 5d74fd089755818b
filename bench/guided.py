"""What a guided search takes beside what the server allows, beside the paper's sequential order, and on its own.

Run: ``python bench/guided.py [--rounds 3] [--time-scale 0.2] [--steps 7] [--json]``. A stand-in server answers in the
latencies of paper A section 4.5 times the scale, 16 requests at once, and forgets its prefixes before each arm. Verdicts
follow from the pictures, so ties come as they come; the first candidate is rejected and no expansion is wanted, except where
it says otherwise.

* The bound: the very requests of the search, posted bare: the first look, then all gradings at once, then all leaf scores.
  The pictures of the cases are at hand in both, as in a process that has served before.
  Breaking a tie and asking whether to expand are no part of it, but of the search.
* First candidate confirmed: a whole decision, against its two requests posted bare, one after the other.
* Overhead: gradings one after the other on a server that takes no time, against the same requests posted bare.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from figures import Figure, Report, in_turn, milliseconds, parser_for, processors, ratio, show
from PIL import Image
from servers import SCRIPT, BarePosts, stand_in, tell

from sagehand.action.ask import CasePictures, cell_of
from sagehand.action.predict import Predictor
from sagehand.cases import CaseBase, CaseDraft
from sagehand.embed import HashEmbedder
from sagehand.judge.calibration import Calibration
from sagehand.judge.questions import Query
from sagehand.judge.vlm import VlmJudge
from sagehand.picture import Picture, load, to_jpeg
from sagehand.recall.rank import rank
from sagehand.recall.search import SearchParams, SearchResult, search
from sagehand.vlm.ask import Vlm
from sagehand.vlm.base import RawReply, Request
from sagehand.vlm.server import OpenAiBackend

DEVICES, VIEWS = 4, 2
SLOTS = 16
ANSWERS = {"BoolGradeImage": {"match": False}, "ExpandSearch": {"expand": False}}
CONFIRMED = {"BoolGradeImage": {"match": True}}


def picture(seed: int, side: tuple[int, int] = (1024, 768)) -> Picture:
    """A smooth picture of a megapixel, as a camera's, and no other like it."""
    coarse = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    return load(to_jpeg(np.asarray(Image.fromarray(coarse).resize(side, Image.Resampling.BICUBIC))))


def case_base(steps: int, embedder: HashEmbedder) -> CaseBase:
    """Devices of as many steps, two pictures each."""
    base = CaseBase.in_memory(embedder.identity)
    for device in range(DEVICES):
        for step in range(steps):
            for view in range(VIEWS):
                seen = picture(1 + view + VIEWS * (step + steps * device))
                row = {
                    "family": "smoke detector",
                    "device": f"detector {device}",
                    "step": step + 1,
                    "next_action": f"action {step + 1}",
                }
                vector = embedder.embed([seen.pixels])[0]
                base.add(CaseDraft(to_jpeg(seen.pixels), seen.pixel_id, vector, row))
    return base


class Recording(OpenAiBackend):
    """Keeps the bodies that it sends, by the tool that was asked for."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "stand-in")
        self.sent: list[tuple[str, bytes]] = []

    async def complete(self, request: Request) -> RawReply:
        name = request.tools[0]["function"]["name"]
        self.sent.append((name, json.dumps(self._body(request)).encode()))
        return await super().complete(request)

    def bodies(self, name: str) -> list[bytes]:
        return [body for tool, body in self.sent if tool == name]


@dataclass
class Bench:
    """One case base, one query, one server."""

    url: str
    steps: int
    seen: Picture = field(default_factory=lambda: picture(0))

    def __post_init__(self) -> None:
        embedder = HashEmbedder()
        self.base = case_base(self.steps, embedder)
        self.pictures = CasePictures(self.base)
        self.query = Query(embedder.embed([self.seen.pixels])[0], self.seen, previous_action="action 1")
        self.ranking = rank(self.base.index(), self.query, Calibration())
        self.results: dict[str, SearchResult] = {}
        self.stats: dict[str, dict[str, Any]] = {}

    def judge(self, vlm: Vlm) -> VlmJudge:
        return VlmJudge(vlm, self.pictures, cell_of(None, self.base))

    def search(self, vlm: Vlm, arm: str, **params: Any) -> None:
        """A whole search on a server that remembers nothing."""
        tell(self.url, "/reset", {})
        chosen = SearchParams(n=len(self.base), **params)
        self.results[arm] = search(self.ranking.index, self.query, self.judge(vlm), self.ranking, chosen)
        self.stats[arm] = tell(self.url, "/stats")


def full_search(bench: Bench, rounds: int) -> list[Figure]:
    """The search, its bound, and the paper's order."""
    tell(bench.url, "/answers", ANSWERS)
    backend = Recording(bench.url)
    with Vlm(backend, concurrency=SLOTS) as vlm:
        cold = in_turn({"cold": lambda: bench.search(vlm, "cold")}, 1, warm_up=0)["cold"]
        by_name = {name: backend.bodies(name) for name, _ in backend.sent}

        def bound(posts: BarePosts) -> None:
            tell(bench.url, "/reset", {})
            for name in ("BoolGradeImage", "GradeImage", "LeafFinalScore"):
                posts.at_once(by_name[name])

        with BarePosts(bench.url, len(by_name["GradeImage"])) as posts:
            arms: dict[str, Callable[[], object]] = {
                "bound": lambda: bound(posts),
                "at once": lambda: bench.search(vlm, "at once"),
            }
            taken = in_turn(arms, rounds, warm_up=0)
        slow = in_turn({"faithful": lambda: bench.search(vlm, "faithful", faithful=True)}, 1, warm_up=0)["faithful"]
    trace, stats = bench.results["at once"].trace, bench.stats["at once"]
    case, other = (bench.results[arm].case for arm in ("at once", "faithful"))
    same = case is not None and other is not None and case.case.id == other.case.id
    images = sum(len(leaf.images) for leaf in trace.leaves)
    return [
        Figure(f"full search, {len(trace.leaves)} leaves, {images} gradings", milliseconds(taken["at once"]), "ms"),
        Figure("the same, every picture decoded and encoded anew", milliseconds(cold), "ms"),
        Figure("what the server allows: first look, gradings, leaf scores", milliseconds(taken["bound"]), "ms"),
        Figure("full search / what the server allows", ratio(taken["at once"], taken["bound"]), "", 1.3),
        Figure("the paper's order (faithful)", milliseconds(slow), "ms"),
        Figure(
            "the paper's order / full search", round(float(slow[0] / np.median(taken["at once"])), 4), "", 4.0, False
        ),
        Figure("the same case in both orders", float(same), "", 1.0, False),
        Figure("comparisons of a tie", float(trace.counts.get("CompareImages", 0))),
        Figure("rounds saved", float(trace.saved_rounds)),
        Figure("requests at once, at most", float(stats["most_at_once"])),
        Figure("prompt seconds that were shared", round(100 * stats["shared"], 2), "%", 45.0, False),
    ]


def confirmed(bench: Bench, rounds: int) -> list[Figure]:
    """Decisions whose first candidate is confirmed, each on a picture not seen before, against their requests posted bare."""
    tell(bench.url, "/answers", CONFIRMED)
    backend = Recording(bench.url)
    taken, bare = [], []
    with Vlm(backend) as vlm, BarePosts(bench.url, 1) as posts:
        predictor = Predictor(bench.base, embedder=HashEmbedder(), vlm=vlm, domain_level=0)
        for number in range(-1, 3 * rounds):  # the first does not count: it connects
            seen = picture(1000 + number)
            backend.sent.clear()
            tell(bench.url, "/reset", {})
            started = time.perf_counter()
            decision = predictor.predict(seen, method="guided")
            between = time.perf_counter()
            if decision.search is None or decision.search["counts"] != {"BoolGradeImage": 1}:
                raise RuntimeError("the first candidate was not confirmed")
            tell(bench.url, "/reset", {})
            again = time.perf_counter()
            for _, body in backend.sent:
                posts.one(body)
            if number >= 0:
                taken.append(between - started)
                bare.append(time.perf_counter() - again)
    return [
        Figure("first candidate confirmed: requests", float(len(backend.sent))),
        Figure("first candidate confirmed: the decision", milliseconds(np.array(taken)), "ms"),
        Figure("first candidate confirmed / its requests", ratio(np.array(taken), np.array(bare)), "", 1.1),
    ]


def overhead(bench: Bench) -> list[Figure]:
    """Gradings one by one on a server that takes no time, against the same requests posted bare."""
    backend = Recording(bench.url)
    first, again, bare = [], [], []
    with Vlm(backend) as vlm, BarePosts(bench.url, 1) as posts:
        judge = bench.judge(vlm)
        candidates = bench.ranking.first(42)
        judge.bool_grade(bench.query, candidates[0])
        for number, candidate in enumerate(candidates):
            for times in (first, again):
                started = time.perf_counter()
                judge.grade(bench.query, candidate)
                times.append(time.perf_counter() - started)
            body = backend.bodies("GradeImage")[2 * number]
            started = time.perf_counter()
            posts.one(body)
            bare.append(time.perf_counter() - started)
    taken = {name: np.array(times) for name, times in (("first", first), ("again", again), ("bare", bare))}
    return [
        Figure("one grading posted bare", milliseconds(taken["bare"]), "ms"),
        Figure("own overhead a call", milliseconds(taken["again"] - taken["bare"]), "ms", 15.0),
        Figure(
            "own overhead a call, picture decoded and encoded anew", milliseconds(taken["first"] - taken["bare"]), "ms"
        ),
    ]


def measure(rounds: int, time_scale: float, steps: int) -> Report:
    """All arms; without the stand-in nothing is measured, and every target missed."""
    setup = {"slots": SLOTS, "time scale": time_scale, "rounds": rounds, "processors": processors()}
    if not SCRIPT.is_file():
        promised = (("full search / what the server allows", 1.3), ("own overhead a call", 15.0))
        missing = [Figure(f"{name} (no stand-in server)", None, "", target) for name, target in promised]
        return Report("The guided search", setup, missing, [f"there is no {SCRIPT.name} beside the checkout"])
    with stand_in(time_scale=time_scale, slots=SLOTS) as url:
        bench = Bench(url, steps)
        figures = full_search(bench, rounds) + confirmed(bench, rounds)
    with stand_in(time_scale=0, slots=SLOTS) as url:
        figures += overhead(Bench(url, steps))
    notes = [
        "a server that is busy with 16 requests answers each of them more slowly (6 % a request), in every arm",
        "server and search share the processors: their own work, some 10 ms a request, is in all figures",
    ]
    return Report("The guided search", setup, figures, notes)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each arm; the paper's order runs once (3)")
    parser.add_argument("--time-scale", type=float, default=0.2, help="1 is a real server's latency (0.2)")
    parser.add_argument("--steps", type=int, default=7, help="steps of a device, two pictures each (7)")
    options = parser.parse_args()
    show(measure(options.rounds, options.time_scale, options.steps), options.json)


if __name__ == "__main__":
    main()
