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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from assay.core import checks
from assay.core.text import parse_number
from assay.errors import FormatError, MismatchError, UsageError, ValueRangeError
from assay.io import columns as tables
from assay.io.arrays import NpyRows, load_keyed, load_npy, load_npz, npz_keys
from assay.io.streams import FilePath, ending_of, missing_file, split_array
from assay.runs.run_files import unique_names

SCORE_NAMES = ("scores", "logits")
TARGET_NAMES = ("targets", "target", "true_y", "ground_truth", "label", "labels")
ID_NAMES = ("query_ids", "query_id", "sample_id", "id")
BATCH_ROWS = 4096
_NPZ_KEYS = (*SCORE_NAMES, *TARGET_NAMES, "candidates", "query_ids", "class_names")
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_CLOSING: Final = {"[": "]", "(": ")"}
_ITEM = re.compile(r"""'([^']*)'|"([^"]*)"|([^\s,'"]+)""")


@dataclass(frozen=True, eq=False)
class PredictionFile:
    """Scores (whole or in batches) or lists of a file, with targets, ids and other columns."""

    name: str
    targets: Any
    scores: Any = None
    batches: Callable[[], Iterable[Any]] | None = None
    candidates: dict[str, Any] = field(default_factory=dict)
    query_ids: Any = None
    class_names: Any = None
    columns: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def target_numbers(self) -> Any:
        """The targets as an array; a missing one is −1."""
        if not isinstance(self.targets, list):
            return self.targets
        return np.asarray([-1 if target is None else target for target in self.targets])

    def score_batches(self) -> Iterable[Any]:
        """Return the scores batch by batch, or whole where the file is read so."""
        return [self.scores] if self.batches is None else self.batches()

    def labels(self, name: str) -> list[Any]:
        """Return a column of this file, or one of another file."""
        return self.columns[name] if name in self.columns else read_labels(name)

    def by_id(self, values: list[Any]) -> dict[Any, Any]:
        """Return {sample id: value}; samples without ids are numbered."""
        ids = range(len(values)) if self.query_ids is None else self.query_ids
        return dict(zip(ids, values, strict=True))


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
    return [(name or stem, path) for (name, path), stem in zip(pairs, names, strict=True)]


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

    Example:
        predictions = read_prediction_file("top10.csv", candidates=("top10",), ids="visit")
        predictions.candidates["top10"], predictions.targets
    """
    name = os.fspath(path)
    ending = ending_of(name)
    if ending == ".npy":
        return _read_npy(name, targets, candidates)
    if ending == ".npz":
        return _read_npz(name, targets, candidates, target)
    table = _open_table(name, "predictions")
    in_batches = ending in (".parquet", ".pq") and not candidates
    scores = [key for key in SCORE_NAMES if key in table.names and in_batches]
    columns = _read_columns(table, without=scores)
    batches, lists = None, {}
    if scores:
        batches = partial(_read_score_batches, name, _find_only(scores, name, "scores"))
    else:
        for key in candidates or ("candidates",):
            lists[key] = as_lists(_pick(columns, (key,), name, "candidates"), key, name)
    labels = _pick(columns, (target,) if target else TARGET_NAMES, name, "targets", targets)
    if lists:
        labels = [None if isinstance(label, str) and not label else label for label in labels]
    query_ids = next((columns[key] for key in ID_NAMES if key in columns), None)
    if ids is not None:
        query_ids = _pick(columns, (ids,), name, "ids")
    return PredictionFile(
        name, labels, None, batches, candidates=lists, query_ids=query_ids, columns=columns
    )


def _read_npy(name: str, targets: Any, candidates: tuple[str, ...]) -> PredictionFile:
    if targets is None:
        if not os.path.exists(name):
            raise missing_file(name)
        raise UsageError(f"{name} holds scores only. Give the targets with --targets FILE.")
    if candidates:
        return PredictionFile(name, targets, candidates={candidates[0]: load_npy(name)})
    scores = NpyRows(name)
    if scores.dtype.kind in "iu":
        raise ValueRangeError(
            f"{name} holds {scores.dtype}: these could be scores or candidates. Say "
            "--candidates NAME if they are lists of class numbers, or save scores as floats."
        )
    return PredictionFile(name, targets, scores)


def _read_npz(
    name: str, targets: Any, candidates: tuple[str, ...], target: str | None
) -> PredictionFile:
    name, scores = split_array(name)
    named = tuple(array for array in (*candidates, target, scores) if array is not None)
    arrays = load_npz(name, (*_NPZ_KEYS, *named))
    labels = _pick(arrays, (target,) if target else TARGET_NAMES, name, "targets", targets)
    absent = [key for key in candidates if key not in arrays]
    if absent:
        have = ", ".join(npz_keys(name))
        raise FormatError(f"{name} has no array {absent[0]!r}; it has: {have}.")
    listed = candidates
    if not listed and scores is None and "candidates" in arrays:
        listed = ("candidates",)
    rest: dict[str, Any] = {key: arrays.get(key) for key in ("query_ids", "class_names")}
    if listed:
        lists = {key: arrays[key] for key in listed}
        return PredictionFile(name, labels, candidates=lists, **rest)
    score_names = SCORE_NAMES if scores is None else (scores,)
    return PredictionFile(name, labels, _pick(arrays, score_names, name, "scores"), **rest)


def _find_only(present: Sequence[str], place: str, what: str) -> str:
    """Return the only name; refuse several."""
    if len(present) > 1:
        raise MismatchError(f"{place} has {' and '.join(present)}: which of them are the {what}?")
    return present[0]


def _pick(
    columns: Mapping[str, Any], names: Sequence[str], place: str, what: str, otherwise: Any = None
) -> Any:
    """Return the only array or column under any of these names; refuse several."""
    present = [key for key in names if key in columns]
    if present:
        return columns[_find_only(present, place, what)]
    if otherwise is not None:
        return otherwise
    raise FormatError(
        f"{place} has no {what}: none of {', '.join(names)}. It has: {', '.join(columns)}."
    )


def _open_table(name: str, what: str) -> tables.FileTable:
    ending = ending_of(name)
    if ending in _DELIMITERS:
        return tables.open_delimited(name, tables.Dialect(_DELIMITERS[ending]))
    if ending in (".parquet", ".pq"):
        return tables.open_parquet_table(name)
    if ending not in (".jsonl", ".ndjson"):
        raise FormatError(
            f"{name}: {what} are read from .npy, .npz, .parquet, .csv, .tsv and .jsonl."
        )
    records, where = tables.read_records(name, "jsonl")
    table = tables.table_of_records(records, where, name)
    for row, record in enumerate(records):
        if record.keys() != records[0].keys():
            raise FormatError(f"{where(row)}: expected the keys of the first record.")
    return table


def _read_columns(table: tables.FileTable, without: Collection[str] = ()) -> dict[str, list[Any]]:
    """Read the columns of a table by their names; a missing cell is None."""
    names = [name for name in table.names if name not in without]
    if len(set(names)) < len(names):
        raise FormatError(f"{table.source}: two columns of the first line have the same name.")
    return dict(zip(names, table.columns(names, gaps=names), strict=True))


def as_lists(cells: list[Any], column: str, name: str) -> list[list[Any]]:
    """Return lists as they are, and text cut into its items."""
    lists = []
    for row, cell in enumerate(cells):
        if not isinstance(cell, str | list):
            raise FormatError(f"{name}, row {row}: column {column!r} holds {cell!r}, not a list.")
        text = cell.strip() if isinstance(cell, str) else ""
        # A bracket that is not closed, or an array that was printed with dots.
        closing = _CLOSING.get(text[:1])
        if closing and (text[-1] != closing or " ... " in text):
            raise FormatError(
                f"{name}, row {row}: the list {cell!r:.60} in column {column!r} is not complete. "
                "Write all of it, and the closing bracket."
            )
        lists.append(_split_items(text) if isinstance(cell, str) else cell)
    return lists


def _split_items(text: str) -> list[str]:
    """Split text at brackets and quotes, else at commas, else at spaces.

    >>> _split_items("7 8"), _split_items("at home, at work"), _split_items("['7', 8]")
    (['7', '8'], ['at home', 'at work'], ['7', '8'])
    """
    if text[:1] in ("[", "("):
        return ["".join(parts) for parts in _ITEM.findall(text[1:].rstrip("])"))]
    if "," in text:
        return [item.strip() for item in text.split(",")]
    return text.split()


def _read_score_batches(name: str, column: str) -> Iterator[Any]:
    """Yield the rows of a list column as matrices, some thousand at a time."""
    done = 0
    width: int | None = None
    with tables.open_parquet(name) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=[column]):
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

    Example:
        visited = read_labels("train.csv:location_id")
    """
    path, column = tables.split_column(source)
    if ending_of(path) in (".npy", ".npz"):
        return checks.as_list(load_keyed(path, column or None, usual=TARGET_NAMES)[0], path)
    columns = _read_columns(_open_table(path, "labels"))
    if not column and len(columns) == 1:
        return next(iter(columns.values()))
    labels: list[Any] = _pick(columns, (column,), path, "such column")
    return labels


