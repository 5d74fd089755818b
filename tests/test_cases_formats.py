"""COCO and LabelMe: there and back again without a loss, and what other tools write."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from syrupy.assertion import SnapshotAssertion

from command_line import enter, phone_base, run
from folders import jpeg, png, write_rows
from sagehand.cases import Case, CaseBase, CaseDraft, export_folder, import_folder, parse_row, read_table
from sagehand.cases.formats import coco, labelme
from sagehand.cases.formats.outline import area, bounds, one_outline
from sagehand.cases.formats.strict import BadRow
from sagehand.embed import HashEmbedder
from sagehand.errors import InputError, UnknownName

EMBEDDER = HashEmbedder()
SIZE = (32, 24)
SQUARE = [[2, 3], [12, 3], [12, 13], [2, 13]]

NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=12).filter(str.strip)
NUMBERS = st.floats(-1e6, 1e6, allow_nan=False) | st.integers(-1000, 1000)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
ACTIONS = st.lists(NAMES.filter(lambda n: n.strip() != "none"), max_size=3)
ROWS = st.fixed_dictionaries(
    {"family": NAMES, "device": NAMES},
    optional={
        "step": st.integers(0, 1_000_000) | st.just("7") | st.just(3.0),
        "state": NAMES,
        "previous_action": NAMES,
        "history": ACTIONS,
        "next_action": NAMES.filter(lambda n: n.strip() != "none"),
        "remaining_actions": ACTIONS,
        "is_last": st.booleans() | st.none(),
        "end_state": st.booleans(),
        "group": NAMES,
        "place": NAMES,
        "polygon": st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=3, max_size=6) | st.none(),
        "attributes": PLAIN,
        "sagehand": PLAIN,
        "flags": PLAIN,
        "note / x": PLAIN,
    },
)
FORMATS = ("jsonl", "coco", "labelme")


@pytest.fixture
def base() -> Iterator[CaseBase]:
    with CaseBase.in_memory(EMBEDDER.identity) as made:
        yield made


def fields(cases: list[Case]) -> dict[str, Case]:
    """The cases by id; those of a base that was exported have the same."""
    return {case.id: case for case in cases}


@pytest.mark.parametrize("format_", FORMATS)
@given(rows=st.lists(ROWS, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_export_and_import_give_the_same_cases(
    tmp_path_factory: pytest.TempPathFactory, format_: Any, rows: list[dict[str, Any]]
) -> None:
    out = tmp_path_factory.mktemp("formats") / "out"
    vector = np.zeros(EMBEDDER.identity.dimension, np.float32)
    vector[0] = 1
    with CaseBase.in_memory(EMBEDDER.identity) as base:
        for n, row in enumerate(rows):
            # one stem for all: LabelMe's files must not be written over each other
            name = f"a/p.{('jpg', 'jpeg', 'JPG')[n]}"
            base.add(CaseDraft(jpeg(n), f"{n:032x}", vector, {"file_name": name, **row}))
        export_folder(base, out, format=format_)
        table = read_table(out)
        assert table.problems == ()
        assert table.format == format_
        stored = {case.file_name: parse_row(base.row(case.id)) for case in base.cases()}
        assert {row.file_name: parse_row(row.values) for row in table.rows} == stored


def folder_of_all_kinds(folder: Path) -> Path:
    """Depth, polygons, unknown keys, no polygon, a corrected outline, names with slashes, folders in folders."""
    (folder / "a" / "b").mkdir(parents=True)
    for seed, name in enumerate(("one.jpg", "a/two.jpg", "a/b/one.jpg", "größe.JPG")):
        (folder / name).write_bytes(jpeg(seed, SIZE))
    (folder / "d.png").write_bytes(png(np.linspace(400, 700, 24 * 32).reshape(24, 32).astype(np.uint16)))
    rows = [
        {
            "file_name": "one.jpg",
            "family": "phone",
            "device": "x/1",
            "step": 1,
            "polygon": SQUARE,
            "next_action": "pry",
        },
        {
            "file_name": "a/two.jpg",
            "family": "phone",
            "device": "x/1",
            "step": 2,
            "depth_file_name": "d.png",
            "k": [1, {}],
        },
        {"file_name": "a/b/one.jpg", "family": "radio", "device": "y", "polygon": [[0.5, 1.25], [9, 1], [9, 9.75]]},
        {"file_name": "größe.JPG", "family": "radio", "device": "y", "place": "vise", "is_last": True, "group": "g"},
    ]
    write_rows(folder, rows)
    return folder


@pytest.mark.parametrize("format_", FORMATS)
def test_a_whole_base_comes_back_with_pictures_depth_and_vectors(tmp_path: Path, base: CaseBase, format_: Any) -> None:
    import_folder(folder_of_all_kinds(tmp_path / "in"), base, EMBEDDER)
    report = export_folder(base, tmp_path / "out", format=format_)
    assert (report.format, report.cases, report.depth_images, report.left_out) == (format_, 4, 1, ())
    with CaseBase.in_memory(EMBEDDER.identity) as again:
        read = import_folder(tmp_path / "out", again, EMBEDDER)
        assert (read.added, read.failed, read.format) == (4, (), format_)
        assert fields(again.cases()) == fields(base.cases())
        for case in base.cases():
            assert again.image(case.id) == base.image(case.id)
            assert again.depth_image(case.id) == base.depth_image(case.id)
    assert import_folder(tmp_path / "out", base, EMBEDDER).unchanged == 4, "and it is the same to the base itself"


def annotations(folder: Path, doc: dict[str, Any], name: str = "annotations.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(doc))
    return folder


def one(folder: Path, **annotation: Any) -> Any:
    """The row, or the reason why there is none, of a COCO file with one picture and one annotation."""
    doc = {
        "images": [{"id": 7, "file_name": "a.jpg"}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 3, **annotation}],
        "categories": [{"id": 3, "name": "x1", "supercategory": "phone"}],
    }
    table = read_table(annotations(folder, doc))
    return table.rows[0].values if table.rows else table.problems[0].reason


def test_coco_polygons_boxes_and_pieces(tmp_path: Path) -> None:
    label = {"file_name": "a.jpg", "family": "phone", "device": "x1"}
    triangle = [[1, 2], [3.5, 4], [5, 6.5]]
    assert one(tmp_path, segmentation=[[1, 2, 3.5, 4, 5, 6.5]]) == {**label, "polygon": triangle}
    assert one(tmp_path, segmentation=[], bbox=[1, 2, 10, 20])["polygon"] == [[1, 2], [11, 2], [11, 22], [1, 22]]
    assert "polygon" not in one(tmp_path)
    pieces = [[0, 0, 4, 0, 4, 4, 0, 4], [10, 0, 14, 0, 14, 4, 10, 4]]
    assert sorted(one(tmp_path, segmentation=pieces)["polygon"]) == [[0, 0], [0, 4], [14, 0], [14, 4]]


def test_coco_labels_of_our_own_and_of_other_tools(tmp_path: Path) -> None:
    row = one(tmp_path, attributes={"step": 2, "occluded": False}, sagehand={"next_action": "pry", "file_name": "no"})
    assert (row["step"], row["next_action"], row["occluded"], row["file_name"]) == (2, "pry", False, "a.jpg")
    # a category that was changed in a tool goes before the label that we wrote
    assert one(tmp_path, sagehand={"family": "radio", "device": "old"})["device"] == "x1"


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ({"segmentation": {"counts": [3, 4], "size": [24, 32]}}, "run-length mask"),
        ({"segmentation": {"counts": "PYRle", "size": [24, 32]}, "iscrowd": 1}, "export polygons"),
        ({"segmentation": [[1, 2, 3, 4]]}, "at least three corners"),
        ({"segmentation": [[1, 2, 3, 4, 5, 6, 7]]}, "at least three corners"),
        ({"segmentation": [[1, 2, 3, 4, 5, "6"]]}, "at least three corners"),
        ({"segmentation": [7]}, "at least three corners"),
        ({"segmentation": "x"}, "no list of polygons"),
        ({"bbox": [1, 2, 3]}, "bbox is"),
        ({"bbox": [1, 2, 0, 5]}, "no area"),
        ({"category_id": 9}, "category 9 is not among"),
        ({"category_id": [3]}, "category [3] is not among"),
        ({"sagehand": 3}, "'sagehand' is no object"),
        ({"segmentation": [[0, 0, 10**400, 5, 1, 1]]}, "out of range: a coordinate lies within ±1000000000 pixels"),
        ({"segmentation": [[0, 0, -1e10, 5, 1, 1]]}, "out of range"),
        ({"bbox": [0, 0, 10**400, 5]}, "its bbox is [0, 0, 1"),
        ({"bbox": [0, 0, 9 * 10**4299, 5]}, "out of range"),
        ({"bbox": [1e9, 0, 1e9, 5]}, "out of range"),
    ],
)
def test_coco_what_cannot_be_used_is_told_by_its_picture(
    tmp_path: Path, annotation: dict[str, Any], reason: str
) -> None:
    assert reason in one(tmp_path, **annotation)


def test_coco_one_bad_picture_never_stops_the_rest(tmp_path: Path, base: CaseBase, snapshot: SnapshotAssertion) -> None:
    for seed, name in enumerate(("good.jpg", "size.jpg", "two.jpg", "bare.jpg", "nofamily.jpg")):
        (tmp_path / name).write_bytes(jpeg(seed, SIZE))
    names = ["good.jpg", "gone.jpg", "size.jpg", "two.jpg", "bare.jpg", "nofamily.jpg", "../out.jpg", "good.jpg"]
    doc = {
        "images": [
            {"id": n, "file_name": name, "width": 64 if name == "size.jpg" else 32, "height": 24}
            for n, name in enumerate(names)
        ]
        + [{"id": 99}],
        "annotations": [
            *({"id": n, "image_id": n, "category_id": 1, "bbox": [1, 1, 9, 9]} for n in range(8) if n not in (4, 5)),
            {"id": 30, "image_id": 3, "category_id": 2, "bbox": [1, 1, 9, 9]},
            {"id": 50, "image_id": 5, "category_id": 3, "bbox": [1, 1, 9, 9]},
            {"id": 60, "image_id": 600, "category_id": 1, "bbox": [1, 1, 9, 9]},
        ],
        "categories": [
            {"id": 1, "name": "x1", "supercategory": "phone"},
            {"id": 2, "name": "x2", "supercategory": "phone"},
            {"id": 3, "name": "x3", "supercategory": "none"},
        ],
    }
    report = import_folder(annotations(tmp_path, doc), base, EMBEDDER)
    assert [case.file_name for case in base.cases()] == ["good.jpg"]
    assert [(p.line, p.file_name, p.reason) for p in report.failed] == snapshot


def test_coco_as_cvat_writes_it(tmp_path: Path) -> None:
    (tmp_path / "images" / "default").mkdir(parents=True)
    (tmp_path / "images" / "default" / "a.jpg").write_bytes(jpeg(1, SIZE))
    seen_by = {"occluded": False, "rotation": 0.0, "place": "", "history": "lever; place_in_cnc", "step": "3"}
    doc = {
        "licenses": [{"name": "", "id": 0, "url": ""}],
        "info": {"contributor": "", "date_created": "", "year": ""},
        "categories": [{"id": 1, "name": "detector/x1", "supercategory": ""}],
        "images": [
            {"id": 1, "width": 32, "height": 24, "file_name": "a.jpg", "license": 0, "coco_url": "", "date_captured": 0}
        ],
        "annotations": [
            {
                "id": n,
                "image_id": 1,
                "category_id": 1,
                "segmentation": [[2.0, 3.0, 12.0, 3.0, 12.0, 13.0, 2.0, 13.0]],
                "area": 100.0,
                "bbox": [2.0, 3.0, 10.0, 10.0],
                "iscrowd": 0,
                # what only one of them says holds; a key that is no field of ours may differ
                "attributes": seen_by | {"occluded": n == 2} if n == 1 else {"occluded": True, "step": "3"},
            }
            for n in (1, 2)
        ],
    }
    (row,) = read_table(annotations(tmp_path, doc, "annotations/instances_default.json")).rows
    wanted = {"family": "detector", "device": "x1", "step": 3, "history": ("lever", "place_in_cnc"), "place": None}
    assert row.file_name == "images/default/a.jpg"
    assert {key: parse_row(row.values)[key] for key in wanted} == wanted
    assert sorted(row.values["polygon"]) == sorted(SQUARE)


def test_coco_as_label_studio_writes_it(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1d3f-a.jpg").write_bytes(jpeg(1, SIZE))
    doc = {
        "images": [{"width": 32, "height": 24, "id": 0, "file_name": "images\\1d3f-a.jpg"}],
        "categories": [{"id": 0, "name": "detector/x1/2"}],
        "annotations": [
            {"id": 0, "image_id": 0, "category_id": 0, "segmentation": [[]], "bbox": [2, 3, 10, 10], "ignore": 0}
        ],
    }
    table = read_table(annotations(tmp_path, doc, "result.json"))
    assert [dict(row.values) for row in table.rows] == [
        {"file_name": "images/1d3f-a.jpg", "family": "detector", "device": "x1", "step": "2", "polygon": SQUARE}
    ]


@pytest.mark.parametrize("kind", [float, str, lambda n: n if n == 1 else str(n)])
def test_coco_ids_are_the_same_however_they_are_written(tmp_path: Path, kind: Any) -> None:
    doc = {
        "images": [{"id": kind(n), "file_name": f"{n}.jpg"} for n in (1, 2)],
        "annotations": [{"image_id": n, "category_id": kind(5), "bbox": [n, n, 9, 9]} for n in (1, 2)],
        "categories": [{"id": 5, "name": "x1", "supercategory": "phone"}],
    }
    table = read_table(annotations(tmp_path, doc))
    assert [row.values["polygon"][0] for row in table.rows] == [[1, 1], [2, 2]]
    assert table.problems == ()


def test_coco_an_outline_never_goes_to_another_picture(tmp_path: Path) -> None:
    label = {"sagehand": {"family": "f", "device": "d"}}
    doc = {
        "images": [{"id": 1, "file_name": "a.jpg"}, {"id": "1", "file_name": "b.jpg"}, {"file_name": "c.jpg", **label}],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 1, 9, 9]}, {"category_id": 1}],
        "categories": [{"id": 1, "name": "x1", "supercategory": "phone"}],
    }
    table = read_table(annotations(tmp_path, doc))
    assert [dict(row.values) for row in table.rows] == [{"file_name": "c.jpg", "family": "f", "device": "d"}]
    assert [(p.file_name, p.reason[:28]) for p in table.problems] == [
        ("a.jpg", "2 images have the id 1, so w"),
        ("b.jpg", "2 images have the id '1', so"),
        ("", "annotation None is of image "),
    ]
    doc["categories"] = [{"id": 1, "name": name, "supercategory": "phone"} for name in ("x1", "x2")]
    with pytest.raises(InputError, match="two categories have the id 1"):
        read_table(annotations(tmp_path, doc))


def test_coco_annotations_that_disagree_are_refused(tmp_path: Path) -> None:
    both = [{"image_id": 1, "category_id": 1, "attributes": {"step": n, "place": None}} for n in (1, 2)]
    doc = {
        "images": [{"id": 1, "file_name": "a.jpg"}],
        "annotations": both,
        "categories": [{"id": 1, "name": "x1", "supercategory": "phone"}],
    }
    (problem,) = read_table(annotations(tmp_path, doc)).problems
    assert problem.reason == "its annotations disagree about step: 1 and 2"


@pytest.mark.parametrize("name", ["/elsewhere/a.jpg", "C:\\data\\a.jpg", "../upload/a.jpg", "..\\a.jpg"])
def test_coco_paths_of_other_machines(tmp_path: Path, name: str) -> None:
    doc = {"images": [{"id": 1, "file_name": name, "sagehand": {"family": "f", "device": "d"}}]}
    (tmp_path / "in").mkdir()
    (problem,) = read_table(annotations(tmp_path / "in", doc)).problems
    assert problem.file_name == name, "what is not in the folder is told as it was written"
    (tmp_path / "in" / "a.jpg").write_bytes(jpeg(1, SIZE))
    assert [row.file_name for row in read_table(tmp_path / "in").rows] == ["a.jpg"]


def test_the_folder_above_a_coco_export_names_its_parts(tmp_path: Path) -> None:
    for part in ("train", "valid"):
        annotations(tmp_path / part, {"images": []}, "_annotations.coco.json")
    with pytest.raises(InputError, match=r"but train/_annotations\.coco\.json does exist .*train and the 1 others"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    "name", ["annotations.json", "_annotations.coco.json", "instances_train.json", "annotations/instances_default.json"]
)
def test_coco_files_are_found_where_the_tools_put_them(tmp_path: Path, name: str) -> None:
    where = {"instances_train.json": "train", "annotations/instances_default.json": "images"}.get(name, "")
    (tmp_path / where).mkdir(exist_ok=True)
    (tmp_path / where / "a.jpg").write_bytes(jpeg(1))
    doc = {
        "images": [{"id": 1, "file_name": "a.jpg"}],
        "annotations": [{"image_id": 1, "category_id": 1}],
        "categories": [{"id": 1, "name": "d", "supercategory": "f"}],
    }
    table = read_table(annotations(tmp_path, doc, name))
    assert (table.format, [row.file_name for row in table.rows]) == ("coco", [f"{where}/a.jpg".lstrip("/")])


def test_a_table_of_ours_goes_first_and_a_format_can_be_named(tmp_path: Path) -> None:
    folder = folder_of_all_kinds(tmp_path / "in")
    annotations(folder, {"images": [{"id": 1, "file_name": "one.jpg", "sagehand": {"family": "f", "device": "d"}}]})
    assert (read_table(folder).format, read_table(folder, "coco").rows[0].values["device"]) == ("jsonl", "d")
    with pytest.raises(InputError, match="no LabelMe annotations"):
        read_table(folder, "labelme")
    with pytest.raises(InputError, match=r"holds no metadata\.jsonl"):
        read_table(folder, "csv")
    with pytest.raises(UnknownName, match="'yolo'"):
        read_table(folder, "yolo")  # type: ignore[arg-type]
    (folder / "metadata.jsonl").unlink()
    (folder / "annotations.json").write_text('{"images": 3, "x": "')
    with pytest.raises(InputError, match="not JSON"):
        read_table(folder)
    (folder / "annotations.json").write_text('{"images": 3}')
    with pytest.raises(InputError, match="'images' is no list of objects"):
        read_table(folder)
    annotations(folder, {"images": []}, "instances_a.json")
    with pytest.raises(InputError, match=r"several COCO files: annotations\.json, instances_a\.json"):
        read_table(folder)


def shape(label: Any = "phone/x1/2", points: Any = SQUARE, kind: str = "polygon", **more: Any) -> dict[str, Any]:
    return {"label": label, "points": points, "shape_type": kind, "flags": {}, "group_id": None, **more}


def seen(folder: Path, shapes: Any, picture: Any = "a.jpg", **more: Any) -> Any:
    """The row, or the reason why there is none, of one LabelMe file."""
    doc = {"version": "5.0.1", "flags": {}, "shapes": shapes, "imagePath": picture, "imageData": "AAAA", **more}
    (folder / "a.json").write_text(json.dumps(doc))
    table = read_table(folder)
    assert table.format == "labelme"
    return table.rows[0].values if table.rows else table.problems[0].reason


@pytest.mark.parametrize("name", ["annotations.json", "annotations/instances_a.json"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not valid JSON: "),
        ("[]", "holds no JSON object, so this is no COCO file"),
        ("{}", "has no list of images, so this is no COCO file"),
        ("\xff", "is not valid JSON: "),
    ],
)
def test_coco_a_spoilt_file_is_told(tmp_path: Path, name: str, text: str, reason: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read_table(tmp_path, "coco")
    assert str(caught.value).startswith(f"{path}: {reason}")


def test_labelme_a_spoilt_file_beside_its_picture_is_a_failed_row(tmp_path: Path) -> None:
    files = {"a": "{", "b": "[]", "c": '{"name": "not ours"}', "d": "[1, 2]"}
    for seed, (name, text) in enumerate(files.items()):
        if name != "d":  # a list with no picture beside it is some other program's
            (tmp_path / f"{name}.JPG").write_bytes(jpeg(seed, SIZE))
        (tmp_path / f"{name}.json").write_text(text)
    found = read_table(tmp_path)
    assert (found.format, found.rows) == ("labelme", ())
    assert [p.file_name for p in found.problems] == ["a.json", "b.json"]
    assert found.problems[0].reason.startswith("not JSON")
    assert found.problems[1].reason == "is no LabelMe file: it has no list of shapes"


def test_labelme_labels_shapes_and_flags(tmp_path: Path) -> None:
    row = seen(tmp_path, [shape()])
    assert row == {"file_name": "a.jpg", "family": "phone", "device": "x1", "step": "2", "polygon": SQUARE}
    assert parse_row(row)["step"] == 2
    assert "step" not in seen(tmp_path, [shape("phone/x1")])
    assert seen(tmp_path, [shape(kind=None)])["polygon"] == SQUARE  # type: ignore[arg-type]
    assert seen(tmp_path, [shape(points=[[9, 8], [1, 2]], kind="rectangle")])["polygon"] == [
        [1, 2],
        [9, 2],
        [9, 8],
        [1, 8],
    ]
    with_screw = [shape(), shape("screw", [[5, 5]], "point")]
    assert seen(tmp_path, with_screw)["polygon"] == SQUARE
    hull = seen(tmp_path, [shape(), shape(points=[[20, 3], [22, 3], [22, 13]])])["polygon"]
    assert sorted(hull) == [[2, 3], [2, 13], [22, 3], [22, 13]]
    flags = {
        "next_action=pry": True,
        "history=a; b": True,
        "is_last": True,
        "end_state": False,
        "dirty": True,
        "no=x": False,
    }
    told = seen(tmp_path, [shape(flags={"place=vise": True})], flags=flags)
    wanted = {"next_action": "pry", "history": ["a", "b"], "is_last": True, "flags": ["dirty"], "place": "vise"}
    assert {key: told.get(key) for key in (*wanted, "end_state", "no")} == {**wanted, "end_state": None, "no": None}


def test_labelme_what_was_changed_in_the_tool_goes_before_what_we_wrote(tmp_path: Path) -> None:
    stored = {"family": "phone", "device": "x/1", "step": 2, "next_action": "pry"}
    kept = seen(tmp_path, [shape("phone/x/1/2")], sagehand=stored)
    assert {k: kept[k] for k in stored} == stored
    changed = seen(tmp_path, [shape("radio/y")], sagehand=stored)
    assert (changed["family"], changed["device"], changed["step"], changed["next_action"]) == ("radio", "y", 2, "pry")
    assert seen(tmp_path, [shape("y")], sagehand=stored)["family"] == "phone"
    assert seen(tmp_path, [], sagehand=stored)["device"] == "x/1"


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ([shape("x1")], "label 'x1' names no family: write family/device"),
        ([shape("a/b/c/d")], "is not device, family/device or family/device/step"),
        ([shape(" / ")], "is not device, family/device"),
        ([shape(None)], "a shape has no label"),
        ([shape(), shape("phone/x2")], "several labels (phone/x1/2, phone/x2)"),
        ([shape(kind="mask")], "a shape is a mask"),
        ([shape(kind="circle")], "draw a polygon or a rectangle"),
        ([shape(points=3)], "no list of [x, y]"),
        ([shape(points=[[1, 1], [1, 9]], kind="rectangle")], "no area"),
        ([3], "a shape is no object"),
        ([shape(kind="cuboid"), shape()], "a shape is a cuboid"),
        ([shape(), shape(points=[[]])], "no list of [x, y]"),
        ([shape(), shape(points=[["1", 2], [3, 4], [5, 6]])], "no list of [x, y]"),
        ([shape(), shape(points=[[None, 2], [3, 4], [5, 6]])], "no list of [x, y]"),
        ([shape(), shape(points=[[1, 1], [2, 2]])], "at least three corners"),
        ([shape(points=[[10**400, 1], [2, 2]], kind="rectangle")], "out of range"),
        ([shape(points=[[1, 1], [2, 2], [1e10, 3]])], "out of range"),
        ([shape(points=[[1, 1]], kind="rectangle")], "at least three corners"),
        ([shape(flags={"step=1": True}), shape(flags={"step=2": True})], "disagree about step: '1' and '2'"),
        ([], "no outline and no label"),
        ([shape("p", [[1, 1]], "point")], "no outline and no label"),
    ],
)
def test_labelme_what_cannot_be_used_is_told_by_its_picture(tmp_path: Path, shapes: Any, reason: str) -> None:
    assert reason in seen(tmp_path, shapes)


def test_labelme_paths_of_other_machines_and_other_files(tmp_path: Path, base: CaseBase) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jpg").write_bytes(jpeg(1, SIZE))
    (tmp_path / "top.jpg").write_bytes(jpeg(2, SIZE))
    paths = {"a": "..\\photos\\a.jpg", "b": "../top.jpg", "c": "/elsewhere/gone.jpg", "d": 3}
    for name, path in paths.items():
        doc = {"shapes": [shape()], "imagePath": path, "imageWidth": 32, "imageHeight": 24}
        (tmp_path / "sub" / f"{name}.json").write_text(json.dumps(doc))
    (tmp_path / "sub" / "broken.json").write_text('{"shapes": [')
    (tmp_path / "package.json").write_text('{"name": "not ours"}')
    (tmp_path / ".labelme.json").write_text('{"shapes": []}')
    report = import_folder(tmp_path, base, EMBEDDER)
    assert [case.file_name for case in base.cases()] == ["sub/a.jpg", "top.jpg"]
    reasons = {p.file_name: p.reason for p in report.failed}
    assert set(reasons) == {"/elsewhere/gone.jpg", "sub/broken.json", "sub/d.json"}
    assert "absolute path" in reasons["/elsewhere/gone.jpg"]


def test_an_outline_drawn_on_another_size_is_refused_upright_by_exif(tmp_path: Path, base: CaseBase) -> None:
    # the file holds 32x24 pixels and says "turn me": upright it is 24x32
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", SIZE, "red").save(tmp_path / "a.jpg", exif=exif)
    seen(tmp_path, [shape()], imageWidth=32, imageHeight=24)
    (problem,) = import_folder(tmp_path, base, EMBEDDER).failed
    assert problem.reason.startswith("was annotated at 32x24 pixels, and has 24x32")
    seen(tmp_path, [shape()], imageWidth=24, imageHeight=32)
    assert import_folder(tmp_path, base, EMBEDDER).added == 1


def test_a_file_name_that_no_system_can_have_is_told(tmp_path: Path) -> None:
    for name in ("x" * 5000, "a\0b", "\ud800"):
        annotations(tmp_path, {"images": [{"id": 1, "file_name": name, "sagehand": {"family": "f", "device": "d"}}]})
        assert len(read_table(tmp_path).rows) + len(read_table(tmp_path).problems) == 1
    (tmp_path / "annotations.json").unlink()
    for name in ("x" * 5000, "a\0b", "\ud800"):
        assert seen(tmp_path, [shape()], name)


def test_the_coco_file_says_what_coco_tools_read(tmp_path: Path, base: CaseBase) -> None:
    import_folder(folder_of_all_kinds(tmp_path / "in"), base, EMBEDDER)
    export_folder(base, tmp_path / "out", format="coco")
    doc = json.loads((tmp_path / "out" / "annotations.json").read_text())
    assert [(i["id"], i["width"], i["height"]) for i in doc["images"]] == [(n, 32, 24) for n in (1, 2, 3, 4)]
    first = doc["annotations"][0]
    assert first == {
        "id": 1, "image_id": 1, "category_id": 1, "iscrowd": 0,
        "segmentation": [[2, 3, 12, 3, 12, 13, 2, 13]], "bbox": [2, 3, 10, 10], "area": 100,
    }  # fmt: skip
    assert {(c["supercategory"], c["name"]) for c in doc["categories"]} == {("phone", "x/1"), ("radio", "y")}
    assert {a["image_id"] for a in doc["annotations"]} <= {i["id"] for i in doc["images"]}


def test_outlines_by_hand() -> None:
    assert (area(SQUARE), bounds(SQUARE)) == (100, (2, 3, 10, 10))
    assert area([[0, 0], [4, 0], [0, 3]]) == 6
    assert one_outline([]) is None
    dented = [[0.0, 0.0], [4.0, 0.0], [1.0, 1.0], [0.0, 4.0]]
    assert one_outline([dented]) == dented, "one piece is kept as it is, dents and all"
    assert sorted(one_outline([dented, dented]) or []) == [[0, 0], [0, 4], [4, 0]]


@given(st.lists(st.lists(st.tuples(NUMBERS, NUMBERS).map(list), min_size=3, max_size=6), min_size=2, max_size=3))
@settings(deadline=None)
def test_the_hull_of_pieces_keeps_their_box_and_is_convex(pieces: Any) -> None:
    hull = one_outline(pieces)
    assert hull is not None
    points = [p for piece in pieces for p in piece]
    assert bounds(hull) == bounds(points)
    assert {tuple(p) for p in hull} <= {tuple(p) for p in points}


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode) | PLAIN.map(lambda v: json.dumps(v).encode()))
@settings(max_examples=100, deadline=None)
def test_any_bytes_give_rows_and_problems_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "a.json").write_bytes(data)
    for _, found, _, _ in labelme.read(folder, [folder / "a.json"]):
        assert isinstance(found, BadRow | dict)
    with contextlib.suppress(InputError):
        assert isinstance(coco.read(folder, folder / "a.json"), list)


def anything(*keys: str) -> Any:
    """Lists of objects that have some of these keys, and anything under them."""
    return st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(keys, PLAIN)), max_size=2)


DOCS = st.fixed_dictionaries(
    {},
    optional={
        "images": anything("id", "file_name", "sagehand", "width"),
        "annotations": anything("image_id", "category_id", "segmentation", "bbox", "attributes"),
        "categories": anything("id", "name", "supercategory"),
        "shapes": anything("label", "points", "shape_type", "flags"),
        "imagePath": PLAIN,
        "flags": PLAIN,
        "sagehand": PLAIN,
    },
)


@given(DOCS)
@settings(max_examples=200, deadline=None)
def test_any_document_gives_rows_and_problems(tmp_path_factory: pytest.TempPathFactory, doc: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "a.json").write_text(json.dumps(doc))
    (folder / "annotations.json").write_text(json.dumps(doc))
    for format_ in ("coco", "labelme"):
        with contextlib.suppress(InputError):
            table = read_table(folder, format_)  # type: ignore[arg-type]
            assert table.format == format_
            assert all(row.file_name for row in table.rows)
            assert all(problem.reason for problem in table.problems)


@pytest.mark.parametrize("format_", ["coco", "labelme"])
def test_the_command_line_exports_and_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    enter(tmp_path, monkeypatch)
    phone_base(tmp_path)
    assert run("cases", "export", "p.cases", "out", "--format", format_, "--json").json["format"] == format_
    for asked in ("auto", format_):
        done = run(
            "cases", "import", "out", "--into", f"{asked}.cases", "--embedder", "hash", "--format", asked, "--json"
        )
        assert (done.code, done.json["added"], done.json["format"]) == (0, 12, format_), done.err
        with CaseBase.open("p.cases") as base, CaseBase.open(f"{asked}.cases") as again:
            assert fields(again.cases()) == fields(base.cases())
    wrong = run("cases", "import", "out", "--into", "new.cases", "--format", "jsonl")
    assert "holds no metadata.jsonl" in wrong.error
    assert (
        "known: auto, coco, csv, jsonl, labelme" in run("cases", "import", "out", "--into", "n", "--format", "x").error
    )
    assert not Path("new.cases").exists()


def test_the_command_line_names_the_picture_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.jpg").write_bytes(jpeg(1, SIZE))
    images = [{"id": n, "file_name": name, "sagehand": {"family": "f", "device": "d"}} for n, name in enumerate("ab")]
    images[1]["file_name"] = "b.jpg"
    annotations(tmp_path / "in", {"images": images})
    done = run("cases", "import", "in", "--into", "p.cases", "--embedder", "hash")
    assert done.code == 1
    assert done.err == "in: picture 1: a: no such file\n"


def test_a_corrected_outline_is_what_is_exported(tmp_path: Path, base: CaseBase) -> None:
    import_folder(folder_of_all_kinds(tmp_path / "in"), base, EMBEDDER)
    case = next(c for c in base.cases() if c.file_name == "one.jpg")
    base.correct(case.id, {"polygon": [[0, 0], [5, 0], [5, 5]]})
    export_folder(base, tmp_path / "out", format="labelme")
    doc = json.loads((tmp_path / "out" / "one.json").read_text())
    assert doc["shapes"][0]["points"] == [[0, 0], [5, 0], [5, 5]]
    doc["shapes"][0]["points"][0] = [1, 1]  # and what is moved in the tool comes back
    (tmp_path / "out" / "one.json").write_text(json.dumps(doc))
    with CaseBase.in_memory(EMBEDDER.identity) as again:
        import_folder(tmp_path / "out", again, EMBEDDER)
        assert again.get(case.id) == replace(base.get(case.id), polygon=((1.0, 1.0), (5.0, 0.0), (5.0, 5.0)))
