"""Two or more runs compared: the statistics of `assay compare`, and where the runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import or_none
from assay.comparison.alignment import comparable
from assay.comparison.compare import Comparison
from assay.comparison.tables import data_table, method_note, pair_table, system_table
from assay.errors import MeasureError, UsageError
from assay.measures import parse
from assay.report.svg import Span, bars, strip
from assay.store import Run
from assay.store.run import names_of
from assay.tables.table import Cell, Table
from assay.web.page import Page, View
from assay.web.page_table import Paging, Sheet, by_number, plain_rows, sorting
from assay.web.pages.query import beside, texts_of
from assay.web.params import Asked, address, chosen_measure, find_run, find_runs
from assay.web.score_cache import Unfinished

__all__ = ["compared_page"]

_MOST_RUNS: Final = 20


def compared_page(view: View) -> Page:
    """Runs that were chosen, compared on one measure."""
    runs = find_runs(view.store, view.asked)
    if len(runs) < 2:
        return _too_few(view, runs)
    if len(runs) > _MOST_RUNS:
        raise UsageError(f"{len(runs)} runs are too many for one page; choose up to {_MOST_RUNS}.")
    names = names_of(runs)
    measures = _shared_measures(runs)
    measure = chosen_measure(view.asked, measures)
    if not measure:
        raise UsageError("These runs have no measure in common: there is nothing to compare.")
    baseline = _baseline(view, runs, names)
    overview = _overview(view, runs, names, measures)
    shared = {"runs": runs, "names": names, "measure": measure, "baseline": _id_of(view)}
    data = {"runs": [run.id for run in runs], "measure": measure, "measures": measures}
    found = view.values.comparison(
        view.store, runs, names, measure=measure, baseline=baseline, patience=view.patience
    )
    title = f"{len(runs)} runs compared"
    if isinstance(found, Unfinished):
        return Page(
            "compare",
            title,
            {**data, "comparison": None},
            [overview],
            {**shared, "ask_again": found.ask_again},
        )
    queries = _Queries.of(view, found, runs)
    return Page(
        "compare",
        title,
        {**data, "comparison": found.to_dict(), "queries": queries.data()},
        [_systems(view, found, runs, measure), _pairs(view, found), overview, queries.sheet()],
        {
            **shared,
            "verdict": found.verdict,
            "remarks": found.remarks,
            "method": method_note(found),
            "chart": queries.chart(),
            "counted": queries.counted(),
            "signature": found.signature,
            "ask_again": 0,
        },
        {"queries": queries.whole, "pairs": partial(data_table, found)},
    )


def _id_of(view: View) -> int | None:
    """The number of the baseline."""
    key = view.asked.one("baseline")
    return find_run(view.store, key).id if key else None


def _too_few(view: View, runs: Sequence[Run]) -> Page:
    """Nothing is chosen yet: say how to choose."""
    last = [] if runs else view.store.runs(status="finished", limit=2)
    link = address("/compare", run=[run.id for run in last]) if len(last) == 2 else ""
    data = {"runs": [run.id for run in runs], "comparison": None}
    return Page("choose", "Compare runs", data, [], {"runs": runs, "link": link, "last": last})


def _shared_measures(runs: Sequence[Run]) -> list[str]:
    """Measures that every run has for its queries, and that can be compared."""
    have = [
        [
            one.measure
            for one in run.aggregates
            if one.average == "micro" and not one.by_column and not one.subset
        ]
        for run in runs
    ]
    shared = [name for name in dict.fromkeys(have[0]) if all(name in own for own in have)]
    return [name for name in shared if _testable(name)]


def _testable(name: str) -> bool:
    """Whether a measure is a mean over queries, which alone can be tested."""
    try:
        return comparable(parse(name))
    except MeasureError:
        return False


def _baseline(view: View, runs: Sequence[Run], names: Sequence[str]) -> str | None:
    wanted = _id_of(view)
    if wanted is None:
        return None
    found = [name for name, run in zip(names, runs, strict=True) if run.id == wanted]
    if not found:
        raise UsageError(f"The baseline {wanted} is none of the runs that are compared.")
    return found[0]


def _systems(view: View, found: Comparison, runs: Sequence[Run], measure: str) -> Sheet:
    standings = found.standings_on(measure)
    means = [one.mean for one in standings]
    span = Span.around(end for mean in means for end in (mean.estimate, mean.low, mean.high))
    own = dict(zip(found.names, runs, strict=True))
    table = system_table(found, measure)
    return Sheet(
        "systems",
        f"{measure}, best first",
        table,
        csv=view.asked.but(f"{view.path}.csv", table="systems", page=None),
        links=[{0: address(f"/run/{own[one.name].id}", measure=measure)} for one in standings],
        pictures=[
            strip(
                span,
                or_none(mean.estimate),
                or_none(mean.low),
                or_none(mean.high),
                first=row[1].best,
            )
            for mean, row in zip(means, table.rows, strict=True)
        ],
        pictured=2,
    )


def _pairs(view: View, found: Comparison) -> Sheet:
    csv = view.asked.but(f"{view.path}.csv", table="pairs", page=None)
    return Sheet("pairs", "Pairs", pair_table(found, str(found.measures[0])), csv=csv)


def _overview(
    view: View, runs: Sequence[Run], names: Sequence[str], measures: Sequence[str]
) -> Sheet:
    """Stored means of every measure that all runs have; the best of each in bold."""
    means = [run.means() for run in runs]
    best = {
        name: max((mean for own in means if (mean := own[name]) is not None), default=None)
        for name in measures
    }
    several = len({run.dataset for run in runs}) > 1
    rows = tuple(
        (
            Cell(name),
            *([Cell(run.dataset)] if several else []),
            *(Cell(own[m], "fraction", own[m] is not None and own[m] == best[m]) for m in measures),
        )
        for name, run, own in zip(names, runs, means, strict=True)
    )
    csv = view.asked.but(f"{view.path}.csv", table="measures", page=None)
    columns = ("run", *(["dataset"] if several else []), *measures)
    return Sheet("measures", "Means of all measures", Table(columns, rows), csv=csv)


class _Queries:
    """Every query with its value in each run, and the difference of the first two."""

    def __init__(
        self,
        view: View,
        found: Comparison,
        runs: Sequence[Run],
        names: tuple[str, str],
        values: NDArray[np.float64],
    ) -> None:
        self._view, self._found, self._runs, self._values = view, found, runs, values
        self.names = names
        first, second = (found.names.index(name) for name in names)
        self.differences = values[first] - values[second]
        self._by, self._descending = _order(view.asked, len(runs))

    @classmethod
    def of(cls, view: View, found: Comparison, runs: Sequence[Run]) -> _Queries:
        """The first two runs, or the best one against the baseline or the next."""
        measure = str(found.measures[0])
        ranked = [one.name for one in found.standings_on(measure)]
        if found.baseline is not None:
            names = (next(n for n in ranked if n != found.baseline), found.baseline)
        else:
            names = (ranked[0], ranked[1])
        return cls(view, found, runs, names, found.values_on(measure))

    def _places(self) -> NDArray[np.int64]:
        if self._by == "query":
            places = np.arange(self._found.n_queries)
            return places[::-1] if self._descending else places
        is_run = self._by != "difference"
        column = self._values[int(self._by) - 1] if is_run else self.differences
        return by_number(column, descending=self._descending)

    def _table(self, places: NDArray[np.int64]) -> Table:
        ids: Sequence[Any] = self._found.query_ids.take(places).to_list()
        values = self._values[:, places].T.tolist()
        differences = self.differences[places].tolist()
        rows = tuple(
            (Cell(query), *(Cell(value, "fraction") for value in own), Cell(d, "difference"))
            for query, own, d in zip(ids, values, differences, strict=True)
        )
        first, second = self.names
        return Table(("query", *self._found.names, f"{first} − {second}"), rows)

    def whole(self) -> Table:
        """Every query, for CSV."""
        return self._table(self._places())

    def _paging(self) -> Paging:
        return Paging.of(self._view.asked, self._view.path, self._found.n_queries)

    @cached_property
    def _shown(self) -> Table:
        return self._table(self._places()[self._paging().rows])

    @cached_property
    def _texts(self) -> dict[str, str]:
        ids = [row[0].value for row in self._shown.rows]
        return texts_of(self._view.store, self._runs, ids)

    def sheet(self) -> Sheet:
        """The queries that are shown."""
        view, paging, table = self._view, self._paging(), self._shown
        last = len(table.columns) - 1
        keys = {0: "query", **{i: str(i) for i in range(1, last)}, last: "difference"}
        runs = [run.id for run in self._runs]
        measure = str(self._found.measures[0])
        return Sheet(
            "queries",
            "Queries",
            table,
            csv=view.asked.but(f"{view.path}.csv", table="queries", page=None),
            links=[
                {0: address("/query", run=runs, query=row[0].value, measure=measure)}
                for row in table.rows
            ],
            marks=[{last: _sign(row[last].value)} for row in table.rows],
            heads=sorting(
                view.asked,
                view.path,
                keys,
                by=self._by,
                descending=self._descending,
                texts=["query"],
            ),
            paging=paging,
            notes=beside(self._texts, [row[0].value for row in table.rows]),
        )

    def data(self) -> dict[str, Any]:
        """The same for programs."""
        paging = self._paging()
        return {
            "total": paging.total,
            "number": paging.number,
            "sort": self._by,
            "descending": self._descending,
            "rows": plain_rows(self._shown),
            "texts": self._texts,
        }

    def chart(self) -> Any:
        """Differences of all queries, sorted."""
        first, second = self.names
        return bars(self.differences, f"{first} less {second}, queries sorted by difference")

    def counted(self) -> str:
        """On how many queries the first of the pair is better, equal and worse."""
        known = self.differences[~np.isnan(self.differences)]
        better, worse = int((known > 0).sum()), int((known < 0).sum())
        first, second = self.names
        return (
            f"{first} less {second}: better on {better:,}, equal on "
            f"{len(known) - better - worse:,}, worse on {worse:,} of {len(known):,} queries."
        )


def _order(asked: Asked, n_runs: int) -> tuple[str, bool]:
    keys = ["difference", "query", *map(str, range(1, n_runs + 1))]
    by = asked.choice("sort", keys, "difference")
    return by, asked.choice("order", ("up", "down"), "up" if by == "query" else "down") == "down"


def _sign(value: Any) -> str:
    if not isinstance(value, float) or np.isnan(value) or value == 0:
        return ""
    return "gain" if value > 0 else "drop"
