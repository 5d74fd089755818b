"""What a reader must know of a run before its figures: warnings, and what it stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagehand.pages.words import base_name, when
from sagehand.study.report.compare import NEW_DEVICES
from sagehand.study.report.load import Study, model_of
from sagehand.study.report.parts import Counterpart, Table
from sagehand.study.report.tasks import TASK_WORDS
from sagehand.study.run.record import TASKS

__all__ = ["settings_of", "warnings_of"]


def warnings_of(study: Study) -> list[str]:
    """What makes figures weaker than they look, from the records themselves."""
    found = list(study.remarks)
    queries = [r for a in study.asked for r in study.of(a)]
    places = {(r.truth.get("device"), r.truth.get("step")) for r in queries}
    pictures = {study.picture(r) for r in queries}
    seeds = sorted({r.seed for r in queries})
    if len(places) < len(pictures):
        found.append(
            f"Views are clustered: {len(pictures)} pictures show {len(places)} steps of devices, and views of one step are not "
            "independent. Wilson intervals and McNemar's test count each for itself: intervals are too narrow, p too small. "
            "Read “p by step” beside them."
        )
    shared = "{seed}" not in (study.plan.data or "")
    if len(seeds) > 1 and shared:
        found.append(
            f"{len(seeds)} seeds are pooled over one set of pictures: the same picture is asked up to {len(seeds)} times, with "
            "other cases in the base. That narrows intervals further."
        )
    found += _new_devices(study)
    alike = [TASK_WORDS[task] for task in TASKS if len({str(r.truth.get(task)) for r in queries}) == 1]
    if alike:
        found.append(f"Every picture has the same label in: {', '.join(alike)}. Being right there says nothing.")
    uneven = _uneven(study)
    if uneven:
        found.append(uneven)
    for what, count in (
        ("a model failed to answer", sum(r.failure is not None for r in queries)),
        ("an error left without an answer", sum(r.error is not None for r in queries)),
    ):
        if count:
            found.append(f"{count} item{' that' if count == 1 else 's that'} {what}: counted as wrong, never dropped.")
    empty = [a.name for a in study.plan.arms if a not in study.arms]
    if empty:
        found.append(f"No records yet of {', '.join(empty)}: go on with `sagehand study run`.")
    unasked = [str(s) for s in study.plan.seeds if s not in {r.seed for r in study.records}]
    if unasked:
        found.append(
            f"No records of seed {', '.join(unasked)}, though the plan names {'it' if len(unasked) == 1 else 'them'}."
        )
    found += _other_data(study)
    problems = sum(len(d.problems) for d in study.data.values())
    if problems:
        found.append(f"{problems} row{'' if problems == 1 else 's'} of the pictures' metadata could not be used.")
    return found


def _new_devices(study: Study) -> list[str]:
    """How few devices stand behind what is said of new ones."""
    arms = [a for a in study.asked if study.plan.protocol_of(a) in NEW_DEVICES]
    devices = {(r.truth.get("family"), r.truth.get("device")) for a in arms for r in study.of(a)}
    if not devices:
        return []
    count = "one device" if len(devices) == 1 else f"{len(devices)} devices"
    return [
        f"Devices are left out of the base: what is said of new devices rests on {count}, however many pictures there are. "
        "Intervals and p, also by step, speak of no others."
    ]


def _uneven(study: Study) -> str:
    """Arms of one protocol that did not answer the same items."""
    by_protocol: dict[str, dict[str, set[tuple[Any, ...]]]] = {}
    for arm in study.asked:
        items = {r.key[1:] for r in study.of(arm)}
        by_protocol.setdefault(study.plan.protocol_of(arm), {})[arm.name] = items
    short = [
        f"{name} {len(items)} of {len(everything)}"
        for arms in by_protocol.values()
        for everything in [set().union(*arms.values())]
        for name, items in arms.items()
        if len(items) < len(everything)
    ]
    return (
        f"Not all arms answered the same items: {', '.join(short)}. Paired tests take what both answered."
        if short
        else ""
    )


def _other_data(study: Study) -> list[str]:
    told = study.manifest.get("data") or {}
    changed = [
        "the pictures" if seed is None else f"the pictures of seed {seed}"
        for seed, data in study.data.items()
        if (docs := [d for s, d in told.items() if seed is None or s == str(seed)])
        and all(d.get("digest") != data.digest for d in docs)
    ]
    return [f"Not the same as when the run was made: {', '.join(changed)}."] if changed else []


def settings_of(study: Study) -> Counterpart:
    """What the run stands on: plan, arms, data, versions, machine, sessions. The only times of day in a report."""
    header = ("arm", "method", "crop", "embedder", "protocol", "model", "otherwise")
    arms = tuple(
        (
            a.name,
            a.method,
            a.crop,
            a.embedder,
            study.plan.protocol_of(a),
            model_of(a, study.manifest) or "–",
            ", ".join(
                _departures(a.model_dump(mode="json"), type(a)(name="x", method=a.method).model_dump(mode="json"))
            )
            or "–",
        )
        for a in study.plan.arms
    )
    return Counterpart(
        "settings", "", "What the run stands on", table=Table(header, arms, "Arms"), notes=tuple(_facts(study))
    )


def _departures(arm: Mapping[str, Any], plain: Mapping[str, Any]) -> list[str]:
    told = {"name", "method", "crop", "embedder", "protocol", "model"}
    return [f"{name} {_value(value)}" for name, value in arm.items() if name not in told and value != plain[name]]


def _facts(study: Study) -> list[str]:
    plan, manifest = study.plan, study.manifest
    facts = [
        f"Plan {plan.name}: protocol {plan.protocol}, {plan.per_step} pictures a step in the base, {plan.certify} a step to "
        f"certify risks; seeds {', '.join(map(str, plan.seeds))}."
    ]
    digests: dict[str, list[str]] = {}
    for seed, doc in (manifest.get("data") or {}).items():
        line = f"{base_name(str(doc.get('folder', '')))}, {doc.get('samples')} pictures, digest {str(doc.get('digest', ''))[:16]}"
        digests.setdefault(line, []).append(str(seed))
    facts += [f"Pictures (seed {', '.join(seeds)}): {line}." for line, seeds in digests.items()]
    actions = manifest.get("actions")
    if actions:
        facts.append(
            f"Actions: {base_name(str(actions.get('source', '')))}, digest {str(actions.get('digest', ''))[:16]}."
        )
    for arm, doc in (manifest.get("models") or {}).items():
        facts.append(f"Model of {arm}: {doc.get('model')}, prompts {str(doc.get('prompts', ''))[:16]}.")
    settings = manifest.get("settings") or {}
    if settings:
        facts.append("Settings: " + ", ".join(f"{k} {_value(v)}" for k, v in settings.items() if v is not None) + ".")
    facts += [_session(i, doc) for i, doc in enumerate(manifest.get("sessions") or (), start=1)]
    return facts


def _session(number: int, doc: Mapping[str, Any]) -> str:
    machine = doc.get("machine") or {}
    versions = ", ".join(f"{k} {v}" for k, v in (doc.get("versions") or {}).items())
    ended = when(doc.get("finished")) or "not finished"
    return (
        f"Session {number}: {when(doc.get('started'))} to {ended}, {doc.get('state')}; {machine.get('cpus')} processors "
        f"({machine.get('processor')}, {machine.get('system')}); {versions}."
    )


def _value(value: Any) -> str:
    """A value without the folders of the machine it was made on."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        return base_name(value) if "/" in value and "://" not in value else value
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return str(value)
