"""Checks of user input and their messages; the core relies on what passed here."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import as_array
from assay.core.ids import Ids
from assay.core.text import LARGEST_WHOLE
from assay.errors import IdError, MismatchError, ShapeError, UsageError, ValueRangeError


def check_cutoff(k: Any, name: str = "k") -> int:
    """Return k as an int ≥ 1; refuse True, 2.5, 0 and −1."""
    whole = type(k) is int or (  # the rule, and told soonest
        isinstance(k, numbers.Integral) and not isinstance(k, bool | np.bool_)
    )
    if not whole or int(k) < 1:
        raise UsageError(f"{name} must be a whole number ≥ 1, found {k!r:.80}.")
    if int(k) > LARGEST_WHOLE:
        raise UsageError(f"{name} must be at most 10^15. Use a smaller number.")
    return int(k)


def is_real(value: Any) -> bool:
    """Tell whether a value is a number that a float holds, which text and True are not."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def check_choice(value: Any, choices: Sequence[str], name: str) -> str:
    """Return one of a few words; accept American spelling.

    >>> check_choice("randomization", ("randomisation", "t"), "test")
    'randomisation'
    """
    word = value.replace("z", "s") if isinstance(value, str) and value not in choices else value
    if not isinstance(word, str) or word not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}; found {value!r:.80}.")
    return str(word)


def check_flag(value: Any, name: str) -> bool:
    """Return True or False; refuse anything else."""
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} must be True or False, found {value!r:.80}.")
    return bool(value)


def require(value: Any, kind: Any, what: str, example: str) -> None:
    """Refuse a value of another type, saying what was expected."""
    if not isinstance(value, kind):
        raise UsageError(f"{what} must be {example}, found {type(value).__name__}.")


def plain_array(values: Any, what: str) -> NDArray[Any]:
    """Return an array of any shape; refuse rows of different lengths."""
    if getattr(values, "mask", None) is not None and isinstance(values, np.ndarray):
        raise ShapeError(
            f"{what} is a masked array. Fill it, or mark unused places by document number −1."
        )
    values = as_array(values)
    try:
        return np.asarray(values)
    except ValueError:
        raise ShapeError(f"{what} has rows of different lengths. Make them equal.") from None


def as_list(values: Any, what: str) -> list[Any]:
    """Return the values as a list; refuse a single value or None.

    Floats of less than 64 bits keep their type, which says how large a whole number they hold.
    """
    values = as_array(values)
    array = values if isinstance(values, np.ndarray) else None
    single = array is not None and not array.ndim
    if single or isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ShapeError(f"{what} must be a list or an array, found {values!r}.")
    return list(values if array is None or _is_narrow(array.dtype) else array.tolist())


def _is_narrow(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" and dtype.itemsize < 8


def flaw_of(text: Any) -> str:
    """Return why a value is no text that a file can hold; "" if it is."""
    if not isinstance(text, str):
        return f"is {type(text).__name__}, not text: {text!r:.60}"
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"holds half a character (a lone surrogate): {text!a:.60}. Decode it as UTF-8"
    return ""


def real_matrix(values: Any, what: str) -> NDArray[Any]:
    """Return a two-dimensional array of real numbers; refuse anything else."""
    array = plain_array(values, what)
    if array.dtype == object:
        raise ShapeError(
            f"{what} is an object array, not an array of numbers. Give rows of equal length that "
            "hold numbers only: no None, no text."
        )
    if array.dtype.kind not in "iufb" or array.dtype.kind == "b":
        raise ValueRangeError(f"{what} must hold real numbers, found dtype {array.dtype}.")
    if array.ndim != 2 or 0 in array.shape:
        raise ShapeError(
            f"{what} must have two dimensions (queries × documents), each at least 1; "
            f"found shape {array.shape}."
        )
    return array


def check_finite(values: NDArray[np.floating[Any]], what: str, queries: Ids | None = None) -> None:
    """Refuse NaN and ±Inf, naming the first cell that holds one."""
    if not values.size or np.isfinite([values.min(), values.max()]).all():
        return
    bad = ~np.isfinite(values)
    cell = tuple(int(i) for i in np.argwhere(bad)[0])
    where = ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), cell, strict=False))
    query = f" (query {queries[cell[0]]!r})" if queries is not None and len(cell) == 2 else ""
    raise ValueRangeError(
        f"{what} holds {values[cell]} at {where}{query}; {int(bad.sum())} such values in all. "
        "Remove or replace them."
    )


