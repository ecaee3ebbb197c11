"""What a run shows is what was stored: flipped bits, edited exports and changed means are named."""

from __future__ import annotations

import csv
import json
import random
import shutil
import sqlite3
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import text

import assay.store
from assay.errors import AssayError, FormatError, StorageError
from assay.store import QueryResults, ResultDoc, Store
from assay.store.tables import list_data, run_data
from tests.store.made_before import DATABASE
from tests.store.places import HOSTILE, make_scores, without_guards
from tests.store.private_postgres import new_database

RESULTS = {"q0001é": QueryResults("cats?", (ResultDoc("d1", 0.5, 2.0, "a cat"),))}


def fill(store: Store) -> None:
    """A run with everything that a run can have, one that failed, one that runs."""
    store.save(
        make_scores(1),
        "whole",
        task="retrieval",
        dataset="d",
        tags=["x", "y"],
        notes="seen",
        config={"k": [1, 2.5]},
        seeds={"seed": 7},
        details={"deep": [1]},
        chance={"AP": 0.125},
        results=RESULTS,
        wide={"tau": 3.0, "metadata": "m"},
        timings={"search": 0.25},
        seconds=1.5,
    )
    store.begin(assay.store.RunRecord("failed", notes="why?")).fail(ValueError("no index"))
    store.begin(assay.store.RunRecord("running", tags=["x"])).progress(3, 7)


def everything(store: Store) -> Any:
    """All that is shown of a store."""
    runs = store.runs()
    return [
        list_data(store.summaries()),
        *(run_data(run, per_query=bool(run.conventions)) for run in runs),
        *([run.details(), run.wide(), run.all_results()] for run in runs),
    ]


