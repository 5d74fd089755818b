"""Bags of ROS 1 and ROS 2, written by rosbags' own writers, and ROS pictures decoded by NumPy alone."""

from __future__ import annotations

import io
import json
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from syrupy.assertion import SnapshotAssertion

from folders import jpeg, png
from sagehand.errors import InputError, MissingExtra, PictureError, SagehandError
from sagehand.picture import load
from sagehand.study.dataset.capture import Choice, RecordReport, finish_recording, record_study
from sagehand.study.dataset.events import NANO, Frame
from sagehand.study.dataset.ros_images import ENCODINGS, compressed_picture, decode, depth_file, picture_file
from sagehand.study.dataset.sample import StudyData
from sagehand.study.dataset.session import Session

START = 1_700_000_000 * NANO


def message(
    encoding: str, pixels: NDArray[Any], *, padding: int = 0, big: bool = False, **more: Any
) -> SimpleNamespace:
    """An Image message of pixels as they lie in memory."""
    pixels = pixels.astype(pixels.dtype.newbyteorder(">" if big else "<"))
    height, width = pixels.shape[:2]
    rows = [row.tobytes() + b"\xaa" * padding for row in pixels]
    step = len(rows[0])
    data = np.frombuffer(b"".join(rows), np.uint8)
    return SimpleNamespace(
        **{"encoding": encoding, "height": height, "width": width, "step": step, "is_bigendian": int(big), "data": data}
        | more
    )


RGB = np.random.default_rng(0).integers(0, 256, (3, 4, 3), dtype=np.uint8)
ALPHA = np.full((3, 4, 1), 7, np.uint8)
GREY = np.arange(12, dtype=np.uint8).reshape(3, 4)
DEEP = (np.arange(12, dtype=np.uint16) * 1000).reshape(3, 4)


@pytest.mark.parametrize(
    ("encoding", "stored", "expected"),
    [
        ("rgb8", RGB, RGB),
        ("bgr8", RGB[:, :, ::-1], RGB),
        ("rgba8", np.concatenate([RGB, ALPHA], axis=2), RGB),
        ("bgra8", np.concatenate([RGB[:, :, ::-1], ALPHA], axis=2), RGB),
        ("mono8", GREY, GREY),
        ("8UC1", GREY, GREY),
        ("8UC3", RGB[:, :, ::-1], RGB),
        ("mono16", DEEP, DEEP),
        ("16UC1", DEEP, DEEP),
        ("32FC1", DEEP.astype(np.float32), DEEP.astype(np.float32)),
    ],
)
@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize("big", [False, True])
def test_every_encoding(encoding: str, stored: NDArray[Any], expected: NDArray[Any], padding: int, big: bool) -> None:
    found = decode(message(encoding, stored, padding=padding, big=big), "here")
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
    if expected.dtype != np.float32:
        assert np.array_equal(
            np.asarray(Image.open(io.BytesIO(picture_file(message(encoding, stored), "here")))), expected
        )


def test_every_known_encoding_is_tested() -> None:
    assert len(ENCODINGS) == 10


def test_a_last_row_without_its_padding_is_read() -> None:
    whole = message("mono8", GREY, padding=5)
    whole.data = whole.data[:-5]
    assert np.array_equal(decode(whole, "here"), GREY)


@given(
    st.sampled_from(sorted(ENCODINGS)), st.integers(0, 5), st.integers(0, 5), st.integers(0, 20), st.binary(max_size=99)
)
def test_any_message_is_decoded_or_refused(encoding: str, height: int, width: int, step: int, data: bytes) -> None:
    given_ = SimpleNamespace(
        encoding=encoding, height=height, width=width, step=step, is_bigendian=0, data=np.frombuffer(data, np.uint8)
    )
    try:
        found = decode(given_, "here")
    except PictureError:
        return
    assert found.shape[:2] == (height, width)


