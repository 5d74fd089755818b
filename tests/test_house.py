"""The house: floors, public names, and what importing costs."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import sagehand

SRC = Path(sagehand.__file__).parent
# from the ground up; a room imports only from floors under its own (ARCHITECTURE.md draws the same)
FLOORS = [
    {"errors", "version"},
    {"files", "gl", "interrupt", "lines", "settings", "stats"},
    {"picture"},
    {"embed", "pages", "demo", "vlm", "world"},
    {"cases"},
    {"judge"},
    {"recall"},
    {"action"},
    {"study"},
    {"cli"},
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(p for p in SRC.rglob("*.py") if p.name != "__main__.py")


def dotted(path: Path) -> str:
    return ".".join(("sagehand", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")


def imports(tree: ast.AST) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.level == 0
            and node.module
            and node.module.split(".")[0] == "sagehand"
        ):
            names = [f"sagehand.{a.name}" for a in node.names] if node.module == "sagehand" else [node.module]
            found += [(node.lineno, name) for name in names]
        elif isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names if a.name.startswith("sagehand.")]
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.append((node.lineno, "relative"))
    return found


def test_no_import_runs_upwards() -> None:
    wrong = []
    for path in MODULES:
        room = dotted(path).split(".")[1] if dotted(path) != "sagehand" else None
        if room is None:
            continue
        assert room in FLOOR, f"{room} stands on no floor"
        for line, target in imports(ast.parse(path.read_text(encoding="utf-8"))):
            other = target.split(".")[1] if "." in target else target
            if other in FLOOR and other != room and FLOOR[other] >= FLOOR[room]:
                wrong.append(f"{path.relative_to(SRC)}:{line}: {room} imports {other}")
            assert target != "relative", f"{path}:{line}: a relative import"
    assert wrong == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: dotted(p))
def test_all_lists_what_there_is(path: Path) -> None:
    name = dotted(path)
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    public = [
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    if listed is None:
        assert public == [], f"{name} has public names and no __all__"
        return
    assert [n for n in listed if not hasattr(module, n)] == []
    assert sorted(set(listed)) == sorted(listed)
    for name_ in public:
        assert ast.get_docstring(
            next(n for n in ast.parse(path.read_text()).body if getattr(n, "name", "") == name_)
        ), name_


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


HEAVY = {"numpy", "scipy", "onnxruntime", "pydantic", "PIL", "jinja2", "torch", "mujoco", "typer"}


def test_importing_sagehand_imports_nothing_heavy() -> None:
    assert HEAVY & modules_after("import sagehand") == set()


def test_help_imports_only_typer() -> None:
    code = "import sys\nfrom sagehand.cli import main\nmain(['--help'])"
    assert (HEAVY - {"typer", "pydantic"}) & modules_after(code) == set()


def test_predicting_never_imports_scipy_or_mujoco() -> None:
    assert {"scipy", "mujoco", "torch"} & modules_after("import sagehand.action.predict, sagehand.action.page") == set()


def test_the_public_names_are_handed_out_lazily() -> None:
    for name in sagehand.__all__:
        assert getattr(sagehand, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = sagehand.nothing_like_this
