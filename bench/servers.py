"""A stand-in VLM server for the benchmarks, and bare posts to it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import urllib.parse
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
        address = urllib.parse.urlsplit(url)
        self._host, self._path = address.netloc, f"{address.path}/chat/completions"
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(at_once)

    def __enter__(self) -> BarePosts:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown()

    def one(self, body: bytes) -> None:
        """Post, and read the answer."""
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection(self._host, timeout=120.0)
        self._own.connection.request("POST", self._path, body, {"Content-Type": "application/json"})
        answer = self._own.connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the stand-in answered {answer.status}")

    def at_once(self, bodies: Sequence[bytes]) -> None:
        """Post all of them together."""
        list(self._pool.map(self.one, bodies))
