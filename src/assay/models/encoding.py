"""Encoder: texts in, one vector for each out, checked on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Flags, Floats32
from assay.core import checks
from assay.errors import AssayError, ShapeError, UsageError, ValueRangeError, error_text
from assay.models.settings import EncoderSettings

Encode = Callable[[list[str]], Any]
Progress = Callable[[int, int], None]


class Batch(NamedTuple):
    """What a model made of some texts; `truncated`: which were too long, where it can tell.

    `tokens`: how many an endpoint counted, where it says so.
    """

    vectors: Any
    truncated: Flags | None = None
    tokens: int | None = None


def add_tokens(*counts: int | None) -> int | None:
    """The sum of the counts that are known; None where none is.

    >>> add_tokens(None, 5, 7), add_tokens(None)
    (12, None)
    """
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if numbers else None


class EncodedBatch(NamedTuple):
    """A batch that was encoded: its number, what became of it, and how long that took."""

    number: int
    batch: Batch
    seconds: float


# Encodes batches elsewhere, for the model of a fingerprint: (number of the first text, texts) in,
# and what is done out, in any order.
BatchMap = Callable[[str, Iterable[tuple[int, list[str]]]], Iterator[EncodedBatch]]


@dataclass(frozen=True)
class Encoder:
    """A text model under the name in its spec; `function` makes the vectors of a batch.

    `identity` tells what the vectors depend on (versions, digests of weights), and `repeatable`
    that it tells all: only then may vectors come from a cache. `batch_size` is how many texts the
    model likes at once. A model that treats queries otherwise has a `query_function` for them.
    Where a text has a price, `warm_up` is off: none is encoded before the clock starts.

    >>> lengths = Encoder("lengths", lambda texts: [[len(text), 1] for text in texts])
    >>> lengths.encode(["a", "bcd"]).tolist()
    [[1.0, 1.0], [3.0, 1.0]]
    """

    spec: str
    function: Encode
    identity: Callable[[], Mapping[str, Any]] = dict
    repeatable: bool = False
    batch_size: int = 1024
    query_function: Encode | None = None
    warm_up: bool = True

    def for_queries(self) -> Encoder:
        """The same model for queries; vectors of the two sides are never taken for each other."""
        if self.query_function is None:
            return self
        return replace(
            self,
            function=self.query_function,
            identity=lambda: {**self.identity(), "side": "query"},
            query_function=None,
        )

    def encode(
        self,
        texts: Sequence[str],
        *,
        batch_size: int | None = None,
        progress: Progress | None = None,
    ) -> Floats32:
        """One float32 row for each text; `progress(done, total)` is called after each batch."""
        checked = _checked_texts(texts, self.spec)
        size = checks.check_cutoff(batch_size or self.batch_size, "batch_size")
        parts: list[Floats32] = []
        for start in range(0, len(checked), size):
            batch = checked[start : start + size]
            rows = self.encode_batch(batch, start).vectors
            _refuse_other_width(parts, rows, start, self.spec)
            parts.append(rows)
            if progress is not None:
                progress(start + len(batch), len(checked))
        return np.concatenate(parts)

    def encode_batch(self, texts: list[str], first: int = 0) -> Batch:
        """One finite float32 row for each of some checked texts; `first` numbers them."""
        vectors = self._called(texts)
        batch = vectors if isinstance(vectors, Batch) else Batch(vectors)
        rows = as_vectors(batch.vectors, len(texts), self.spec)
        _refuse_not_finite(rows, texts, first, self.spec)
        return batch._replace(vectors=rows)

    def _called(self, batch: list[str]) -> Any:
        """What the model returns; a model that fails is named, for its fault is not ours."""
        try:
            return self.function(batch)
        except (AssayError, MemoryError, OSError):
            raise
        except Exception as error:
            raise UsageError(f"Encoder {self.spec!r} failed: {error_text(error)}.") from error


def _checked_texts(texts: Sequence[str], spec: str) -> list[str]:
    """The texts as a list; each must be text that has something in it and can be encoded."""
    checked = checks.as_list(texts, f"The texts for encoder {spec!r}")
    if not checked:
        raise ShapeError(f"There are no texts for encoder {spec!r} to encode. Give at least one.")
    for row, text in enumerate(checked):
        flaw = checks.flaw_of(text)
        if not flaw and not text.strip():
            flaw = "is empty, and an empty text has no meaning to encode. Remove it"
        if flaw:
            raise ValueRangeError(f"Text {row} for encoder {spec!r} {flaw}.")
    return [str(text) for text in checked]


def as_vectors(vectors: Any, n_texts: int, spec: str) -> Floats32:
    """What a model returned, as float32 rows; tensors of any device are brought over."""
    for step in ("detach", "cpu", "numpy"):
        if hasattr(vectors, step):
            vectors = getattr(vectors, step)()
    array = checks.plain_array(vectors, f"The result of encoder {spec!r}")
    if array.ndim != 2 or len(array) != n_texts or not array.shape[1]:
        raise ShapeError(
            f"Encoder {spec!r} returned shape {array.shape} for {n_texts} texts; expected "
            f"({n_texts}, dimension)."
        )
    if array.dtype.kind not in "iuf":
        raise ShapeError(f"Encoder {spec!r} returned {array.dtype}, not numbers.")
    return np.ascontiguousarray(array, np.float32)


def _refuse_not_finite(rows: Floats32, batch: list[str], start: int, spec: str) -> None:
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueRangeError(
            f"Encoder {spec!r} returned NaN or infinite values for text {start + row}, "
            f"{batch[row]!r:.60} ({int(bad.sum())} texts in this batch). Remove or replace it."
        )


def _refuse_other_width(parts: list[Floats32], rows: Floats32, start: int, spec: str) -> None:
    if parts and parts[0].shape[1] != rows.shape[1]:
        raise ShapeError(
            f"Encoder {spec!r} returned {parts[0].shape[1]} dimensions at first and "
            f"{rows.shape[1]} from text {start} on."
        )


_ROWS_AT_ONCE: Final = 8192


def shape_vectors(vectors: Floats32, settings: EncoderSettings, spec: str) -> Floats32:
    """Vectors under `dimensions` and `normalize`; rows of zeros stay."""
    width = settings.dimensions
    if width is not None:
        if width > vectors.shape[1]:
            raise UsageError(f"dimensions is {width}, but encoder {spec!r} has {vectors.shape[1]}.")
        vectors = np.ascontiguousarray(vectors[:, :width])
    scale = settings.normalize or (width is not None and settings.normalize is None)
    return unit_rows(vectors) if scale else vectors


def unit_rows(vectors: Floats32) -> Floats32:
    """Each row divided by its length; a row does not depend on its neighbours."""
    scaled = np.empty_like(vectors)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = vectors[start : start + _ROWS_AT_ONCE].astype(np.float64)
        lengths = np.sqrt(np.add.reduce(rows * rows, axis=1, keepdims=True))
        scaled[start : start + _ROWS_AT_ONCE] = rows / np.where(lengths, lengths, 1)
    return scaled


@dataclass(frozen=True)
class EncoderRequest:
    """What an adapter gets: its `load(request)` returns the encoder."""

    spec: str
    argument: str = ""
    device: str | None = None
    settings: EncoderSettings = field(default_factory=EncoderSettings)
