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
from typing import Any, Final, NamedTuple

import numpy as np

from assay.core import checks
from assay.core.mismatches import check_labels_match, describe_near
from assay.core.text import did_you_mean, parse_number
from assay.errors import FormatError, MismatchError, UsageError, ValueRangeError
from assay.io import columns as tables
from assay.io.arrays import NpyRows, load_keyed, load_npy, load_npz, npz_keys
from assay.io.streams import FilePath, ending_of, missing_file, split_array, unique_names

SCORE_NAMES = ("scores", "logits")
TARGET_NAMES = ("targets", "target", "true_y", "ground_truth", "label", "labels")
ID_NAMES = ("query_ids", "query_id", "sample_id", "id")
BATCH_ROWS = 4096
_ARRAYS: Final = (".npy", ".npz")
_BY_ROW: Final = "{} has no sample ids: rows were matched by order"
_NPZ_KEYS = (*SCORE_NAMES, *TARGET_NAMES, "candidates", "query_ids", "class_names")
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_CLOSING: Final = {"[": "]", "(": ")"}
_ITEM = re.compile(r"""'([^']*)'|"([^"]*)"|([^\s,'"]+)""")


class JoinedColumn(NamedTuple):
    """A value for each sample, the name of its column, and remarks on the join."""

    name: str
    values: list[Any]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class PredictionFile:
    """Scores (whole or in batches) or lists of a file, with targets, ids and other columns."""

    name: str
    targets: Any
    scores: Any = None
    batches: Callable[[], Iterable[Any]] | None = None
    candidates: dict[str, Any] = field(default_factory=dict)
    query_ids: Any = None
    columns: dict[str, list[Any]] = field(default_factory=dict)
    id_name: str = ""
    class_names: Any = None

    @property
    def target_numbers(self) -> Any:
        """The targets as an array; a missing one is −1."""
        if not isinstance(self.targets, list):
            return self.targets
        return np.asarray([-1 if target is None else target for target in self.targets])

    def score_batches(self) -> Iterable[Any]:
        """Return the scores batch by batch, or whole where the file is read so."""
        return [self.scores] if self.batches is None else self.batches()

    def join(self, source: str, option: str, *, allow: bool = False) -> JoinedColumn:
        """Return a value for each sample: a column of this file, or of another one.

        Rows of another table go by sample id where both files have ids, else by their order.

        Args:
            source: `COLUMN`, `FILE` or `FILE:COLUMN`.
            option: Name of the option, for messages.
            allow: Accept ids that are written differently where each sample has its own.

        Raises:
            UsageError: There is no such column, and no such file.
            MismatchError: The other file lacks samples, or writes their ids differently.
        """
        if source in self.columns:
            return JoinedColumn(source, self.columns[source])
        path, _ = tables.split_column(source)
        if not os.path.exists(split_array(path)[0]):
            have = checks.name_few(list(self.columns)) if self.columns else "none"
            raise UsageError(f"{option} {source}: no file and no column of {self.name} ({have}).")
        numbered = self.query_ids is None
        samples = [str(id) for id in (range(len(self.targets)) if numbered else self.query_ids)]
        name, values, ids = _read_keyed(source, samples, (self.id_name, *ID_NAMES))
        if ids is not None and (not numbered or set(samples) <= set(ids)):
            there = dict.fromkeys(ids)
            remarks = check_labels_match(samples, there, "samples", path, allow=allow)
            return JoinedColumn(name, _pick_rows(values, ids, samples, path), remarks)
        checks.check_lengths(**{f"{option} {source}": len(values), "samples": len(samples)})
        by_row = () if numbered or ending_of(path) in _ARRAYS else (_BY_ROW.format(path),)
        return JoinedColumn(name, values, by_row)

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
    id_name = ids or next((key for key in ID_NAMES if key in columns), "")
    query_ids = _pick(columns, (id_name,), name, "ids") if id_name else None
    return PredictionFile(name, labels, None, batches, lists, query_ids, columns, id_name)


