"""A text model whose vectors are computed: texts checked, each distinct one encoded once."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Floats32
from assay.core import checks
from assay.errors import ShapeError, ValueRangeError
from assay.io.fingerprints import fingerprint_of
from assay.models.cache import EmbeddingCache, Keys, ModelCache, content_keys
from assay.models.encoding import (
    BatchMap,
    EncodedBatch,
    Encoder,
    Progress,
    add_tokens,
    shape_vectors,
)
from assay.models.settings import EncoderSettings

Batches = Iterable[tuple[int, list[str]]]  # number of the first text, texts

_CANNOT_TELL: Final = 2  # among the flags; 1 is truncated, 0 is not


@dataclass(frozen=True, eq=False)
class Encoded:
    """Vectors of texts, one row each.

    A text with nothing in it is not sent to a model: `empty` marks it and its row is zero (search
    with zero="last" or "drop"). `n_computed` texts took `seconds`; all others were in the cache or
    repeated. `truncated` marks the texts that the model truncated; it is None where the model
    cannot tell. `tokens` are those that an endpoint counted for the computed texts.
    """

    vectors: Floats32
    n_computed: int
    seconds: float
    truncated: Flags | None
    empty: Flags
    tokens: int | None = None


class TextModel(ABC):
    """Texts to vectors under settings.

    `repeatable` says that the fingerprint tells all that vectors depend on. Where it is false (a
    function of your own without a fingerprint), results may not be taken from an earlier run.
    """

    spec: str
    settings: EncoderSettings
    repeatable: bool

    def __repr__(self) -> str:
        """The spec: settings are where they were given, and a fingerprint takes a while."""
        return f"<text model {self.spec!r}>"

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """The same for the same spec, settings, versions and weights."""

    @abstractmethod
    def encode_docs(
        self, texts: Sequence[str], progress: Progress | None = None, *, ids: Any = None
    ) -> Encoded:
        """Vectors of documents; ids matter only where vectors were computed beforehand."""

    @abstractmethod
    def encode_queries(
        self, texts: Sequence[str], progress: Progress | None = None, *, ids: Any = None
    ) -> Encoded:
        """Vectors of queries; ids matter only where vectors were computed beforehand."""


class ComputedModel(TextModel):
    """A text model whose vectors an encoder computes, here or where `elsewhere` sends batches."""

    def __init__(
        self,
        encoder: Encoder,
        settings: EncoderSettings,
        cache: EmbeddingCache | None = None,
        elsewhere: BatchMap | None = None,
        warm_up: bool = False,
    ) -> None:
        self.spec = encoder.spec
        self.settings = settings
        self.repeatable = encoder.repeatable
        self.encoder = encoder
        self._cache = cache
        self._elsewhere = elsewhere
        self._warm_up = warm_up and encoder.warm_up

    @cached_property
    def _identity(self) -> dict[str, Any]:
        return dict(self.encoder.identity())

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint_of(
            {"spec": self.spec, "identity": self._identity, "settings": self.settings.identity}
        )

    @property
    def fingerprint(self) -> str:
        """Of spec, settings, versions and weights, as far as they can be known."""
        return self._fingerprint

    @cached_property
    def _model_cache(self) -> ModelCache | None:
        """The place of this model's vectors in the cache.

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
        return self._cache.of_model(fingerprint_of(made_by), self.spec)

    def encode_docs(
        self, texts: Sequence[str], progress: Progress | None = None, *, ids: Any = None
    ) -> Encoded:
        """Vectors of documents."""
        return self._encode(texts, self.settings.doc_prefix, progress)

    def encode_queries(
        self, texts: Sequence[str], progress: Progress | None = None, *, ids: Any = None
    ) -> Encoded:
        """Vectors of queries; they are few, and a model of their own encodes them here."""
        return self._for_queries._encode(texts, self.settings.query_prefix, progress)

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
            raise ShapeError(f"All {len(checked)} texts for encoder {self.spec!r} are empty.")
        work = _EncodingRun(self.encoder, self._encode_batches, self._model_cache, list(place))
        work.run(progress)
        rows = np.fromiter((place.get(text, -1) for text in full), np.int64, len(full))
        flags = _spread(work.flags, rows)
        return Encoded(
            shape_vectors(_spread(work.vectors, rows), self.settings, self.spec),
            work.n_computed,
            work.seconds,
            None if (flags == _CANNOT_TELL).any() else flags.astype(bool),
            rows < 0,
            work.tokens,
        )

    def _encode_batches(self, batches: Batches) -> Iterator[EncodedBatch]:
        if self._elsewhere is not None:
            return self._elsewhere(self.fingerprint, batches)
        return self._encode_here(batches)

    def _encode_here(self, batches: Batches) -> Iterator[EncodedBatch]:
        """Batch by batch; what a model does at its first call (imports, loading) has no share."""
        for number, (first, texts) in enumerate(batches):
            if self._warm_up:
                self.encoder.encode_batch(texts[:1], first)
                self._warm_up = False
            started = time.perf_counter()
            vectors = self.encoder.encode_batch(texts, first)
            yield EncodedBatch(number, vectors, time.perf_counter() - started)


