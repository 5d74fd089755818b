"""What the samples of a study are of: kinds in shuffled blocks, each going round the objects; the shares were fixed at first.

In each block of 20 there are 7 good grasps, 3 natural, 4 disturbed, 2 of wrong force, 2 of wrong opening or type, and 2 that
are hopeless. A study of 1,000 begins with that of 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sagehand.world.noise import stream

__all__ = ["BLOCK", "KINDS", "Item", "plan_items"]

KINDS = {"good": 7, "natural": 3, "disturbed": 4, "force": 2, "opening": 2, "hopeless": 2}
"""Kind → how many of each block of 20."""
BLOCK = sum(KINDS.values())
"""Grasps of a block."""


@dataclass(frozen=True)
class Item:
    """What a sample is of: its number, the object ("cup" or "cup/small"), the kind, and which way of the kind (0, 1, …)."""

    number: int
    object: str
    kind: str
    turn: int


def plan_items(objects: Sequence[str], numbers: Sequence[int], seed: int) -> list[Item]:
    """What the samples of these numbers are of: kinds in shuffled blocks, each kind going round the shuffled objects.

    Args:
        objects: "cup", "cup/small", …
        numbers: Which samples.
        seed: Root seed.
    """
    kinds = [kind for kind, count in KINDS.items() for _ in range(count)]
    rounds = {
        kind: [objects[i] for i in stream(seed, "agree", "objects", kind).permutation(len(objects))] for kind in KINDS
    }
    items = []
    for number in numbers:
        block, place = divmod(number, BLOCK)
        order = [kinds[i] for i in stream(seed, "agree", "kinds", block).permutation(BLOCK)]
        kind = order[place]
        turn = block * KINDS[kind] + order[:place].count(kind)
        lap, at = divmod(turn, len(objects))
        items.append(Item(number, rounds[kind][at], kind, turn + lap))  # another way of the kind on every lap
    return items
