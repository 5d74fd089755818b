"""The case base of a unit: built once, calibrated, and kept under a name that stands for all that it depends on.

Units of several arms share it. It is built under a temporary name, which a run that was stopped goes on with, and gets
its own when it is whole and calibrated: what has that name is never half of anything.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sagehand.action.decision import Known
from sagehand.cases import CaseBase, CaseDraft, DepthUnit, crop_and_embed, parse_row
from sagehand.embed import Embedder
from sagehand.errors import CaseConflict, InputError, JudgeError, NeedsVlm, NotACaseBase, SagehandError, SettingsError
from sagehand.judge.calibration import RECIPE
from sagehand.judge.leaveout import LeaveOut
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Judge
from sagehand.picture import DEFAULT_LIMITS, Limits, load
from sagehand.recall.build import calibrate
from sagehand.recall.crop import TURNS, Cropper, cropper
from sagehand.recall.crop_trace import CropResult
from sagehand.study.dataset.sample import Sample
from sagehand.study.run.units import Unit

__all__ = ["BaseNotBuilt", "Builder"]

_FORMAT = 1  # of the recipe below: another number, another name
_BATCH = 32  # cases written in one transaction


class BaseNotBuilt(InputError):
    """A case base lacks pictures: they cannot be used, or the model that crops gave no answer for them."""


@dataclass(frozen=True)
class Builder:
    """Builds the case bases of a run's units, or takes those that are there.

    Attributes:
        folder: Where they are kept.
        embedder: Embeds; called from several threads.
        judge: Who makes the moves of the crops "grid" and "box"; None for the perceptual judge.
        prompts: Digest of the judge's prompts, or "".
        depth_unit: Unit of integer depth images.
        limits: Caps on pictures.
        workers: Threads.
        on_progress: Called with (cases done, all).
        on_note: Called with what the user should know, a line each.
    """

    folder: Path
    embedder: Embedder
    judge: Judge | None = None
    prompts: str = ""
    depth_unit: DepthUnit = "mm"
    limits: Limits = DEFAULT_LIMITS
    workers: int = 1
    on_progress: Callable[[int, int], None] | None = None
    on_note: Callable[[str], None] | None = None

    def open(self, unit: Unit) -> CaseBase:
        """The calibrated case base of a unit's ``train``; its cases' ``file_name`` are sample keys.

        With a risk, the calibration's answers are those to the unit's ``certify``, unless queries show new devices: pictures
        of known devices certify nothing about new ones, so the cases' own answers, with their devices left out, stay.

        Raises:
            BaseNotBuilt: Pictures of the base cannot be used, or the model that crops gave no answer for them; the others are
                kept for the next try with the same pictures.
        """
        path = self.folder / f"{self._key(unit)}.cases"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".part")
            with self._draft(draft, unit.arm.crop) as base:
                self._fill(base, unit)
                calibrate(base, _leave_out(unit))
                if _certifies(unit):
                    self._certify(base, unit)
            os.replace(draft, path)
        base = CaseBase.open(path)
        base.require(self.embedder.identity, unit.arm.crop)
        return base

    def _key(self, unit: Unit) -> str:
        arm = unit.arm
        says: dict[str, Any] = {
            "format": _FORMAT,
            "recipe": RECIPE,
            "data": unit.data.digest,
            "pictures": unit.data.pictures,
            "cases": sorted(s.key for s in unit.train),
            "crop": arm.crop,
            "embedder": self.embedder.identity.to_dict(),
            "leave_out": _leave_out(unit),
            "depth": self.depth_unit if arm.depth else None,
        }
        if arm.crop in TURNS:
            says["cropped_by"] = [self._judge.name, self.prompts]
        if _certifies(unit):
            says["certify"] = [sorted(s.key for s in unit.certify), arm.previous, arm.place]
        return hashlib.sha256(json.dumps(says, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def _judge(self) -> Judge:
        return self.judge or PerceptualJudge()

    def _draft(self, path: Path, crop: str) -> CaseBase:
        """The base under way, as far as it came the last time."""
        if path.exists():
            try:
                return CaseBase.open(path, read_only=False)
            except NotACaseBase:  # killed while it was made: nothing is in it
                for ending in ("", "-wal", "-shm"):
                    path.with_name(path.name + ending).unlink(missing_ok=True)
        return CaseBase.create(path, embedder=self.embedder.identity, crop=crop)

    def _fill(self, base: CaseBase, unit: Unit) -> None:
        there = {case.file_name for case in base.cases()}
        missing = iter([s for s in unit.train if s.key not in there])
        cut = cropper(base.crop, self._judge, on_result=_whole_is_an_error)

        def draft(sample: Sample) -> CaseDraft | SagehandError:
            try:
                return self._case(sample, cut, depth=unit.arm.depth)
            except (NeedsVlm, SettingsError):
                raise  # of no use to any picture
            except (InputError, JudgeError) as error:
                return error

        done, failed = len(there), []
        with ThreadPoolExecutor(self.workers, "base") as pool:
            while batch := list(islice(missing, _BATCH)):
                made = list(pool.map(draft, batch))
                failed += [error for error in made if isinstance(error, SagehandError)]
                for result in base.add_many(d for d in made if isinstance(d, CaseDraft)):
                    if isinstance(result, CaseConflict) and self.on_note:
                        self.on_note(f"the case base of {unit.name}: {result.message}; it counts once")
                done += len(batch)
                if self.on_progress:
                    self.on_progress(done, len(unit.train))
        if failed:
            raise _not_built(unit, failed) from failed[0]

    def _case(self, sample: Sample, cut: Cropper | None, *, depth: bool) -> CaseDraft:
        row = dict(sample.row)
        path = sample.depth if depth else None
        if path is None:
            row.pop("depth_file_name", None)
        unit = None if path is None else self.depth_unit
        seen = load(sample.path, depth=path, depth_unit=unit, limits=self.limits)
        if seen.data is None:
            raise TypeError("a picture loaded from a file keeps its bytes")
        made = crop_and_embed(seen, parse_row(row), cut, self.embedder)
        return CaseDraft(
            image=seen.data,
            pixel_id=seen.pixel_id,
            vector=made.vector,
            row=row,
            depth_image=None if path is None else path.read_bytes(),
            depth_vector=made.depth_vector,
            box=made.box,
            depth_unit=unit,
        )

    def _certify(self, base: CaseBase, unit: Unit) -> None:
        from sagehand.action.certify import CertifyItem, certify_on

        arm = unit.arm
        items = [
            CertifyItem(
                picture=s.path,
                depth=s.depth if arm.depth else None,
                known=Known(previous=s.previous_action if arm.previous else None, place=s.place if arm.place else None),
                next_action=s.next_action,
                unit=s.group or s.key,
                key=s.key,
                group=s.group,
                family=s.family,
                device=s.device,
                polygon=s.polygon,
            )
            for s in unit.certify
            if s.next_action is not None
        ]

        def note(item: CertifyItem, why: str) -> None:
            if self.on_note:
                self.on_note(f"{unit.name}: {item.key} certifies nothing: {why}")

        certify_on(
            base,
            items,
            embedder=self.embedder,
            judge=self._judge,
            depth_unit=self.depth_unit,
            limits=self.limits,
            on_refused=note,
            on_failed=note,
        )


def _not_built(unit: Unit, failed: Sequence[SagehandError]) -> BaseNotBuilt:
    by_model = [error for error in failed if isinstance(error, JudgeError)]
    count = f"{len(failed)} of {len(unit.train)} pictures"
    if len(by_model) == len(failed):
        return BaseNotBuilt(
            f"the case base of {unit.name}: the model that crops failed on {count}; the first: {failed[0]}",
            hint="run again: it is asked again about these, the others are kept",
        )
    share = f" (the model that crops failed on {len(by_model)} of them)" if by_model else ""
    again = "; running again asks the model again" if by_model else ""
    first = next(error for error in failed if not isinstance(error, JudgeError))
    return BaseNotBuilt(
        f"the case base of {unit.name}: {count} cannot be used{share}; the first: {first}",
        hint=f"mend them and run again{again}",
    )


def _leave_out(unit: Unit) -> LeaveOut:
    """What a calibration leaves out: what the queries are to the base."""
    devices = {(s.family, s.device) for s in unit.train}
    return "device" if unit.new_devices and len(devices) > 1 else "case"


def _certifies(unit: Unit) -> bool:
    return unit.arm.risk is not None and bool(unit.certify) and not unit.new_devices


def _whole_is_an_error(result: CropResult) -> None:
    """A judge that fails fails the picture: one that is left whole among crops would be found by its background."""
    if result.error is not None:
        raise result.error