def check_floats(values: Any, what: str) -> NDArray[np.float64]:
    """Return a list of numbers as float64."""
    array = plain_array(values, what)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iufb"):
        raise ShapeError(
            f"{what} must be a list of numbers, found shape {array.shape} of {array.dtype}."
        )
    return array.astype(np.float64)


def check_lengths(**lengths: int) -> None:
    """Refuse parts that should be equally long and are not, naming all of them."""
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise MismatchError(f"These must have the same length: {sizes}.")


def check_unique(ids: Ids, what: str) -> None:
    """Refuse an id that appears twice, naming both places."""
    pair = ids.first_duplicate()
    if pair is not None:
        raise IdError(
            f"The {what} id {ids[pair[0]]!r} appears twice, in rows {pair[0]} and {pair[1]}. Each "
            f"{what} id must be unique; remove or rename one."
        )


def check_doc_numbers(docs: NDArray[Any], n_docs: int | None) -> NDArray[np.int32]:
    """Return document numbers as int32, from 0 to n_docs − 1; −1 marks an unused place."""
    if docs.dtype.kind not in "iu":
        raise ValueRangeError(
            f"Document numbers must be integers, found dtype {docs.dtype}. "
            "Give ids through doc_ids= and numbers here."
        )
    largest = np.iinfo(np.int32).max - 1
    top = largest if n_docs is None else min(n_docs - 1, largest)
    if docs.min() < -1 or docs.max() > top:
        cell = tuple(int(i) for i in np.argwhere((docs < -1) | (docs > top))[0])
        limit = "" if n_docs is None else f" for {n_docs} documents"
        raise ValueRangeError(f"Document number {docs[cell]} at {cell} is out of range{limit}.")
    return docs.astype(np.int32)


def check_labels(labels: Any, what: str) -> NDArray[Any]:
    """Return one label per row: all text or all integers, none missing."""
    array = _as_label_array(labels, what)
    if array.ndim != 1:
        raise ShapeError(f"{what} must be one-dimensional, found shape {array.shape}.")
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array) | (array != np.floor(array))
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueRangeError(
                f"{what} holds {array[row]} in row {row}. Use text or whole numbers as labels."
            )
        _refuse_merged(array, what)
        return array.astype(np.int64)
    if array.dtype.kind not in "iuUbT":
        raise ValueRangeError(f"{what} must be text or integers, found dtype {array.dtype}.")
    return _as_int64(array, what) if array.dtype.kind in "iu" else array


def _as_label_array(labels: Any, what: str) -> NDArray[Any]:
    labels = as_array(labels)
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return labels
    values = as_list(labels, what)
    for row, value in enumerate(values):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            raise ValueRangeError(f"{what} is missing in row {row} (found {value!r}). Fill it.")
    kinds = {str if isinstance(value, str) else type(value).__mro__[-2] for value in values}
    if str in kinds and len(kinds) > 1:
        other = next(value for value in values if not isinstance(value, str))
        raise ValueRangeError(f"{what} mixes text with {type(other).__name__}, e.g. {other!r}.")
    if kinds == {str}:  # an array of text drops NUL at the end, so that two labels become one
        for row, label in enumerate(values):
            if "\0" in label:
                raise ValueRangeError(f"{what} holds NUL in row {row}: {label!r}. Remove it.")
    whole = bool(values) and all(isinstance(v, int | np.integer) for v in values)
    if whole:
        return _as_int64(values, what)
    narrow = [np.dtype(kind) for kind in set(map(type, values)) if issubclass(kind, np.floating)]
    if any(map(_is_narrow, narrow)):
        return np.array(values, min(narrow, key=lambda kind: kind.itemsize))
    return plain_array(values, what)


