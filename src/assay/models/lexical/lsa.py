"""`lsa:DIM`: TF-IDF vectors brought down to DIM dimensions by a truncated SVD.

Deerwester et al., "Indexing by latent semantic analysis" (1990); scikit-learn computes it. The
SVD is randomised under a fixed seed; its last digits depend on the machine's BLAS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.errors import UsageError, need
from assay.io.fingerprints import fingerprint_of
from assay.models.lexical.base import Best, check_number, checked_texts
from assay.models.lexical.tfidf import check_settings, fitted_vectorizer, settings_of
from assay.models.lexical.words import WordSettings
from assay.search.engine import rank


@dataclass(frozen=True)
class Lsa(WordSettings):
    """Settings of latent semantic analysis."""

    dimensions: int = 200
    sublinear: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the settings before any text is read."""
        checks.check_cutoff(self.dimensions, "The dimensions of lsa")
        check_number(self.seed, "seed", least=0, most=2**32 - 1)
        checks.require(self.seed, int, "seed", "a whole number")
        check_settings(self)

    @property
    def spec(self) -> str:
        """The spec of the model."""
        return f"lsa:{self.dimensions}"

    @property
    def fingerprint(self) -> str:
        """Of the settings and the version of scikit-learn."""
        return fingerprint_of({"model": "lsa", **settings_of(self)})

    def fit(self, doc_texts: Sequence[str]) -> DenseFitted:
        """Vectors of these documents, and the space that queries are brought into."""
        vectorizer, rows = fitted_vectorizer(self, doc_texts)
        if self.dimensions > min(rows.shape):
            raise UsageError(
                f"{self.spec!r}: {rows.shape[0]} documents with {rows.shape[1]} different words "
                f"span at most {min(rows.shape)} dimensions."
            )
        package = need("sklearn.decomposition", f"The model {self.spec!r}", "lexical")
        space = package.TruncatedSVD(self.dimensions, random_state=self.seed)
        return DenseFitted(_float32(space.fit_transform(rows)), vectorizer, space)


@dataclass(frozen=True, eq=False)
class DenseFitted:
    """Vectors of the documents in the reduced space."""

    doc_vectors: NDArray[np.float32]
    vectorizer: Any
    space: Any

    @property
    def n_docs(self) -> int:
        """How many documents there are."""
        return len(self.doc_vectors)

    def query_vectors(self, query_texts: Sequence[str]) -> NDArray[np.float32]:
        """Queries in the space of the documents; one without known words is a zero row."""
        texts = checked_texts(query_texts, "The queries")
        return _float32(self.space.transform(self.vectorizer.transform(texts)))

    def search(self, query_texts: Sequence[str], k: int) -> Best:
        """The exact k best documents by cosine; rows of zeros retrieve nothing."""
        vectors, k = self.query_vectors(query_texts), checks.check_cutoff(k)
        docs = np.full((len(vectors), k), -1, np.int64)
        scores = np.zeros((len(vectors), k))
        nonzero = np.flatnonzero(vectors.any(axis=1))
        if not len(nonzero) or not self.doc_vectors.any():
            return docs, scores
        ranking = rank(vectors[nonzero], self.doc_vectors, k, zero="drop")
        for row, query in enumerate(nonzero):
            part = slice(ranking.offsets[row], ranking.offsets[row + 1])
            docs[query, : part.stop - part.start] = ranking.docs[part]
            scores[query, : part.stop - part.start] = ranking.scores[part]
        return docs, scores


def _float32(rows: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows, np.float32)
