"""A GL context that is known to work, and what MuJoCo draws in it: colour, depth, and whose each pixel is."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sagehand.errors import MissingExtra, SettingsError

__all__ = ["choose_gl", "draw", "draw_owners", "open_gl"]


def choose_gl() -> None:
    """Ask for EGL where there is no screen, unless ``MUJOCO_GL`` says otherwise."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("MUJOCO_GL", "egl")


def _before_the_driver() -> None:
    """Load triton, where it is installed: after Mesa's software driver it could not be, and torch asks for it.

    Mesa hands its LLVM to the whole process, and a triton loaded later would call that one instead of its own and crash.
    """
    if sys.platform != "linux":
        return
    with suppress(Exception):  # none, broken, or of another Python: torch will say so if it matters
        importlib.import_module("triton")


def open_gl(width: int, height: int, *, what: str, extra: str) -> tuple[Any, Any]:
    """MuJoCo and a GL context that is known to work; without a screen, EGL is asked for.

    Args:
        width: Columns [px].
        height: Rows [px].
        what: What is to be rendered, for the error.
        extra: The extra that brings MuJoCo.

    Raises:
        MissingExtra: MuJoCo is not installed.
        SettingsError: It is, but finds no GL driver.
    """
    if importlib.util.find_spec("mujoco") is None:
        raise MissingExtra(what, extra)
    choose_gl()
    _before_the_driver()
    gl: Any = None
    try:
        import mujoco

        # asked for by name: MuJoCo may have been imported before anyone chose, and would take what it found then
        chosen = os.environ.get("MUJOCO_GL", "").strip().lower() == "egl"
        gl = (importlib.import_module("mujoco.egl") if chosen else mujoco).GLContext(width, height)
        gl.make_current()
        mujoco.MjrContext(mujoco.MjSpec().compile(), mujoco.mjtFontScale.mjFONTSCALE_100).free()
    except Exception as error:  # what a missing driver raises differs by back end, down to AttributeError
        if gl is not None:
            gl.free()
        raise SettingsError(
            f"MuJoCo cannot open a GL context with MUJOCO_GL={os.environ.get('MUJOCO_GL', '')!r}: {error}",
            hint="set MUJOCO_GL=egl and install a driver (Debian: libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0)",
        ) from error
    return mujoco, gl


def draw(
    mujoco: Any, drawn: Any, context: Any, size: tuple[int, int], depth: NDArray[np.float32] | None = None
) -> NDArray[np.uint8]:
    """(H, W, 3) what a ``MjvScene`` looks like; its raw depth goes into ``depth`` (H, W), lowest row first.

    Args:
        mujoco: MuJoCo.
        drawn: The ``MjvScene``.
        context: The ``MjrContext``, of a context that is current.
        size: Columns and rows [px].
        depth: Room for the raw depth.
    """
    area = mujoco.MjrRect(0, 0, *size)
    rgb = np.empty((size[1], size[0], 3), dtype=np.uint8)
    mujoco.mjr_render(area, drawn, context)
    mujoco.mjr_readPixels(rgb, depth, area, context)
    return rgb[::-1]  # GL's first row is the lowest


def draw_owners(
    mujoco: Any, drawn: Any, context: Any, size: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Whose each pixel is, (H, W) number of a geom or −1, and the raw depth (H, W) of the same drawing.

    The flags of ``drawn`` are left as this drawing needs them.
    """
    drawn.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False  # who owns a pixel does not hang on light
    drawn.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = drawn.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = True
    raw = np.empty((size[1], size[0]), dtype=np.float32)
    ids = draw(mujoco, drawn, context, size, raw)
    owner = np.full(drawn.ngeom + 1, -1, dtype=np.int64)
    for geom in drawn.geoms[: drawn.ngeom]:
        if geom.segid >= 0 and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:  # sites and the like are drawn too
            owner[geom.segid + 1] = geom.objid
    number = ids[:, :, 0] + (ids[:, :, 1].astype(np.int64) << 8) + (ids[:, :, 2].astype(np.int64) << 16)
    return owner[number], raw[::-1]
