"""Rankings, judgments and vectors from numpy files, .npy and .npz, none of which is trusted.

Nothing is unpickled; the size that a header claims is compared with the bytes that are there
before anything is allocated; names inside an archive are keys, never paths.

    run .npz      docs (queries × places, −1 = unused), scores; or scores (queries × docs) alone
    run .npy      scores (queries × docs)
    qrels .npz    query_labels and doc_labels; or targets; or queries, docs and grades
    vectors       docs or queries (or one array under any name); ids beside them, or in a text file
    any .npz      query_ids and doc_ids, if there are ids; n_docs, the size of the collection

Other arrays may stand beside these. `FILE.npz:NAME` names the array that holds the scores of a run,
the targets of judgments, or the vectors. Where `by_line` is true, equal scores of a run stand in
the order of places; else in that of document numbers.
"""

from __future__ import annotations

import io
import math
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy as copied
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, overload

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from assay.arrays import Array, Ints, rows_of
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking
from assay.core.text import LARGEST_WHOLE, did_you_mean
from assay.core.work import parse_python
from assay.errors import FormatError, ShapeError, StorageError, UsageError, ValueRangeError
from assay.io.mapped import CopiedRows, WatchedFile, is_mapped, needs_copies
from assay.io.streams import FilePath, open_chunks, read_lines, refuse_bomb, split_array, unreadable

_LARGEST = np.iinfo(np.int32).max
WINDOW_BYTES: Final = 16 << 20  # of a file, mapped at a time
_MOST_DIMENSIONS: Final = 32
_MOST_BYTES: Final = 1 << 62
_WEIGHT_OF_QUERY: Final = 200
_WEIGHT_OF_CELL: Final = 48  # bytes that a cell takes once it is a place in a ranking, or an id
ROW_IDS: Final = "sample_ids"
_IDS = ("query_ids", "doc_ids")
_RUN_KEYS = ("docs", "scores", *_IDS, "n_docs", "by_line")
_QRELS_FORMS = (("query_labels", "doc_labels"), ("targets",), ("queries", "docs", "grades"))
_NAME_ONE = "Name one with FILE.npz:NAME"