def _read_npy(name: str, targets: Any, candidates: tuple[str, ...]) -> PredictionFile:
    if targets is None:
        if not os.path.exists(name):
            raise missing_file(name)
        raise UsageError(f"{name} holds scores only. Pass --targets FILE.")
    if candidates:
        return PredictionFile(name, targets, candidates={candidates[0]: load_npy(name)})
    scores = NpyRows(name)
    if scores.dtype.kind in "iu":
        raise ValueRangeError(
            f"{name} holds {scores.dtype}: scores or class numbers. Pass --candidates NAME "
            "for lists, or save scores as floats."
        )
    return PredictionFile(name, targets, scores)


def _read_npz(
    name: str, targets: Any, candidates: tuple[str, ...], target: str | None
) -> PredictionFile:
    name, scores = split_array(name)
    named = tuple(array for array in (*candidates, target, scores) if array is not None)
    arrays = load_npz(name, (*_NPZ_KEYS, *named))
    labels = _pick(arrays, (target,) if target else TARGET_NAMES, name, "targets", targets)
    if absent := [key for key in candidates if key not in arrays]:
        have = ", ".join(npz_keys(name))
        raise FormatError(f"{name} lacks the array {absent[0]!r}. It holds: {have}.")
    by_name = ("candidates",) if scores is None and "candidates" in arrays else ()
    rest: dict[str, Any] = {key: arrays.get(key) for key in ("query_ids", "class_names")}
    if lists := {key: arrays[key] for key in candidates or by_name}:
        return PredictionFile(name, labels, candidates=lists, **rest)
    score_names = SCORE_NAMES if scores is None else (scores,)
    return PredictionFile(name, labels, _pick(arrays, score_names, name, "scores"), **rest)


def _find_only(present: Sequence[str], place: str, what: str) -> str:
    """Return the only name; refuse several."""
    if len(present) > 1:
        names = " and ".join(map(repr, present))
        raise MismatchError(f"{place}: {names} all name {what}. Keep one.")
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
    hint = did_you_mean(names[0], columns) if len(names) == 1 else ""
    lack = f"{place} lacks {what} ({' or '.join(names)})"
    raise FormatError(f"{lack}.{hint} It has: {', '.join(columns)}.")


def _open_table(
    name: str, what: str, unnamed: Callable[[list[str]], Sequence[str] | None] | None = None
) -> tables.FileTable:
    ending = ending_of(name)
    if ending in _DELIMITERS:
        return tables.open_delimited(name, tables.Dialect(_DELIMITERS[ending]), unnamed)
    if ending in (".parquet", ".pq"):
        return tables.open_parquet_table(name)
    if ending not in (".jsonl", ".ndjson"):
        raise FormatError(f"{name}: unknown type. Use .npy, .csv, .jsonl, …; --results for .json.")
    records, where = tables.read_records(name, "jsonl")
    table = tables.table_of_records(records, where, name)
    for row, record in enumerate(records):
        if record.keys() != records[0].keys():
            raise FormatError(f"{where(row)}: keys differ from the first record. Use the same.")
    return table


def _read_columns(table: tables.FileTable, without: Collection[str] = ()) -> dict[str, list[Any]]:
    """Read the columns of a table by their names; a missing cell is None."""
    names = [name for name in table.names if name not in without]
    if len(set(names)) < len(names):
        raise FormatError(f"{table.source}: two columns share a name. Rename one.")
    return dict(zip(names, table.columns(names, gaps=names), strict=True))


