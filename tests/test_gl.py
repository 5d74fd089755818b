"""The GL opener: what else may be loaded in the same process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

_MISSING = [n for n in ("mujoco", "triton") if importlib.util.find_spec(n) is None]


@pytest.mark.render
@pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}")
def test_triton_can_be_imported_after_a_picture() -> None:
    """Mesa's LLVM is seen by the whole process; a triton that comes after it would call it and crash. Other drivers have none."""
    code = (
        "from sagehand.gl import open_gl\n"
        "mujoco, gl = open_gl(16, 16, what='a test', extra='render')\n"
        "import triton\n"
        "print(triton.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "triton\n"), done.stderr[-2000:]


@pytest.mark.render
@pytest.mark.skipif("mujoco" in _MISSING, reason="not installed: mujoco")
def test_a_triton_that_is_broken_is_no_obstacle() -> None:
    code = (
        "import sys\n"
        "from importlib.machinery import ModuleSpec\n"
        "class Broken:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        return ModuleSpec(name, self) if name == 'triton' else None\n"
        "    def create_module(self, spec): return None\n"
        "    def exec_module(self, module): raise RuntimeError('of another Python')\n"
        "sys.meta_path.insert(0, Broken())\n"
        "from sagehand.gl import open_gl\n"
        "open_gl(16, 16, what='a test', extra='render')\n"
        "print('opened')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "opened\n"), done.stderr[-2000:]
