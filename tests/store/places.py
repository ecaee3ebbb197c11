"""Where tests put stores, and what they put there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, text

from assay import Conventions, Ids, Scores, parse_many
from assay.store import Store
from tests.store.private_postgres import new_database

HOSTILE = [
    "'; DROP TABLE runs; --",
    'a"b',
    "a;b--c",
    "nul\x00inside",
    "\x00",
    "😀 naïve ﷽",
    "\x1b[31mred",
    "\x1b0000",
    "half \ud83d",
    "=cmd()",
    "<script>alert(1)</script>",
    "a\\b%_c",
    "line\nbreak\ttab",
    "\u2028",
    " ",
    "NULL",
    "%s %(x)s :name ?",
    "{{7*7}}",
    "x" * 500,
]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a store: a new file, then a new database."""
    if request.param == "postgres":
        return new_database(request.config)
    return str(tmp_path / "assay.db")


def make_scores(seed: int, n: int = 7, *, text: bool = True, groups: bool = True) -> Scores:
    """Scores with NaN, −0.0, tiny and odd values; the same for the same seed."""
    rng = np.random.default_rng(seed)
    measures = parse_many(["nDCG@10", "AP", "Success@1"])
    values = rng.random((3, n))
    values[rng.random((3, n)) < 0.2] = np.nan
    values[rng.random((3, n)) < 0.2] = 0.0
    values[0, : n // 3] = np.nextafter(0.1, 1)
    values[1, n // 2 : n // 2 + 1] = -0.0
    ids = Ids.of([f"q{i:04}é" for i in range(n)] if text else 10**12 + np.arange(n), "query")
    column = np.asarray([f"scene {i % 3}" for i in range(n)], np.str_)
    return Scores(
        measures,
        ids,
        values,
        tied=rng.random((3, n)) < 0.3,
        missing=rng.random(n) < 0.2,
        conventions=Conventions(depth=seed % 5),
        extra=Ids.of(["x", "y"], "query"),
        groups={"scene": column} if groups else {},
        search="exact",
    )


def same_scores(left: Scores, right: Scores) -> bool:
    """Whether every bit is equal."""
    return (
        left.measures == right.measures
        and left.query_ids == right.query_ids
        and left.query_ids.kind == right.query_ids.kind
        and left.values.tobytes() == right.values.tobytes()
        and left.tied.tobytes() == right.tied.tobytes()
        and left.missing.tobytes() == right.missing.tobytes()
        and left.conventions == right.conventions
        and left.conventions.signature() == right.conventions.signature()
        and left.extra == right.extra
        and left.search == right.search
        and list(left.groups) == list(right.groups)
        and all((left.groups[key] == right.groups[key]).all() for key in left.groups)
    )


@contextmanager
def without_guards(store: Store) -> Iterator[Connection]:
    """A connection that may change finished runs: for damage, which asks for no permission."""
    with store.database.writing() as connection:
        if store.database.location.file is not None:
            found = connection.execute(
                text("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            )
            for name in found.scalars().all():
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        yield connection