_LATITUDE: Final = ("lat", "latitude")
_LONGITUDE: Final = ("lon", "lng", "long", "longitude")


def read_coordinates(path: str) -> dict[str, tuple[float, float]]:
    """Read {class: (latitude, longitude)}; the first other column names the class."""
    columns = _read_columns(_open_table(path, "coordinates"))
    columns = {name.strip().lower(): column for name, column in columns.items()}
    degrees = [_pick(columns, names, path, names[-1]) for names in (_LATITUDE, _LONGITUDE)]
    others = [name for name in columns if name not in (*_LATITUDE, *_LONGITUDE)]
    if not others:
        raise FormatError(f"{path} needs a column that names the class beside lat and lon.")
    coordinates: dict[str, tuple[float, float]] = {}
    for row, (place, *pair) in enumerate(zip(columns[others[0]], *degrees, strict=True)):
        if str(place) in coordinates:
            raise FormatError(f"{path}, row {row}: {str(place)!r} is there twice.")
        lat, lon = (parse_number(str(cell)) for cell in pair)
        if lat is None or lon is None:
            wrong = pair[0] if lat is None else pair[1]
            raise FormatError(f"{path}, row {row}: {wrong!r:.40} is no number of degrees.")
        coordinates[str(place)] = (lat, lon)
    return coordinates
