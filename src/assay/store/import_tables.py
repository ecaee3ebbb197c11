"""Tables of runs, CSV or parquet: a row for each value of each query."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from typing import Any

from assay.errors import FormatError
from assay.io.packages import need
from assay.io.streams import BOMB_BYTES, BOMB_RATIO, open_chunks
from assay.io.text_lines import read_text
from assay.store.exports import FRONT, GROUP, unguarded

__all__ = ["csv_rows", "grid_of", "parquet_rows"]


def csv_rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a CSV file."""
    reader = csv.reader(io.StringIO(read_text(name), newline=""))
    try:
        header = [unguarded(cell) for cell in next(reader, [])]
        _check_header(header, name)
        for cells in reader:
            if len(cells) != len(header):
                raise FormatError(
                    f"{name}, line {reader.line_num}: found {len(cells)} columns, "
                    f"the header has {len(header)}."
                )
            yield dict(zip(header, map(unguarded, cells), strict=True))
    except csv.Error as error:
        raise FormatError(f"{name}, line {reader.line_num}: {error}.") from None


def parquet_rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a parquet file."""
    parquet = need("pyarrow.parquet", "reading parquet files", "parquet")
    arrow = need("pyarrow", "reading parquet files", "parquet")
    next(open_chunks(name, 1))  # what cannot be opened, or is empty, is refused in its own words
    try:
        with parquet.ParquetFile(name, memory_map=False) as file:
            _refuse_bomb(file.metadata.num_rows, name)
            _check_header(file.schema_arrow.names, name)
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except (arrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{name} is no sound parquet file ({str(error)[:120]}).") from None


def _refuse_bomb(n_rows: int, name: str) -> None:
    size = os.stat(name).st_size
    if n_rows * 3 * 8 > max(BOMB_BYTES, BOMB_RATIO * size):
        raise FormatError(f"{name} holds {size} bytes but claims {n_rows} rows; it is refused.")


def _check_header(header: list[str], name: str) -> None:
    absent = [column for column in FRONT if column not in header]
    if absent:
        raise FormatError(f"{name} holds no runs: it has no column {', '.join(absent)}.")
    if len(set(header)) < len(header):
        raise FormatError(f"{name}: a column is there twice. Keep one of them.")


def grid_of(rows: list[Mapping[str, Any]], where: str) -> dict[str, Any]:
    """The layout of JSON from rows of (query, measure, value)."""
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    places = {query: i for i, query in enumerate(dict.fromkeys(row["query"] for row in rows))}
    if len({(row["measure"], row["query"]) for row in rows}) != len(rows) or len(rows) != len(
        measures
    ) * len(places):
        raise FormatError(f"{where}: every measure needs one value for each query.")
    values: dict[str, list[Any]] = {name: [None] * len(places) for name in measures}
    tied: dict[str, list[int]] = {name: [] for name in measures}
    for row in rows:
        place = places[row["query"]]
        values[row["measure"]][place] = _value(row["value"])
        if _flag(row["tied"], where):
            tied[row["measure"]].append(place)
    of_query = [row for row in rows if row["measure"] == measures[0]]
    kind = rows[0]["id_kind"]
    columns = [name for name in rows[0] if name.startswith(GROUP) and rows[0][name]]
    return {
        "measures": measures,
        "id_kind": kind,
        "queries": [int(query) for query in places] if kind == "integer" else list(places),
        "values": list(values.values()),
        "tied": list(tied.values()),
        "missing": [places[row["query"]] for row in of_query if _flag(row["missing"], where)],
        "extra_kind": kind,
        "extra": [],
        "groups": {name[len(GROUP) :]: [row[name] for row in of_query] for name in columns},
    }


def _value(cell: Any) -> float | None:
    return None if cell in (None, "") else float(cell)


def _flag(cell: Any, where: str) -> bool:
    if cell not in (True, False, "0", "1"):
        raise FormatError(f"{where}: tied and missing are 0 or 1, found {cell!r:.60}.")
    return cell in (True, "1")
