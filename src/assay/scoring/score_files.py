"""Tables of all values as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from assay.arrays import or_none
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

__all__ = ["write_scores"]


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
