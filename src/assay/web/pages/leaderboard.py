"""The leaderboard of a dataset: means with intervals, chance, and who can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from assay.errors import AssayError
from assay.report.svg import Span, strip
from assay.store.run import names_of
from assay.store.summaries import Measured, datasets, measured, measures_of
from assay.tables.table import Cell, Table
from assay.web.page import Page, View
from assay.web.page_table import Paging, Sheet
from assay.web.params import address, asked_dataset, chosen_measure
from assay.web.score_cache import Unfinished

__all__ = ["board_page"]

# Tie groups need a test for every pair, so only the best runs get them, and only where that takes
# a moment; the page of a comparison does it for any.
_MOST_TESTED: Final = 8
_MOST_VALUES: Final = 20_000
_KINDS: Final = {"newest": "the newest run of each name", "all": "all runs"}


def board_page(view: View) -> Page:
    """Runs of one dataset on one measure, best first."""
    with view.store.database.reading() as connection:
        boards = datasets(connection)
        dataset = asked_dataset(view.asked, [name for name, _, _ in boards])
        measures = measures_of(connection, dataset=dataset, status="finished")
        measure = chosen_measure(view.asked, measures)
        rows = measured(connection, measure, dataset=dataset) if measure else []
    kind = view.asked.choice("of", _KINDS, "newest")
    ranked = _ranked(rows, newest=kind == "newest")
    letters, note, ask_again = _letters(view, ranked, measure)
    paging = Paging.of(view.asked, view.path, len(ranked))
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
        "tie_groups": note,
        "runs": [
            {**asdict(one), "place": place, "tie_group": letters.get(one.id, "")}
            for place, one in enumerate(ranked, 1)
        ][paging.rows],
    }
    title = f"Leaderboard of {dataset or 'runs without a dataset'}"
    return Page(
        "leaderboard",
        title,
        data,
        [_sheet(view, ranked[paging.rows], part, measure, paging, bool(letters))],
        {
            "kinds": _KINDS,
            "note": note,
            "ask_again": ask_again,
            "compare": _compare_link(ranked, measure),
            "several_rules": len({one.conventions for one in ranked}) > 1,
        },
        {"leaderboard": lambda: whole},
    )


def _ranked(rows: Sequence[Measured], *, newest: bool) -> list[Measured]:
    """Best first; of runs that are called the same, the newest or all."""
    found = list(rows)  # the newest first
    if newest:
        found = list({(one.name, one.model): one for one in reversed(found)}.values())
    return sorted(found, key=lambda one: (one.value is None, -(one.value or 0.0), -one.id))


def _letters(
    view: View, ranked: Sequence[Measured], measure: str
) -> tuple[dict[int, str], str, int]:
    """Tie groups of the best runs, what to know about them, and seconds until they are there."""
    best = [one for one in ranked if one.value is not None][:_MOST_TESTED]
    if len(best) < 2:
        return {}, "", 0
    if len(best) * max(one.n_queries for one in best) > _MOST_VALUES:
        return {}, "Compare runs to see which of them can be told apart.", 0
    runs = view.store.runs(id=[one.id for one in best], shown=[measure])
    names = [f"{name} ({run.id})" for name, run in zip(names_of(runs), runs, strict=True)]
    try:
        found = view.values.comparison(
            view.store, runs, names, measure=measure, patience=view.patience
        )
    except AssayError as error:
        return {}, f"No tie groups: {error}", 0
    if isinstance(found, Unfinished):
        return {}, "Tie groups are being computed.", found.ask_again
    own = dict(zip(names, runs, strict=True))
    letters = {own[one.name].id: one.letters for one in found.standings_on(measure)}
    unit = "" if found.settings.by is None else f", whole groups by {found.settings.by}"
    how = f"randomisation test, Holm's correction{unit}"
    note = f"Of the best {len(best)}, runs that share a letter are not separable ({how})."
    return letters, note, 0


def _table(ranked: Sequence[Measured], letters: dict[int, str]) -> Table:
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
    optional = [["model"] if models else [], ["tie group"] if letters else []]
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


def _sheet(
    view: View,
    ranked: Sequence[Measured],
    table: Table,
    measure: str,
    paging: Paging,
    lettered: bool,
) -> Sheet:
    ends = [end for one in ranked for end in (one.value, one.low, one.high)]
    span = Span.around(ends).reaching(one.chance for one in ranked)
    level = next((one.level for one in ranked if one.level), None)
    return Sheet(
        "leaderboard",
        f"{measure}, best first",
        table,
        csv=view.asked.but(f"{view.path}.csv", page=None),
        links=[{0: address(f"/run/{one.id}", measure=measure)} for one in ranked],
        pictures=[
            strip(
                span,
                one.value,
                one.low,
                one.high,
                chance=one.chance,
                first=lettered and _is_first(table, place),
            )
            for place, one in enumerate(ranked)
        ],
        pictured=table.columns.index("to"),
        picture_head=f"{100 * level:g} % interval" if level else "interval",
        picks=[one.id for one in ranked],
        pick_labels=[f"Compare run {one.id}: {one.name}" for one in ranked],
        paging=paging,
    )


def _is_first(table: Table, row: int) -> bool:
    """Whether a run shares a tie group with the best one."""
    column = table.columns.index("tie group")
    best, own = (str(table.rows[i][column].value or "") for i in (0, row))
    return bool(set(best) & set(own))


def _compare_link(ranked: Sequence[Measured], measure: str) -> str:
    best = [one.id for one in ranked[:_MOST_TESTED]]
    return address("/compare", run=best, measure=measure) if len(best) > 1 else ""