def checked_texts(texts: Any, spec: str) -> list[str]:
    """The texts as a list; empty ones may be among them."""
    checked = checks.as_list(texts, f"The texts for encoder {spec!r}")
    if not checked:
        raise ShapeError(f"There are no texts for encoder {spec!r} to encode. Give at least one.")
    for row, text in enumerate(checked):
        flaw = checks.flaw_of(text)
        if flaw:
            raise ValueRangeError(f"Text {row} for encoder {spec!r} {flaw}.")
    return checked


def _spread(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """The values of the distinct texts, one for each text; zero for the empty ones."""
    if np.array_equal(rows, np.arange(len(values))):
        return values
    spread = values[rows]
    spread[rows < 0] = 0
    return spread


class _EncodingRun:
    """Distinct texts on their way to vectors: from the cache, then from the model."""

    def __init__(
        self,
        encoder: Encoder,
        encode: Callable[[Batches], Iterator[EncodedBatch]],
        model_cache: ModelCache | None,
        texts: list[str],
    ) -> None:
        self._encoder, self._encode, self._texts = encoder, encode, texts
        self._model_cache = model_cache
        self.vectors: Floats32 = np.empty((len(texts), 0), np.float32)
        self.flags = np.zeros(len(texts), np.uint8)
        self.n_computed, self.seconds = 0, 0.0
        self.tokens: int | None = None

    def run(self, progress: Progress | None) -> None:
        """Take what is in the cache, compute the rest, and store that, batch by batch."""
        total, size = len(self._texts), self._encoder.batch_size
        keys = None if self._model_cache is None else content_keys(self._texts)
        missing = self._missing(keys)
        done = total - len(missing)
        if progress is not None and done:
            progress(done, total)
        batches = [missing[start : start + size] for start in range(0, len(missing), size)]
        for encoded in self._encode((int(rows[0]), self._texts_of(rows)) for rows in batches):
            batch = batches[encoded.number]
            self._take(batch, encoded)
            if self._model_cache is not None and keys is not None:
                self._model_cache.add(keys[batch], self.vectors[batch], self.flags[batch])
            if progress is not None:
                progress(done + self.n_computed, total)

    def _missing(self, keys: Keys | None) -> NDArray[np.int64]:
        if self._model_cache is None or keys is None:
            return np.arange(len(self._texts))
        lookup = self._model_cache.find(keys)
        if lookup.vectors is not None:
            self.vectors, self.flags = lookup.vectors, lookup.flags
        return np.flatnonzero(~lookup.known)

    def _texts_of(self, rows: NDArray[np.int64]) -> list[str]:
        return [self._texts[row] for row in rows]

    def _take(self, batch: NDArray[np.int64], encoded: EncodedBatch) -> None:
        rows, truncated, tokens = encoded.batch
        self.tokens = add_tokens(self.tokens, tokens)
        self.seconds += encoded.seconds
        self.n_computed += len(batch)
        self._make_room(rows.shape[1])
        self.vectors[batch] = rows
        self.flags[batch] = _CANNOT_TELL if truncated is None else truncated

    def _make_room(self, width: int) -> None:
        if not self.vectors.shape[1]:
            self.vectors = np.zeros((len(self._texts), width), np.float32)
        if self.vectors.shape[1] != width:
            raise ShapeError(
                f"Encoder {self._encoder.spec!r} returned {width} dimensions, but "
                f"{self.vectors.shape[1]} for other texts, in this run or in the cache. If the "
                "model has changed, clear the cache."
            )
