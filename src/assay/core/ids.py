"""Ids: many query or document ids in little memory, text or integer but never both.

Ten million text ids are one blob of UTF-8 bytes and one array of offsets, not ten million
Python strings. Text is compared byte by byte: composed and decomposed accents stay distinct.

Ids are ordered by their text, integers too: 1, 10, 2, as "1", "10", "2" in a file. Only rows that
have no ids and are numbered (`Ids.count`) are ordered by number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from assay.arrays import Bytes, Ints, as_array, offsets_of
from assay.errors import IdError, ShapeError
from assay.native import kernels

AnyArray = TypeVar("AnyArray", bound=npt.NDArray[Any])

# What would tear an id apart in a text file. Other control characters are odd but harmless.
_FORBIDDEN = " \t\n\r\v\f\0"
_FORBIDDEN_BYTES = np.frombuffer(_FORBIDDEN.encode(), np.uint8)

_FEW_ROWS = 1 << 20
_FEW_NUMBERS = 1 << 16
_MOST_DIGITS = 19
_POWERS = np.uint64(10) ** np.arange(_MOST_DIGITS, dtype=np.uint64)


class Ids(ABC):
    """An immutable sequence of ids, all text or all int64.

    >>> ids = Ids.of(["b", "a", "c"])
    >>> ids[1], len(ids), ids.kind
    ('a', 3, 'text')
    >>> ids.order().tolist()
    [1, 0, 2]
    >>> ids.match(Ids.of(["c", "b"])).tolist()
    [1, -1, 0]
    """

    __slots__ = ("_duplicate",)

    _duplicate: tuple[int, int] | Literal["unknown"] | None
    kind: Literal["text", "integer"]
    numbered: bool  # whether these are the numbers of rows that have no ids

    @staticmethod
    def of(values: Ids | Iterable[object], what: str = "doc") -> Ids:
        """Check and pack ids; `what` ("doc" or "query") is for the messages.

        Rows in messages count from 0.
        """
        if isinstance(values, Ids):
            return values
        values = as_array(values)
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            numbers = _one_dimension(values, what)
            if numbers.dtype.kind == "u" and numbers.size and numbers.max() >= 2**63:
                row = int(np.argmax(numbers >= 2**63))
                raise _range_error(row, numbers[row], what)
            return IntegerIds(np.array(numbers, np.int64))
        return _of_list(_as_list(values, what), what)

    @staticmethod
    def count(size: int, first: int = 0) -> Ids:
        """Return numbers for rows that have no ids: first, first + 1, …"""
        return _few_numbers(size, first) if size <= _FEW_NUMBERS else _numbers(size, first)

    @staticmethod
    def of_rows(numbers: npt.NDArray[Any], size: int | None = None) -> tuple[Ids, npt.NDArray[Any]]:
        """Return ids for numbered rows (−1 means none), and their places.

        They count from 0 to `size` or the largest number, unless that is far more than are used:
        then only these have an id, so that no number costs more than another.
        """
        top = int(numbers.max(initial=-1)) + 1 if size is None else size
        if top <= max(_FEW_ROWS, 4 * numbers.size):
            return Ids.count(top), numbers
        # With counts numpy sorts; its hash table takes up to fifty times as long.
        used = np.unique(numbers[numbers >= 0], return_counts=True)[0].astype(np.int64)
        places = np.where(numbers < 0, -1, np.searchsorted(used, numbers))
        return IntegerIds(used, rising=True, numbered=True), places.astype(numbers.dtype)

    @staticmethod
    def from_utf8(blob: Bytes, offsets: Ints) -> Ids:
        """Take over ids known to be clean and distinct: UTF-8, not empty, no white space."""
        ids = TextIds(blob, offsets)
        ids._duplicate = None
        return ids

    @staticmethod
    def concat(parts: Sequence[Ids]) -> Ids:
        """Join sequences; integers among text become text."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if not parts:
            return TextIds(np.zeros(0, np.uint8), np.zeros(1, np.int64))
        parts = _of_one_kind(parts)
        return parts[0]._join(parts)

    def as_text(self) -> Ids:
        """Return the ids as text, by which ids of two sources are the same or not."""
        return self

    @property
    @abstractmethod
    def sort_bytes(self) -> tuple[Bytes, Ints]:
        """Bytes that are ordered as the ids are, and where each begins and ends."""

    @property
    def utf8(self) -> tuple[Bytes, Ints]:
        """The bytes of text ids, and where each begins and ends."""
        raise IdError("Integer ids have no UTF-8 bytes. Use `numbers`.")

    @property
    def numbers(self) -> Ints:
        """The values of integer ids."""
        raise IdError("Text ids have no numbers. Use `utf8`.")

    @abstractmethod
    def __len__(self) -> int:
        """Count the ids."""

    @abstractmethod
    def __getitem__(self, index: int) -> str | int:
        """Return one id."""

    @abstractmethod
    def to_list(self) -> list[str] | list[int]:
        """Return the ids as Python objects."""

    @abstractmethod
    def take(self, places: npt.ArrayLike) -> Ids:
        """Return the ids at some places; negative ones count from the end."""

    @abstractmethod
    def order(self, descending: bool = False) -> Ints:
        """Return the permutation that sorts by text, or numbered rows by number; equal ids keep
        order.
        """

    def match(self, other: Ids) -> Ints:
        """Find each id's place in `other`, or -1; `other` must hold no id twice.

        The integer 1 is the text `1`, as in a file that has no types.
        """
        if not len(self) or not len(other):
            return _freeze(np.full(len(self), -1, np.int64))
        if self.kind != other.kind:
            mine, theirs = _of_one_kind([self, other])
            return mine.match(theirs)
        pair = other.first_duplicate()
        if pair is not None:
            raise IdError(
                f"the id {other[pair[0]]!r} appears twice, in rows {pair[0]} and {pair[1]}. Make "
                "the ids unique."
            )
        if self is other or self == other:
            return _freeze(np.arange(len(self), dtype=np.int64))
        return _freeze(self._places_in(other))

    def first_duplicate(self) -> tuple[int, int] | None:
        """Return the first and second place of the first repeated id."""
        if self._duplicate == "unknown":
            self._duplicate = self._find_duplicate()
        return self._duplicate

    def __iter__(self) -> Iterator[str | int]:
        """Go through the ids."""
        return iter(self.to_list())

    def __repr__(self) -> str:
        """Show the number of ids and the first few."""
        examples = [repr(self[i]) for i in range(min(len(self), 3))]
        return f"Ids({len(self)} {self.kind}: {', '.join(examples)}{', …' * (len(self) > 3)})"

    __hash__ = None  # type: ignore[assignment]

    @abstractmethod
    def _join(self, parts: Sequence[Ids]) -> Ids: ...

    @abstractmethod
    def _places_in(self, other: Ids) -> Ints: ...

    @abstractmethod
    def _find_duplicate(self) -> tuple[int, int] | None: ...


