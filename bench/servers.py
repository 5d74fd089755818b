"""A stand-in VLM server for the benchmarks, and bare posts to it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

SCRIPT = Path(__file__).resolve().parents[2] / "shared" / "tools" / "vlm_server.py"
"""The stand-in: no model, but the latencies, refusals and faults of real servers."""


@contextmanager
def stand_in(**flags: object) -> Iterator[str]:
    """Run it on a free port; hands out its base URL. ``time_scale=0.2`` is ``--time-scale 0.2``."""
    command = [sys.executable, str(SCRIPT), "--port", "0"]
    for name, value in flags.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the stand-in server did not start: {' '.join(command)}")
        yield line.split()[-1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def tell(url: str, path: str, doc: Any = None) -> Any:
    """Ask the stand-in beside its API: ``tell(url, "/reset", {})``, ``tell(url, "/stats")``."""
    data = None if doc is None else json.dumps(doc).encode()
    request = urllib.request.Request(url.removesuffix("/v1") + path, data=data)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


class BarePosts:
    """Posts bodies as they are, over connections that are kept, and does nothing else."""

    def __init__(self, url: str, at_once: int) -> None:
        import httpx

        limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        self._client = httpx.Client(limits=limits, timeout=120.0)
        self._pool = ThreadPoolExecutor(at_once)
        self._url = f"{url}/chat/completions"
        list(self._pool.map(lambda _: self._client.get(f"{url}/models"), range(at_once)))

    def __enter__(self) -> BarePosts:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown()
        self._client.close()

    def one(self, body: bytes) -> None:
        """Post, and read the answer."""
        answer = self._client.post(self._url, content=body, headers={"Content-Type": "application/json"})
        answer.raise_for_status()

    def at_once(self, bodies: Sequence[bytes]) -> None:
        """Post all of them together."""
        list(self._pool.map(self.one, bodies))
