"""How much room the default install takes: a fresh virtual environment, ``pip install`` of this checkout, ``du``.

Run: ``python bench/install_size.py [--json]``. It fetches the packages from the index that pip is set up for, at the
versions of ``constraints.txt``. pip and its byte code are counted. MB are 10⁶ bytes, as blocks on disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from figures import Figure, Report, parser_for, show

TARGET = 450.0
ROOT = Path(__file__).resolve().parents[1]
LARGEST = 6


def megabytes(folder: Path) -> float:
    """Blocks on disk of every file below, each file once, in 10⁶ bytes."""
    seen: dict[tuple[int, int], int] = {}
    for parent, folders, files in os.walk(folder):
        for entry in (*folders, *files):
            status = Path(parent, entry).lstat()
            seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return round(sum(seen.values()) / 1e6, 1)


def install(environment: Path, source: Path) -> None:
    """Make the environment and install a copy of the checkout into it, so that nothing is built in the checkout."""
    kept = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out")
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "constraints.txt"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=kept)
    venv.create(environment, with_pip=True)
    command = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "-c", str(source / "constraints.txt"), str(source)], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"pip could not install it: {done.stderr.strip()[-500:]}")


def measure() -> Report:
    with tempfile.TemporaryDirectory(prefix="sagehand-bench-") as name:
        environment = Path(name, "venv")
        install(environment, Path(name, "source"))
        python = environment / "bin" / "python"
        ran = subprocess.run([str(python), "-m", "sagehand", "--version"], capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"the install does not run: {ran.stderr.strip()[-500:]}")
        (packages,) = environment.glob("lib/python*/site-packages")
        parts = {folder.name: megabytes(folder) for folder in packages.iterdir() if folder.is_dir()}
        whole = megabytes(environment)
    largest = sorted(parts, key=lambda part: -parts[part])[:LARGEST]
    return Report(
        "Room of the default install",
        {"Python": ".".join(map(str, sys.version_info[:3])), "platform": sys.platform},
        [
            Figure("the whole virtual environment", whole, "MB", TARGET),
            *(Figure(f"  of it {part}", parts[part], "MB") for part in largest),
        ],
    )


def main() -> None:
    parser = parser_for(__doc__)
    arguments = parser.parse_args()
    show(measure(), arguments.json)


if __name__ == "__main__":
    main()
