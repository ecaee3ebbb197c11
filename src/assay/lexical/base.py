"""What a lexical model is: settings, a fingerprint, and `fit`, which gives what can search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from assay import checks
from assay.errors import ShapeError, ValueRangeError

__all__ = ["Best", "FittedModel", "LexicalModel", "check_number", "checked_texts"]

# Document numbers (queries × k, −1 where no document is left) and their scores (0 there).
Best = tuple[NDArray[np.int64], NDArray[np.float64]]


class FittedModel(Protocol):
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
        """How the model is asked for."""

    @property
    def fingerprint(self) -> str:
        """The same for the same settings and versions; another for others."""

    def fit(self, doc_texts: Sequence[str]) -> FittedModel:
        """Count the words of the documents."""


def checked_texts(texts: Any, what: str) -> list[str]:
    """The texts as a list; empty ones are texts too: they hold no words."""
    found = checks.listed(texts, what)
    if not found:
        raise ShapeError(f"{what}: there are none. Give at least one text.")
    for row, text in enumerate(found):
        if not isinstance(text, str):
            raise ValueRangeError(
                f"{what}: row {row} is {type(text).__name__}, not text: {text!r:.60}."
            )
    return found


def check_number(value: Any, name: str, *, least: float, most: float) -> float:
    """A setting that is a number in a range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueRangeError(
            f"{name} must be a number from {least:g} to {most:g}, found {value!r}."
        )
    return float(value)
