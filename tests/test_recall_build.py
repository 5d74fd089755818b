"""Building a memory: what import, add and re-embed keep true of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sagehand.recall.build as build_module
from folders import jpeg, png, write_rows
from sagehand.cases import CaseBase
from sagehand.embed import HashEmbedder, depth_vector
from sagehand.errors import EmbedderMismatch, PictureTooLarge, StoreError, UnknownName
from sagehand.judge.calibration import Calibration
from sagehand.picture import Limits, load
from sagehand.recall.build import add_picture, build, calibrate, reembed

SIZE = (64, 48)


def relief(unit: float = 1.0) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """A table at 0.7 m with two boxes on it, as a depth image; in millimetres over ``unit``."""
    depth = np.full((SIZE[1], SIZE[0]), 700.0)
    depth[8:20, 8:24] -= 60
    depth[30:44, 40:60] -= 120
    return np.round(depth / unit).astype(np.uint16)


def folder_with_depth(folder: Path, unit: float = 1.0) -> Path:
    folder.mkdir()
    (folder / "a.jpg").write_bytes(jpeg(1, SIZE))
    (folder / "b.jpg").write_bytes(jpeg(2, SIZE))
    (folder / "a-depth.png").write_bytes(png(relief(unit)))
    polygon = [[2, 2], [34, 2], [34, 30], [2, 30]]
    rows = [
        {"file_name": "a.jpg", "family": "f", "device": "d1", "next_action": "x", "depth_file_name": "a-depth.png"},
        {"file_name": "b.jpg", "family": "f", "device": "d2", "next_action": "y"},
    ]
    write_rows(folder, [{**row, "polygon": polygon} for row in rows])
    return folder


def expected(folder: Path, unit: Any, box: Any) -> Any:
    seen = load(folder / "a.jpg", depth=folder / "a-depth.png", depth_unit=unit)
    view = seen.crop(box).picture if box else seen
    assert view.depth is not None
    found = depth_vector(view.depth)
    assert found is not None
    return found


def depth_of(base: CaseBase) -> Any:
    index = base.index()
    (row,) = index.depth_vectors
    assert index.cases[row].file_name == "a.jpg"
    return index.cases[row].box, index.depth_vectors[row]


@pytest.mark.parametrize(("unit", "scale"), [("mm", 1.0), ("um", 1 / 50)])
def test_reembed_by_another_crop_makes_the_depth_vectors_anew(tmp_path: Path, unit: Any, scale: float) -> None:
    # 700 → 35,000: in micrometres, the table stands at 35 mm
    folder = folder_with_depth(tmp_path / "in", scale)
    build(folder, tmp_path / "a.cases", embedder="hash", crop="truth", depth_unit=unit)
    with CaseBase.open(tmp_path / "a.cases") as base:
        assert [base.depth_unit(case.id) for case in base.cases()] == [unit, None]
        box, vector = depth_of(base)
        assert box is not None
        np.testing.assert_array_equal(vector, expected(folder, unit, box))
        assert reembed(base, crop="none") == 2
        box, whole = depth_of(base)
        assert box is None
        np.testing.assert_array_equal(whole, expected(folder, unit, None))
        assert not np.allclose(whole, vector)
    with CaseBase.open(tmp_path / "a.cases") as again:
        np.testing.assert_array_equal(depth_of(again)[1], whole)


def test_the_same_depth_image_in_another_unit_is_a_conflict(tmp_path: Path) -> None:
    folder = folder_with_depth(tmp_path / "in", 1 / 50)
    build(folder, tmp_path / "a.cases", embedder="hash", depth_unit="um")
    assert build(folder, tmp_path / "a.cases", depth_unit="um")["unchanged"] == 2
    (conflict,) = build(folder, tmp_path / "a.cases", depth_unit="mm")["conflicts"]
    assert "its depth image is in um there, in mm here" in conflict["reason"]


def test_add_keeps_the_unit_of_the_depth_image(tmp_path: Path) -> None:
    folder = folder_with_depth(tmp_path / "in")
    with CaseBase.in_memory(HashEmbedder().identity) as base:
        label = {"family": "f", "device": "d"}
        case = add_picture(base, folder / "a.jpg", label, depth=folder / "a-depth.png", depth_unit="mm")
        assert base.depth_unit(case.id) == "mm"
        assert reembed(base) == 1
        np.testing.assert_array_equal(depth_of(base)[1], expected(folder, "mm", None))


def test_add_refuses_a_base_of_another_version_of_the_embedder_before_it_embeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg(1))
    newer = HashEmbedder(seed=1)
    monkeypatch.setattr(build_module, "get_embedder", lambda name: newer)
    monkeypatch.setattr(newer, "embed", lambda pictures: pytest.fail("it was embedded"), raising=True)
    with (
        CaseBase.in_memory(HashEmbedder().identity) as base,
        pytest.raises(EmbedderMismatch, match="cases reembed"),
    ):
        add_picture(base, tmp_path / "a.jpg", {"family": "f", "device": "d"})


def test_add_refuses_what_the_check_refuses(tmp_path: Path) -> None:
    def check(fields: Any) -> None:
        raise UnknownName("next action", fields["next_action"], ["pry"])

    (tmp_path / "a.jpg").write_bytes(jpeg(1))
    with CaseBase.in_memory(HashEmbedder().identity) as base:
        with pytest.raises(UnknownName, match="'prey'.*did you mean 'pry'"):
            add_picture(base, tmp_path / "a.jpg", {"family": "f", "device": "d", "next_action": "prey"}, check=check)
        assert len(base) == 0


def plain_folder(folder: Path, seeds: range) -> Path:
    folder.mkdir(exist_ok=True)
    rows = []
    for seed in seeds:
        (folder / f"{seed}.jpg").write_bytes(jpeg(seed))
        label = {"family": "f", "device": f"d{seed % 3}", "next_action": f"a{seed % 2}"}
        rows.append({"file_name": f"{seed}.jpg", **label})
    write_rows(folder, rows)
    return folder


def regime(base: CaseBase) -> tuple[str, bool]:
    learnt = Calibration.from_dict(base.calibration() or {})
    return learnt.leave_out, learnt.stale(base.revision)


def test_a_calibration_by_device_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "a.cases"
    build(plain_folder(tmp_path / "one", range(9)), path, embedder="hash", leave_out="device")
    build(plain_folder(tmp_path / "two", range(20, 26)), path)
    with CaseBase.open(path) as base:
        assert (len(base), regime(base)) == (15, ("device", False))
        reembed(base, crop="perceptual")
        assert regime(base) == ("device", False)
        assert calibrate(base).leave_out == "device"
    build(tmp_path / "two", path, leave_out="case")
    with CaseBase.open(path) as base:
        assert regime(base) == ("case", False)


def test_an_import_in_which_every_row_fails_leaves_no_case_base(tmp_path: Path) -> None:
    folder = plain_folder(tmp_path / "in", range(3))
    for picture in folder.glob("*.jpg"):
        picture.write_bytes(b"no picture")
    report = build(folder, tmp_path / "deep" / "a.cases", embedder="hash")
    assert (report["cases"], len(report["failed"]), report["calibration"]) == (0, 3, None)
    assert list((tmp_path / "deep").iterdir()) == []
    (folder / "2.jpg").write_bytes(jpeg(2))
    assert build(folder, tmp_path / "deep" / "a.cases", embedder="hash")["cases"] == 1
    for picture in folder.glob("*.jpg"):
        picture.write_bytes(b"no picture")
    build(folder, tmp_path / "deep" / "a.cases")  # one that was there before stays
    with CaseBase.open(tmp_path / "deep" / "a.cases") as base:
        assert len(base) == 1


def test_the_cap_on_pixels_holds_for_import_add_and_reembed(tmp_path: Path) -> None:
    folder = plain_folder(tmp_path / "in", range(2))
    (folder / "1.jpg").write_bytes(jpeg(1, (80, 60)))
    small = Limits(max_pixels=1000)
    report = build(folder, tmp_path / "a.cases", embedder="hash", limits=small)
    assert (report["added"], [p["file_name"] for p in report["failed"]]) == (1, ["1.jpg"])
    assert "setting max_pixels" in report["failed"][0]["reason"]
    with CaseBase.open(tmp_path / "a.cases") as base:
        add_picture(base, folder / "1.jpg", {"family": "f", "device": "d"})
        revision = base.revision
        with pytest.raises(PictureTooLarge, match="more than the cap of 1,000"):
            reembed(base, limits=small)
        assert base.revision == revision


def test_two_imports_that_make_the_same_new_base_both_come_in(tmp_path: Path) -> None:
    plain_folder(tmp_path / "in", range(2))
    identity = HashEmbedder().identity
    path = tmp_path / "a.cases"
    first = CaseBase.create(path, embedder=identity, at_first_write=True)
    second = CaseBase.create(path, embedder=identity, at_first_write=True)
    other = CaseBase.create(path, embedder=identity, crop="truth", at_first_write=True)
    assert (len(first), first.on_disk, path.exists(), len(second.index())) == (0, False, False, 0)
    label = {"family": "f", "device": "d"}
    add_picture(first, tmp_path / "in" / "0.jpg", label)
    assert (first.on_disk, len(second)) == (True, 0)
    add_picture(second, tmp_path / "in" / "1.jpg", label)
    assert [len(first.index()), len(second.index())] == [2, 2]
    third = CaseBase.create(tmp_path / "c.cases", embedder=identity, at_first_write=True)
    assert len(third.index()) == 0
    first.close()
    second.close()
    shutil.copy(path, tmp_path / "c.cases")
    third.set_calibration({"a": 1})  # a write that changes no case finds the cases of the file too
    assert len(third.index()) == 2
    with pytest.raises(StoreError, match="exists"):
        add_picture(other, tmp_path / "in" / "1.jpg", label)
    for base in (third, other):
        base.close()
    shutil.copy(path, tmp_path / "b.cases")
    with CaseBase.open(tmp_path / "b.cases") as copy:
        assert len(copy) == 2
