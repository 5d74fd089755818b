"""From a mask to a polygon: exact border tracing along pixel edges, then simplification within a stated distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["area", "largest_piece", "outline", "simplify", "trace"]

Mask = NDArray[np.bool_]
Points = NDArray[np.float64]


def outline(mask: Mask, *, tolerance: float = 1.0) -> Points | None:
    """The outline of the largest piece of ``mask``, without its holes, or None for an empty mask.

    Args:
        mask: (H, W).
        tolerance: How far the polygon may depart from the exact border [px].

    Returns:
        (n, 2) corners (x, y), whole pixels, where the pixel of column i covers i ≤ x < i + 1; the last one joins the first.
    """
    if not mask.any():
        return None
    return simplify(trace(largest_piece(mask)), tolerance)


def largest_piece(mask: Mask) -> Mask:
    """The largest 4-connected piece of a mask that is not empty, holes filled: (H, W)."""
    from scipy import ndimage

    labels, _ = ndimage.label(mask)
    sizes = np.bincount(labels.ravel())
    sizes[0] = 0
    return np.asarray(ndimage.binary_fill_holes(labels == int(sizes.argmax())), dtype=np.bool_)


def trace(piece: Mask) -> Points:
    """The exact border of one 4-connected piece without holes: (n, 2) corners of pixels, the piece on the right hand.

    The polygon's area is the number of pixels.
    """
    padded = np.pad(piece, 1)
    rows, columns = np.nonzero(padded)
    top = int(rows.min())
    start = (int(columns[rows == top].min()), top)
    x, y, dx, dy = start[0], start[1], 1, 0
    corners: list[tuple[int, int]] = []
    while not corners or (x, y) != start:
        # the two pixels ahead of the corner (x, y), left and right of the way
        ahead_left = padded[y + (dy - dx - 1) // 2, x + (dx + dy - 1) // 2]
        ahead_right = padded[y + (dy + dx - 1) // 2, x + (dx - dy - 1) // 2]
        turn = (-dy, dx) if not ahead_right else (dy, -dx) if ahead_left else (dx, dy)
        if turn != (dx, dy) or not corners:
            corners.append((x, y))
        dx, dy = turn
        x, y = x + dx, y + dy
    return np.asarray(corners, dtype=np.float64) - 1.0


def simplify(polygon: Points, tolerance: float) -> Points:
    """Ramer–Douglas–Peucker on a closed polygon: no dropped corner is farther than ``tolerance`` from the result."""
    if len(polygon) < 4:
        return polygon
    far = int(np.argmax(np.hypot(*(polygon - polygon[0]).T)))
    closed = np.vstack([polygon, polygon[:1]])
    keep = np.zeros(len(closed), dtype=bool)
    keep[[0, far, -1]] = True
    spans = [(0, far), (far, len(closed) - 1)]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        way = closed[last] - closed[first]
        off = closed[first + 1 : last] - closed[first]
        length = float(np.hypot(*way))
        distance = np.abs(way[0] * off[:, 1] - way[1] * off[:, 0]) / length if length else np.hypot(*off.T)
        worst = int(np.argmax(distance))
        if distance[worst] > tolerance:
            middle = first + 1 + worst
            keep[middle] = True
            spans += [(first, middle), (middle, last)]
    return np.asarray(closed[keep][:-1])


def area(polygon: Points) -> float:
    """Area of a simple polygon, shoelace formula [px²]."""
    x, y = polygon.T
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)
