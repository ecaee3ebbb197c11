"""Which kernels are in use, and that nothing is imported too early."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from assay.native import load


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


NAME = "from assay.native import engine_name; print(engine_name())"


def test_the_environment_forces_the_twins():
    assert run_python(NAME, ASSAY_NATIVE="0") == "numpy"


def test_the_compiled_kernels_are_the_default():
    try:
        load("native")
    except ImportError:
        pytest.skip("assay.native._kernels is not built")
    assert run_python(NAME, ASSAY_NATIVE="1") == "native"


def test_without_the_compiled_kernels_all_still_works():
    block = "import sys; sys.modules['assay.native._kernels'] = None; "
    work = "; from assay.core.ids import Ids; print(Ids.of(['b', 'a']).order().tolist())"
    assert run_python(block + NAME + work) == "numpy\n[1, 0]"


def test_importing_loads_no_kernels():
    listed = "[m for m in sys.modules if m.startswith('assay.native.')]"
    code = f"import sys, assay.core.ids; print({listed})"
    assert run_python(code) == "[]"
