"""A real vLLM on the CPU with a tiny random Qwen3-VL, for tests: set up once, in a cache outside the checkout."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiny_qwen3vl import bend

TOOLS = Path(__file__).resolve().parents[2] / "shared" / "tools" / "vllm"
MODEL = "tiny"
START_SECONDS = 420.0


@contextmanager
def vllm(folder: Path) -> Iterator[str]:
    """Run the server; hands out its base URL. Skips the test where the set-up is missing.

    Args:
        folder: For the model and the log.
    """
    if not TOOLS.is_dir():
        pytest.skip("no vLLM set-up (shared/tools/vllm) beside the checkout")
    if sys.platform != "linux":
        pytest.skip("vLLM's CPU build is for Linux")
    venv, log = _venv(), folder / "vllm.log"
    weights = folder / "model"
    _run([str(venv / "bin" / "python"), str(TOOLS / "make_tiny_qwen3vl.py"), str(weights)])
    bend(weights)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", str(TOOLS / "serve.sh"), str(weights), str(port)],
            env={**os.environ, "VENV": str(venv)}, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(process, port, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: the server and its engine, nothing else
            process.wait()


def _venv() -> Path:
    """The environment with vLLM, made by the first test run and kept: 2 GB and half a minute."""
    recipe = b"".join((TOOLS / name).read_bytes() for name in ("setup.sh", "requirements-slim.lock"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sagehand-tests"
    venv = cache / f"vllm-{hashlib.sha256(recipe).hexdigest()[:8]}"
    ready = venv / "ready"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            for half_done in (venv, venv.with_name(f"{venv.name}.uv")):
                shutil.rmtree(half_done, ignore_errors=True)
            _run(["bash", str(TOOLS / "setup.sh"), str(venv)])
            ready.touch()
    return venv


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise RuntimeError(f"vLLM did not start:\n{log.read_text(errors='replace')[-3000:]}")