def as_lists(cells: list[Any], column: str, name: str) -> list[list[Any]]:
    """Return lists unchanged, and text split into items."""
    lists = []
    for row, cell in enumerate(cells):
        if not isinstance(cell, str | list):
            raise FormatError(f"{name}, row {row}: column {column!r} is {cell!r}. Write a list.")
        text = cell.strip() if isinstance(cell, str) else ""
        # A bracket that is not closed, or an array that was printed with dots.
        closing = _CLOSING.get(text[:1])
        if closing and (text[-1] != closing or " ... " in text):
            raise FormatError(
                f"{name}, row {row}: the list {cell!r:.60} in column {column!r} is "
                "incomplete. Close the bracket."
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
    done, width = 0, None
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
    if ending_of(path) in _ARRAYS:
        return checks.as_list(load_keyed(path, column or None, usual=TARGET_NAMES)[0], path)
    columns = _read_columns(_open_table(path, "labels"))
    if not column and len(columns) == 1:
        return next(iter(columns.values()))
    return _pick(columns, (column,), path, "this column")  # type: ignore[no-any-return]


def _read_keyed(
    source: str, samples: list[str], id_names: Sequence[str]
) -> tuple[str, list[Any], list[str] | None]:
    """Return the name of a column, its values, and the ids of its rows where it has any.

    Ids have one of the usual names, or they are the first column, if no value is there twice. A
    first line that begins with a sample's id is no header; its columns are called 1, 2, …
    """
    path, column = tables.split_column(source)
    if ending_of(path) in _ARRAYS:
        values, rows = load_keyed(path, column or None, usual=TARGET_NAMES)
        return column, checks.as_list(values, path), None if rows is None else list(map(str, rows))
    sample_ids = frozenset(samples)

    def number_columns(first: list[str]) -> list[str] | None:
        return [str(n) for n in range(1, len(first) + 1)] if first[0] in sample_ids else None

    table = _open_table(path, "labels", number_columns)
    columns = _read_columns(table)
    first, *more = columns
    name = table.choose(column) if column else next((key for key in more if key), first)
    id_name = next((key for key in id_names if key in columns and key != name), first)
    ids = [str(id).strip() for id in columns[id_name]]
    if id_name == name or (id_name not in id_names and len(set(ids)) < len(ids)):
        return name, columns[name], None
    return name, columns[name], ids


def _pick_rows(values: list[Any], ids: list[str], samples: list[str], path: str) -> list[Any]:
    """Return the value of each sample by its id; refuse two values of one, and samples without."""
    by_id: dict[str, Any] = {}
    for id, value in zip(ids, values, strict=True):
        if by_id.setdefault(id, value) != value:
            raise FormatError(f"{path}: {id!r} has values {by_id[id]!r} and {value!r}. Keep one.")
    if absent := [sample for sample in samples if sample not in by_id]:
        near = describe_near(absent, by_id.keys() - frozenset(samples))
        raise MismatchError(
            f"{path} has no row for {len(absent):,} of {len(samples):,} samples: "
            f"{checks.name_few(absent)}.{near} Add their rows."
        )
    return [by_id[sample] for sample in samples]


_LATITUDE: Final = ("lat", "latitude")
_LONGITUDE: Final = ("lon", "lng", "long", "longitude")


def read_coordinates(path: str) -> dict[str, tuple[float, float]]:
    """Read {class: (latitude, longitude)}; the first other column names the class.

    A row without a latitude or longitude is left out, as if it were not there.
    """
    columns = _read_columns(_open_table(path, "coordinates"))
    columns = {name.strip().lower(): column for name, column in columns.items()}
    degrees = [_pick(columns, names, path, names[-1]) for names in (_LATITUDE, _LONGITUDE)]
    others = [name for name in columns if name not in (*_LATITUDE, *_LONGITUDE)]
    if not others:
        raise FormatError(f"{path} lacks the class column. Add it before lat and lon.")
    coordinates: dict[str, tuple[float, float]] = {}
    for row, (place, *pair) in enumerate(zip(columns[others[0]], *degrees, strict=True)):
        if str(place) in coordinates:
            raise FormatError(f"{path}, row {row}: {str(place)!r} appears twice. Keep one.")
        if any(cell is None or not str(cell).strip() for cell in pair):
            continue
        lat, lon = (parse_number(str(cell)) for cell in pair)
        if lat is None or lon is None:
            wrong = pair[0] if lat is None else pair[1]
            raise FormatError(
                f"{path}, row {row}: {wrong!r:.40} is not a number. Write decimal degrees."
            )
        coordinates[str(place)] = (lat, lon)
    return coordinates
