"""A dataset: its leaderboard, and one measure of one system over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

from assay.comparison.verdict import describe_test
from assay.core.text import format_bytes, format_rate, format_time
from assay.errors import AssayError
from assay.report.svg import CostPoint, TrendPoint, cost_picture, trend_line, trend_scale
from assay.report.tables import explain_terms, say_verdict
from assay.runs.record import names_of
from assay.stats import Interval
from assay.store import Run, Store, summaries
from assay.store.summaries import RunCosts, RunMean
from assay.tables.html import tag
from assay.tables.svg import Scale
from assay.tables.table import Cell
from assay.web import listing as lists
from assay.web import page as web
from assay.web.caches import EQUAL, LEVEL, MOST_COMPARED, PENDING, Change, Pending
from assay.web.listing import ListColumn, Listing
from assay.web.page import PageRequest, PageRoute, WebPage

_MOST_VALUES: Final = 500_000  # runs × queries whose letters take seconds, not minutes
_OTHERS: Final = 3  # measures beside the one that ranks, unless they are chosen
_KINDS: Final = {"newest": "newest of each name", "all": "all runs"}


def leaderboard_page(request: PageRequest) -> WebPage:
    """Show the runs of one dataset on one measure, best first."""
    with request.store.database.reading() as connection:
        boards = summaries.list_datasets(connection)
        dataset = web.choose_dataset(request.params, [name for name, _, _ in boards])
        measures = summaries.list_measures(connection, dataset=dataset, status="finished")
        measure = web.choose_measure(request.params, measures)
        rows = summaries.find_means(connection, measure, dataset=dataset) if measure else []
        kind = request.params.get_choice("of", _KINDS, "newest")
        ranked = _rank(rows, newest=kind == "newest")
        ids = [run.id for run in ranked]
        queries = set(summaries.query_checksums(connection, ids).values())
        also = _choose_others(request, measures, measure)
        means = summaries.read_means(connection, ids, also)
        costs = summaries.read_costs(connection, ids)
    letters = _find_letters(request, ranked, measure, also)
    leaders = letters.leaders.get(measure, frozenset())
    entries = []
    for place, run in enumerate(ranked, 1):
        marks = letters.by_run.get(run.id, ""), place == 1 or run.id in leaders
        entries.append(_Entry(place, run, *marks, means.get(run.id, {}), costs.get(run.id)))
    named_like = request.params.get("named_like")
    matching = [entry for entry in entries if named_like.casefold() in entry.run.name.casefold()]
    columns, exact = (_board_columns(entries, measure, also, letters, e) for e in (False, True))
    whole = Listing(request, "leaderboard", f"{measure}, best first", columns, matching)
    csv = replace(whole, columns=exact)
    whole = replace(whole, run=lambda row: row.run, whole=lambda: csv.table)
    listing = _draw_intervals(whole.paged())
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
    grouped = any(letters.by_run.values())
    values = {key: {getattr(run, key) for run in ranked} for key in ("n", "chance")}
    return WebPage(
        "leaderboard",
        f"Leaderboard of {dataset or 'runs without a dataset'}",
        data,
        [listing],
        {
            "kinds": _KINDS,
            "named_like": named_like,
            "chosen": bool(request.params.get_all("also")),
            "note": letters.note,
            "terms": explain_terms([measure, "interval", *(["group"] if grouped else [])]),
            "verdict": letters.verdict,
            "shared": {key: each.pop() for key, each in values.items() if len(each) == 1},
            "retry_after": letters.retry_after,
            "compare": web.address("/compare", run=letters.family, measure=measure)
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
    """A run on the board: its place, letters, whether it may be the best, other means, costs."""

    place: int
    run: RunMean
    letters: str
    leads: bool
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
    """Groups by run, a note on them, seconds until they are ready, who was compared, which runs
    may be the best on each measure, and the verdict with its numbers.
    """

    by_run: dict[int, str] = field(default_factory=dict)
    note: str = ""
    retry_after: int = 0
    family: tuple[int, ...] = ()
    leaders: dict[str, frozenset[int]] = field(default_factory=dict)
    verdict: Sequence[str] = ()


def _find_letters(
    request: PageRequest, ranked: Sequence[RunMean], measure: str, also: Sequence[str]
) -> _Letters:
    """Return the groups that the page of a comparison shows for these runs."""
    runs, left_out = _family(request.store, ranked, measure)
    ids = tuple(run.id for run in runs)
    if len(runs) < 2:
        return _Letters(note=left_out)
    most = max(run.n_queries for run in runs)
    if len(runs) * most > _MOST_VALUES:
        return _Letters(note="Compare runs to see which of them differ significantly.", family=ids)
    names = names_of(runs)
    try:
        comparison = request.cache.comparison(
            request.store, runs, names, request.timeout, measure=measure
        )
    except AssayError as error:
        return _Letters(note=f"No groups: {error}", family=ids)
    if isinstance(comparison, Pending):
        return _Letters({}, "Groups are being computed.", comparison.retry_after, ids)
    by_name = dict(zip(names, ids, strict=True))
    tested = {measure: comparison.standings_on(measure)}
    letters = {by_name[row.name]: row.letters for row in tested[measure]}
    seconds = 0
    for other in also if len(runs) * most * (1 + len(also)) <= _MOST_VALUES else ():
        try:
            more = request.cache.comparison(
                request.store, runs, names, request.timeout, measure=other
            )
        except AssayError:  # a run without this measure: nothing is tested on it
            continue
        if isinstance(more, Pending):
            seconds = more.retry_after
            break
        tested[other] = more.standings_on(other)
    leaders = {
        name: frozenset(by_name[row.name] for row in rows if row.leads)
        for name, rows in tested.items()
    }
    settings = comparison.settings
    unit = "" if settings.by is None else f", whole groups by {settings.by}"
    how = f"{describe_test(settings, len(comparison.pairs))}{unit}"
    shared = "Runs that share a letter do not differ significantly"
    note = f"{shared} ({how}).{left_out}" if any(letters.values()) else left_out.strip()
    verdict = say_verdict(comparison.verdicts[measure], comparison)[:2]
    return _Letters(letters, note, seconds, ids, leaders, verdict)


def _family(store: Store, ranked: Sequence[RunMean], measure: str) -> tuple[list[Run], str]:
    """Return the runs to compare, best first, and a sentence on those left out.

    They follow the same conventions on the same queries; a variant is to be compared with its own
    model, and not with other models.
    """
    scored = [run for run in ranked if run.value is not None]
    usual = _most_common(run.conventions for run in scored)
    alike = [run for run in scored if run.conventions == usual]
    best = [run.id for run in alike[:MOST_COMPARED]]
    stored = {run.id: run for run in store.runs(id=best, measures=[measure])} if best else {}
    runs = [stored[id] for id in best if id in stored]
    models = [run for run in runs if not run.config.get("variant_of")]
    query_set = _most_common(run.query_set for run in models if run.query_set)
    family = [run for run in models if run.query_set in ("", query_set)]
    numbers = {
        "of other conventions": len(scored) - len(alike),
        f"beyond the best {MOST_COMPARED}": len(alike) - len(best),
        "variants of others": len(runs) - len(models),
        "of other query sets": len(models) - len(family),
    }
    words = ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
    return family, f" Left out: {words}." if words else ""


def _most_common(values: Iterable[str]) -> str:
    """Return the value that most have; of equally many the first."""
    return next((value for value, _ in Counter(values).most_common(1)), "")


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _board_columns(
    entries: Sequence[_Entry], measure: str, also: Sequence[str], letters: _Letters, exact: bool
) -> list[ListColumn[_Entry]]:
    """Declare the columns; letters, costs and models only where some run has them, chance and
    number of queries only where they differ.

    `exact` is for programs: the ends of intervals are columns of their own.
    """

    def mean_column(name: str) -> ListColumn[_Entry]:
        """Declare the column of another measure, in bold what may be the best."""
        top = _largest(entry.means.get(name) for entry in entries)
        leaders = letters.leaders.get(name, frozenset())

        def cell(entry: _Entry) -> Cell:
            value = entry.means.get(name)
            leads = value == top or entry.run.id in leaders
            return Cell(value, "fraction", value is not None and leads)

        return ListColumn(name, cell)

    def cost_column(key: str) -> ListColumn[_Entry]:
        cost = COSTS[key]
        return ListColumn(cost.heading, lambda entry: entry.cost(key), "fraction", form=cost.form)

    costs = [key for key in COSTS if _largest(entry.cost(key) for entry in entries) is not None]
    with_models = any(entry.run.model not in ("", entry.run.name) for entry in entries)
    group: ListColumn[_Entry] = ListColumn("group", lambda entry: entry.letters or None)
    model: ListColumn[_Entry] = ListColumn(
        "model", lambda entry: entry.run.model, show=lambda entry: lists.show_model(entry.run)
    )
    level = next((entry.run.level for entry in entries if entry.run.level), LEVEL)
    low: ListColumn[_Entry] = ListColumn("from", lambda entry: entry.run.low, "fraction")
    high: ListColumn[_Entry] = ListColumn("to", lambda entry: entry.run.high, "fraction")
    ends = [low, high] if exact else [lists.ci_column(lambda entry: entry.run, level)]
    chance: ListColumn[_Entry] = ListColumn("chance", lambda entry: entry.run.chance, "fraction")
    queries: ListColumn[_Entry] = ListColumn("queries", lambda entry: entry.run.n, "count")
    return [
        ListColumn("rank", lambda entry: entry.place, "count"),
        ListColumn(
            "name",
            lambda entry: entry.run.name,
            link=lambda entry: web.address(f"/run/{entry.run.id}", measure=measure),
        ),
        ListColumn(measure, lambda entry: Cell(entry.run.value, "fraction", entry.leads)),
        *ends,
        *([group] if any(letters.by_run.values()) else []),
        *map(mean_column, also),
        *map(cost_column, costs),
        *(each for each in (chance, queries) if exact or len(set(map(each.value, entries))) > 1),
        *([model] if with_models else []),
        ListColumn("run", lambda entry: entry.run.id, "count"),
        lists.moment_column("began", lambda entry: entry.run.created),
    ]


def _draw_intervals(listing: Listing[_Entry]) -> Listing[_Entry]:
    """Return the list of a page with its intervals drawn beside their ends."""
    runs = [entry.run for entry in listing.rows]
    ends = [end for run in runs for end in (run.value, run.low, run.high)]
    scale = Scale.around(ends).extend(run.chance for run in runs)
    leads = [entry.leads for entry in listing.rows]
    picture = lists.interval_column(3, scale, runs, leads)
    return replace(listing, picture=replace(picture, head=tag("span", picture.head, class_="skip")))


@dataclass(frozen=True)
class Cost:
    """A cost of runs: a column of lists and an axis of charts, on which less is better.

    Where more is better in lists, the axis has the inverse, written by `write_inverse`.
    """

    heading: str
    axis: str
    form: Callable[[Any], str]
    write_inverse: Callable[[float], str] | None = None


COSTS: Final = {
    "seconds_per_query": Cost("search/query", "search time per query", format_time),
    "texts_per_second": Cost(
        "texts/s", "time to encode a text", lambda rate: format_rate(rate) or "", format_time
    ),
    "bytes": Cost("memory", "memory", lambda size: format_bytes(int(size)) or ""),
    "bytes_per_vector": Cost("vector", "size of a vector", lambda size: f"{size:,.0f} bytes"),
}


def describe_costs(costs: RunCosts) -> list[tuple[str, str]]:
    """Return the costs of a run that are known, by name."""
    values = [(cost, getattr(costs, key)) for key, cost in COSTS.items()]
    return [(cost.heading, cost.form(value)) for cost, value in values if value is not None]


def _cost_context(request: PageRequest, entries: Sequence[_Entry], measure: str) -> dict[str, Any]:
    """Draw quality against a cost, and list the costs to choose from."""
    points: dict[str, list[CostPoint]] = {key: [] for key in COSTS}
    for entry in entries[:MOST_COMPARED]:
        run, href = entry.run, web.address(f"/run/{entry.run.id}", measure=measure)
        for key, cost in COSTS.items():
            spent = entry.cost(key)
            if spent and run.value is not None:
                place = 1 / spent if cost.write_inverse else spent
                points[key].append(CostPoint(run.name, place, run.value, run.low, run.high, href))
    keys = [key for key in COSTS if len(points[key]) > 1]
    if not keys:
        return {"costs": [], "cost": "", "cost_chart": ""}
    key = request.params.get_choice("cost", COSTS, keys[0])
    cost = COSTS[key]
    chart = cost_picture(points[key], measure, cost.axis, cost.write_inverse or cost.form)
    return {"costs": [(each, COSTS[each].axis) for each in keys], "cost": key, "cost_chart": chart}


# One measure of one system over time: does it get better or worse, and how sure is that

_MOST_RUNS: Final = 100
_LISTED: Final = 5
_Step = tuple[RunMean, Change]


def trends_page(request: PageRequest) -> WebPage:
    """Show the newest runs of one name on one dataset."""
    with request.store.database.reading() as connection:
        boards = [name for name, _, _ in summaries.list_datasets(connection)]
        dataset = web.choose_dataset(request.params, boards)
        measures = summaries.list_measures(connection, dataset=dataset, status="finished")
        measure = web.choose_measure(request.params, measures)
        rows = summaries.find_means(connection, measure, dataset=dataset) if measure else []
        systems = [name for name, _ in Counter(row.name for row in rows).most_common()]
        named = request.params.get_name("name", systems)
        system = named if named in systems else next(iter(systems), "")
        scored = [row for row in rows if row.name == system and row.value is not None]
        series = scored[:_MOST_RUNS][::-1]
        changes = request.cache.changes.along(connection, series, measure, request.timeout)
        between = partial(request.cache.changes.between, connection)
        test = partial(between, measure=measure, timeout=request.timeout)
        worse = [i for i, change in enumerate(changes) if change.kind == "worse"]
        recoveries = {series[i].id: recovery_of(series, i, test) for i in worse}
    points = _points(series, changes, measure)
    return WebPage(
        "trends",
        f"{measure} of {system} over time" if series else "Trends",
        {
            "dataset": dataset,
            "measure": measure,
            "name": system,
            "measures": measures,
            "names": systems,
            "datasets": boards,
            "left_out": max(0, len(scored) - _MOST_RUNS),
            "regressions": list(recoveries),
            "recovered": [run for run, good in recoveries.items() if good],
            "runs": [
                {**run.to_dict(), "change": {**asdict(change), "words": change.words}}
                for run, change in zip(series, changes, strict=True)
            ],
        },
        [_listing(request, series, changes, measure)],
        {
            "chart": trend_line(points, measure),
            "verdict": _verdict(series, changes, measure, recoveries),
            "numbers": describe_difference(changes[-1]) if changes else "",
            "axis": trend_scale(points) if points else None,
            "retry_after": int(PENDING in changes),
        },
    )


def _verdict(
    series: Sequence[RunMean],
    changes: Sequence[Change],
    measure: str,
    recoveries: Mapping[int, int | None],
) -> str:
    if len(series) < 2:
        return ""
    last, change = series[-1], changes[-1]
    now = f"The newest run ({last.id}) reaches {last.value:.4f} on {measure}"
    if PENDING in changes:
        return f"{now}; the changes are being tested."
    return f"{now}: {_describe_change(change)}. {_regressions(recoveries)}."


def _describe_change(change: Change) -> str:
    if change.note == EQUAL:
        return f"{EQUAL} as the previous run"
    if change.note:
        return f"not comparable with the previous run ({change.note})"
    words = {"better": "better than", "worse": "worse than", "same": "no significant change from"}
    return f"{words[change.kind]} the previous run"


def describe_difference(change: Change) -> str:
    """Return a change in numbers; nothing where there are none."""
    if change.difference is None:
        return ""
    ends = ""
    if change.low is not None:
        ends = f" ({Interval.heading(LEVEL)} {change.low:+.4f} to {change.high:+.4f})"
    return f"Change {change.difference:+.4f}{ends}".replace("-", "−")


def recovery_of(
    series: Sequence[RunMean], worse: int, test: Callable[[list[tuple[RunMean, RunMean]]], Any]
) -> int | None:
    """Return the first run after a regression that made it good; None while none did.

    It makes up for more than half of the drop, and is not significantly worse than the run before
    the drop. `test` compares pairs of runs.
    """
    before, drop = series[worse - 1], series[worse]
    half = ((before.value or 0.0) + (drop.value or 0.0)) / 2
    later = [run for run in series[worse + 1 :] if (run.value or 0.0) > half][:_LISTED]
    changes = test([(before, run) for run in later])
    good = (run.id for run, each in zip(later, changes, strict=True) if each.kind != "worse")
    return next(good, None)


def _regressions(recoveries: Mapping[int, int | None]) -> str:
    """Name the runs that are worse than the one before, the last few, and which recovered.

    >>> _regressions({7: 9}), _regressions(dict.fromkeys(range(1, 7)))[:36]
    ('Regression in run 7 (recovered in run 9)', '6 regressions, the last in runs 2 (o')
    """
    named = ", ".join(
        f"{run} ({f'recovered in run {good}' if good else 'open'})"
        for run, good in list(recoveries.items())[-_LISTED:]
    )
    if len(recoveries) > _LISTED:
        return f"{len(recoveries)} regressions, the last in runs {named}"
    kind = "Regression in run" if len(recoveries) == 1 else "Regressions in runs"
    return f"{kind} {named}" if recoveries else "No regression"


def _points(series: Sequence[RunMean], changes: Sequence[Change], measure: str) -> list[TrendPoint]:
    return [
        TrendPoint(
            run.created,
            float(run.value or 0.0),
            run.low,
            run.high,
            change.kind,
            web.address(f"/run/{run.id}", measure=measure),
            f"run {run.id}, {web.exact_moment(run.created)}: {run.value:.4f} {change.words}",
        )
        for run, change in zip(series, changes, strict=True)
    ]


def _listing(
    request: PageRequest, series: Sequence[RunMean], changes: Sequence[Change], measure: str
) -> Listing[_Step]:
    """Declare the list of runs, the newest first, each with its change."""
    commit: ListColumn[_Step] = ListColumn("commit", lambda row: row[0].git_commit[:10])
    columns: list[ListColumn[_Step]] = [
        ListColumn(
            "began (UTC)",
            lambda row: web.exact_moment(row[0].created),
            form=web.format_moment,
            link=lambda row: web.address(f"/run/{row[0].id}", measure=measure),
        ),
        ListColumn("run", lambda row: row[0].id, "count"),
        ListColumn(measure, lambda row: row[0].value, "fraction"),
        ListColumn("from", lambda row: row[0].low, "fraction"),
        ListColumn("to", lambda row: row[0].high, "fraction"),
        ListColumn(
            "change",
            lambda row: row[1].words,
            style=lambda row: f"change {row[1].kind}" if row[1].words else "",
        ),
        ListColumn("difference", lambda row: row[1].difference, "difference"),
        ListColumn("from ", lambda row: row[1].low, "difference"),
        ListColumn("to ", lambda row: row[1].high, "difference"),
        *([commit] if any(run.git_commit for run in series) else []),
    ]
    rows = list(zip(series, changes, strict=True))[::-1]
    return Listing(request, "trend", "Runs, newest first", columns, rows, run=lambda row: row[0])


ROUTES: Final = (
    PageRoute("/leaderboard", leaderboard_page, menu="Leaderboard", position=2),
    PageRoute("/trends", trends_page, menu="Trends", position=4),
)
