"""What the values of queries add to the page of a run: a histogram, groups, and every query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.report.disclosures import disclosures
from assay.report.tables import Cell, Table
from assay.scores import Scores
from assay.web.asked import Asked, address
from assay.web.page import Page, View
from assay.web.pictures import histogram
from assay.web.sheets import Paging, Sheet, by_number, plain_rows, sorting
from assay.web.texts import beside, texts_of

__all__ = ["with_queries"]

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
    sheet = _sheet(view, table, texts, paging, sorting(
        view.asked, view.path, dict(enumerate(["query", *names])), by=by, descending=descending,
        texts=["query"],
    ))  # fmt: skip
    column, groups = _groups(view, scores)
    remarks = list(disclosures(scores))
    queries = {"total": paging.total, "number": paging.number, "sort": by,
               "descending": descending, "rows": plain_rows(table), "texts": texts}  # fmt: skip
    return replace(
        page,
        data={**page.data, "remarks": remarks, "by": column, "queries": queries,
              "groups": plain_rows(groups.table) if groups else []},
        sheets=[*page.sheets, *([groups] if groups else []), sheet],
        more={**page.more, "measure": measure, "chart": _chart(scores, measure), "column": column,
              "columns": list(scores.groups)},
        downloads={"queries": partial(_table, scores, places)},
    )  # fmt: skip


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
        (Cell(query), *(Cell(value, "fraction") for value in own),
         *(Cell(group[row]) for group in groups))
        for row, (query, own) in enumerate(zip(ids, values, strict=True))
    )  # fmt: skip
    return Table(("query", *map(str, scores.measures), *scores.groups), rows)


def _sheet(view: View, table: Table, texts: dict[str, str], paging: Paging, heads: Any) -> Sheet:
    return Sheet(
        "queries", "Queries", table,
        csv=view.asked.but(f"{view.path}.csv", table="queries", page=None),
        links=[{0: address("/query", run=view.key, query=row[0].value)} for row in table.rows],
        heads=heads, paging=paging, notes=beside(texts, [row[0].value for row in table.rows]),
    )  # fmt: skip


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
        (Cell(group), Cell(size, "count"),
         *(Cell(value, "fraction") for value in means[group].values()))
        for group, size in largest[:_MOST_GROUPS] if group in means
    )  # fmt: skip
    caption = f"Means by {column}"
    if len(largest) > _MOST_GROUPS:
        caption += f": the {_MOST_GROUPS} largest of {len(largest):,} groups"
    table = Table((column, "queries", *map(str, scores.measures)), rows)
    return column, Sheet("groups", caption, table,
                         csv=address(f"{view.path}.csv", table="groups", by=column))  # fmt: skip
