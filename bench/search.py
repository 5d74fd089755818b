"""Search in a case base of 1 k, 10 k and 100 k cases, against plain NumPy and the flat index of faiss.

Run: ``python bench/search.py [--sizes 1000 10000 100000] [--rounds 30] [--json]``. Seeded random unit vectors of 1280
dimensions go through the real case base on disk, with small blobs for pictures. Then, in one process, on the same matrix
and in turn: the index without a filter, with one that lets a tenth through and with one that lets a hundredth through
(the filter's mask is made anew each time), NumPy's ``X @ q`` with ``argpartition``, and faiss' ``IndexFlatIP``. A ratio
is the median of the rounds' ratios. What each finds is compared with the k best in float64.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from figures import Figure, Report, in_turn, milliseconds, parser_for, processors, ratio, show
from numpy.typing import NDArray

from sagehand.cases import CaseBase, CaseDraft, Where
from sagehand.cases.index import Index
from sagehand.embed import EmbedderIdentity

TARGET, TARGET_SIZE = 1.2, 100_000
K = 15  # paper A §2.4: the n nearest that a search looks at
FAMILIES, PLACES = 10, 100
CHUNK = 1000
Vectors = NDArray[np.float32]


def unit_vectors(rng: np.random.Generator, count: int, dimension: int) -> Vectors:
    rows = rng.standard_normal((count, dimension), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def fill(path: Path, size: int, dimension: int, seed: int) -> float:
    """Write cases into a new case base; returns the seconds."""
    rng = np.random.default_rng(seed)
    started = time.perf_counter()
    with CaseBase.create(path, embedder=EmbedderIdentity("random", "1", dimension, "none")) as base:
        for start in range(0, size, CHUNK):
            rows = unit_vectors(rng, min(CHUNK, size - start), dimension)
            base.add_many([draft(number, vector) for number, vector in enumerate(rows, start)])
    return time.perf_counter() - started


def draft(number: int, vector: Vectors) -> CaseDraft:
    row = {
        "file_name": f"{number}.jpg",
        "family": f"family {number % FAMILIES}",
        "device": f"device {number // 50}",
        "step": number % 5 + 1,
        "place": f"place {number % PLACES}",
    }
    return CaseDraft(b"%d" % number, f"{number:032x}", vector, row)


def plain_numpy(vectors: Vectors, query: Vectors) -> NDArray[np.intp]:
    """The k best rows, best first."""
    products = vectors @ query
    best = np.argpartition(products, len(products) - K)[-K:]
    return best[np.argsort(-products[best])]


def flat_faiss(vectors: Vectors) -> Callable[[Vectors], NDArray[np.intp]] | None:
    """A search in faiss' flat index over a copy of the vectors; None where faiss is not installed."""
    try:
        import faiss
    except ImportError:
        return None
    faiss.omp_set_num_threads(processors())
    flat: Any = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    return lambda query: np.asarray(flat.search(query[None], K)[1][0])


def check(index: Index, query: Vectors, found: dict[str, Any]) -> None:
    """Stop where an arm does not find the k best; products closer than float32 can tell apart may change places."""
    exact = np.concatenate(
        [index.vectors[start : start + 4096].astype(np.float64) @ query for start in range(0, len(index), 4096)]
    )
    best = np.sort(exact)[::-1][:K]
    for name, rows in found.items():
        if not np.allclose(exact[rows], best, atol=1e-6, rtol=0):
            raise SystemExit(f"{name} did not find the {K} nearest of {len(index)} cases")


def measure_size(size: int, dimension: int, rounds: int, seed: int) -> list[Figure]:
    """The figures of one size."""
    with tempfile.TemporaryDirectory(prefix="sagehand-bench-") as name:
        path = Path(name, "cases")
        filled = fill(path, size, dimension, seed)
        with CaseBase.open(path) as base:
            started = time.perf_counter()
            index = base.index()
            opened = time.perf_counter() - started
    rng = np.random.default_rng([seed, size])
    queries = iter(unit_vectors(rng, 8 * (rounds + 3), dimension))
    faiss_search = flat_faiss(index.vectors)
    query = next(queries)
    found: dict[str, Any] = {"the index": index.top(query, K)[0], "NumPy": plain_numpy(index.vectors, query)}
    if faiss_search:
        found["faiss"] = faiss_search(query)
    check(index, query, found)
    tenth, hundredth = Where(family="family 3"), Where(place="place 3")
    arms: dict[str, Callable[[], object]] = {
        "NumPy": lambda: plain_numpy(index.vectors, next(queries)),
        "index": lambda: index.top(next(queries), K),
        "a tenth": lambda: index.top(next(queries), K, index.mask(tenth)),
        "a hundredth": lambda: index.top(next(queries), K, index.mask(hundredth)),
    }
    if faiss_search:
        arms["faiss"] = lambda: faiss_search(next(queries))
    taken = in_turn(arms, rounds, seed=seed)
    target = TARGET if size == TARGET_SIZE else None
    faiss_ms = milliseconds(taken["faiss"]) if faiss_search else None
    not_there = "" if faiss_search else ": skipped, faiss-cpu is not installed"
    return [
        Figure(f"{size:,}: NumPy X @ q with top {K}", milliseconds(taken["NumPy"]), "ms"),
        Figure(f"{size:,}: faiss IndexFlatIP, one query{not_there}", faiss_ms, "ms"),
        Figure(f"{size:,}: index.top, no filter", milliseconds(taken["index"]), "ms"),
        Figure(f"{size:,}: index.top, filter that a tenth passes", milliseconds(taken["a tenth"]), "ms"),
        Figure(f"{size:,}: index.top, filter that a hundredth passes", milliseconds(taken["a hundredth"]), "ms"),
        Figure(f"{size:,}: index.top / NumPy", ratio(taken["index"], taken["NumPy"]), target=target),
        Figure(f"{size:,}: index.top with a filter (a tenth) / NumPy", ratio(taken["a tenth"], taken["NumPy"])),
        Figure(f"{size:,}: cases written, in batches of {CHUNK:,}", round(size / filled, 1), "cases/s"),
        Figure(f"{size:,}: first index after opening the file", round(opened, 3), "s"),
    ]


def measure(sizes: list[int], dimension: int, rounds: int, seed: int) -> Report:
    if min(sizes) < K:
        raise SystemExit(f"{min(sizes)} cases are too few to look for {K}")
    figures = [figure for size in sizes for figure in measure_size(size, dimension, rounds, seed)]
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "default")
    return Report(
        f"Search for the {K} nearest, medians",
        {
            "dimensions": dimension,
            "rounds": rounds,
            "seed": seed,
            "processors": processors(),
            "OPENBLAS_NUM_THREADS": threads,
        },
        figures,
        [
            "index and NumPy multiply the same matrix in the same process, so with the same threads",
            "faiss' flat index takes one query on one thread; it holds a copy of the matrix",
        ],
    )


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000], metavar="N", help="cases")
    parser.add_argument("--dimension", type=int, default=1280, help="of a vector (default 1280)")
    parser.add_argument("--rounds", type=int, default=30, help="times each arm is measured (default 30)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    show(measure(arguments.sizes, arguments.dimension, arguments.rounds, arguments.seed), arguments.json)


if __name__ == "__main__":
    main()
