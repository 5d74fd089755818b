"""Run every benchmark, print its table, and sum up which targets are met.

Run: ``python bench/run_all.py [--install] [--only NAME ...] [--quick] [--json]``, or ``make bench``. The scripts run one
after another, never side by side. A missed target is told and is no failure; the exit code is 1 where a script ended
without its figures.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import Report, parser_for, processors, with_byte_code

SCRIPTS: dict[str, tuple[list[str], list[str]]] = {
    "startup": ([], ["--rounds", "2"]),
    "decision": ([], ["--rounds", "5"]),
    "search": ([], ["--sizes", "100", "--dimension", "16", "--rounds", "3"]),
    "appends": ([], ["--rounds", "5"]),
    "import_rate": (["--images", "100", "--rounds", "7"], ["--images", "6", "--rounds", "1"]),
    "kill9": (["--cycles", "100"], ["--cycles", "2"]),
    "guided": ([], ["--rounds", "1", "--time-scale", "0", "--steps", "1"]),
    "faults": ([], ["--decisions", "5", "--no-alone"]),
    "world_ik": ([], ["--poses", "30", "--every", "60"]),
    "world_speed": ([], ["--grasps", "6", "--physics", "2", "--rounds", "1"]),
}
"""Script → its arguments, and those of ``--quick``."""


def run(name: str, arguments: list[str], environment: dict[str, str]) -> Report | None:
    """What a script found; None, with its last words on stderr, where it gave no figures."""
    command = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *arguments, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    try:
        return Report.from_dict(json.loads(done.stdout))
    except ValueError:
        print(f"{name} ended with {done.returncode}: {done.stderr.strip()[-2000:]}", file=sys.stderr)
        return None


def summary(reports: dict[str, Report | None]) -> list[str]:
    """One line for each target: met or missed, the figure, and its script; then the counts."""
    lines = []
    for name, report in reports.items():
        if report is None:
            lines.append(f"  FAILED  {name}: no figures")
            continue
        for figure in report.figures:
            if figure.met is not None:
                value = "not measured" if figure.value is None else f"{figure.value:,.4g} {figure.unit}".rstrip()
                bound, _ = figure.verdict.split(":")
                lines.append(f"  {'met   ' if figure.met else 'MISSED'}  {name}: {figure.name} is {value} ({bound})")
    met, missed = (sum(line.startswith(f"  {word}") for line in lines) for word in ("met", "MISSED"))
    return ["Summary", *lines, f"  {met} targets met, {missed} missed, of {met + missed}"]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--install", action="store_true", help="also measure the default install (fetches packages)")
    parser.add_argument("--only", nargs="+", choices=[*SCRIPTS, "install_size"], metavar="NAME", help="these scripts")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that the scripts run, nothing else")
    options = parser.parse_args()
    chosen = options.only or [*SCRIPTS, *(["install_size"] if options.install else [])]
    started, load_before = time.monotonic(), os.getloadavg()[0]
    reports: dict[str, Report | None] = {}
    with tempfile.TemporaryDirectory(prefix="sagehand-bench-") as folder:
        environment = with_byte_code(Path(folder))
        for name in chosen:
            full, quick = SCRIPTS.get(name, ([], []))
            reports[name] = run(name, quick if options.quick else full, environment)
            if reports[name] is not None and not options.json:
                print(f"{reports[name].text()}\n", flush=True)  # type: ignore[union-attr]
    if options.json:
        print(json.dumps({n: r.to_dict() if r else None for n, r in reports.items()}, indent=2, ensure_ascii=False))
    else:
        print("\n".join(summary(reports)))
        if options.quick:
            print("  tiny sizes: these figures show that the scripts run, and nothing else")
        minutes = (time.monotonic() - started) / 60
        load = f"load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after"
        print(f"  {minutes:.1f} minutes, {processors()} processors ({platform.machine()}), {load}")
    sys.exit(any(report is None for report in reports.values()))


if __name__ == "__main__":
    main()
