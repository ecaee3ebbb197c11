"""Stored runs, and single queries of them, as tables, pages and plain data."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import or_none
from assay.core.ids import Ids
from assay.errors import UsageError
from assay.runs.results import QueryResults, ResultDoc, canonical
from assay.tables.table import Cell, Page, Table, Words, columns_of, table_of

if TYPE_CHECKING:
    from assay.store.run import Run
    from assay.store.summaries import RunSummary

_MOST_MEASURES: Final = 5
_NOT_IN_DATA: Final = ("_store", "aggregates")
_NOT_LISTED: Final = ("updated", "done", "total", "seconds", "conventions", "_means")


def list_table(runs: Sequence[Run | RunSummary], measures: Iterable[str] = ()) -> Table:
    """Return a row per run, with these measures or the commonest."""
    means = [run.means() for run in runs]
    names = [canonical(name) for name in measures] or most_common(means)
    rows = []
    for run, mean in zip(runs, means, strict=True):
        began = run.created[:16].replace("T", " ")
        about = run.id, began, run.status, run.task, run.dataset, run.name, run.n_queries
        rows.append((*about, *map(mean.get, names), " ".join(run.tags)))
    columns = ("id", "began (UTC)", "status", "task", "dataset", "name", "queries", *names, "tags")
    return table_of(columns, rows)


def most_common(means: Sequence[dict[str, float | None]]) -> list[str]:
    """Return a few measures that most runs have."""
    counted = Counter(name for mean in means for name in mean)
    return [name for name, _ in counted.most_common(_MOST_MEASURES)]


def list_data(runs: Sequence[RunSummary]) -> list[dict[str, Any]]:
    """Return plain data of runs, without the settings behind them."""
    return [
        {
            **{key: value for key, value in vars(run).items() if key not in _NOT_LISTED},
            "means": run.means(),
        }
        for run in runs
    ]


def run_data(run: Run, *, per_query: bool) -> dict[str, Any]:
    """Return plain data of one run."""
    data = {key: value for key, value in vars(run).items() if key not in _NOT_IN_DATA}
    data["aggregates"] = [aggregate.to_dict() for aggregate in run.aggregates]
    if per_query:
        data["per_query"] = run.scores().to_dict()["per_query"]
    return data


def run_page(run: Run, *, per_query: bool) -> Page:
    """Return a run's facts, its numbers and its signature."""
    page: Page = [Words(f"run {run.id}: {run.name}, {run.status}", "verdict"), _facts(run)]
    if run.aggregates:
        page.append(_aggregate_table(run))
    if per_query:
        page.append(_query_table(run))
    return [*page, Words(run.signature, "signature")]


def summary_page(run: Run) -> Page:
    """Return a run's summary for notebooks."""
    words = [run.dataset, run.status, run.message, run.created[:16].replace("T", " "), *run.tags]
    page: Page = [Words(f"run {run.id}: {', '.join(filter(None, (run.name, *words)))}", "verdict")]
    if run.aggregates:
        table = _aggregate_table(run)
        filled = (i for i in range(len(table.columns)) if any(row[i].value for row in table.rows))
        page.append(columns_of(table, filled))
    return [*page, Words(run.signature, "signature")]


def _facts(run: Run) -> Table:
    facts = {
        "uid": run.uid,
        "message": run.message,
        "progress": f"{run.done} of {run.total}" if run.status == "running" and run.total else "",
        "task": run.task,
        "dataset": run.dataset,
        "model": run.model,
        "began": run.created,
        "finished": run.finished or "",
        "seconds": "" if run.seconds is None else f"{run.seconds:.3f}",
        "queries": str(run.n_queries or ""),
        "intervals resample": f"whole groups by {run.clusters}" if run.clusters else "",
        "tags": " ".join(run.tags),
        "notes": run.notes,
        "command": shlex.join(("assay", *run.command)) if run.command else "",
        "folder": run.folder,
        "commit": run.git_commit,
        "imported from": run.origin,
        "digest": f"{run.digest}, since {run.digest_from}" if run.digest else "none",
        "seeds": ", ".join(f"{key} {value}" for key, value in run.seeds.items()),
        "versions": ", ".join(f"{key} {value}" for key, value in run.versions.items()),
        **{
            f"data {file}": f"sha256 {mark.get('sha256', mark)}"
            if isinstance(mark, dict)
            else str(mark)
            for file, mark in run.data.items()
        },
    }
    return table_of(("", ""), (fact for fact in facts.items() if fact[1]))