CHANGES = [
    *(
        f"UPDATE runs SET {column} = '{value}' WHERE id = 1"
        for column, value in {
            **dict.fromkeys(("name", "task", "dataset", "model", "signature", "search"), "other"),
            **dict.fromkeys(("message", "folder", "origin", "git_commit", "batch"), "other"),
            **dict.fromkeys(("config", "versions", "seeds", "data"), '{"k": 3}'),
            "timings": '{"search": 2}',
            "created": "2001-01-01T00:00:00.000000Z",
            "notes": "other",
            "digest": "0",
            "digest_from": "0",
            "marks": "0",
        }.items()
    ),
    "UPDATE runs SET seconds = 2",
    "UPDATE runs SET n_queries = 9",
    "UPDATE runs SET done = 5 WHERE id = 3",
    "UPDATE runs SET message = 'all is well' WHERE id = 2",
    *(
        f"UPDATE aggregates SET {column} = 0.75 WHERE position = 0"
        for column in ("value", "value_skip", "value_zero", "low", "high", "level", "chance")
    ),
    "UPDATE aggregates SET n = n + 1",
    "UPDATE aggregates SET method = 'guess'",
    "DELETE FROM aggregates WHERE position = 1",
    "UPDATE wide_values SET number = 4 WHERE name = 'tau'",
    "DELETE FROM wide_values WHERE name = 'metadata'",
    "DELETE FROM shown",
    "DELETE FROM blobs WHERE kind = 'details'",
    "UPDATE blobs SET name = 'P@10' WHERE kind = 'values' AND position = 0",
    "UPDATE tags SET tag = 'z' WHERE tag = 'x'",
    "DELETE FROM tags WHERE run_id = 1",
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_named(tmp_path: Path, filled: Path, change: str) -> None:
    place = tmp_path / "s.db"
    place.write_bytes(filled.read_bytes())
    _name_damage(str(place), change)


@pytest.mark.parametrize("change", [CHANGES[0], CHANGES[-1], "UPDATE aggregates SET high = 1"])
def test_every_change_is_named_in_postgres(request: pytest.FixtureRequest, change: str) -> None:
    place = new_database(request.config)
    with assay.store.open(place) as store:
        fill(store)
    _name_damage(place, change)


def _name_damage(place: str, change: str) -> None:
    with assay.store.open(place) as store:
        assert store.damages() == []
        with without_guards(store) as connection:
            assert connection.exec_driver_sql(change).rowcount
        damages = store.damages()
        assert damages
        assert all(line.startswith("Run ") for line in damages)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all of it, and no log beside it."""
    place = tmp_path_factory.mktemp("filled") / "s.db"
    with assay.store.open(place) as store:
        fill(store)
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return place


def _payload_pages(content: bytes) -> list[range]:
    """The bytes of pages that hold rows or what continues them: no index, no free page."""
    size = struct.unpack(">H", content[16:18])[0]
    pages = [range(start, start + size) for start in range(0, len(content), size)]
    return [page for page in pages if content[page[0]] not in (2, 10)]


@pytest.mark.parametrize("rounds", [60, pytest.param(4000, marks=pytest.mark.slow)])
def test_flipped_bits_change_nothing_or_are_named(
    tmp_path: Path, filled: Path, rounds: int
) -> None:
    whole = filled.read_bytes()
    place = tmp_path / "s.db"
    place.write_bytes(whole)
    with assay.store.open(place) as store:
        before = everything(store)
    rng = random.Random(rounds)
    pages = _payload_pages(whole)
    silent = [
        at for at in _flips(rng, pages, whole, rounds) if _is_silent(place, whole, at, before)
    ]
    assert silent == []


def _flips(rng: random.Random, pages: list[range], whole: bytes, rounds: int) -> list[int]:
    """Places of bits; of bytes that hold nothing every flip would be harmless."""
    bits: list[int] = []
    while len(bits) < rounds:
        at = rng.choice(rng.choice(pages))
        if whole[at] or rng.random() < 0.1:
            bits.append(8 * at + rng.randrange(8))
    return bits


def _is_silent(place: Path, whole: bytes, bit: int, before: Any) -> bool:
    """Whether the store shows something else, and no damage is named; any raw error passes on."""
    spoiled = bytearray(whole)
    spoiled[bit // 8] ^= 1 << bit % 8
    for rest in place.parent.glob(f"{place.name}*"):
        rest.unlink()
    place.write_bytes(spoiled)
    try:
        with assay.store.open(place) as store:
            if store.damages():
                return False
            return bool(everything(store) != before)
    except AssayError:
        return False


@pytest.fixture
def exported(tmp_path: Path, filled: Path) -> Path:
    """A folder with the exports of that store."""
    with assay.store.open(filled) as store:
        for ending in ("json", "csv", "parquet"):
            store.export(tmp_path / f"s.{ending}", status="finished")
    return tmp_path


def _edit(path: tuple[Any, ...], value: Any) -> Any:
    def edit(run: dict[str, Any]) -> None:
        *way, last = path
        for step in way:
            run = run[step]
        run[last] = value

    return edit


EDITS = {
    "mean": _edit(("aggregates", 0, "value"), 0.9),
    "interval": _edit(("aggregates", 0, "low"), 0.125),
    "chance": _edit(("aggregates", 1, "chance"), 0.01),
    "value": _edit(("scores", "values", 0, 0), 0.9),
    "name": _edit(("name",), "better"),
    "config": _edit(("config", "k"), 3),
    "result": _edit(("shown", 0, 1, "text"), "dogs?"),
    "note": _edit(("notes",), "trust me"),
    "since": _edit(("digest_from",), "import of a file without digests"),
    "more": _edit(("extra key",), 1),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edited_json_is_refused(exported: Path, edit: Any) -> None:
    data = json.loads((exported / "s.json").read_text())
    edit(data["runs"][0])
    (exported / "edited.json").write_text(json.dumps(data))
    with assay.store.open(exported / "new.db") as store:
        with pytest.raises(FormatError, match=r"run 0(:| does not match its digest)"):
            store.load(exported / "edited.json")
        assert len(store) == 0


def test_json_laid_out_anew_is_taken(exported: Path) -> None:
    data = json.loads((exported / "s.json").read_text())
    (exported / "s.json").write_text(json.dumps(data, indent=1, sort_keys=True))
    with assay.store.open(exported / "new.db") as store:
        (run,) = store.load(exported / "s.json")
        assert (run.digest_from, store.unsigned()) == ("saving", [])


def test_without_its_digest_a_run_is_marked_and_its_means_are_checked(exported: Path) -> None:
    data = json.loads((exported / "s.json").read_text())
    del data["runs"][0]["digest"]
    (exported / "unsigned.json").write_text(json.dumps(data))
    EDITS["mean"](data["runs"][0])
    (exported / "edited.json").write_text(json.dumps(data))
    with assay.store.open(exported / "new.db") as store:
        with pytest.raises(FormatError, match=r"value of nDCG@10 micro is 0\.9, but the values"):
            store.load(exported / "edited.json")
        (run,) = store.load(exported / "unsigned.json")
        assert store.unsigned() == [run.id]
        store.export(exported / "again.json")
        assert store.damages() == []
    with assay.store.open(exported / "third.db") as store:  # the mark goes with the run
        (run,) = store.load(exported / "again.json")
        assert run.digest_from == "import of a file without digests"


@pytest.mark.parametrize(
    ("column", "value"),
    [("value", "0.9"), ("name", "better"), ("group:scene", "s"), ("tied", "x"), ("query", "q9")],
)
def test_edited_csv_is_refused(exported: Path, column: str, value: str) -> None:
    with open(exported / "s.csv", newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    place = header.index(column)
    rows[0][place] = value if value != "x" else str(1 - int(rows[0][place]))
    _write_csv(exported / "edited.csv", header, rows)
    with (
        assay.store.open(exported / "new.db") as store,
        pytest.raises(FormatError, match=r"digest|measures differ in length"),
    ):
        store.load(exported / "edited.csv")


def test_rows_in_another_order_are_taken(exported: Path) -> None:
    with open(exported / "s.csv", newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    _write_csv(exported / "sorted.csv", header, sorted(rows, key=lambda row: row[::-1]))
    with assay.store.open(exported / "new.db") as store:
        assert store.load(exported / "sorted.csv")[0].digest_from == "saving"


def _write_csv(file: Path, header: list[str], rows: list[list[str]]) -> None:
    with open(file, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])


def test_edited_parquet_is_refused(exported: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(exported / "s.parquet")
    values = table.column("value").to_pylist()
    place = table.column_names.index("value")
    edited = table.set_column(place, "value", pa.array([*values[:-1], 0.123], pa.float64()))
    pq.write_table(edited, exported / "edited.parquet")
    with assay.store.open(exported / "new.db") as store:
        with pytest.raises(FormatError, match="does not match its digest"):
            store.load(exported / "edited.parquet")
        assert store.load(exported / "s.parquet")[0].digest_from == "saving"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run of every hostile name."""
    file = tmp_path_factory.mktemp("hostile") / "s.db"
    with assay.store.open(file) as store:
        for name in HOSTILE:
            scores = make_scores(1)
            scores = scores.with_groups(**{"a=b": {q: repr(name) for q in scores.query_ids}})
            store.save(scores, name, task=name, dataset=name, model=name, notes=name)
    return file


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_hostile_names_keep_their_digest(tmp_path: Path, hostile: Path, ending: str) -> None:
    names = [name for name in HOSTILE if ending == "json" or "\r" not in name]
    with assay.store.open(hostile) as store:
        runs = [run.id for run in store.runs() if run.name in names]
        store.export(tmp_path / f"s.{ending}", id=runs)
    with assay.store.open(tmp_path / "new.db") as store:
        assert len(store.load(tmp_path / f"s.{ending}")) == len(names)
        assert store.damages() == store.unsigned() == []


def test_a_damaged_run_is_not_exported(tmp_path: Path) -> None:
    with assay.store.open(tmp_path / "s.db") as store:
        fill(store)
        with without_guards(store) as connection:
            connection.execute(text("UPDATE aggregates SET low = 0"))
        with pytest.raises(StorageError, match=r"Run 1 \('whole'\): digest mismatch"):
            store.export(tmp_path / "s.json")
    assert not (tmp_path / "s.json").exists()


def test_writers_of_tags_and_notes_do_not_spoil_the_digest(place: str) -> None:
    with assay.store.open(place) as store:
        fill(store)
        begin = Barrier(4)

        def mark(writer: int) -> None:
            begin.wait()
            for number in range(6):
                store.tag(1, f"{writer} {number}")
                store.note(1, f"{writer} {number}")
                store.untag(1, f"{writer} {number - 1}")

        with ThreadPoolExecutor(4) as writers:
            list(writers.map(mark, range(4)))
        assert store.run(1).tags == ("0 5", "1 5", "2 5", "3 5", "x", "y")
        assert store.damages() == []


def test_damaged_runs_of_an_old_store_are_named(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    shutil.copyfile(DATABASE, file)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DROP TRIGGER runs_stay")
        connection.execute("UPDATE runs SET model = CAST(x'ff41' AS TEXT) WHERE id = 2")
        connection.execute("UPDATE runs SET n_queries = 'many' WHERE id = 4")
    with assay.store.open(file) as store:
        damages = store.damages()
    assert [line[:6] for line in damages] == ["Run 2:", "Run 4:"]


def test_check_names_damages(tmp_path: Path, assay: Any) -> None:
    place = tmp_path / "s.db"
    with _open(place) as store:
        fill(store)
    sound = assay("runs", "check", "--store", place)
    assert (sound.code, sound.out) == (0, "checked: 3, damages: 0, unsigned: 0\n")
    with _open(place) as store, without_guards(store) as connection:
        connection.execute(text("UPDATE aggregates SET value = 0.75 WHERE position = 0"))
        connection.execute(text("UPDATE runs SET n_queries = 'many' WHERE id = 2"))
    found = assay("runs", "check", "--store", place, "--json")
    data = json.loads(found.out)
    assert found.code == 1
    assert "Run 1 ('whole'): digest mismatch" in data["damages"][0]
    assert (
        "value of nDCG@10 micro is 0.75, but the values of its queries give" in data["damages"][1]
    )
    assert "Run 2: Expected an integer, but the store holds 'many':" in data["damages"][-1]
    assert assay("runs", "check", "3", "--store", place).code == 0
    assert assay("runs", "check", "99", "--store", place).code == 2
    listed = assay("runs", "list", "--store", place)
    assert (listed.code, "it is damaged" in listed.err) == (5, True)


_open = assay.store.open


@pytest.mark.parametrize("column", ["measure", "query", "value", "group:kind"])
def test_a_parquet_file_with_structs_is_refused(exported: Path, column: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = exported / "s.parquet"
    table = parquet.read_table(path)
    structs = arrow.array([{"a": 1}] * len(table))
    if column in table.column_names:
        table = table.drop_columns([column])
    parquet.write_table(table.append_column(column, structs), path)
    with assay.store.open(exported / "new.db") as store, pytest.raises(FormatError, match=column):
        store.load(path)
