"""Texts of queries, for lists of queries: from the first run that stored them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from assay.store import Run, Store
from assay.store.overviews import query_texts

__all__ = ["beside", "texts_of"]

_LONGEST: Final = 160  # what fits beside an id; the page of the query has all


def texts_of(store: Store, runs: Sequence[Run], queries: Sequence[Any]) -> dict[str, str]:
    """The beginnings of the texts of queries, by query id."""
    names = [str(query) for query in queries]
    with store.database.reading() as connection:
        for run in runs:
            found = query_texts(connection, run.id, names)
            if found:
                return {query: _shortened(text) for query, text in found.items()}
    return {}


def beside(texts: dict[str, str], queries: Sequence[Any]) -> list[str]:
    """A text for each row of a table of queries; nothing where there are none at all."""
    return [texts.get(str(query), "") for query in queries] if texts else []


def _shortened(text: str) -> str:
    """The beginning of a text in one line.

    >>> _shortened("two\\nlines")
    'two lines'
    """
    line = " ".join(text[: 2 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[:_LONGEST].rstrip() + "…"
