"""Dictionaries, tuples and lists of Python as columns, as python_objects.hpp reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

import numpy as np

from assay.arrays import Bytes, Floats, Ints, Ints32, offsets_of

__all__ = ["number_rows", "number_texts", "number_tuples"]

_UNCLEAN: Final = re.compile("[ \\t\\n\\r\\v\\f\\0\ud800-\udfff]")
_EXACT: Final = 2**53  # from here on float64 does not hold every whole number


def number_texts(texts: list[Any]) -> tuple[Bytes, Ints, Ints32] | None:
    """Number texts by first appearance: blob, offsets, numbers; None unless all are clean."""
    if not set(map(type, texts)) <= {str}:
        return None
    number = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    if "" in number or any(map(_UNCLEAN.search, number)):
        return None
    coded = [text.encode() for text in number]
    offsets = offsets_of(np.fromiter(map(len, coded), np.int64, len(coded)))
    codes = np.fromiter(map(number.__getitem__, texts), np.int32, len(texts))
    return np.frombuffer(b"".join(coded), np.uint8), offsets, codes


def number_rows(
    rows: list[Any], number_types: tuple[type, ...], truths: bool
) -> tuple[Bytes, Ints, Ints, Ints32, Floats] | None:
    """Number the keys of {doc: value} dictionaries; see `signatures.Kernels.number_rows`."""
    if not set(map(type, rows)) <= {dict}:
        return None
    docs = number_texts(list(chain.from_iterable(rows)))
    values = _numbers(chain.from_iterable(row.values() for row in rows), number_types, truths)
    if docs is None or values is None:
        return None
    offsets = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
    return docs[0], docs[1], offsets, docs[2], values


def number_tuples(
    rows: list[Any], width: int, number_types: tuple[type, ...], truths: bool
) -> tuple[Bytes, Ints, Bytes, Ints, Ints32, Ints32, Floats] | None:
    """Number (query, doc, value) tuples; see `signatures.Kernels.number_tuples`."""
    if width not in (2, 3):
        raise ValueError("width must be 2 or 3")
    if any(type(row) is not tuple or len(row) != width for row in rows):
        return None
    queries, docs = (number_texts([row[at] for row in rows]) for at in (0, 1))
    if width == 2:
        values: Floats | None = np.ones(len(rows))
    else:
        values = _numbers((row[2] for row in rows), number_types, truths)
    if queries is None or docs is None or values is None:
        return None
    return queries[0], queries[1], docs[0], docs[1], queries[2], docs[2], values


def _numbers(values: Iterable[Any], number_types: tuple[type, ...], truths: bool) -> Floats | None:
    listed = list(values)
    kinds = set(map(type, listed))
    if not kinds <= {float, int, *number_types, *([bool] if truths else [])}:
        return None
    if kinds != {float} and not all(map(_is_exact, listed)):
        return None
    found = np.fromiter(listed, np.float64, len(listed))
    return found if np.isfinite(found).all() else None


def _is_exact(value: Any) -> bool:
    """Whether a number is a float, or one that float64 can tell from its neighbours."""
    number = value if isinstance(value, int) else float(value)
    return type(value) is float or -_EXACT < number < _EXACT