def test_what_cannot_be_read_is_named(snapshot: SnapshotAssertion) -> None:
    compressed = SimpleNamespace(format="h264", data=np.zeros(20, np.uint8))
    told = []
    for call in (
        lambda: decode(message("bayer_rggb8", GREY), "here"),
        lambda: decode(message("yuv422", GREY), "here"),
        lambda: decode(message("rgb8", GREY), "here"),
        lambda: picture_file(message("32FC1", DEEP.astype(np.float32)), "here"),
        lambda: compressed_picture(compressed, "here"),
        lambda: depth_file(message("rgb8", RGB), "here"),
        lambda: depth_file(message("mono8", GREY), "here"),
        lambda: depth_file(compressed, "here"),
    ):
        with pytest.raises(PictureError) as caught:
            call()
        told.append(str(caught.value))
    assert told == snapshot


def depths(data: bytes) -> NDArray[Any]:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_depth_in_metres_becomes_millimetres() -> None:
    metres = np.array([[0.7004, 0.0, np.nan], [np.inf, -1.0, 70.0], [65.535, 0.0004, 1e30]], np.float32)
    data, size = depth_file(message("32FC1", metres), "here")
    assert size == (3, 3)
    assert depths(data).tolist() == [[700, 0, 0], [0, 0, 0], [65535, 0, 0]]
    assert depths(depth_file(message("16UC1", DEEP), "here")[0]).tolist() == DEEP.tolist()


def test_compressed_depth_as_image_transport_writes_it() -> None:
    whole = SimpleNamespace(format="16UC1; compressedDepth", data=np.frombuffer(b"\0" * 12 + png(DEEP), np.uint8))
    assert depths(depth_file(whole, "here")[0]).tolist() == DEEP.tolist()
    # 32FC1: the inverse of depth, quantised: v = a / z + b, with a = z0 (z0 + 1), b = 1 - a / z_max (codec.cpp)
    z0, z_max = 100.0, 10.0
    a = z0 * (z0 + 1)
    b = 1 - a / z_max
    metres = np.array([[0.5, 0.75], [2.0, 9.0]])
    quantised = np.rint(a / metres + b).astype(np.uint16)
    quantised[1, 0] = 0  # no reading
    data = struct.pack("<iff", 0, a, b) + png(quantised)
    found = depths(
        depth_file(SimpleNamespace(format="32FC1; compressedDepth png", data=np.frombuffer(data, np.uint8)), "")[0]
    )
    assert found[1, 0] == 0
    assert np.abs(found[[0, 0, 1], [0, 1, 1]] - np.array([500, 750, 9000])).max() <= 5


# bags


