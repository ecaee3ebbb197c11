"""A measure is one file: the example of CONTRIBUTING, as a package of its own, works everywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from assay.io.demo_collection import write_demo
from tests.plugins import install

ROOT = Path(__file__).resolve().parents[2]
MEASURES = "assay.measures"
BROKEN = "import package_that_nobody_has\n"
TAKEN = (
    "from assay.measures.registry import measure\n"
    "@measure('Mine', formula='1', laws={'local'}, aliases=('map',))\n"
    "def mine(at, k):\n"
    "    '''Mine.'''\n"
)


NOT_LINEAR = """
import numpy as np
from assay.measures.registry import measure

@measure("Wrong", formula="1 if any r ≤ k", laws={"monotone"}, cutoff="required")
def wrong(at, k):
    'Success, without its expectation.'
    return np.minimum(at.count(k), 1.0)
"""


def example() -> str:
    """The code of the measure in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    return next(block for block in blocks if "@measure(" in block)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder in which a package with the example counts as installed."""
    folder = tmp_path_factory.mktemp("installed")
    install(
        folder,
        package="top-heavy",
        entries={MEASURES: {"TopHeavy": "top_heavy_measure"}},
        modules={"top_heavy_measure": example()},
    )
    return folder


def run(folder: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A Python command with the packages of the folder and of this repository."""
    path = os.pathsep.join([str(folder), str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def assay(tmp_path):
    """The command line, in a folder with the files of the demo, with a folder of packages."""
    write_demo(tmp_path)

    def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(folder, "-m", "assay", *arguments, cwd=tmp_path)

    return call


EXPLAIN = ("explain", "lexical.run", "-r", "qrels.txt", "--query")


def test_the_command_line_lists_and_describes_the_example(assay, installed):
    assert re.search(r"^TopHeavy@k .*top_heavy", assay(installed, "measures").stdout, re.M)
    for name in ("TopHeavy", "top_heavy@10"):
        described = assay(installed, "measures", name)
        assert described.returncode == 0
        assert described.stdout.startswith("TopHeavy@k\n\nPrecision that counts the first place")


def test_the_command_line_computes_the_example(assay, installed):
    names = ("-m", "TopHeavy@10", "-m", "top_heavy_5", "-m", "P@10", "-m", "P@1")
    done = assay(installed, "eval", "lexical.run", "-r", "qrels.txt", *names, "--json")
    assert done.returncode == 0, done.stderr
    means = json.loads(done.stdout)["runs"][0]["measures"]
    both = 10 * means["P@10"]["mean"] + means["P@1"]["mean"]
    assert means["TopHeavy@10"]["mean"] == pytest.approx(both / 11)
    assert "TopHeavy@5" in means


@pytest.mark.parametrize("ties", ["order", "expected", "best"])
def test_explain_works_out_the_example(assay, installed, tmp_path, ties):
    query = (tmp_path / "qrels.txt").read_text().split()[0]
    wanted = ("-m", "TopHeavy@10", "--conventions", f"ties:{ties}")
    done = assay(installed, *EXPLAIN, query, *wanted)
    assert done.returncode == 0, done.stderr
    assert f"TopHeavy@10 of query {query} = " in done.stdout
    if ties == "order":
        assert "ranks of the documents that count at ranks ≤ 10: " in done.stdout
        assert "formula: (#(r ≤ k) + [r_1 = 1]) / (k + 1)" in done.stdout


TESTS = [
    "tests/properties/test_laws.py",
    "tests/measures/test_parse.py",
    "tests/measures/test_ties.py",
    "tests/inspect/test_explain.py",
    "tests/scoring/test_chance.py",
    "tests/cli/test_other_commands.py",
    "tests/test_docs.py",
]
CHOSEN = "TopHeavy or test_laws or test_parse or test_chance or lists_the_registry or measures_page"


@pytest.mark.slow
def test_no_test_fails_because_of_the_example(installed, monkeypatch):
    """Registered before any test is collected, it goes through every law and every tie rule."""
    monkeypatch.setenv("ASSAY_TEST_MEASURES", "TopHeavy")
    plugin = ("-p", "top_heavy_measure", "-p", "no:cacheprovider")
    done = run(installed, "-m", "pytest", "-q", "-x", *plugin, "-k", CHOSEN, *TESTS, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 100


def test_a_measure_that_is_wrong_under_ties_is_found(tmp_path):
    """Success is not linear in ranks; without expected= its value over ties is not the mean."""
    (tmp_path / "wrong_measure.py").write_text(NOT_LINEAR)
    arguments = ("-p", "wrong_measure", "-p", "no:cacheprovider", "-k", "brute_force and Wrong")
    done = run(tmp_path, "-m", "pytest", "-q", *arguments, "tests/measures/test_ties.py", cwd=ROOT)
    assert done.returncode == 1
    assert re.search(r"FAILED .*brute_force\[Wrong@3\]", done.stdout)


def test_a_broken_package_is_named_where_it_matters_and_nowhere_else(assay, tmp_path):
    folder = tmp_path / "broken"
    folder.mkdir()
    install(
        folder,
        package="broken-measures",
        entries={MEASURES: {"Mine": "broken_measures"}},
        modules={"broken_measures": BROKEN},
    )
    fine = assay(folder, "eval", "lexical.run", "-r", "qrels.txt", "-m", "AP")
    assert (fine.returncode, "broken" in fine.stderr) == (0, False)
    listed = assay(folder, "measures")
    assert listed.returncode == 0
    assert "nDCG" in listed.stdout
    assert "broken-measures 1.0 offers 'Mine'" in listed.stderr
    unknown = assay(folder, "eval", "lexical.run", "-r", "qrels.txt", "-m", "Mine@5")
    assert unknown.returncode == 2
    assert "Unknown measure 'Mine'." in unknown.stderr
    assert "The package broken-measures 1.0 offers 'Mine'" in unknown.stderr
    assert "ModuleNotFoundError: No module named 'package_that_nobody_has'" in unknown.stderr


def test_a_package_cannot_take_a_name_that_is_in_use(assay, tmp_path):
    folder = tmp_path / "taken"
    folder.mkdir()
    install(
        folder,
        package="taken",
        entries={MEASURES: {"Mine": "taken_name"}},
        modules={"taken_name": TAKEN},
    )
    unknown = assay(folder, "measures", "Mine@5")
    assert unknown.returncode == 2
    assert "takes the name map, which belongs to AP" in unknown.stderr
