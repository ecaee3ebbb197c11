"""What the values of queries add to the page of a run: a histogram, groups, and every query."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.report.svg import Span, histogram, strip
from assay.scoring.disclosures import disclosures
from assay.scoring.scores import Scores
from assay.store import Aggregate, Run
from assay.store.tables import run_data
from assay.tables.table import Cell, Table
from assay.web.page import Page, View
from assay.web.page_table import Paging, Sheet, by_number, plain_rows, sorting
from assay.web.pages.query import beside, texts_of
from assay.web.pages.runs import shown_status
from assay.web.params import Asked, address, chosen_measure, find_run

__all__ = ["run_page", "with_queries"]

_MOST_GROUPS: Final = 200


def with_queries(page: Page, view: View, stored: Scores) -> Page:
    """The page with what the values of its queries say."""
    scores = _tolerant(stored)
    names = [str(one) for one in scores.measures]
    measure = page.more["measure"] if page.more["measure"] in names else names[0]
    by, descending = _order(view.asked, names)
    places = _places(scores, by, descending)
    paging = Paging.of(view.asked, view.path, scores.n_queries)
    table = _table(scores, places[paging.rows])
    texts = texts_of(view.store, [page.more["run"]], [row[0].value for row in table.rows])
    sheet = _sheet(
        view,
        table,
        texts,
        paging,
        sorting(
            view.asked,
            view.path,
            dict(enumerate(["query", *names])),
            by=by,
            descending=descending,
            texts=["query"],
        ),
    )
    column, groups = _groups(view, scores)
    remarks = list(disclosures(scores))
    queries = {
        "total": paging.total,
        "number": paging.number,
        "sort": by,
        "descending": descending,
        "rows": plain_rows(table),
        "texts": texts,
    }
    return replace(
        page,
        data={
            **page.data,
            "remarks": remarks,
            "by": column,
            "queries": queries,
            "groups": plain_rows(groups.table) if groups else [],
        },
        sheets=[*page.sheets, *([groups] if groups else []), sheet],
        more={
            **page.more,
            "measure": measure,
            "chart": _chart(scores, measure),
            "column": column,
            "columns": list(scores.groups),
        },
        downloads={"queries": partial(_table, scores, places)},
    )


def _tolerant(scores: Scores) -> Scores:
    """The same under conventions that refuse nothing: what is stored can be shown."""
    rules = scores.conventions
    changed = rules.but(
        empty="skip" if rules.empty == "error" else None,
        missing="skip" if rules.missing == "error" else None,
    )
    return replace(scores, conventions=changed)


def _order(asked: Asked, names: list[str]) -> tuple[str, bool]:
    by = asked.named("sort", ["query", *names]) or "query"
    by = by if by in names else "query"
    return by, asked.choice("order", ("up", "down"), "up" if by == "query" else "down") == "down"


def _places(scores: Scores, by: str, descending: bool) -> NDArray[np.int64]:
    """Queries in the order asked for."""
    if by != "query":
        return by_number(scores[by], descending=descending)
    places = np.arange(scores.n_queries)
    return places[::-1] if descending else places


def _table(scores: Scores, places: NDArray[np.int64]) -> Table:
    ids: Sequence[Any] = scores.query_ids.take(places).to_list()
    groups = [column[places].tolist() for column in scores.groups.values()]
    values = scores.values[:, places].T.tolist()
    rows = tuple(
        (
            Cell(query),
            *(Cell(value, "fraction") for value in own),
            *(Cell(group[row]) for group in groups),
        )
        for row, (query, own) in enumerate(zip(ids, values, strict=True))
    )
    return Table(("query", *map(str, scores.measures), *scores.groups), rows)


def _sheet(view: View, table: Table, texts: dict[str, str], paging: Paging, heads: Any) -> Sheet:
    return Sheet(
        "queries",
        "Queries",
        table,
        csv=view.asked.but(f"{view.path}.csv", table="queries", page=None),
        links=[{0: address("/query", run=view.key, query=row[0].value)} for row in table.rows],
        heads=heads,
        paging=paging,
        notes=beside(texts, [row[0].value for row in table.rows]),
    )


def _chart(scores: Scores, measure: str) -> Any:
    values = scores[measure]
    known = values[~np.isnan(values)].tolist()
    return histogram(values, measure, math.fsum(known) / len(known) if known else None)


def _groups(view: View, scores: Scores) -> tuple[str, Sheet | None]:
    """The group column that is asked for, or the first, and the means of its groups."""
    columns = list(scores.groups)
    column = view.asked.named("by", columns) or next(iter(columns), "")
    if column not in columns:
        return "", None
    names, sizes = np.unique(scores.groups[column], return_counts=True)
    largest = sorted(zip(names.tolist(), sizes.tolist(), strict=True), key=lambda one: -one[1])
    means = scores.mean(by=column).groups
    rows = tuple(
        (
            Cell(group),
            Cell(size, "count"),
            *(Cell(value, "fraction") for value in means[group].values()),
        )
        for group, size in largest[:_MOST_GROUPS]
        if group in means
    )
    caption = f"Means by {column}"
    if len(largest) > _MOST_GROUPS:
        caption += f": the {_MOST_GROUPS} largest of {len(largest):,} groups"
    table = Table((column, "queries", *map(str, scores.measures)), rows)
    return column, Sheet(
        "groups", caption, table, csv=address(f"{view.path}.csv", table="groups", by=column)
    )


def run_page(view: View) -> Page:
    """One run."""
    run = find_run(view.store, view.key)
    measure = chosen_measure(view.asked, run.measures)
    scores = view.values.scores(view.store, run)
    own = {**run_data(run, per_query=False), "shown_status": shown_status(run)}
    page = Page(
        "run",
        f"Run {run.id}: {run.name}",
        {"run": own, "remarks": []},
        [_numbers(run)] if run.aggregates else [],
        {
            "run": run,
            "measure": measure,
            "status": shown_status(run),
            "facts": _facts(run),
            "verdict": _verdict(run, measure),
            "made": _made(run),
            "chart": "",
            "column": "",
            "columns": [],
        },
    )
    return page if scores is None or not scores.n_queries else with_queries(page, view, scores)


def _verdict(run: Run, measure: str) -> str:
    found = [one for one in run.aggregates if one.measure == measure and not one.by_column]
    if run.status != "finished" or not found or found[0].value is None:
        return ""
    one = found[0]
    ends = "" if one.low is None else f" [{one.low:.4f}, {one.high:.4f}]"
    chance = "" if one.chance is None else f"; a random order reaches {one.chance:.4f}"
    return f"{run.name} reaches {one.value:.4f}{ends} on {one.measure}{chance}"


def _facts(run: Run) -> list[tuple[str, str, str]]:
    """Name, value and link of what is known at a glance."""
    took = "" if run.seconds is None else f"{run.seconds:.1f} s"
    facts = [
        ("task", run.task, address("/runs", task=run.task)),
        ("dataset", run.dataset, address("/leaderboard", dataset=run.dataset)),
        ("model", run.model, address("/runs", model=run.model)),
        ("queries", f"{run.n_queries:,}" if run.n_queries else "", ""),
        ("began", run.created[:16].replace("T", " ") + " UTC", ""),
        ("took", took, ""),
        *(("tag", tag, address("/runs", tag=tag)) for tag in run.tags),
    ]
    return [fact for fact in facts if fact[1]]


def _made(run: Run) -> list[tuple[str, str]]:
    """How the run came about, and what it needs to be made again."""
    made = [
        ("command", shlex.join(("assay", *run.command)) if run.command else ""),
        ("folder", run.folder),
        ("signature", run.signature),
        ("settings", _spelled(run.config)),
        ("seeds", _spelled(run.seeds)),
        ("steps", ", ".join(f"{name} {took:.3g} s" for name, took in run.timings.items())),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        ("commit", run.git_commit),
        ("imported from", run.origin),
        ("uid", run.uid),
        *((f"data {file}", _fingerprint(mark)) for file, mark in run.data.items()),
    ]
    return [(name, text) for name, text in made if text]


def _spelled(settings: dict[str, Any]) -> str:
    """Settings, a line each; what was not set is not said."""
    unset: tuple[Any, ...] = (None, [], {}, "")
    given = {key: value for key, value in settings.items() if value not in unset}
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in given.items())


def _fingerprint(mark: Any) -> str:
    if isinstance(mark, dict) and "sha256" in mark:
        size = f"{mark['size']:,} bytes, " if isinstance(mark.get("size"), int) else ""
        return f"{size}sha256 {mark['sha256']}"
    return str(mark)


def _numbers(run: Run) -> Sheet:
    """Every aggregate, with its interval drawn."""
    ones = run.aggregates
    span = Span.around([0.0, *(end for one in ones for end in (one.value, one.low, one.high))])
    rows = tuple(_aggregate_row(one) for one in ones)
    columns = (
        "measure",
        "value",
        "from",
        "to",
        "chance",
        "ceiling",
        "average",
        "part",
        "queries",
        "empty",
        "missing",
        "tied",
    )
    kept = [i for i, _ in enumerate(columns) if i < 4 or any(row[i].value for row in rows)]
    table = Table(tuple(columns[i] for i in kept), tuple(tuple(r[i] for i in kept) for r in rows))
    level = next((one.level for one in ones if one.level), None)
    return Sheet(
        "numbers",
        "Numbers",
        table,
        csv=address(f"/run/{run.id}.csv", table="numbers"),
        links=[{0: address(f"/run/{run.id}", measure=one.measure)} for one in ones],
        pictures=[strip(span, one.value, one.low, one.high, chance=one.chance) for one in ones],
        pictured=3,
        picture_head=f"{100 * level:g} % interval" if level else "interval",
    )


def _aggregate_row(one: Aggregate) -> tuple[Cell, ...]:
    numbers = (one.value, one.low, one.high, one.chance, one.ceiling)
    average = f"{one.average} by {one.by_column}" if one.by_column else one.average
    counts = (one.n, one.empty, one.missing, one.tied)
    return (
        Cell(one.measure),
        *(Cell(number, "fraction") for number in numbers),
        Cell(average),
        Cell(one.subset),
        *(Cell(count, "count") for count in counts),
    )