def _as_int64(labels: Any, what: str) -> NDArray[np.int64]:
    """Return int64: numpy compares int64 with uint64 as floats."""
    array = labels if isinstance(labels, np.ndarray) else np.array(labels, object)
    outside = (array < -(2**63)) | (array >= 2**63)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueRangeError(
            f"{what} holds {array[row]} in row {row}, which does not fit 64 bits. "
            "Give the labels as text."
        )
    return array.astype(np.int64)


def _refuse_merged(array: NDArray[Any], what: str) -> None:
    """Refuse whole numbers given as floats that cannot tell them from their neighbours."""
    if array.dtype.kind != "f":
        return
    bits = min(np.finfo(array.dtype).nmant, 52) + 1
    bad = np.abs(array) >= np.float64(2**bits)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueRangeError(
            f"{what} holds {array[row]} in row {row} as {array.dtype}, which is not exact from "
            f"2^{bits} on. Give integers or text."
        )


def check_one_kind_of_label(left: NDArray[Any], right: NDArray[Any]) -> None:
    """Refuse to compare "3" with 3."""
    kinds = ["text" if array.dtype.kind in "UT" else "integers" for array in (left, right)]
    if kinds[0] != kinds[1]:
        raise MismatchError(
            f"Query labels are {kinds[0]} and document labels are {kinds[1]}: "
            "'3' and 3 are never equal. Convert one side."
        )


def check_ranks(ranks: Any, what: str = "ranks", low: int = 0) -> NDArray[np.int64]:
    """Return ranks or counts as int64, each a whole number ≥ low."""
    array = plain_array(ranks, what)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise ShapeError(
            f"{what} must be one number per query, found shape {array.shape} of {array.dtype}."
        )
    bad = (array < low) | (array != np.floor(array)) | ~(array.astype(np.float64) <= LARGEST_WHOLE)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueRangeError(
            f"{what} must be whole numbers from {low} to 10^15; row {row} is {array[row]}."
        )
    _refuse_merged(array, what)
    return array.astype(np.int64)


def check_numbers(numbers: Any, limit: int, what: str) -> NDArray[np.int64]:
    """Return row numbers from 0 to limit − 1 as int64, one-dimensional."""
    array = plain_array(numbers, what)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ShapeError(
            f"{what} must be a list of whole numbers, found shape {array.shape} of {array.dtype}."
        )
    if array.size and (array.min() < 0 or array.max() >= limit):
        row = int(np.argmax((array < 0) | (array >= limit)))
        raise ValueRangeError(f"{what} must lie from 0 to {limit - 1}; row {row} is {array[row]}.")
    return array.astype(np.int64)


def exact_scores(scores: NDArray[Any], what: str) -> NDArray[np.float64]:
    """Return scores as float64; refuse numbers that would lose digits, and so tie."""
    large = scores.dtype.kind in "iu" and scores.dtype.itemsize == 8 and scores.size
    if large and max(abs(int(scores.min())), abs(int(scores.max()))) > 2**53:
        raise ValueRangeError(f"{what} holds integers beyond 2^53, inexact in float64. Scale them.")
    if scores.dtype.itemsize > 8:
        raise ValueRangeError(f"{what} has dtype {scores.dtype}. Use float64 or a narrower one.")
    return scores.astype(np.float64)


def name_few(ids: Sequence[Any] | Ids, limit: int = 5) -> str:
    """Return a few ids for a message: `'a', 'b', … (12 in all)`."""
    names = ", ".join(repr(ids[i]) for i in range(min(limit, len(ids))))
    return names if len(ids) <= limit else f"{names}, … ({len(ids)} in all)"


_MOST_THREADS: Final = 1024  # the answer is the same for any number; kernels count them in 32 bits


def thread_count(threads: int | None) -> int:
    """Return the number of threads: as given, else all cores that this process may use."""
    if threads is not None:
        return min(check_cutoff(threads, "threads"), _MOST_THREADS)
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