class TextIds(Ids):
    """Text ids: id i is the bytes `offsets[i]` to `offsets[i + 1]` of a UTF-8 blob."""

    __slots__ = ("_blob", "_offsets")
    kind = "text"
    numbered = False

    def __init__(self, blob: Bytes, offsets: Ints) -> None:
        """Take over clean ids."""
        self._blob, self._offsets = _freeze(blob), _freeze(offsets)
        self._duplicate = "unknown"

    @property
    def utf8(self) -> tuple[Bytes, Ints]:
        """The bytes of the ids, and where each begins and ends."""
        return self._blob, self._offsets

    @property
    def sort_bytes(self) -> tuple[Bytes, Ints]:
        """The bytes of the ids."""
        return self.utf8

    def __len__(self) -> int:
        """Count the ids."""
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> str:
        """Return one id."""
        place = _place(index, len(self))
        return self._blob[self._offsets[place] : self._offsets[place + 1]].tobytes().decode()

    def __eq__(self, other: object) -> bool:
        """Tell whether the other holds the same ids in the same order."""
        return isinstance(other, TextIds) and (
            np.array_equal(self._offsets, other._offsets)
            and np.array_equal(self._blob, other._blob)
        )

    __hash__ = None

    def to_list(self) -> list[str]:
        """Return the ids as strings."""
        raw, ends = self._blob.tobytes(), self._offsets.tolist()
        return [raw[ends[i] : ends[i + 1]].decode() for i in range(len(self))]

    def take(self, places: npt.ArrayLike) -> TextIds:
        """Return the ids at some places."""
        return TextIds(*kernels().take_ids(*self.utf8, _places(places, len(self))))

    def order(self, descending: bool = False) -> Ints:
        """Find the permutation that sorts by UTF-8 bytes."""
        return _freeze(kernels().order_ids(*self.utf8, descending))

    def _join(self, parts: Sequence[Ids]) -> TextIds:
        blobs, offsets = zip(*(part.utf8 for part in parts), strict=True)
        sizes = np.concatenate([np.diff(ends) for ends in offsets])
        return TextIds(np.concatenate(blobs), offsets_of(sizes))

    def _places_in(self, other: Ids) -> Ints:
        return kernels().match_ids(*self.utf8, *other.utf8)

    def _find_duplicate(self) -> tuple[int, int] | None:
        return kernels().first_duplicate(*self.utf8)


