"""How quickly a folder of cases is imported, against the rate of the bare embedder on the same decoded pictures.

Run: ``python bench/import_rate.py [--images 300] [--rounds 3] [--json]``. The embedder is measured in several
configurations (its own threads or ours) and the best one counts. Both sides are measured in turn, so that a machine
that is busy with other work slows both; medians are compared. Target: import at 85 % of the bare embedder or more.
When every processor is busy, what an import does besides costs its share: the bound printed below is the bare embedder's
processor time against the same with decoding and hashing of the pixels added, and nothing else.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sagehand.cases.base import CaseBase
from sagehand.cases.folder import import_folder
from sagehand.embed import Embedder, get_embedder
from sagehand.picture import load

TARGET = 0.85
Pixels = NDArray[np.uint8]


def make_folder(folder: Path, images: int) -> list[Pixels]:
    """Seeded 640×480 JPEGs with the detail of a photo, and their metadata; returns them decoded."""
    rng = np.random.default_rng(0)
    pictures, rows = [], []
    for i in range(images):
        coarse = rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((640, 480), Image.Resampling.BICUBIC), np.int16)
        pixels = np.clip(smooth + rng.integers(-6, 7, smooth.shape, dtype=np.int16), 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=85)
        (folder / f"{i:05}.jpg").write_bytes(file.getvalue())
        pictures.append(load(file.getvalue()).pixels)
        row = {"file_name": f"{i:05}.jpg", "family": "bench", "device": f"device {i // 10}", "step": i % 10 + 1}
        rows.append(json.dumps(row))
    (folder / "metadata.jsonl").write_text("\n".join(rows) + "\n")
    return pictures


def configurations(processors: int) -> dict[str, Callable[[list[Pixels]], None]]:
    """Ways to run the bare embedder: threads of its own, or ours over one that uses a single thread."""
    wide, single = get_embedder(threads=processors), get_embedder(threads=1)

    def in_batches(embedder: Embedder, pictures: list[Pixels]) -> None:
        for start in range(0, len(pictures), 16):
            embedder.embed(pictures[start : start + 16])

    def in_threads(size: int, pictures: list[Pixels]) -> None:
        parts = [pictures[start : start + size] for start in range(0, len(pictures), size)]
        with ThreadPoolExecutor(processors) as pool:
            list(pool.map(single.embed, parts))

    return {
        f"batches of 16, {processors} threads inside": lambda pictures: in_batches(wide, pictures),
        f"one by one, {processors} threads outside": lambda pictures: in_threads(1, pictures),
        f"batches of 8, {processors} threads outside": lambda pictures: in_threads(8, pictures),
    }


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    work()
    return clock() - started


def bound(folder: Path, embedder: Embedder) -> dict[str, float]:
    """Processor time of one picture [ms]: embedding, decoding, hashing the pixels; and the ratio they allow."""
    files = [path.read_bytes() for path in sorted(folder.glob("*.jpg"))[:40]]
    pictures = [load(data) for data in files]

    def each(work: Callable[[int], object]) -> float:
        return min(seconds(lambda: [work(i) for i in range(len(files))], time.process_time) for _ in range(3)) / len(
            files
        )

    embed = each(lambda i: embedder.embed([pictures[i].pixels]))
    decode = each(lambda i: load(files[i]))
    identity = each(lambda i: load(pictures[i].pixels).pixel_id)
    parts = {"embed_ms": embed * 1e3, "decode_ms": decode * 1e3, "pixel_id_ms": identity * 1e3}
    return {name: round(value, 3) for name, value in {**parts, "bound": embed / (embed + decode + identity)}.items()}


def measure(images: int, rounds: int) -> dict[str, object]:
    processors = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "folder")
        folder.mkdir()
        pictures = make_folder(folder, images)
        bare = configurations(processors)
        embedder = get_embedder(threads=1)
        embedder.embed(pictures[:1])
        times: dict[str, list[float]] = {configuration: [] for configuration in bare}
        imports: list[float] = []
        again: list[float] = []
        for number in range(rounds):
            for configuration, run in bare.items():
                times[configuration].append(seconds(partial(run, pictures)))
            with CaseBase.create(Path(name, f"{number}.db"), embedder=embedder.identity) as base:
                imports.append(import_folder(folder, base, embedder).seconds)
                if len(base) != images:
                    raise SystemExit(f"only {len(base)} of {images} cases were imported")
                again.append(import_folder(folder, base, embedder).seconds)
        limits = bound(folder, embedder)
    rates = {configuration: images / statistics.median(taken) for configuration, taken in times.items()}
    best = max(rates, key=lambda configuration: rates[configuration])
    rate = images / statistics.median(imports)
    return {
        "images": images,
        "rounds": rounds,
        "processors": processors,
        "embedder": str(embedder.identity),
        "bare_images_per_second": {configuration: round(r, 1) for configuration, r in rates.items()},
        "import_images_per_second": round(rate, 1),
        "resume_images_per_second": round(images / statistics.median(again), 1),
        "ratios": {configuration: round(rate / r, 3) for configuration, r in rates.items()},
        "best": best,
        "ratio": round(rate / rates[best], 3),
        "target": TARGET,
        **limits,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=300, help="pictures in the folder (default 300)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each side (default 3)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    found = measure(arguments.images, arguments.rounds)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['images']} pictures of 640×480, {found['embedder']}, {found['processors']} processors, medians")
    for configuration, rate in found["bare_images_per_second"].items():  # type: ignore[attr-defined]
        print(f"{rate:8.1f} images/s  bare embedder, {configuration}")
    print(f"{found['import_images_per_second']:8.1f} images/s  import: read, decode, hash, embed, write durably")
    print(f"{found['resume_images_per_second']:8.1f} images/s  the same import again: all there already")
    print(f"{found['ratio']:8.3f}           import / best bare embedder (target {TARGET})")
    print(
        f"{found['bound']:8.3f}           bound on busy processors: embed {found['embed_ms']} ms of processor time, "
        f"decode {found['decode_ms']}, hash {found['pixel_id_ms']}"
    )


if __name__ == "__main__":
    main()
