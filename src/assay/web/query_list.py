"""Lists of queries: their texts beside the ids, and the search among thousands of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from assay.arrays import Ints
from assay.core.ids import Ids
from assay.core.text import printable
from assay.store import Run, Store
from assay.store.summaries import read_query_texts
from assay.web.page import PageRequest

__all__ = ["QueryNeighbours", "find_queries", "neighbours_of", "read_texts", "row_notes"]

_LONGEST: Final = 160  # what fits beside an id; the page of the query has the whole text


def read_texts(store: Store, runs: Sequence[Run], queries: Sequence[Any]) -> dict[str, str]:
    """The beginnings of the texts of queries, by query id."""
    names = [str(query) for query in queries]
    with store.database.reading() as connection:
        for run in runs:
            found = read_query_texts(connection, run.id, names)
            if found:
                return {query: _shorten(text) for query, text in found.items()}
    return {}


def row_notes(texts: dict[str, str], queries: Sequence[Any]) -> list[str]:
    """A text for each row of a table of queries; nothing where there are none at all."""
    return [texts.get(str(query), "") for query in queries] if texts else []


def _shorten(text: str) -> str:
    """The beginning of a text in one line.

    >>> _shorten("two\\nlines")
    'two lines'
    """
    line = " ".join(text[: 2 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[:_LONGEST].rstrip() + "…"


def find_queries(request: PageRequest, runs: Sequence[Run], ids: Ids, positions: Ints) -> Ints:
    """Those of the positions whose query has the searched words in its id or its text."""
    words = request.params.get("q").casefold().split()
    if not words:
        return positions
    texts = _all_texts(request, runs)
    known: Sequence[Any] = ids.take(positions).to_list()
    found = [_has(words, str(query), texts) for query in known]
    matching: Ints = positions[np.asarray(found, bool)]
    return matching


def _has(words: Sequence[str], query: str, texts: dict[str, str]) -> bool:
    text = f"{printable(query)} {texts.get(query, '')}".casefold()
    return all(word in text for word in words)


def _all_texts(request: PageRequest, runs: Sequence[Run]) -> dict[str, str]:
    for run in runs:
        found = request.cache.texts(request.store, run)
        if found:
            return found
    return {}


class QueryNeighbours:
    """Where a query stands in a list: its place, and the addresses of those beside it."""

    def __init__(self, request: PageRequest, queries: Sequence[Any], place: int) -> None:
        self.place, self.total = place + 1, len(queries)
        ends = (place - 1, place + 1)
        self.before, self.after = (
            request.params.address(request.path, query=queries[at]) if 0 <= at < self.total else ""
            for at in ends
        )


def neighbours_of(
    request: PageRequest, query: str, ids: Ids, positions: Ints
) -> QueryNeighbours | None:
    """The neighbours of a query among some in an order; None where it is not among them."""
    queries = ids.take(positions).to_list()
    place = next((i for i, one in enumerate(queries) if str(one) == query), None)
    return None if place is None else QueryNeighbours(request, queries, place)
