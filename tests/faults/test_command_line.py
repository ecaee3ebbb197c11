"""Faults 65 and 71–77: the command line on bad days. The numbers are those of the fault list."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from assay.errors import install_command
from tests.forks import Forks
from tests.waiting import PATIENCE

RUN = "q1 Q0 a 1 2 tag\nq1 Q0 b 2 1 tag\n"
QRELS = "q1 0 a 1\n"
ASSAY = [sys.executable, "-m", "assay"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.txt").write_text(RUN)
    (tmp_path / "qrels.txt").write_text(QRELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def process(*arguments: str, **environment: str):
    command = [*ASSAY, *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
        timeout=PATIENCE,
    )


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    started = Forks()
    yield started
    started.close()


@pytest.fixture(scope="module")
def optimised() -> Iterator[Forks]:
    started = Forks("-O")
    yield started
    started.close()


def on_terminal(forks: Forks, *arguments: str, **environment: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    parent, child = pty.openpty()
    env = {"COLUMNS": "80", "TERM": "xterm-256color", **environment}
    forks.start(*arguments, out=child, err=child, **env)
    os.close(child)
    parts = []
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    forks.wait()
    os.close(parent)
    return b"".join(parts).decode()


# 65: terminal escape codes in names and ids


EVIL = "\x1b[31mq\x1b]0;owned\x07"


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        ["eval", "{run}", "-r", "qrels.txt", "-q"],
        ["eval", "{run}", "-r", "qrels.txt", "-q", "--json"],
        ["eval", "{run}", "-r", "qrels.txt", "-q", "--format", "markdown"],
        ["check", "{run}", "qrels.txt"],
        ["explain", "{run}", "-r", "qrels.txt", "--query", EVIL],
        ["explain", "{run}", "-r", "qrels.txt", "--query", "\x1b[2J"],
        ["eval", "\x1b[2Jmissing", "-r", "qrels.txt"],
        ["eval", "{run}", "-r", "qrels.txt", "-m", "\x1b[2J"],
        ["\x1b[2J"],
    ],
)
def test_escape_codes_are_shown_not_obeyed(folder, forks, command, terminal):
    name = "\x1b[1mrun"
    (folder / name).write_text(f"{EVIL} Q0 \x1b[5md 1 2 tag\nx\x9b1m Q0 d 1 1 tag\n")
    (folder / "qrels.txt").write_text(f"{EVIL} 0 \x1b[5md 1\nother\x1b[0m 0 e 1\n")
    arguments = [part.replace("{run}", name) for part in command]
    if terminal:
        text = on_terminal(forks, *arguments, NO_COLOR="1")
    else:
        done = forks.run(*arguments)
        text = (done.stdout + done.stderr).decode()
    assert "\x1b[31m" not in text
    assert "\x1b[2J" not in text
    assert "\x1b]0" not in text
    assert "\x07" not in text
    assert "\x9b" not in text
    assert "\x1b[5m" not in text
    assert "Traceback" not in text


def test_data_formats_keep_the_id_but_not_on_a_terminal(folder, forks):
    (folder / "run.txt").write_text(RUN.replace("q1", EVIL))
    (folder / "qrels.txt").write_text(QRELS.replace("q1", EVIL))
    command = ["eval", "run.txt", "-r", "qrels.txt", "-q", "--format", "trec"]
    assert EVIL.encode() in forks.run(*command).stdout
    assert "\x1b]0" not in on_terminal(forks, *command)


# 71: nobody reads to the end


@pytest.mark.parametrize(
    "command", ["eval run.txt -r qrels.txt -q --format csv", "measures --json"]
)
def test_a_closed_pipe_ends_quietly(folder, command):
    (folder / "run.txt").write_text("".join(f"q{i} Q0 a 1 1 t\n" for i in range(20000)))
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 a 1\n" for i in range(20000)))
    done = subprocess.run(
        f"{sys.executable} -m assay {command} | head -1",
        shell=True,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


def test_a_full_device_is_a_message(folder):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ASSAY, "eval", "run.txt", "-r", "qrels.txt"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=PATIENCE,
        )
    assert done.returncode == 5
    assert done.stderr.startswith(b"assay: ")
    assert b"Traceback" not in done.stderr


# 72: no terminal, no colour


def test_plain_without_a_terminal():
    done = process("eval", "run.txt", "-r", "qrels.txt", FORCE_COLOR="1", CLICOLOR_FORCE="1")
    assert b"\x1b" not in done.stdout + done.stderr


def test_colour_on_a_terminal_unless_refused(forks):
    command = ["eval", "run.txt", "run.txt", "-r", "qrels.txt"]
    assert "\x1b[" in on_terminal(forks, *command)
    assert "\x1b[3" not in on_terminal(forks, *command, NO_COLOR="1")
    assert "\x1b[" not in on_terminal(forks, *command, TERM="dumb")


# 73: the locale changes no number


@pytest.mark.parametrize(
    "locale",
    [
        "C",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("POSIX", "de_DE")),
        "de_DE.UTF-8",
        "tr_TR.UTF-8",
    ],
)
def test_the_decimal_point_stays(forks, locale):
    expected = forks.run("eval", "run.txt", "-r", "qrels.txt", "-m", "default").stdout
    found = process(
        "eval", "run.txt", "-r", "qrels.txt", "-m", "default", LC_ALL=locale, LANG=locale
    )
    assert found.stdout == expected
    assert b"1.0000" in found.stdout


def test_an_output_that_is_not_utf8_gets_escapes():
    done = process("measures", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert rb"\u2264" in done.stdout


# 74 and 75: unknown names


def test_unknown_convention_names_the_nearest(assay):
    for given, near in [
        ("trec_evil", "trec_eval"),
        ("tis:expected", "ties"),
        ("ties:best_", "best"),
    ]:
        answer = assay("eval", "run.txt", "-r", "qrels.txt", "--conventions", given)
        assert answer.code == 2
        assert near in answer.err.split("Did you mean")[1]


def test_misspelt_measure_names_the_nearest(assay):
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "-m", "NDGC@10")
    assert answer.code == 2
    assert "Did you mean nDCG" in answer.err
    assert answer.out == ""


# 76: a failure never looks like success


def test_one_bad_run_among_good_ones_is_no_success(assay, folder):
    (folder / "bad.txt").write_text(RUN + "q2 Q0 a 1 nan tag\n")
    answer = assay("eval", "run.txt", "bad.txt", "-r", "qrels.txt")
    assert answer.code == 3
    assert answer.out == ""
    assert "bad.txt, line 3" in answer.err


def test_queries_that_count_as_errors(assay, folder):
    (folder / "qrels.txt").write_text(QRELS + "q2 0 a 1\nq3 0 a 0\n")
    missing = assay("eval", "run.txt", "-r", "qrels.txt", "--missing", "error")
    assert (missing.code, "q2" in missing.err) == (3, True)
    empty = assay("eval", "run.txt", "-r", "qrels.txt", "--empty", "error")
    assert (empty.code, "q3" in empty.err) == (3, True)


# 77: python -O


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["eval", "bad.txt", "-r", "qrels.txt"], 3),
        (["eval", "run.txt", "-r", "qrels.txt", "-m", "P@0"], 2),
        (["eval", "run.txt", "-r", "qrels.txt", "--depth", "0"], 2),
        (["eval", "twice.txt", "-r", "qrels.txt"], 3),
        (["eval", "run.txt", "-r", "conflict.txt"], 3),
        (["check", "run.txt", "missing.txt"], 5),
    ],
)
def test_every_check_fires_without_assert(folder, forks, optimised, arguments, code):
    (folder / "bad.txt").write_text("q1 Q0 a 1 inf tag\n")
    (folder / "twice.txt").write_text(RUN + "q1 Q0 a 3 0 tag\n")
    (folder / "conflict.txt").write_text("q1 0 a 1\nq1 0 a 2\n")
    plain, without = forks.run(*arguments), optimised.run(*arguments)
    assert plain.returncode == without.returncode == code
    assert plain.stderr == without.stderr
    assert plain.stderr.startswith(b"assay: ")


# Exit codes, and never a traceback


def test_missing_package_is_exit_code_4(assay, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (folder / "run.parquet").write_bytes(b"PAR1" + b"\0" * 20 + b"PAR1")
    answer = assay("eval", "run.parquet", "-r", "qrels.txt")
    assert answer.code == 4
    assert install_command("parquet") in answer.err


def test_a_result_that_cannot_be_written_leaves_the_old_one(assay, folder):
    assert assay("eval", "run.txt", "-r", "qrels.txt", "-o", "run.txt/no.csv").code == 5
    (folder / "out.csv").write_text("old")
    assert assay("eval", "missing.txt", "-r", "qrels.txt", "-o", "out.csv").code == 5
    assert (folder / "out.csv").read_text() == "old"
    assert sorted(os.listdir(folder)) == ["out.csv", "qrels.txt", "run.txt"]


def test_a_directory_is_exit_code_5(assay, folder):
    answer = assay("eval", str(folder), "-r", "qrels.txt")
    assert answer.code == 5
    assert "directory" in answer.err


def test_interrupted_is_exit_code_130(assay, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("assay.runs.run_files.as_judgments", interrupt)
    answer = assay("eval", "run.txt", "-r", "qrels.txt")
    assert (answer.code, answer.out, answer.err.strip()) == (130, "", "assay: interrupted.")


READING = """
import signal, sys
from assay.__main__ import main

