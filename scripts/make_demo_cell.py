"""Render the packaged demo cell anew: ``MUJOCO_GL=egl python scripts/make_demo_cell.py [--out FOLDER]``.

Needs ``pip install 'sagehand[render]'`` and a GL driver (Debian: libegl1 libegl-mesa0 libgl1-mesa-dri). Scenes and labels are
the same everywhere; pixels are the same on the same driver.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from sagehand.demo import cell_folder
from sagehand.study.cell.dataset import DEMO_SEED, folder_digest, make_demo
from sagehand.study.cell.render import CellRenderer


def main() -> None:
    """Render, then print size and digest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=cell_folder(), help="where to (default: the package's own folder)")
    parser.add_argument("--seed", type=int, default=DEMO_SEED, help="root seed (default: the packaged demo's)")
    options = parser.parse_args()
    start = time.perf_counter()
    with CellRenderer() as renderer:
        make_demo(options.out, renderer, seed=options.seed)
    pictures = list(options.out.rglob("*.jpg"))
    size = sum(p.stat().st_size for p in pictures) / 1e6
    print(
        f"{len(pictures)} pictures, {size:.2f} MB, {time.perf_counter() - start:.1f} s, digest {folder_digest(options.out)}"
    )


if __name__ == "__main__":
    main()