class Bag:
    """A bag of either kind, being written; messages are given by their fields."""

    def __init__(self, path: Path, kind: str) -> None:
        pytest.importorskip("rosbags")
        from rosbags import rosbag1, rosbag2
        from rosbags.typesys import Stores, get_typestore

        self.ros1 = kind == "ros1"
        self.store = get_typestore(Stores.ROS1_NOETIC if self.ros1 else Stores.ROS2_HUMBLE)
        self.types = self.store.types
        plugin = {"mcap": rosbag2.StoragePlugin.MCAP}.get(kind, rosbag2.StoragePlugin.SQLITE3)
        self.writer: Any = rosbag1.Writer(path) if self.ros1 else rosbag2.Writer(path, version=9, storage_plugin=plugin)
        self._connections: dict[str, Any] = {}
        self._count = 0

    def __enter__(self) -> Bag:
        self.writer.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def header(self, stamp: int, frame: str = "camera") -> Any:
        time = self.types["builtin_interfaces/msg/Time"](sec=stamp // NANO, nanosec=stamp % NANO)
        more = {"seq": 0} if self.ros1 else {}
        return self.types["std_msgs/msg/Header"](stamp=time, frame_id=frame, **more)

    def write(self, topic: str, kind: str, at: int, **fields: Any) -> None:
        if topic not in self._connections:
            self._connections[topic] = self.writer.add_connection(topic, kind, typestore=self.store)
        found = self.types[kind](**fields)
        raw = self.store.serialize_ros1(found, kind) if self.ros1 else self.store.serialize_cdr(found, kind)
        self.writer.write(self._connections[topic], at, raw)

    def image(self, topic: str, at: int, encoding: str, pixels: NDArray[Any], stamp: int | None = None) -> None:
        fields = vars(message(encoding, pixels))
        self.write(topic, "sensor_msgs/msg/Image", at, header=self.header(at if stamp is None else stamp), **fields)

    def compressed(self, topic: str, at: int, data: bytes, format: str = "jpeg") -> None:
        fields = {"header": self.header(at), "format": format, "data": np.frombuffer(data, np.uint8)}
        self.write(topic, "sensor_msgs/msg/CompressedImage", at, **fields)

    def said(self, at: int, text: str, topic: str = "/done") -> None:
        self.write(topic, "std_msgs/msg/String", at, data=text)

    def info(self, topic: str, at: int, width: int, height: int, d: tuple[float, ...] = ()) -> None:
        roi = self.types["sensor_msgs/msg/RegionOfInterest"](
            x_offset=0, y_offset=0, height=0, width=0, do_rectify=False
        )
        k = np.array([600.0, 0, 15.5, 0, 601.0, 11.5, 0, 0, 1])
        names = "DKRP" if self.ros1 else "dkrp"
        matrices = dict(zip(names, (np.array(d), k, np.eye(3).ravel(), np.zeros(12)), strict=True))
        fields = {"height": height, "width": width, "distortion_model": "plumb_bob", "binning_x": 0, "binning_y": 0}
        self.write(topic, "sensor_msgs/msg/CameraInfo", at, header=self.header(at), roi=roi, **fields, **matrices)


def at(seconds: float) -> int:
    return START + round(seconds * NANO)


def scene(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (24, 32, 3), dtype=np.uint8)


KINDS = ("ros1", "ros2", "mcap")


@pytest.fixture(params=KINDS)
def bag(request: pytest.FixtureRequest, tmp_path: Path) -> Bag:
    return Bag(tmp_path / ("run.bag" if request.param == "ros1" else "run"), request.param)


def path_of(tmp_path: Path) -> Path:
    return tmp_path / "run.bag" if (tmp_path / "run.bag").exists() else tmp_path / "run"


def record(tmp_path: Path, *, choice: Choice | None = None, events: Path | None = None, **topics: str) -> RecordReport:
    from sagehand.study.dataset.bag import BagSource, Topics

    source = BagSource(path_of(tmp_path), Topics(**topics), events)
    return record_study(tmp_path / "set", source, Session("f", "d"), choice=choice)


def rows_of(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "set" / "metadata.jsonl").read_text().splitlines()]


def test_a_bag_with_depth_actions_and_intrinsics(bag: Bag, tmp_path: Path) -> None:
    with bag:
        bag.info("/camera/color/camera_info", at(0), 32, 24)
        for second in range(4):
            # the depth image of a picture comes after it; another one, of another moment, before
            bag.image(
                "/camera/depth", at(second - 0.03), "16UC1", np.full((24, 32), 9000, np.uint16), at(second - 0.04)
            )
            bag.image("/camera/color/image_raw", at(second), "bgr8", scene(second)[:, :, ::-1], at(second) - 7)
            deep = np.full((24, 32), 500 + second, np.uint16)
            bag.image("/camera/depth", at(second + 0.02), "16UC1", deep, at(second) + 5_000_000)
            if second == 1:
                bag.said(at(1.5), "unscrew")
        bag.said(at(3.5), "pry")
        bag.said(at(3.6), "end")
    report = record(tmp_path, depth="/camera/depth", action="/done", image="/camera/color/image_raw")
    rows = rows_of(tmp_path)
    assert [r["step"] for r in rows] == [1, 1, 2, 2]
    assert [r["next_action"] for r in rows] == ["unscrew", "unscrew", "pry", "pry"]
    assert (report.images, report.depth_images, report.complete, report.flagged) == (4, 4, True, ())
    for second, row in enumerate(rows):
        assert np.array_equal(load(tmp_path / "set" / row["file_name"]).pixels, scene(second))
        assert int(depths((tmp_path / "set" / row["depth_file_name"]).read_bytes())[0, 0]) == 500 + second
        assert row["stamp_ns"] == at(second) - 7
        assert (row["frame_id"], row["topic"]) == ("camera", "/camera/color/image_raw")
        assert row["intrinsics"] == {"fx": 600.0, "fy": 601.0, "cx": 15.5, "cy": 11.5, "width": 32, "height": 24}
    data = StudyData.load(tmp_path / "set")
    assert len(data.samples) == 4


