"""The search on ARM, cross-compiled and emulated: right, and the same bytes as on this machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.native.search_driver import NATIVE, Answers, answers, link_search

FLAGS = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-I", str(NATIVE)]
LIBRARIES = "/usr/aarch64-linux-gnu"
VECTORS = {
    NATIVE / "search" / "float32_neon.cpp": [],
    NATIVE / "search" / "coarse_neon.cpp": ["-march=armv8.2-a+dotprod"],
}


def find(program: str) -> str:
    return shutil.which(program) or pytest.skip(f"no {program}")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver for ARM."""
    find("qemu-aarch64")
    compiler = [find("aarch64-linux-gnu-g++"), *FLAGS, "-DASSAY_ARM_KERNELS"]
    return link_search(tmp_path_factory.mktemp("arm"), compiler, VECTORS)


@cache
def answers_here(folder: Path) -> Answers:
    """By the plain kernels of this machine."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or find("clang++")
    here = link_search(folder, [compiler, *FLAGS, "-Wno-psabi"], {})
    return answers(subprocess.run([here], capture_output=True, text=True, check=True).stdout)


def emulated(driver: Path, processor: str, simd: str) -> Answers:
    command = ["qemu-aarch64", "-cpu", processor, "-L", LIBRARIES, driver]
    environment = {**os.environ, "ASSAY_SIMD": simd}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return answers(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() in ("aarch64", "arm64"), reason="runs on ARM as it is")
@pytest.mark.parametrize(
    ("processor", "simd", "rows"),
    [("max", "neon", (12, 12)), ("cortex-a72", "neon", (12, 1)), ("max", "none", (1, 1))],
    ids=["dot products", "no dot products", "no vectors"],
)
def test_arm_finds_the_same_bytes(driver, tmp_path_factory, processor, simd, rows):
    here = answers_here(tmp_path_factory.getbasetemp())
    assert emulated(driver, processor, simd) == (rows, here.digest)
