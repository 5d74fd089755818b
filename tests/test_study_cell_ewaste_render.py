"""The study's data set with GL: what depth tells and colour hides, wear, the cutter, and what is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from sagehand.errors import MissingExtra, SettingsError
from sagehand.study.cell.dataset import scene_of, write_folder
from sagehand.study.cell.ewaste import EWASTE, ewaste_views
from sagehand.study.cell.outline import largest_piece
from sagehand.study.cell.render import CellRenderer, Frame
from sagehand.study.cell.scene import STUDY, draw_scene
from sagehand.study.cell.sensor import measure_depth

pytestmark = pytest.mark.render


@pytest.fixture(scope="module")
def renderer() -> Iterator[CellRenderer]:
    try:
        made = CellRenderer()
    except (MissingExtra, SettingsError) as error:
        pytest.skip(str(error))
    with made:
        yield made


def twins(renderer: CellRenderer, seed: int) -> tuple[Frame, Frame]:
    """Both twins in the very same scene."""
    a, b = (d for d in EWASTE if d.name.startswith("twin"))
    first, second = (renderer.render(draw_scene(d, "cnc", d.steps[1].facts, seed, variety=STUDY)) for d in (a, b))
    return first, second


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_twins_plateaus_differ_in_depth_and_hardly_in_colour(renderer: CellRenderer, seed: int) -> None:
    round_, rectangular = twins(renderer, seed)
    farther = rectangular.depth - round_.depth  # where the round plateau reaches beyond the rectangular one
    differs = round_.device_mask & (farther > 0.0012)
    assert differs.sum() > 400, "the segments beside the rectangle"
    noisy = [measure_depth(f.depth, f.intrinsics.fy, seed + i) for i, f in enumerate((round_, rectangular))]
    off = (noisy[1] - noisy[0])[differs]
    assert off.mean() / (off.std() / np.sqrt(off.size)) > 20, "the noise of the sensor does not hide it"
    colours = [f.pixels.astype(int)[differs].mean(axis=0) for f in (round_, rectangular)]
    assert np.abs(colours[0] - colours[1]).max() < 25, "the same plastic"
    whole = round_.device_mask & rectangular.device_mask
    assert np.abs(round_.pixels.astype(int) - rectangular.pixels)[whole].mean() < 8


def test_every_step_in_the_study_s_variety_is_in_one_piece_and_in_the_picture(renderer: CellRenderer) -> None:
    for view in ewaste_views(per_step=1, seed=7)[::2]:
        frame = renderer.render(scene_of(view))
        piece = largest_piece(frame.mask)
        assert (piece & frame.mask).sum() >= 0.98 * frame.mask.sum(), view.file_name
        assert (piece & frame.device_mask).sum() >= 0.98 * frame.device_mask.sum(), view.file_name
        border = np.ones_like(piece)
        border[1:-1, 1:-1] = False
        assert not (frame.device_mask & border).any(), view.file_name


def test_yellowed_plastic_is_yellower_and_nothing_else_is(renderer: CellRenderer) -> None:
    kalo = EWASTE[0]
    scene = draw_scene(kalo, "vise", kalo.steps[0].facts, 8, variety=STUDY)
    assert scene.wear is not None
    new = dataclasses.replace(scene.wear, yellowing=0.0, scratches=0.0, stains=0.0, dust=0.0, cracks=0.0)
    frames = [
        renderer.render(dataclasses.replace(scene, wear=w)) for w in (new, dataclasses.replace(new, yellowing=1.0))
    ]
    blue = [f.pixels[:, :, 2].astype(float) / np.maximum(f.pixels[:, :, 0], 1) for f in frames]
    mask = frames[0].device_mask
    assert np.median(blue[1][mask]) < 0.8 * np.median(blue[0][mask])
    around = ~ndimage.binary_dilation(mask, iterations=3)  # the lens blurs the edge
    assert np.abs(frames[0].pixels.astype(int) - frames[1].pixels)[around].max() <= 2


def test_a_damaged_state_looks_different_from_the_normal_one_beside_it(renderer: CellRenderer) -> None:
    kalo, fumonic = EWASTE[0], EWASTE[1]
    for device, normal, damaged, least, most in (
        (kalo, 1, 7, 0.01, 1),
        (fumonic, 1, 5, 0.002, 1),
        (kalo, 4, 8, 2e-5, 0.01),
    ):
        a, b = (
            renderer.render(draw_scene(device, device.steps[s].place, device.steps[s].facts, 21))
            for s in (normal, damaged)
        )
        share = (np.abs(a.pixels.astype(int) - b.pixels).max(axis=2) > 12).mean()
        assert least < share < most, (device.name, damaged, share)


def test_what_is_written_carries_noise_and_labels(renderer: CellRenderer, tmp_path: Path) -> None:
    view = ewaste_views(per_step=1)[0]
    row = write_folder(tmp_path, [view], renderer, depth=True)[0]
    exact = renderer.render(scene_of(view)).depth * 1000
    with Image.open(tmp_path / row["depth_file_name"]) as image:
        assert image.size == (640, 480)
        measured = np.asarray(image)
    assert measured.dtype in (np.uint16, np.int32)
    off = measured - exact
    assert 1.0 < float(np.median(np.abs(off))) / 0.6745 < 2.0  # 1.2 mm where the scene is smooth, more at edges
    assert row["intrinsics"]["fx"] == row["intrinsics"]["fy"] > 500
    assert row["unit"] == "normal"
    assert row["wear"].keys() <= {"yellowing", "scratches", "stains", "dust", "cracks", "label"}