def test_compressed_pictures_are_kept_byte_for_byte(bag: Bag, tmp_path: Path) -> None:
    with bag:
        bag.info("/cam/camera_info", at(0), 32, 24, (0.1, 0.0, 0.0, 0.0, 0.0))
        for second in range(3):
            bag.compressed("/cam/image/compressed", at(second), jpeg(second), "bgr8; jpeg compressed bgr8")
            deep = b"\0" * 12 + png(np.full((24, 32), 700 + second, np.uint16))
            bag.compressed("/cam/depth/compressedDepth", at(second), deep, "16UC1; compressedDepth")
    report = record(tmp_path, image="/cam/image/compressed", depth="/cam/depth/compressedDepth")
    rows = rows_of(tmp_path)
    assert [(tmp_path / "set" / r["file_name"]).read_bytes() for r in rows] == [jpeg(n) for n in range(3)]
    assert report.depth_images == 3
    assert rows[0]["distortion"] == {"model": "plumb_bob", "d": [0.1, 0.0, 0.0, 0.0, 0.0]}


def test_what_does_not_fit_is_left_out_and_told(bag: Bag, tmp_path: Path) -> None:
    with bag:
        bag.info("/cam/camera_info", at(0), 640, 480)
        bag.image("/cam/image", at(0), "rgb8", scene(0))
        bag.image("/deep", at(0), "32FC1", np.ones((5, 6), np.float32))
        bag.image("/cam/image", at(2), "bayer_rggb8", scene(1)[:, :, 0])
        bag.image("/cam/image", at(4), "rgb8", scene(2))
    report = record(tmp_path, image="/cam/image", depth="/deep")
    assert (report.images, report.depth_images, report.left_out) == (2, 0, {"cannot be used": 1})
    told = "\n".join(report.flagged)
    for part in ("camera_info is for 640x480", "depth image is 6x5", "no depth image within 0.05 s", "bayer_rggb8"):
        assert part in told
    assert "intrinsics" not in rows_of(tmp_path)[0]


def test_pictures_come_once_a_second_unless_told_otherwise(tmp_path: Path) -> None:
    bag = Bag(tmp_path / "run.bag", "ros1")
    with bag:
        for tenth in range(31):
            bag.image("/image", at(tenth / 10), "mono8", scene(tenth)[:, :, 0])
    assert record(tmp_path).images == 4
    from sagehand.study.dataset.bag import BagSource

    more = record_study(tmp_path / "more", BagSource(path_of(tmp_path)), Session("f", "d"), choice=Choice(every=0))
    assert more.images == 31


def test_actions_from_a_file_of_events(tmp_path: Path) -> None:
    bag = Bag(tmp_path / "run", "ros2")
    with bag:
        for second in range(4):
            bag.image("/image", at(second), "rgb8", scene(second))
    (tmp_path / "events.txt").write_text("+1.5 unscrew\n+9 end\n")
    report = record(tmp_path, events=tmp_path / "events.txt")
    assert report.steps == {1: 2, 2: 2}
    assert rows_of(tmp_path)[0]["remaining_actions"] == ["unscrew"]


