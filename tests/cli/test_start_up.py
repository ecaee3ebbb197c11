"""Start-up stays quick because little is loaded; benchmarks/startup.py says how quick."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from assay.cli import help_pages, main
from assay.cli.help_pages import record_pages
from assay.cli.main import COMMANDS, assay

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
    code = "import sys; from assay.cli.main import COMMANDS, main\n"
    code += "for command in COMMANDS: main([command, '--help'])\n"
    code += "main(['runs', 'list', '-h'])\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stderr.split())
    assert not {name.split(".")[0] for name in found} & set(HEAVY)
    assert len({name for name in found if name.startswith("assay.")}) < 16


def test_recorded_help_is_what_the_commands_say():
    """Else record it again: python -m assay.cli.help_pages."""
    pages = record_pages(assay)
    assert {"eval", "bench", "runs", "runs list"} <= set(pages)
    assert pages == json.loads(help_pages._FILE.read_text("utf-8"))


@pytest.mark.parametrize("width", [50, 80, 120])
@pytest.mark.parametrize("words", ["eval", "runs", "crossmodal", "runs export"])
def test_help_is_laid_out_as_click_does(words, width, monkeypatch):
    run = CliRunner().invoke
    arguments = [*words.split(), "--help"]
    found = run(assay, arguments, terminal_width=width, prog_name="assay").output
    monkeypatch.setattr(main, "find_page", lambda _: None)
    assert found == run(assay, arguments, terminal_width=width, prog_name="assay").output


@pytest.mark.parametrize("arguments", [["eval"], ["eval", "--top", "--help"], ["no", "-h"], []])
def test_only_help_alone_is_a_page(arguments):
    assert help_pages.find_page(arguments) is None


EACH = """
import os, sys
from importlib import import_module
import assay.cli.eval
for command in sys.argv[1:]:
    if not os.fork():
        import_module(f"assay.cli.{command}")
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
    "assay.comparison",
    "assay.io.arrays",
    "assay.io.tables",
    "assay.io.writers",
    "assay.measures.derivations",
    "assay.measures.tied_derivations",
    "assay.models",
    "assay.runs.results",
    "assay.search",
    "assay.stats",
    "assay.store.store",
    "assay.tables.html",
    "assay.tables.latex",
    "assay.tasks",
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
def test_only_commands_without_products_do_with_one_thread(command, threads):
    """numpy reads the variable when it is imported, and other processes do not inherit it."""
    watch = (
        "import os, sys; name = 'OPENBLAS_NUM_THREADS'; os.environ.pop(name, None); seen = []\n"
        "class Watch:\n"
        "    def find_spec(self, module, *_):\n"
        "        seen.extend([os.environ.get(name)] if module == 'numpy' else [])\n"
        "sys.meta_path.insert(0, Watch())\n"
    )
    code = watch + CALL + "print(seen, name in os.environ, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, command, "--no-such-option"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == f"{[threads]} False"


def test_nothing_is_compiled_while_it_runs(folder):
    compilers = {"numba", "llvmlite", "cffi", "pyximport", "torch", "jax"}
    assert not loaded_after("eval", "run.txt", "-r", "qrels.txt") & compilers
