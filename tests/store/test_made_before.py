"""A store that version 0.1 wrote says what it said then, and takes new runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

import assay.store
from tests.golden.commands import renames
from tests.golden.differences import differences
from tests.golden.recording import Renames
from tests.store.made_before import DATABASE, SAID, said_of

THEN: dict[str, Any] = json.loads(SAID.read_text("utf-8"))
# What the view said wrongly: settings are no metadata; images were counted as queries of the
# descriptor, whose headline is the mean over scenes, as in the workbench's own rows.
CORRECTED = {
    *(f"json[{row}]/metadata" for row in range(len(THEN["wide_results"]))),
    "json[8]/mean_average_precision",
    "json[8]/total_queries_processed",
}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy, since a newer version may write into what it opens."""
    path = tmp_path / "old.db"
    shutil.copyfile(DATABASE, path)
    return path


def test_every_number_is_found_again(copied: Path) -> None:
    now = said_of(copied)
    for name, rows in THEN["values"].items():  # what made the numbers stands in further columns
        now["values"][name] = [row[: len(rows[0])] for row in now["values"][name]]
    for part, then in THEN.items():
        changed = {one.path for one in _changes(then, now[part])}
        assert changed == (CORRECTED if part == "wide_results" else set()), part


def test_an_old_export_is_taken_over(tmp_path: Path) -> None:
    """What was running when it was exported is failed afterwards; all else is as it was."""
    (tmp_path / "old.json").write_text(json.dumps(THEN["export"]), "utf-8")
    with assay.store.open(tmp_path / "new.db") as store:
        assert len(store.load(tmp_path / "old.json")) == len(THEN["export"]["runs"])
        store.export(tmp_path / "again.json")
        assert store.damages() == []
    again = json.loads((tmp_path / "again.json").read_text("utf-8"))
    then, now = (
        [run for run in one["runs"] if run["name"] != "unfinished"]
        for one in (THEN["export"], again)
    )
    assert not list(_changes(then, now))


def test_new_runs_are_added(copied: Path) -> None:
    with assay.store.open(copied) as store:
        before = len(store)
        old = store.runs(name="coarse")[0]
        store.save(old.scores(), "again", task=old.task, dataset=old.dataset)
        assert len(store) == before + 1
        assert store.runs(name="again")[0].means().items() <= old.means().items()
        assert store.damages() == []


def test_clusters_are_a_column_of_their_own(copied: Path) -> None:
    with assay.store.open(copied) as store:
        clusters = {run.name: run.clusters for run in store.runs() if run.clusters}
        methods = {one.method for run in store.runs() for one in run.aggregates}
    assert clusters == {"lexical": "topic", "partial": "topic", "letters": "kind", "ORB": "scene"}
    assert methods == {"", "bca", "t"}


def _changes(then: Any, now: Any) -> Any:
    """Differences in values; what a later version says in addition does not count."""
    found = differences({"json": then}, {"json": _old_names(now, renames())})
    told = ("integer", "numbered")  # rows without ids are told from integer ids now
    return [
        one
        for one in found
        if not one.words and one.old != "(absent)" and (one.old, one.new) != told
    ]


def _old_names(value: Any, names: Renames) -> Any:
    """The same with old names where keys were renamed on purpose."""
    if isinstance(value, dict):
        return {names.old_key(key): _old_names(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_old_names(one, names) for one in value]
    return value
