"""Files that workers collect in turn: the same tests, failures and skips as in one process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONG_FILES

pytest.importorskip("xdist")

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "pytest.ini": "[pytest]\nmarkers = slow: later\naddopts = -m 'not slow' --doctest-modules\n",
    "conftest.py": """
import os
import pytest

@pytest.fixture(scope="session")
def opened():
    with open("opened.txt", "a") as file:
        print(os.getpid(), file=file)
    yield os.getpid()
    with open("closed.txt", "a") as file:
        print(os.getpid(), file=file)
""",
    "a/__init__.py": "",
    "a/conftest.py": """
import pytest

@pytest.fixture(scope="package")
def room():
    return []
""",
    "a/test_first.py": """
import pytest

@pytest.mark.parametrize("number", [1, 2, 3])
def test_number(number, opened, room):
    room.append(number)
    assert number < 3

@pytest.mark.slow
def test_late():
    raise AssertionError
""",
    "a/test_last.py": """
import pytest

@pytest.mark.slow
def test_late(room):
    raise AssertionError
""",
    "b/__init__.py": "",
    "b/shown.py": '''
def double(number):
    """Double it.

    >>> double(2)
    5
    """
    return 2 * number
''',
    "b/test_broken.py": "import no_such_module\n",
    "b/test_lacking.py": "import pytest\npytest.importorskip('no_such_package')\n",
    "b/test_skipped.py": """
import pytest

def test_skipped(opened):
    pytest.skip("No Chromium here and none could be installed; as root: apt-get install it")

@pytest.mark.xfail(strict=True)
def test_known():
    assert False

@pytest.fixture
def leaking():
    yield
    raise ValueError("torn down badly")

def test_torn(leaking, opened):
    pass
""",
}


def test_long_files_are_where_they_are_said_to_be() -> None:
    """One that has moved would come last, and the other workers would wait for it."""
    assert [name for name in LONG_FILES if not (ROOT / name).is_file()] == []


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(project: Path, *arguments: str, ci: bool = False) -> tuple[int, list[str], list[str]]:
    """Run pytest as `scripts/test` does; return the exit code, the outcomes and their numbers."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CI": str(ci).lower()}
    environment.pop("PYTEST_ADDOPTS", None)
    plugins = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:assay")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "--no-header", *plugins, *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "INTERNALERROR" not in done.stdout, done.stdout
    short = done.stdout.partition("short test summary info")[2].splitlines()
    tests = [
        re.match(r"(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL) \S+(?: \S+\.py:\d+)?", line)
        for line in short
    ]
    counts = re.findall(
        r"\d+ (?:passed|failed|skipped|xfailed|errors?)", done.stdout.splitlines()[-1]
    )
    return done.returncode, sorted(test[0] for test in tests if test), counts


WORKERS = ("-n", "1", "--dist", "loadfile", "--no-loadscope-reorder")


@pytest.mark.parametrize("ci", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_workers_report_what_one_process_reports(project: Path, ci: bool) -> None:
    notes = [project / name for name in ("opened.txt", "closed.txt")]
    for note in notes:
        note.unlink(missing_ok=True)
    of_workers = run(project, *WORKERS, ci=ci)
    opened, closed = (note.read_text().split() for note in notes)
    assert sorted(opened) == sorted(closed)
    assert len(opened) == len({*opened})  # once a worker, whatever the number of its files
    assert of_workers == run(project, "--continue-on-collection-errors", ci=ci)
    code, tests, counts = of_workers
    assert code == 1
    for word in ("test_number[3]", "test_broken", "double", "test_known", "test_torn"):
        assert word in " ".join(tests)
    # One of a test, and one of a whole file.
    assert counts[-1] == "3 errors" if ci else "2 skipped" in counts


@pytest.mark.slow
def test_some_tests_of_workers(project: Path) -> None:
    assert run(project, *WORKERS, "-k", "test_known")[2] == ["1 skipped", "1 xfailed", "1 error"]
    code, _, counts = run(project, *WORKERS, "a/test_first.py::test_number[2]")
    assert (code, counts) == (0, ["1 passed"])
    code, _, counts = run(project, *WORKERS, "a/test_first.py")
    assert (code, counts) == (1, ["1 failed", "2 passed"])
    assert run(project, *WORKERS, "a", "-k", "nothing")[0] == 5
    assert run(project, "-n", "1", "--dist", "loadfile", "-x", "a")[0] == 2
