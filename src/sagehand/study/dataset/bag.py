"""Pictures, depth images and actions from a recorded bag, of ROS 1 (``.bag``) or ROS 2 (a folder), without a ROS install.

Times are those at which messages were received. A picture is paired with the depth image whose stamp is nearest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sagehand.errors import InputError, MissingExtra, PictureError, UnknownName
from sagehand.study.dataset.events import NANO, Done, Event, Frame, Shot, Snap, merge, parse_line, read_events
from sagehand.study.dataset.ros_images import compressed_picture, depth_file, picture_file

__all__ = ["BagSource", "Topics"]

IMAGE, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
INFO, STRING = "sensor_msgs/msg/CameraInfo", "std_msgs/msg/String"
SLOP = NANO // 20  # a picture and a depth image of one moment: 0.05 s apart at most
_KEPT = 30  # depth images that wait for their picture


@dataclass(frozen=True)
class Topics:
    """Which topics are read; None finds the pictures' and the camera's by itself where there is one, and no other."""

    image: str | None = None
    depth: str | None = None
    info: str | None = None
    action: str | None = None


@dataclass(frozen=True)
class _Message:
    """One message, not yet read."""

    topic: str
    kind: str
    at: int
    raw: bytes
    number: int


class BagSource:
    """A bag as a source of events."""

    live = False
    every = 1.0

    def __init__(self, path: str | Path, topics: Topics | None = None, events: str | Path | None = None) -> None:
        """Open a bag.

        Args:
            path: A ``.bag`` file, or the folder of a ROS 2 bag.
            topics: Which topics are read.
            events: A file of actions with their times, besides or in place of an action topic.

        Raises:
            MissingExtra: rosbags is not installed.
            InputError: It is no bag that can be read; no topic of pictures, or several and none named; an event is none.
            UnknownName: A topic that the bag does not have.
        """
        self.path = Path(path)
        self._reader = _open(self.path)
        try:
            self._kinds = {c.topic: str(c.msgtype) for c in self._reader.connections}
            self.topics = self._chosen(topics or Topics())
            self._infos: dict[str, Any] = {}
            said = self._said()
            first = next((m.at for m in self._messages(self.topics.image)), None)
            more = read_events(events, first) if events is not None else []
            self._said_events = sorted([*said, *more], key=lambda event: event.stamp or 0)
        except BaseException:
            self.close()
            raise

    def known(self) -> Sequence[Done]:
        """All actions of the bag."""
        return [event for event in self._said_events if isinstance(event, Done)]

    def events(self) -> Iterator[Event]:
        """Pictures and what was said, in the order of time. A bag that breaks off ends there, with an error.

        Raises:
            InputError: The bag is damaged; what came before it was given.
        """
        return merge(self._frames(), self._said_events)

    def close(self) -> None:
        """Close the bag."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _chosen(self, topics: Topics) -> Topics:
        for kind, name in (
            ("image", topics.image),
            ("depth", topics.depth),
            ("info", topics.info),
            ("action", topics.action),
        ):
            if name is not None and name not in self._kinds:
                raise UnknownName(f"{kind} topic", name, self._kinds, hint=f"the topics are those of {self.path}")
        wanted = {"image": (IMAGE, COMPRESSED), "depth": (IMAGE, COMPRESSED), "info": (INFO,), "action": (STRING,)}
        for field, kinds in wanted.items():
            name = getattr(topics, field)
            if name is not None and self._kinds[name] not in kinds:
                raise InputError(f"{self.path}: {name} is of {self._kinds[name]}, not of {' or '.join(kinds)}")
        if topics.image is None:
            taken = {topics.depth, topics.info, topics.action}
            found = [n for n, kind in self._kinds.items() if kind in (IMAGE, COMPRESSED) and n not in taken]
            if len(found) != 1:
                told = ", ".join(sorted(found)) or f"none; topics: {', '.join(sorted(self._kinds)) or 'none'}"
                raise InputError(f"{self.path}: topics with pictures: {told}", hint="name one with --image-topic")
            topics = replace(topics, image=found[0])
        if topics.info is None:
            # image_transport: the camera's info lies beside the picture, also of its compressed child
            parent = str(topics.image).rpartition("/")[0]
            names = (f"{parent}/camera_info", f"{parent.rpartition('/')[0]}/camera_info")
            topics = replace(topics, info=next((n for n in names if self._kinds.get(n) == INFO), None))
        return topics

    def _messages(self, *names: str | None) -> Iterator[_Message]:
        """Messages of these topics, in the order in which they were received."""
        connections = [c for c in self._reader.connections if c.topic in names]
        if not connections:
            return
        number: dict[str, int] = {}
        try:
            for connection, at, raw in self._reader.messages(connections):
                number[connection.topic] = number.get(connection.topic, 0) + 1
                yield _Message(connection.topic, connection.msgtype, at, raw, number[connection.topic])
        except Exception as error:  # a damaged bag raises whatever its storage does
            raise InputError(
                f"{self.path}: breaks off: {error}", hint="what came before it is kept: end the recording with --finish"
            ) from error

    def _read(self, message: _Message) -> Any:
        try:
            return self._reader.deserialize(message.raw, message.kind)
        except Exception as error:  # the reader's own, and what a damaged message makes NumPy and struct raise
            raise PictureError(f"{self._where(message)}: cannot be read: {error}") from error

    def _where(self, message: _Message) -> str:
        return f"{self.path.name}, {message.topic}, message {message.number}"

    def _said(self) -> list[Event]:
        said: list[Event] = []
        for message in self._messages(self.topics.action) if self.topics.action else ():
            where = self._where(message)
            event = parse_line(str(self._read(message).data), where=where, stamp=message.at, key=where)
            if isinstance(event, Snap):
                raise InputError(f"{where}: no picture can be taken in the past", hint="leave 'snap' out")
            if event is not None:
                said.append(event)
        return said

    def _frames(self) -> Iterator[Event]:
        """Pictures in order, each held back until its depth image can have come."""
        waiting: deque[tuple[_Message, int]] = deque()
        depths: deque[tuple[_Message, int]] = deque(maxlen=_KEPT)
        topics = self.topics
        self._infos.clear()
        for message in self._messages(topics.image, topics.depth, topics.info):
            if message.topic == topics.info:
                self._infos = {"info": self._read(message)}
                continue
            stamp = _stamp(self._header(message), message.at)
            (waiting if message.topic == topics.image else depths).append((message, stamp))
            while waiting and (
                topics.depth is None or message.at - waiting[0][0].at > 2 * SLOP or _paired(waiting[0], depths)
            ):
                yield self._frame(*waiting.popleft(), depths)
        while waiting:
            yield self._frame(*waiting.popleft(), depths)

    def _header(self, message: _Message) -> Any:
        try:
            return self._read(message).header
        except PictureError:
            return None

    def _frame(self, message: _Message, stamp: int, depths: Sequence[tuple[_Message, int]]) -> Frame:
        where = self._where(message)
        nearest = min(depths, key=lambda d: abs(d[1] - stamp), default=None)
        depth = nearest[0] if nearest is not None and abs(nearest[1] - stamp) <= SLOP else None
        info = self._infos.get("info")

        def read() -> Shot:
            return self._shot(message, stamp, depth, info)

        return Frame(read, where=where, stamp=message.at, key=where)

    def _shot(self, message: _Message, stamp: int, depth: _Message | None, info: Any) -> Shot:
        from sagehand.picture import load

        where = self._where(message)
        found = self._read(message)
        data, suffix = (
            compressed_picture(found, where) if message.kind == COMPRESSED else (picture_file(found, where), ".png")
        )
        picture = load(data, name=where)
        size = (picture.width, picture.height)
        notes: list[str] = []
        extra: dict[str, Any] = {
            "stamp_ns": stamp,
            "frame_id": str(found.header.frame_id),
            "source": self.path.name,
            "topic": message.topic,
        }
        extra |= _camera(info, size, notes)
        depth_data = self._depth(depth, size, notes) if self.topics.depth is not None else None
        return Shot(data, suffix, depth_data, extra, tuple(notes))

    def _depth(self, message: _Message | None, size: tuple[int, int], notes: list[str]) -> bytes | None:
        if message is None:
            notes.append(f"no depth image within {SLOP / NANO:g} s")
            return None
        try:
            data, found = depth_file(self._read(message), self._where(message))
        except PictureError as error:
            notes.append(str(error))
            return None
        if found != size:
            notes.append(
                f"the depth image is {found[0]}x{found[1]}, the picture {size[0]}x{size[1]}: "
                "left out (record depth that is aligned to the colour camera)"
            )
            return None
        return data


