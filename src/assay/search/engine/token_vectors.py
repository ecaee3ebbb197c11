"""Token vectors of late-interaction models (ColBERT, PyLate), and what they are read from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from assay.arrays import Array, Floats32, Ints, offsets_of
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import FormatError, MismatchError, ShapeError, ValueRangeError
from assay.io.arrays import load_npz, npz_keys, open_rows
from assay.io.mapped import Watched, watches_of
from assay.search.engine.inputs import Vectors, check_ids, matrix_of, widen
from assay.search.engine.prepared import Prepared, prepare_rows
from assay.search.engine.sparse_vectors import check_offsets
from assay.search.safetensors import load_safetensors

_WINDOW: Final = 1 << 17  # tokens that are checked at a time
_VALUES: Final[tuple[str, ...]] = (
    *("token_embeddings", "embeddings", "doc_embeddings", "query_embeddings"),
    *("docs", "queries", "vectors", "tokens", "values", "embs"),
)
_OFFSETS: Final = ("offsets",)
_LENGTHS: Final = ("lengths", "doclens", "doc_lengths", "query_lengths")
_MASKS: Final = ("mask", "attention_mask", "masks")
_IDS: Final = ("ids", "doc_ids", "query_ids")


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """Hold the token vectors of texts: those of text i are `[offsets[i]:offsets[i + 1]]`.

    Args:
        values: Tokens × columns: an array, a memory map or the path of a .npy file. float16 and
            bfloat16 are widened; float64 must hold what float32 can.
        offsets: Where each text starts, and the end of the last one.
        ids: Ids of the texts, where they have any.
        prepared: Tokens in 8 bits, which `prepare` makes.

    Raises:
        AssayError: The arrays do not fit each other, or hold what cannot be ranked.

    Example:
        >>> TokenVectors([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [0, 2, 3])
        TokenVectors(2 texts, 3 tokens × 2 columns)
    """

    values: Vectors
    offsets: Ints
    ids: Ids | None = None
    prepared: Prepared | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check shapes, types and offsets; values are checked as they are searched."""
        values = matrix_of(open_rows(self.values), "token vectors")
        object.__setattr__(self, "values", values)
        offsets = check_offsets(self.offsets, values.shape[0], "tokens")
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "ids", check_ids(self.ids, len(self), "text"))

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of texts and columns."""
        return len(self), self.values.shape[1]

    @property
    def lengths(self) -> Ints:
        """Return how many tokens each text has."""
        return np.diff(self.offsets)

    @property
    def lies_ready(self) -> bool:
        """Tell whether rows are read in place, without mapping or widening them."""
        in_memory = isinstance(self.values, np.ndarray)
        return in_memory and self.values.dtype == np.dtype(np.float32)

    @property
    def watched_files(self) -> tuple[Watched, ...]:
        """Return the files that must not change meanwhile."""
        return watches_of(self.prepared or self.values)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        """Show sizes in one line."""
        n_tokens, columns = self.values.shape
        return f"TokenVectors({len(self)} texts, {n_tokens} tokens × {columns} columns)"

    def __getitem__(self, texts: slice | Ints) -> TokenVectors:
        """Return some texts, without ids; those of a slice are not copied."""
        if not isinstance(texts, slice):
            values = [self.values[self.offsets[row] : self.offsets[row + 1]] for row in texts]
            return TokenVectors(np.concatenate(values), offsets_of(self.lengths[texts]))
        start, stop, _ = texts.indices(len(self))
        first, last = self.offsets[start], self.offsets[stop]
        return TokenVectors(self.values[first:last], self.offsets[start : stop + 1] - first)

    def arrays(self) -> tuple[Array, Array]:
        """Return what tells these texts from others."""
        return np.ascontiguousarray(self.values[: self.values.shape[0]]), self.offsets

    def prepare(self, path: Any = None, *, threads: int | None = None) -> TokenVectors:
        """Quantise the tokens once for many searches; `assay.prepare` explains."""
        blocks = [self.rows(*ends, "docs", self.ids) for ends in self.windows()]
        tokens = (
            self
            if self.values.dtype.itemsize <= 4
            else replace(self, values=np.concatenate(blocks))
        )
        prepared = prepare_rows(tokens.values, path, threads, tokens=True)
        return replace(tokens, prepared=prepared)

    def windows(self, n_tokens: int = _WINDOW) -> Iterator[tuple[int, int]]:
        """Cut the texts so that each part has about so many tokens: first, one past the last."""
        first = 0
        while first < len(self):
            room = int(np.searchsorted(self.offsets, self.offsets[first] + n_tokens, "right")) - 1
            last = min(len(self), max(first + 1, room))
            yield first, last
            first = last

    def rows(self, start: int, stop: int, what: str, ids: Ids | None) -> Floats32:
        """Return the tokens of some texts as float32; NaN, Inf and too fine numbers are refused."""
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        rows = widen(self.values[first:last], what)
        with np.errstate(all="ignore"):
            single = np.require(rows, np.float32, ["C", "A"])
            finite = np.isfinite(single.sum())  # of numbers alone, unless some are huge
        if not finite:
            self._refuse(~np.isfinite(rows), rows, first, what, ids, ". Remove or replace it")
        if single.dtype != rows.dtype:
            hint = ", which float32 cannot hold. Pass values.astype('float32')"
            self._refuse(single != rows, rows, first, what, ids, hint)
        return single

    def _refuse(
        self, wrong: Array, rows: Array, first: int, what: str, ids: Ids | None, hint: str
    ) -> None:
        """Refuse the first wrong number, by text, token and column."""
        if not wrong.any():
            return
        token, column = (int(at) for at in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        row = int(np.searchsorted(self.offsets, first + token, "right")) - 1
        name = f"{row}" if ids is None else f"{row} (id {ids[row]!r})"
        raise ValueRangeError(
            f"{what} row {name} holds {rows[token, column]} in token "
            f"{first + token - int(self.offsets[row])}, column {column}{hint}."
        )


def is_tokens(vectors: Any) -> bool:
    """Tell token vectors from others: values, and files with lengths, offsets or a mask."""
    if not isinstance(vectors, str | os.PathLike):
        return isinstance(vectors, TokenVectors)
    name = os.fspath(vectors)
    keys: Iterable[str] = ()
    if name.lower().endswith(".npz"):
        keys = npz_keys(name)
    elif name.lower().endswith(".safetensors"):
        keys = load_safetensors(name)[0]
    return any(key in keys for key in (*_OFFSETS, *_LENGTHS, *_MASKS))


def read_tokens(vectors: Any, what: str = "vectors") -> TokenVectors:
    """Read token vectors from arrays or a file.

    Args:
        vectors: `TokenVectors`; a list of arrays, tokens × columns, one for each text, as
            `encode` of PyLate returns it; (array, offsets); an array of texts × places × columns
            alone or as (array, mask) or (array, lengths); a dictionary of such arrays; or the
            path of a .npz or .safetensors file of them.
        what: Name of the vectors in messages.

    Returns:
        The tokens of each text, checked.

    Raises:
        AssayError: They are of another kind, or do not fit each other.

    Example:
        >>> read_tokens([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8]]])
        TokenVectors(2 texts, 3 tokens × 2 columns)
    """
    if isinstance(vectors, TokenVectors):
        return vectors
    if isinstance(vectors, str | os.PathLike):
        return _read_file(os.fspath(vectors))
    if isinstance(vectors, Mapping):
        return _from_arrays(dict(vectors), what)
    values, bounds = vectors, None
    if isinstance(vectors, tuple) and len(vectors) == 2 and np.ndim(vectors[1]) in (1, 2):
        values, bounds = vectors
        if getattr(values, "ndim", 2) == 2:
            return TokenVectors(values, bounds)
    if getattr(values, "ndim", 0) == 3:
        return _from_padded(checks.plain_array(values, what), bounds, what)
    return _from_list(checks.as_list(values, what), what)


def _from_list(texts: Sequence[Any], what: str) -> TokenVectors:
    """Put the tokens of all texts one after the other."""
    arrays = [checks.plain_array(text, f"{what} row {row}") for row, text in enumerate(texts)]
    widths = {array.shape[1] for array in arrays if array.ndim == 2}
    width = next((array.shape[1] for array in arrays if array.ndim == 2 and array.size), 0)
    for row, array in enumerate(arrays):
        empty = array.size == 0 and array.ndim <= 2 and array.shape[0] == 0
        if not empty and (array.ndim != 2 or array.shape[1] != width or not width):
            raise ShapeError(
                f"{what} row {row} has the shape {array.shape}; every text needs tokens × "
                f"{width or 'at least 1'} columns, as the others. Found columns: {sorted(widths)}."
            )
    some = [array for array in arrays if array.size]
    if not some:
        raise ShapeError(f"{what} holds no tokens. Pass at least one.")
    lengths = [len(array) if array.size else 0 for array in arrays]
    return TokenVectors(np.concatenate(some), offsets_of(lengths))


def _from_padded(values: Array, bounds: Any, what: str) -> TokenVectors:
    """Leave the places out that lengths or a mask say are filled up."""
    if values.ndim != 3:
        raise ShapeError(f"{what} must be texts × places × columns, found shape {values.shape}.")
    n_texts, places, columns = values.shape
    mask = np.ones((n_texts, places), bool)
    if bounds is not None:
        bounds = checks.plain_array(bounds, f"{what} lengths or mask")
        if bounds.ndim == 1:
            checks.check_lengths(**{f"{what}_lengths": len(bounds), "texts": n_texts})
            lengths = checks.check_numbers(bounds, places + 1, f"{what} lengths")
            mask = np.arange(places) < lengths[:, None]
        else:
            if bounds.shape != mask.shape or not np.isin(bounds, (0, 1)).all():
                raise ShapeError(
                    f"{what}: a mask holds 0 or 1 for each of {n_texts} × {places} places, found "
                    f"shape {bounds.shape} of {bounds.dtype}."
                )
            mask = bounds.astype(bool)
    rows = values.reshape(-1, columns)
    return TokenVectors(rows if mask.all() else rows[mask.ravel()], offsets_of(mask.sum(axis=1)))


def _read_file(name: str) -> TokenVectors:
    if name.lower().endswith(".safetensors"):
        return _from_arrays(load_safetensors(name)[0], name)
    if not name.lower().endswith(".npz"):
        raise FormatError(
            f"{name} cannot hold token vectors. Give .npz or .safetensors, or an array with "
            "offsets: TokenVectors(array, offsets)."
        )
    return _from_arrays(load_npz(name, tuple(npz_keys(name))), name)


def _from_arrays(arrays: dict[str, Any], what: str) -> TokenVectors:
    """Read an array with offsets, lengths or a mask; or one array for each text."""
    bounds = next((key for key in (*_OFFSETS, *_LENGTHS, *_MASKS) if key in arrays), None)
    ids = next((arrays[key] for key in _IDS if key in arrays), None)
    texts = {key: value for key, value in arrays.items() if key not in _IDS and key != bounds}
    names = [key for key in _VALUES if key in texts] or list(texts)
    values = checks.plain_array(texts[names[0]], names[0]) if names else np.empty(0)
    if bounds is None and values.ndim != 3:
        return _from_texts(texts, ids, what)
    if len(names) != 1:
        raise FormatError(
            f"{what} holds {checks.name_few(names)}. Keep the token vectors in one array, named "
            "'embeddings', with 'lengths' or 'offsets'."
        )
    if bounds in _OFFSETS:
        tokens = TokenVectors(values, arrays[bounds])
    elif bounds is not None and values.ndim == 2:
        n_tokens = len(values)
        lengths = checks.check_numbers(arrays[bounds], n_tokens + 1, f"{what}, {bounds}")
        if lengths.sum() != n_tokens:
            raise MismatchError(
                f"{what}: {bounds} add up to {lengths.sum()} tokens, and there are {n_tokens}."
            )
        tokens = TokenVectors(values, offsets_of(lengths))
    else:
        tokens = _from_padded(values, None if bounds is None else arrays[bounds], what)
    return tokens if ids is None else replace(tokens, ids=ids)


def _from_texts(texts: dict[str, Any], ids: Any, what: str) -> TokenVectors:
    """Take one array for each text; numpy numbers those without a name: arr_0, arr_1, …"""
    numbered = all(re.fullmatch(r"arr_\d+", key) for key in texts)
    names = sorted(texts, key=lambda key: int(key[4:])) if numbered else list(texts)
    tokens = _from_list([texts[key] for key in names], what)
    return replace(tokens, ids=ids if numbered or ids is not None else Ids.of(names))
