"""What a study's answers depend on: digests of data files, code and packages, so that no stale answer is counted.

Of the code, comments and docstrings do not count. Which code it is, is read off the imports, also those inside functions.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sagehand.errors import InputError
from sagehand.world.agree.subjects import file_of

__all__ = ["answer_digest", "code_digest", "code_modules", "data_digest", "file_digests", "versions"]

_SAMPLING = "sagehand.world.agree.sample"


def data_digest() -> str:
    """SHA-256 over the robots' and objects' files that ship, hex, shortened."""
    root = files("sagehand.world")
    found = [(name, f.read_bytes()) for name, f in _walk(root, "") if name.endswith((".yaml", ".yml"))]
    return _digest(found)


def file_digests(names: Sequence[str]) -> dict[str, str]:
    """File → SHA-256 of its content, of those names that are files of one's own: "my.yaml", "my.yaml/small".

    Raises:
        InputError: One cannot be read.
    """
    found: dict[str, str] = {}
    for name in names:
        if (path := file_of(name)) is not None and path not in found:
            try:
                found[path] = _digest([("", Path(path).read_bytes())])
            except OSError as error:
                raise InputError(
                    f"{path}: cannot be read: {error.strerror or error}", hint="check its path and permissions"
                ) from error
    return found


def code_modules(executor: str) -> tuple[str, ...]:
    """The modules that an executor's outcomes of a sample depend on: all that the executor and the sampling import.

    Sampling lets objects settle in the physics, so the analytic executor's outcomes depend on the physics too.
    """
    waiting, found = [_SAMPLING, f"sagehand.world.{executor}.executor"], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found and (source := _source(name)) is not None:
            found.add(name)
            waiting += [name.rpartition(".")[0], *_read(source)[1]]
    return tuple(sorted(found))


def code_digest(executor: str) -> str:
    """SHA-256 over the code of :func:`code_modules`, hex, shortened."""
    return _digest([(name, _read(_source(name) or "")[0].encode()) for name in code_modules(executor)])


def versions() -> dict[str, str]:
    """Package → its version, of those that answers depend on; "" where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("sagehand", "numpy", "scipy", "mujoco", "frankik", "dm-robotics-panda"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def answer_digest(executor: str, names: Sequence[str]) -> str:
    """SHA-256 over all that an executor's outcomes depend on but the data files that ship: code, packages, files of one's own.

    Sagehand's own version does not count, its code does.

    Args:
        executor: "analytic" or "physics".
        names: The objects of the study, and its robot; those that are files count by their content.

    Raises:
        InputError: A file cannot be read.
    """
    packages = {name: version for name, version in versions().items() if name != "sagehand"}
    rows = {"code": code_digest(executor), **packages, **file_digests(names)}
    return _digest([(name, value.encode()) for name, value in sorted(rows.items())])


def _source(name: str) -> str | None:
    """The source of a module of this package; None where ``name`` is no module of it."""
    first, *rest = name.split(".")
    if first != "sagehand" or not rest:
        return None
    place = files("sagehand").joinpath(*rest)
    for file in (files("sagehand").joinpath(*rest[:-1], f"{rest[-1]}.py"), place / "__init__.py"):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, entry))
    return sorted(found, key=lambda row: row[0])


@cache
def _read(source: str) -> tuple[str, tuple[str, ...]]:
    """A module's code without comments and docstrings, and what it imports anywhere."""
    tree = ast.parse(source)
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
            ]
    return ast.dump(tree), tuple(found)


def _digest(found: list[tuple[str, bytes]]) -> str:
    whole = hashlib.sha256()
    for name, content in found:
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()[:16]
