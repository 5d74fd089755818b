"""Write the figures of ``docs/world-agreement.md``, between its two markers, from two studies of different seeds.

    sagehand world agree --grasps 1000 --seed 0 --out OUT0
    sagehand world agree --grasps 1000 --seed 1 --out OUT1
    python scripts/make_agreement_tables.py OUT0 OUT1

No figure of that page is typed by hand. The studies must have been made by the same code, of the same objects.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sagehand.errors import InputError
from sagehand.world.agree.markdown import md_numbers, md_pct, md_span, md_table, md_value
from sagehand.world.agree.text import md_force_estimate, md_reliability, verdicts

PAGE = Path(__file__).resolve().parents[1] / "docs" / "world-agreement.md"
BEGIN = "<!-- begin: figures, written by scripts/make_agreement_tables.py -->"
END = "<!-- end: figures -->"
SAME = ("grasps", "robot", "objects", "data", "files", "code", "versions")
Study = Mapping[str, Any]
Rows = Mapping[str, Mapping[str, Any]]


def main(arguments: Sequence[str] | None = None, page: Path = PAGE) -> None:
    """Read the two studies and rewrite the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", nargs=2, type=Path, metavar="OUT", help="Folder of a study.")
    try:
        studies = [read_study(folder) for folder in parser.parse_args(arguments).out]
        page.write_text(rewritten(page.read_text(encoding="utf-8"), figures_text(studies)), encoding="utf-8")
    except InputError as error:
        sys.exit(f"error: {error}")
    print(f"{page.name}: {', '.join(str(s['n']) for s in studies)} grasps")


def read_study(folder: Path) -> dict[str, Any]:
    """The summary of a study.

    Raises:
        InputError: There is none, or outcomes are missing or were paired with another sample.
    """
    path = folder / "summary.json"
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}", hint="run: sagehand world agree --out DIR") from error
    if not isinstance(doc, dict) or not isinstance(doc.get("worst"), list) or "force_estimate" not in doc:
        raise InputError(
            f"{path}: is no summary of a study, or an old one", hint="run the study again, into a new folder"
        )
    left = {e["number"] for e in doc["errors"]}
    if doc["mismatched"] or doc["n"] + len(left) != doc["study"]["grasps"]:
        raise InputError(
            f"{path}: {doc['n']} of {doc['study']['grasps']} grasps count, and {len(left)} broke",
            hint="run the study again, to its end",
        )
    return doc


