"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Callable, Generator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest
from _pytest.doctest import DoctestModule
from _pytest.runner import runtestprotocol

from tests.examples import some_of
from tests.variants import thin_variants

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


_LONG = {"test_core_alone.py", "test_docs.py", "test_house.py", "test_newcomers_day.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each worker imports a share of the files first: what it compiles, the others only read."""
    mine = getattr(session.config, "workerinput", None)
    if mine is None:
        return
    gc.disable()
    below = [Path(given).resolve() for given in session.config.args]
    files = [file for folder in below if folder.is_dir() for file in folder.rglob("test_*.py")]
    for file in sorted(files)[int(mine["workerid"][2:]) :: mine["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # collecting it tells
            import_module(".".join(file.with_suffix("").relative_to(_ROOT).parts))


def pytest_collectstart() -> None:
    """For each file anew: a command that is loaded meanwhile enables it."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first: at the end, the other workers would wait for it."""
    thin_variants(items)
    items.sort(key=lambda item: item.path.name not in _LONG)


def pytest_collection_finish() -> None:
    """What is collected stays: looking through it for garbage takes a tenth of the time."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Most files hold no examples in docstrings; looking for them takes seconds."""
    found = yield
    kept = [one for one in found if not isinstance(one, DoctestModule)]
    told = len(kept) < len(found) and not file_path.name.startswith("test_")
    return found if told and ">>>" in file_path.read_text("utf-8") else kept


# Skips that a continuous-integration machine may have, and why; any other is a failure there.
_MAY_SKIP = {
    r"torch|ranx|wandb|sentence_transformers|model2vec|cwl|langchain|llama_index|haystack": "large",
    r"jieba|fugashi|pythainlp": "words of languages by packages that nobody else needs",
    r"trec_eval is not on the PATH": "no package ships the program",
    r"it has no sentences": "a result without prose has none to edit",
    r"real data not found|set ASSAY_DATA": "the data is not part of the repository",
    r"root|symbolic links|fork|tmpfs|mount": "what the operating system allows",
    r"recorded with": "another version of a package computes other numbers",
    r"numpy's BLAS|AVX|VNNI|instructions": "what the processor can do",
    r"ASSAY_NATIVE|_kernels": "the engine without kernels is tested where it is built so",
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a skipped test in continuous integration, unless the reason is listed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(re.search(pattern, reason) for pattern in _MAY_SKIP):
            report.outcome = "failed"
            report.longrepr = f"{reason}: a skip that CI does not allow, see tests/conftest.py"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Spare a worker to tell that nothing went wrong before and after a test."""
    if not hasattr(item.config, "workerinput"):
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


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
