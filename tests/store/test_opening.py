"""Where a store is, how it is made, and how an old one is led to the newest schema."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from sqlalchemy import text

import assay.store
from assay.errors import StorageError, UsageError, install_command
from assay.store.database import locate
from assay.store.schema import (
    FIRST_VERSION,
    REVISIONS,
    known_versions,
    newest_version,
    version_of,
)
from tests.store.made_before import DATABASE
from tests.store.next_schema import NEXT, OLD, add_mood, make_old_store
from tests.store.places import make_scores, same_scores


def test_the_default_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    with assay.store.open() as store:
        store.save(make_scores(1), "a")
    assert (tmp_path / "assay.db").exists()
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "other ?#%20é.db"))
    with assay.store.open() as store:
        assert len(store) == 0
    assert (tmp_path / "other ?#%20é.db").exists()
    with assay.store.open(f"sqlite:///{tmp_path}/assay.db") as store:
        assert len(store) == 1


@pytest.mark.parametrize(
    "place", ["", "mysql://h/d", "sqlite://", "sqlite:///:memory:", 3, b"x", "a\0b", "nonsense://"]
)
def test_places_that_make_no_sense(place):
    with pytest.raises(UsageError):
        assay.store.open(place)


def test_passwords_are_never_shown():
    url = "postgresql://me:secret@127.0.0.1:1/db?password=secret&connect_timeout=1"
    assert "secret" not in str(locate(url))
    with pytest.raises(StorageError) as caught:
        assay.store.open(url)
    assert "secret" not in str(caught.value)
    with pytest.raises(UsageError) as refused:
        assay.store.open("mysql://me:secret@h/d")
    assert "secret" not in str(refused.value)


def test_settings_of_the_file(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store, store.database.reading() as connection:
        pragma = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragma == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 60_000,
    }


def test_a_connection_in_use_is_closed_when_it_comes_back_to_a_closed_store(place):
    """As when a page of the dashboard is computed while the server ends."""
    store = assay.store.open(place)
    with store.database.reading() as late:
        held = late.connection.dbapi_connection
        store.close()
        late.execute(text("SELECT 1"))  # the reader is not disturbed
    with pytest.raises(Exception, match="closed"):
        held.execute("SELECT 1")
    with store.database.reading() as again:  # a closed store opens new connections
        kept = again.connection.dbapi_connection
    assert kept.execute("SELECT 1").fetchone() == (1,)
    store.close()
    with pytest.raises(Exception, match="closed"):
        kept.execute("SELECT 1")


def test_no_store_where_none_should_be_made(place):
    for settings in ({"create": False}, {"read_only": True}):
        with pytest.raises(StorageError, match="There is no store at"):
            assay.store.open(place, **settings)
    with assay.store.open(place) as store:
        assert len(store) == 0


def test_reading_only(place):
    with assay.store.open(place) as store:
        store.save(make_scores(1), "a")
        with assay.store.open(place, read_only=True) as reader:
            assert len(reader) == 1
            assert same_scores(reader.run(1).scores(), make_scores(1))
            store.save(make_scores(2), "b")
            assert len(reader) == 2
            for change in (
                lambda: reader.save(make_scores(1), "c"),
                lambda: reader.delete(1),
                lambda: reader.tag(1, "x"),
            ):
                with pytest.raises(StorageError, match="is open read-only"):
                    change()


def test_schemas_are_listed_from_the_oldest():
    assert known_versions() == sorted({FIRST_VERSION, *known_versions()})


def test_a_store_of_the_schema_before_is_upgraded(place, monkeypatch):
    make_old_store(place)
    monkeypatch.setitem(REVISIONS, NEXT, add_mood)
    with pytest.raises(StorageError, match=f"old schema {OLD}"):
        assay.store.open(place, read_only=True)
    with assay.store.open(place) as store:
        assert store.database.version == NEXT
        assert [run.name for run in store.runs()] == ["old 2", "old 1"]
        assert same_scores(store.run(1).scores(), make_scores(1))
        assert store.run(2).tags == ("t",)
        store.save(make_scores(1), "new")
        with store.database.reading() as connection:
            assert version_of(connection) == NEXT
            found = connection.execute(text("SELECT mood FROM runs ORDER BY id")).scalars()
            assert list(found) == ["fine", "fine", ""]
            found = connection.execute(text("SELECT true_map_micro FROM wide_results")).scalars()
            assert 0.25 in set(found)
        assert store.damages() == []


def test_an_upgrade_leaves_a_backup(tmp_path, monkeypatch):
    file = tmp_path / "assay.db"
    for number in (1, 2):
        file.unlink(missing_ok=True)
        make_old_store(file)
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"INSERT INTO tags (run_id, tag) VALUES (1, '{number}')")
        with monkeypatch.context() as patched:
            patched.setitem(REVISIONS, NEXT, add_mood)
            assay.store.open(file).close()
            assay.store.open(file).close()  # nothing to do: no further backup
        backup = tmp_path / f"assay.db.schema-{OLD}.backup-{number}"
        with closing(sqlite3.connect(backup)) as connection:
            (stored,) = connection.execute("SELECT version_num FROM assay_schema").fetchone()
            (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
        assert (stored, runs) == (OLD, 2)
    assert len(list(tmp_path.glob("*.backup-*"))) == 2


@pytest.mark.parametrize("version", ["0001", "0005"])
def test_a_store_from_before_the_first_release_is_refused(place, version):
    make_old_store(place)
    with assay.store.open(place) as store, store.database.writing() as connection:
        connection.execute(text(f"UPDATE assay_schema SET version_num = '{version}'"))
    for settings in ({}, {"read_only": True}):
        with pytest.raises(StorageError, match=f"old schema {version}. Export its runs"):
            assay.store.open(place, **settings)


def test_tables_have_the_columns_that_the_program_names(place):
    from sqlalchemy import inspect

    from assay.store.schema import OWN_TABLES, RUNS

    with assay.store.open(place) as store:
        inspector = inspect(store.database.engine)
        for table in (RUNS, *OWN_TABLES):
            made = {column["name"] for column in inspector.get_columns(table.name)}
            assert made == set(table.c.keys())


def test_a_new_store_has_the_schema_of_an_upgraded_one(tmp_path):
    """A schema that is changed only in revisions, or only where stores are created, is found."""
    shutil.copyfile(DATABASE, tmp_path / "old.db")
    assay.store.open(tmp_path / "new.db").close()
    created, upgraded = _objects(tmp_path / "new.db"), _objects(tmp_path / "old.db")
    assert created == upgraded
    assert {"runs_task", "wide_results", "runs_digest_stays"} <= {name for _, name, *_ in created}
    assert ("version", newest_version()) in created


def _objects(file):
    """Columns, indexes, triggers and views of a file, and its version; spaces count once."""
    assay.store.open(file).close()
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        found = [("version", *connection.execute("SELECT * FROM assay_schema").fetchone())]
        # The triggers by which all of a run goes were two in the file.
        found += [row for row in rows if row[0] != "table" and "_go" not in row[1]]
        for _, name, *_ in (row for row in rows if row[0] == "table"):
            columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
            found += [(name, *column[1:]) for column in columns]
    return {tuple(" ".join(str(cell).split()) for cell in row) for row in found}


def test_nothing_heavy_is_loaded_with_the_package():
    code = "import assay, assay.store, assay.cli.main, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sqlalchemy", "alembic", "numpy"} & set(done.stdout.split())


def test_only_upgrades_need_alembic(tmp_path):
    code = (
        "import sys; sys.modules['alembic'] = None; import assay.store\n"
        "from tests.store.places import make_scores\n"
        f"with assay.store.open({str(tmp_path / 's.db')!r}) as s: s.save(make_scores(1), 'a')\n"
        f"with assay.store.open({str(tmp_path / 's.db')!r}) as s: print(s.run(1).scores().mean())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Mean(micro" in done.stdout


def test_missing_packages_are_named(tmp_path):
    old = str(tmp_path / "old.db")
    make_old_store(old)
    hide = "import sys; sys.modules[{!r}] = None; import assay.store\n"
    revise = "from assay.store.schema import REVISIONS; REVISIONS['0008'] = print\n"
    for package, extra, code in (
        ("sqlalchemy", "store", f"assay.store.open({str(tmp_path / 'x.db')!r})"),
        ("sqlalchemy", "store", "assay.store.Store"),
        ("alembic", "store", f"{revise}assay.store.open({old!r})"),
        ("psycopg", "postgres", "assay.store.open('postgresql://x/y')"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", hide.format(package) + code],
            capture_output=True,
            text=True,
            check=False,
        )
        assert install_command(extra) in done.stderr