def rewritten(page: str, figures: str) -> str:
    """The page with other figures between its markers.

    Raises:
        InputError: The markers are not there, once each and in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or page.count(BEGIN) != 1 or page.count(END) != 1:
        raise InputError("the page has no place for figures", hint=f"it needs one line {BEGIN!r} and later one {END!r}")
    return f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}"


def figures_text(studies: Sequence[Study]) -> str:
    """All figures of the studies beside each other, as Markdown.

    Raises:
        InputError: They are no two seeds of one study.
    """
    told = [s["study"] for s in studies]
    for name in SAME:
        if any(t.get(name) != told[0].get(name) for t in told):
            raise InputError(
                f"the studies differ in their {name}", hint="run both again with the same code and options"
            )
    if len({t["seed"] for t in told}) < len(told):
        raise InputError(
            f"the studies have the same seed, {told[0]['seed']}", hint="run one of them with another --seed"
        )
    seeds = [str(t["seed"]) for t in told]
    parts = [
        _made_by(studies),
        headline(studies, seeds),
        "### Controls",
        controls(studies, seeds),
        "### By kind",
        groups(studies, seeds, "by_kind", "kind"),
        groups(studies, seeds, "by_sub", "kind: what"),
        groups(studies, seeds, "with_neighbour", "scene"),
        "### What Q is worth",
        scores(studies, seeds),
        *(
            f"Tenths by Q, seed {seed}:\n\n{md_reliability(s['reliability'])}"
            for seed, s in zip(seeds, studies, strict=True)
        ),
        "### Verdicts",
        f"Rows: analytic; columns: physics; in each cell seed {' / seed '.join(seeds)}.",
        confusion([s["failure_type"]["confusion"] for s in studies]),
        "Where both fail:",
        types(studies, seeds),
        "### The search's estimate of force",
        md_force_estimate([s["force_estimate"] for s in studies], [f"seed {s}" for s in seeds]),
        "### By object",
        groups(studies, seeds, "by_object", "object"),
        "### Speed, one process",
        speed(studies, seeds),
        "### The worst disagreements",
        "Those in which Q spoke loudest for the analytic verdict, at most two of an object; the two ways to differ take turns.",
        *(f"Seed {seed}:\n\n{worst(s)}" for seed, s in zip(seeds, studies, strict=True)),
    ]
    return "\n\n".join(parts)


def _made_by(studies: Sequence[Study]) -> str:
    told = [s["study"] for s in studies]
    first = told[0]
    packages = ", ".join(f"{name} {version}" for name, version in first["versions"].items() if version)
    commands = "\n".join(
        f"sagehand world agree --grasps {t['grasps']} --seed {t['seed']} --out OUT{t['seed']}" for t in told
    )
    return (
        f"```sh\n{commands}\n```\n\n{first['grasps']} grasps each, {len(first['objects'])} objects and instances, robot "
        f"{first['robot']};\n{packages}.\nIntervals are 95 %." + _broken(studies)
    )


def _broken(studies: Sequence[Study]) -> str:
    told = [
        f" With seed {s['study']['seed']} an executor broke, and left out are {md_numbers(numbers)}."
        for s in studies
        if (numbers := sorted({e["number"] for e in s["errors"]}))
    ]
    return "".join(told)


def headline(studies: Sequence[Study], seeds: Sequence[str]) -> str:
    """The first figures."""

    def cells(what: str, tell: Callable[[Study], str]) -> tuple[str, ...]:
        return (what, *(tell(s) for s in studies))

    def area(name: str) -> Callable[[Study], str]:
        return lambda s: (
            f"{md_value(s['roc'][name]['auc'])} {md_span(s['roc'][name]['by_objects'], 3)}" if name in s["roc"] else "–"
        )

    named = [n for n in ("Q", "least factor", "margin") if any(n in s["roc"] for s in studies)]
    return md_table(
        ("figure", *(f"seed {s}" for s in seeds)),
        [
            cells(
                "agreement of success (objects drawn anew)",
                lambda s: f"{md_pct(s['agreement'])} {md_span(s['agreement_by_objects'])}",
            ),
            cells("the same, Wilson", lambda s: md_span(s["agreement_wilson"])),
            cells("Cohen's κ", lambda s: md_value(s["kappa"])),
            cells("success, analytic", lambda s: md_pct(s["base_rate"]["analytic"])),
            cells("success, physics", lambda s: md_pct(s["base_rate"]["physics"])),
            *(
                cells(f"held in {k.replace('_', ' ')}", _count(k))
                for k in ("both", "analytic_only", "physics_only", "neither")
            ),
            *(cells(f"ROC AUC of {n}", area(n)) for n in named),
            cells(
                "same failure type where both fail",
                lambda s: f"{md_pct(s['failure_type']['same_type'])} of {s['failure_type']['n_both_fail']}",
            ),
        ],
    )


def _count(key: str) -> Callable[[Study], str]:
    return lambda s: str(s["success"][key])


def beside(
    what: str,
    columns: Mapping[str, Callable[[Mapping[str, Any]], str]],
    tables: Sequence[Rows],
    seeds: Sequence[str],
    names: Sequence[str] | None = None,
) -> str:
    """A row a name, and the same columns for each seed."""
    if names is None:
        names = sorted({name for table in tables for name in table})
    head = (what, *(f"{column} (seed {seed})" for seed in seeds for column in columns))
    return md_table(
        head,
        [(n, *(tell(t[n]) if n in t else "–" for t in tables for tell in columns.values())) for n in names],
    )


def groups(studies: Sequence[Study], seeds: Sequence[str], key: str, what: str) -> str:
    """Agreement and shares of success by group."""
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "n": lambda r: str(r["n"]),
        "agreement": lambda r: md_pct(r["agreement"]),
        "held, analytic": lambda r: md_pct(r["analytic"]),
        "held, physics": lambda r: md_pct(r["physics"]),
    }
    return beside(what, columns, [s[key] for s in studies], seeds)


def controls(studies: Sequence[Study], seeds: Sequence[str]) -> str:
    """What must fail: which of it did not."""
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "n": lambda r: str(r["n"]),
        "held, analytic": lambda r: md_numbers(r["held_analytic"]),
        "held, physics": lambda r: md_numbers(r["held_physics"]),
    }
    tables = [s["controls"] for s in studies]
    return beside("control", columns, tables, seeds, list(tables[0]))


def scores(studies: Sequence[Study], seeds: Sequence[str]) -> str:
    """Area under the curve of Q and of each factor."""
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "AUC": lambda r: md_value(r["auc"]),
        "n": lambda r: str(r["n"]),
    }
    tables = [s["roc"] for s in studies]
    return beside("score", columns, tables, seeds, list(dict.fromkeys(n for t in tables for n in t)))


def confusion(tables: Sequence[Mapping[str, Mapping[str, int]]]) -> str:
    """Verdict by verdict, a count a study in each cell."""
    whole: dict[str, dict[str, int]] = {}
    for table in tables:
        for row, columns in table.items():
            whole.setdefault(row, {}).update(columns)
    names = verdicts(whole)

    def cell(row: str, column: str) -> str:
        counts = [t.get(row, {}).get(column, 0) for t in tables]
        return " / ".join(map(str, counts)) if any(counts) else "·"

    return md_table(("", *names), [(row, *(cell(row, column) for column in names)) for row in names])


def types(studies: Sequence[Study], seeds: Sequence[str]) -> str:
    """How often each failure was named by one, the other, and both."""
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "analytic": lambda r: str(r["analytic"]),
        "physics": lambda r: str(r["physics"]),
        "both": lambda r: str(r["both"]),
    }
    return beside("type", columns, [s["failure_type"]["types"] for s in studies], seeds)


def speed(studies: Sequence[Study], seeds: Sequence[str]) -> str:
    """Grasps a second."""
    return md_table(
        ("executor", "seed", "grasps", "grasps/s", "carried out", "grasps/s", "by processor time", "median ms"),
        [
            (
                name,
                seed,
                str(v["n"]),
                md_value(v["per_second"], 1),
                str(v["n_carried_out"]),
                md_value(v["per_second_carried_out"], 1),
                md_value(v["per_cpu_second_carried_out"], 1),
                md_value(v["median_ms"], 1),
            )
            for name in ("analytic", "physics")
            for seed, v in ((seed, s["speed"][name]) for seed, s in zip(seeds, studies, strict=True))
        ],
    )


def worst(study: Study) -> str:
    """The worst disagreements, what both said and why."""
    return md_table(
        ("grasp", "object", "kind", "command", "Q", "analytic", "physics"),
        [
            (
                str(w["number"]),
                w["object"],
                w["kind"] + (f": {w['sub']}" if w["sub"] else ""),
                f"{w['force_n']:.1f} N, {w['width_m'] * 1000:.0f} mm",
                md_value(w["q"], 2),
                _verdict(w["analytic"], w["analytic_why"]),
                _verdict(w["physics"], w["physics_why"]),
            )
            for w in study["worst"]
        ],
    ) or "None."  # fmt: skip


def _verdict(verdict: str, why: str) -> str:
    why = " ".join(why.split()).replace("|", "\\|")
    return f"**{verdict}**" + (f": {why}" if why else "")


if __name__ == "__main__":
    main()
