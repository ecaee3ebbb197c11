"""The leaderboard of a dataset: means with intervals, group letters, other measures and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from assay.comparison.verdict import describe_test
from assay.core.text import format_bytes, format_rate, format_time
from assay.errors import AssayError
from assay.report.svg import CostPoint, cost_picture, interval_strip
from assay.runs.record import names_of
from assay.stats.corrections import split_letters
from assay.store import Run, Store
from assay.store.summaries import (
    RunCosts,
    RunMean,
    find_means,
    list_datasets,
    list_measures,
    query_checksums,
    read_costs,
    read_means,
)
from assay.tables.svg import Scale
from assay.tables.table import Cell
from assay.web.caches import MOST_COMPARED, Pending
from assay.web.listing import ListColumn, Listing, interval_column, moment_column
from assay.web.page import (
    PageRequest,
    PageRoute,
    WebPage,
    address,
    choose_dataset,
    choose_measure,
)

_MOST_VALUES: Final = 500_000  # runs × queries whose letters take seconds, not minutes
_OTHERS: Final = 3  # measures beside the one that ranks, unless they are chosen
_KINDS: Final = {"newest": "the newest run of each name", "all": "all runs"}


def leaderboard_page(request: PageRequest) -> WebPage:
    """Show the runs of one dataset on one measure, best first."""
    with request.store.database.reading() as connection:
        boards = list_datasets(connection)
        dataset = choose_dataset(request.params, [name for name, _, _ in boards])
        measures = list_measures(connection, dataset=dataset, status="finished")
        measure = choose_measure(request.params, measures)
        rows = find_means(connection, measure, dataset=dataset) if measure else []
        kind = request.params.get_choice("of", _KINDS, "newest")
        ranked = _rank(rows, newest=kind == "newest")
        ids = [run.id for run in ranked]
        queries = set(query_checksums(connection, ids).values())
        also = _choose_others(request, measures, measure)
        means, costs = read_means(connection, ids, also), read_costs(connection, ids)
    letters = _find_letters(request, ranked, measure)
    entries = [
        _Entry(place, run, letters.by_run.get(run.id, ""), means.get(run.id, {}), costs.get(run.id))
        for place, run in enumerate(ranked, 1)
    ]
    named_like = request.params.get("named_like")
    matching = [entry for entry in entries if named_like.casefold() in entry.run.name.casefold()]
    board = _Board(measure, also, entries, bool(letters.by_run))
    listing = board.listing(request, matching)
    data = {
        "dataset": dataset,
        "measure": measure,
        "also": also,
        "of": kind,
        "measures": measures,
        "datasets": [{"dataset": n, "runs": number, "last": last} for n, number, last in boards],
        **listing.state(),
        "letters_note": letters.note,
        "query_sets": len(queries),
        "runs": [entry.to_dict() for entry in listing.rows],
    }
    title = f"Leaderboard of {dataset or 'runs without a dataset'}"
    return WebPage(
        "leaderboard",
        title,
        data,
        [listing],
        {
            "kinds": _KINDS,
            "named_like": named_like,
            "chosen": bool(request.params.get_all("also")),
            "note": letters.note,
            "retry_after": letters.retry_after,
            "compare": address("/compare", run=letters.family, measure=measure)
            if len(letters.family) > 1
            else "",
            "mixed_conventions": len({run.conventions for run in ranked}) > 1,
            **_cost_context(request, entries, measure),
        },
    )


def _choose_others(request: PageRequest, measures: Sequence[str], measure: str) -> list[str]:
    """Return the measures of the address beside the one that ranks, else the first few."""
    names = request.params.get_all("also")
    if not names:
        return [name for name in measures if name != measure][:_OTHERS]
    return [name for name in measures if name in names and name != measure]


@dataclass(frozen=True)
class _Entry:
    """A run on the board: its place, letters, other means and costs."""

    place: int
    run: RunMean
    letters: str
    means: dict[str, float | None]
    costs: RunCosts | None

    def cost(self, key: str) -> float | None:
        """Return one of the costs; None where it is unknown."""
        cost: float | None = getattr(self.costs, key, None)
        return cost

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        costs = None if self.costs is None else asdict(self.costs)
        more = {"letters": self.letters, "means": self.means, "costs": costs}
        return {**self.run.to_dict(), "place": self.place, **more}


def _rank(rows: Sequence[RunMean], *, newest: bool) -> list[RunMean]:
    """Sort runs best first; of those with the same name, keep the newest or all."""
    if newest:  # the rows begin with the newest
        rows = list({(run.name, run.model): run for run in reversed(rows)}.values())
    return sorted(rows, key=lambda run: (run.value is None, -(run.value or 0.0), -run.id))


@dataclass(frozen=True)
class _Letters:
    """Group letters by run, a note on them, seconds until they are ready, and who was compared."""

    by_run: dict[int, str] = field(default_factory=dict)
    note: str = ""
    retry_after: int = 0
    family: tuple[int, ...] = ()


def _find_letters(request: PageRequest, ranked: Sequence[RunMean], measure: str) -> _Letters:
    """Return the letters that the page of a comparison shows for these runs."""
    runs, left_out = _family(request.store, ranked, measure)
    ids = tuple(run.id for run in runs)
    if len(runs) < 2:
        return _Letters(note=left_out)
    if len(runs) * max(run.n_queries for run in runs) > _MOST_VALUES:
        return _Letters(note="Compare runs to see which of them are separable.", family=ids)
    names = names_of(runs)
    try:
        comparison = request.cache.comparison(
            request.store, runs, names, measure=measure, timeout=request.timeout
        )
    except AssayError as error:
        return _Letters(note=f"No group letters: {error}", family=ids)
    if isinstance(comparison, Pending):
        return _Letters({}, "Group letters are being computed.", comparison.retry_after, ids)
    by_name = dict(zip(names, ids, strict=True))
    letters = {by_name[row.name]: row.letters for row in comparison.standings_on(measure)}
    settings = comparison.settings
    unit = "" if settings.by is None else f", whole groups by {settings.by}"
    how = f"{describe_test(settings, len(comparison.pairs))}{unit}"
    note = f"Runs that share a letter are not separable ({how}: {comparison.family}).{left_out}"
    return _Letters(letters, note, 0, ids)


def _family(store: Store, ranked: Sequence[RunMean], measure: str) -> tuple[list[Run], str]:
    """Return the runs to compare, best first, and a sentence on those left out.

    They follow the same conventions on the same queries; a model behind an index is to be compared
    with its own exact search, and not with other models.
    """
    scored = [run for run in ranked if run.value is not None]
    usual = _most_common(run.conventions for run in scored)
    alike = [run for run in scored if run.conventions == usual]
    best = [run.id for run in alike[:MOST_COMPARED]]
    stored = {run.id: run for run in store.runs(id=best, measures=[measure])} if best else {}
    runs = [stored[id] for id in best if id in stored]
    models = [run for run in runs if not run.config.get("index_of")]
    query_set = _most_common(run.query_set for run in models if run.query_set)
    family = [run for run in models if run.query_set in ("", query_set)]
    numbers = {
        "of other conventions": len(scored) - len(alike),
        f"beyond the best {MOST_COMPARED}": len(alike) - len(best),
        "behind an index": len(runs) - len(models),
        "of other query sets": len(models) - len(family),
    }
    words = ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
    return family, f" Left out: {words}." if words else ""


def _most_common(values: Iterable[str]) -> str:
    """Return the value that most have; of equally many the first."""
    return next((value for value, _ in Counter(values).most_common(1)), "")


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


class _Board:
    """The list of a leaderboard: the columns that say something, in the order of their weight."""

    def __init__(
        self, measure: str, also: Sequence[str], entries: Sequence[_Entry], lettered: bool
    ) -> None:
        self.measure, self.also, self.entries, self.lettered = measure, also, entries, lettered

    def columns(self) -> list[ListColumn[_Entry]]:
        """Declare the columns; letters, costs and models only where some run has them."""
        costs = [key for key in COSTS if _largest(e.cost(key) for e in self.entries) is not None]
        with_models = any(entry.run.model not in ("", entry.run.name) for entry in self.entries)
        letters: ListColumn[_Entry] = ListColumn(
            "group letters", lambda entry: entry.letters or None
        )
        return [
            ListColumn(
                "name",
                lambda entry: entry.run.name,
                link=lambda entry: address(f"/run/{entry.run.id}", measure=self.measure),
            ),
            ListColumn(self.measure, lambda entry: entry.run.value, "fraction"),
            *([letters] if self.lettered else []),
            *map(self._mean_column, self.also),
            *(COSTS[key].column(key) for key in costs),
            ListColumn("from", lambda entry: entry.run.low, "fraction"),
            ListColumn("to", lambda entry: entry.run.high, "fraction"),
            ListColumn("chance", lambda entry: entry.run.chance, "fraction"),
            ListColumn("queries", lambda entry: entry.run.n, "count"),
            ListColumn("place", lambda entry: entry.place, "count"),
            *([ListColumn[_Entry]("model", lambda entry: entry.run.model)] if with_models else []),
            ListColumn("run", lambda entry: entry.run.id, "count"),
            moment_column("began", lambda entry: entry.run.created),
        ]

    def _mean_column(self, measure: str) -> ListColumn[_Entry]:
        """Declare the column of another measure, its best value in bold."""
        top = _largest(entry.means.get(measure) for entry in self.entries)

        def cell(entry: _Entry) -> Cell:
            value = entry.means.get(measure)
            return Cell(value, "fraction", value is not None and value == top)

        return ListColumn(measure, cell)

    def listing(self, request: PageRequest, entries: Sequence[_Entry]) -> Listing[_Entry]:
        """Declare the list of some entries, a page of it with its intervals drawn."""
        caption, columns = f"{self.measure}, best first", self.columns()
        listing = Listing(
            request, "leaderboard", caption, columns, entries, run=lambda entry: entry.run
        ).paged()
        runs = [entry.run for entry in listing.rows]
        ends = [end for run in runs for end in (run.value, run.low, run.high)]
        scale = Scale.around(ends).extend(run.chance for run in runs)
        best = set(split_letters(self.entries[0].letters)) if self.entries else set()
        strips = [
            interval_strip(
                scale,
                run.value,
                run.low,
                run.high,
                chance=run.chance,
                # A run that shares a letter with the best one may be the best.
                first=bool(best & set(split_letters(entry.letters))),
            )
            for run, entry in zip(runs, listing.rows, strict=True)
        ]
        return replace(listing, picture=interval_column(1 + self.lettered, runs, strips))


@dataclass(frozen=True)
class Cost:
    """A cost of runs: a column of lists and an axis of charts, on which less is better."""

    heading: str
    form: Callable[[Any], str]
    axis: str
    of: Callable[[RunCosts], float | None]
    write: Callable[[float], str]

    def column(self, key: str) -> ListColumn[_Entry]:
        """Declare the column of a leaderboard."""
        return ListColumn(self.heading, lambda entry: entry.cost(key), "fraction", form=self.form)


def _bytes(number: float) -> str:
    return format_bytes(int(number)) or ""


COSTS: Final = {
    "seconds_per_query": Cost(
        "search/query",
        format_time,
        "search time of a query",
        lambda costs: costs.seconds_per_query,
        format_time,
    ),
    "texts_per_second": Cost(
        "texts/s",
        lambda rate: format_rate(rate) or "",
        "time to encode a text",
        lambda costs: 1 / costs.texts_per_second if costs.texts_per_second else None,
        format_time,
    ),
    "bytes": Cost("memory", _bytes, "memory", lambda costs: costs.bytes, _bytes),
}


def describe_costs(costs: RunCosts) -> list[tuple[str, str]]:
    """Return the costs of a run that are known, by name."""
    values = [(cost, getattr(costs, key)) for key, cost in COSTS.items()]
    return [(cost.heading, cost.form(value)) for cost, value in values if value is not None]


def _cost_context(request: PageRequest, entries: Sequence[_Entry], measure: str) -> dict[str, Any]:
    """Draw quality against a cost, and list the costs to choose from."""
    points = {key: _cost_points(entries, key, measure) for key in COSTS}
    keys = [key for key in COSTS if len(points[key]) > 1]
    if not keys:
        return {"costs": [], "cost": "", "cost_chart": ""}
    cost = request.params.get_choice("cost", COSTS, keys[0])
    chart = cost_picture(points[cost], measure, COSTS[cost].axis, COSTS[cost].write)
    return {"costs": [(key, COSTS[key].axis) for key in keys], "cost": cost, "cost_chart": chart}


def _cost_points(entries: Sequence[_Entry], key: str, measure: str) -> list[CostPoint]:
    points = []
    for entry in entries[:MOST_COMPARED]:
        run, cost = entry.run, None if entry.costs is None else COSTS[key].of(entry.costs)
        if cost and run.value is not None:
            href = address(f"/run/{run.id}", measure=measure)
            points.append(CostPoint(run.name, cost, run.value, run.low, run.high, href))
    return points


ROUTES: Final = (PageRoute("/leaderboard", leaderboard_page, menu="Leaderboard", position=2),)
