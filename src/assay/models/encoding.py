"""Encode texts: one vector for each, checked on both sides, each distinct text once."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Floats32
from assay.core import checks
from assay.errors import AssayError, ShapeError, UsageError, ValueRangeError, error_text
from assay.io.fingerprints import fingerprint_of, fingerprints
from assay.io.streams import split_array
from assay.models import ragged
from assay.models.cache import EmbeddingCache, ModelCache, content_keys
from assay.models.ragged import VectorKind, Vectors
from assay.models.settings import EncoderSettings
from assay.search.engine import TokenVectors

Encode = Callable[[list[str]], Any]
Progress = Callable[[int, int], None]
Batches = Iterable[tuple[int, list[str]]]  # number of the first text, texts

_ROWS_AT_ONCE: Final = 8192
_CANNOT_TELL: Final = 2  # among the flags; 1 is truncated, 0 is not


class Batch(NamedTuple):
    """Hold what a model made of some texts.

    `truncated` marks those that were too long, where the model can tell; `tokens` is how many an
    endpoint counted, where it says so.
    """

    vectors: Any
    truncated: Flags | None = None
    tokens: int | None = None


def weights_of(place: str | Path) -> dict[str, Any]:
    """Return digests of a file or folder; a model that is fetched is known by its name."""
    path = Path(split_array(place)[0])
    if not path.exists():
        return {"model": str(place)}
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    digests = fingerprints(files)
    return {
        "weights": {
            file.relative_to(path).as_posix(): digests[str(file)]["sha256"] for file in files
        }
    }


def add_tokens(*counts: int | None) -> int | None:
    """Add up the counts that are known; None where none is.

    >>> add_tokens(None, 5, 7), add_tokens(None)
    (12, None)
    """
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if numbers else None


class EncodedBatch(NamedTuple):
    """Hold a batch that was encoded: its number, the result, and how long that took."""

    number: int
    batch: Batch
    seconds: float


# Encodes batches elsewhere, for the model of a fingerprint: (number of the first text, texts) in,
# and what is done out, in any order.
BatchMap = Callable[[str, Batches], Iterator[EncodedBatch]]


@dataclass(frozen=True)
class Encoder:
    """Encode texts by a function, under the name of its spec.

    Args:
        spec: Name of the model.
        function: Function from a list of texts to their vectors, or to a `Batch`.
        identity: Function that tells what the vectors depend on (versions, digests of weights).
        repeatable: Whether `identity` tells all; only then may vectors come from a cache.
        batch_size: Number of texts that the model likes at once.
        query_function: Function for queries, where the model treats them differently.
        warm_up: Whether a text may be encoded before the clock starts; off where it has a price.
        kind: What it makes of a text: "dense", one vector; "tokens", for MaxSim; or "sparse". The
            function returns an array of tokens × columns for each text, or `SparseVectors`.
        metric: How the model's authors compare its vectors, where that is its own.

    Example:
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
    kind: VectorKind = "dense"
    metric: str | None = None

    def for_queries(self) -> Encoder:
        """Return the model for queries; vectors of the two sides never mix in a cache."""
        if self.query_function is None:
            return self
        changes: Any = {"function": self.query_function, "query_function": None}
        return replace(self, identity=lambda: {**self.identity(), "side": "query"}, **changes)

    def encode(
        self,
        texts: Sequence[str],
        *,
        batch_size: int | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Return a float32 row for each text; call `progress(done, total)` after each batch.

        Models of tokens and of sparse vectors return `TokenVectors` and `SparseVectors`.
        """
        checked = checked_texts(texts, self.spec, allow_empty=False)
        size = checks.check_cutoff(batch_size or self.batch_size, "batch_size")
        parts: list[Any] = []
        for start in range(0, len(checked), size):
            batch = checked[start : start + size]
            rows = self.encode_batch(batch, start).vectors
            if self.kind == "dense" and parts and parts[0].shape[1] != rows.shape[1]:
                raise ShapeError(
                    f"Encoder {self.spec!r} returned {parts[0].shape[1]} dimensions at first and "
                    f"{rows.shape[1]} from text {start} on."
                )
            parts.append(rows)
            if progress is not None:
                progress(start + len(batch), len(checked))
        if self.kind == "dense":
            return np.concatenate(parts)
        return ragged.unpack(self.kind, [row for rows in parts for row in rows], self.spec)

    def encode_batch(self, texts: list[str], first: int = 0) -> Batch:
        """Return a finite float32 row for each of some checked texts; `first` numbers them.

        Rows of tokens and of sparse vectors are packed.
        """
        batch = call_model(f"Encoder {self.spec!r}", self.function, texts)
        if self.kind != "dense":
            packed = ragged.pack(self.kind, batch.vectors, texts, self.spec)
            return batch._replace(vectors=packed)
        rows = as_vectors(batch.vectors, len(texts), self.spec)
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueRangeError(
                f"Encoder {self.spec!r} returned NaN or infinite values for text {first + row}, "
                f"{texts[row]!r:.60} ({int(bad.sum())} texts in this batch). Remove or replace it."
            )
        return batch._replace(vectors=rows)


def call_model(name: str, function: Callable[..., Any], *args: Any) -> Batch:
    """Call a model's function; it is not ours, and can fail in any way."""
    try:
        values = function(*args)
    except (AssayError, MemoryError, OSError):
        raise
    except Exception as error:
        raise UsageError(f"{name} failed: {error_text(error)}.") from error
    return values if isinstance(values, Batch) else Batch(values)


def checked_texts(texts: Any, spec: str, *, allow_empty: bool = True) -> list[str]:
    """Check texts and return them as a list."""
    checked = checks.as_list(texts, f"The texts for encoder {spec!r}")
    if not checked:
        raise ShapeError(f"No texts for encoder {spec!r}. Pass at least one.")
    for row, text in enumerate(checked):
        flaw = checks.flaw_of(text)
        if not flaw and not allow_empty and not text.strip():
            flaw = "is empty. Remove it"
        if flaw:
            raise ValueRangeError(f"Text {row} for encoder {spec!r} {flaw}.")
    return checked if allow_empty else [str(text) for text in checked]


def as_vectors(vectors: Any, n_texts: int, spec: str) -> Floats32:
    """Return a model's result as float32 rows; tensors of any device are brought over."""
    array = checks.plain_array(vectors, f"The result of encoder {spec!r}")
    if array.ndim != 2 or len(array) != n_texts or not array.shape[1]:
        raise ShapeError(
            f"Encoder {spec!r} returned shape {array.shape} for {n_texts} texts; expected "
            f"({n_texts}, dimension)."
        )
    if array.dtype.kind not in "iuf":
        raise ShapeError(f"Encoder {spec!r} returned {array.dtype}, not numbers. Return numbers.")
    return np.ascontiguousarray(array, np.float32)


def shape_vectors(vectors: Floats32, settings: EncoderSettings, spec: str) -> Floats32:
    """Apply `dimensions` and `normalize` to vectors; rows of zeros stay."""
    width = settings.dimensions
    if width is not None:
        if width > vectors.shape[1]:
            raise UsageError(
                f"dimensions is {width}, but encoder {spec!r} has {vectors.shape[1]}. Use fewer."
            )
        vectors = np.ascontiguousarray(vectors[:, :width])
    scale = settings.normalize or (width is not None and settings.normalize is None)
    return unit_rows(vectors) if scale else vectors


def shape_ragged(vectors: Any, settings: EncoderSettings, spec: str) -> Any:
    """Apply `dimensions` and `normalize` to tokens; sparse vectors have neither."""
    if not isinstance(vectors, TokenVectors):
        return vectors
    values = np.ascontiguousarray(vectors.values[: vectors.values.shape[0]], np.float32)
    return replace(vectors, values=shape_vectors(values, settings, spec))


def unit_rows(vectors: Floats32) -> Floats32:
    """Divide each row by its length; a row does not depend on its neighbours."""
    scaled = np.empty_like(vectors)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = vectors[start : start + _ROWS_AT_ONCE].astype(np.float64)
        lengths = np.sqrt(np.add.reduce(rows * rows, axis=1, keepdims=True))
        scaled[start : start + _ROWS_AT_ONCE] = rows / np.where(lengths, lengths, 1)
    return scaled


@dataclass(frozen=True)
class EncoderRequest:
    """Hold what an adapter gets: its `load(request)` returns the encoder."""

    spec: str
    argument: str = ""
    device: str | None = None
    settings: EncoderSettings = field(default_factory=EncoderSettings)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Hold vectors of texts, a row for each, as `TextModel` returns them.

    A text with nothing in it is not sent to a model: `empty` marks it and its row is zero (search
    with zero="last" or "drop"). `n_computed` texts took `seconds`; all others were in the cache or
    repeated. `truncated` marks the texts that the model truncated; it is None where the model
    cannot tell. `tokens` are those that an endpoint counted for the computed texts.

    Example:
        >>> zeros = np.zeros((1, 2), np.float32)
        >>> Encoded(zeros, 0, 0.0, None, np.array([True])).empty.tolist()
        [True]
    """

    vectors: Any
    n_computed: int
    seconds: float
    truncated: Flags | None
    empty: Flags
    tokens: int | None = None


class TextModel(ABC):
    """Turn texts into vectors under settings; `text_model` makes one.

    `repeatable` says that the fingerprint tells all that vectors depend on. Where it is false (a
    function of your own without a fingerprint), results may not be taken from an earlier run.

    Example:
        model = text_model("wordllama")
        vectors = model.encode_docs(["a text", "another"]).vectors
    """

    spec: str
    settings: EncoderSettings
    repeatable: bool
    kind: VectorKind = "dense"
    metric: str | None = None  # of the model itself, where it has one

    def __repr__(self) -> str:
        """Show the spec: a fingerprint would take a while."""
        return f"<text model {self.spec!r}>"

    @cached_property
    def fingerprint(self) -> str:
        """Return a digest of spec, settings, versions and weights, as far as known."""
        parts = {"identity": self._identity, "settings": self.settings.identity}
        return fingerprint_of({"spec": self.spec, **parts})

    @property
    @abstractmethod
    def _identity(self) -> dict[str, Any]:
        """Return versions and weights."""

    def encode_docs(
        self, texts: Sequence[str], progress: Progress | None = None, *, ids: Any = None
    ) -> Encoded:
        """Encode documents; ids matter only where vectors were computed beforehand."""
        return self._encode_side("doc", texts, progress, ids)

    def encode_queries(
        self, texts: Sequence[str], progress: Progress | None = None, *, ids: Any = None
    ) -> Encoded:
        """Encode queries; ids matter only where vectors were computed beforehand."""
        return self._encode_side("query", texts, progress, ids)

    @abstractmethod
    def _encode_side(
        self, side: str, texts: Sequence[str], progress: Progress | None, ids: Any
    ) -> Encoded:
        """Encode the texts of one side."""


class ComputedModel(TextModel):
    """Compute vectors by an encoder, here or where `elsewhere` sends batches."""

    def __init__(
        self,
        encoder: Encoder,
        settings: EncoderSettings,
        cache: EmbeddingCache | None = None,
        elsewhere: BatchMap | None = None,
        warm_up: bool = False,
    ) -> None:
        self.spec, self.settings, self.repeatable = encoder.spec, settings, encoder.repeatable
        self.encoder, self._cache, self._elsewhere = encoder, cache, elsewhere
        self._warm_up = warm_up and encoder.warm_up
        self.kind, self.metric = encoder.kind, encoder.metric
        ragged.refuse_settings(self.kind, settings, self.spec)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        return dict(self.encoder.identity())

    @cached_property
    def _model_cache(self) -> ModelCache | None:
        """Return the place of this model's vectors in the cache.

        Prefixes are part of a text, and what follows the model (width, scale) costs nothing: a
        vector is stored once for all of them.
        """
        if self._cache is None or not self.repeatable:
            return None
        made_by = {
            "kind": self.spec.partition(":")[0],
            "identity": self._identity,
            "max_length": self.settings.max_length,
            "raw": self.settings.normalize is False,
        }
        if self.kind != "dense":
            made_by["vectors"] = self.kind
        return self._cache.of_model(fingerprint_of(made_by), self.spec)

    def _encode_side(
        self, side: str, texts: Sequence[str], progress: Progress | None, ids: Any
    ) -> Encoded:
        """Encode; queries are few, and a model of their own encodes them here."""
        model = self._for_queries if side == "query" else self
        return model._encode(texts, getattr(self.settings, f"{side}_prefix"), progress)

    @cached_property
    def _for_queries(self) -> ComputedModel:
        encoder = self.encoder.for_queries()
        if encoder is self.encoder:
            return self
        return ComputedModel(encoder, self.settings, self._cache, warm_up=self._warm_up)

    def _encode(self, texts: Sequence[str], prefix: str, progress: Progress | None) -> Encoded:
        checked = checked_texts(texts, self.spec)
        full = [prefix + text if text.strip() else "" for text in checked]
        place = {text: row for row, text in enumerate(dict.fromkeys(filter(None, full)))}
        if not place:
            raise ShapeError(f"All {len(checked)} texts for {self.spec!r} are empty. Fill them.")
        encode = self._encode_here
        if self._elsewhere is not None:
            encode = partial(self._elsewhere, self.fingerprint)
        work = _EncodingRun(self.encoder, encode, self._model_cache, list(place))
        work.run(progress)
        rows = np.fromiter((place.get(text, -1) for text in full), np.int64, len(full))
        flags = _spread(work.flags, rows)
        vectors: Vectors
        if self.kind == "dense":
            vectors = shape_vectors(_spread(work.vectors, rows), self.settings, self.spec)
        else:
            packed = ragged.spread_packed(work.vectors, rows)
            vectors = shape_ragged(
                ragged.unpack(self.kind, packed, self.spec), self.settings, self.spec
            )
        return Encoded(
            vectors,
            work.n_computed,
            work.seconds,
            None if (flags == _CANNOT_TELL).any() else flags.astype(bool),
            rows < 0,
            work.tokens,
        )

    def _encode_here(self, batches: Batches) -> Iterator[EncodedBatch]:
        """Encode batch by batch; a model's first call (imports, loading) is not timed."""
        for number, (first, texts) in enumerate(batches):
            if self._warm_up:
                self.encoder.encode_batch(texts[:1], first)
                self._warm_up = False
            started = time.perf_counter()
            vectors = self.encoder.encode_batch(texts, first)
            yield EncodedBatch(number, vectors, time.perf_counter() - started)


def _spread(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Spread the values of distinct texts over all texts; zero for the empty ones."""
    if np.array_equal(rows, np.arange(len(values))):
        return values
    spread = values[rows]
    spread[rows < 0] = 0
    return spread


class _EncodingRun:
    """Bring distinct texts to vectors: from the cache, then from the model."""

    def __init__(
        self,
        encoder: Encoder,
        encode: Callable[[Batches], Iterator[EncodedBatch]],
        model_cache: ModelCache | None,
        texts: list[str],
    ) -> None:
        self._encoder, self._encode, self._texts = encoder, encode, texts
        self._model_cache = model_cache
        self._ragged = encoder.kind != "dense"
        self.vectors: Any = np.empty((len(texts), 0), np.float32)
        if self._ragged:
            self.vectors = [self.vectors[0]] * len(texts)
        self.flags = np.zeros(len(texts), np.uint8)
        self.n_computed, self.seconds = 0, 0.0
        self.tokens: int | None = None

    def run(self, progress: Progress | None) -> None:
        """Take what is in the cache, compute the rest, and store that, batch by batch."""
        total, size = len(self._texts), self._encoder.batch_size
        missing = np.arange(total)
        if self._model_cache is not None:
            keys = content_keys(self._texts)
            lookup = self._model_cache.find(keys, ragged=self._ragged)
            if lookup.vectors is not None:
                self.vectors, self.flags = lookup.vectors, lookup.flags
            missing = np.flatnonzero(~lookup.known)
        done = total - len(missing)
        if progress is not None and done:
            progress(done, total)
        batches = [missing[start : start + size] for start in range(0, len(missing), size)]
        numbered = ((int(rows[0]), [self._texts[row] for row in rows]) for rows in batches)
        for encoded in self._encode(numbered):
            batch = batches[encoded.number]
            rows, truncated, tokens = encoded.batch
            self.tokens = add_tokens(self.tokens, tokens)
            self.seconds += encoded.seconds
            self.n_computed += len(batch)
            self.flags[batch] = _CANNOT_TELL if truncated is None else truncated
            if self._ragged:
                for place, row in zip(batch.tolist(), rows, strict=True):
                    self.vectors[place] = row
            else:
                self._check_width(rows.shape[1])
                self.vectors[batch] = rows
            if self._model_cache is not None:
                self._model_cache.add(keys[batch], rows, self.flags[batch])
            if progress is not None:
                progress(done + self.n_computed, total)

    def _check_width(self, width: int) -> None:
        if not self.vectors.shape[1]:
            self.vectors = np.zeros((len(self._texts), width), np.float32)
        if self.vectors.shape[1] != width:
            raise ShapeError(
                f"Encoder {self._encoder.spec!r} returned {width} dimensions, but "
                f"{self.vectors.shape[1]} for other texts (maybe cached). After a model "
                "change, clear the cache."
            )