def _aggregate_table(run: Run) -> Table:
    fractions, counts = ("value", "low", "high", "chance"), ("n", "empty", "missing", "tied")
    rows = []
    for aggregate in run.aggregates:
        means, sizes = (map(vars(aggregate).get, names) for names in (fractions, counts))
        average = f"{aggregate.average} {aggregate.by_column}".strip()
        rows.append((aggregate.measure, *means, average, aggregate.subset, *sizes))
    return table_of(("measure", *fractions, "average", "subset", *counts), rows)


def _query_table(run: Run) -> Table:
    scores = run.scores()
    names = tuple(map(str, scores.measures))
    rows = tuple(
        (Cell(query), *(Cell(value, "fraction") for value in values))
        for query, values in zip(scores.query_ids, scores.values.T.tolist(), strict=True)
    )
    return Table(("query", *names), rows)


@dataclass(frozen=True)
class StoredQuery:
    """One query of a run; `results` is None where texts were not stored."""

    run: Run
    query: str
    values: dict[str, float | None]
    missing: bool
    results: QueryResults | None

    def page(self) -> Page:
        """Return the query as a page of text and tables."""
        run = f"run {self.run.id}: {self.run.name}"
        page: Page = [Words(f"query {self.query} of {run}", "verdict")]
        if self.results is not None:
            page.append(Words(self.results.text))
        if self.missing:
            page.append(Words("The run has no results for this query."))
        page.append(table_of(self.values, [self.values.values()]))
        if self.results is None:
            why = "Retrieved documents are stored by 'assay bench --save' only."
            return [*page, Words(why)]
        page.append(_result_table(self.results.results))
        if self.results.missed:
            missed = columns_of(_result_table(self.results.missed), (1, 3, 4))
            page += [Words("Relevant but not retrieved:"), missed]
        return page

    def to_dict(self) -> dict[str, Any]:
        """Return the query as plain data for JSON."""
        data = {
            "run": self.run.id,
            "uid": self.run.uid,
            "query": self.query,
            "values": self.values,
            "missing": self.missing,
        }
        if self.results is None:
            return {**data, "text": None, "results": None, "missed": None}
        lists = {"results": self.results.results, "missed": self.results.missed}
        return {
            **data,
            "text": self.results.text,
            **{key: [doc.to_dict() for doc in docs] for key, docs in lists.items()},
        }


def read_query(run: Run, query: str) -> StoredQuery:
    """Return one query of a finished run."""
    if run.status != "finished" or not run.conventions:
        why = f"is {run.status}" if run.status != "finished" else "has no per-query values"
        raise UsageError(f"Run {run.id} ({run.name!r}) {why}. Choose another run.")
    scores = run.scores()
    place = position_of(scores.query_ids, query)
    if place is None:
        few = ", ".join(map(str, scores.query_ids.take(np.arange(min(3, scores.n_queries)))))
        raise UsageError(f"Unknown query {query!r} in run {run.id}. Known: {few}, ….")
    column = scores.values[:, place].tolist()
    values = {
        str(measure): or_none(value) for measure, value in zip(scores.measures, column, strict=True)
    }
    return StoredQuery(run, query, values, bool(scores.missing[place]), run.results(query))


def position_of(ids: Ids, query: str) -> int | None:
    """Return the position of a query among ids; None where absent."""
    if ids.kind == "integer":
        digits = query.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
            return None
        places = np.flatnonzero(ids.numbers == int(query))
        return int(places[0]) if len(places) else None
    try:
        place = int(Ids.of([query], "query").match(ids)[0])
    except ValueError:  # what no id can be is no id
        return None
    return None if place < 0 else place


def _result_table(docs: Sequence[ResultDoc]) -> Table:
    rows = []
    for rank, doc in enumerate(docs, 1):
        grade = Cell(None if doc.grade is None else f"{doc.grade:g}", "figure")
        rows.append((rank, doc.doc, doc.score, grade, doc.shown))
    return table_of(("rank", "document", "score", "judged", "text"), rows)
