"""Two or more runs compared: the statistics of `assay compare`, and where the runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from assay.arrays import Floats, Ints, or_none
from assay.comparison.alignment import comparable
from assay.comparison.compare import Comparison
from assay.comparison.slice_pages import slice_means_table, slice_pairs_table
from assay.comparison.tables import data_table, method_note, pair_table, system_table
from assay.core.text import signed
from assay.errors import MeasureError, UsageError
from assay.measures import parse
from assay.report.heat import MOST_IN_MATRIX, pair_marks, pair_matrix
from assay.report.svg import QueryBar, difference_bars, interval_strip
from assay.store import Run
from assay.store.overviews import list_group_columns
from assay.store.run import names_of
from assay.tables.svg import Scale
from assay.tables.table import Cell, Table
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable, Paging, order_by, rows_as_dicts, sort_links
from assay.web.params import QueryParams, address, choose_measure, find_run, find_runs
from assay.web.query_list import find_queries, read_texts, row_notes
from assay.web.run_diff import setting_rows
from assay.web.score_cache import MOST_COMPARED, Pending

__all__ = ["ROUTE", "compare_page"]

_MOST_PAIRS: Final = 200  # rows of the page; all pairs are in the file


def compare_page(request: PageRequest) -> WebPage:
    """The selected runs, compared on one measure."""
    runs = find_runs(request.store, request.params)
    if len(runs) < 2:
        return _selection_page(request, runs)
    if len(runs) > MOST_COMPARED:
        raise UsageError(f"A comparison takes up to {MOST_COMPARED} runs, found {len(runs)}.")
    names = names_of(runs)
    measures = _shared_measures(runs)
    measure = choose_measure(request.params, measures)
    if not measure:
        raise UsageError("These runs have no measure in common.")
    ids = [run.id for run in runs]
    with request.store.database.reading() as connection:
        columns = list_group_columns(connection, ids)
    column = request.params.get_name("slice", columns)
    page = WebPage(
        "compare",
        f"{len(runs)} runs compared",
        {"runs": ids, "measure": measure, "measures": measures, "columns": columns},
        [_overview(request, runs, names, measures)],
        {
            "runs": runs,
            "names": names,
            "measure": measure,
            "baseline": _baseline_id(request),
            "column": column if column in columns else "",
            "searched": request.params.get("q"),
            "diff": address("/diff", run=ids),
            "n_differing": sum(row.differs for row in setting_rows(runs)),
        },
    )
    comparison = find_comparison(request, runs, measure, page.context["column"] or None)
    if isinstance(comparison, Pending):
        return replace(
            page,
            data={**page.data, "comparison": None},
            context={**page.context, "retry_after": comparison.retry_after},
        )
    return _add_comparison(page, request, comparison, runs)


def find_comparison(
    request: PageRequest, runs: Sequence[Run], measure: str, column: str | None = None
) -> Comparison | Pending:
    """The comparison that the address asks for, or how long it has been under way."""
    names = names_of(runs)
    return request.cache.comparison(
        request.store,
        runs,
        names,
        measure=measure,
        baseline=_baseline(request, runs, names),
        slices=column,
        timeout=request.timeout,
    )


def _add_comparison(
    page: WebPage, request: PageRequest, comparison: Comparison, runs: Sequence[Run]
) -> WebPage:
    """The page with the result of the comparison."""
    queries = QueryTable.of(request, comparison, runs)
    return replace(
        page,
        data={**page.data, "comparison": comparison.to_dict(), "queries": queries.data()},
        tables=[
            _systems(request, comparison, runs),
            *_slices(request, comparison),
            _pairs(request, comparison),
            *page.tables,
            queries.page_table(),
        ],
        context={
            **page.context,
            "verdict": comparison.verdict,
            "remarks": comparison.remarks,
            "method": method_note(comparison),
            "matrix": _matrix(request, comparison, runs),
            "sliced": _slice_sentences(comparison),
            "chart": queries.chart(),
            "counts": queries.counts(),
            "signature": comparison.signature,
            "retry_after": 0,
        },
        downloads={"queries": queries.whole, "pairs": partial(data_table, comparison)},
    )


def _baseline_id(request: PageRequest) -> int | None:
    """The number of the baseline."""
    key = request.params.get("baseline")
    return find_run(request.store, key).id if key else None


def _selection_page(request: PageRequest, runs: Sequence[Run]) -> WebPage:
    """Fewer than two runs are selected: show how to select them."""
    last = [] if runs else request.store.runs(status="finished", limit=2)
    link = address("/compare", run=[run.id for run in last]) if len(last) == 2 else ""
    data = {"runs": [run.id for run in runs], "comparison": None}
    return WebPage("choose", "Compare runs", data, [], {"runs": runs, "link": link, "last": last})


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


def _baseline(request: PageRequest, runs: Sequence[Run], names: Sequence[str]) -> str | None:
    wanted = _baseline_id(request)
    if wanted is None:
        return None
    found = [name for name, run in zip(names, runs, strict=True) if run.id == wanted]
    if not found:
        raise UsageError(f"The baseline {wanted} is not among the compared runs.")
    return found[0]


def _systems(request: PageRequest, found: Comparison, runs: Sequence[Run]) -> PageTable:
    measure = str(found.measures[0])
    standings = found.standings_on(measure)
    means = [one.mean for one in standings]
    scale = Scale.around(end for mean in means for end in (mean.estimate, mean.low, mean.high))
    own = dict(zip(found.names, runs, strict=True))
    table = system_table(found, measure)
    return PageTable(
        "systems",
        f"{measure}, best first",
        table,
        csv=request.params.address(f"{request.path}.csv", table="systems", page=None),
        links=[{0: address(f"/run/{own[one.name].id}", measure=measure)} for one in standings],
        pictures=[
            interval_strip(
                scale,
                or_none(mean.estimate),
                or_none(mean.low),
                or_none(mean.high),
                first=row[1].best,
            )
            for mean, row in zip(means, table.rows, strict=True)
        ],
        picture_after=2,
        picture_head="interval",
    )


def _pairs(request: PageRequest, found: Comparison) -> PageTable:
    csv = request.params.address(f"{request.path}.csv", table="pairs", page=None)
    table = pair_table(found, str(found.measures[0]))
    shown, n = table.rows[:_MOST_PAIRS], len(table.rows)
    title = "Pairs" if n == len(shown) else f"The first {len(shown)} of {n:,} pairs"
    return PageTable("pairs", title, replace(table, rows=shown), csv=csv)


def _matrix(request: PageRequest, found: Comparison, runs: Sequence[Run]) -> Markup:
    """All pairs as a square of the best systems; nothing of two, or beside a baseline."""
    measure = str(found.measures[0])
    if len(runs) < 3 or found.baseline is not None:
        return Markup("")
    names, marks = pair_marks(found, measure)
    ids = {name: run.id for name, run in zip(found.names, runs, strict=True)}

    def link(i: int, j: int) -> str:
        return address("/compare", run=[ids[names[i]], ids[names[j]]], measure=measure)

    return Markup(pair_matrix(names[:MOST_IN_MATRIX], marks, link))


def _slices(request: PageRequest, found: Comparison) -> list[PageTable]:
    """Means and pairs in each slice of the queries, where they are asked for."""
    if found.slices is None:
        return []
    measure, column = str(found.measures[0]), found.slices.column
    csv = partial(request.params.address, f"{request.path}.csv", page=None)
    pairs = slice_pairs_table(found.slices, measure)
    shown = replace(pairs, rows=pairs.rows[:_MOST_PAIRS])
    means = slice_means_table(found.slices, measure)
    return [
        PageTable("slices", f"Means by {column}", means, csv=csv(table="slices")),
        PageTable("slice-pairs", f"Pairs by {column}", shown, csv=csv(table="slice-pairs")),
    ]


def _slice_sentences(found: Comparison) -> list[str]:
    return [] if found.slices is None else found.slices.verdicts[str(found.measures[0])]


def _overview(
    request: PageRequest, runs: Sequence[Run], names: Sequence[str], measures: Sequence[str]
) -> PageTable:
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
    csv = request.params.address(f"{request.path}.csv", table="measures", page=None)
    columns = ("run", *(["dataset"] if several else []), *measures)
    return PageTable("measures", "Means of all measures", Table(columns, rows), csv=csv)


class QueryTable:
    """Every query with its value in each run, and the difference of the first two."""

    def __init__(
        self,
        request: PageRequest,
        found: Comparison,
        runs: Sequence[Run],
        names: tuple[str, str],
        values: Floats,
    ) -> None:
        self._request, self._found, self._runs, self._values = request, found, runs, values
        self.names = names
        first, second = (found.names.index(name) for name in names)
        self.differences = values[first] - values[second]
        self._by, self._descending = _order(request.params, len(runs))

    @classmethod
    def of(cls, request: PageRequest, found: Comparison, runs: Sequence[Run]) -> QueryTable:
        """The first two runs, or the best one against the baseline or the next."""
        measure = str(found.measures[0])
        ranked = [one.name for one in found.standings_on(measure)]
        if found.baseline is not None:
            names = (next(n for n in ranked if n != found.baseline), found.baseline)
        else:
            names = (ranked[0], ranked[1])
        return cls(request, found, runs, names, found.values_on(measure))

    @cached_property
    def positions(self) -> Ints:
        """The queries that were searched for, in the order that the address asks for."""
        order = self._order()
        return find_queries(self._request, self._runs, self._found.query_ids, order)

    def _order(self) -> Ints:
        if self._by == "query":
            positions = np.arange(self._found.n_queries)
            return positions[::-1] if self._descending else positions
        is_run = self._by != "difference"
        column = self._values[int(self._by) - 1] if is_run else self.differences
        return order_by(column, descending=self._descending)

    def _table(self, positions: Ints) -> Table:
        ids: Sequence[Any] = self._found.query_ids.take(positions).to_list()
        values = self._values[:, positions].T.tolist()
        differences = self.differences[positions].tolist()
        rows = tuple(
            (Cell(query), Cell(d, "difference"), *(Cell(value, "fraction") for value in own))
            for query, own, d in zip(ids, values, differences, strict=True)
        )
        first, second = self.names
        return Table(("query", f"{first} − {second}", *self._found.names), rows)

    def whole(self) -> Table:
        """Every query, for CSV."""
        return self._table(self.positions)

    def _paging(self) -> Paging:
        return Paging.of(self._request.params, self._request.path, len(self.positions))

    @cached_property
    def _page(self) -> Table:
        return self._table(self.positions[self._paging().rows])

    @cached_property
    def _texts(self) -> dict[str, str]:
        ids = [row[0].value for row in self._page.rows]
        return read_texts(self._request.store, self._runs, ids)

    def page_table(self) -> PageTable:
        """The queries on this page."""
        request, paging, table = self._request, self._paging(), self._page
        keys = dict(enumerate(["query", "difference", *map(str, range(1, len(self._runs) + 1))]))
        return PageTable(
            "queries",
            "Queries",
            table,
            csv=request.params.address(f"{request.path}.csv", table="queries", page=None),
            links=[{0: self._link(row[0].value)} for row in table.rows],
            classes=[{1: _sign(row[1].value)} for row in table.rows],
            sort_links=sort_links(
                request.params,
                request.path,
                keys,
                by=self._by,
                descending=self._descending,
                texts=["query"],
            ),
            paging=paging,
            notes=row_notes(self._texts, [row[0].value for row in table.rows]),
        )

    def _link(self, query: Any) -> str:
        """The page of a query, whose neighbours are those of this list."""
        params = self._request.params
        kept = {key: params.get(key) or None for key in ("q", "baseline")}
        return address(
            "/query",
            run=[run.id for run in self._runs],
            query=query,
            measure=str(self._found.measures[0]),
            sort=self._by,
            order="down" if self._descending else "up",
            **kept,
        )

    def data(self) -> dict[str, Any]:
        """The same for programs."""
        paging = self._paging()
        return {
            "total": paging.total,
            "number": paging.number,
            "sort": self._by,
            "descending": self._descending,
            "rows": rows_as_dicts(self._page),
            "texts": self._texts,
        }

    def chart(self) -> Any:
        """Differences of all queries, sorted."""
        first, second = self.names
        words = f"{first} − {second}, queries sorted by difference"
        return difference_bars(self.differences, words, self._describe_bar)

    def _describe_bar(self, position: int) -> QueryBar:
        query = self._found.query_ids[position]
        tip = f"{query}: {signed(float(self.differences[position]))}"
        return QueryBar(self._link(query), tip)

    def counts(self) -> str:
        """On how many queries the first of the pair is better, equal and worse."""
        known = self.differences[~np.isnan(self.differences)]
        better, worse = int((known > 0).sum()), int((known < 0).sum())
        first, second = self.names
        return (
            f"{first} − {second}: better on {better:,}, equal on "
            f"{len(known) - better - worse:,}, worse on {worse:,} of {len(known):,} queries."
        )


def _order(params: QueryParams, n_runs: int) -> tuple[str, bool]:
    keys = ["difference", "query", *map(str, range(1, n_runs + 1))]
    by = params.get_choice("sort", keys, "difference")
    return by, params.get_choice(
        "order", ("up", "down"), "up" if by == "query" else "down"
    ) == "down"


def _sign(value: Any) -> str:
    if not isinstance(value, float) or np.isnan(value) or value == 0:
        return ""
    return "gain" if value > 0 else "drop"


ROUTE: Final = PageRoute("/compare", compare_page, menu="Compare", position=3)
