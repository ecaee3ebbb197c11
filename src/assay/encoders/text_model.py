"""text_model: documents and queries to vectors, each text computed once, under stated settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay import checks
from assay.encoders.base import BatchMap, Progress
from assay.encoders.cache import EmbeddingCache
from assay.encoders.settings import EncoderSettings
from assay.encoders.specs import encoder, kind_of

__all__ = ["Encoded", "TextModel", "text_model"]

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Vectors of texts, one row each.

    A text with nothing in it is not sent to a model: `empty` marks it and its row is zero (search
    with zero="last" or "drop"). `n_computed` texts took `seconds`; all others were in the cache or
    stood twice. `truncated` marks the texts that the model did not read to their end; it is None
    where the model cannot tell.
    """

    vectors: Floats
    n_computed: int
    seconds: float
    truncated: Flags | None
    empty: Flags


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


def text_model(
    spec: str,
    *,
    settings: EncoderSettings | None = None,
    cache: EmbeddingCache | None = None,
    device: str | None = None,
    elsewhere: BatchMap | None = None,
) -> TextModel:
    """The text model that a spec names, e.g. "wordllama" or "st:all-MiniLM-L6-v2".

    With a cache, a text is computed once for all runs, and an interrupted run goes on where it
    stopped. `elsewhere` encodes batches where this is not: `assay.cluster.ClusterBatches`.
    """
    from assay.encoders.computed import ComputedModel
    from assay.encoders.precomputed import PrecomputedModel

    given = EncoderSettings() if settings is None else settings
    checks.require(given, EncoderSettings, "settings", "EncoderSettings(...)")
    if isinstance(spec, str) and kind_of(spec)[0] == "npy":
        return PrecomputedModel(spec, given)
    return ComputedModel(encoder(spec, device=device, settings=given), given, cache, elsewhere)
