"""What is shown of a query: stored beside the scores, read one query at a time."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sqlalchemy import event, text

import assay.store
from assay.errors import FormatError, StorageError, UsageError
from assay.store import QueryResults, ResultDoc
from tests.store.places import HOSTILE, make_scores, without_guards

FOUND = ResultDoc("d1", 0.1 + 0.2, 2.0, "a cat")
SHOWN = {
    "q0000é": QueryResults(
        "cats?", (FOUND, ResultDoc("d2", -1e300, None)), (ResultDoc("d9", None, 1),)
    ),
    "q0001é": QueryResults("", ()),
    "q" * 5000: QueryResults("an id that no index of a database takes", ()),
}


def test_what_is_stored_comes_back(place):
    with assay.store.open(place) as store:
        run = store.save(make_scores(1), "a", results=SHOWN)
        bare = store.save(make_scores(1), "b")
        assert run.all_results() == SHOWN
        assert list(run.all_results()) == list(SHOWN)
        assert [run.results(query) for query in SHOWN] == list(SHOWN.values())
        assert run.results("q0002é") is None
        assert (run.has_results, bare.has_results) == (True, False)
        assert (bare.results("q0000é"), bare.all_results()) == (None, {})
        assert run.record().results == SHOWN
        assert run.scores().query_ids == bare.scores().query_ids
        store.delete(run.id)
        with store.database.reading() as connection:
            assert connection.execute(text("SELECT count(*) FROM shown")).scalar() == 0


def test_by_way_of_a_running_run_and_integer_ids(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        with store.start_run("a") as running:
            running.set_result(
                make_scores(1, text=False), results={"0": QueryResults("zero", (FOUND,))}
            )
        run = store.run(running.id)
        assert run.results(0) == run.results("0") == QueryResults("zero", (FOUND,))


def test_hostile_texts_everywhere(place):
    shown = {
        name: QueryResults(name, (ResultDoc(name, 1.0, None, name),), (ResultDoc(name, None, 1.0),))
        for name in HOSTILE
    }
    with assay.store.open(place) as store:
        run = store.save(None, "a", results=shown)
        assert run.all_results() == shown
        assert all(run.results(name) == shown[name] for name in HOSTILE)


def test_one_query_is_read_without_the_others(tmp_path):
    shown = {str(i): QueryResults(f"text {i}", (FOUND,)) for i in range(300)}
    with assay.store.open(tmp_path / "s.db") as store:
        run = store.save(make_scores(1), "a", results=shown)
        asked: list[str] = []
        event.listen(
            store.database.engine, "before_cursor_execute", lambda *given: asked.append(given[2])
        )
        assert run.results("7") == shown["7"]
        (statement,) = [one for one in asked if "shown" in one]
        assert "query_key IN (?)" in statement
        assert not any("blobs" in one for one in asked)
        with store.database.reading() as connection:
            (plan,) = connection.execute(
                text("EXPLAIN QUERY PLAN SELECT * FROM shown WHERE run_id = 1 AND query_key = 'x'")
            )
        assert "run_id=? AND query_key=?" in plan[-1]


def test_export_and_import(tmp_path):
    shown = SHOWN | {name: QueryResults(name, (ResultDoc(name, 0.1, 0),)) for name in HOSTILE}
    with assay.store.open(tmp_path / "a.db") as store:
        store.save(make_scores(1), "a", results=shown)
        store.export(tmp_path / "runs.json")
    with assay.store.open(tmp_path / "b.db") as other:
        (run,) = other.load(tmp_path / "runs.json")
        assert run.status == "finished"
        assert list(run.all_results().items()) == list(shown.items())
    with assay.store.open(tmp_path / "c.db") as other:  # a file of an earlier version
        data = json.loads((tmp_path / "runs.json").read_text())
        for key in ("shown", "digest"):
            del data["runs"][0][key]
        (tmp_path / "old.json").write_text(json.dumps(data))
        (run,) = other.load(tmp_path / "old.json")
        assert not run.has_results


@pytest.mark.parametrize(
    "bad",
    [
        3,
        [3],
        [["q", 3]],
        [["q", {}]],
        [[3, {"text": "", "results": [], "missed": []}]],
        [["q", {"text": 3, "results": [], "missed": []}]],
        [["q", {"text": "", "results": [["d", 1]], "missed": []}]],
        [["q", {"text": "", "results": [["d", "1", 1, ""]], "missed": []}]],
        [["q", {"text": "", "results": {}, "missed": []}]],
        [["q", {"text": "", "results": [], "missed": []}]] * 2,
    ],
    ids=str,
)
def test_flaws_of_a_file_are_named(tmp_path, bad):
    with assay.store.open(tmp_path / "a.db") as store:
        store.save(make_scores(1), "a")
        store.export(tmp_path / "runs.json")
        data = json.loads((tmp_path / "runs.json").read_text())
        data["runs"][0] |= {"shown": bad, "uid": "0" * 32}
        (tmp_path / "runs.json").write_text(json.dumps(data))
        with pytest.raises(FormatError, match=r"runs\.json, run 0"):
            store.load(tmp_path / "runs.json")
        assert len(store) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: ResultDoc(3, 1.0, 1.0),
        lambda: ResultDoc("d", "1", None),
        lambda: ResultDoc("d", True, 1),
        lambda: ResultDoc("d", np.inf, None),
        lambda: ResultDoc("d", None, np.nan),
        lambda: ResultDoc("d", 1, 1, None),
        lambda: QueryResults(None, ()),
        lambda: QueryResults("t", ("d",)),
        lambda: QueryResults("t", (), (3,)),
    ],
    ids=range(9),
)
def test_what_cannot_be_shown_is_refused(make):
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize("shown", [3, {3: QueryResults("", ())}, {"q": "text"}], ids=str)
def test_a_mapping_of_something_else_is_refused(tmp_path, shown):
    with assay.store.open(tmp_path / "s.db") as store:
        with pytest.raises(UsageError, match="results"):
            store.save(make_scores(1), "a", results=shown)
        assert len(store) == 0


def test_damage_is_noticed_by_its_checksum(place):
    with assay.store.open(place) as store:
        run = store.save(make_scores(1), "a", results=SHOWN)
        with without_guards(store) as connection:
            connection.execute(
                text("UPDATE shown SET content = :x WHERE position = 0"), {"x": b"rubbish"}
            )
        with pytest.raises(StorageError, match=r"Run 1 \('a'\).*checksum"):
            run.results("q0000é")
        assert run.results("q0001é") == SHOWN["q0001é"]
        assert len(store.damages()) == 1


def test_rows_that_changed_places_are_noticed(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        run = store.save(
            None, "a", results={"a": QueryResults("1", ()), "b": QueryResults("2", ())}
        )
        with without_guards(store) as connection:
            rows = connection.execute(text("SELECT query_key FROM shown ORDER BY position"))
            first, second = rows.scalars()
            for old, new in ((first, "x"), (second, first), ("x", second)):
                connection.execute(
                    text("UPDATE shown SET query_key = :n WHERE query_key = :o"),
                    {"n": new, "o": old},
                )
        with pytest.raises(StorageError, match="The results of query 'b' are damaged"):
            run.results("a")
