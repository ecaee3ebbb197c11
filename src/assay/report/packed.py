"""Values and details of single queries, packed for the script of a page."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.hits import Hits
from assay.core.text import printable
from assay.runs.leaderboard import Leaderboard
from assay.runs.results import QueryResults, ResultDoc

__all__ = ["MOST_VALUES", "pack", "pack_pairs", "pack_queries", "pack_values"]

MOST_VALUES: Final = 400_000  # beyond, a page would grow by more than a megabyte
_STEPS: Final = 10_000
_UNDEFINED: Final = 65_535
_MOST_DETAILED: Final = 2_000  # queries
_MOST_RANKS: Final = 20
_TEXT: Final = 400  # characters of a query


def pack(data: bytes) -> str:
    """Bytes as text that a page's script can unpack: gzip, then base64; always the same text."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")


def _pack_json(data: Any) -> str:
    return pack(json.dumps(data, separators=(",", ":"), allow_nan=False).encode())


def pack_values(board: Leaderboard) -> dict[str, Any]:
    """Queries, and for each measure that fits the values of every run, for the page's script."""
    values = board.aligned.values
    n_runs, n_measures, n_queries = values.shape
    kept = min(n_measures, MOST_VALUES // max(n_runs * n_queries, 1))
    return {
        "queries": [printable(query) for query in board.aligned.query_ids] if kept else [],
        "measures": [_pack_array(values[:, number]) for number in range(kept)],
    }


def _pack_array(values: Floats) -> dict[str, str]:
    known = values[~np.isnan(values)]
    if known.size and (known.min() < 0 or known.max() * _STEPS >= _UNDEFINED):
        return {"kind": "floats", "data": pack(values.astype("<f4").tobytes())}
    steps = np.where(np.isnan(values), _UNDEFINED, np.round(values * _STEPS))
    pairs = steps.astype("<u2").ravel().view(np.uint8)
    return {"kind": "steps", "data": pack(pairs[0::2].tobytes() + pairs[1::2].tobytes())}


def pack_pairs(board: Leaderboard) -> str | None:
    """For each measure and pair by the numbers of its runs: low, high and p as texts, the outcome.

    The texts are rounded as tables round them.
    """
    if board.comparison is None:
        return None
    place = {name: i for i, name in enumerate(board.names)}
    found: dict[str, dict[str, list[str]]] = {}
    for pair in board.comparison.pairs:
        ends = [f"{end:+.4f}" for end in (pair.difference, pair.interval.low, pair.interval.high)]
        told = [*ends, f"{pair.p:.4f}", pair.outcome]
        key = f"{place[pair.a]},{place[pair.b]}"
        found.setdefault(str(pair.measure), {})[key] = told
    return _pack_json(found)


def pack_queries(board: Leaderboard, room: int) -> dict[str, Any]:
    """Texts of queries, and what each run found and missed, as far as there is room.

    Where there is not room for all, queries on which the runs differ most come first.
    """
    texts = [_text_of(board, str(query)) for query in board.aligned.query_ids]
    packed = _pack_json(texts) if any(texts) else ""
    shown = packed if len(packed) <= room // 2 else ""
    details = _Details(board)
    order = _by_spread(board.aligned.values[:, 0])[:_MOST_DETAILED] if details.known else []
    left = room - len(shown)
    while order:
        found = _pack_json(details.of(order))
        if len(found) <= left:
            return {"texts": shown, "details": found, "detailed": len(order)}
        order = order[: len(order) * 9 * left // (10 * len(found))]
    return {"texts": shown, "details": "", "detailed": 0}


def _text_of(board: Leaderboard, query: str) -> str:
    for run in board.runs:
        found = run.results.get(query)
        if found is not None and found.text:
            return printable(found.text[:_TEXT])
    return ""


def _by_spread(values: Floats) -> list[int]:
    """Queries from the largest to the smallest difference between runs."""
    known = np.where(np.isnan(values), 0.0, values)
    spread = np.ptp(known, axis=0) if len(known) > 1 else -known[0]
    return [int(i) for i in np.argsort(-spread, kind="stable")]


class _Details:
    """What is known of single queries: ranks of relevant documents, and documents by name."""

    def __init__(self, board: Leaderboard) -> None:
        self._queries = list(map(str, board.aligned.query_ids))
        self._runs = board.runs
        self._rel = float(dict(board.measures[0].params).get("rel", 1))  # type: ignore[arg-type]
        self._rows = [_rows_of(run.hits) for run in board.runs]
        self._docs: dict[tuple[str, str], int] = {}

    @property
    def known(self) -> bool:
        """Whether anything is."""
        return any(run.hits is not None or len(run.results) for run in self._runs)

    def of(self, order: Iterable[int]) -> dict[str, Any]:
        """By the number of a query, for each run: ranks, their number, relevant, found, missed."""
        self._docs = {}
        queries = {number: self._query(self._queries[number]) for number in order}
        docs = [[printable(name), printable(snippet)] for name, snippet in self._docs]
        return {"queries": queries, "docs": docs}

    def _query(self, query: str) -> list[Any]:
        return [self._of_run(query, number) for number in range(len(self._runs))]

    def _of_run(self, query: str, number: int) -> list[Any]:
        run = self._runs[number]
        found = run.results.get(query)
        row = self._rows[number].get(query)
        if run.hits is not None and row is not None:
            ranks, total = _relevant(run.hits, row, self._rel)
        else:
            ranks, total = self._ranks(found), None
        known = [ranks[:_MOST_RANKS], len(ranks), total]
        if found is None:
            return known
        listed = [list(map(self._doc, docs)) for docs in (found.results, found.missed)]
        return [*known, *listed]

    def _ranks(self, found: QueryResults | None) -> list[int]:
        docs = () if found is None else found.results
        return [rank for rank, doc in enumerate(docs, 1) if (doc.grade or 0) >= self._rel]

    def _doc(self, doc: ResultDoc) -> list[Any]:
        """The number of the document, its grade, and whether it was retrieved."""
        number = self._docs.setdefault((doc.doc, doc.snippet), len(self._docs))
        return [number, doc.grade, int(doc.score is not None)]


def _rows_of(hits: Hits | None) -> Mapping[str, int]:
    return {} if hits is None else {str(query): i for i, query in enumerate(hits.query_ids)}


def _relevant(hits: Hits, row: int, rel: float) -> tuple[list[int], int]:
    """Ranks of the relevant documents that were found, and how many there are."""
    here, pool = _part(hits.offsets, row), _part(hits.pool_offsets, row)
    good = hits.grade[here] >= rel
    total = int(hits.pool_count[pool][hits.pool_grade[pool] >= rel].sum())
    return sorted(hits.rank[here][good].tolist()), total


def _part(offsets: Ints, row: int) -> slice:
    return slice(int(offsets[row]), int(offsets[row + 1]))
