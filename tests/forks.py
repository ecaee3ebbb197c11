"""Commands in forks of a process that has loaded Assay: real ones, without the time of a start.

What depends on how Python starts (its options, the locale, the encoding of its streams) needs a
process of its own.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any, NamedTuple

_LOADED = (
    "numpy",
    "rich.console",
    "rich.table",
    "assay.cli.main",
    "assay.runs.run_files",
    "assay.comparison.compare",
    "assay.inspect.check",
    "assay.inspect.explain",
)
_COMMANDS = ("check", "compare", "eval", "explain", "measures")
_LONGEST = 1 << 20


class Ended(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Forks:
    """Runs commands, one after the other, in the folder and the environment of the caller."""

    def __init__(self, *python: str) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, *python, "-m", "tests.forks", str(there.fileno())]
        root = Path(__file__).resolve().parents[1]
        self._server = subprocess.Popen(command, pass_fds=[there.fileno()], cwd=root)
        there.close()

    def start(self, *arguments: str, out: int, err: int, **environment: str) -> None:
        """Start a command that writes to these descriptors."""
        request = [os.getcwd(), arguments, {**os.environ, **environment}]
        socket.send_fds(self._here, [json.dumps(request).encode()], [out, err])

    def wait(self) -> int:
        """The exit code of what was started."""
        return int(self._here.recv(_LONGEST))

    def run(self, *arguments: str, out: IO[Any] | None = None, **environment: str) -> Ended:
        """Run a command; it writes to `out`, if given."""
        with tempfile.TemporaryFile() as kept, tempfile.TemporaryFile() as err:
            to = (out or kept).fileno()
            self.start(*arguments, out=to, err=err.fileno(), **environment)
            code = self.wait()
            for file in (kept, err):
                file.seek(0)
            return Ended(code, kept.read(), err.read())

    def close(self) -> None:
        """End the process that forks."""
        self._here.close()
        self._server.wait()


def _serve(number: int) -> None:
    """Fork for each request and tell the exit code, until nobody asks any more."""
    with socket.socket(fileno=number) as asked:
        while True:
            request, descriptors, *_ = socket.recv_fds(asked, _LONGEST, 2)
            if not request:
                return
            child = os.fork()
            if not child:
                break
            for one in descriptors:
                os.close(one)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            asked.send(str(code).encode())
    _become(descriptors, *json.loads(request))


def _become(descriptors: list[int], folder: str, arguments: list[str], env: dict[str, str]) -> None:
    """This process, from now on, is `assay` with these arguments."""
    for target, one in enumerate(descriptors, 1):
        os.dup2(one, target)
        os.close(one)
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w")), "utf-8")
    sys.stderr = TextIOWrapper(BufferedWriter(FileIO(2, "w")), "utf-8", "backslashreplace")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["assay", *arguments]
    from assay.__main__ import main

    sys.exit(main())


if __name__ == "__main__":
    for name in (*_LOADED, *(f"assay.cli.{command}" for command in _COMMANDS)):
        importlib.import_module(name)
    gc.freeze()
    _serve(int(sys.argv[1]))
