"""Servers for tests: the stand-in VLM server on a free port, and one that answers what it is told."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "shared" / "tools" / "vlm_server.py"
DIALECTS = ("openai", "vllm", "vllm-thinking", "sglang", "llamacpp", "ollama", "lmstudio", "bare")
FAULTS = (
    *(
        "fenced",
        "think",
        "think_close_only",
        "reasoning_field",
        "prose",
        "ignored",
        "strings",
        "wrong_tool",
        "extra_args",
    ),
    *(
        "missing_arg",
        "out_of_range",
        "nan",
        "two_calls",
        "truncated",
        "whitespace",
        "empty",
        "http429",
        "http500",
        "http503",
    ),
    *("reset", "slow", "hang", "bad_json_body"),
)


@contextmanager
def stand_in(dialect: str = "vllm", faults: str = "", **flags: object) -> Iterator[str]:
    """Run a stand-in server; hands out its base URL. A flag ``time_scale=0.2`` is ``--time-scale 0.2``, True alone a switch.

    Skips the test where the stand-in is not beside the checkout.
    """
    if not SCRIPT.is_file():
        pytest.skip("no stand-in server (shared/tools/vlm_server.py) beside the checkout")
    command = [sys.executable, str(SCRIPT), "--port", "0", "--dialect", dialect, "--faults", faults]
    for name, value in flags.items():
        command += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
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
    """Ask the stand-in beside its API: ``tell(url, "/faults", {"http429": 0.5})``, ``tell(url, "/stats")``."""
    data = json.dumps(doc).encode() if doc is not None else None
    with urllib.request.urlopen(
        urllib.request.Request(url.removesuffix("/v1") + path, data=data), timeout=10
    ) as answer:
        return json.load(answer)


@dataclass
class Canned:
    """A server that answers what it is told, and remembers what it was asked.

    Attributes:
        url: Its base URL.
        answers: (status, headers, body) of the next requests; the last one stays.
        asked: Bodies that came in, as JSON; None for a GET.
        headers: Headers that came in, their names in small letters.
    """

    url: str
    answers: list[tuple[int, dict[str, str], bytes]]
    asked: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


def answer(message: Mapping[str, Any], finish: str = "stop", **more: Any) -> tuple[int, dict[str, str], bytes]:
    """A completion with one message."""
    body = {"choices": [{"index": 0, "message": dict(message), "finish_reason": finish}], **more}
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


@contextmanager
def canned(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[Canned]:
    """Run a :class:`Canned` server in this process."""
    shown = Canned("", list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def handle_any(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            shown.asked.append(json.loads(data) if data else None)
            shown.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, headers, body = shown.answers.pop(0) if len(shown.answers) > 1 else shown.answers[0]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = handle_any

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    shown.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield shown
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
