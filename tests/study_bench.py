"""A small labelled folder and benches on it, for the tests of a study's methods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from builders import ACTIONS, IDENTITY, VectorEmbedder, near, picture_of
from folders import write_rows
from sagehand.action.library import ActionLibrary
from sagehand.cases import CaseBase, CaseDraft
from sagehand.judge.calibration import learn
from sagehand.picture import load
from sagehand.recall.crop import crop_picture
from sagehand.study.dataset.sample import Sample, StudyData
from sagehand.study.methods.base import Bench
from sagehand.study.run.plan import Arm

LIBRARY = ActionLibrary.parse(ACTIONS, source="test.yaml")
STEPS = ("a1", "a2", "a3", "end")
PLACES = ("table", "table", "vise", "vise")


def scene(vector: Any, seed: int) -> Any:
    """A (72, 96, 3) picture that :class:`builders.VectorEmbedder` embeds as (nearly) the vector."""
    pixels = np.random.default_rng(seed).integers(0, 256, (72, 96, 3), dtype=np.uint8)
    pixels[0, :8, 0] = picture_of(vector)[0, :8, 0]
    return pixels


def labels(device: int, step: int, **more: Any) -> dict[str, Any]:
    """The whole label of a step, from 1."""
    doing = list(STEPS[step - 1 : 3])
    row = {
        "family": "f", "device": f"d{device}", "step": step, "place": PLACES[step - 1],
        "previous_action": "none" if step == 1 else STEPS[step - 2], "next_action": STEPS[step - 1],
        "remaining_actions": doing, "is_last": len(doing) == 1,
    }  # fmt: skip
    return row | more


def folder_of(folder: Path, *, views: int = 3, devices: int = 3, depth: bool = False) -> StudyData:
    """Devices whose steps look alike; ``views`` pictures a step; polygon of the left three quarters; read as a study does."""
    folder.mkdir(parents=True)
    rng, rows = np.random.default_rng(0), []
    for device in range(devices):
        for step in range(1, 5):
            for view in range(views):
                name = f"d{device}_s{step}_v{view}.png"
                pixels = scene(near(np.eye(8)[device] * 3, 0.7, rng), seed=len(rows))
                Image.fromarray(pixels).save(folder / name)
                row = {"file_name": name, **labels(device, step), "polygon": [[0, 0], [71, 0], [71, 71], [0, 71]]}
                if depth:
                    # the depth tells the steps apart, which look alike
                    relief = np.full(pixels.shape[:2], 500, np.uint16)
                    relief[20:60, 24 * (step - 1) : 24 * step] = 450
                    Image.fromarray(relief).save(folder / f"{name}_depth.png")
                    row["depth_file_name"] = f"{name}_depth.png"
                rows.append(row)
    write_rows(folder, rows)
    return StudyData.load(folder)


def base_of(samples: Sequence[Sample], *, crop: str = "none", depth: bool = False, calibrated: bool = True) -> CaseBase:
    """A base of samples, cut and embedded as a study does it."""
    from sagehand.embed import depth_vector
    from sagehand.judge.perceptual import PerceptualJudge

    base, drafts = CaseBase.in_memory(IDENTITY, crop=crop), []
    for sample in samples:
        options: dict[str, Any] = {"depth": sample.depth, "depth_unit": "mm"} if depth else {}
        seen = load(sample.path, **options)
        cut = crop_picture(seen, crop, PerceptualJudge(), label={"polygon": sample.polygon})
        relief = None if cut.picture.depth is None else depth_vector(cut.picture.depth)
        row = {k: v for k, v in sample.row.items() if k != "depth_file_name" or depth}
        drafts.append(
            CaseDraft(
                sample.path.read_bytes(),
                seen.pixel_id,
                VectorEmbedder().embed([cut.picture.pixels])[0],
                row,
                box=None if cut.whole else cut.box,
                depth_image=sample.depth.read_bytes() if depth and sample.depth else None,
                depth_vector=relief,
                depth_unit="mm" if depth else None,
            )
        )
    base.add_many(drafts)
    if calibrated:
        base.set_calibration(learn(base.index()).to_dict())
    return base


def views_of(data: StudyData, *views: int) -> list[Sample]:
    """The samples of these views."""
    return [s for s in data.samples if int(s.key[-5]) in views]


def bench(
    method: str,
    train: Sequence[Sample],
    base: CaseBase | None = None,
    *,
    seed: int = 0,
    vlm: Any = None,
    library: ActionLibrary | None = LIBRARY,
    settings: dict[str, Any] | None = None,
    **arm: Any,
) -> Bench:
    """A bench; what is not named here is a field of the arm."""
    return Bench(
        arm=Arm(name="arm", method=method, **({"crop": base.crop if base else "none"} | arm)),
        seed=seed,
        fold=0,
        train=train,
        validation=(),
        certify=(),
        library=library,
        embedder=VectorEmbedder(),
        work=Path("unused"),
        base=base,
        vlm=vlm,
        settings=settings or {},
    )