class IntegerIds(Ids):
    """Integer ids: one int64 each."""

    __slots__ = ("_numbers", "_rising", "numbered")
    kind = "integer"

    def __init__(
        self, numbers: Ints, rising: bool | None = None, *, numbered: bool = False
    ) -> None:
        """Take over an array of numbers; `rising` where it is known that each exceeds the last."""
        self._numbers = _freeze(numbers)
        self._duplicate = "unknown"
        self._rising = rising
        self.numbered = numbered

    @property
    def numbers(self) -> Ints:
        """The values of the ids."""
        return self._numbers

    def as_text(self) -> TextIds:
        """Return the decimal texts of the ids."""
        return TextIds(*_pack_text([str(number) for number in self._numbers.tolist()], "integer"))

    @property
    def sort_bytes(self) -> tuple[Bytes, Ints]:
        """Fixed widths of bytes, ordered as the ids are."""
        if self._sorts_by_number():
            shifted = self._numbers.view(np.uint64) ^ np.uint64(1 << 63)
            columns = [shifted.astype(">u8")]
        else:
            columns = _text_keys(self._numbers)
        parts = [part.reshape(-1, 1).view(np.uint8) for part in columns]
        joined = np.concatenate(parts, axis=1)
        return joined.ravel(), np.arange(len(self) + 1, dtype=np.int64) * joined.shape[1]

    def __len__(self) -> int:
        """Count the ids."""
        return len(self._numbers)

    def __getitem__(self, index: int) -> int:
        """Return one id."""
        return int(self._numbers[_place(index, len(self))])

    def __eq__(self, other: object) -> bool:
        """Tell whether the other holds the same ids in the same order."""
        return isinstance(other, IntegerIds) and np.array_equal(self._numbers, other._numbers)

    __hash__ = None

    def to_list(self) -> list[int]:
        """Return the ids as Python integers."""
        numbers: list[int] = self._numbers.tolist()
        return numbers

    def take(self, places: npt.ArrayLike) -> IntegerIds:
        """Return the ids at some places."""
        return IntegerIds(self._numbers[_places(places, len(self))], numbered=self.numbered)

    def order(self, descending: bool = False) -> Ints:
        """Find the permutation that sorts by decimal text, or by number where rows are numbered."""
        if self._sorts_by_number():
            return self._number_order(descending)
        return _freeze(kernels().order_ids(*self.sort_bytes, descending))

    def _sorts_by_number(self) -> bool:
        """Tell whether text order is number order, as for numbers of equal length."""
        if self.numbered or not len(self):
            return True
        low, high = int(self._numbers.min()), int(self._numbers.max())
        return low >= 0 and len(str(low)) == len(str(high))

    def _number_order(self, descending: bool = False) -> Ints:
        if self._is_rising():
            places = np.arange(len(self), dtype=np.int64)
            return _freeze(np.ascontiguousarray(places[::-1]) if descending else places)
        # ~x reverses the order without the overflow that -x has at the lowest number.
        keys = ~self._numbers if descending else self._numbers
        return _freeze(np.argsort(keys, kind="stable").astype(np.int64, copy=False))

    def _join(self, parts: Sequence[Ids]) -> IntegerIds:
        numbers = np.concatenate([part.numbers for part in parts])
        return IntegerIds(numbers, numbered=all(part.numbered for part in parts))

    def _is_rising(self) -> bool:
        """Tell whether each number is above the one before it, as in 0, 1, 2, …; known once."""
        if self._rising is None:
            self._rising = bool((self._numbers[1:] > self._numbers[:-1]).all())
        return self._rising

    def _is_range(self) -> bool:
        """Tell whether the numbers follow one another without a gap."""
        span = int(self._numbers[-1]) - int(self._numbers[0])
        return span == len(self) - 1 and self._is_rising()

    def _places_in(self, other: Ids) -> Ints:
        if isinstance(other, IntegerIds) and other._is_range():
            first, last = other._numbers[0], other._numbers[-1]
            inside = (self._numbers >= first) & (self._numbers <= last)
            return np.where(inside, self._numbers - first, -1)
        order = np.argsort(other.numbers, kind="stable")
        at = np.searchsorted(other.numbers, self._numbers, sorter=order)
        places = order[np.minimum(at, len(order) - 1)]
        return np.where(other.numbers[places] == self._numbers, places, -1)

    def _find_duplicate(self) -> tuple[int, int] | None:
        if self._is_rising():
            return None
        order = self._number_order()
        repeats = np.flatnonzero(np.diff(self._numbers[order]) == 0) + 1
        if not len(repeats):
            return None
        second = int(order[repeats].min())
        return int(np.flatnonzero(self._numbers == self._numbers[second])[0]), second


