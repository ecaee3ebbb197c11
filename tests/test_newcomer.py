"""A newcomer's day: what HOUSE.md promises is one file is one file, and nothing else changes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assay.io.demo_collection import write_demo
from tests.measures.test_plugins import example

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "import sys; from assay.cli.main import main; sys.exit(main(sys.argv[1:]))"
# What holds for every measure, and every list, page and recording that names measures.
TESTS = (
    "tests/properties/test_laws.py",
    "tests/measures/test_parse.py",
    "tests/measures/test_ties.py",
    "tests/test_docs.py",
    "tests/golden/test_commands.py",
)
CHOSEN = "TopHeavy or test_laws or test_parse or measures_page or test_commands and measures"


def copy_package(folder: Path) -> Path:
    """Copy the package, without what it was built from, to add files to."""
    # The finder of an editable install would find the original.
    kept = "[one for one in sys.meta_path if '_editable' not in type(one).__module__]"
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.meta_path[:] = {kept}\n")
    skipped = shutil.ignore_patterns("__pycache__", "*.cpp", "*.hpp")
    return shutil.copytree(ROOT / "src" / "assay", folder / "assay", ignore=skipped)


def run_python(copy: Path, *arguments: str, cwd: Path, **variables: str) -> str:
    """Run Python with the copy in place of this package, and return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{copy.parent}{os.pathsep}{ROOT}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def run_assay(copy: Path, *arguments: str, cwd: Path) -> str:
    """Run a command of the copy."""
    first = f"import sys; sys.path.insert(0, {str(copy.parent)!r}); "
    return run_python(copy, "-c", first + COMMAND, *arguments, cwd=cwd, COLUMNS="200")


@pytest.fixture(scope="module")
def package_with_measure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the measure of CONTRIBUTING.md in a file of its own."""
    copy = copy_package(tmp_path_factory.mktemp("copy"))
    (copy / "measures" / "top_heavy.py").write_text(example(), "utf-8")
    return copy


def test_a_measure_is_one_file(package_with_measure: Path, tmp_path: Path) -> None:
    write_demo(tmp_path)
    copy = package_with_measure
    parse = (
        f"import sys; sys.path.insert(0, {str(copy.parent)!r}); import assay; "
        "print(assay.parse('top_heavy_5'), 'assay.measures.top_heavy' in sys.modules); "
    )
    assert run_python(copy, "-c", parse, cwd=tmp_path) == "TopHeavy@5 True\n"
    # A measure that is known already does not pay for the new file.
    known = parse.replace("top_heavy_5", "nDCG@10")
    assert run_python(copy, "-c", known, cwd=tmp_path) == "nDCG@10 False\n"

    names = ("-m", "TopHeavy@10", "-m", "P@10", "-m", "P@1")
    printed = run_assay(
        copy, "eval", "lexical.run", "-r", "qrels.txt", *names, "--json", cwd=tmp_path
    )
    means = json.loads(printed)["runs"][0]["measures"]
    both = 10 * means["P@10"]["mean"] + means["P@1"]["mean"]
    assert means["TopHeavy@10"]["mean"] == pytest.approx(both / 11)

    listed = run_assay(copy, "measures", cwd=tmp_path)
    assert re.search(r"^TopHeavy@k .*top_heavy", listed, re.M)
    query = (tmp_path / "qrels.txt").read_text().split()[0]
    explained = run_assay(
        copy,
        *("explain", "lexical.run", "-r", "qrels.txt", "--query", query, "-m", "TopHeavy@10"),
        cwd=tmp_path,
    )
    assert f"TopHeavy@10 of query {query} = " in explained


@pytest.mark.slow
def test_a_new_measure_breaks_no_list_and_obeys_every_law(package_with_measure: Path) -> None:
    copy = package_with_measure
    printed = run_python(
        copy,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={copy.parent}"),
        *("-k", CHOSEN, *TESTS),
        cwd=ROOT,
        ASSAY_TEST_MEASURES="TopHeavy",
    )
    assert int(re.findall(r"(\d+) passed", printed)[0]) > 100
