"""Predictions from files: scores with targets in .npy, .npz or parquet, lists in tables.

.npy        scores (samples × classes), read as they are needed; the targets in a .npy of their own
.npz        scores or logits, and targets; or candidates and targets; query_ids, class_names;
            FILE.npz:NAME names the array of scores
.parquet    a column of score lists (scores or logits), read in batches; or of candidates
.csv .tsv .jsonl    a column of candidate lists, separated by spaces or commas, and targets
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.core import checks
from assay.errors import FormatError, MismatchError, UsageError, ValueRangeError
from assay.io.arrays import NpyRows, load_keyed, load_npy, load_npz, npz_keys
from assay.io.columns import numbered_rows, open_parquet, read_columns
from assay.io.plain_data import parse_json
from assay.io.streams import FilePath, ending_of, missing_file, read_lines, split_array
from assay.runs.run_files import unique_names

SCORE_NAMES = ("scores", "logits")
TARGET_NAMES = ("targets", "target", "true_y", "ground_truth", "label", "labels")
ID_NAMES = ("query_ids", "query_id", "sample_id", "id")
_NPZ_KEYS = (*SCORE_NAMES, *TARGET_NAMES, "candidates", "query_ids", "class_names")
_BATCH_ROWS = 4096
_CLOSING = {"[": "]", "(": ")"}
_ITEM = re.compile(r"""'([^']*)'|"([^"]*)"|([^\s,'"]+)""")


@dataclass(frozen=True, eq=False)
class PredictionFile:
    """What a file holds: scores (whole or in batches) or lists, targets, ids and other columns."""

    name: str
    targets: Any
    scores: Any = None
    batches: Any = None
    candidates: dict[str, Any] = field(default_factory=dict)
    query_ids: Any = None
    class_names: Any = None
    columns: dict[str, list[Any]] = field(default_factory=dict)


