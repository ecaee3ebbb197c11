"""Systems on many tasks: tables of values."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from tests.properties.metamorphic import DIGEST, Same, Sayings, Table, cases_of, check_same, swapped
from tests.properties.variants import MARK

TASKS = "tasks values.csv --resamples 200 --json"
MEANS = "tasks values.csv --units tasks --resamples 200 --json"
_PARTS = " ".join(f"part-{number}.csv" for number in range(3))

TABLE: Table = {
    "tasks": {
        "format": [
            *(
                swapped(TASKS, ("values.csv", f"{ending}/values.{ending}"))
                for ending in ("tsv", "jsonl", "json", "parquet")
            ),
            *(swapped(TASKS, ("values.csv", f"{one}/values.csv.{one}")) for one in ("gz", "zst")),
            swapped(TASKS, ("values.csv", "integers/values.parquet")),
        ],
        "lines": [swapped(line, ("values.csv", "mixed/values.csv")) for line in (TASKS, MEANS)],
        "renamed": [
            swapped(line, ("values.csv", "renamed/values.csv"))._replace(
                back=(("renamed/values.csv", "values.csv"), (MARK, "")), words=(DIGEST,)
            )
            for line in (TASKS, MEANS)
        ],
        "unordered": "intervals resample queries in the order of their ids",
        "threads": "it has no threads of its own",
        "engine": [Same(line, line, engine="numpy") for line in (TASKS, MEANS)],
        "scaled": "no vectors go in",
        "split": [swapped(TASKS, ("values.csv", _PARTS))],
        "blocks": "a table is read at once",
    },
}


@pytest.mark.parametrize("same", list(cases_of(TABLE, {})))
def test_the_same_is_said(same: Same, sayings: Sayings) -> None:
    check_same(same, sayings)
