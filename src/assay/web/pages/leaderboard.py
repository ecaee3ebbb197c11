"""The leaderboard of a dataset: means with intervals, chance, and group letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.comparison.verdict import describe_test
from assay.errors import AssayError
from assay.report.svg import interval_strip
from assay.stats.ranks import split_letters
from assay.store import Run, Store
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
from assay.web.score_cache import MOST_COMPARED, Pending

__all__ = ["ROUTE", "leaderboard_page"]

_MOST_VALUES: Final = 500_000  # runs × queries whose letters take seconds, not minutes
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
    found = _find_letters(request, ranked, measure)
    letters = found.by_run
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
        "letters_note": found.note,
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
            "note": found.note,
            "retry_after": found.retry_after,
            "compare": _compare_link(found.family, measure),
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


@dataclass(frozen=True)
class _Letters:
    """Group letters by run, a note on them, seconds until they are ready, and who was compared."""

    by_run: dict[int, str] = field(default_factory=dict)
    note: str = ""
    retry_after: int = 0
    family: tuple[int, ...] = ()


def _find_letters(request: PageRequest, ranked: Sequence[RunMean], measure: str) -> _Letters:
    """The letters that the page of a comparison shows for the same runs."""
    runs, left_out = _family(request.store, ranked, measure)
    ids = tuple(run.id for run in runs)
    if len(runs) < 2:
        return _Letters(note=left_out)
    if len(runs) * max(run.n_queries for run in runs) > _MOST_VALUES:
        return _Letters(note="Compare runs to see which of them are separable.", family=ids)
    names = names_of(runs)
    try:
        found = request.cache.comparison(
            request.store, runs, names, measure=measure, timeout=request.timeout
        )
    except AssayError as error:
        return _Letters(note=f"No group letters: {error}", family=ids)
    if isinstance(found, Pending):
        return _Letters({}, "Group letters are being computed.", found.retry_after, ids)
    own = dict(zip(names, ids, strict=True))
    letters = {own[one.name]: one.letters for one in found.standings_on(measure)}
    unit = "" if found.settings.by is None else f", whole groups by {found.settings.by}"
    how = f"{describe_test(found.settings, len(found.pairs))}{unit}"
    note = f"Runs that share a letter are not separable ({how}: {found.family}).{left_out}"
    return _Letters(letters, note, 0, ids)


def _family(store: Store, ranked: Sequence[RunMean], measure: str) -> tuple[list[Run], str]:
    """The runs to compare with each other, best first, and a sentence on those left out.

    They follow the same conventions on the same queries; a model behind an index is to be compared
    with its own exact search, and not with other models.
    """
    known = [one for one in ranked if one.value is not None]
    usual = _most_common(one.conventions for one in known)
    alike = [one for one in known if one.conventions == usual]
    best = [one.id for one in alike[:MOST_COMPARED]]
    stored = {run.id: run for run in store.runs(id=best, measures=[measure])} if best else {}
    runs = [stored[id] for id in best if id in stored]
    models = [run for run in runs if not run.config.get("index_of")]
    asked = _most_common(run.query_set for run in models if run.query_set)
    family = [run for run in models if run.query_set in ("", asked)]
    numbers = {
        "of other conventions": len(known) - len(alike),
        f"beyond the best {MOST_COMPARED}": len(alike) - len(best),
        "behind an index": len(runs) - len(models),
        "of other query sets": len(models) - len(family),
    }
    words = ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
    return family, f" Left out: {words}." if words else ""


def _most_common(values: Iterable[str]) -> str:
    """The value that most have; of equally many the first."""
    return next((value for value, _ in Counter(values).most_common(1)), "")


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
    best, own = (split_letters(str(table.rows[i][column].value or "")) for i in (0, row))
    return bool(set(best) & set(own))


def _compare_link(family: Sequence[int], measure: str) -> str:
    return address("/compare", run=list(family), measure=measure) if len(family) > 1 else ""


ROUTE: Final = PageRoute("/leaderboard", leaderboard_page, menu="Leaderboard", position=2)
