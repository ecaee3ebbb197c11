"""Saving, finding, tagging, deleting; running, failed and resumed runs; cheap lists."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sqlalchemy import event, text

import assay.store
from assay import Scores, evaluate
from assay.errors import StorageError, UsageError
from assay.stats import intervals
from assay.store import Aggregate
from tests.store.places import HOSTILE, make_scores, same_scores


def test_a_saved_run_holds_what_it_was_told(place):
    with assay.store.open(place) as store:
        run = store.save(
            make_scores(1),
            "bm25",
            task="retrieval",
            dataset="cran",
            model="bm",
            seconds=2.5,
            timings={"rank": 2.0},
            tags=["b", "a", "b"],
            notes="n",
            config={"k1": 0.9},
            seeds={"seed": 3},
            data={"qrels": {"sha256": "0"}},
        )
        assert store.run(run.id) == store.run(str(run.id)) == store.run(run.uid[:8]) == run
        assert store.runs() == [run]
    assert (run.id, run.status, run.message) == (1, "finished", "")
    assert (run.task, run.dataset, run.model) == ("retrieval", "cran", "bm")
    assert run.tags == ("a", "b")
    assert (run.seconds, run.timings) == (2.5, {"rank": 2.0})
    assert (run.config, run.seeds, run.notes) == ({"k1": 0.9}, {"seed": 3}, "n")
    assert run.versions["assay"] == assay.__version__
    assert run.versions["numpy"] == np.__version__
    assert run.created <= run.finished
    assert run.signature == make_scores(1).signature
    assert run.measures == ("nDCG@10", "AP", "Success@1")


@pytest.mark.parametrize("empty", ["skip", "zero", "error"])
@pytest.mark.parametrize("missing", ["skip", "zero", "error"])
def test_aggregates_are_the_means_with_intervals_and_counts(tmp_path, empty, missing):
    from dataclasses import replace

    scores = make_scores(2, 40)
    scores = replace(scores, conventions=scores.conventions.replace(empty=empty, missing=missing))
    rule, gone = ("skip" if r == "error" else r for r in (empty, missing))
    with assay.store.open(tmp_path / "s.db") as store:
        run = store.save(scores, "a")
    mean = scores.mean(empty=rule, missing=gone)
    skip, zero = (scores.mean(empty=e, missing=gone) for e in ("skip", "zero"))
    macro = scores.mean(by="scene", empty=rule, missing=gone)
    for name in mean:
        one = run.aggregate(name)
        assert (one.value, one.value_skip, one.value_zero) == (mean[name], skip[name], zero[name])
        counts = mean.counts[name]
        assert (one.n, one.empty, one.missing, one.tied) == (
            counts.n,
            counts.empty,
            counts.missing,
            counts.tied,
        )
        assert run.aggregate(name, average="macro", by="scene").value == macro[name]
        kept = scores[name] if gone == "zero" else scores[name][~scores.missing]
        used = np.where(np.isnan(kept), 0.0, kept) if rule == "zero" else kept[~np.isnan(kept)]
        (span,) = intervals([used], bounds=[(0.0, 1.0)])
        assert (one.low, one.high) == pytest.approx((span.low, span.high), rel=1e-12)
        assert one.low <= one.value <= one.high


def test_sums_and_geometric_means_have_no_interval(tmp_path):
    qrels = {f"q{i}": {"a": 1} for i in range(9)}
    scores = evaluate({q: {"a": 1.0} for q in qrels}, qrels, ["num_rel", "GMAP", "AP"])
    with assay.store.open(tmp_path / "s.db") as store:
        run = store.save(scores, "a")
    assert run.aggregate("num_rel").low is None
    assert run.aggregate("GMAP").low is None
    assert run.aggregate("AP").level == 0.95


def test_chance_and_numbers_of_a_task(place):
    more = [Aggregate("F1(avg=macro)", 0.25, average="classes"), Aggregate("x", math.nan)]
    means = dict(make_scores(1).mean(empty="skip"))
    with assay.store.open(place) as store:
        run = store.save(
            make_scores(1),
            "a",
            chance=means,
            ceiling=means,
            aggregates=more,
            details={"ranks": [1, 2]},
        )
        assert run.details() == {"ranks": [1, 2]}
        bare = store.save(None, "bare", aggregates=more)
        with pytest.raises(StorageError, match=r"Run 2 \('bare'\): The store lacks the per-query"):
            bare.scores()
    assert run.aggregate("AP").chance == run.aggregate("AP").ceiling == means["AP"]
    assert run.aggregate("F1(avg=macro)", average="classes").value == 0.25
    assert bare.means() == {"F1(avg=macro)": 0.25, "x": None}
    with pytest.raises(UsageError, match="no value of"):
        bare.aggregate("AP")


def test_filters(place):
    with assay.store.open(place) as store:
        a = store.save(make_scores(1), "a", task="t1", dataset="d1", model="m1", tags=["x", "y"])
        b = store.save(make_scores(2), "b", task="t1", dataset="d2", tags=["x"])
        qrels = {"q": {"a": 1}}
        c = store.save(evaluate({"q": {"a": 1}}, qrels, "RR"), "c", task="t2", dataset="d1")
        day = datetime.now(UTC).date()
        cases = [
            ({}, [c, b, a]),
            ({"task": "t1"}, [b, a]),
            ({"dataset": "d1"}, [c, a]),
            ({"task": "t1", "dataset": "d1"}, [a]),
            ({"model": "b"}, [b]),
            ({"name": "c"}, [c]),
            ({"tag": "x"}, [b, a]),
            ({"tag": ["x", "y"]}, [a]),
            ({"tag": ()}, [c, b, a]),
            ({"measure": "map"}, [b, a]),
            ({"measure": "RR"}, [c]),
            ({"task": None}, [c, b, a]),
            ({"status": "finished"}, [c, b, a]),
            ({"status": "running"}, []),
            ({"since": day}, [c, b, a]),
            ({"since": day + timedelta(2)}, []),
            ({"until": day.isoformat()}, [c, b, a]),
            ({"until": "2020-01-01"}, []),
            ({"since": b.created}, [c, b]),
            ({"until": b.created}, [a]),
            ({"limit": 1}, [c]),
            ({"limit": 1, "offset": 1}, [b]),
            ({"id": [a.id, c.id]}, [c, a]),
            ({"name": ["a", "b"]}, [b, a]),
            ({"batch": a.batch}, [a]),
            ({"name": "' OR 1=1"}, []),
        ]
        shown = (
            "id",
            "uid",
            "name",
            "task",
            "dataset",
            "model",
            "status",
            "message",
            "created",
            "seconds",
            "n_queries",
            "conventions",
            "tags",
        )
        for filters, expected in cases:
            assert store.runs(**filters) == expected, filters
            lines = store.summaries(**filters)
            assert [one.means() for one in lines] == [run.means() for run in expected]
            for one, run in zip(lines, expected, strict=True):
                assert [getattr(one, k) for k in shown] == [getattr(run, k) for k in shown]
        assert [list(one.means()) for one in store.summaries(measures=["map"])] == [
            [],
            ["AP"],
            ["AP"],
        ]
        with pytest.raises(UsageError, match="Unknown filter 'modle'"):
            store.runs(modle="x")
        with pytest.raises(UsageError, match="Cannot read the date 'yesterday'"):
            store.runs(since="yesterday")
        frame = store.to_frame(task="t1")
        assert frame["id"].tolist() == [b.id, a.id]
        assert frame["AP"].tolist() == [b.means()["AP"], a.means()["AP"]]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(tmp_path, backend):
    with assay.store.open(tmp_path / "s.db") as store:
        assert len(store.to_frame(backend)) == 0
        store.save(make_scores(1), "a", tags=["p", "q"])
        assert len(store.to_frame(backend)) == 1


def test_runs_that_are_not_there(place):
    with assay.store.open(place) as store:
        with pytest.raises(UsageError, match="the store is empty"):
            store.run(1)
        store.save(make_scores(1), "a")
        for key in (0, -1, 2, 10**12, "2", "9" * 7, "f" * 32):
            with pytest.raises(UsageError, match=r"no run|the last one is 1"):
                store.run(key)
        for key in ("", "abc", "%" * 8, None, 1.5, True, "１２"):
            with pytest.raises(UsageError, match=r"is not a run\. Pass its number"):
                store.run(key)


def test_tags_notes_and_deletion(place):
    with assay.store.open(place) as store:
        one, two = store.save(make_scores(1), "a"), store.save(make_scores(2), "b", tags=["t"])
        store.tag(one.id, "x", "y")
        store.tag(one.id, "x", "z")
        store.untag(one.id, "y", "never")
        store.note(one.id, "first")
        store.note(one.id, "second")
        assert (store.run(one.id).tags, store.run(one.id).notes) == (("x", "z"), "second")
        store.delete(one.id)
        assert [run.id for run in store.runs()] == [two.id]
        with pytest.raises(UsageError, match="Unknown run 1"):
            store.delete(one.id)
        assert store.save(make_scores(3), "c").id == 3  # the number 1 is not given again
        store.delete(3)
        assert store.save(make_scores(3), "c").id == 4
        with store.database.reading() as connection:
            for table in ("aggregates", "blobs", "tags"):
                ids = connection.execute(text(f"SELECT DISTINCT run_id FROM {table}")).scalars()
                assert set(ids) <= {2, 4}
        assert store.damages() == []


def test_running_runs_are_seen_by_others(place):
    with assay.store.open(place) as store, assay.store.open(place) as other:
        with store.start_run("slow", task="t") as run:
            seen = other.run(run.id)
            assert (seen.status, seen.finished, seen.aggregates) == ("running", None, ())
            run.progress(3, 10)
            assert (other.run(run.id).done, other.run(run.id).total) == (3, 10)
            run.add_timing("rank", 0.5)
            run.set_result(make_scores(1))
            assert other.run(run.id).status == "running"
        done = other.run(run.id)
        assert (done.status, done.timings) == ("finished", {"rank": 0.5})
        assert done.seconds > 0
        assert same_scores(done.scores(), make_scores(1))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("bad\x00 thing"), "ValueError: bad\x00 thing"),
        (UsageError("Do it so."), "Do it so."),
        (KeyboardInterrupt(), "KeyboardInterrupt: interrupted"),
    ],
)
def test_failed_runs_say_why(place, error, message):
    with assay.store.open(place) as store:
        with pytest.raises(type(error)), store.start_run("a"):
            raise error
        run = store.run(1)
    assert (run.status, run.message, run.finished) == ("failed", message, None)


def test_finished_runs_are_immutable(place):
    with assay.store.open(place) as store:
        with store.start_run("a") as run:
            run.set_result(make_scores(1))
        before = store.run(run.id)
        for change in (
            lambda: run.progress(1, 2),
            lambda: run.save_part("p", make_scores(2)),
            run.finish,
            lambda: store.finish_together(run, [], seconds=1.0),
        ):
            with pytest.raises((UsageError, ValueError)):
                change()
        run.fail(ValueError("late"))
        with pytest.raises(UsageError, match="is finished"), store.start_run("a", resume=run.id):
            pass
        assert store.run(run.id) == before
        assert same_scores(before.scores(), make_scores(1))


def test_a_deleted_run_cannot_finish(place):
    with assay.store.open(place) as store:
        running = store.start_run("a")
        store.delete(running.__enter__().id)
        with pytest.raises(UsageError, match="was deleted"):
            running.__exit__(None, None, None)


def test_resuming_needs_the_same_request(place):
    with assay.store.open(place) as store:
        with pytest.raises(ValueError, match="x"), store.start_run("a", config={"k": 1}):
            raise ValueError("x")
        other = store.start_run("a", config={"k": 2}, resume=1)
        with pytest.raises(UsageError, match="Run 1 cannot be resumed: config changed"):
            other.__enter__()
        with store.start_run("a", config={"k": 1}, resume=1) as run:
            run.set_result(make_scores(1))
        assert (store.run(1).status, store.run(1).message, len(store)) == ("finished", "", 1)


def test_lists_load_no_arrays(place):
    seen = []
    with assay.store.open(place) as store:
        for seed in range(5):
            store.save(make_scores(seed), f"r{seed}", tags=["t"])
        event.listen(
            store.database.engine, "before_cursor_execute", lambda *given: seen.append(given[2])
        )
        runs = store.runs(task="", tag="t", measure="AP")
        assert len(runs) == 5
        statements = [s for s in seen if s.startswith("SELECT")]
        assert len(statements) == 3  # however many runs there are
        assert not any("blobs" in s for s in statements)
        seen.clear()
        runs[0].values("AP")
        assert sum("blobs" in s for s in seen) == 1


@pytest.mark.parametrize(
    "clause",
    [
        "task = 'x'",
        "dataset = 'x'",
        "model = 'x'",
        "created > 'x'",
        "status = 'x'",
        "name = 'x'",
        "batch = 'x'",
    ],
)
def test_filters_use_indexes(tmp_path, clause):
    with assay.store.open(tmp_path / "s.db") as store, store.database.reading() as connection:
        plan = connection.execute(text(f"EXPLAIN QUERY PLAN SELECT id FROM runs WHERE {clause}"))
        assert "USING" in str(plan.all())
        plan = connection.execute(text("EXPLAIN QUERY PLAN SELECT * FROM tags WHERE tag = 'x'"))
        assert "USING INDEX tags_tag" in str(plan.all())


def test_the_wide_view(place):
    scores = make_scores(4, 30)
    more = [
        Aggregate(
            "AP", 0.5, average="macro", by_column="scene", subset="viewpoint", value_skip=0.5
        ),
        Aggregate("PooledAP", 0.75, average="pooled", subset="verification"),
    ]
    with assay.store.open(place) as store:
        store.save(scores, "sift", aggregates=more, seconds=2.0, config={"tau": 3})
        store.save(None, "nothing")
        with store.database.reading() as connection:
            rows = connection.execute(text("SELECT * FROM wide_results ORDER BY run_id"))
            row, empty = rows.mappings().all()
    rule = scores.conventions.missing
    expected = {
        "descriptor": "sift",
        "true_map_micro": scores.mean(empty="skip", missing=rule)["AP"],
        "true_map_micro_including_zeros": scores.mean(empty="zero", missing=rule)["AP"],
        "true_map_macro": scores.mean(by="scene", empty="skip")["AP"],
        "true_map_macro_by_scene": scores.mean(by="scene", empty="skip")["AP"],
        "true_map_macro_by_scene_including_zeros": scores.mean(by="scene", empty="zero")["AP"],
        "precision_at_1": scores.mean(empty="skip")["Success@1"],
        "recall_at_1": scores.mean(empty="skip")["Success@1"],
        "precision_at_5": None,
        "viewpoint_map": 0.5,
        "illumination_map": None,
        "keypoint_verification_ap": 0.75,
        "mean_average_precision": scores.mean(by="scene", empty="skip")["AP"],
        "processing_time_ms": 2000.0,
        "metadata": None,
    }
    assert {key: row[key] for key in expected} == expected
    assert empty["true_map_micro"] is None


@pytest.mark.parametrize(
    "about",
    [
        {"nmae": "x"},
        {"task": 1},
        {"task": "x" * 501},
        {"tags": "text"},
        {"tags": [""]},
        {"tags": [1]},
        {"config": [1]},
        {"config": {"x": object()}},
        {"notes": None},
        {"dataset": None},
        {"tags": ["y" * 501]},
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is(place, about):
    with assay.store.open(place) as store:
        with pytest.raises(UsageError):
            store.save(make_scores(1), "a", **about)
        with pytest.raises(UsageError), store.start_run("a", **about):
            pass
        assert len(store) == 0


def test_names_must_be_names(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        for name in ("", None, 3, "x" * 501):
            with pytest.raises(UsageError):
                store.save(make_scores(1), name)
        with pytest.raises(UsageError):
            store.save({"AP": 1.0}, "a")


def test_odd_settings_become_plain_data(tmp_path):
    config = {
        "nan": math.nan,
        "inf": -math.inf,
        "np": np.float32(0.5),
        "set": {2, 1},
        "path": tmp_path,
        "array": np.arange(2),
        3: "key",
        "day": datetime(2026, 1, 2),
        "half": "\ud800",
        "nul": "\x00",
    }
    with assay.store.open(tmp_path / "s.db") as store:
        found = store.save(make_scores(1), "a", config=config).config
    assert found == {
        "nan": "nan",
        "inf": "-inf",
        "np": 0.5,
        "set": [1, 2],
        "path": str(tmp_path),
        "array": [0, 1],
        "3": "key",
        "day": "2026-01-02T00:00:00",
        "half": "\ud800",
        "nul": "\x00",
    }


def test_html_of_a_run_is_harmless(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        run = store.save(make_scores(1), HOSTILE[10])
    assert "<script>" not in run._repr_html_()


def test_merged_parts_are_the_whole(place):
    """Parts in any order give the bytes of one evaluation."""
    whole = make_scores(9, 12)
    import dataclasses

    halves = []
    for rows in (slice(6, 12), slice(0, 6)):
        halves.append(
            dataclasses.replace(
                whole,
                query_ids=whole.query_ids.take(np.arange(12)[rows]),
                values=whole.values[:, rows],
                tied=whole.tied[:, rows],
                missing=whole.missing[rows],
                groups={k: v[rows] for k, v in whole.groups.items()},
                extra=whole.extra if rows.start else whole.extra.take([]),
            )
        )
    with assay.store.open(place) as store, store.start_run("a") as run:
        for number, half in enumerate(halves):
            run.save_part(f"part {number}", half)
        run.set_result(Scores.merge(*(run.load_part(f"part {number}") for number in (0, 1))))
    with assay.store.open(place) as store:
        assert same_scores(store.run(1).scores(), whole)
