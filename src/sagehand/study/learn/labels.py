"""The labels of samples as something to learn: a class a task, and a digest of all that is learnt from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from sagehand.study.dataset.sample import Sample
from sagehand.study.run.record import TASKS

__all__ = ["label_of", "samples_digest"]


def label_of(sample: Sample, task: str) -> Any:
    """The class of a sample in a task of :data:`~sagehand.study.run.record.TASKS`; None where it is not known.

    What remains is one class a sequence.
    """
    return sample.family if task == "device_class" else getattr(sample, task)


def samples_digest(samples: Iterable[Sample], more: Mapping[str, Any]) -> str:
    """16 hex digits of what a training learns from: labels, outlines, names and sizes of pictures, and settings.

    The pictures' content is not read, as for :class:`~sagehand.study.dataset.sample.StudyData`.

    Args:
        samples: In the order in which they are learnt from.
        more: The settings, as JSON takes them.
    """
    rows = [
        [
            s.key,
            s.path.stat().st_size if s.path.exists() else None,
            s.place,
            s.polygon,
            *(label_of(s, t) for t in TASKS),
        ]
        for s in samples
    ]
    text = json.dumps([rows, dict(more)], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
