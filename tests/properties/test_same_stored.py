"""Stored runs: through every format to another store, and what was said when they were saved."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("sqlalchemy")

from tests.properties.metamorphic import Same, Sayings, Table, cases_of, check_same

SAVED = (
    "eval dense.run coarse.run partial.run -r qrels.txt -m AP -m nDCG@10 --save --store one.db",
    "rank q.npz d.npy -k 20 -r rank.qrels -m AP --save --store one.db",
    "rank q.npz d.npy -k 9 --metric dot -r rank.qrels -m AP --save --store one.db",
    "predict a.npy -t targets.npy --save --store one.db",
    "predict b.npy -t targets.npy --save --store one.db",
)
COMPARE = "runs compare 1 2 3 --resamples 200 --store one.db --json"
SEARCHES = "runs compare 4 5 --resamples 200 --force --store one.db --json"
NUMBERED = "runs compare 6 7 --resamples 200 -m RR --store one.db --json"
SHOW = "runs show 5 -q --store one.db --json"
_NOTHING = dict.fromkeys(
    ("lines", "renamed", "unordered", "threads", "scaled", "split", "blocks"),
    "stored values are what goes in",
)


def _through(line: str, ending: str) -> Same:
    """The same question to a store that took the runs over from a file."""
    export = f"runs export -o all.{ending} --store one.db"
    load = f"runs import all.{ending} --store {ending}.db"
    other = line.replace("one.db", f"{ending}.db")
    origin = ((r'"origin": "[^"]*"', '"origin": ""'),)
    back = ((f"{ending}.db", "one.db"),)
    return Same(line, other, back, words=origin, before=(*SAVED, export, load))


def _numpy(line: str) -> Same:
    return Same(line, line, engine="numpy", before=SAVED)


TABLE: Table = {
    "runs compare": {
        **_NOTHING,
        "format": [
            _through(line, ending)
            for line in (COMPARE, SEARCHES, NUMBERED)
            for ending in ("json", "csv", "parquet")
        ],
        "engine": [_numpy(COMPARE), _numpy(NUMBERED)],
    },
    "runs show": {**_NOTHING, "format": [_through(SHOW, "json")], "engine": [_numpy(SHOW)]},
}
# Commands that compute no number.
WITHOUT = {
    "runs delete": "it takes runs away",
    "runs export": "see runs compare, whose runs went through every format",
    "runs import": "see runs compare, whose runs went through every format",
    "runs list": "it shows what is stored",
    "runs note": "it stores a sentence",
    "runs rerun": "it runs the command again that made a run",
    "runs tag": "it stores a word",
}


@pytest.mark.parametrize("same", list(cases_of(TABLE, {})))
def test_the_same_is_said(same: Same, sayings: Sayings) -> None:
    check_same(same, sayings)


def test_stored_runs_are_compared_as_files_are(sayings: Sayings) -> None:
    for line in SAVED:
        sayings.answer(line)
    names = "dense.run coarse.run partial.run -r qrels.txt -m AP -m nDCG@10"
    files = sayings.answer(f"compare {names} --resamples 200 --json")["json"]
    stored = sayings.answer(COMPARE)["json"]
    assert stored["signature"] == files["signature"]
    assert stored["measures"] == files["measures"]


def test_stored_predictions_are_compared_as_files_are(sayings: Sayings) -> None:
    for line in SAVED:
        sayings.answer(line)
    files = sayings.answer("predict a.npy b.npy -t targets.npy --json")["json"]
    stored = sayings.answer("runs compare 6 7 --store one.db --json")["json"]
    paired = files["comparison"]["paired"]
    assert stored["signature"] == paired["signature"]
    assert stored["measures"] == paired["measures"]
