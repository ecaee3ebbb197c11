"""Two or more runs compared: the statistics of `assay compare`, queries, and settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.comparison.alignment import comparable
from assay.comparison.compare import Comparison
from assay.core.text import signed
from assay.errors import MeasureError, UsageError
from assay.measures import parse
from assay.report import tables as parts
from assay.report.svg import QueryBar, difference_bars
from assay.runs.record import names_of
from assay.store import Aggregate, Run
from assay.store.summaries import list_group_columns
from assay.tables.html import Markup
from assay.tables.svg import Scale
from assay.tables.table import Cell, Table
from assay.web import listing as lists
from assay.web import page as web
from assay.web.caches import MOST_COMPARED, Pending
from assay.web.listing import ListColumn, Listing
from assay.web.page import PageRequest, PageRoute, WebPage

_MOST_PAIRS: Final = 200  # rows of the page; all pairs are in the file
_NOT_SETTINGS: Final = ("costs",)  # results, though they are stored with the settings
_MOST_DIFFED: Final = 20
_SEARCHED: Final = 50  # newest runs among which two of one dataset are looked for
_LONGEST: Final = 200  # characters of a value on the page; the file has all of them


def compare_page(request: PageRequest) -> WebPage:
    """Show the selected runs, compared on one measure."""
    runs = web.find_runs(request.store, request.params)
    if len(runs) < 2:
        return _selection_page(request, runs)
    if len(runs) > MOST_COMPARED:
        raise UsageError(f"A comparison takes up to {MOST_COMPARED} runs, found {len(runs)}.")
    names = names_of(runs)
    measures = _shared_measures(runs)
    measure = web.choose_measure(request.params, measures)
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
            "diff": web.address("/diff", run=ids),
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
    pair, slices = PairQueries(request, comparison, runs), comparison.slices
    return replace(
        page,
        data={**page.data, "comparison": comparison.to_dict(), "queries": pair.queries.to_dict()},
        tables=[
            _systems(request, comparison, runs),
            *_slices(request, comparison),
            _pairs(request, comparison),
            _overview(request, runs, names, measures, comparison),
            pair.queries.listing,
        ],
        context={
            **page.context,
            "verdict": parts.say_verdict(comparison.verdicts[measure], comparison),
            "terms": parts.explain_terms([measure, *parts.method_terms(comparison)]),
            "remarks": comparison.remarks,
            "method": comparison.method,
            "matrix": _matrix(comparison, runs),
            "sliced": [] if slices is None else slices.verdicts[str(comparison.measures[0])],
            "chart": pair.chart(),
            "counts": pair.counts(),
            "signature": comparison.signature,
            "retry_after": 0,
        },
    )


def find_comparison(
    request: PageRequest, runs: Sequence[Run], measure: str, column: str | None = None
) -> Comparison | Pending:
    """Return the comparison that the address asks for, or how long it has been running."""
    names = names_of(runs)
    baseline, id = None, _baseline_id(request)
    if id is not None:
        by_id = {run.id: name for name, run in zip(names, runs, strict=True)}
        if id not in by_id:
            raise UsageError(f"The baseline {id} is not among the compared runs.")
        baseline = by_id[id]
    settings = {"baseline": baseline, "slices": column}
    return request.cache.comparison(
        request.store, runs, names, request.timeout, measure=measure, **settings
    )


def _baseline_id(request: PageRequest) -> int | None:
    """Return the number of the baseline; None without one."""
    key = request.params.get("baseline")
    return web.find_run(request.store, key).id if key else None


def _selection_page(request: PageRequest, runs: Sequence[Run]) -> WebPage:
    """Show how to select runs, where fewer than two are."""
    last = [] if runs else _comparable_pair(request.store.runs(status="finished", limit=_SEARCHED))
    link = web.address("/compare", run=[run.id for run in last]) if last else ""
    data = {"runs": [run.id for run in runs], "comparison": None}
    return WebPage("choose", "Compare runs", data, [], {"runs": runs, "link": link, "last": last})


def _comparable_pair(runs: Sequence[Run]) -> list[Run]:
    """Return the two newest runs of one dataset that can be compared; nothing without such."""
    newest: dict[tuple[Any, ...], Run] = {}
    for run in runs:
        key = (run.dataset, run.task, run.signature, run.query_set, run.n_queries)
        other = newest.setdefault(key, run)
        if other is not run and _shared_measures([other, run]):
            return [other, run]
    return []


def _shared_measures(runs: Sequence[Run]) -> list[str]:
    """Return the measures that every run has for its queries and that can be compared."""
    measures = [
        [row.measure for row in run.aggregates if row.average == "micro" and row.is_overall]
        for run in runs
    ]
    shared = [name for name in measures[0] if all(name in names for names in measures)]
    return [name for name in dict.fromkeys(shared) if is_testable(name)]


def is_testable(name: str) -> bool:
    """Check that a measure is a mean over queries, which alone can be tested."""
    try:
        return comparable(parse(name))
    except MeasureError:
        return False


def _systems(
    request: PageRequest, comparison: Comparison, runs: Sequence[Run]
) -> Listing[tuple[Cell, ...]]:
    """Declare the list of systems, best first, with their intervals drawn."""
    measure = str(comparison.measures[0])
    means = [row.mean for row in comparison.standings_on(measure)]
    scale = Scale.around(end for mean in means for end in (mean.estimate, mean.low, mean.high))
    ids = {name: run.id for name, run in zip(comparison.names, runs, strict=True)}
    table = parts.ranked_table(comparison, measure)
    drawn = [Aggregate(measure, mean.estimate, low=mean.low, high=mean.high) for mean in means]

    def link(row: tuple[Cell, ...]) -> str:
        return web.address(f"/run/{ids[str(row[1].value)]}", measure=measure)

    return Listing(
        request,
        "systems",
        f"{measure}, best first",
        lists.table_columns(table, link),
        table.rows,
        picture=lists.interval_column(3, scale, drawn, [row[2].best for row in table.rows]),
    )


def _table_listing(
    request: PageRequest, name: str, caption: str, table: Table, most: int | None = None
) -> Listing[tuple[Cell, ...]]:
    """Declare a list of a finished table, of which the page shows the first rows."""
    return Listing(request, name, caption, lists.table_columns(table), table.rows[:most])


def _pairs(request: PageRequest, comparison: Comparison) -> Listing[tuple[Cell, ...]]:
    table = comparison.pair_table(comparison.measures[0])
    n_pairs = len(table.rows)
    caption = "Pairs" if n_pairs <= _MOST_PAIRS else f"The first {_MOST_PAIRS} of {n_pairs:,} pairs"
    listing = _table_listing(request, "pairs", caption, table, _MOST_PAIRS)
    return replace(listing, whole=comparison.data_table)


def _matrix(comparison: Comparison, runs: Sequence[Run]) -> Markup:
    """Draw all pairs as a square of the best systems; nothing of two, or with a baseline."""
    measure = str(comparison.measures[0])
    if len(runs) < 3 or comparison.baseline is not None:
        return Markup("")
    names, marks = parts.pair_marks(comparison, measure)
    ids = {name: run.id for name, run in zip(comparison.names, runs, strict=True)}

    def link(i: int, j: int) -> str:
        return web.address("/compare", run=[ids[names[i]], ids[names[j]]], measure=measure)

    return Markup(parts.pair_matrix(names[: parts.MOST_IN_MATRIX], marks, link))


def _slices(request: PageRequest, comparison: Comparison) -> list[Listing[tuple[Cell, ...]]]:
    """Declare means and pairs in each slice of the queries, where they are requested."""
    if comparison.slices is None:
        return []
    measure, column = str(comparison.measures[0]), comparison.slices.column
    means = comparison.slices.means_table(measure)
    pairs = comparison.slices.table(measure)
    return [
        _table_listing(request, "slices", f"Means by {column}", means),
        _table_listing(request, "slice-pairs", f"Pairs by {column}", pairs, _MOST_PAIRS),
    ]


def _overview(
    request: PageRequest,
    runs: Sequence[Run],
    names: Sequence[str],
    measures: Sequence[str],
    comparison: Comparison | None = None,
) -> Listing[tuple[str, Run]]:
    """Declare the list of stored means on all shared measures; one of them may be tested."""
    tested = () if comparison is None else comparison.standings_on(comparison.measures[0])
    leaders, on = {row.name for row in tested if row.leads}, {row.measure for row in tested}

    def mean_column(measure: str) -> ListColumn[tuple[str, Run]]:
        means = [run.means()[measure] for run in runs]
        top = max((mean for mean in means if mean is not None), default=None)

        def cell(row: tuple[str, Run]) -> Cell:
            mean = row[1].means()[measure]
            return Cell(mean, "fraction", row[0] in leaders if measure in on else mean == top)

        return ListColumn(measure, cell)

    several = len({run.dataset for run in runs}) > 1
    dataset: ListColumn[tuple[str, Run]] = ListColumn("dataset", lambda row: row[1].dataset)
    columns: list[ListColumn[tuple[str, Run]]] = [
        ListColumn("run", lambda row: row[0]),
        *([dataset] if several else []),
        *map(mean_column, measures),
    ]
    rows = list(zip(names, runs, strict=True))
    rows.sort(key=lambda row: [rank.name for rank in tested].index(row[0]) if tested else 0)
    return Listing(request, "measures", "Means of all measures", columns, rows)


class PairQueries:
    """Every query with its value in each run, and the difference of two of them."""

    def __init__(self, request: PageRequest, comparison: Comparison, runs: Sequence[Run]) -> None:
        measure = str(comparison.measures[0])
        values = comparison.values_on(measure)
        self.names = first, second = parts.first_pair(comparison, measure)
        left, right = (values[comparison.names.index(name)] for name in self.names)
        self.differences: Floats = left - right
        arrays = {"difference": self.differences}
        arrays |= {str(number): row for number, row in enumerate(values, 1)}
        by = request.params.get_choice(
            "sort", ["difference", "query", *list(arrays)[1:]], "difference"
        )
        difference: ListColumn[int] = ListColumn(
            f"{first} − {second}",
            lambda i: float(self.differences[i]),
            "difference",
            "difference",
            style=lambda i: _sign(self.differences[i]),
        )
        columns = [
            lists.array_column(row, name, "fraction", str(number))
            for number, (name, row) in enumerate(zip(comparison.names, values, strict=True), 1)
        ]
        self.queries = lists.QueryListing(
            request,
            runs,
            comparison.query_ids,
            arrays,
            lists.SortOrder.of(request.params, by, ["query"]),
            [difference, *columns],
            {"measure": measure, "baseline": request.params.get("baseline") or None},
        )

    def chart(self) -> Any:
        """Draw the differences of all queries, sorted."""
        first, second = self.names
        description = f"{first} − {second}, queries sorted by difference"

        def describe(position: int) -> QueryBar:
            difference = signed(float(self.differences[position]))
            tip = f"{self.queries.query_ids[position]}: {difference}"
            return QueryBar(self.queries.link(position), tip)

        return difference_bars(self.differences, description, describe)

    def counts(self) -> str:
        """Count the queries on which the first of the pair is better, equal and worse."""
        defined = self.differences[~np.isnan(self.differences)]
        better, worse = int((defined > 0).sum()), int((defined < 0).sum())
        first, second = self.names
        return (
            f"{first} − {second}: better on {better:,}, equal on "
            f"{len(defined) - better - worse:,}, worse on {worse:,} of {len(defined):,} queries."
        )


def _sign(difference: float) -> str:
    return "gain" if difference > 0 else "drop" if difference < 0 else ""


@dataclass(frozen=True)
class SettingRow:
    """One setting in each of the runs; None where a run does not have it."""

    section: str
    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        """Check whether two of the runs have other values."""
        return len(set(self.values)) > 1


def setting_rows(runs: Sequence[Run]) -> list[SettingRow]:
    """Return every setting that one of the runs has, in the order of the first."""
    settings = [dict(_settings(run)) for run in runs]
    keys = dict.fromkeys(key for values in settings for key in values)
    order = {section: i for i, section in enumerate(dict.fromkeys(section for section, _ in keys))}
    rows = [SettingRow(*key, tuple(values.get(key) for values in settings)) for key in keys]
    return sorted(rows, key=lambda row: order[row.section])


def _settings(run: Run) -> Iterator[tuple[tuple[str, str], str]]:
    facts = {
        "task": run.task,
        "dataset": run.dataset,
        "model": run.model,
        "queries": str(run.n_queries or ""),
        "tags": " ".join(run.tags),
        "signature": run.signature,
        "search": run.search,
    }
    origin = {
        "command": shlex.join(("assay", *run.command)) if run.command else "",
        "folder": run.folder,
        "commit": run.git_commit,
        "imported from": run.origin,
    }
    settings = {key: value for key, value in run.config.items() if key not in _NOT_SETTINGS}
    sections: dict[str, Mapping[str, Any]] = {
        "run": facts,
        "settings": settings,
        "seeds": run.seeds,
        "data": run.data,
        "environment": {**origin, **run.versions},
    }
    for section, values in sections.items():
        for name, text in _flatten(values):
            yield (section, name), text


def _flatten(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings by their path, without those that are not set.

    >>> list(_flatten({"a": {"b": 1, "c": None}, "d": "x"}))
    [('a.b', '1'), ('d', 'x')]
    """
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{before}{key}.")
        elif value not in (None, "", []):
            yield f"{before}{key}", value if isinstance(value, str) else json.dumps(value)


