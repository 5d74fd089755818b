"""Small case bases for tests, with vectors that are chosen, not embedded."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from sagehand.cases import CaseBase, CaseDraft
from sagehand.embed import EmbedderIdentity

IDENTITY = EmbedderIdentity(name="test", revision="0", dimension=8, preprocessing="none")


def unit(values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A unit vector of 8 dimensions, the rest zero."""
    vector = np.zeros(8)
    vector[: len(values)] = values
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def near(centre: Sequence[float], spread: float, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A unit vector scattered about a centre."""
    return unit(np.pad(np.asarray(centre, float), (0, 8 - len(centre))) + rng.normal(0, spread, 8))


def draft(name: str, vector: np.ndarray[Any, Any], row: Mapping[str, Any], **more: Any) -> CaseDraft:
    """A draft whose pixel id is a hash of its name."""
    pixel_id = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
    return CaseDraft(image=b"not decoded", pixel_id=pixel_id, vector=vector, row={"file_name": name, **row}, **more)


def base_of(drafts: Sequence[CaseDraft]) -> CaseBase:
    """An in-memory case base."""
    base = CaseBase.in_memory(IDENTITY)
    base.add_many(drafts)
    return base


def separable(seed: int = 0, devices: int = 3, steps: int = 4, views: int = 3) -> CaseBase:
    """Devices whose steps look alike from step to step; the previous action tells the step, the picture the device."""
    rng = np.random.default_rng(seed)
    drafts = []
    for device in range(devices):
        centre = np.eye(8)[device] * 3
        for step in range(1, steps + 1):
            for view in range(views):
                row = {
                    "family": "f",
                    "device": f"d{device}",
                    "step": step,
                    "previous_action": "none" if step == 1 else f"a{step - 1}",
                    "next_action": "end" if step == steps else f"a{step}",
                }
                drafts.append(draft(f"{device}-{step}-{view}", near(centre, 0.7, rng), row))
    return base_of(drafts)


def png(seed: int = 0, size: tuple[int, int] = (48, 36)) -> bytes:
    """A small noisy picture."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


class VectorEmbedder:
    """Reads the vector out of the picture's first row, where :func:`picture_of` has written it."""

    identity = IDENTITY

    def embed(self, pictures: Sequence[Any]) -> Any:
        """(n, 8) unit rows."""
        rows = np.array([p[0, :8, 0].astype(np.float64) - 127.5 for p in pictures])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def picture_of(vector: Any, seed: int = 0) -> Any:
    """A (12, 16, 3) RGB array that :class:`VectorEmbedder` embeds as (nearly) the vector."""
    pixels = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    pixels[0, :8, 0] = np.clip(np.round(127.5 + 127 * np.asarray(vector)), 0, 255)
    return pixels


ACTIONS = """
families: [f]
initial: [closed]
actions:
  a1: {description: First., preconditions: [closed], effects: [not closed, one]}
  a2: {description: Second., preconditions: [one], effects: [two]}
  a3: {description: Third., preconditions: [two], effects: [three], risk: confirm}
  end: {description: Nothing remains., preconditions: [three], effects: []}
"""
"""An action library for :func:`separable`."""
