"""The search by compilers without the extensions of GCC: it is compiled, with the same answers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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


@pytest.mark.parametrize("source", [*PLAIN, "score_ranks.cpp"])
def test_no_word_of_one_compiler_is_left_outside_its_guard(source):
    command = [compiler(), "-E", *FLAGS[:-2], *PORTABLE, NATIVE / source]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours = False
    for line in shown.splitlines():
        if line.startswith("# "):
            ours = str(NATIVE) in line
        assert not (ours and WORDS.search(line)), line