_USUAL: Final = {
    "doc": ("docs", "doc_embeddings", "corpus", "embeddings", "vectors", "codes"),
    "query": ("queries", "query_embeddings", "embeddings", "vectors", "codes"),
}


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class NpyRows:
    """The rows of a .npy file, or some of them; only those that are used are mapped into memory.

    A slice is an array, read-only; row numbers, or one flag for each row, choose rows unread. The
    file must stay as it was when it was opened: see `steady_files`.
    """

    def __init__(self, path: FilePath) -> None:
        self._name = os.fspath(path)
        with _open_array_file(path) as file:
            stat = os.fstat(file.fileno())
            self._header = _read_header(file, self._name)
            self._offset = file.tell()
            _check_size(self._header, stat.st_size - self._offset, self._name)
        self._file = WatchedFile(self._name, stat)
        self._take(None)

    def _take(self, rows: Ints | None) -> None:
        self._chosen = rows
        n_rows = self._header.shape[:1] if rows is None else rows.shape
        self.shape = (*n_rows, *self._header.shape[1:])
        self.dtype = self._header.dtype
        self.ndim = len(self.shape)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize

    @property
    def watched_files(self) -> tuple[WatchedFile, ...]:
        """Return what must not change while rows are read."""
        return (self._file,)

    def __len__(self) -> int:
        """Count the rows."""
        return int(self.shape[0])

    @overload
    def __getitem__(self, rows: slice) -> Array: ...

    @overload
    def __getitem__(self, rows: NDArray[Any]) -> NpyRows: ...

    def __getitem__(self, rows: slice | NDArray[Any]) -> Any:
        """Return some rows."""
        if isinstance(rows, slice) and self._chosen is None and rows.step in (None, 1):
            return self._map(*rows.indices(len(self))[:2])
        numbers = np.arange(len(self)) if self._chosen is None else self._chosen
        if isinstance(rows, slice):
            return self._gather(numbers[rows])
        some = copied(self)
        some._take(numbers[rows])
        return some

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return all rows."""
        whole = self._map(0, len(self)) if self._chosen is None else self._gather(self._chosen)
        whole = _checked_text(whole, self._name)
        # numpy 1 refuses copy=None, with which numpy 2 asks for a copy only where it needs one.
        return np.asarray(whole, dtype) if copy is None else np.array(whole, dtype, copy=copy)

    def read(self) -> Array:
        """Return a copy of all rows, which outlives every change of the file."""
        if self._chosen is not None:
            whole = self._gather(self._chosen)
            self._file.check()
            return whole
        order: Any = "F" if self._header.fortran else "C"
        whole = self._file.read(self._offset, self._header.shape, self.dtype, order)
        return _checked_text(whole, self._name)

    @property
    def stand_in(self) -> Array:
        """An array of the same shape and type, to check these, that takes no room."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def _map(self, first: int, last: int) -> Array:
        shape = (max(last - first, 0), *self._header.shape[1:])
        if not math.prod(shape):
            return np.empty(shape, self.dtype)
        if self._header.fortran:
            whole = self._file.map(self._offset, self._header.shape, self.dtype, "F")
            return whole[first:last]
        start = self._offset + first * math.prod(shape[1:]) * self.dtype.itemsize
        return self._file.map(start, shape, self.dtype)

    def _gather(self, rows: Ints) -> Array:
        """Return copies of rows from anywhere in the file, one window of it after the other."""
        gathered = np.empty((len(rows), *self.shape[1:]), self.dtype)
        width = max(1, math.prod(self.shape[1:]) * self.dtype.itemsize)
        step = max(1, WINDOW_BYTES // width)
        for window in np.unique(rows // step).tolist():
            here = np.flatnonzero(rows // step == window)
            first = window * step
            last = min(first + step, self._header.shape[0])
            gathered[here] = self._map(first, last)[rows[here] - first]
        return gathered


def open_rows(vectors: Any) -> Any:
    """Return the rows of a .npy file where a path is given; anything else as it is."""
    if isinstance(vectors, np.ndarray):  # first: to ask for a path takes longer
        return CopiedRows(vectors) if needs_copies() and is_mapped(vectors) else vectors
    return NpyRows(vectors) if isinstance(vectors, str | os.PathLike) else vectors


def load_npy(path: FilePath) -> Array:
    """Read a .npy file into memory, whole."""
    return NpyRows(path).read()


def npz_keys(path: FilePath) -> list[str]:
    """Return names of the arrays of a .npz file; none of them is read."""
    name = os.fspath(path)
    with _open_array_file(path) as file, _naming_damage(name), zipfile.ZipFile(file) as archive:
        return list(_members(archive, name))


def load_npz(path: FilePath, names: tuple[str, ...]) -> dict[str, Array]:
    """Read the known arrays of a .npz file; others are left alone, unless they seem misspelt."""
    name = os.fspath(path)
    with _open_array_file(path) as file, _naming_damage(name), zipfile.ZipFile(file) as archive:
        members = _members(archive, name)
        _refuse_strangers(list(members), names, name)
        members = {key: member for key, member in members.items() if key in names}
        size = os.fstat(file.fileno()).st_size
        refuse_bomb(sum(member.file_size for member in members.values()), size, name)
        arrays = {
            key: _read_member(archive, member, f"{name}, array {key!r}")
            for key, member in members.items()
        }
    weight = sum(array.nbytes + _WEIGHT_OF_CELL * array.size for array in arrays.values())
    refuse_bomb(weight, size, name)
    return arrays


@contextmanager
def _open_array_file(path: FilePath) -> Iterator[BinaryIO]:
    next(open_chunks(path, 1))  # a file that is not regular, or empty, has messages of its own
    try:
        with open(path, "rb") as file:
            yield file
    except StorageError:
        raise
    except OSError as error:
        raise unreadable(os.fspath(path), error) from error


@contextmanager
def _naming_damage(name: str) -> Iterator[None]:
    """Raise FormatError for any fault that zipfile or a decompressor finds."""
    try:
        yield
    except (FormatError, StorageError, MemoryError):
        raise
    except Exception as error:
        raise FormatError(
            f"{name} is not a valid .npz file ({str(error)[:120]}). Fetch or write it again."
        ) from None


def unpack_npz(body: bytes, place: str) -> dict[str, Array]:
    """Return all arrays of a .npz file that was read whole."""
    with _naming_damage(place), zipfile.ZipFile(io.BytesIO(body)) as archive:
        members = _members(archive, place)
        refuse_bomb(sum(member.file_size for member in members.values()), len(body), place)
        return {key: _read_member(archive, info, place) for key, info in members.items()}


def _members(archive: zipfile.ZipFile, name: str) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        key = member.filename.removesuffix(".npy")
        if key in members:
            raise FormatError(f"{name} holds the array {key!r} twice. Write it again.")
        members[key] = member
    return members


def _refuse_strangers(keys: list[str], names: tuple[str, ...], name: str) -> None:
    """Refuse a file without a known array, and one that seems to misspell an absent one."""
    absent = [key for key in names if key not in keys]
    strange = [key for key in keys if key not in names]
    hints = [did_you_mean(key, absent, cutoff=0.85) for key in strange]
    if len(strange) == len(keys) or any(hints):
        raise FormatError(
            f"{name} holds {checks.name_few(strange) if strange else 'no arrays'}. Known arrays "
            f"are {', '.join(names)}.{next(filter(None, hints), '')}"
        )


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: str) -> Array:
    with archive.open(member) as file:
        header = _read_header(file, place)
        _check_size(header, member.file_size - file.tell(), place)
        data = file.read(header.n_bytes)
        _check_size(header, len(data), place)
        if file.read(1):  # reading to the end also verifies the checksum
            raise FormatError(f"{place}: more bytes than the header claims. Fetch it again.")
    array = np.frombuffer(data, header.dtype)
    array = array.reshape(header.shape, order="F" if header.fortran else "C")
    if array.dtype.kind == "S" and not array.tobytes().isascii():
        raise FormatError(f"{place} holds bytes that are not text. Save text instead.")
    return _checked_text(array.astype("U") if array.dtype.kind == "S" else array, place)


def _read_header(file: Any, place: str) -> _Header:
    start = file.tell()

    def read() -> _Header:
        file.seek(start)
        parse = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
        }[npy_format.read_magic(file)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a header of Python 2 is as good as any
            return _Header(*parse(file))

    try:
        header = parse_python(read)
    except Exception as error:  # the header is a Python literal: parsing one can raise anything
        raise FormatError(
            f"{place}: not a valid .npy header ({str(error)[:120]}). Fetch or write it again."
        ) from None
    if header.dtype.hasobject:
        raise FormatError(
            f"{place} holds pickled Python objects, which are never loaded: they can run code. "
            "Save an array of numbers or text."
        )
    if header.dtype.kind not in "biufUS" or not header.dtype.itemsize:
        raise FormatError(f"{place} holds {header.dtype}. Save numbers or text instead.")
    if not is_shape(header.shape, header.dtype.itemsize):
        raise FormatError(f"{place}: header claims shape {str(header.shape)[:80]}. Fetch it again.")
    return header


def is_shape(shape: Any, itemsize: int) -> bool:
    """Tell whether numpy can make an array of the shape, were it not for memory.

    Numpy counts bytes without the dimensions that are 0.
    """
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape)
    most = _MOST_BYTES // max(itemsize, 1)
    return len(shape) <= _MOST_DIMENSIONS and whole and math.prod(max(n, 1) for n in shape) <= most


def _checked_text(array: Array, place: str) -> Array:
    """Return the array; text in it is made of characters that there are."""
    if array.dtype.kind == "U" and array.size:
        native = np.ascontiguousarray(array.ravel(), array.dtype.newbyteorder("="))
        codes = native.view(np.uint32)
        if int(codes.max()) > sys.maxunicode:
            row = int(np.argmax(codes > sys.maxunicode)) * 4 // array.dtype.itemsize
            raise FormatError(
                f"{place}: element {row} holds {int(codes.max()):#x}, which is not a character. "
                "Fetch or write it again."
            )
    return array


def _check_size(header: _Header, available: int, place: str) -> None:
    if header.n_bytes != available:
        raise FormatError(
            f"{place}: the header claims the shape {header.shape} of {header.dtype}, which takes "
            f"{header.n_bytes} bytes, but {available} follow. The file is truncated or damaged; "
            "fetch or write it again."
        )


def read_ranking_arrays(path: FilePath, format: str, rules: Conventions) -> Ranking:
    """Read a run from .npz or .npy, with equal scores in the order of the conventions."""
    name, key = split_array(path)
    if format == "npy":
        matrix = load_npy(path)
        if matrix.dtype.kind in "iu":
            raise ValueRangeError(
                f"{name} holds {matrix.dtype}, which could be scores or document numbers. Save a "
                ".npz with the array 'scores' or 'docs', or save scores as floats."
            )
        ranking = Ranking.from_scores(matrix)
        return ranking.under(rules.replace(self_match="keep", depth=0))
    arrays = _load_with(name, key, "scores", _RUN_KEYS)
    ids: dict[str, Any] = {key: arrays[key] for key in _IDS if key in arrays}
    n_docs = _collection_size(arrays, name)
    if "docs" in arrays and key is None:
        if "doc_ids" not in ids:
            ids["n_docs"] = n_docs or None
        ranking = Ranking.from_arrays(arrays["docs"], arrays.get("scores"), **ids)
        if n_docs and n_docs < len(ranking.doc_ids):
            raise ValueRangeError(
                f"{name}: n_docs is {n_docs}, but {len(ranking.doc_ids)} documents are named. "
                "Correct n_docs."
            )
        ranking = ranking if n_docs is None else replace(ranking, n_docs=n_docs)
    elif "scores" in arrays:
        ranking = Ranking.from_scores(arrays["scores"], **ids)
    else:
        raise FormatError(
            f"{name} needs the array 'docs' or the array 'scores' to be a run; it holds "
            f"{', '.join(map(repr, npz_keys(name)))}. {_NAME_ONE}."
        )
    by_line = arrays.get("by_line", np.False_)
    if by_line.shape != () or by_line.dtype != bool:
        raise ShapeError(f"{name}: by_line must be True or False, found {by_line.dtype}.")
    if by_line:
        return _by_place(ranking, rules)
    return ranking.under(rules.replace(self_match="keep", depth=0))


def _load_with(name: str, key: str | None, stands_for: str, names: tuple[str, ...]) -> Any:
    """Return the known arrays, with the array `key`, if there is one, under another name."""
    if key is None:
        return load_npz(name, names)
    _choose_key(npz_keys(name), key, (), name)
    rest = tuple(name_of_array for name_of_array in names if name_of_array != stands_for)
    arrays = load_npz(name, (key, *rest))
    return {**arrays, stands_for: arrays[key]}


def _by_place(ranking: Ranking, rules: Conventions) -> Ranking:
    """Return the places of each row read as the lines of any other file are."""
    read = Ranking.from_lines(
        ranking.query_ids,
        ranking.doc_ids,
        queries=rows_of(ranking.offsets).astype(np.int32),
        docs=ranking.given_docs,
        scores=ranking.given_scores,
        tiebreak=rules.tiebreak,
        precision=rules.scores,
    )
    return replace(read, n_docs=ranking.n_docs, has_ids=ranking.has_ids)


def _collection_size(arrays: dict[str, Array], name: str) -> int | None:
    if "n_docs" not in arrays:
        return None
    size = arrays["n_docs"]
    if size.shape != () or size.dtype.kind not in "iu" or not 0 <= int(size) <= LARGEST_WHOLE:
        raise ShapeError(f"{name}: n_docs must be one whole number up to 10^15 (0 = unknown).")
    return int(size)


def read_judgment_arrays(path: FilePath, format: str) -> Judgments:
    """Read judgments from .npz: labels, targets, or (query, doc, grade) triples of numbers."""
    name, key = split_array(path)
    if format == "npy":
        load_npy(path)  # an invalid file is reported as such first
        raise FormatError(
            f"{name}: one array alone does not say what is relevant. Save a .npz with "
            "query_labels and doc_labels, or targets, or queries, docs and grades."
        )
    form = ("targets",) if key is not None else _qrels_form(npz_keys(name), name)
    arrays = _load_with(name, key, "targets", (*form, *_IDS, "n_docs"))
    ids: dict[str, Any] = {key: arrays.pop(key) for key in _IDS if key in arrays}
    n_docs = _collection_size(arrays, name)
    if "query_labels" in form:
        return Judgments.from_labels(arrays["query_labels"], arrays["doc_labels"], **ids)
    if "targets" in form:
        return Judgments.from_targets(arrays["targets"], **ids, n_docs=n_docs)
    query_ids, queries = _ids_for(arrays["queries"], ids.get("query_ids"), "query", name)
    doc_ids, docs = _ids_for(arrays["docs"], ids.get("doc_ids"), "doc", name)
    grades = arrays["grades"]
    if grades.ndim != 1 or grades.dtype.kind not in "iufb":
        raise ShapeError(f"{name}: grades must be one number per judgment, found {grades.shape}.")
    return Judgments.from_pairs(query_ids, doc_ids, queries, docs, grades)


def _qrels_form(keys: list[str], name: str) -> tuple[str, ...]:
    """Return the names of the arrays that are the judgments.

    `queries` and `docs` may be vectors; what else belongs to judgments belongs to one form only.
    """
    forms = [form for form in _QRELS_FORMS if set(form) <= set(keys)]
    used = {key for form in _QRELS_FORMS for key in form if key in keys} - {"queries", "docs"}
    if len(forms) == 1 and used <= set(forms[0]):
        return forms[0]
    raise FormatError(
        f"{name} holds {', '.join(map(repr, keys)) or 'no arrays'}. Save query_labels and "
        "doc_labels, or targets, or queries, docs and grades, or name the targets: FILE.npz:NAME."
    )


def _ids_for(numbers: Array, values: Array | None, what: str, name: str) -> tuple[Ids, Array]:
    """Return the ids that the numbers stand for, and the place of each number among them."""
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ShapeError(
            f"{name}: {what} numbers must be integers in one dimension, "
            f"found shape {numbers.shape} of {numbers.dtype}."
        )
    top = int(numbers.max(initial=-1))
    if values is None and top >= _LARGEST:
        raise ValueRangeError(f"{name}: {what} number {top} is too large. Stay below {_LARGEST}.")
    ids = None if values is None else Ids.of(values, what=what)
    size = top + 1 if ids is None else len(ids)
    if top >= size or int(numbers.min(initial=0)) < 0:
        row = int(np.argmax((numbers < 0) | (numbers >= size)))
        raise ValueRangeError(
            f"{name}: {what} number {numbers[row]} in row {row} is out of range for {size} "
            "ids. Correct it, or add the id."
        )
    if ids is not None:
        checks.check_unique(ids, what)
        return ids, numbers
    if what == "doc":
        return Ids.of_rows(numbers)
    # Every query up to the last is judged, if only by having nothing relevant.
    n_bytes = os.stat(name).st_size
    refuse_bomb(_WEIGHT_OF_QUERY * size, n_bytes, name, f"query number {top}, with all before it,")
    return Ids.count(size), numbers


def load_keyed(
    path: FilePath, key: str | None = None, *, usual: tuple[str, ...] = (), whole: bool = True
) -> tuple[Any, Array | None]:
    """Return the array and, from a .npz that holds `sample_ids`, the ids of its rows.

    Without a key it is the array of one of the `usual` names, or the only one. A .npy file that
    need not be `whole` gives its rows as they are used.
    """
    name, named = split_array(path)
    if named is not None and key not in (None, named):
        raise UsageError(f"{os.fspath(path)} and the key {key!r} name two arrays. Give one.")
    key = key if named is None else named
    ending = Path(name).suffix.lower()
    if ending == ".npy":
        if key is not None:
            raise UsageError(f"{name} holds one unnamed array. Omit the key {key!r} (for .npz).")
        return (load_npy(path) if whole else NpyRows(path)), None
    if ending != ".npz":
        raise FormatError(f"{name}: arrays are read from .npy and .npz files. Save it as one.")
    array_name = _choose_key(npz_keys(name), key, usual, name)
    arrays = load_npz(name, (array_name, ROW_IDS))
    return arrays[array_name], arrays.get(ROW_IDS)


def _choose_key(keys: list[str], key: str | None, usual: tuple[str, ...], name: str) -> str:
    if key is not None:
        if key in keys:
            return key
        raise UsageError(f"{name} has no array {key!r}. Name one of {', '.join(map(repr, keys))}.")
    candidates = [other for other in keys if other != ROW_IDS]
    named = [other for other in usual if other in candidates]
    if named or len(candidates) == 1:
        return (named or candidates)[0]
    or_name = f", or call it {usual[0]!r}" if usual else ""
    raise UsageError(
        f"{name} holds {', '.join(map(repr, candidates)) or 'no arrays'}. {_NAME_ONE}{or_name}."
    )


@dataclass(frozen=True, eq=False)
class VectorFile:
    """The rows of one side, and their ids if the file holds any."""

    vectors: Array | NpyRows
    ids: Ids | None


def read_vectors(path: FilePath, side: str, *, key: str | None = None) -> VectorFile:
    """Return vectors of documents (side "doc") or queries ("query") from a .npy or .npz file.

    A .npz may hold both sides, as `docs` and `queries`, and ids: `doc_ids`, `query_ids`, or `ids`
    and `sample_ids` where it holds one side only. A `key` names the array.
    """
    vectors, rows = load_keyed(path, key, usual=_USUAL[side], whole=False)
    path = split_array(path)[0]
    if not path.lower().endswith(".npz"):
        return VectorFile(vectors, None)
    keys = npz_keys(path)
    both = any(name in keys for name in _USUAL["doc"][:3]) and "queries" in keys
    names = (f"{side}_ids",) if both else (f"{side}_ids", "ids")
    id_key = next((name for name in names if name in keys), None)
    id_array = load_keyed(path, id_key)[0] if id_key else None if both else rows
    return VectorFile(
        vectors, None if id_array is None else _vector_ids(id_array, side, path, id_key or ROW_IDS)
    )


def _vector_ids(values: Array, side: str, path: FilePath, name: str) -> Ids:
    if values.ndim != 1 or values.dtype.kind not in "iuU":
        raise FormatError(
            f"{os.fspath(path)}: {name} must be text or whole numbers in one dimension, found "
            f"shape {values.shape} of {values.dtype}."
        )
    return Ids.of(values if values.dtype.kind in "iu" else values.tolist(), what=side)


def read_ids(path: FilePath, side: str) -> Ids:
    """Return ids from a text file, one a line, in the order of the vectors; they stay text."""
    return Ids.of([line.rstrip("\r\n") for line in read_lines(path)], what=side)
