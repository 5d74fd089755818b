"""Views of the cell, their labels, and the folder of pictures that they make (paper A §3.1).

A *view* says which step of which device is seen, and by which seed; all else follows from it. The labels come from the
device's table, the polygon from the renderer's own mask.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sagehand.study.cell.device import END, Course, Device
from sagehand.study.cell.heat_cost_allocators import QUNDIS
from sagehand.study.cell.outline import outline
from sagehand.study.cell.render import CellRenderer, Frame
from sagehand.study.cell.scene import DEMO, Scene, Variety, draw_scene
from sagehand.study.cell.sensor import measure_depth
from sagehand.study.cell.smoke_detectors import FUMONIC, KALO
from sagehand.study.cell.strangers import MUG, REMOTE, hand
from sagehand.study.cell.wear import draw_wear

__all__ = [
    "DEMO_SEED",
    "DEVICES",
    "View",
    "demo_views",
    "folder_digest",
    "labels",
    "make_demo",
    "query_views",
    "scene_of",
    "view_seed",
    "write_folder",
    "write_view",
]

DEMO_SEED = 20241
"""Root seed of the packaged demo; fixed, with all sizes, before any retrieval was run on its pictures."""

DEVICES: tuple[Device, ...] = (KALO, FUMONIC, QUNDIS)
"""The devices that the demo cell knows."""

VIEWS_A_STEP = 3
JPEG_QUALITY = 82


@dataclass(frozen=True)
class View:
    """One picture to make.

    Attributes:
        file_name: Its name in the folder.
        place: Where it is taken.
        seed: Decides all that the device's table leaves open.
        device: What is seen; None for an empty place.
        step: Which step of the device (0-based); None for what the cell does not know.
        hand: Whether a gloved hand reaches in.
        course: Which way the unit has come to this step; None for the first that does.
        variety: How much varies.
    """

    file_name: str
    place: str
    seed: int
    device: Device | None
    step: int | None
    hand: bool = False
    course: Course | None = None
    variety: Variety = DEMO


def demo_views(seed: int = DEMO_SEED) -> list[View]:
    """The demo's case base: every step of every device, in three views."""
    return [_step_view(seed, d, step, n) for d in DEVICES for step in range(len(d.steps)) for n in range(VIEWS_A_STEP)]


def query_views(seed: int = DEMO_SEED) -> list[View]:
    """Test material apart from the base: one more view of every step, and six pictures that are out of its domain."""
    known = [_step_view(seed, d, step, VIEWS_A_STEP) for d in DEVICES for step in range(len(d.steps))]
    odd = [
        View(f"empty_{place}.jpg", place, view_seed(seed, "empty", place), None, None)
        for place in ("table", "vise", "cnc")
    ]
    odd += [
        View("hand_over_table.jpg", "table", view_seed(seed, "hand", "table"), None, None, hand=True),
        View("mug.jpg", "table", view_seed(seed, "mug", "table"), MUG, None),
        View("remote_control.jpg", "vise", view_seed(seed, "remote_control", "vise"), REMOTE, None),
    ]
    return known + odd


def view_seed(*what: object) -> int:
    """A 32-bit seed for ``what``, the same on every machine and in every order of views."""
    text = "/".join(str(w) for w in what)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")


def _step_view(seed: int, device: Device, step: int, number: int) -> View:
    name = f"{device.name}_step{step + 1}_view{number + 1}.jpg"
    return View(name, device.steps[step].place, view_seed(seed, device.name, step, number), device, step)


def scene_of(view: View) -> Scene:
    """The scene of ``view``: the same for the same view, without GL."""
    facts = view.device.steps[view.step].facts if view.device and view.step is not None else frozenset()
    reach_in = hand(-20.0, -15.0, 45.0, 25.0) if view.hand else ()
    return draw_scene(view.device, view.place, facts, view.seed, extra=reach_in, variety=view.variety)


