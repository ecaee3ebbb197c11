"""A store that is written, upgraded, locked, damaged or removed while it is served."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import assay.store
from assay.errors import StorageError
from assay.web import app
from assay.web.app import StoreHandle
from tests.comparison.made_scores import made_scores
from tests.web.samples import Client


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(made_scores(1), "first", dataset="d")
    return tmp_path / "s.db"


def test_new_runs_are_seen_at_once(place):
    client = Client(place)
    assert client("/runs.json").json["total"] == 1
    with assay.store.open(place) as store, store.start_run("second") as run:
        run.progress(1, 2)
        assert client("/runs.json").json["runs"][0]["status"] == "running"
        run.set_result(made_scores(2))
    data = client("/runs.json").json
    assert [(row["name"], row["status"]) for row in data["runs"]] == [
        ("second", "finished"),
        ("first", "finished"),
    ]
    with assay.store.open(place) as store:
        store.delete(1)
    assert client("/run/1").status == 404
    assert client("/run/2").status == 200


def test_a_removed_store_is_said_to_be_gone_and_found_again(place, tmp_path):
    client = Client(place)
    assert client("/runs").status == 200
    aside = tmp_path / "aside"
    aside.mkdir()
    for file in tmp_path.glob("s.db*"):
        shutil.move(file, aside)
    gone = client("/runs")
    assert gone.status == 503
    assert "There is no store at" in gone.text
    assert client("/runs.json").json["status"] == 503
    for file in aside.glob("s.db*"):
        shutil.move(file, tmp_path)
    assert client("/runs").status == 200


def test_a_replaced_store_is_the_new_one(place, tmp_path):
    client = Client(place)
    assert client("/runs.json").json["runs"][0]["name"] == "first"
    with assay.store.open(tmp_path / "other.db") as store:
        store.save(made_scores(3), "another")
    for file in tmp_path.glob("s.db-*"):
        file.unlink()
    os.replace(tmp_path / "other.db", place)
    assert client("/runs.json").json["runs"][0]["name"] == "another"


def test_a_store_that_a_newer_version_upgrades_is_still_shown_with_a_word(place):
    client = Client(place)
    assert "newer version" not in client("/runs").text
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("ALTER TABLE runs ADD COLUMN mood TEXT")
        connection.execute("UPDATE assay_schema SET version_num = '9999'")
        connection.commit()
    page = client("/runs")
    assert page.status == 200
    assert "newer version" in page.text


def test_an_old_store_is_not_changed_but_explained(place):
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("UPDATE assay_schema SET version_num = '0001'")
        connection.commit()
    before = place.read_bytes()
    answer = Client(place)("/runs")
    assert answer.status == 503
    assert "old schema" in answer.text
    assert place.read_bytes() == before


def test_a_locked_store_is_said_to_be_locked(place, monkeypatch):
    monkeypatch.setattr(app, "BUSY_TIMEOUT", 50)
    client = Client(place)
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    assert client("/runs").status == 200
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        answer = client("/runs")
        assert answer.status == 503
        assert "Try again" in answer.text
        connection.execute("ROLLBACK")
    assert client("/runs").status == 200


def test_garbage_is_said_to_be_garbage(place):
    client = Client(place)
    assert client("/runs").status == 200
    for file in place.parent.glob("s.db-*"):
        file.unlink()
    place.unlink()
    place.write_bytes(b"garbage " * 1000)
    answer = client("/runs")
    assert answer.status == 503
    assert "not an SQLite database" in answer.text


def test_a_damaged_array_is_named(place):
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS blobs_stay_update")
        connection.execute("UPDATE blobs SET content = x'00' WHERE kind = 'values'")
        connection.commit()
    answer = Client(place)("/run/1")
    assert answer.status == 503
    assert "checksum" in answer.text
    assert "Run 1" in answer.text


def test_nothing_is_written(place):
    before = place.read_bytes()
    client = Client(place)
    for address in ("/runs", "/run/1", "/leaderboard", "/trends", "/compare", "/runs.csv"):
        assert client(address).status == 200
    store = client.source.store()
    assert store.read_only_reason
    with pytest.raises(StorageError):
        store.tag(1, "x")
    client.source.close()
    assert place.read_bytes() == before


def test_a_store_must_be_there_at_the_start(tmp_path):
    with pytest.raises(StorageError, match="There is no store"):
        StoreHandle(tmp_path / "none.db").store()
    assert not (tmp_path / "none.db").exists()
