"""Where a store is, how it is made, and how an old one is led to the newest schema."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import create_engine, text

import assay.store
from assay.errors import StorageError, UsageError
from assay.store.database import locate
from assay.store.migrations import known_versions, newest_version, upgrade, version_of
from assay.store.sqlite import WRITES, make_engine
from tests.store.places import make_scores, same_scores
from tests.store.private_postgres import new_database


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


def test_no_store_where_none_should_be_made(place):
    for settings in ({"create": False}, {"read_only": True}):
        with pytest.raises(StorageError, match="There is no store"):
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
                with pytest.raises(StorageError, match="for reading only"):
                    change()


def test_schemas_are_numbered_without_gaps():
    assert known_versions() == [f"{i + 1:04}" for i in range(len(known_versions()))]


@contextmanager
def _upgrading(place, version):
    """A transaction in which an empty database was upgraded, script by script."""
    location = locate(place)
    if location.file is not None:
        engine = make_engine(location.file, read_only=False)
    else:
        engine = create_engine(location.url)
    with engine.connect() as plain, plain.execution_options(**{WRITES: True}).begin() as begun:
        upgrade(begun.connection, version)
        yield begun.connection
    engine.dispose()


def _old_store(place, version):
    """A store as an earlier version of the program left it, with two runs."""
    with _upgrading(place, version) as connection:
        for name in ("old 1", "old 2"):
            connection.execute(
                text(
                    "INSERT INTO runs (uid, batch, name, status, created, updated, seconds, "
                    "config) VALUES (:name, 'b', :name, 'running', '2026-01-01T00:00:00.000000Z', "
                    "'', 1.5, '{\"k\": 1}')"
                ),
                {"name": name},
            )
        connection.execute(
            text(
                "INSERT INTO aggregates (run_id, position, measure, average, value, value_skip, "
                "method) VALUES (1, 0, 'AP', 'micro', 0.25, 0.25, 'bca by scene by day'), "
                "(2, 0, 'AP', 'micro', 0.25, 0.25, 't')"
            )
        )
        connection.execute(text("INSERT INTO tags (run_id, tag) VALUES (2, 't')"))
        connection.execute(text("UPDATE runs SET status = 'finished'"))


@pytest.mark.parametrize("version", known_versions()[:-1])
def test_every_earlier_schema_is_upgraded(place, version):
    _old_store(place, version)
    with pytest.raises(StorageError, match=f"old schema {version}"):
        assay.store.open(place, read_only=True)
    with assay.store.open(place) as store:
        assert store.database.version == newest_version()
        assert [run.name for run in store.runs()] == ["old 2", "old 1"]
        assert store.run(1).aggregate("AP").value == 0.25
        assert (store.run(2).tags, store.run(1).done) == (("t",), 0)
        store.save(make_scores(1), "new")
        with store.database.reading() as connection:
            assert version_of(connection) == newest_version()
            found = connection.execute(text("SELECT true_map_micro FROM wide_results")).scalars()
            assert 0.25 in set(found)
        assert store.damages() == []


@pytest.mark.parametrize("version", known_versions()[:3])
def test_clusters_are_taken_out_of_the_method(place, version):
    """They were part of it up to schema 0003; finished runs are guarded again afterwards."""
    _old_store(place, version)
    with assay.store.open(place) as store:
        one, two = (store.run(number).aggregate("AP") for number in (1, 2))
        assert (one.method, one.clusters) == ("bca", "scene by day")
        assert one.to_dict()["method"] == "bca by scene by day"
        assert (two.method, two.clusters) == ("t", "")
        assert (store.run(1).clusters, store.run(2).clusters) == ("scene by day", "")
        for column in ("method", "clusters"):
            with (
                pytest.raises(StorageError, match="a finished run does not change"),
                store.database.writing() as connection,
            ):
                connection.execute(text(f"UPDATE aggregates SET {column} = 'x'"))


@pytest.mark.parametrize("version", known_versions()[:-1])
def test_an_upgrade_leaves_a_backup(tmp_path, version):
    file = tmp_path / "assay.db"
    for number in (1, 2):
        file.unlink(missing_ok=True)
        _old_store(str(file), version)
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"INSERT INTO tags (run_id, tag) VALUES (1, '{number}')")
        assay.store.open(file).close()
        backup = tmp_path / f"assay.db.schema-{version}.backup-{number}"
        with closing(sqlite3.connect(backup)) as connection:
            (stored,) = connection.execute("SELECT version_num FROM assay_schema").fetchone()
            (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
        assert (stored, runs) == (version, 2)
    assay.store.open(file).close()  # nothing to do: no further backup
    assert len(list(tmp_path.glob("*.backup-*"))) == 2


def test_tables_and_migrations_agree(place):
    """The columns that the program names are those that the scripts make."""
    from sqlalchemy import inspect

    from assay.store.schema import OWN_TABLES, RUNS

    with assay.store.open(place) as store:
        inspector = inspect(store.database.engine)
        for table in (RUNS, *OWN_TABLES):
            made = {column["name"] for column in inspector.get_columns(table.name)}
            assert made == set(table.c.keys())


def test_a_new_store_is_what_all_upgrades_make(place, tmp_path, request):
    """Created at once; a schema that is changed in the scripts only, or there only, is found."""
    assay.store.open(place).close()
    upgraded = str(tmp_path / "upgraded.db")
    if place.startswith("postgres"):
        upgraded = new_database(request.config)
    with _upgrading(upgraded, newest_version()):
        pass
    created, expected = _objects(place), _objects(upgraded)
    assert created == expected
    assert {"runs", "wide_results", "runs_digest_stays"} <= {name for _, name, *_ in created}
    assert ("version", newest_version()) in created


_CATALOGUE = {
    "sqlite": ["SELECT type, name, tbl_name, sql FROM sqlite_master"],
    "postgresql": [
        "SELECT 'column', attname, attrelid::regclass::text, attnum, attnotnull, "
        "format_type(atttypid, atttypmod), pg_get_expr(adbin, adrelid), attidentity, "
        "pg_get_serial_sequence(attrelid::regclass::text, attname) FROM pg_attribute "
        "JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid "
        "AND adnum = attnum WHERE relnamespace = 'public'::regnamespace AND attnum > 0",
        "SELECT relkind, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace",
        "SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "SELECT 'constraint', conname, conrelid::regclass::text, pg_get_constraintdef(oid) "
        "FROM pg_constraint WHERE connamespace = 'public'::regnamespace",
        "SELECT 'trigger', tgname, pg_get_triggerdef(oid), tgenabled FROM pg_trigger "
        "WHERE NOT tgisinternal",
        "SELECT 'function', proname, prosrc, pg_get_functiondef(oid) FROM pg_proc "
        "WHERE pronamespace = 'public'::regnamespace",
        "SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = 'public'",
    ],
}


def _objects(place: str) -> set[tuple[object, ...]]:
    """Everything that the catalogue of a database holds, and the version; spaces count once."""
    with assay.store.open(place, read_only=True) as store, store.database.reading() as connection:
        asked = [*_CATALOGUE[connection.dialect.name], "SELECT 'version', * FROM assay_schema"]
        found = [row for query in asked for row in connection.execute(text(query))]
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
    _old_store(old, known_versions()[0])
    for package, extra, place in (
        ("sqlalchemy", "store", str(tmp_path / "x.db")),
        ("alembic", "store", old),
        ("psycopg", "postgres", "postgresql://x/y"),
    ):
        code = (
            f"import sys; sys.modules[{package!r}] = None; import assay.store\n"
            f"assay.store.open({place!r})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert f'pip install "assay-eval[{extra}]"' in done.stderr