def labels(view: View) -> dict[str, Any]:
    """The row of ``metadata.jsonl`` that needs no picture: all but the polygon."""
    row: dict[str, Any] = {"file_name": view.file_name}
    if view.device is None or view.step is None:
        subject = view.device.name if view.device else Path(view.file_name).stem
        return row | {
            "family": "other",
            "device": subject,
            "place": view.place,
            "out_of_domain": True,
            "view_seed": view.seed,
        }
    device, step = view.device, view.device.steps[view.step]
    history, remaining = device.history(view.step, view.course), device.remaining(view.step)
    more: dict[str, Any] = {"damage": step.damage} if step.damage is not None else {}
    if view.course is not None:
        more["unit"] = view.course.name
    if view.variety.wear:
        more["wear"] = draw_wear(view.seed).to_dict()
    return row | {
        "family": device.family,
        "device": device.name,
        "step": view.step + 1,
        "state": step.state,
        "place": step.place,
        "previous_action": history[-1] if history else "none",
        "history": list(history),
        "next_action": step.next_action,
        "remaining_actions": list(remaining),
        "is_last": len(remaining) == 1,
        "end_state": step.next_action == END,
        "view_seed": view.seed,
        **more,
    }


def write_folder(
    folder: Path, views: Iterable[View], renderer: CellRenderer, *, depth: bool = False
) -> list[dict[str, Any]]:
    """Render ``views`` into a folder of JPEG pictures with ``metadata.jsonl``.

    Args:
        folder: Where to; made if missing, and what is there of the same name is replaced.
        views: What to render; a file name may hold a subfolder.
        renderer: Renders them, and decides their size.
        depth: Also write each depth image (16-bit PNG, millimetres) and the camera's intrinsics [px].

    Returns:
        The rows of ``metadata.jsonl``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = [write_view(folder, view, renderer, depth=depth) for view in views]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "metadata.jsonl").write_text(text, encoding="utf-8")
    return rows


def write_view(folder: Path, view: View, renderer: CellRenderer, *, depth: bool = False) -> dict[str, Any]:
    """Render one view into ``folder``; arguments as those of :func:`write_folder`.

    Returns:
        Its row of ``metadata.jsonl``, which is not written.
    """
    frame = renderer.render(scene_of(view))
    row = labels(view)
    if view.device is not None:
        corners = outline(frame.mask)
        if corners is not None:
            row["polygon"] = [[int(x), int(y)] for x, y in corners]
    path = folder / view.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_jpeg(frame))
    return row | _write_depth(folder, view, frame) if depth else row


def _jpeg(frame: Frame) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(frame.pixels).save(out, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return out.getvalue()


def _write_depth(folder: Path, view: View, frame: Frame) -> dict[str, Any]:
    import numpy as np
    from PIL import Image

    name = str(Path(view.file_name).with_suffix("")) + "_depth.png"
    camera = frame.intrinsics
    metres = measure_depth(frame.depth, camera.fy, view.seed) if view.variety.depth_noise else frame.depth
    Image.fromarray(np.rint(metres * 1000).astype(np.uint16)).save(folder / name, compress_level=1)
    return {
        "depth_file_name": name,
        "intrinsics": {"fx": camera.fx, "fy": camera.fy, "cx": camera.cx, "cy": camera.cy},
    }


def make_demo(folder: Path, renderer: CellRenderer, *, seed: int = DEMO_SEED) -> None:
    """Render the whole demo: the base with its pictures in ``images/``, and ``queries/`` with its own metadata."""
    base: Sequence[View] = [replace(view, file_name=f"images/{view.file_name}") for view in demo_views(seed)]
    write_folder(folder, base, renderer)
    write_folder(folder / "queries", query_views(seed), renderer)


def folder_digest(folder: Path) -> str:
    """SHA-256 of the sorted listing of a folder's rendered files (``sha256  name``, one a line), in hex."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in {".jpg", ".png", ".jsonl"})
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(folder).as_posix()}\n" for p in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
