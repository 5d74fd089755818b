"""What the cell meets and does not know: two devices of no family, and a gloved hand. All sizes are estimates."""

from __future__ import annotations

from sagehand.study.cell.device import Device
from sagehand.study.cell.parts import Part, moved, ring
from sagehand.study.cell.shapes import Capsule, Cylinder, Lathe, Slab, Wire

__all__ = ["MUG", "REMOTE", "hand"]


def _mug() -> Device:
    wall = ((0.01, 0), (34, 0), (38, 3), (40, 10), (41, 88), (40, 90), (37.5, 88), (36.5, 8), (34, 5), (0.01, 5))
    handle = ((39, 0, 76), (52, 0, 76), (63, 0, 68), (66, 0, 52), (62, 0, 36), (52, 0, 26), (39, 0, 22))
    coffee = Lathe(((0.01, 0), (37, 0), (37, 0), (37, 0.5), (37, 0.5), (0.01, 0.5)))
    parts = (
        Part("mug", Lathe(wall, segments=72), "red"),
        Part("mug handle", Wire(handle, 5.5), "red"),
        Part("coffee", coffee, "coffee", (0, 0, 66)),
    )
    return Device("other", "mug", parts, (), 41, 41, {"table": 160.0}, "estimate")


def _remote() -> Device:
    keys = [
        Part("key", Slab(8, 9, 1.6, 2, 0.6), "abs_grey", (-46 + row * 15, (column - 1) * 12.5, 19.6))
        for row in range(6)
        for column in range(3)
    ]
    parts = (
        Part("remote", Slab(168, 46, 20, 12, 6), "black"),
        *keys,
        Part("red key", Cylinder(4.5, 1.8), "red", (70, 13, 19.6)),
        *moved(ring(Part("arrow key", Slab(7, 14, 1.6, 2, 0.6), "rubber", (11, 0, 0)), 4), (53, -1, 19.6)),
        Part("window", Slab(5, 30, 8, 1), "glass_dark", (81, 0, 5)),
    )
    return Device("other", "remote_control", parts, (), 23, 84, {"vise": 1.5}, "estimate")


def hand(x: float, y: float, z: float, yaw: float) -> tuple[Part, ...]:
    """A gloved hand that reaches in, palm down, made of capsules.

    Args:
        x: Middle of the palm [mm].
        y: Middle of the palm [mm].
        z: Height of the palm's underside [mm].
        yaw: Where the fingers point, turned from +x [deg].
    """
    glove = "glove"
    fingers = [(-34, 62, -9), (-12, 74, -2), (11, 70, 4), (32, 54, 11)]
    parts = [Part("palm", Slab(88, 84, 26, 26, 12), glove, (-8, 0, 4))]
    for y0, length, spread in fingers:
        first, second = length * 0.52, length * 0.48
        parts.append(Part("finger", Capsule(9.2, first), glove, (30 + first / 2, y0, 8), (0, 12, spread)))
        parts.append(
            Part(
                "finger tip",
                Capsule(8.4, second),
                glove,
                (30 + first + second / 2, y0 + spread * 0.8, 1),
                (0, 34, spread),
            )
        )
    parts += [
        Part("thumb", Capsule(10.5, 30), glove, (-2, -46, 6), (0, 14, -48)),
        Part("thumb tip", Capsule(9.6, 24), glove, (24, -66, 1), (0, 22, -18)),
        Part("cuff", Capsule(31, 26), glove, (-62, 0, -10), (0, -8, 0)),
        Part("forearm", Capsule(38, 330), "sleeve_cloth", (-240, 0, 4), (0, 10, 0)),
    ]
    return moved([Part(p.name, p.shape, p.material, p.at, p.turn, (), "cell") for p in parts], (x, y, z), yaw=yaw)


MUG = _mug()
"""A mug, on the table."""

REMOTE = _remote()
"""A remote control, in the vise."""
