"""Signals end a command at any moment: no traceback, nothing half-written, the old result there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path
from types import FrameType

import pytest

from assay.cli import signals
from assay.io.collections import write_collection
from assay.io.streams import atomic_write
from tests.bench.samples import small
from tests.waiting import PATIENCE

DRIVER = Path(__file__).with_name("signal_driver.py")
EVAL = ("eval", "run.txt", "-r", "qrels.txt", "-o", "out.json")
BENCH = ("bench", "--corpus", "made", "--model", "bm25", "--no-cache", "--resamples", "100")
BENCH = (*BENCH, "--html", "page.html", "-o", "out.json")
CODES = {"SIGHUP": 129, "SIGINT": 130, "SIGTERM": 143}
WORDS = {"SIGHUP": "hung up", "SIGINT": "interrupted", "SIGTERM": "terminated"}
OLD = "the old result\n"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2 tag\nq1 Q0 b 2 1 tag\n")
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\n")
    (tmp_path / "out.json").write_text(OLD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def driven(kind: str, name: str, moment: int, *command: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, str(DRIVER), kind, name, str(moment), *command]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE, check=False)


def moments(kind: str, *command: str) -> int:
    done = driven(kind, "SIGTERM", 0, *command)
    assert done.returncode == 0, done.stderr
    Path("out.json").write_text(OLD)
    return int(done.stderr.split()[-1])


def check_end(done: subprocess.CompletedProcess[str], name: str) -> None:
    said = done.stderr.strip()
    assert (done.returncode, said) == (CODES[name], f"assay: {WORDS[name]}."), done.stderr
    assert not list(Path().rglob(".assay-*"))


def test_at_start_up() -> None:
    last = moments("import", *EVAL)
    assert last > 200
    for k in range(7):  # the last import is one of the kernels' own
        name = ("SIGINT", "SIGTERM", "SIGINT", "SIGHUP")[k % 4]
        check_end(driven("import", name, 1 + k * (last - 1) // 6, *EVAL), name)
        assert Path("out.json").read_text() == OLD


def test_before_signals_are_heard(folder: Path) -> None:
    """Python's own handler would print where it was."""
    strike = (
        "import os, sys\n"
        "sys.addaudithook(lambda event, what: event == 'import' and what[0] == 'MODULE'"
        " and os.kill(os.getpid(), 2))\n"
    )
    command, package = folder / "assay", folder / "user"
    package.mkdir()
    end = (-signal.SIGINT, "", "")
    for module in ("assay.core.on_demand", "assay.cli.signals", "enum"):
        code = strike.replace("MODULE", module)
        command.write_text(f"{code}from assay.__main__ import main; sys.exit(main())")
        assert ended([str(command), "--version"]) == end
        assert ended(["-I", str(command), "--version"]) == end
    (package / "__init__.py").write_text(f"{code}import assay, enum")
    (package / "__main__.py").touch()
    for program in (["-c", f"{code}import assay, enum"], ["-m", "user"], ["-m", "user", "assay"]):
        assert "Traceback" in ended(program)[2], "a program of the user's"


def test_a_signal_that_waits_for_the_first_line(folder: Path) -> None:
    """Python raises what came a moment before where the handler is set."""
    code = (
        "import _signal, sys, types\nfake = types.SimpleNamespace(**vars(_signal))\n"
        "def late(*_): raise KeyboardInterrupt\n"
        "fake.signal = late; sys.modules['_signal'] = fake\nimport assay\n"
    )
    (folder / "assay").write_text(code)
    assert ended(["assay"]) == (130, "", "")
    assert ended(["-c", code]) == (0, "", ""), "a program of the user's: its handler stays"


def test_python_m_with_options_hears_before_it_imports(folder: Path) -> None:
    """The site's own module strikes: `-m` runs nothing of ours before the package."""
    (folder / "sitecustomize.py").write_text(
        "import os, sys\nsys.addaudithook(lambda event, what: event == 'import'"
        " and what[0] == 'assay.core.on_demand' and os.kill(os.getpid(), 2))\n"
    )
    for options in ([], ["-X", "utf8"], ["-s", "-W", "error"]):
        arguments = [sys.executable, *options, "-m", "assay", "--version"]
        done = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env=os.environ | {"PYTHONPATH": str(folder)},
        )
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", ""), options


