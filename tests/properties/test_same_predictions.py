"""Predictions of one class: scores and lists of candidates."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from tests.properties.metamorphic import DIGEST, Same, Sayings, Table, cases_of, check_same, swapped

SCORES = "predict a.npy -t targets.npy --per-class --histogram --json"
EXPECTED = f"{SCORES} --ties expected"
NAMED = "predict named/a.npz --per-class --json"
TWO = "predict a.npy b.npy -t targets.npy --json"
LISTS = "predict lists.tsv --candidates one --candidates two --by user --n-classes 9 --json"
USERS = "predict a.npy -t targets.npy --by users.csv:user --json"


def _within(line: str, file: str) -> Same:
    """Scores and targets in one file."""
    other = line.replace(" -t targets.npy", "").replace("a.npy", file)
    return Same(line, other, ((file, "a.npy"),))


TABLE: Table = {
    "predict": {
        "format": [
            *(
                swapped(line, ("a.npy", f"{kind}/a.npy"))
                for line in (SCORES, EXPECTED)
                for kind in ("wide", "fortran")
            ),
            *(_within(SCORES, file) for file in ("npz/a.npz", "parquet/a.parquet")),
            *(
                swapped(LISTS, ("lists.tsv", file))
                for file in ("csv/lists.csv", "jsonl/lists.jsonl")
            ),
            *(
                swapped(LISTS, ("lists.tsv", file))
                for file in ("parquet/lists.parquet", "gz/lists.tsv.gz")
            ),
        ],
        "lines": [
            swapped(NAMED, ("named/a.npz", "mixed/a.npz")),
            swapped(LISTS, ("lists.tsv", "mixed/lists.tsv")),
            swapped(USERS, ("users.csv:user", "mixed/users.csv:user")),
        ],
        "renamed": [
            swapped(NAMED, ("named/a.npz", "renamed/a.npz"), words=(DIGEST,)),
            swapped(LISTS, ("lists.tsv", "renamed/lists.tsv"), words=(DIGEST,)),
        ],
        "unordered": "intervals resample samples in the order of their ids",
        "threads": [Same(SCORES, f"{SCORES} --threads {n}") for n in (1, 2, 3)],
        "engine": [Same(line, line, engine="numpy") for line in (SCORES, EXPECTED, TWO, LISTS)],
        "scaled": [swapped(line, ("a.npy", "times8/a.npy")) for line in (SCORES, EXPECTED)],
        "split": "several files are several models or seeds",
        "blocks": [_within(SCORES, "groups/a.parquet")],
    },
}


@pytest.mark.parametrize("same", list(cases_of(TABLE, {})))
def test_the_same_is_said(same: Same, sayings: Sayings) -> None:
    check_same(same, sayings)
