"""The kernels under the address and undefined-behaviour sanitizers, fed with noise."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "src" / "assay" / "native"
SOURCES = (
    "counted.cpp",
    "id_tables.cpp",
    "judged.cpp",
    "rows.cpp",
    "trec_lines.cpp",
    "trec_parser.cpp",
)
CHECKS = {
    "memory": "address,undefined",
    "threads": "thread",
}


@pytest.mark.slow
@pytest.mark.parametrize("checks", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.parametrize("scan", [[], ["-U__SSE2__"]], ids=["sse2", "portable"])
def test_noise_breaks_nothing(tmp_path, checks, scan):
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    driver = tmp_path / "driver"
    flags = ["-std=c++17", "-O1", "-g", f"-fsanitize={checks}", "-fno-sanitize-recover=all", *scan]
    sources = [HERE / "fuzz_driver.cpp", *(NATIVE / source for source in SOURCES)]
    command = [compiler, *flags, "-I", NATIVE, *sources, "-pthread", "-o", driver]
    subprocess.run(command, check=True)
    done = subprocess.run([driver], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ok\n", "")