def hear(event, arguments):
    if event == "open" and arguments[0] == "run.txt":
        print("reading", file=sys.stderr, flush=True)
    if event == "open" and arguments[0] == "last.txt":
        signal.pause()  # the signal has come by then, or is waited for

sys.addaudithook(hear)
sys.argv[1:] = ["eval", "run.txt", "last.txt", "-r", "qrels.txt"]
sys.exit(main())
"""


def test_ctrl_c_while_reading(folder):
    (folder / "run.txt").write_text("".join(f"q{i} Q0 a 1 1 t\n" for i in range(300_000)))
    (folder / "last.txt").write_text(RUN)
    command = [sys.executable, "-c", READING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stderr.readline() == b"reading\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=PATIENCE)
    said = err.replace(b"reading", b"").strip()  # a file may be opened more than once
    assert (running.returncode, out, said) == (130, b"", b"assay: interrupted.")


def test_a_fault_of_ours_is_one_line_with_exit_code_70(assay, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh \x1b[31m")

    monkeypatch.setattr("assay.runs.run_files.as_judgments", fail)
    answer = assay("eval", "run.txt", "-r", "qrels.txt")
    assert answer.code == 70
    assert answer.err.count("\n") == 1
    assert r"ZeroDivisionError: oh \x1b[31m" in answer.err


@pytest.mark.parametrize("arguments", [["eval"], ["eval", "run.txt"], ["--nothing"], ["check"]])
def test_usage_is_exit_code_2(forks, arguments):
    done = forks.run(*arguments)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["ünï 漢.txt", "-dash.txt", "sp ace.txt", "a:b.txt"])
def test_odd_file_names(folder, forks, name):
    (folder / name).write_text(RUN)
    done = forks.run("eval", "-r", "qrels.txt", "--json", "--", name)
    assert done.returncode == 0
    assert json.loads(done.stdout)["runs"][0]["path"] == name


def test_a_file_name_that_is_not_utf8(folder):
    name = b"run\xff.txt"
    (folder / os.fsdecode(name)).write_text(RUN)
    done = subprocess.run(
        [*ASSAY, "eval", name, "-r", "qrels.txt"],
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0
    assert rb"run\udcff" in done.stdout


@pytest.fixture
def unread() -> Iterator[IO[bytes]]:
    """What nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        yield closed