def diff_page(request: PageRequest) -> WebPage:
    """Show the settings of the selected runs: those that differ, or all."""
    runs = web.find_runs(request.store, request.params)
    if len(runs) > _MOST_DIFFED:
        raise UsageError(f"The settings of up to {_MOST_DIFFED} runs are shown, found {len(runs)}.")
    whole = request.params.get_choice("show", ("differences", "all"), "differences") == "all"
    rows = setting_rows(runs)
    differing = [row for row in rows if row.differs]
    listing = _setting_listing(request, runs, rows if whole else differing)
    ids = [run.id for run in runs]
    return WebPage(
        "diff",
        f"How {len(runs)} runs differ",
        {
            "runs": ids,
            "names": names_of(runs),
            "differing": len(differing),
            "total": len(rows),
            "settings": [asdict(row) for row in listing.rows],
        },
        [listing],
        {
            "whole": whole,
            "other": request.params.address("/diff", show=None if whole else "all"),
            "compare": web.address("/compare", run=ids) if len(runs) > 1 else "",
        },
    )


def _setting_listing(
    request: PageRequest, runs: Sequence[Run], rows: Sequence[SettingRow]
) -> Listing[SettingRow]:
    columns: list[ListColumn[SettingRow]] = [
        ListColumn("setting", lambda row: row.name),
        ListColumn("section", lambda row: row.section),
        *map(_run_column, range(len(runs)), names_of(runs), runs),
    ]
    return Listing(request, "settings", "Settings", columns, rows)


def _run_column(i: int, name: str, run: Run) -> ListColumn[SettingRow]:
    """Declare the column of a run, which marks values that the first run does not have."""
    return ListColumn(
        name,
        lambda row: row.values[i],
        form=lambda text: text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…",
        style=lambda row: "other" if row.values[i] != row.values[0] else "",
        heading_link=web.address(f"/run/{run.id}"),
    )


ROUTES: Final = (
    PageRoute("/compare", compare_page, menu="Compare", position=3),
    PageRoute("/diff", diff_page),
)
