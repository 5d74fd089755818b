"""Frames to a film: GIF through Pillow, MP4 through the ffmpeg that imageio-ffmpeg brings (extra "video")."""

from __future__ import annotations

import importlib
import importlib.util
import io
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import InputError, MissingExtra
from sagehand.files import write_whole

__all__ = ["GREEN", "RED", "WHITE", "animate", "check_suffix"]

Picture = NDArray[np.uint8]

SUFFIXES = (".gif", ".mp4")
GREEN, RED, WHITE = (120, 220, 140), (255, 150, 130), (235, 238, 242)
"""Of words in captions; a GIF's palette always holds them."""


def animate(path: str | Path, frames: Sequence[Picture], fps: float = 20) -> Path:
    """Write frames as a film, GIF or MP4 by the name's suffix; whole or not at all.

    Args:
        path: The file.
        frames: (H, W, 3) uint8 each, all of one size.
        fps: Frames a second.

    Raises:
        InputError: The suffix is neither, there are no frames, or they are not of one size; or it cannot be written there.
        MissingExtra: MP4 needs the extra "video".
    """
    path = Path(path)
    check_suffix(path)
    if not frames:
        raise InputError(f"{path}: there is no frame to write", hint="record at least one")
    shapes = {np.asarray(frame).shape for frame in frames}
    if len(shapes) > 1 or any(len(s) != 3 or s[2] != 3 for s in shapes):
        raise InputError(f"{path}: the frames are of shapes {sorted(shapes)}", hint="all must be (H, W, 3) and alike")
    if not 0 < fps <= 100:
        raise InputError(f"fps is {fps}; it must be above 0 and at most 100")
    write_whole(path, _gif(frames, fps) if path.suffix.lower() == ".gif" else _mp4(frames, fps))
    return path


def check_suffix(path: Path) -> None:
    """Refuse a film's name before anything long is done for it.

    Raises:
        InputError: It ends in neither .gif nor .mp4.
        MissingExtra: MP4 needs the extra "video".
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: a film ends in .gif or .mp4", hint=f"as in {path.with_suffix('.gif')}")
    if path.suffix.lower() == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise MissingExtra("an MP4 film", "video")


def _gif(frames: Sequence[Picture], fps: float) -> bytes:
    """One palette for all frames, so that nothing flickers."""
    from PIL import Image

    pictures = [Image.fromarray(np.asarray(frame)) for frame in frames]
    some = pictures[:: max(1, len(pictures) // 6)]
    strip = Image.new("RGB", (some[0].width, some[0].height * len(some)))
    for row, picture in enumerate(some):
        strip.paste(picture, (0, row * picture.height))
    palette = Image.new("P", (1, 1))
    words = [level for colour in (GREEN, RED, WHITE) for level in colour]  # few pixels, which the cut would pass over
    palette.putpalette((strip.quantize(253, method=Image.Quantize.MEDIANCUT).getpalette() or [])[: 253 * 3] + words)
    drawn = [p.quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    buffer = io.BytesIO()
    drawn[0].save(
        buffer, "GIF", save_all=True, append_images=drawn[1:], duration=round(1000 / fps), loop=0, optimize=False
    )
    return buffer.getvalue()


def _mp4(frames: Sequence[Picture], fps: float) -> bytes:
    """By the ffmpeg that imageio-ffmpeg brings; odd sides get one more row or column, for H.264 halves them."""
    ffmpeg = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    height, width = np.asarray(frames[0]).shape[:2]
    read = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    even = "pad=ceil(iw/2)*2:ceil(ih/2)*2"
    write = ["-an", "-vf", even, "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart"]
    with tempfile.TemporaryDirectory(prefix="sagehand-film-") as folder:  # the index at the front needs a real file
        film = Path(folder) / "film.mp4"
        done = subprocess.run(
            [ffmpeg, "-v", "error", *read, *write, str(film)],
            input=b"".join(np.ascontiguousarray(frame, dtype=np.uint8).tobytes() for frame in frames),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            told = done.stderr.decode(errors="replace").strip().splitlines()
            raise InputError(f"ffmpeg could not write the film: {told[-1] if told else 'no reason given'}")
        return film.read_bytes()
