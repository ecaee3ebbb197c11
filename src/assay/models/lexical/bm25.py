"""`bm25`: BM25 by the package bm25s, which works the weights of all words out beforehand.

The method names are those of the package, after Kamphuis et al., "Which BM25 do you mean?"
(ECIR 2020): `lucene`, `robertson`, `atire`, `bm25l`, `bm25+`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from assay.errors import UsageError, need
from assay.io.fingerprints import fingerprint_of, version_of
from assay.models.lexical.base import SparseFitted, check_number, checked_texts
from assay.models.lexical.words import Splitter, WordSettings

_METHODS: Final = ("lucene", "robertson", "atire", "bm25l", "bm25+")
_EXTRA: Final = "lexical"


@dataclass(frozen=True)
class Bm25(WordSettings):
    """Settings of BM25; k1 and b are those of Anserini and of BEIR's published baseline.

    `delta` is used by bm25l and bm25+ only. Repeated query words count as often as they occur.
    """

    k1: float = 0.9
    b: float = 0.4
    method: str = "lucene"
    delta: float = 0.5

    def __post_init__(self) -> None:
        """Check the settings before any text is read."""
        check_number(self.k1, "k1", least=0, most=1000)
        check_number(self.b, "b", least=0, most=1)
        check_number(self.delta, "delta", least=0, most=1000)
        if self.method not in _METHODS:
            raise UsageError(f"method is one of {', '.join(_METHODS)}, found {self.method!r}.")
        self.check_words()

    @property
    def spec(self) -> str:
        """The spec of the model."""
        return "bm25"

    @property
    def fingerprint(self) -> str:
        """Of the settings and the version of bm25s."""
        numbers = {name: float(getattr(self, name)) for name in ("k1", "b", "delta")}
        settings = {"method": self.method, **numbers, **self.words_identity}
        return fingerprint_of({"model": "bm25", "bm25s": version_of("bm25s"), **settings})

    def fit(self, doc_texts: Sequence[str]) -> SparseFitted:
        """Weights of the words of these documents."""
        package = need("bm25s", "The model 'bm25'", _EXTRA)
        texts = checked_texts(doc_texts, "The documents")
        split = self.splitter()
        numbers, rows = _number_words(split, texts)
        if not numbers:
            raise UsageError("No document has a word that is not a stop word.")
        matrix = self._weights(package, rows, len(numbers))
        return SparseFitted(matrix, partial(_query_rows, numbers, split))

    def _weights(self, package: Any, rows: list[array[int]], n_words: int) -> Any:
        """Words × documents; the package's own weights, in float64."""
        sparse = need("scipy.sparse", "The model 'bm25'", _EXTRA)
        model = package.BM25(
            k1=self.k1, b=self.b, delta=self.delta, method=self.method, dtype="float64"
        )
        index = model.build_index_from_ids(list(range(n_words)), rows, show_progress=False)
        parts = index["data"], index["indices"], index["indptr"]
        by_word = sparse.csr_array(parts, shape=(n_words, len(rows)))
        by_word.sort_indices()
        return by_word


def _number_words(split: Splitter, texts: list[str]) -> tuple[dict[str, int], list[array[int]]]:
    """Words in alphabetical order, and each document as numbers: a word is held once as text."""
    seen: dict[str, int] = {}
    rows = [array("i", [seen.setdefault(word, len(seen)) for word in split(t)]) for t in texts]
    words = sorted(seen)
    number = np.empty(len(seen), np.int32)
    number[[seen[word] for word in words]] = np.arange(len(seen))
    sorted_rows = [array("i", number[np.frombuffer(row, np.int32)].tobytes()) for row in rows]
    return {word: i for i, word in enumerate(words)}, sorted_rows


def _query_rows(numbers: dict[str, int], split: Splitter, texts: list[str]) -> Any:
    """Queries × words: how often each word occurs in each query."""
    sparse = need("scipy.sparse", "The model 'bm25'", _EXTRA)
    counts = [Counter(numbers[word] for word in split(text) if word in numbers) for text in texts]
    starts = np.cumsum([0, *map(len, counts)])
    words = [word for row in counts for word in sorted(row)]
    times = [float(row[word]) for row in counts for word in sorted(row)]
    return sparse.csr_array((times, words, starts), shape=(len(texts), len(numbers)))