def check_unread(code: int, said: bytes) -> None:
    """Exit code 1 would say that a check found something or a gate failed."""
    assert code == 141
    assert b"Traceback" not in said
    assert b"Exception" not in said


QUICK = ("check", "measures", "--version")
UNREAD = [
    "eval run.txt -r qrels.txt",
    "check run.txt qrels.txt",
    "explain run.txt -r qrels.txt --query q1",
    "compare run.txt -r qrels.txt -b run2.txt --fail-if-worse",
    "measures",
    "demo",
    "--help",
    "eval --help",
    "--version",
]


@pytest.mark.parametrize("command", UNREAD)
def test_nobody_reads_at_all(folder, forks, unread, command):
    (folder / "run2.txt").write_text(RUN)
    done = forks.run(*command.split(), out=unread)
    check_unread(done.returncode, done.stderr)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    [pytest.param(one, marks=[pytest.mark.slow] * (one.split()[0] not in QUICK)) for one in UNREAD],
)
def test_nobody_reads_what_is_buffered_or_not(folder, unread, command, unbuffered):
    (folder / "run2.txt").write_text(RUN)
    done = subprocess.run(
        [*ASSAY, *command.split()],
        stdout=unread,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        check=False,
        timeout=PATIENCE,
    )
    check_unread(done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("eval run.txt -r qrels.txt >&-", 5),
        ("eval run.txt -r qrels.txt --json >&- 2>&-", 5),
        ("--help >&-", 5),
        ("eval run.txt -r qrels.txt -o out.json >&-", 0),
        ("eval run.txt -r qrels.txt -o out.json <&- >&- 2>&-", 0),
    ],
)
def test_a_closed_output_loses_no_result_in_silence(folder, words, code):
    done = subprocess.run(
        f"{sys.executable} -m assay {words}",
        shell=True,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (code, b"")
    said = b"assay: Standard output is closed." in done.stderr
    assert said == (code == 5 and "2>&-" not in words)
    if "-o" in words:  # and what the program says went into no file
        assert json.loads((folder / "out.json").read_bytes())


@pytest.mark.parametrize("path", ["pipe", "/dev/stdin"])
def test_pipes_are_refused_in_words(folder, path):
    os.mkfifo(folder / "pipe")
    done = subprocess.run(
        [*ASSAY, "eval", path, "-r", "qrels.txt"],
        input=RUN.encode(),
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 5
    assert b"Pass '-' for standard input" in done.stderr


def test_a_pipe_is_read_as_standard_input(folder):
    command = [*ASSAY, "trec_eval", "-m", "num_q", "qrels.txt", "-"]
    done = subprocess.run(
        command, input=RUN.encode(), capture_output=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"num_q                 \tall\t1\n"