def _open(path: Path) -> Any:
    """A reader of rosbags that is open."""
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise MissingExtra("reading a bag", "bag") from error
    if not path.exists():
        raise InputError(f"{path}: no such bag", hint="name a .bag file, or the folder of a ROS 2 bag")
    try:
        reader = AnyReader([path], default_typestore=get_typestore(Stores.LATEST))
        reader.open()
    except Exception as error:  # what is no bag makes its storages raise whatever they do
        hint = "a ROS 1 bag is one .bag file (`rosbag reindex` mends one that broke off), a ROS 2 bag is its folder"
        raise InputError(f"{path}: is no bag that can be read: {error}", hint=hint) from error
    return reader


def _stamp(header: Any, received: int) -> int:
    """The camera's own stamp [ns]; when the message was received where it has none."""
    stamp = header.stamp.sec * NANO + header.stamp.nanosec if header is not None else 0
    return int(stamp) or received


def _paired(frame: tuple[_Message, int], depths: Sequence[tuple[_Message, int]]) -> bool:
    return any(stamp >= frame[1] for _, stamp in depths)


def _camera(info: Any, size: tuple[int, int], notes: list[str]) -> dict[str, Any]:
    """Intrinsics [px] of a CameraInfo, with the size that they hold for."""
    if info is None:
        return {}
    width, height = int(info.width), int(info.height)
    if (width, height) != size:
        notes.append(f"camera_info is for {width}x{height}, the picture is {size[0]}x{size[1]}: intrinsics left out")
        return {}
    k = info.k if hasattr(info, "k") else info.K
    if not float(k[0]):
        return {}  # an uncalibrated camera says 0
    found = {
        "fx": float(k[0]),
        "fy": float(k[4]),
        "cx": float(k[2]),
        "cy": float(k[5]),
        "width": width,
        "height": height,
    }
    bent = [float(v) for v in (info.d if hasattr(info, "d") else info.D)]
    distortion = {"distortion": {"model": str(info.distortion_model), "d": bent}} if any(bent) else {}
    return {"intrinsics": found} | distortion