def test_a_recording_of_a_bag_is_gone_on_with(bag: Bag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sagehand.study.dataset import capture

    with bag:
        for second in range(6):
            bag.image("/image", at(second), "rgb8", scene(second))
            if second == 2:
                bag.said(at(2.5), "unscrew")
        bag.said(at(7), "end")
    seen = 0
    take = capture._Run._take

    def stop(self: Any, frame: Frame, recording: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == 5:
            raise KeyboardInterrupt
        take(self, frame, recording)

    monkeypatch.setattr(capture._Run, "_take", stop)
    with pytest.raises(KeyboardInterrupt):
        record(tmp_path, action="/done", image="/image")
    monkeypatch.setattr(capture._Run, "_take", take)
    report = record(tmp_path, action="/done", image="/image")
    assert (report.images, report.resumed, report.steps) == (6, True, {1: 3, 2: 3})
    assert [r["stamp_ns"] for r in rows_of(tmp_path)] == [at(s) for s in range(6)]
    with pytest.raises(InputError, match="was recorded into"):
        record(tmp_path, action="/done", image="/image")


def test_what_is_no_bag_or_has_no_such_topic(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    from sagehand.study.dataset.bag import BagSource, Topics

    bag = Bag(tmp_path / "run.bag", "ros1")
    with bag:
        bag.image("/left/image", at(0), "rgb8", scene(0))
        bag.image("/right/image", at(0), "rgb8", scene(0))
        bag.said(at(1), "snap")
        bag.said(at(1), "one two three", "/prose")
    (tmp_path / "only.bag").write_bytes(b"no bag")
    (tmp_path / "folder").mkdir()
    cases: list[tuple[str, Topics]] = [
        ("none.bag", Topics()),
        ("only.bag", Topics()),
        ("folder", Topics()),
        ("run.bag", Topics()),
        ("run.bag", Topics(image="/lef/image")),
        ("run.bag", Topics(image="/done")),
        ("run.bag", Topics(image="/left/image", action="/right/image")),
        ("run.bag", Topics(image="/left/image", action="/done")),
        ("run.bag", Topics(image="/left/image", action="/prose")),
    ]
    told = []
    for name, topics in cases:
        with pytest.raises(SagehandError) as caught:
            BagSource(tmp_path / name, topics)
        told.append(str(caught.value).replace(str(tmp_path), "").split(": Could not")[0].split(": File")[0])
    assert told == snapshot


def test_a_bag_that_breaks_off_gives_what_came_before(tmp_path: Path) -> None:
    bag = Bag(tmp_path / "run.bag", "ros1")
    with bag:
        for second in range(40):
            bag.image("/image", at(second), "rgb8", scene(second))
    path = tmp_path / "run.bag"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 8192] = b"\xff" * 8192
    path.write_bytes(data)
    with pytest.raises(InputError, match="breaks off"):
        record(tmp_path)
    assert 0 < len(rows_of(tmp_path)) < 40
    assert finish_recording(tmp_path / "set").images == len(rows_of(tmp_path))


def test_without_rosbags_the_install_line_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sagehand.study.dataset.bag import BagSource

    monkeypatch.setitem(sys.modules, "rosbags.highlevel", None)
    with pytest.raises(MissingExtra, match=r"sagehand\[bag\]"):
        BagSource(tmp_path / "x.bag")


def test_the_command_records_a_bag(bag: Bag, tmp_path: Path) -> None:
    import typer
    from typer.testing import CliRunner

    from sagehand.cli import study_record

    with bag:
        for second in range(3):
            bag.image("/camera/image", at(second), "rgb8", scene(second))
        bag.said(at(1.5), "unscrew")
    app = typer.Typer(rich_markup_mode=None)
    study_record.register(app)
    arguments = ["--out", tmp_path / "set", "--family", "f", "--device", "d", "--bag", path_of(tmp_path)]
    arguments += ["--action-topic", "/done", "--complete", "--json"]
    ran = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert (ran.exit_code, ran.stderr) == (0, "")
    doc = json.loads(ran.stdout)
    assert (doc["images"], doc["steps"], doc["actions"]) == (3, {"1": 2, "2": 1}, ["unscrew"])
    assert rows_of(tmp_path)[-1]["next_action"] == "end"
