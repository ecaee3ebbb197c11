"""Two systems query by query: where one gains and where it loses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from assay.arrays import Floats
from assay.core.checks import check_cutoff
from assay.core.ids import Ids
from assay.core.text import signed
from assay.display import plot_differences
from assay.io.frames import build_frame
from assay.tables.table import Cell, Table, as_text

__all__ = ["QueryDifference", "QueryDifferences"]


@dataclass(frozen=True)
class QueryDifference:
    """One query: what both systems score on it, and a − b."""

    query: str | int
    value_a: float
    value_b: float
    difference: float


@dataclass(frozen=True, eq=False)
class QueryDifferences:
    """All queries on which two systems are defined, the largest win of a first.

    Equal differences are in order of the query ids.
    """

    measure: str
    a: str
    b: str
    rows: tuple[QueryDifference, ...]

    @classmethod
    def of(
        cls, measure: str, names: tuple[str, str], query_ids: Ids, left: Floats, right: Floats
    ) -> QueryDifferences:
        """Sort the queries by difference; those undefined on one side are left out."""
        rows = [
            QueryDifference(query, a, b, a - b)
            for query, a, b in zip(query_ids, left.tolist(), right.tolist(), strict=True)
            if not math.isnan(a - b)
        ]
        rows.sort(key=lambda row: -row.difference)
        return cls(measure, *names, tuple(rows))

    def wins(self, n: int = 10) -> tuple[QueryDifference, ...]:
        """The n queries on which a gains most; never one on which it gains nothing."""
        return tuple(row for row in self.rows[: check_cutoff(n, "n")] if row.difference > 0)

    def losses(self, n: int = 10) -> tuple[QueryDifference, ...]:
        """The n queries on which a loses most, the worst first."""
        worst = self.rows[::-1][: check_cutoff(n, "n")]
        return tuple(row for row in worst if row.difference < 0)

    def table(self, n: int = 10) -> Table:
        """The largest wins and the largest losses of a."""
        return _difference_table(self, n)

    def plot(self) -> Any:
        """A chart of all queries, the largest win of a first; needs the extra `report`."""
        return plot_differences(self)

    def to_frame(self, backend: str = "pandas") -> Any:
        """A row per query, as a pandas, polars or pyarrow data frame."""
        names = ("query", "value_a", "value_b", "difference")
        return build_frame(
            {name: [getattr(row, name) for row in self.rows] for name in names}, backend
        )

    def to_dict(self, n: int | None = None) -> dict[str, Any]:
        """Plain data for JSON: all queries, or the n largest wins and losses."""
        rows = self.rows if n is None else (*self.wins(n), *self.losses(n)[::-1])
        return {
            "measure": self.measure,
            "a": self.a,
            "b": self.b,
            "queries": [
                {"query": r.query, "a": r.value_a, "b": r.value_b, "difference": r.difference}
                for r in rows
            ],
        }

    def __repr__(self) -> str:
        """The largest wins and losses as a small table."""
        return f"{self.a} − {self.b} on {self.measure}\n{as_text(self.table())}"


def _difference_table(differences: QueryDifferences, n: int) -> Table:
    """The largest wins and the largest losses of the first system."""
    rows = [
        *(_query_row("win", row) for row in differences.wins(n)),
        *(_query_row("loss", row) for row in reversed(differences.losses(n))),
    ]
    return Table(("", "query", differences.a, differences.b, "difference"), tuple(rows))


def _query_row(kind: str, row: QueryDifference) -> tuple[Cell, ...]:
    return (
        Cell(kind),
        Cell(row.query),
        Cell(row.value_a, "fraction"),
        Cell(row.value_b, "fraction"),
        Cell(signed(row.difference), "figure"),
    )
