"""A finished run does not change, whoever tries and by whatever statement."""

from __future__ import annotations

import pytest
from sqlalchemy import text

import assay.store
from assay.errors import StorageError
from assay.store import ShownQuery
from assay.store.schema import RUNS
from tests.store.places import make_scores, same_scores

SHOWN = {"q": ShownQuery("text", ())}
STATEMENTS = [
    *(f"UPDATE runs SET {column.name} = {column.name} WHERE id = 1"
      for column in RUNS.c if column.name != "notes"),
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
]  # fmt: skip


def test_no_statement_changes_a_finished_run(place):
    with assay.store.open(place) as store:
        run = store.save(make_scores(1), "a", shown=SHOWN, tags=["t"])
        running = store.begin(assay.store.About(name="b"))
        with store.database.writing() as connection:
            connection.execute(text("INSERT INTO aggregates (run_id, position, measure) "
                                    "VALUES (2, 0, 'AP')"))  # fmt: skip
        for statement in STATEMENTS:
            with (
                pytest.raises(StorageError, match="a finished run does not change"),
                store.database.writing() as connection,
            ):
                connection.execute(text(statement))
        assert store.run(1) == run
        assert same_scores(store.run(1).scores(), make_scores(1))
        assert (run.shown("q"), store.run(running).status) == (SHOWN["q"], "running")


@pytest.mark.parametrize("taken", ["id", "uid"])
def test_no_row_takes_the_place_of_a_finished_run(tmp_path, taken):
    with assay.store.open(tmp_path / "s.db") as store:
        run = store.save(None, "a")
        values = {"id": run.id, "uid": "u"} if taken == "id" else {"id": 7, "uid": run.uid}
        with (
            pytest.raises(StorageError, match="a finished run does not change"),
            store.database.writing() as connection,
        ):
            connection.execute(text("INSERT OR REPLACE INTO runs (id, uid, name, status) "
                                    "VALUES (:id, :uid, 'x', 'failed')"), values)  # fmt: skip
        assert store.runs() == [run]


def test_tags_notes_and_deletion_stay_possible(place):
    with assay.store.open(place) as store:
        store.save(make_scores(1), "a", shown=SHOWN)
        store.tag(1, "x")
        store.note(1, "seen")
        assert (store.run(1).tags, store.run(1).notes) == (("x",), "seen")
        store.untag(1, "x")
        store.delete(1)
        assert len(store) == 0


def test_runs_that_did_not_finish_may_change(place):
    with assay.store.open(place) as store:
        with pytest.raises(ZeroDivisionError), store.running("a"):
            1 / 0  # noqa: B018
        with store.running("a", resume=1) as run:
            run.result(make_scores(1))
        assert store.run(1).status == "finished"
