"""Numbers that no column can hold: refused at the import, or shown; never an internal error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import assay.store as run_store
from tests.store.places import make_scores, without_guards
from tests.store.test_digests import fill

NUMBERS = ["1e999", "1" + "0" * 30, "-1" + "0" * 400, "9223372036854775808"]
PLACES: dict[str, tuple[Any, ...]] = {
    "seconds": ("seconds",),
    "config": ("config", "k"),
    "seeds": ("seeds", "seed"),
    "data": ("data", "f"),
    "versions": ("versions", "assay"),
    "timings": ("timings", "search"),
    "details": ("details", "deep", 0),
    "wide": ("wide", "tau"),
    "wide text": ("wide", "metadata"),
    "chance": ("aggregates", 0, "chance"),
    "value of a part": ("aggregates", 0, "low"),
    "count": ("aggregates", 0, "n"),
    "score": ("shown", 0, 1, "results", 0, 1),
    "grade": ("shown", 0, 1, "results", 0, 2),
    "value": ("scores", "values", 0, 0),
    "query": ("scores", "queries", 0),
    "extra": ("scores", "extra", 0),
    "tied": ("scores", "tied", 0, 0),
    "missing": ("scores", "missing", 0),
    "n_queries": ("n_queries",),
    "tags": ("tags", 0),
    "command": ("command", 0),
    "created": ("created",),
    "depth": ("conventions",),
}
COMMANDS = (
    ["list", "--json"],
    ["show", "1"],
    ["show", "1", "-q", "--json"],
    ["show", "1", "--query", "q0001é", "--json"],
    ["compare", "1", "2", "--resamples", "50"],
    ["check"],
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run as JSON, without a digest."""
    folder = tmp_path_factory.mktemp("exported")
    with run_store.open(folder / "s.db") as store:
        fill(store)
        store.export(folder / "s.json", status="finished")
    run: dict[str, Any] = json.loads((folder / "s.json").read_text())["runs"][0]
    del run["digest"]
    return run


def _with_number(run: dict[str, Any], path: tuple[Any, ...], number: str) -> str:
    made = json.loads(json.dumps(run))
    *way, last = path
    inner = made
    for step in way:
        inner = inner[step]
    if isinstance(inner, list) and not inner:
        inner.append(0)
    inner[last] = "depth:@@" if path == ("conventions",) else "@@"
    written = json.dumps({"layout": "assay runs 1", "runs": [made]})
    return written.replace('"@@"', number).replace("@@", number)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:8])
@pytest.mark.parametrize("path", PLACES.values(), ids=PLACES)
def test_numbers_beyond_bounds(
    tmp_path: Path, exported: dict[str, Any], path: tuple[Any, ...], number: str, assay: Any
) -> None:
    (tmp_path / "x.json").write_text(_with_number(exported, path, number))
    place = tmp_path / "s.db"
    taken = assay("runs", "import", tmp_path / "x.json", "--store", place)
    assert taken.code in (0, 2, 3), taken.err
    if taken.code == 0:
        with run_store.open(place) as store:
            store.save(make_scores(2), "second")
        for command in COMMANDS:
            answer = assay("runs", *command, "--store", place)
            assert answer.code in (0, 1, 2, 3), (command, answer.err)
    else:
        assert "x.json" in taken.err


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:8])
def test_numbers_in_a_table(tmp_path: Path, number: str, assay: Any) -> None:
    with run_store.open(tmp_path / "a.db") as store:
        store.save(make_scores(1), "a")
        store.export(tmp_path / "a.csv")
    head, first, *rest = (tmp_path / "a.csv").read_text().splitlines()
    columns, cells = head.split(","), first.split(",")
    for column in ("value", "query", "tied", "created"):
        changed = list(cells)
        changed[columns.index(column)] = number
        lines = [head, ",".join(changed), *rest]
        (tmp_path / "x.csv").write_text("\n".join(lines).replace(",digest", ",other") + "\n")
        answer = assay("runs", "import", tmp_path / "x.csv", "--store", tmp_path / "b.db")
        assert answer.code in (0, 3), answer.err
        assert "x.csv" in answer.err
    assert assay("runs", "list", "--json", "--store", tmp_path / "b.db").code == 0


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET seconds = 9e999",
        'UPDATE runs SET config = \'{"k": 1e999, "n": NaN}\'',
        "UPDATE runs SET timings = '{\"search\": Infinity}'",
        "UPDATE aggregates SET value = 9e999, low = -9e999",
        "UPDATE wide_values SET number = 9e999",
        "UPDATE runs SET seeds = '[]'",
        "UPDATE runs SET timings = '{\"search\": []}'",
    ],
)
def test_what_earlier_versions_took_is_shown_or_named(
    tmp_path: Path, change: str, assay: Any
) -> None:
    place = tmp_path / "s.db"
    with run_store.open(place) as store:
        fill(store)
        with without_guards(store) as connection:
            connection.execute(text(change.replace(":", r"\:")))
    for command in (*COMMANDS, ["export", "-o", str(tmp_path / "x.json")]):
        answer = assay("runs", *command, "--store", place)
        assert answer.code in (0, 1, 2, 5), (command, answer.err)