def ended(arguments: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    return done.returncode, done.stdout, done.stderr


def test_while_a_file_is_written() -> None:
    """When it is opened beside, when it is opened, and when it takes its name."""
    last = moments("write", *EVAL)
    assert last > 2
    for moment, name in product(range(1, last), CODES):
        check_end(driven("write", name, moment, *EVAL), name)
        assert Path("out.json").read_text() == OLD


def test_while_a_bench_writes_its_page_and_its_result(folder: Path) -> None:
    write_collection(small(), folder / "made")
    for moment in (1, 2, 3):  # the page is opened, the page gets its name, the result is opened
        done = driven("write", "SIGTERM", moment, *BENCH)
        told, _, said = done.stderr.strip().rpartition("\n")
        assert (done.returncode, said) == (143, "assay: terminated."), done.stderr
        # A slow machine says before how far it has read.
        assert ("page.html: " in told) == (moment == 3), told
        assert Path("page.html").exists() == (moment == 3)
        assert Path("out.json").read_text() == OLD
        assert not list(Path().rglob(".assay-*"))


TWICE = """
import os, signal, sys
from assay.__main__ import main
from assay.cli import output
from assay.io.streams import atomic_write

def write(text, file):
    with atomic_write(file) as stream:
        try:
            stream.write(b"half")
            os.kill(os.getpid(), signal.SIGINT)
        finally:  # somebody who does not come to an end
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()

output.write = write
sys.argv[1:] = ["eval", "run.txt", "-r", "qrels.txt", "-o", "out.json"]
sys.exit(main())
"""


def test_a_second_signal_does_not_wait() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWICE],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert sorted(os.listdir()) == ["out.json", "qrels.txt", "run.txt"]
    assert Path("out.json").read_text() == OLD


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As by `nohup`."""
    code = (
        "import os, signal, sys; from assay.__main__ import main\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "sys.addaudithook(lambda event, _: event == 'os.rename' and os.kill(os.getpid(), 1))\n"
        f"sys.argv[1:] = {EVAL!r}; sys.exit(main())"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)
    assert Path("out.json").read_text() != OLD


def test_a_signal_that_python_would_drop_is_not_lost() -> None:
    """Exceptions in `__del__` are only printed; the command must end all the same."""
    code = (
        "import os, signal, sys; from assay.__main__ import main\n"
        "class Last:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT); len('')\n"
        "def strike(event, _):\n"
        "    if event == 'os.rename': Last()\n"
        f"sys.addaudithook(strike); sys.argv[1:] = {EVAL!r}; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    check_end(done, "SIGINT")
    assert Path("out.json").read_text() == OLD


def test_handlers_are_as_before_in_the_process_of_somebody_else(assay) -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert assay(*EVAL).code == 0
    assert before == [
        signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ]


def test_another_thread_leaves_signals_alone() -> None:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(signals.hear()))
    thread.start()
    thread.join()
    assert found == [{}]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file not closed
def test_an_interruption_at_every_line_leaves_the_old_file_or_the_new(folder: Path) -> None:
    """Each line of the module and of `contextlib` is a moment; the last comes after the end."""
    file = folder / "out.json"
    file.write_text(OLD)
    moment = 1
    while is_interrupted(file, moment):
        assert sorted(os.listdir(folder)) == ["out.json", "qrels.txt", "run.txt"], moment
        assert file.read_text() in (OLD, "new"), moment
        file.write_text(OLD)
        moment += 1
    assert file.read_text() == "new"
    assert moment > 20


def is_interrupted(file: Path, moment: int) -> bool:
    left = [moment]

    def trace(frame: FrameType, event: str, _: object) -> object:
        if not frame.f_code.co_filename.endswith(("io/streams.py", "contextlib.py")):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        with atomic_write(file) as stream:
            stream.write(b"new")
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
