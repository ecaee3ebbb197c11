"""The leaderboard of a dataset: means with intervals, chance, and group letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.comparison.verdict import describe_test
from assay.errors import AssayError
from assay.report.svg import interval_strip
from assay.store.run import names_of
from assay.store.summaries import (
    RunMean,
    find_means,
    list_datasets,
    list_measures,
    query_checksums,
)
from assay.tables.svg import Scale
from assay.tables.table import Cell, Table
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable, Paging
from assay.web.params import address, choose_dataset, choose_measure
from assay.web.score_cache import Pending

__all__ = ["ROUTE", "leaderboard_page"]

# Group letters need a test for every pair, so only the best runs get them, and only where that
# takes a moment; the page of a comparison has them for all.
_MOST_TESTED: Final = 8
_MOST_VALUES: Final = 20_000
_KINDS: Final = {"newest": "the newest run of each name", "all": "all runs"}


def leaderboard_page(request: PageRequest) -> WebPage:
    """Runs of one dataset on one measure, best first."""
    with request.store.database.reading() as connection:
        boards = list_datasets(connection)
        dataset = choose_dataset(request.params, [name for name, _, _ in boards])
        measures = list_measures(connection, dataset=dataset, status="finished")
        measure = choose_measure(request.params, measures)
        rows = find_means(connection, measure, dataset=dataset) if measure else []
        kind = request.params.get_choice("of", _KINDS, "newest")
        ranked = _rank(rows, newest=kind == "newest")
        queries = set(query_checksums(connection, [one.id for one in ranked]).values())
    letters, note, retry_after = _letters(request, ranked, measure)
    paging = Paging.of(request.params, request.path, len(ranked))
    whole = _table(ranked, letters)
    part = Table(whole.columns, whole.rows[paging.rows])
    data = {
        "dataset": dataset,
        "measure": measure,
        "of": kind,
        "measures": measures,
        "datasets": [{"dataset": n, "runs": number, "last": last} for n, number, last in boards],
        "total": len(ranked),
        "number": paging.number,
        "letters_note": note,
        "query_sets": len(queries),
        "runs": [
            {**one.to_dict(), "place": place, "letters": letters.get(one.id, "")}
            for place, one in enumerate(ranked, 1)
        ][paging.rows],
    }
    title = f"Leaderboard of {dataset or 'runs without a dataset'}"
    return WebPage(
        "leaderboard",
        title,
        data,
        [_page_table(request, ranked[paging.rows], part, measure, paging, bool(letters))],
        {
            "kinds": _KINDS,
            "note": note,
            "retry_after": retry_after,
            "compare": _compare_link(ranked, measure),
            "mixed_conventions": len({one.conventions for one in ranked}) > 1,
        },
        {"leaderboard": lambda: whole},
    )


def _rank(rows: Sequence[RunMean], *, newest: bool) -> list[RunMean]:
    """Best first; of runs with the same name, the newest or all."""
    found = list(rows)  # the newest first
    if newest:
        found = list({(one.name, one.model): one for one in reversed(found)}.values())
    return sorted(found, key=lambda one: (one.value is None, -(one.value or 0.0), -one.id))


def _letters(
    request: PageRequest, ranked: Sequence[RunMean], measure: str
) -> tuple[dict[int, str], str, int]:
    """Group letters of the best runs, a note on them, and seconds until they are ready."""
    best = [one for one in ranked if one.value is not None][:_MOST_TESTED]
    if len(best) < 2:
        return {}, "", 0
    if len(best) * max(one.n_queries for one in best) > _MOST_VALUES:
        return {}, "Compare runs to see which of them are separable.", 0
    runs = request.store.runs(id=[one.id for one in best], measures=[measure])
    names = [f"{name} ({run.id})" for name, run in zip(names_of(runs), runs, strict=True)]
    try:
        found = request.cache.comparison(
            request.store, runs, names, measure=measure, timeout=request.timeout
        )
    except AssayError as error:
        return {}, f"No group letters: {error}", 0
    if isinstance(found, Pending):
        return {}, "Group letters are being computed.", found.retry_after
    own = dict(zip(names, runs, strict=True))
    letters = {own[one.name].id: one.letters for one in found.standings_on(measure)}
    unit = "" if found.settings.by is None else f", whole groups by {found.settings.by}"
    how = f"{describe_test(found.settings, len(found.pairs))}{unit}"
    note = f"Of the best {len(best)}, runs that share a letter are not separable ({how})."
    return letters, note, 0


def _table(ranked: Sequence[RunMean], letters: dict[int, str]) -> Table:
    models = any(one.model for one in ranked)
    rows = []
    for place, one in enumerate(ranked, 1):
        rows.append(
            (
                Cell(one.name),
                Cell(place, "count"),
                *([Cell(one.model)] if models else []),
                Cell(one.value, "fraction"),
                Cell(one.low, "fraction"),
                Cell(one.high, "fraction"),
                *([Cell(letters.get(one.id) or None)] if letters else []),
                Cell(one.chance, "fraction"),
                Cell(one.n, "count"),
                Cell(one.id, "count"),
                Cell(one.created[:10]),
            )
        )
    optional = [["model"] if models else [], ["group letters"] if letters else []]
    columns = (
        "name",
        "place",
        *optional[0],
        "mean",
        "from",
        "to",
        *optional[1],
        "chance",
        "queries",
        "run",
        "began",
    )
    return Table(columns, tuple(rows))


def _page_table(
    request: PageRequest,
    ranked: Sequence[RunMean],
    table: Table,
    measure: str,
    paging: Paging,
    lettered: bool,
) -> PageTable:
    ends = [end for one in ranked for end in (one.value, one.low, one.high)]
    scale = Scale.around(ends).extend(one.chance for one in ranked)
    level = next((one.level for one in ranked if one.level), None)
    return PageTable(
        "leaderboard",
        f"{measure}, best first",
        table,
        csv=request.params.address(f"{request.path}.csv", page=None),
        links=[{0: address(f"/run/{one.id}", measure=measure)} for one in ranked],
        pictures=[
            interval_strip(
                scale,
                one.value,
                one.low,
                one.high,
                chance=one.chance,
                first=lettered and _is_first(table, place),
            )
            for place, one in enumerate(ranked)
        ],
        picture_after=table.columns.index("to"),
        picture_head=f"{100 * level:g} % interval" if level else "interval",
        run_ids=[one.id for one in ranked],
        run_labels=[f"Compare run {one.id}: {one.name}" for one in ranked],
        paging=paging,
    )


def _is_first(table: Table, row: int) -> bool:
    """Whether a run shares a letter with the best one."""
    column = table.columns.index("group letters")
    best, own = (str(table.rows[i][column].value or "") for i in (0, row))
    return bool(set(best) & set(own))


def _compare_link(ranked: Sequence[RunMean], measure: str) -> str:
    best = [one.id for one in ranked[:_MOST_TESTED]]
    return address("/compare", run=best, measure=measure) if len(best) > 1 else ""


ROUTE: Final = PageRoute("/leaderboard", leaderboard_page, menu="Leaderboard", position=2)