def _numbers(size: int, first: int) -> IntegerIds:
    numbers = np.arange(first, first + size, dtype=np.int64)
    return IntegerIds(numbers, rising=True, numbered=True)


_few_numbers = lru_cache(maxsize=16)(_numbers)  # they never change


def _freeze(values: AnyArray) -> AnyArray:
    values.flags.writeable = False
    return values


def _text_keys(numbers: Ints) -> list[npt.NDArray[Any]]:
    """Return columns that sort like decimal texts: sign, padded digits, number of digits."""
    size = np.abs(numbers).view(np.uint64)  # the lowest number is its own absolute value
    digits = np.maximum(np.searchsorted(_POWERS, size, side="right"), 1)
    filled = size * _POWERS[_MOST_DIGITS - digits]
    return [(numbers >= 0).astype(np.uint8), filled.astype(">u8"), digits.astype(np.uint8)]


def _place(index: int, size: int) -> int:
    if not -size <= index < size:
        raise IndexError(f"id {index} is out of range for {size} ids")
    return index % size


def _places(places: npt.ArrayLike, size: int) -> Ints:
    indices = np.asarray(places)
    if indices.dtype.kind not in "iu" and indices.size:
        raise IndexError(f"places must be integers, not {indices.dtype}")
    indices = np.ascontiguousarray(indices, np.int64)
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        raise IndexError(f"places {indices.min()} to {indices.max()} are not all among {size} ids")
    return np.where(indices < 0, indices + size, indices)


def _of_one_kind(parts: Sequence[Ids]) -> list[Ids]:
    """Return ids of one kind: as they are, else as text, which numbered rows have not."""
    text = next((part for part in parts if part.kind == "text"), None)
    if text is None or all(part.kind == "text" for part in parts):
        return list(parts)
    if any(part.numbered for part in parts):
        raise IdError(
            f"Numbered rows (0, 1, …) cannot be matched with ids such as {text[0]!r}. Give the "
            "rows their ids (query_ids, doc_ids), or number both sides."
        )
    return [part.as_text() for part in parts]


