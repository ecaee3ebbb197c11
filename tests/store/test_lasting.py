"""A finished run does not change, whoever tries and by whatever statement."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import select, text

import assay.store
from assay.errors import StorageError
from assay.store import QueryResults
from assay.store.schema import OWN_TABLES, RUNS
from tests.store.places import make_scores, same_scores

SHOWN = {"q": QueryResults("text", ())}
WIDE = {"tau": 3.0}
STATEMENTS = [
    *(
        f"UPDATE runs SET {column.name} = {column.name} WHERE id = 1"
        for column in RUNS.c
        if column.name not in ("notes", "marks")
    ),
    "UPDATE runs SET status = 'running'",
    "UPDATE runs SET notes = 'x', name = 'y'",
    "UPDATE aggregates SET value = 1",
    "UPDATE aggregates SET run_id = 2 WHERE run_id = 1",
    "UPDATE blobs SET content = ''",
    "UPDATE shown SET checksum = 'x'",
    "INSERT INTO aggregates (run_id, position, measure) VALUES (1, 99, 'AP')",
    "INSERT INTO shown (run_id, query_key, position, raw_bytes, checksum, content) "
    "VALUES (1, 'k', 9, 0, '', '')",
    "INSERT INTO blobs (run_id, kind, position, content) VALUES (1, 'values', 99, '')",
    "UPDATE aggregates SET run_id = 1 WHERE run_id = 2",
    "DELETE FROM aggregates WHERE run_id = 1 AND position = 0",
    "DELETE FROM blobs WHERE run_id = 1",
    "DELETE FROM shown",
]


def test_no_statement_changes_a_finished_run(place):
    with assay.store.open(place) as store:
        run = store.save(make_scores(1), "a", results=SHOWN, tags=["t"])
        running = store.begin(assay.store.RunRecord(name="b"))
        with store.database.writing() as connection:
            connection.execute(
                text("INSERT INTO aggregates (run_id, position, measure) VALUES (2, 0, 'AP')")
            )
        for statement in STATEMENTS:
            with (
                pytest.raises(StorageError, match="a finished run does not change"),
                store.database.writing() as connection,
            ):
                connection.execute(text(statement))
        assert store.run(1) == run
        assert same_scores(store.run(1).scores(), make_scores(1))
        assert (run.results("q"), store.run(running.id).status) == (SHOWN["q"], "running")


@pytest.mark.parametrize("taken", ["id", "uid"])
def test_no_row_takes_the_place_of_a_finished_run(tmp_path, taken):
    with assay.store.open(tmp_path / "s.db") as store:
        run = store.save(None, "a")
        values = {"id": run.id, "uid": "u"} if taken == "id" else {"id": 7, "uid": run.uid}
        with (
            pytest.raises(StorageError, match="a finished run does not change"),
            store.database.writing() as connection,
        ):
            connection.execute(
                text(
                    "INSERT OR REPLACE INTO runs (id, uid, name, status) "
                    "VALUES (:id, :uid, 'x', 'failed')"
                ),
                values,
            )
        assert store.runs() == [run]


def test_tags_notes_and_deletion_stay_possible(place):
    with assay.store.open(place) as store:
        store.save(make_scores(1), "a", results=SHOWN, wide=WIDE)
        store.tag(1, "x")
        store.note(1, "seen")
        assert (store.run(1).tags, store.run(1).notes) == (("x",), "seen")
        store.untag(1, "x")
        store.save(make_scores(2), "b", results=SHOWN, tags=["y"], wide=WIDE)
        store.delete(1)
        assert _owners(store) == {2}
        with store.database.writing() as connection:
            connection.execute(text("DELETE FROM runs"))
        assert (len(store), _owners(store)) == (0, set())


def _owners(store):
    """The runs that rows belong to; only whole runs have any."""
    with store.database.reading() as connection:
        found = [set(connection.execute(select(table.c.run_id)).scalars()) for table in OWN_TABLES]
    assert all(one == found[0] for one in found)
    return found[0]


def test_a_shell_that_knows_no_foreign_keys_leaves_no_rows_behind(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(make_scores(1), "a", results=SHOWN, tags=["x"], wide=WIDE)
        with closing(sqlite3.connect(tmp_path / "s.db")) as shell, shell:
            with pytest.raises(sqlite3.IntegrityError, match="does not change"):
                shell.execute("DELETE FROM blobs")
            shell.execute("DELETE FROM runs")
        assert _owners(store) == set()
        assert store.damages() == []


def test_lost_aggregates_are_a_damage(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        run = store.save(make_scores(1), "a")
        with store.database.writing() as connection:
            connection.execute(text("DROP TRIGGER aggregates_stay_delete"))
            connection.execute(
                text("DELETE FROM aggregates WHERE measure = :one"), {"one": run.measures[0]}
            )
        changed, lost = store.damages()
        assert "Run 1 ('a'): digest mismatch" in changed
        assert f"no aggregate of {run.measures[0]}" in lost


def test_rows_of_a_run_that_did_not_finish_may_go(place):
    with assay.store.open(place) as store:
        store.save(make_scores(1), "a")
        run = store.begin(assay.store.RunRecord(name="b"))
        run.save_part("part", make_scores(2))
        run.fail(ValueError("no more"))
        with store.database.writing() as connection:
            assert connection.execute(text("DELETE FROM blobs WHERE run_id = 2")).rowcount > 0
        store.delete(2)
        assert [run.id for run in store.runs()] == [1]


def test_runs_that_did_not_finish_may_change(place):
    with assay.store.open(place) as store:
        with pytest.raises(ZeroDivisionError), store.start_run("a"):
            1 / 0  # noqa: B018
        with store.start_run("a", resume=1) as run:
            run.set_result(make_scores(1))
        assert store.run(1).status == "finished"
