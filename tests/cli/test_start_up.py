"""Start-up stays quick because little is loaded; benchmarks/startup.py says how quick."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from assay.cli.main import list_commands

COMMANDS = list_commands()

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


def modules_after(*arguments: str) -> set[str]:
    code = CALL + "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def loaded_after(*arguments: str) -> set[str]:
    return {name.split(".")[0] for name in modules_after(*arguments)}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments):
    assert not loaded_after(*arguments) & set(HEAVY)


def test_help_of_no_command_loads_anything_that_it_computes_with():
    """One process asks for all: what one of them loaded would be seen."""
    code = "import sys; from assay.cli.main import list_commands, main\n"
    code += "for command in list_commands(): main([command, '--help'])\n"
    code += "main(['runs', 'list', '-h'])\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stderr.split())
    assert not {name.split(".")[0] for name in found} & set(HEAVY)
    assert not {
        name for name in found if name.startswith(("assay.search.engine", "assay.stats.confidence"))
    }


EACH = """
import os, sys
import assay.cli.eval
from assay.cli.main import find_command
from assay.plugins import load_target
for command in sys.argv[1:]:
    if not os.fork():
        load_target(find_command(command).target)
        print(command, *sys.modules, file=sys.stderr)
        break
    os.wait()
"""


@pytest.fixture(scope="module")
def loaded_at_first():
    """What each command loads before it runs, in a fork of one that has loaded eval."""
    done = subprocess.run(
        [sys.executable, "-c", EACH, *COMMANDS], capture_output=True, text=True, check=True
    )
    lines = (line.split() for line in done.stderr.splitlines())
    return {command: {name.split(".")[0] for name in names} for command, *names in lines}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_command_loads_at_most_numpy_before_it_runs(command, loaded_at_first):
    assert "assay" in loaded_at_first[command]
    assert loaded_at_first[command] & set(HEAVY) <= {"numpy"}


def test_eval_loads_neither_rich_nor_data_frames(folder):
    found = loaded_after("eval", "run.txt", "-r", "qrels.txt") & set(HEAVY)
    assert found == {"numpy"}


RARE = {
    "assay.comparison.compare",
    "assay.io.arrays",
    "assay.io.writers",
    "assay.measures.derivations",
    "assay.models",
    "assay.runs.results",
    "assay.search",
    "assay.stats.confidence",
    "assay.store.store",
    "assay.tables.html",
    "csv",
    "fractions",
    "gzip",
    "html",
    "json",
    "logging",
    "lzma",
    "shutil",
    "subprocess",
    "zipfile",
}


@pytest.mark.parametrize("command", ["eval", "check"])
def test_a_trec_file_loads_no_rare_module(folder, command):
    arguments = {"eval": ("run.txt", "-r", "qrels.txt"), "check": ("run.txt", "qrels.txt")}
    assert not modules_after(command, *arguments[command]) & RARE


def test_bench_loads_nothing_of_the_network_before_it_runs():
    assert not modules_after("bench", "--no-such-option") & {"urllib.request", "http.client", "ssl"}


@pytest.mark.parametrize(("command", "threads"), [("eval", "1"), ("compare", None)])
def test_only_commands_without_products_do_with_one_thread(command, threads, folder):
    """numpy reads the variable when it is imported, and other processes do not inherit it."""
    watch = (
        "import os, sys; name = 'OPENBLAS_NUM_THREADS'; os.environ.pop(name, None); seen = []\n"
        "class Watch:\n"
        "    def find_spec(self, module, *_):\n"
        "        seen.extend([os.environ.get(name)] if module == 'numpy' else [])\n"
        "sys.meta_path.insert(0, Watch())\n"
    )
    code = watch + CALL + "print(seen, name in os.environ, file=sys.stderr)"
    files = ["run.txt", "other.txt", "-r", "qrels.txt"]
    done = subprocess.run(
        [sys.executable, "-c", code, command, *files], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == f"{[threads]} False"


def test_nothing_is_compiled_while_it_runs(folder):
    compilers = {"numba", "llvmlite", "cffi", "pyximport", "torch", "jax"}
    assert not loaded_after("eval", "run.txt", "-r", "qrels.txt") & compilers
