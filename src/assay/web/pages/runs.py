"""The front page (what is here, what is new, what became worse), and the page of all runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import Connection

from assay.core.text import format_time
from assay.errors import UsageError
from assay.report.svg import sparkline
from assay.runs.results import canonical
from assay.store import summaries
from assay.store.summaries import RunGroup, RunMean, RunSummary
from assay.store.tables import list_data
from assay.tables.html import ExtraColumn
from assay.web import listing as lists
from assay.web import page as web
from assay.web.caches import PENDING, Change
from assay.web.listing import ListColumn, Listing, Paging, SortOrder
from assay.web.page import PageRequest, PageRoute, QueryParams, WebPage
from assay.web.pages.compare import is_testable
from assay.web.pages.leaderboard import describe_difference, recovery_of

_LISTED: Final = ("task", "dataset", "model", "tag")
_FILTERS: Final = ("name", *_LISTED, "status", "measure")
_GROUPS: Final = ("name", "dataset", "tag", "task", "model")
_STATUSES: Final = ("running", "finished", "failed")
_MOST_MEASURES: Final = 4
_NOT_AT_FIRST: Final = ("seconds",)


def _leaderboard_link(run: RunSummary) -> str:
    return web.address("/leaderboard", dataset=run.dataset) if run.dataset else ""


# The columns of every list of runs by their keys; texts begin with the first letter.
RUN_COLUMNS: Final[dict[str, ListColumn[RunSummary]]] = {
    column.key: column
    for column in (
        ListColumn[RunSummary](
            "name",
            lambda run: run.name,
            key="name",
            ascending=True,
            link=lambda run: web.address(f"/run/{run.id}"),
        ),
        ListColumn("run", lambda run: run.id, "count", "id"),
        ListColumn[RunSummary](
            "status",
            web.describe_status,
            key="status",
            ascending=True,
            style=lambda run: f"status {run.status}",
        ),
        ListColumn("task", lambda run: run.task, key="task", ascending=True),
        ListColumn(
            "dataset",
            lambda run: run.dataset,
            key="dataset",
            ascending=True,
            link=_leaderboard_link,
        ),
        ListColumn(
            "model", lambda run: run.model, key="model", ascending=True, show=lists.show_model
        ),
        ListColumn("queries", lambda run: run.n_queries or None, "count", "n_queries"),
        ListColumn("took", lambda run: run.seconds, "fraction", "seconds", form=format_time),
        ListColumn("tags", lambda run: " ".join(run.tags), key="tags", ascending=True),
        lists.moment_column("began (UTC)", lambda run: run.created, "created"),
    )
}


def _first_mean(run: RunSummary) -> tuple[str, float | None]:
    """Return the first mean that runs can be compared on, else the first number."""
    means = sorted(run.means().items(), key=lambda mean: not is_testable(mean[0]))
    return next(iter(means), ("", None))


_FIRST_MEAN: Final[list[ListColumn[RunSummary]]] = [
    ListColumn("mean", lambda run: _first_mean(run)[1], "fraction"),
    ListColumn("measure", lambda run: _first_mean(run)[0]),
]
_ASCENDING: Final = {"group", *(key for key, column in RUN_COLUMNS.items() if column.ascending)}


def runs_page(request: PageRequest) -> WebPage:
    """Show runs that pass the filters, a page of them, or groups of them."""
    params = request.params
    with request.store.database.reading() as connection:
        choices = {name: summaries.list_values(connection, name) for name in _LISTED}
        choices["status"] = list(_STATUSES)
        filters = _filters(params, choices)
        some = {key: filters[key] for key in ("task", "dataset")}
        choices["measure"] = summaries.list_measures(connection, **some)
        filters["measure"] = params.get_name("measure", choices["measure"])
        view = _ListView.of(params, filters, choices["measure"])
        context = {
            "choices": choices,
            "filters": filters,
            "counts": summaries.count_statuses(connection),
            "view": view,
            "groups": _GROUPS,
            "tasks": [("", "all tasks"), *((task, task) for task in choices["task"])],
            "filtered": any(filters.values()),
            "heads": {key: column.heading for key, column in RUN_COLUMNS.items()},
        }
        if view.group:
            return _list_groups(request, connection, view, context)
        return _list_runs(request, connection, view, context)


@dataclass(frozen=True)
class _ListView:
    """The list as the address describes it: order, columns, measures and grouping."""

    filters: dict[str, Any]
    measures: list[str]
    measure: str
    order: SortOrder
    columns: tuple[str, ...]  # empty where nobody chose them
    group: str

    @classmethod
    def of(cls, params: QueryParams, filters: dict[str, Any], measures: list[str]) -> _ListView:
        """Read the parameters of the page."""
        measure = canonical(filters["measure"]) if filters["measure"] else ""
        group = params.get_choice("group", ("", *_GROUPS), "")
        orders = ("created", "group", "runs") if group else summaries.ORDERS
        by = _sort_key(params, orders, [*measures, *([measure] if measure else [])])
        order = SortOrder.of(params, by, _ASCENDING)
        keys = dict.fromkeys(params.get_all("column"))
        columns = tuple(key for key in keys if key in (*RUN_COLUMNS, *measures))
        return cls(filters, measures, measure, order, columns, group)

    def choose_measures(self, usual: Sequence[str]) -> list[str]:
        """Return the measures to show: those chosen, else that of the filter and a few."""
        if self.columns:
            return [key for key in self.columns if key in self.measures]
        first = [self.measure] if self.measure else []
        return list(dict.fromkeys([*first, *usual]))[:_MOST_MEASURES]


def _sort_key(params: QueryParams, orders: Sequence[str], measures: Sequence[str]) -> str:
    """Return what the page is sorted by: a column, or a measure."""
    text = params.get("sort") or "created"
    if text == "value":  # the measure of the filter
        text = measures[-1] if params.get("measure") else "created"
    key = text if text in orders else canonical(text)
    if key not in (*orders, *measures):
        raise UsageError(f"sort must be one of {', '.join(orders)} or a measure: {text!r:.60}.")
    return key


def _filters(params: QueryParams, choices: dict[str, list[str]]) -> dict[str, Any]:
    filters: dict[str, Any] = {
        name: params.get_name(name, choices.get(name, ())) for name in _FILTERS
    }
    for name in ("since", "until", "named_like"):
        filters[name] = params.get(name) or None
    return filters


def _list_runs(
    request: PageRequest, connection: Connection, view: _ListView, context: dict[str, Any]
) -> WebPage:
    """Make the page with a row for each run."""
    paging = Paging.of(request, summaries.count_runs(connection, **view.filters))
    order = summaries.order_by_column(
        view.order.by, descending=view.order.descending, measures=[*view.measures, view.measure]
    )
    part = {"limit": paging.per_page, "offset": paging.rows.start}
    runs = summaries.find_summaries(connection, **part, order=order, **view.filters)
    measures = view.choose_measures(_usual_measures(runs, view))

    def every() -> list[RunSummary]:
        with request.store.database.reading() as again:
            return summaries.find_summaries(again, order=order, measures=measures, **view.filters)

    listing = Listing(
        request,
        "runs",
        "Runs",
        _columns(runs, measures, view),
        runs,
        view.order,
        paging,
        every,
        run=lambda run: run,
    )
    context |= {
        "shown": [column.key for column in listing.columns],
        "live": [run.id for run in runs if run.status == "running"],
    }
    data = {
        "filters": view.filters,
        "statuses": context["counts"],
        **listing.state(),
        "per_page": paging.per_page,
        "runs": live_rows(runs),
    }
    return WebPage("runs", "Runs", data, [listing], context)


def _usual_measures(runs: Sequence[RunSummary], view: _ListView) -> Sequence[str]:
    """Return the measures of the runs; none where they are of several tasks.

    Values of one measure are not comparable between tasks: the nDCG@10 of codes is against the
    float vectors, that of a retrieval run against judgments.
    """
    have = {name for run in runs for name in run.means()}
    several = len({run.task for run in runs if run.means()}) > 1
    return [] if several else [name for name in view.measures if name in have]


def live_rows(runs: Sequence[RunSummary]) -> list[dict[str, Any]]:
    """Return runs for JSON with their progress, which the script of a page follows."""
    rows = list_data(runs)
    for row, run in zip(rows, runs, strict=True):
        row |= {
            "done": run.done,
            "total": run.total,
            "updated": run.updated,
            "shown_status": web.describe_status(run),
            "progress": web.progress_of(run) if run.status == "running" else None,
        }
    return rows


def _columns(
    runs: Sequence[RunSummary], measures: list[str], view: _ListView
) -> list[ListColumn[RunSummary]]:
    """Return the chosen columns, else the usual ones without those that are empty."""
    if view.columns:
        return [_column(key) for key in dict.fromkeys(["name", *view.columns])]
    name, *filled = [
        column
        for key, column in RUN_COLUMNS.items()
        if key not in _NOT_AT_FIRST
        and (key not in (*_LISTED, "tags") or any(column.value(run) for run in runs))
        and (key != "model" or any(run.model != run.name for run in runs))
        and (key != "status" or any(run.status != "finished" for run in runs))
    ]
    # Values stand beside the name, which is what a phone shows of a list.
    return [name, *(map(_column, measures) if measures else _FIRST_MEAN), *filled]


def _column(key: str) -> ListColumn[RunSummary]:
    """Return a column of every list, or that of a measure."""
    return RUN_COLUMNS.get(key) or ListColumn(
        key, lambda run: run.means().get(key), "fraction", key=key
    )


def _list_groups(
    request: PageRequest, connection: Connection, view: _ListView, context: dict[str, Any]
) -> WebPage:
    """Make the page with a row for each name, dataset, tag, task or model."""
    measures = view.choose_measures(view.measures)
    groups = summaries.group_runs(connection, view.group, measures=measures, **view.filters)
    groups.sort(key=lambda group: _group_key(group, view.order.by), reverse=view.order.descending)
    listing = _group_listing(request, groups, measures, view)
    data = {
        "filters": view.filters,
        "group": view.group,
        **listing.state(),
        "groups": [asdict(group) for group in groups],
        "runs": [],
    }
    context |= {"shown": [*view.columns] or [*RUN_COLUMNS, *measures], "live": []}
    return WebPage("runs", "Runs", data, [listing], context)


def _group_key(group: RunGroup, by: str) -> tuple[bool, Any]:
    if by in ("group", "runs", "created"):
        return True, {"group": group.name, "runs": group.runs, "created": group.last}[by]
    value = group.best.get(by)
    return value is not None, value or 0.0


def _group_listing(
    request: PageRequest, groups: Sequence[RunGroup], measures: Sequence[str], view: _ListView
) -> Listing[RunGroup]:
    reset = {"group": None, "page": None, "sort": None, "order": None}

    def link(group: RunGroup) -> str:
        if not group.name:
            return ""
        return request.params.address(request.path, **reset, **{view.group: group.name})

    def best(measure: str) -> ListColumn[RunGroup]:
        heading = f"best {measure}"
        return ListColumn(heading, lambda group: group.best.get(measure), "fraction", measure)

    columns: list[ListColumn[RunGroup]] = [
        ListColumn(
            view.group, lambda g: g.name or "(none)", key="group", ascending=True, link=link
        ),
        ListColumn("runs", lambda group: group.runs, "count", "runs"),
        *map(best, measures),
        ListColumn("running", lambda group: group.running or None, "count"),
        ListColumn("failed", lambda group: group.failed or None, "count"),
        lists.moment_column("last run (UTC)", lambda group: group.last, "created"),
    ]
    return Listing(request, "groups", f"Runs by {view.group}", columns, groups, view.order)


# The front page: what is here, what is new, and what became worse

_PERIODS: Final = (7, 30, 90)  # days
_MOST_TESTED: Final = 12  # drops that are tested, the largest first
_MOST_POINTS: Final = 30  # of a sparkline
_MOST_DATASETS: Final = 20
_NEWEST: Final = 8


def home_page(request: PageRequest) -> WebPage:
    """Show datasets, the newest runs, what changed lately, and regressions."""
    with request.store.database.reading() as connection:
        newest = summaries.find_summaries(connection, limit=_NEWEST)
        days, since = _choose_period(request.params, newest[0].created if newest else "")
        counts = summaries.count_statuses(connection)
        heads = summaries.find_headlines(connection)
        groups = summaries.group_runs(connection, "dataset")
        statuses = summaries.group_runs(connection, "status", since=since or None)
        test = partial(request.cache.changes.between, connection, timeout=request.timeout)
        drops, pending = _find_regressions(heads, since, test)
        boards = [_board(group, heads, test) for group in groups[:_MOST_DATASETS]]
    news = list(_find_news(heads, since)) if since else []
    return WebPage(
        "home",
        "Overview",
        {
            "statuses": counts,
            "since": since,
            "days": days,
            "recent": {status.name: status.runs for status in statuses},
            "datasets": [board.to_dict() for board in boards],
            "news": [asdict(event) for event in news],
            "regressions": [drop.to_dict() for drop in drops],
            "runs": live_rows(newest),
        },
        [_dataset_listing(request, boards), _newest_listing(request, newest)],
        {
            "drops": drops,
            "open": [drop for drop in drops if not drop.recovered],
            "periods": [(str(d), f"{d} days") for d in _PERIODS] + [("all", "all")],
            "retry_after": int(pending or any(board.change == PENDING for board in boards)),
            "news": news,
            "boards": boards,
            "difference": describe_difference,
        },
    )


def _choose_period(params: QueryParams, newest: str) -> tuple[int | None, str]:
    """Return the days of the period and its start; by default the shortest that has runs."""
    text, now = params.get("days"), datetime.now(UTC)
    chosen = [] if text in ("", "all") else [params.get_int("days", _PERIODS[0])]
    for days in chosen or (_PERIODS if text != "all" else ()):
        since = (now - timedelta(days=min(days, 3650))).strftime("%Y-%m-%dT%H:%M:%S")
        if chosen or newest >= since:
            return days, since
    return None, ""


@dataclass(frozen=True)
class Board:
    """A dataset: its best run on the measure of most, and the runs of one name over time."""

    group: RunGroup
    best: RunMean | None
    series: tuple[RunMean, ...]
    change: Change

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        facts = {"dataset": self.group.name, "runs": self.group.runs, "last": self.group.last}
        keys = {"best": "name", "best_id": "id"}
        for key in ("measure", "best", "best_id", "value", "low", "high"):
            facts[key] = getattr(self.best, keys.get(key, key), None)
        series = [{"run": run.id, "value": run.value} for run in self.series]
        return {**facts, "series": series, "change": asdict(self.change)}


def _board(group: RunGroup, heads: Sequence[RunMean], test: Callable[..., list[Change]]) -> Board:
    """Return a dataset; its series are the runs of the name that has most."""
    alike = _comparable(head for head in heads if head.dataset == group.name)
    scored = [head for head in alike if head.value is not None]
    usual = Counter(head.name for head in scored).most_common(1)
    series = [head for head in scored if head.name == usual[0][0]][:_MOST_POINTS][::-1]
    pairs = list(pairwise(series))[-1:]
    changes = test(pairs, measure=series[-1].measure) if pairs else [Change()]
    return Board(group, _best(scored), tuple(series), changes[0])


def _comparable(heads: Iterable[RunMean]) -> list[RunMean]:
    """Return the runs with the most common measure and conventions."""
    kinds: dict[tuple[str, str], list[RunMean]] = {}
    for head in heads:
        kinds.setdefault((head.measure, head.conventions), []).append(head)
    return max(kinds.values(), key=len, default=[])


def _best(heads: Iterable[RunMean]) -> RunMean | None:
    scored = [head for head in heads if head.value is not None]
    return max(scored, key=lambda head: (head.value, head.id), default=None)


@dataclass(frozen=True)
class News:
    """Something that was not so before: a new dataset, name or best run."""

    kind: str
    dataset: str
    run: int
    name: str
    measure: str
    value: float | None
    before: str = ""
    value_before: float | None = None


def _find_news(heads: Sequence[RunMean], since: str) -> Iterable[News]:
    for dataset in dict.fromkeys(head.dataset for head in heads if head.created >= since):
        runs = [head for head in heads if head.dataset == dataset]
        old = [head for head in runs if head.created < since]
        if not old:
            yield _news("dataset", runs[0])
            continue
        now, then = _best(_comparable(runs)), _best(_comparable(old))
        if now and then and now.id != then.id and (now.value or 0.0) > (then.value or 0.0):
            yield _news("best", now, then)
        names = {head.name for head in old}
        new = {head.name: head for head in reversed(runs) if head.name not in names}
        yield from (_news("name", head) for head in new.values())


def _news(kind: str, head: RunMean, old: RunMean | None = None) -> News:
    before = ("", None) if old is None else (old.name, old.value)
    return News(kind, head.dataset, head.id, head.name, head.measure, head.value, *before)


@dataclass(frozen=True)
class Regression:
    """A run that is significantly worse than the one of its name before it."""

    run: RunMean
    before: RunMean
    measure: str
    change: Change
    recovered: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        runs = {"run": self.run.to_dict(), "before": self.before.to_dict()}
        outcome = {"change": asdict(self.change), "recovered": self.recovered}
        return {**runs, "measure": self.measure, **outcome}


def _find_regressions(
    heads: Sequence[RunMean], since: str, test: Callable[..., list[Change]]
) -> tuple[list[Regression], bool]:
    """Test the largest drops since then, and older ones that no run has made good.

    Returns those that are significant, newest first, and whether some are still being tested.
    """
    drops = sorted(_drops(heads, since), key=lambda drop: _change_of(*drop[1]))
    drops.sort(key=lambda drop: drop[1][1].created < since)
    regressions, pending = [], False
    for series, (old, new) in drops[:_MOST_TESTED]:
        of_measure = partial(test, measure=new.measure)
        (change,) = of_measure([(old, new)])
        pending = pending or change == PENDING
        if change.kind == "worse":
            recovered = recovery_of(series, series.index(new), of_measure)
            if new.created >= since or not recovered:
                regressions.append(Regression(new, old, new.measure, change, recovered))
    return sorted(regressions, key=lambda drop: drop.run.created, reverse=True), pending


def _drops(
    heads: Sequence[RunMean], since: str
) -> Iterable[tuple[list[RunMean], tuple[RunMean, RunMean]]]:
    """Find runs with a smaller mean than the one of that name before: their series and the two.

    Before the period, only where the newest run is still below.
    """
    series: dict[tuple[str, ...], list[RunMean]] = {}
    for head in reversed(heads):
        if head.value is not None:
            key = (head.dataset, head.name, head.measure, head.conventions)
            series.setdefault(key, []).append(head)
    for runs in series.values():
        for old, new in pairwise(runs):
            still = new.created >= since or _change_of(old, runs[-1]) < 0
            if still and _change_of(old, new) < 0:
                yield runs, (old, new)


def _change_of(old: RunMean, new: RunMean) -> float:
    return (new.value or 0.0) - (old.value or 0.0)


def _dataset_listing(request: PageRequest, boards: Sequence[Board]) -> Listing[Board]:
    columns: list[ListColumn[Board]] = [
        ListColumn("dataset", lambda board: board.group.name or "(none)", link=_board_link),
        ListColumn("best", lambda board: board.best and board.best.value, "fraction"),
        ListColumn("measure", lambda board: board.best and board.best.measure),
        ListColumn(
            "change",
            lambda board: board.change.difference,
            "difference",
            style=lambda board: f"change {board.change.kind}",
        ),
        ListColumn(
            "best run",
            lambda board: board.best and board.best.name,
            link=lambda board: web.address(f"/run/{board.best.id}") if board.best else "",
        ),
        lists.ci_column(lambda board: board.best),
        ListColumn("trend of", lambda board: board.series[0].name if board.series[1:] else None),
        ListColumn("runs", lambda board: board.group.runs, "count"),
        lists.moment_column("last run (UTC)", lambda board: board.group.last),
    ]
    lines = [
        sparkline([run.value or 0.0 for run in board.series], f"its last {len(board.series)} runs")
        for board in boards
    ]
    picture = ExtraColumn(2, "picture", "trend", lines)
    return Listing(request, "datasets", "Datasets", columns, boards, picture=picture)


def _board_link(board: Board) -> str:
    name, best = board.group.name, board.best
    if best:
        return web.address("/leaderboard", dataset=name, measure=best.measure)
    return web.address("/runs", dataset=name or None)


def _newest_listing(request: PageRequest, runs: Sequence[RunSummary]) -> Listing[RunSummary]:
    shared = {key: RUN_COLUMNS[key] for key in ("name", "status", "dataset", "id", "created")}
    shared["dataset"] = replace(shared["dataset"], link=None)
    if all(run.status == "finished" for run in runs):
        del shared["status"]
    columns = [shared.pop("name"), *_FIRST_MEAN, *shared.values()]
    return Listing(request, "newest", "Newest runs", columns, runs, run=lambda run: run)


ROUTES: Final = (PageRoute("/runs", runs_page, menu="Runs", position=1), PageRoute("/", home_page))
