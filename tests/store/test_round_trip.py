"""Scores that are saved come back with the same bits, from the store and from exported files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import assay.store
from assay import PRESETS, Conventions, Ids, Scores, evaluate, parse_many
from assay.core.text import guard_formula as guarded
from assay.core.text import unguard_formula as unguarded
from assay.errors import AssayError, FormatError
from assay.store import Aggregate
from assay.store.codec import pack_array, pack_texts, unpack_array, unpack_texts
from tests.store.places import HOSTILE, make_scores, same_scores


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("n", [1, 2, 9, 1000])
def test_every_bit_comes_back(place, n, text):
    scores = make_scores(n, n, text=text)
    with assay.store.open(place) as store:
        run = store.save(scores, "a")
        assert same_scores(run.scores(), scores)
        assert run.values("ndcg_cut_10").tobytes() == scores.values[0].tobytes()
        assert store.damages() == []


@pytest.mark.parametrize(
    "conventions",
    [
        *PRESETS.values(),
        Conventions(preset="mine", depth=3),
        PRESETS["beir"].replace(ties="expected"),
    ],
)
def test_conventions_come_back(tmp_path, conventions):
    scores = evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, "RR", conventions=conventions)
    with assay.store.open(tmp_path / "s.db") as store:
        back = store.save(scores, "a").scores()
    assert back.conventions == conventions
    assert back.conventions.signature() == conventions.signature()


def test_real_nan_payloads_come_back():
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x8000000000000000], np.uint64)
    assert unpack_array(pack_array("values", odd.view(np.float64))).tobytes() == odd.tobytes()


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 4097])
def test_arrays_of_every_kind(n):
    rng = np.random.default_rng(n)
    for array in (rng.random(n), rng.integers(-(2**63), 2**63 - 1, n), rng.random(n) < 0.5):
        back = unpack_array(pack_array("x", array))
        assert back.dtype == array.dtype
        assert back.tobytes() == array.tobytes()
    texts = [*HOSTILE, "", ""]
    assert unpack_texts(pack_texts("x", texts)) == texts


def test_no_queries_at_all(place):
    empty = Scores(
        parse_many(["AP"]),
        Ids.count(0),
        np.zeros((1, 0)),
        np.zeros((1, 0), bool),
        np.zeros(0, bool),
        Conventions(),
    )
    with assay.store.open(place) as store:
        assert same_scores(store.save(empty, "none").scores(), empty)
        assert store.run(1).aggregate("AP").value is None


@pytest.mark.parametrize("text", [True, False])
def test_json_takes_a_run_to_another_store(place, tmp_path, text):
    scores = make_scores(3, 20, text=text)
    file = tmp_path / "runs.json"
    with assay.store.open(place) as store:
        saved = store.save(
            scores,
            HOSTILE[0],
            task="t",
            dataset=HOSTILE[3],
            config={"k": [1, 2.5, None]},
            seeds={"seed": 7},
            tags=HOSTILE[:4],
            notes=HOSTILE[8],
            seconds=1.5,
            details={"deep": [1, {"a": "b"}]},
            command=["eval", "x"],
            data={"f": {"bytes": 1}},
        )
        assert store.export(file) == 1
    with assay.store.open(tmp_path / "other.db") as other:
        other.save(make_scores(1), "before")
        (run,) = other.load(file)
        assert other.load(file) == []
        assert len(other) == 2
        assert same_scores(run.scores(), scores)
        assert run.details() == {"deep": [1, {"a": "b"}]}
    assert run.origin == str(file)
    for key in (
        "uid",
        "name",
        "dataset",
        "tags",
        "notes",
        "config",
        "seeds",
        "seconds",
        "created",
        "finished",
        "aggregates",
        "command",
        "data",
        "versions",
        "signature",
    ):
        assert getattr(run, key) == getattr(saved, key), key


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("text", [True, False])
def test_tables_hold_every_value(tmp_path, ending, text):
    scores = make_scores(5, 30, text=text)
    file = tmp_path / f"runs.{ending}"
    with assay.store.open(tmp_path / "a.db") as store:
        saved = store.save(scores, "=1+1", task="t", dataset="d", model="'=m")
        store.save(make_scores(6, 4, groups=False), "b")
        store.export(file)
    with assay.store.open(tmp_path / "b.db") as other:
        runs = {run.name: run for run in other.load(file)}
        back = runs["=1+1"].scores()
        assert runs["b"].scores().groups == {}
    assert (runs["=1+1"].model, runs["=1+1"].created) == ("'=m", saved.created)
    assert np.array_equal(back.values, scores.values, equal_nan=True)
    assert (np.signbit(back.values) == np.signbit(scores.values))[~np.isnan(scores.values)].all()
    assert back.query_ids == scores.query_ids
    assert (back.tied == scores.tied).all()
    assert (back.groups["scene"] == scores.groups["scene"]).all()
    assert runs["=1+1"].means() == saved.means()


def test_no_cell_of_a_csv_is_a_formula(tmp_path):
    with assay.store.open(tmp_path / "a.db") as store:
        store.save(make_scores(1), "=1+1", task="@x", dataset="+x", model="-x")
        store.export(tmp_path / "a.csv")
    body = (tmp_path / "a.csv").read_text().splitlines()[1:]
    assert body
    assert all("'=1+1,'@x,'+x,'-x" in line for line in body)


@pytest.mark.parametrize("text", [*HOSTILE, "'", "''=", "-", "'-1", "plain", ""])
def test_guards_can_be_taken_off(text):
    assert unguarded(guarded(text)) == text


def test_damaged_export_files_are_refused_and_change_nothing(tmp_path):
    file = tmp_path / "runs.json"
    with assay.store.open(tmp_path / "a.db") as store:
        store.save(make_scores(1), "a", details={"x": 1})
        store.export(file)
    whole = json.loads(file.read_text())
    rng = np.random.default_rng(0)
    junk = [None, -1, "x", [], {}, [None], 1e400, True, "\x00", [[1]], 10**30]
    with assay.store.open(tmp_path / "b.db") as other:
        for _ in range(300):
            data = json.loads(file.read_text())
            _spoil(data, rng, junk)
            file_ = tmp_path / "bad.json"
            file_.write_text(json.dumps(data))
            try:
                for run in other.load(file_):
                    run.scores() if run.conventions else None
                    other.delete(run.id)
            except AssayError:
                assert len(other) == 0
        assert other.damages() == []
    assert whole["layout"] == "assay runs 1"


def _spoil(data, rng, junk):
    """Put something else in one random place."""
    here = data
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = keys[rng.integers(len(keys))]
        if isinstance(here[key], dict | list) and len(here[key]) and rng.random() < 0.8:
            here = here[key]
            continue
        if isinstance(here, dict) and rng.random() < 0.2:
            del here[key]
        else:
            here[key] = junk[rng.integers(len(junk))]
        return


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.parquet"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b"a,b\n1,2\n", b"PAR1"])
def test_files_that_are_no_exports(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with assay.store.open(tmp_path / "s.db") as store, pytest.raises(AssayError):
        store.load(tmp_path / name)


def test_unknown_ending(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        with pytest.raises(AssayError, match=r"\.json, \.csv, \.parquet"):
            store.export(tmp_path / "x.xlsx")
        with pytest.raises(AssayError, match="does not exist"):
            store.load(tmp_path / "x.json")


def test_a_table_with_a_hole_is_refused(tmp_path):
    file = tmp_path / "a.csv"
    with assay.store.open(tmp_path / "a.db") as store:
        store.save(make_scores(1), "a")
        store.export(file)
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[:-1]))
        with pytest.raises(FormatError, match="Give one value per query"):
            store.load(file)


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_imported_is_exported_as_it_was(tmp_path, ending, seed):
    """Import → export → import changes nothing, also where some queries are in no group."""
    rng = np.random.default_rng(seed)
    scores = make_scores(seed, 12)
    kinds = np.array(["", "a b", "=x"], np.str_)[rng.integers(0, 3, 12)]
    kinds[0] = ""
    scores = replace(scores, groups={**scores.groups, "kind": kinds})
    files = [tmp_path / f"{number}.{ending}" for number in range(3)]
    with assay.store.open(tmp_path / "a.db") as store:
        store.save(scores, "run", task="t", wide={"tau": 3})
        store.export(files[0])
    for number in (1, 2):
        with assay.store.open(tmp_path / f"{number}.db") as store:
            (run,) = store.load(files[number - 1])
            assert (run.scores().groups["kind"] == kinds).all()
            store.export(files[number])
    if ending == "parquet":
        import polars

        first, *more = (polars.read_parquet(file) for file in files)
        assert all(one.equals(first) for one in more)
    else:
        assert len({file.read_bytes() for file in files}) == 1


def test_a_run_that_is_saved_again_keeps_what_a_task_gave(place, tmp_path):
    given = [
        Aggregate("AP", 0.5, average="macro", by_column="scene", subset="viewpoint", n=3),
        Aggregate("PooledAP", 0.75, average="pooled", subset="verification"),
        Aggregate("mean_precision", 0.25, n=2),
    ]
    with assay.store.open(place) as store, assay.store.open(tmp_path / "b.db") as other:
        first = store.save(
            make_scores(3, 20),
            "run",
            aggregates=given,
            ceiling={"AP": 0.9},
            chance={"AP": 0.1},
            wide={"tau": 3, "metadata": "x=1;"},
            details={"a": [1]},
        )
        again = other.save(first)
        assert again.aggregates == first.aggregates
        assert (again.wide(), again.details()) == (first.wide(), first.details())
