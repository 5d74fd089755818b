"""How quickly a folder of cases is imported, against two bare loops: the embedder alone, and decode + embed from files.

Run: ``python bench/import_rate.py [--images 300] [--rounds 3] [--json]``. The import reads, decodes, hashes, embeds and
writes durably, and all of that is its time. It is held against

* the raw embedder on the same pictures, decoded beforehand: the target, 85 % or more, is on this ratio;
* the same with Pillow's decoding of the files in the loop: what a script that only embeds a folder would reach.

Each bare loop is measured in several configurations (threads inside the network or over it) and its best one counts. All
are measured in turn, so that a machine that is busy with other work slows all of them; a ratio is the median of the
rounds' ratios to the configuration whose median is best. When every processor is busy, decoding and hashing cost their
share whatever the import does: the bound in the table is the bare embedder's processor time against the same with
decoding and hashing of the pixels added, and nothing else.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from figures import Figure, Report, in_turn, parser_for, processors, ratio, show
from numpy.typing import NDArray
from PIL import Image

from sagehand.cases.base import CaseBase
from sagehand.cases.folder import import_folder
from sagehand.embed import Embedder, get_embedder
from sagehand.picture import load

TARGET = 0.85
EMBEDDER, LOOP = "raw embedder, decoded arrays", "decode + embed from files"
IMPORT = "import: read, decode, hash, embed, write durably"
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


def decoded(file: Path) -> Pixels:
    """The bare way from a file to pixels."""
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


def configurations(pictures: list[Pixels], files: list[Path]) -> dict[str, Callable[[], object]]:
    """Ways to run the two bare loops: threads of the network's own, or ours over one that uses a single thread."""
    count = processors()
    wide, single = get_embedder(threads=count), get_embedder(threads=1)
    for embedder in (wide, single):
        embedder.embed(pictures[:1])  # the weights are loaded before anything is timed

    def parts(size: int) -> list[slice]:
        return [slice(start, start + size) for start in range(0, len(pictures), size)]

    def inside(embed: Callable[[Embedder, slice], object]) -> None:
        for part in parts(16):
            embed(wide, part)

    def outside(embed: Callable[[Embedder, slice], object], size: int) -> None:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda part: embed(single, part), parts(size)))

    def ready(embedder: Embedder, part: slice) -> object:
        return embedder.embed(pictures[part])

    def from_files(embedder: Embedder, part: slice) -> object:
        return embedder.embed([decoded(file) for file in files[part]])

    return {
        f"{name}, {how}": run
        for name, embed in ((EMBEDDER, ready), (LOOP, from_files))
        for how, run in {
            f"batches of 16, {count} threads inside": lambda embed=embed: inside(embed),
            f"one by one, {count} threads outside": lambda embed=embed: outside(embed, 1),
            f"batches of 8, {count} threads outside": lambda embed=embed: outside(embed, 8),
        }.items()
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
        taken = [seconds(lambda: [work(i) for i in range(len(files))], time.process_time) for _ in range(3)]
        return min(taken) / len(files)

    embed = each(lambda i: embedder.embed([pictures[i].pixels]))
    decode = each(lambda i: load(files[i]))
    identity = each(lambda i: load(pictures[i].pixels).pixel_id)
    parts = {"embed": embed * 1e3, "decode": decode * 1e3, "hash": identity * 1e3}
    return {name: round(value, 3) for name, value in {**parts, "bound": embed / (embed + decode + identity)}.items()}


def measure(images: int, rounds: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="sagehand-bench-") as name:
        folder = Path(name, "folder")
        folder.mkdir()
        pictures = make_folder(folder, images)
        embedder = get_embedder(threads=1)
        embedder.embed(pictures[:1])
        bases = [CaseBase.create(Path(name, f"{number}.cases"), embedder=embedder.identity) for number in range(rounds)]
        empty = iter(bases)
        arms = {
            **configurations(pictures, sorted(folder.glob("*.jpg"))),
            IMPORT: lambda: import_folder(folder, next(empty), embedder),
        }
        taken = in_turn(arms, rounds, warm_up=0)
        if any(len(base) != images for base in bases):
            raise SystemExit(f"only {min(map(len, bases))} of {images} cases were imported")
        again = [seconds(lambda base=base: import_folder(folder, base, embedder)) for base in bases]  # type: ignore[misc]
        for base in bases:
            base.close()
        limits = bound(folder, embedder)
    rates = {arm: round(images / float(np.median(times)), 1) for arm, times in taken.items()}
    best = {
        loop: max((arm for arm in rates if arm.startswith(loop)), key=rates.__getitem__) for loop in (EMBEDDER, LOOP)
    }
    figures = [
        *(Figure(arm, rate, "images/s") for arm, rate in rates.items()),
        Figure("the same import again: all there already", round(images / float(np.median(again)), 1), "images/s"),
        Figure(
            "import / best raw embedder on decoded arrays",
            ratio(taken[best[EMBEDDER]], taken[IMPORT]),
            "",
            TARGET,
            False,
        ),
        Figure("import / best bare loop of decode + embed from files", ratio(taken[best[LOOP]], taken[IMPORT])),
        Figure("bound of the first ratio on busy processors", limits["bound"]),
        *(Figure(f"  processor time of a picture: {part}", limits[part], "ms") for part in limits if part != "bound"),
    ]
    setup = {"images": f"{images} of 640×480", "rounds": rounds, "embedder": embedder.identity, "threads": processors()}
    return Report(
        "Import of a folder against bare loops, medians",
        {key: value if isinstance(value, int) else str(value) for key, value in setup.items()},
        figures,
        [
            "the import's rate counts reading, decoding, hashing, embedding and the durable write",
            "the target is on the ratio to the raw embedder, whose pictures were decoded beforehand",
        ],
    )


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--images", type=int, default=300, help="pictures in the folder (default 300)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each side (default 3)")
    arguments = parser.parse_args()
    show(measure(arguments.images, arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
