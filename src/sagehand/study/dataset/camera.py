"""A camera, by OpenCV: USB by its index, a network camera or a video file by its address.

A camera hands out what it has buffered, which may be seconds old. So it is read all the time, and a picture that is asked
for is one that was taken after the asking.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sagehand.errors import InputError, MissingExtra, PictureError
from sagehand.study.dataset.events import Done, Event, Frame, Shot, Snap, parse_line
from sagehand.study.dataset.operator import Lines

__all__ = ["CameraSource"]

POLL = 0.1  # [s]
PATIENCE = 5.0  # [s] without a picture


class CameraSource:
    """A camera as a source of events; pictures are taken when ``snap`` says so, or also in an interval."""

    live = True
    every = 0.0

    def __init__(
        self,
        camera: int | str,
        lines: Lines,
        *,
        interval: float | None = None,
        refuse: Callable[[str], None] | None = None,
    ) -> None:
        """Open a camera.

        Args:
            camera: Its index, or its address.
            lines: What is said while it runs.
            interval: Also take a picture whenever so much time has passed [s].
            refuse: Called with what is wrong with a line that is no event.

        Raises:
            MissingExtra: OpenCV is not installed.
            InputError: There is no such camera, or the interval is not more than 0.
        """
        if interval is not None and not interval > 0:
            raise InputError(
                f"interval is {interval}; it must be more than 0 [s]", hint="leave it out to take pictures by 'snap'"
            )
        try:
            import cv2
        except ImportError as error:
            raise MissingExtra("a camera", "camera") from error
        self.name = str(camera)
        self._lines, self._interval, self._refuse = lines, interval, refuse or (lambda line: None)
        self._capture: Any = cv2.VideoCapture(camera)
        if not self._capture.isOpened():
            self._capture.release()
            raise InputError(
                f"camera {camera!r} cannot be opened", hint="name its index, as 0, or its address, as rtsp://…"
            )
        self._latest: tuple[int, Any] | None = None
        self._changed = threading.Condition()
        self._stopped = False
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    def known(self) -> Sequence[Done]:
        """Nothing is known beforehand."""
        return ()

    def events(self) -> Iterator[Event]:
        """Pictures, and what is said, until the lines end.

        Raises:
            InputError: The camera gives no picture any more.
        """
        due = time.monotonic()
        while not self._lines.ended:
            wait = POLL if self._interval is None else max(0.0, min(POLL, due - time.monotonic()))
            found = self._lines.wait(wait)
            if found is not None:
                try:
                    event = parse_line(found[0], where=found[1], stamp=found[2])
                except InputError as error:
                    self._refuse(f"not recorded: {error}")
                    continue
                if event is not None:
                    yield self._picture(asked=True) if isinstance(event, Snap) else event
            elif self._interval is not None and time.monotonic() >= due and not self._lines.ended:
                due = time.monotonic() + self._interval
                yield self._picture(asked=False)

    def close(self) -> None:
        """Let go of the camera; harmless when done twice."""
        self._stopped = True
        self._follower.join(timeout=PATIENCE)
        self._capture.release()

    def _follow(self) -> None:
        while not self._stopped:
            good, pixels = self._capture.read()
            if not good:
                time.sleep(POLL / 10)
                continue
            with self._changed:
                self._latest = time.time_ns(), pixels
                self._changed.notify_all()

    def _picture(self, *, asked: bool) -> Frame:
        """A picture whose reading began after now."""
        with self._changed:
            before = self._latest
            for _ in range(2):  # the one that is being read now may have been taken before
                seen = self._latest
                if not self._changed.wait_for(lambda seen=seen: self._latest is not seen, timeout=PATIENCE):  # type: ignore[misc]
                    what = "gives no picture" if before is None else "gives no picture any more"
                    raise InputError(
                        f"camera {self.name!r} {what}",
                        hint="check its cable; what was taken is kept, run the same again to go on",
                    )
            if self._latest is None:  # both waits ended with a picture
                raise RuntimeError("a camera that gave a picture holds none")
            stamp, pixels = self._latest
        return Frame(lambda: self._shot(pixels), asked=asked, where=f"camera {self.name}", stamp=stamp)

    def _shot(self, pixels: Any) -> Shot:
        import numpy as np

        from sagehand.study.dataset.ros_images import png_file

        image = np.asarray(pixels)
        if image.ndim == 3 and image.shape[2] == 3:
            image = np.ascontiguousarray(image[:, :, ::-1])  # OpenCV's order is blue, green, red
        elif image.ndim != 2:
            raise PictureError(f"camera {self.name}: a picture of shape {image.shape} cannot be used")
        return Shot(png_file(image), ".png", None, {"source": f"camera {self.name}"})
