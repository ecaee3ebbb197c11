"""Upgrades that are killed or fail: the store is as before, with one backup, and upgraded later."""

from __future__ import annotations

import json
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import assay.store
from assay.errors import StorageError
from assay.store.database import locate
from assay.store.schema import REVISIONS
from tests.store.made_before import DATABASE
from tests.store.next_schema import NEXT, OLD, add_mood, make_old_store
from tests.store.places import make_scores

ROOT = Path(__file__).resolve().parents[2]
# Statements before which it dies: while it looks, in the revision, before it commits.
FEW = (2, 4, 6, 7, 0)


@pytest.mark.parametrize("counts", [FEW, pytest.param(range(9), marks=pytest.mark.slow)])
def test_kill_9_during_an_upgrade(place: str, counts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old_store(place)
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.upgrade_driver", place, *map(str, counts)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) > 0.8 * len(counts)  # the kills did hit upgrades
    monkeypatch.setitem(REVISIONS, NEXT, add_mood)
    with assay.store.open(place) as store:
        assert store.database.version == NEXT
        assert [run.name for run in store.runs()] == ["old 2", "old 1"]
        assert store.damages() == []
    file = locate(place).file
    if file is not None:
        names = sorted(one.name for one in file.parent.iterdir() if "backup" in one.name)
        assert names == [f"{file.name}.schema-{OLD}.backup-1"]


def test_a_failed_upgrade_keeps_one_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "old.db"
    make_old_store(file)
    monkeypatch.setitem(REVISIONS, NEXT, add_mood)

    def fail(*_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setitem(REVISIONS, NEXT, fail)
        for _ in range(3):
            with pytest.raises(StorageError, match="disk cannot be read or written"):
                assay.store.open(file)
    assay.store.open(file).close()
    names = [one.name for one in tmp_path.iterdir() if "backup" in one.name]
    assert names == [f"old.db.schema-{OLD}.backup-1"]
    with closing(sqlite3.connect(tmp_path / names[0])) as connection:
        assert connection.execute("SELECT version_num FROM assay_schema").fetchone() == (OLD,)


def test_a_backup_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "old.db"
    make_old_store(file)
    monkeypatch.setitem(REVISIONS, NEXT, add_mood)

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("assay.store.database.os.replace", refuse)
    with pytest.raises(OSError, match="No space"):
        assay.store.open(file)
    assert not [one for one in tmp_path.iterdir() if "backup" in one.name]


def test_old_runs_say_since_when_their_digest_vouches(tmp_path: Path, assay: Any) -> None:
    file = tmp_path / "old.db"
    shutil.copyfile(DATABASE, file)
    shown = assay("runs", "show", "1", "--store", file)
    assert "since upgrade of the store" in shown.out
    checked = assay("runs", "check", "--store", file)
    assert (checked.code, checked.out) == (0, "checked: 13, damages: 0, unsigned: 0\n")


def test_an_empty_schema_table_is_named(place: str, assay: Any) -> None:
    with _open(place) as store, store.database.writing() as connection:
        connection.execute(text("DELETE FROM assay_schema"))
    with pytest.raises(StorageError, match="lacks the schema version: the store is damaged"):
        _open(place)
    answer = assay("runs", "list", "--store", place)
    assert (answer.code, "Restore a backup" in answer.err) == (5, True)


@pytest.mark.parametrize("column", ["name", "notes", "config", "status", "created", "uid"])
def test_text_that_is_not_utf8_is_named(tmp_path: Path, column: str, assay: Any) -> None:
    file = tmp_path / "s.db"
    with _open(file) as store:
        store.begin(_record("a"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DROP TRIGGER runs_stay")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE runs SET {column} = CAST(x'ff41' AS TEXT)")
    for command in (["list"], ["show", "1"], ["check"], ["export", "-o", str(tmp_path / "x.json")]):
        answer = assay("runs", *command, "--store", file)
        assert answer.code in (0, 1, 2, 5), answer.err
        assert answer.code or column in ("notes", "config", "uid")
        assert "internal error" not in answer.err
    assert assay("runs", "check", "--store", file).code in (1, 5)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="assay-shared-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


# All that the commands need is loaded before the user changes, who may not be able to read it.
AS_NOBODY = """
import contextlib, io, json, os, sys
from assay.cli import main as program
def call(line, store):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = program.main([*line, "--store", store])
    return code, out.getvalue(), err.getvalue()
commands, warm, place, user, group, revise = json.loads(sys.argv[1])
if revise:
    from tests.store.next_schema import add_revision
    add_revision()
for line in commands:
    call(line, warm)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(group); os.setuid(user)
os.chdir("/")
print(json.dumps([call(line, place) for line in commands]))
"""


def _call_as_nobody(
    place: Path, warm: Path, *commands: list[str], revise: bool = False
) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of commands of a user for whom permissions hold."""
    with _open(warm) as store:
        store.save(make_scores(1), "warm")
    who = pwd.getpwnam("nobody")
    given = json.dumps([commands, str(warm), str(place), who.pw_uid, who.pw_gid, revise])
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, given], capture_output=True, text=True, check=True
    )
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


CHANGES = (["runs", "tag", "1", "x"], ["runs", "note", "1", "n"], ["runs", "delete", "1", "--yes"])


def test_a_read_only_folder_of_somebody_else(open_folder: Path, tmp_path: Path) -> None:
    file = open_folder / "s.db"
    with _open(file) as store:
        store.save(make_scores(1), "a", tags=["t"])
    for one, mode in ((file, 0o444), (open_folder, 0o555)):
        one.chmod(mode)
    before = file.read_bytes()
    listed, checked, *refused = _call_as_nobody(
        file, tmp_path / "warm.db", ["runs", "list"], ["runs", "check"], *CHANGES
    )
    assert (listed[0], checked[:2]) == (0, (0, "checked: 1, damages: 0, unsigned: 0\n"))
    for code, _, errors in refused:
        assert code == 5
        assert "Make the file and its folder writable to save runs" in errors
    assert [one.name for one in open_folder.iterdir()] == ["s.db"]
    assert file.read_bytes() == before


def test_an_old_store_in_a_read_only_folder(open_folder: Path, tmp_path: Path) -> None:
    file = open_folder / "old.db"
    make_old_store(file)
    open_folder.chmod(0o555)
    warm = tmp_path / "warm.db"
    ((code, _, errors),) = _call_as_nobody(file, warm, ["runs", "list"], revise=True)
    assert (code, f"old schema {OLD}" in errors) == (5, True), errors
    assert [one.name for one in open_folder.iterdir()] == ["old.db"]


_open, _record = assay.store.open, assay.store.RunRecord
