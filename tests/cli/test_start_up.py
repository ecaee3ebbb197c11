"""Start-up stays quick because little is loaded; benchmarks/startup.py says how quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assay.cli.main import COMMANDS

HEAVY = (
    "numpy",
    "rich",
    "narwhals",
    "pandas",
    "polars",
    "pyarrow",
    "sqlalchemy",
    "cv2",
    "altair",
    "starlette",
    "yaml",
    "sklearn",
    "scipy",
    "ray",
)
CALL = "import sys; from assay.cli.main import main; code = main(sys.argv[1:]); "


def loaded_after(*arguments: str) -> set[str]:
    code = CALL + "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments):
    assert not loaded_after(*arguments) & set(HEAVY)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command_loads_at_most_numpy(command):
    assert loaded_after(command, "--help") & set(HEAVY) <= {"numpy"}


def test_eval_loads_neither_rich_nor_data_frames(folder):
    found = loaded_after("eval", "run.txt", "-r", "qrels.txt") & set(HEAVY)
    assert found == {"numpy"}


def test_nothing_is_compiled_while_it_runs(folder):
    compilers = {"numba", "llvmlite", "cffi", "pyximport", "torch", "jax"}
    assert not loaded_after("eval", "run.txt", "-r", "qrels.txt") & compilers
