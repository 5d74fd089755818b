"""What a study's answers depend on: digests of the data files and of the code, so that no stale answer is counted.

Of the code, comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["code_digest", "data_digest", "versions"]

_ONLY = {"analytic": ("physics",), "physics": ("analytic",)}
_NO_PART = ("render", "animate", "viewer", "scenes", "scene_file", "tries", "scripted", "dressing", "view")
_SAMPLING = ("agree/sample.py", "agree/spoil.py", "agree/place.py")


def data_digest() -> str:
    """SHA-256 over the robots' and objects' files, hex, shortened."""
    root = files("sagehand.world")
    found = [(name, f.read_bytes()) for name, f in _walk(root, "") if name.endswith((".yaml", ".yml"))]
    return _digest(found)


def code_digest(executor: str) -> str:
    """SHA-256 over the code that an executor's outcomes of a sample depend on, hex, shortened.

    It is all of ``world`` but what only shows things, the study itself apart from its sampling, and the other executor.
    """
    found = []
    for name, file in _walk(files("sagehand.world"), ""):
        room = name.partition("/")[0]
        if not name.endswith(".py") or room in _ONLY.get(executor, ()) or room.removesuffix(".py") in _NO_PART:
            continue
        if room == "agree" and name not in _SAMPLING:
            continue
        found.append((name, _bare(file.read_text(encoding="utf-8")).encode()))
    return _digest(found)


def versions() -> dict[str, str]:
    """Package → its version, of those that answers depend on; "" where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("sagehand", "numpy", "mujoco", "frankik", "dm-robotics-panda"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, entry))
    return sorted(found, key=lambda row: row[0])


def _bare(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
            ]
    return ast.dump(tree)


def _digest(found: list[tuple[str, bytes]]) -> str:
    whole = hashlib.sha256()
    for name, content in found:
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()[:16]
