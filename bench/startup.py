"""How long whole processes take: the bare interpreter, the import, the help, and a decision from the shell.

Run: ``python bench/startup.py [--rounds 15] [--json]``. Every process is started anew, in turn with the others; the
interpreter's own start is part of each figure, the compiling of byte code is not. The decision is ``sagehand predict``
on the packaged demo cell, with the action library, as JSON, and written into the decision log.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from figures import Figure, Report, in_turn, milliseconds, parser_for, processors, show, with_byte_code

from sagehand.demo import cell_folder
from sagehand.recall.build import build

TARGETS = {"python -c pass": None, "import sagehand": 0.25, "sagehand --help": 0.4, "sagehand predict": 1.2}


def commands(cases: Path) -> dict[str, list[str]]:
    """What is started, by name."""
    script = Path(sys.executable).with_name("sagehand")
    sagehand = [str(script)] if script.exists() else [sys.executable, "-m", "sagehand"]
    cell = cell_folder()
    picture = cell / "queries" / "fumonic_step3_view4.jpg"
    predict = ["predict", str(picture), "--cases", str(cases), "--actions", str(cell / "actions.yaml"), "--json"]
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import sagehand": [sys.executable, "-c", "import sagehand"],
        "sagehand --help": [*sagehand, "--help"],
        "sagehand predict": [*sagehand, *predict],
    }


def starting(command: list[str], folder: Path) -> Callable[[], None]:
    """Runs the command in ``folder``, where no settings file lies; stops the bench where it fails."""
    environment = with_byte_code(folder / "byte-code")
    environment = {name: value for name, value in environment.items() if not name.startswith("SAGEHAND_")}

    def start() -> None:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        if "predict" in command and json.loads(done.stdout)["decision"] is None:
            raise SystemExit("the decision was not logged: the log's write would be missing from the time")

    return start


def measure(rounds: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="sagehand-bench-") as name:
        cases = Path(name, "demo.cases")
        build(cell_folder(), cases)
        arms = {what: starting(command, Path(name)) for what, command in commands(cases).items()}
        taken = in_turn(arms, rounds, warm_up=1)
    figures = [
        Figure(f"{what}: whole process", round(milliseconds(taken[what]) / 1e3, 4), "s", TARGETS[what])
        for what in TARGETS
    ]
    version = ".".join(map(str, sys.version_info[:3]))
    return Report(
        "Start of whole processes, medians",
        {"rounds": rounds, "Python": version, "processors": processors()},
        figures,
        ["byte code is there, compiled by a first start that does not count, as pip compiles it at the install"],
    )


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="starts of each kind (default 15)")
    arguments = parser.parse_args()
    show(measure(arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
