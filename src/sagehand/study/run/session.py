"""One session of a run: the folder is locked, what it stands on is open, and what is missing is asked, unit by unit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagehand.cases import CaseBase
from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Bench, Method
from sagehand.study.methods.registry import make_method
from sagehand.study.run.answering import Silence, answer_all
from sagehand.study.run.bases import BaseNotBuilt
from sagehand.study.run.ground import Ground
from sagehand.study.run.manifest import Manifest, merged, old_facts, other_pictures, refuse_other, write_plan
from sagehand.study.run.plan import TRAINED, Arm, Plan
from sagehand.study.run.store import PLAN, RunFiles, read_run
from sagehand.study.run.units import Unit, Units

__all__ = ["Progress", "Session"]


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        unit: What is being asked, in words.
        done: Items that have a record, of all chosen units.
        total: All items of them.
    """

    unit: str
    done: int
    total: int


class Session:
    """One session of a run.

    Args:
        plan: The plan.
        out: The run folder.
        ground: What it stands on.
        files: The locked run folder's records.
        jobs: Items asked at once.
        make: Makes the method of a bench; None for the registry's.
        on_progress: Called at the start of each unit, and after every record.
    """

    def __init__(
        self,
        plan: Plan,
        out: Path,
        ground: Ground,
        files: RunFiles,
        jobs: int,
        make: Callable[[Bench], Method] | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._plan, self._out, self._ground, self._files = plan, out, ground, files
        self._jobs, self._make, self._on_progress = jobs, make or make_method, on_progress

    def claim(self, arms: Sequence[Arm], seeds: Sequence[int]) -> Plan:
        """Refuse a folder with records of another plan; write plan and manifest. Returns the plan with what is there."""
        there = read_run(self._out) if (self._out / PLAN).exists() else None
        doc = dict(there.manifest) if there else {}
        # what has no record binds nobody: a plan that could not be run may be mended
        held = {record.arm for record in self._files.latest.values()}
        run_on = {str(record.seed) for record in self._files.latest.values()}
        doc["arms"] = {name: facts for name, facts in doc.get("arms", {}).items() if name in held}
        doc["data"] = {seed: told for seed, told in doc.get("data", {}).items() if seed in run_on}
        facts = {arm.name: self._ground.facts(arm) for arm in arms}
        data = {seed: self._ground.data(seed) for seed in seeds}
        if "{seed}" not in self._ground.data_folder:  # all seeds share the pictures, those of earlier sessions too
            data |= {int(seed): self._ground.data(int(seed)) for seed in doc["data"]}
        refuse_other(self._out, doc, {**old_facts(self._plan, doc), **facts}, data)
        for line in other_pictures(doc, data):
            self._ground.note(line)
        plan = merged(self._plan, there, held).model_copy(update={"data": self._ground.data_folder})
        write_plan(self._out, plan)
        self._manifest = Manifest(self._out, doc, plan)
        self._manifest.describe(
            data_folder=self._ground.data_folder,
            data=data,
            library=self._ground.library,
            arms=facts,
            settings=self._ground.plain(),
        )
        return plan

    def units(self, arms: Sequence[Arm], seeds: Sequence[int]) -> list[Unit]:
        """What is to be asked, arm by arm."""
        units = Units(self._plan, self._ground.data)
        found = [unit for arm in arms for seed in seeds for unit in units.of(arm, seed)]
        for unit in found:
            # of new devices the base's own answers certify, of folds nothing is kept apart
            if unit.arm.risk is not None and not unit.certify and unit.protocol in ("held-out", "paper"):
                self._ground.note(
                    f"arm {unit.arm.name!r}: nothing is kept apart to certify its risk {unit.arm.risk:g}, so nothing can be "
                    "certified outside the base's own answers; add `certify: 8` to the plan, with more pictures a step"
                )
        return found

    def ask(self, units: Sequence[Unit], asked: Mapping[str, Any], retry_failed: bool) -> str:
        """Ask all items without a record; "done", "interrupted" by Ctrl-C, or "failed": items of some units are missing.

        Raises:
            BaseNotBuilt: No case base could be built, and no item of the units has a record.
        """
        missing = [(unit, self._missing(unit, retry_failed)) for unit in units]
        done, total = sum(len(u.asked) - len(m) for u, m in missing), sum(len(u.asked) for u in units)
        self._manifest.begin(asked)
        state = "failed"
        failed: list[BaseNotBuilt] = []
        silences: dict[str, Silence] = {}
        skipped = 0
        try:
            for unit, items in missing:
                if not items:
                    continue
                silence = silences.setdefault(unit.arm.name, Silence())
                try:
                    left = len(items) if silence.long else self._unit(unit, items, silence, done, total)
                except BaseNotBuilt as error:  # other units need not wait for it
                    failed.append(error)
                    self._ground.note(f"{error}; {len(items)} items are skipped")
                    continue
                done, skipped = done + len(items) - left, skipped + left
                if left:  # other arms go on: their server may be there
                    self._ground.note(
                        f"{unit.name}: {left} items are skipped after no answer {silence.count} times in a row "
                        f"({silence.reason}). Mend it; --retry-failed asks those that failed, too"
                    )
            if failed and not any(key in self._files.latest for unit in units for key in unit.keys):
                raise failed[0]
            state = "failed" if failed or skipped else "done"
        except KeyboardInterrupt:
            state = "interrupted"
        finally:
            self._manifest.end(state, self._files.appended)
        return state

    def _missing(self, unit: Unit, retry_failed: bool) -> list[tuple[str, Sample]]:
        latest = self._files.latest

        def answered(key: tuple[str, int, int, str, str]) -> bool:
            record = latest.get(key)
            return record is not None and not (retry_failed and (record.failure or record.error))

        return [item for key, item in zip(unit.keys, unit.asked, strict=True) if not answered(key)]

    def _unit(self, unit: Unit, items: Sequence[tuple[str, Sample]], silence: Silence, done: int, total: int) -> int:
        """Ask a unit's items; how many were left, because the arm's model is silent."""

        def told(what: str, more: int) -> None:
            if self._on_progress:
                self._on_progress(Progress(what, done + more, total))

        told(f"{unit.name}: case base", 0)
        base = self._ground.base(unit, self._out / "bases", None)
        counted = itertools.count(1)
        try:
            method = self._make(self._bench(unit, base))
            try:
                told(unit.name, 0)
                return answer_all(
                    unit,
                    method,
                    items,
                    self._files,
                    jobs=self._jobs,
                    silence=silence,
                    on_record=lambda _: told(unit.name, next(counted)),
                )
            finally:
                method.close()
        finally:
            if base is not None:
                base.close()

    def _bench(self, unit: Unit, base: CaseBase | None) -> Bench:
        arm, ground = unit.arm, self._ground
        vlm = ground.vlm(arm)
        if vlm is not None:
            self._manifest.model(arm.name, vlm, ground.prompts)
        work = self._out / "models" / arm.name / f"seed{unit.seed}-fold{unit.fold}"
        if arm.method in TRAINED:
            work.mkdir(parents=True, exist_ok=True)
        return Bench(
            arm=arm,
            seed=unit.seed,
            fold=unit.fold,
            train=unit.train,
            validation=unit.validation,
            certify=unit.certify,
            library=ground.library,
            embedder=ground.embedder(arm.embedder),
            work=work,
            base=base,
            vlm=vlm,
            settings=ground.plain(),
        )
