"""Scores for readers: what a mean hides, in sentences, and tables of all values as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from assay.arrays import Flags, or_none
from assay.core.checks import name_few
from assay.core.ids import Ids
from assay.core.text import guard_formula
from assay.io.streams import FilePath
from assay.io.writers import (
    DELIMITERS,
    choose_format,
    need_parquet,
    require_kind,
    to_json,
    write_delimited,
    write_parquet,
    write_text,
)
from assay.scoring.scores import Scores

__all__ = ["disclosures", "write_scores"]


def disclosures(scores: Scores) -> Iterator[str]:
    """A sentence for each thing that a mean alone would hide.

    >>> from assay import evaluate
    >>> list(disclosures(evaluate({"q": {"a": 1, "b": 1}}, {"q": {"a": 1}}, "RR")))
    ['100% of queries have a value that depends on ties (ties: order)']
    """
    for describe in (_missing, _extra, _empty, _tied):
        remark = describe(scores)
        if remark:
            yield remark


def _missing(scores: Scores) -> str:
    ids = _select(scores.query_ids, scores.missing)
    if not len(ids):
        return ""
    fate = "left out" if scores.conventions.missing == "skip" else "counted as 0"
    return f"{_queries(len(ids))} judged but not in the run, {fate}: {name_few(ids)}"


def _extra(scores: Scores) -> str:
    if not len(scores.extra):
        return ""
    number = _queries(len(scores.extra))
    return f"{number} in the run but not judged, left out: {name_few(scores.extra)}"


def _empty(scores: Scores) -> str:
    counts = scores.mean().counts
    number = max((c.empty for c in counts.values()), default=0)
    if not number:
        return ""
    fate = "counted as 0" if scores.conventions.empty == "zero" else "left out"
    return f"{_queries(number)} without a relevant document, {fate}"


def _tied(scores: Scores) -> str:
    """Share of the queries that depend on the order of documents with equal scores."""
    dependent = scores.tied.any(axis=0)
    if not dependent.any():
        return ""
    return (
        f"{dependent.mean():.0%} of queries have a value that depends on ties "
        f"(ties: {scores.conventions.ties})"
    )


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number} queries"


def _select(ids: Ids, marked: Flags) -> Ids:
    return ids.take(marked.nonzero()[0])


def write_scores(scores: Scores, path: FilePath, *, format: str | None = None) -> None:
    """Write a table with a row per query as csv, tsv, jsonl or parquet, or all of it as json.

    Undefined values are empty cells, or null.
    """
    require_kind(scores, Scores, "write_scores")
    chosen = choose_format(path, format, ("csv", "tsv", "json", "jsonl", "parquet"))
    if chosen == "json":
        write_text(path, [to_json(scores.to_dict()), "\n"])
        return
    if chosen == "parquet":
        need_parquet()
        table = scores.to_frame("pyarrow")
        write_parquet(table.replace_schema_metadata({"signature": scores.signature}), path)
        return
    names, rows = _score_table(scores)
    if chosen == "jsonl":
        objects = (dict(zip(names, row, strict=True)) for row in rows)
        write_text(path, (f"{to_json(item)}\n" for item in objects))
    else:
        write_delimited(map(_guard_cells, chain([names], rows)), path, DELIMITERS[chosen])


def _score_table(scores: Scores) -> tuple[list[str], Iterator[list[Any]]]:
    names = ["query", *scores.groups, *map(str, scores.measures)]
    groups = [column.tolist() for column in scores.groups.values()]
    values = [[or_none(value) for value in column] for column in scores.values.tolist()]
    rows = map(list, zip(scores.query_ids.to_list(), *groups, *values, strict=True))
    return names, rows


def _guard_cells(row: Iterable[Any]) -> list[Any]:
    """The cells of a row, none of which a spreadsheet takes for a formula."""
    return [guard_formula(cell) if isinstance(cell, str) else cell for cell in row]
