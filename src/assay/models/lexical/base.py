"""What a lexical model is: settings, a fingerprint, and `fit`, which gives what can search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.core.ranking import sort_rows
from assay.errors import ShapeError, UsageError, ValueRangeError

# Document numbers (queries × k, −1 where no document is left) and their scores (0 there).
Best = tuple[NDArray[np.int64], NDArray[np.float64]]


class FittedLexical(Protocol):
    """A model that knows its documents."""

    @property
    def n_docs(self) -> int:
        """How many documents there are."""

    def search(self, query_texts: Sequence[str], k: int) -> Best:
        """The k best documents of each query: score descending, then row ascending.

        A document that shares nothing with the query is not found: its place is −1.
        """


class LexicalModel(Protocol):
    """Settings of a model that is fitted to a collection."""

    @property
    def spec(self) -> str:
        """The spec of the model."""

    @property
    def fingerprint(self) -> str:
        """The same for the same settings and versions; another for others."""

    def fit(self, doc_texts: Sequence[str]) -> FittedLexical:
        """Count the words of the documents."""


_WARM_UP: Final = ("warm up 1", "warm up 東京 2")  # words of both kinds of scripts


def warm_up(model: LexicalModel) -> None:
    """Fit a copy to two texts and search: packages are imported, tables of characters made."""
    little: Any = (
        replace(cast("Any", model), dimensions=1) if hasattr(model, "dimensions") else model
    )
    with suppress(UsageError):  # words by a pattern may be none of these; the texts will tell
        little.fit(_WARM_UP).search(_WARM_UP[:1], 1)


def checked_texts(texts: Any, what: str) -> list[str]:
    """The texts as a list; empty ones are texts too: they hold no words."""
    checked = checks.as_list(texts, what)
    if not checked:
        raise ShapeError(f"{what}: there are none. Give at least one text.")
    for row, text in enumerate(checked):
        if not isinstance(text, str):
            raise ValueRangeError(
                f"{what}: row {row} is {type(text).__name__}, not text: {text!r:.60}."
            )
    return checked


def check_number(value: Any, name: str, *, least: float, most: float) -> float:
    """A setting that is a number in a range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueRangeError(
            f"{name} must be a number from {least:g} to {most:g}, found {value!r}."
        )
    return float(value)


_QUERIES_AT_ONCE: Final = 64


@dataclass(frozen=True, eq=False)
class SparseFitted:
    """Weights of words in documents (words × documents) and what makes rows of queries."""

    matrix: Any
    query_rows: Callable[[list[str]], Any]

    @property
    def n_docs(self) -> int:
        """How many documents there are."""
        return int(self.matrix.shape[1])

    def search(self, query_texts: Sequence[str], k: int) -> Best:
        """The k best documents of each query; what shares no word with it is not found."""
        texts = checked_texts(query_texts, "The queries")
        k = checks.check_cutoff(k)
        docs = np.full((len(texts), k), -1, np.int64)
        scores = np.zeros((len(texts), k))
        for start in range(0, len(texts), _QUERIES_AT_ONCE):
            rows = self.query_rows(texts[start : start + _QUERIES_AT_ONCE])
            sums = (rows @ self.matrix).tocsr()
            for row, (first, last) in enumerate(zip(sums.indptr, sums.indptr[1:], strict=False)):
                numbers, values = sums.indices[first:last], sums.data[first:last]
                best = best_of_row(numbers, values, k)
                docs[start + row, : len(best)] = numbers[best]
                scores[start + row, : len(best)] = values[best]
        return docs, scores


def best_of_row(
    docs: NDArray[np.integer[Any]], scores: NDArray[np.float64], k: int
) -> NDArray[np.int64]:
    """Places of the k best that are not zero: score descending, then document ascending."""
    places = np.flatnonzero(scores)
    if len(places) > k:
        values = scores[places]
        places = places[values >= np.partition(values, len(values) - k)[len(values) - k]]
    whole = np.array([0, len(places)], np.int64)
    order = sort_rows(whole, scores[places], docs[places].astype(np.int64))
    return places[order[:k]]