def _one_dimension(values: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    if values.ndim != 1:
        raise ShapeError(f"{what} ids have the shape {values.shape}. Give a one-dimensional array.")
    return values


def _as_list(values: object, what: str) -> list[Any]:
    """Return the values as a list; a single id or an unordered set is not a sequence of ids."""
    if isinstance(values, np.ndarray):
        listed: list[Any] = _one_dimension(values, what).tolist()
        return listed
    if isinstance(values, str | bytes | set | frozenset) or not isinstance(values, Iterable):
        raise IdError(
            f"{what} ids must be a sequence such as a list or an array, "
            f"not {_shorten(values)} of type {type(values).__name__}."
        )
    return values if isinstance(values, list) else list(values)


def _of_list(values: list[Any], what: str) -> Ids:
    try:
        return TextIds(*_pack_text(values, what))
    except TypeError:  # not all are text
        types = set(map(type, values))
    if all(_is_integer(kind) for kind in types):
        try:
            return IntegerIds(np.array(values, np.int64))
        except OverflowError:
            row = next(row for row, value in enumerate(values) if not -(2**63) <= value < 2**63)
            raise _range_error(row, values[row], what) from None
    raise _type_error(values, what)


def _is_integer(kind: type) -> bool:
    return issubclass(kind, int | np.integer) and not issubclass(kind, bool)


def _type_error(values: list[Any], what: str) -> IdError:
    """Explain the first value that is not an id, or else the first two of different kinds."""
    for row, value in enumerate(values):
        if not (isinstance(value, str) or _is_integer(type(value))):
            missing = value is None or (isinstance(value, float) and math.isnan(value))
            return IdError(
                f"the {what} id in row {row} is {'missing' if missing else 'not an id'}: "
                f"{_shorten(value)} of type {type(value).__name__}. An id is text or an integer."
            )
    text = next(row for row, value in enumerate(values) if isinstance(value, str))
    number = next(row for row, value in enumerate(values) if not isinstance(value, str))
    return IdError(
        f"{what} ids mix text and integers: row {text} is {_shorten(values[text])}, "
        f"row {number} is {values[number]!s}, and 1 and '1' would be ambiguous. "
        "Give all as text or all as integers."
    )


def _range_error(row: int, value: object, what: str) -> IdError:
    return IdError(f"the {what} id in row {row}, {value}, exceeds 64 bits. Give ids as text.")


def _pack_text(values: list[str], what: str) -> tuple[Bytes, Ints]:
    """Join the texts into one blob. Line feeds between them are cut out again, so an id that holds
    one shows up as a wrong count.
    """
    try:
        joined = np.frombuffer("\n".join(values).encode(), np.uint8)
    except UnicodeEncodeError:
        raise _text_error(values, what) from None
    cuts = np.flatnonzero(joined == ord("\n"))
    ends = np.append(cuts, len(joined))[: len(values)]
    sizes = np.diff(ends, prepend=-1) - 1
    blob = np.delete(joined, cuts)
    suspects = blob[blob <= max(_FORBIDDEN_BYTES)]
    torn = len(cuts) != max(len(values) - 1, 0) or not sizes.all()
    if torn or np.isin(suspects, _FORBIDDEN_BYTES).any():
        raise _text_error(values, what)
    return blob, offsets_of(sizes)


def _text_error(values: list[str], what: str) -> IdError:
    """Explain the first id that cannot stay as it is."""
    row, reason = next(
        (row, reason) for row, value in enumerate(values) if (reason := _flaw(value))
    )
    return IdError(f"the {what} id in row {row} is {_shorten(values[row])}: {reason}.")


def _flaw(value: str) -> str | None:
    if not value:
        return "an id cannot be empty. Give every row an id"
    if any(character in _FORBIDDEN for character in value):
        return "an id cannot hold white space or NUL. Pass ids, not texts, or replace them by '_'"
    if any("\ud800" <= character <= "\udfff" for character in value):
        return "it holds half a character (a lone surrogate). Decode the ids as UTF-8"
    return None


def _shorten(value: object) -> str:
    """Show a value in ASCII, shortened."""
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
