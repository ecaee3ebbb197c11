"""The front page: what is here, what is new, and what became worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import Connection

from assay.store.overviews import Headline, RunGroup, find_headlines, group_runs
from assay.store.summaries import (
    RunMean,
    RunSummary,
    count_statuses,
    find_means,
    find_summaries,
)
from assay.tables.table import Cell, Table
from assay.web.changes import PENDING, Change
from assay.web.moments import describe_status, exact_moment, format_moment
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable
from assay.web.pages.runs import live_rows
from assay.web.params import address

__all__ = ["ROUTE", "home_page"]

_DAYS: Final = 7
_MOST_TESTED: Final = 8  # drops that are tested, the largest first
_MOST_DATASETS: Final = 20
_MOST_NEWS: Final = 12
_NEWEST: Final = 8


def home_page(request: PageRequest) -> WebPage:
    """Datasets, the newest runs, what changed in the last days, and regressions."""
    days = request.params.get_int("days", _DAYS)
    since = (datetime.now(UTC) - timedelta(days=min(days, 3650))).strftime("%Y-%m-%dT%H:%M:%S")
    with request.store.database.reading() as connection:
        counts = count_statuses(connection)
        heads = find_headlines(connection)
        groups = group_runs(connection, "dataset")
        recent = {one.name: one.runs for one in group_runs(connection, "status", since=since)}
        newest = find_summaries(connection, limit=_NEWEST)
        drops, pending = _find_regressions(request, connection, heads, since)
    news = list(_find_news(heads, since))
    boards = _boards(groups, heads)
    return WebPage(
        "home",
        "Overview",
        {
            "statuses": counts,
            "since": since,
            "days": days,
            "recent": recent,
            "datasets": [asdict(one) for one in boards],
            "news": [asdict(one) for one in news],
            "regressions": [one.to_dict() for one in drops],
            "runs": live_rows(newest),
        },
        [_dataset_table(boards), _run_table(newest)],
        {
            "drops": drops,
            "retry_after": int(pending),
            "news": news[:_MOST_NEWS],
            "boards": boards,
            "n_news": len(news),
        },
    )


@dataclass(frozen=True)
class Board:
    """A dataset: how many runs it has, and which is the best on the measure of most of them."""

    dataset: str
    runs: int
    last: str
    measure: str = ""
    best: str = ""
    best_id: int | None = None
    value: float | None = None


def _boards(groups: Sequence[RunGroup], heads: Sequence[Headline]) -> list[Board]:
    return [_board(one, heads) for one in groups[:_MOST_DATASETS]]


def _board(group: RunGroup, heads: Sequence[Headline]) -> Board:
    own = _comparable(one for one in heads if one.dataset == group.name)
    best = _best(own)
    if best is None:
        return Board(group.name, group.runs, group.last)
    known = (best.measure, best.name, best.id, best.value)
    return Board(group.name, group.runs, group.last, *known)


def _comparable(heads: Iterable[Headline]) -> list[Headline]:
    """Those on the measure and under the conventions that most have."""
    every = list(heads)
    usual = Counter((one.measure, one.conventions) for one in every).most_common(1)
    return [one for one in every if [(one.measure, one.conventions)] == [key for key, _ in usual]]


def _best(heads: Iterable[Headline]) -> Headline | None:
    known = [one for one in heads if one.value is not None]
    return max(known, key=lambda one: (one.value, one.id), default=None)


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


def _find_news(heads: Sequence[Headline], since: str) -> Iterable[News]:
    for dataset in dict.fromkeys(one.dataset for one in heads if one.created >= since):
        own = [one for one in heads if one.dataset == dataset]
        old = [one for one in own if one.created < since]
        if not old:
            yield _news("dataset", own[0])
            continue
        now, then = _best(_comparable(own)), _best(_comparable(old))
        if now and then and now.id != then.id and (now.value or 0.0) > (then.value or 0.0):
            yield _news("best", now, then)
        names = {one.name for one in old}
        new = {one.name: one for one in reversed(own) if one.name not in names}
        yield from (_news("name", one) for one in new.values())


def _news(kind: str, one: Headline, old: Headline | None = None) -> News:
    before = ("", None) if old is None else (old.name, old.value)
    return News(kind, one.dataset, one.id, one.name, one.measure, one.value, *before)


@dataclass(frozen=True)
class Regression:
    """A run that is significantly worse than the one of its name before it."""

    run: RunMean
    before: RunMean
    measure: str
    change: Change

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        runs = {"run": self.run.to_dict(), "before": self.before.to_dict()}
        return {**runs, "measure": self.measure, "change": asdict(self.change)}


def _find_regressions(
    request: PageRequest, connection: Connection, heads: Sequence[Headline], since: str
) -> tuple[list[Regression], bool]:
    """Of the runs since then with the largest drops, those that are clearly worse.

    The second is whether some are still being tested.
    """
    drops = sorted(_drops(heads, since), key=lambda pair: _change_of(*pair))[:_MOST_TESTED]
    found, pending = [], False
    for measure in dict.fromkeys(new.measure for _, new in drops):
        ids = {one.id for pair in drops for one in pair if one.measure == measure}
        means = {one.id: one for one in find_means(connection, measure, id=sorted(ids))}
        pairs = [(means[old.id], means[new.id]) for old, new in drops if new.measure == measure]
        changes = request.cache.changes.between(connection, pairs, measure, request.timeout)
        pending = pending or PENDING in changes
        found += [
            Regression(new, old, measure, change)
            for (old, new), change in zip(pairs, changes, strict=True)
            if change.kind == "worse"
        ]
    return sorted(found, key=lambda one: one.run.created, reverse=True), pending


def _drops(heads: Sequence[Headline], since: str) -> Iterable[tuple[Headline, Headline]]:
    """Runs since then with a smaller mean than the one of the same name before."""
    series: dict[tuple[str, ...], list[Headline]] = {}
    for one in reversed(heads):
        if one.value is not None:
            series.setdefault((one.dataset, one.name, one.measure, one.conventions), []).append(one)
    for own in series.values():
        for old, new in pairwise(own):
            if new.created >= since and _change_of(old, new) < 0:
                yield old, new


def _change_of(old: Headline, new: Headline) -> float:
    return (new.value or 0.0) - (old.value or 0.0)


def _dataset_table(boards: Sequence[Board]) -> PageTable:
    rows = tuple(
        (
            Cell(one.dataset or "(none)"),
            Cell(one.best or None),
            Cell(one.value, "fraction"),
            Cell(one.measure),
            Cell(one.runs, "count"),
            Cell(exact_moment(one.last)),
        )
        for one in boards
    )
    columns = ("dataset", "best run", "mean", "measure", "runs", "last began (UTC)")
    return PageTable(
        "datasets",
        "Datasets",
        Table(columns, rows),
        csv="/home.csv?table=datasets",
        links=[
            {
                0: address("/leaderboard", dataset=one.dataset, measure=one.measure),
                1: address(f"/run/{one.best_id}"),
            }
            if one.best_id
            else {0: address("/runs", dataset=one.dataset or None)}
            for one in boards
        ],
        formats={5: format_moment},
    )


def _run_table(runs: Sequence[RunSummary]) -> PageTable:
    rows = tuple(
        (
            Cell(run.name),
            *_first_mean(run.means()),
            Cell(describe_status(run)),
            Cell(run.dataset),
            Cell(run.id, "count"),
            Cell(exact_moment(run.created)),
        )
        for run in runs
    )
    columns = ("name", "mean", "measure", "status", "dataset", "run", "began (UTC)")
    return PageTable(
        "newest",
        "Newest runs",
        Table(columns, rows),
        csv="/home.csv?table=newest",
        links=[{0: address(f"/run/{run.id}")} for run in runs],
        classes=[{3: f"status {run.status}"} for run in runs],
        run_ids=[run.id for run in runs],
        run_labels=[f"Compare run {run.id}: {run.name}" for run in runs],
        bars={run.id: (run.done, run.total) for run in runs if run.status == "running"},
        formats={6: format_moment},
    )


def _first_mean(means: dict[str, float | None]) -> tuple[Cell, Cell]:
    measure, value = next(iter(means.items()), ("", None))
    return Cell(value, "fraction"), Cell(measure)


ROUTE: Final = PageRoute("/", home_page)
