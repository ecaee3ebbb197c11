"""The kernels by other compilers and for other systems, and what they may not hold."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.search_driver import NATIVE, PLAIN, Answers, answers, link_search

FLAGS = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-I", str(NATIVE)]
WORDS = re.compile(r"__(attribute__|builtin_\w+|int128|atomic_\w+|extension__)")
EXTENDED = ("-Wno-psabi",)
PORTABLE = ("-pedantic-errors", "-Wno-unknown-pragmas", "-DASSAY_NO_EXTENSIONS")


def compiler() -> str:
    return os.environ.get("CXX") or shutil.which("g++") or pytest.skip("no C++ compiler")


def found_by(folder: Path, more: tuple[str, ...]) -> Answers:
    folder.mkdir()
    driver = link_search(folder, [compiler(), *FLAGS, *more], {})
    return answers(subprocess.run([driver], capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_answers_are_the_same_without_extensions(tmp_path):
    extended = found_by(tmp_path / "extended", EXTENDED)
    assert found_by(tmp_path / "portable", PORTABLE) == extended


@pytest.mark.parametrize("source", [*PLAIN, "search/score_ranks.cpp"])
def test_no_word_of_one_compiler_is_left_outside_its_guard(source):
    command = [compiler(), "-E", *FLAGS, *PORTABLE, NATIVE / source]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours = False
    for line in shown.splitlines():
        if line.startswith("# "):
            ours = str(NATIVE) in line
        assert not (ours and WORDS.search(line)), line


@pytest.mark.slow
@pytest.mark.parametrize("system", ["x86_64-windows-gnu", "aarch64-macos", "x86_64-macos"])
def test_kernels_compile_for_other_systems(tmp_path, monkeypatch, system):
    """By the compiler in the package ziglang, which brings the headers of these systems."""
    pytest.importorskip("ziglang")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "ziglang", "c++", "-target", system, *FLAGS]
    for source in NATIVE.rglob("*.cpp"):
        if source.parent.name != "bindings" and not re.search(r"avx|neon", source.name):
            done = subprocess.run(
                [*command, "-c", source, "-o", tmp_path / "kernel.o"],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), source.name


def test_kernels_share_nothing_that_changes():
    """Threads call them without a lock: what outlives a call is constant, and made once."""
    lasting = r"^\s*(?:inline |extern )?(?:static|thread_local)\s+"
    kept = re.compile(lasting + r"(?!const\b|constexpr\b)[^()]*[=;{]")
    for path in [*NATIVE.rglob("*.cpp"), *NATIVE.rglob("*.hpp")]:
        for line in path.read_text("utf-8").splitlines():
            assert not kept.match(line), f"{path.name}: {line}"