def name_files(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return (model, path) of each `NAME=FILE`; without a name the file's own is taken.

    >>> name_files(["a=x.npz", "a=y.npz", "z.npz"])
    [('a', 'x.npz'), ('a', 'y.npz'), ('z', 'z.npz')]
    """
    pairs = []
    for text in texts:
        name, equals, path = text.partition("=")
        # A file whose own name holds = is meant as it is.
        pairs.append((name, path) if equals and not os.path.exists(text) else ("", text))
    names = unique_names([path for _, path in pairs])
    return [(name or own_name, path) for (name, path), own_name in zip(pairs, names, strict=True)]


def read_prediction_file(
    path: FilePath,
    *,
    targets: Any = None,
    candidates: tuple[str, ...] = (),
    target: str | None = None,
    ids: str | None = None,
) -> PredictionFile:
    """Read the predictions of one file.

    Args:
        path: A .npy, .npz, parquet, CSV, TSV or JSONL file.
        targets: The true classes of a file that holds none.
        candidates: Columns or arrays that hold lists of candidates.
        target: Column or array of the true classes.
        ids: Column of the sample ids.

    Returns:
        Scores (whole or in batches) or lists, with targets and ids.

    Raises:
        FormatError: The file is of another kind, or lacks a column.
        MismatchError: Several columns could be the scores or the targets.
        UsageError: A .npy of scores has no `targets`.
    """
    name = os.fspath(path)
    ending = ending_of(name)
    if ending == ".npy":
        if targets is None:
            if not os.path.exists(split_array(name)[0]):
                raise missing_file(split_array(name)[0])
            raise UsageError(f"{name} holds scores only. Give the targets with --targets FILE.")
        if candidates:
            return PredictionFile(name, targets, candidates={candidates[0]: load_npy(path)})
        return PredictionFile(name, targets, scores=_score_array(NpyRows(path), name))
    if ending == ".npz":
        return _from_npz(name, targets, candidates, target)
    if ending in (".parquet", ".pq"):
        return _from_parquet(name, targets, candidates, target, ids)
    if ending in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson"):
        return _from_table(name, read_table(name, ending), targets, candidates, target, ids)
    raise FormatError(
        f"{name}: predictions are read from .npy, .npz, .parquet, .csv, .tsv and .jsonl."
    )


def _score_array(matrix: Any, name: str) -> Any:
    if matrix.dtype.kind in "iu":
        raise ValueRangeError(
            f"{name} holds {matrix.dtype}: these could be scores or candidates. Say "
            "--candidates NAME if they are lists of class numbers, or save scores as floats."
        )
    return matrix


def _from_npz(
    name: str, targets: Any, candidates: tuple[str, ...], target: str | None
) -> PredictionFile:
    name, scores = split_array(name)
    named = tuple(array for array in (*candidates, target, scores) if array is not None)
    arrays = load_npz(name, (*_NPZ_KEYS, *named))
    labels = _one_of(arrays, (target,) if target else TARGET_NAMES, name, "targets", targets)
    lists = {key: arrays[key] for key in candidates if key in arrays}
    absent = [key for key in candidates if key not in arrays]
    if absent:
        have = ", ".join(npz_keys(name))
        raise FormatError(f"{name} has no array {absent[0]!r}; it has: {have}.")
    if not lists and scores is None and "candidates" in arrays:
        lists = {"candidates": arrays["candidates"]}
    rest: dict[str, Any] = {key: arrays.get(key) for key in ("query_ids", "class_names")}
    if lists:
        return PredictionFile(name, labels, candidates=lists, **rest)
    score_names = SCORE_NAMES if scores is None else (scores,)
    return PredictionFile(name, labels, _one_of(arrays, score_names, name, "scores"), **rest)


def _one_of(
    columns: Any, names: tuple[str, ...], place: str, what: str, otherwise: Any = None
) -> Any:
    """Return the only array or column under any of these names; refuse several."""
    present = [key for key in names if key in columns]
    if len(present) > 1:
        raise MismatchError(f"{place} has {' and '.join(present)}: which of them are the {what}?")
    if present:
        return columns[present[0]]
    if otherwise is not None:
        return otherwise
    raise FormatError(
        f"{place} has no {what}: none of {', '.join(names)}. It has: {', '.join(columns)}."
    )


def read_table(name: str, ending: str | None = None) -> dict[str, list[Any]]:
    """Read the columns of a CSV, TSV or JSON lines file by their names."""
    ending = ending_of(name) if ending is None else ending
    if ending in (".jsonl", ".ndjson"):
        return _columns_of(
            [
                parse_json(line, f"{name}, line {number}")
                for number, line in enumerate(read_lines(name), 1)
                if not line.isspace()
            ],
            name,
        )
    delimiter = "," if ending == ".csv" else "\t"
    rows = list(numbered_rows(name, delimiter))
    if len(rows) < 2:
        raise FormatError(f"{name} needs a line of column names and at least one sample.")
    header = rows[0][1]
    if len(set(header)) < len(header):
        raise FormatError(f"{name}: two columns of the first line have the same name.")
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise FormatError(
                f"{name}, line {line}: {len(row)} columns, the first line has {len(header)}."
            )
    return {key: [row[i] for _, row in rows[1:]] for i, key in enumerate(header)}


def _columns_of(records: list[Any], name: str) -> dict[str, list[Any]]:
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or record.keys() != records[0].keys():
            raise FormatError(
                f"{name}, record {number}: expected an object with the keys of the first record."
            )
    if not records:
        raise FormatError(f"{name} holds no records.")
    return {key: [record[key] for record in records] for key in records[0]}


def _from_table(
    name: str,
    table: dict[str, list[Any]],
    targets: Any,
    candidates: tuple[str, ...],
    target: str | None,
    ids: str | None,
) -> PredictionFile:
    keys = candidates or ("candidates",)
    lists = {key: as_lists(_one_of(table, (key,), name, "candidates"), key, name) for key in keys}
    labels = _one_of(table, (target,) if target else TARGET_NAMES, name, "targets", targets)
    labels = [None if isinstance(label, str) and not label else label for label in labels]
    names = _ids(table, ids, name)
    return PredictionFile(name, labels, candidates=lists, query_ids=names, columns=table)


def _ids(table: dict[str, list[Any]], ids: str | None, name: str) -> list[Any] | None:
    if ids is not None:
        column: list[Any] = _one_of(table, (ids,), name, "ids")
        return column
    present = [key for key in ID_NAMES if key in table]
    return table[present[0]] if present else None


def as_lists(cells: list[Any], column: str, name: str) -> list[list[Any]]:
    """Return lists as they are, and text cut into its items."""
    lists = []
    for row, cell in enumerate(cells):
        if not isinstance(cell, str | list):
            raise FormatError(f"{name}, row {row}: column {column!r} holds {cell!r}, not a list.")
        if isinstance(cell, str) and _is_cut_off(cell.strip()):
            raise FormatError(
                f"{name}, row {row}: the list {cell!r:.60} in column {column!r} is not complete. "
                "Write all of it, and the closing bracket."
            )
        lists.append(_items(cell.strip()) if isinstance(cell, str) else cell)
    return lists


def _is_cut_off(text: str) -> bool:
    """Return whether a bracket is not closed, or an array was printed with dots."""
    if text[:1] not in _CLOSING:
        return False
    return text[-1] != _CLOSING[text[0]] or " ... " in text


def _items(text: str) -> list[str]:
    """Split text at brackets and quotes, else at commas, else at spaces.

    >>> _items("7 8"), _items("at home, at work"), _items("['7', 8]")
    (['7', '8'], ['at home', 'at work'], ['7', '8'])
    """
    if text[:1] in ("[", "("):
        return ["".join(parts) for parts in _ITEM.findall(text[1:].rstrip("])"))]
    if "," in text:
        return [item.strip() for item in text.split(",")]
    return text.split()


def _from_parquet(
    name: str, targets: Any, candidates: tuple[str, ...], target: str | None, ids: str | None
) -> PredictionFile:
    scores: list[str] = []

    def choose(columns: Sequence[str]) -> list[str]:
        scores[:] = [key for key in SCORE_NAMES if key in columns and not candidates]
        return [key for key in columns if key not in scores]

    table = read_columns(name, choose).to_pydict()
    if not scores:
        return _from_table(name, table, targets, candidates, target, ids)
    if len(scores) > 1:
        raise MismatchError(f"{name} has {' and '.join(scores)}: which of them are the scores?")
    labels = _one_of(table, (target,) if target else TARGET_NAMES, name, "targets", targets)
    return PredictionFile(
        name,
        labels,
        batches=lambda: _score_batches(name, scores[0]),
        query_ids=_ids(table, ids, name),
        columns=table,
    )


def _score_batches(name: str, column: str) -> Iterator[Any]:
    """Yield the rows of a list column as matrices, some thousand at a time."""
    done = 0
    width: int | None = None
    with open_parquet(name) as file:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=[column]):
            lists = batch.column(0)
            lengths = np.asarray(lists.value_lengths().fill_null(-1))
            width = int(lengths[0]) if width is None and len(lengths) else width
            odd = np.flatnonzero(lengths != width)
            if len(odd):
                raise FormatError(
                    f"{name}, row {done + int(odd[0])}: {column} holds "
                    f"{max(int(lengths[odd[0]]), 0)} scores, the first row holds {width}."
                )
            values = lists.flatten()
            if values.null_count:
                raise ValueRangeError(f"{name}: {column} holds missing values. Fill them.")
            yield values.to_numpy(zero_copy_only=False).reshape(-1, width)
            done += len(lengths)


def read_labels(source: str) -> list[Any]:
    """Read labels from `FILE` or `FILE:COLUMN`.

    Args:
        source: A .npy, .npz, parquet, CSV, TSV or JSONL file, with the array or column to read
            where there are several.

    Returns:
        The labels in the order of the file.

    Raises:
        FormatError: The file is of another kind, or has no such column.
    """
    path, colon, column = source.rpartition(":")
    if not colon or os.path.exists(source):
        path, column = source, ""
    ending = ending_of(path)
    if ending in (".npy", ".npz"):
        return checks.as_list(load_keyed(path, column or None, usual=TARGET_NAMES)[0], path)
    if ending in (".parquet", ".pq"):
        return _column(read_columns(path, list).to_pydict(), column, path)
    if ending in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson"):
        return _column(read_table(path, ending), column, path)
    raise FormatError(f"{path}: labels are read from .npy, .npz, .parquet, .csv, .tsv and .jsonl.")


def _column(table: dict[str, list[Any]], column: str, path: str) -> list[Any]:
    if not column and len(table) == 1:
        return next(iter(table.values()))
    values: list[Any] = _one_of(table, (column,), path, "such column")
    return values
