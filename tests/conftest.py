"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest
from _pytest.doctest import DoctestModule
from _pytest.runner import runtestprotocol

from tests.examples import some_of
from tests.variants import thin_variants
from tests.workers import TestFile, collects_by_turn

# What OpenCV describes has other digits by the code for AVX-512 than everywhere else.
os.environ.setdefault("OPENCV_CPU_DISABLE", "AVX512-SKX")
# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("assay", deadline=None, max_examples=some_of(100))
hypothesis.settings.load_profile("assay")

# A shell ignores Ctrl-C for what it runs behind `&`, and what tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` ignores hang-ups likewise; a handler keeps them from this process alone.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

_ROOT = Path(__file__).resolve().parents[1]
_DEFAULT_DATA = _ROOT.parent / "shared" / "data"


# The longest first, by processor seconds with those of browsers and other processes.
LONG_FILES = (
    *("tests/test_docs.py", "tests/browser/test_report_page.py", "tests/golden/test_commands.py"),
    *("tests/browser/test_dashboard.py", "tests/faults/test_store.py", "tests/test_core_alone.py"),
    *("tests/faults/test_command_line.py", "tests/test_house.py", "tests/faults/test_consent.py"),
    *("tests/faults/test_changing_files.py", "tests/bench/test_command.py"),
    *("tests/faults/test_signals.py", "tests/test_newcomers_day.py"),
    *("tests/cluster/test_same_bytes.py", "tests/cluster/test_ray.py"),
)
_PLACES = {name: place for place, name in enumerate(LONG_FILES)}


def pytest_collectstart() -> None:
    """For each file anew: a command that is loaded meanwhile enables it."""
    gc.disable()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """What takes longest comes first: at the end, the other workers would wait for it."""
    files = [item for item in items if isinstance(item, TestFile)]  # `-m` chooses among their tests
    items[:] = [item for item in items if not isinstance(item, TestFile)]
    thin_variants(items)
    yield
    items += files
    items.sort(key=lambda item: _PLACES.get(item.nodeid.partition("::")[0], len(LONG_FILES)))
    # What is collected stays: looking through it for garbage takes a tenth of the time.
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[Any], list[Any]]:
    """Most files hold no examples in docstrings; looking for them takes seconds."""
    collectors = yield
    modules = [collector for collector in collectors if not isinstance(collector, DoctestModule)]
    examples = len(modules) < len(collectors) and not file_path.name.startswith("test_")
    if not (examples and ">>>" in file_path.read_text("utf-8")):
        collectors = modules
    if collectors and collects_by_turn(parent.config):
        return [TestFile.of(parent, collectors)]
    return collectors


# Skips that a continuous-integration machine may have, and why; any other is a failure there.
_MAY_SKIP = {
    r"torch|ranx|wandb|sentence_transformers|model2vec|cwl|langchain|llama_index|haystack": "large",
    r"jieba|fugashi|pythainlp": "words of languages by packages that nobody else needs",
    r"trec_eval is not on the PATH": "no package ships the program",
    r"it has no sentences": "a result without prose has none to edit",
    r"real data not found|set ASSAY_DATA": "the data is not part of the repository",
    r"root may write|no symbolic links|needs fork|can be mounted": "the operating system",
    r"recorded with": "another version of a package computes other numbers",
    r"numpy's BLAS|AVX|VNNI|instructions": "what the processor can do",
    r"ASSAY_NATIVE|_kernels": "the engine without kernels is tested where it is built so",
}


def _refuse_skip(report: Any) -> Any:
    """Fail what is skipped in continuous integration, unless the reason is listed."""
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(re.search(pattern, reason) for pattern in _MAY_SKIP):
            report.outcome = "failed"
            report.longrepr = f"{reason}: a skip that CI does not allow, see tests/conftest.py"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that continuous integration may not skip."""
    return _refuse_skip((yield))  # type: ignore[no-any-return]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a whole file that continuous integration may not skip."""
    return _refuse_skip((yield))  # type: ignore[no-any-return]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Spare a worker to tell that nothing went wrong before and after a test."""
    if not hasattr(item.config, "workerinput"):
        return None
    if isinstance(item, TestFile):
        item.run_tests(nextitem)
        return True
    hook = item.ihook
    if item.config.option.verbose > 0:
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            if report.passed:
                report.keywords = {}
            hook.pytest_runtest_logreport(report=report)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Say that no test was chosen, which only those who collected the files know."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("dist", "no") != "no" and session.exitstatus == 0:
        ran = {"passed", "skipped", "xfailed", "xpassed"} & reporter.stats.keys()
        session.exitstatus = pytest.ExitCode.OK if ran else pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.fixture(scope="session")
def data_dir() -> Callable[[str], Path]:
    """A folder of real data, by name; the test is skipped, visibly, where it is absent."""

    def find(name: str) -> Path:
        folder = Path(os.environ.get("ASSAY_DATA", _DEFAULT_DATA)) / name
        if not folder.is_dir():
            pytest.skip(f"real data not found: {name} (set ASSAY_DATA)")
        return folder

    return find


class Answer(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str


@pytest.fixture
def assay(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """The command line, called in this process; JSON has to be as its schema says."""
    from assay.cli.main import main
    from tests.schemas import check_printed

    def call(*arguments: object) -> Answer:
        code = main([str(argument) for argument in arguments])
        answer = Answer(code, *capsys.readouterr())
        check_printed(answer.out)
        return answer

    return call


RUN = """\
q1 Q0 a 1 3 tag
q1 Q0 b 2 2 tag
q1 Q0 c 3 1 tag
q2 Q0 b 1 2 tag
q2 Q0 a 2 1 tag
"""
OTHER = RUN.replace("q2 Q0 a 2 1", "q2 Q0 a 2 9")
QRELS = "q1 0 a 1\nq1 0 c 2\nq2 0 a 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with run.txt, other.txt and qrels.txt, made the current one."""
    for name, text in {"run.txt": RUN, "other.txt": OTHER, "qrels.txt": QRELS}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path
