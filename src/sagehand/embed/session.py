"""ONNX Runtime sessions, opened the same way for every network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

__all__ = ["default_threads", "open_session"]

_MAX_THREADS = 4  # past that a small network gains little, and a robot's computer has other work


def open_session(file: Path, threads: int) -> Any:
    """A session on the CPU over an ONNX file.

    Args:
        file: The network.
        threads: Threads for one call.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: they are raised, and warnings would go to stderr
    # All optimisations: three times as quick as "extended", and the session still opens in 0.05 s. An optimised file on
    # disk would be tied to the kind of processor it was made on.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    # Spinning gains 4 % for one caller on an idle machine; with two callers, or other work, it halves the throughput.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def default_threads() -> int:
    """As many threads as this process may have processors (a container's share, not the machine's), at most 4."""
    if hasattr(os, "sched_getaffinity"):
        return min(_MAX_THREADS, len(os.sched_getaffinity(0)))
    return min(_MAX_THREADS, os.cpu_count() or 1)
