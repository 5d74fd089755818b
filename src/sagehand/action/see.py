"""What a decision sees: its picture cut as the cases are cut, the query to recall by, and a thumbnail for the log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sagehand.action.decision import Known
from sagehand.embed import Embedder
from sagehand.judge.perceptual import PerceptualJudge
from sagehand.judge.questions import Judge, Query
from sagehand.picture import Box, Crop, Picture, to_jpeg
from sagehand.recall.crop import TURNS, cropper
from sagehand.recall.crop_trace import CropResult

__all__ = ["Eye", "crop_as_cases"]

_THUMBNAIL = 224  # px of the longer side, at most


def crop_as_cases(
    seen: Picture, strategy: str, judge: Judge, perceptual: PerceptualJudge, box: Box | None, warnings: list[str]
) -> Crop | None:
    """Cut a query as the cases of a base are cut.

    Args:
        seen: The whole picture.
        strategy: The base's crop.
        judge: Who makes the turns of "grid" and "box".
        perceptual: Who makes the other crops.
        box: The crop, where it is there already.
        warnings: What the user should know of it is added here.

    Returns:
        The crop, or None where the whole picture is left.
    """
    if box is not None and strategy in TURNS:
        return seen.crop(box)
    if strategy in TURNS and judge is perceptual:
        warnings.append(f"the crop {strategy!r} is made for a VLM; the perceptual judge crops here")
    if strategy == "relief" and seen.depth is None:
        warnings.append("the crop 'relief' is by colour here, for there is no depth: cases with depth are cut by it")
    # what stands out is no question to a model: the cases were cut by the perceptual judge, too
    results: list[CropResult] = []
    crop = cropper(strategy, judge if strategy in TURNS else perceptual, on_result=results.append)
    if crop is None:
        return None
    cut = crop(seen, {"box": box})
    if results[0].error is not None:
        warnings.append(f"the crop {strategy!r} failed ({results[0].reason}): compared with cases that are cut by it")
    elif cut is None:
        warnings.append(f"the crop {strategy!r} left the whole picture: {results[0].reason}")
    if cut is None:
        return None
    return seen.crop(cut)


class Eye:
    """Makes the query of a decision.

    Args:
        embedder: The base's embedder.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        # what a decision needs of the picture beside its vector is made while the network runs
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="sagehand-aside")

    def close(self) -> None:
        """Let go of its thread."""
        self._aside.shutdown(wait=True)

    def see(self, seen: Picture, view: Picture, known: Known, *, thumbnail: bool) -> tuple[Query, bytes | None]:
        """What is recalled by, and a thumbnail for the log; the picture's identity is worked out meanwhile.

        Args:
            seen: The whole picture.
            view: What is left of it after the crop.
            known: What is known beside it.
            thumbnail: Whether a thumbnail is made.
        """
        aside = self._aside.submit(_identify, seen, thumbnail)
        query = self.look(view, known)
        return query, aside.result()

    def look(self, picture: Picture, known: Known) -> Query:
        """What is recalled by: the vector of a cropped picture, its relief, and what is known beside it."""
        vector = self._embedder.embed([picture.pixels])[0]
        relief = None
        if picture.depth is not None:
            from sagehand.embed import depth_vector

            relief = depth_vector(picture.depth)
        previous = None if known.previous_failed else known.last
        return Query(vector, picture, relief, previous, known.place, known.family)


def _identify(seen: Picture, thumbnail: bool) -> bytes | None:
    """Work out the picture's identity (it is cached) and, for the log, a small picture to know it again by."""
    _ = seen.pixel_id
    # every k-th pixel: a third of the time of a proper resize
    step = -(-max(seen.width, seen.height) // _THUMBNAIL)
    return to_jpeg(seen.pixels[::step, ::step]) if thumbnail else None
