"""Searching a collection with one model: words, vectors by exact search, or another's index."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32, Ints, offsets_of
from assay.core import checks, order
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import UsageError
from assay.search.engine import rank
from assay.search.indexes import build_index, measure_index
from assay.tasks.bench.collection import Prepared

if TYPE_CHECKING:
    from assay.cluster import Cluster
    from assay.models import EmbeddingCache, Encoded, TextModel
    from assay.models.lexical.base import LexicalModel
    from assay.search.indexes import IndexReport

__all__ = [
    "Choices",
    "Costs",
    "Dense",
    "Fold",
    "Found",
    "Timer",
    "Watch",
    "Words",
    "encode",
    "fit",
    "fold_chunks",
    "search_dense",
    "search_index",
    "search_words",
    "tell",
]


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes; None where there is no such thing.

    `n_encoded` texts took `encode_seconds`; those that came from the cache count in neither.
    `search_seconds` is for all queries.
    """

    encode_seconds: float = 0.0
    n_encoded: int = 0
    dimension: int | None = None
    bytes: int | None = None
    build_seconds: float | None = None
    search_seconds: float = 0.0

    @property
    def texts_per_second(self) -> float | None:
        """How fast texts were encoded, or documents fitted; None where all came from the cache."""
        if not self.n_encoded or not self.encode_seconds:
            return None
        return self.n_encoded / self.encode_seconds

    def searched(self, seconds: float) -> Costs:
        """The same with the time of the search."""
        return replace(self, search_seconds=seconds)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "texts_per_second": self.texts_per_second}


class Timer:
    """Seconds between the beginning and the end of a `with` block."""

    seconds = 0.0

    def __enter__(self) -> Timer:
        """Begin."""
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self.seconds = time.perf_counter() - self._began


Metric = Literal["cosine", "dot", "l2"]
# Called with what is done, how much of it is done, and how much there is to do.
Watch = Callable[[str, int, int | None], None]

_MOST_SCORES: Final = 20_000_000  # of chunks at once, where all of them are needed


@dataclass(frozen=True, eq=False)
class Choices:
    """What all contestants have in common."""

    depth: int
    fold: Fold
    metric: Metric
    tiebreak: str
    threads: int | None = None
    device: str | None = None
    cache: EmbeddingCache | None = None
    watch: Watch | None = None
    cluster: Cluster | None = None


@dataclass(frozen=True, eq=False)
class Found:
    """What one contestant retrieved and what it cost.

    `n_cut` of `n_texts` texts were longer than the model reads; None where it cannot tell.
    `n_without` texts have a vector of zeros, or none: they cannot be found.
    """

    ranking: Ranking
    costs: Costs
    fingerprint: str
    n_texts: int
    n_cut: int | None = None
    n_without: int = 0
    index: IndexReport | None = None


@dataclass(frozen=True, eq=False)
class Dense:
    """Vectors of the units and of the queries, and what they cost."""

    docs: Floats32
    queries: Floats32
    costs: Costs
    fingerprint: str
    n_cut: int | None

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which units have a vector that is not zero."""
        return np.asarray(self.docs.any(axis=1))


@dataclass(frozen=True, eq=False)
class Words:
    """A lexical model that is fitted to the units, and what that cost."""

    fitted: Any
    costs: Costs
    fingerprint: str

    def dense(self, data: Prepared) -> Dense | None:
        """The vectors, if the model makes some."""
        if not hasattr(self.fitted, "doc_vectors"):
            return None
        asked = self.fitted.query_vectors(list(data.query_texts))
        return Dense(self.fitted.doc_vectors, asked, self.costs, self.fingerprint, None)


def fit(name: str, lexical: LexicalModel, data: Prepared, choices: Choices) -> Words:
    """Fit a lexical model to the units."""
    tell(choices, f"{name}: fitting", 0, None)
    with Timer() as fitting:
        fitted: Any = lexical.fit(list(data.unit_texts))
    made = getattr(fitted, "doc_vectors", None)
    costs = Costs(
        encode_seconds=fitting.seconds,
        n_encoded=data.n_units,
        dimension=None if made is None else made.shape[1],
        bytes=_bytes_of(fitted) if made is None else made.nbytes,
    )
    return Words(fitted, costs, lexical.fingerprint)


def search_words(name: str, words: Words, data: Prepared, choices: Choices) -> Found:
    """Search by words; a document that shares none with the query is not found."""

    def search(rows: slice, k: int) -> Ranking:
        docs, scores = words.fitted.search(list(data.query_texts[rows]), k + 1)
        found = Ranking.from_arrays(
            docs, scores, query_ids=_part(data.query_ids, rows), n_docs=data.n_units
        )
        return found.first(k)  # the one more tells whether the cut divides a tie

    ranking, seconds = _timed(search, name, data, choices)
    return Found(ranking, words.costs.searched(seconds), words.fingerprint, data.n_units)


def encode(name: str, maker: TextModel, data: Prepared, choices: Choices) -> Dense:
    """Vectors of units and queries by a text model, through the cache."""
    docs, asked = _encoded(name, maker, data, choices)
    if docs.vectors.shape[1] != asked.vectors.shape[1]:
        raise UsageError(
            f"{name!r} makes {docs.vectors.shape[1]} dimensions of documents and "
            f"{asked.vectors.shape[1]} of queries."
        )
    costs = Costs(
        encode_seconds=docs.seconds + asked.seconds,
        n_encoded=docs.n_computed + asked.n_computed,
        dimension=docs.vectors.shape[1],
        bytes=docs.vectors.nbytes,
    )
    n_cut = None if docs.truncated is None else int(docs.truncated.sum())
    return Dense(docs.vectors, asked.vectors, costs, maker.fingerprint, n_cut)


def _encoded(
    name: str, maker: TextModel, data: Prepared, choices: Choices
) -> tuple[Encoded, Encoded]:
    if maker.spec.startswith("npy:"):
        tell(choices, f"{name}: reading", 0, None)
        docs, asked = data.docs_in_file, data.queries_in_file
        return (
            _taken(maker.encode_docs(docs.texts, ids=docs.ids), docs.rows),
            _taken(maker.encode_queries(asked.texts, ids=asked.ids), asked.rows),
        )
    return (
        maker.encode_docs(data.unit_texts, _progress(choices, f"{name}: documents")),
        maker.encode_queries(data.query_texts, _progress(choices, f"{name}: queries")),
    )


def _taken(encoded: Encoded, rows: NDArray[np.int64]) -> Encoded:
    return replace(encoded, vectors=encoded.vectors[rows], empty=encoded.empty[rows])


def search_dense(name: str, dense: Dense, data: Prepared, choices: Choices) -> Found:
    """Exact search; what has no direction is neither found nor finds anything."""
    usable = np.flatnonzero(dense.usable)
    vectors = dense.docs if len(usable) == len(dense.docs) else dense.docs[usable]

    def search(rows: slice, k: int) -> Ranking:
        made = rank(
            dense.queries[rows],
            vectors,
            k,
            metric=choices.metric,
            zero="drop",
            threads=choices.threads,
        )
        return _renumbered(made, usable, _part(data.query_ids, rows))

    if not len(usable):
        raise UsageError(f"{name!r} gives all documents a vector of zeros: nothing can be found.")
    ranking, seconds = _timed(search, name, data, choices)
    return Found(
        ranking,
        dense.costs.searched(seconds),
        dense.fingerprint,
        data.n_units,
        dense.n_cut,
        data.n_units - len(usable),
    )


def search_index(name: str, spec: str, dense: Dense, data: Prepared, choices: Choices) -> Found:
    """Search by another engine's index, and how much of the exact result it finds."""
    usable, asked = np.flatnonzero(dense.usable), np.flatnonzero(dense.queries.any(axis=1))
    vectors, queries = dense.docs[usable], dense.queries[asked]
    if not len(asked):
        raise UsageError(f"{name!r} gives all queries a vector of zeros: nothing can be found.")
    tell(choices, f"{name}: building", 0, None)
    with build_index(spec, vectors, metric=choices.metric, threads=choices.threads) as index:

        def search(rows: slice, k: int) -> Ranking:
            made = index.rank(queries[rows], min(k, len(usable)))
            return _renumbered(made, usable, data.query_ids.take(asked[rows]))

        ranking, seconds = _timed(search, name, data, choices, n_queries=len(asked))
        report = measure_index(index, queries, min(choices.depth, len(usable)))
    costs = replace(
        dense.costs,
        build_seconds=report.build_seconds,
        bytes=report.memory_bytes or report.disk_bytes or dense.costs.bytes,
    )
    fingerprint = f"{dense.fingerprint} {report.spec}"
    return Found(
        ranking,
        costs.searched(seconds),
        fingerprint,
        data.n_units,
        dense.n_cut,
        data.n_units - len(usable),
        report,
    )


def _renumbered(made: Ranking, units: NDArray[np.int64], query_ids: Ids) -> Ranking:
    """The same ranking of units that are numbered among all, for queries that have ids."""
    docs = units[made.docs].astype(np.int32)
    return replace(made, query_ids=query_ids, given_docs=docs, given_scores=made.scores)


def _part(ids: Ids, rows: slice) -> Ids:
    return ids.take(np.arange(len(ids))[rows])


Search = Callable[[slice, int], Ranking]


def _timed(
    search: Search, name: str, data: Prepared, choices: Choices, n_queries: int | None = None
) -> tuple[Ranking, float]:
    total = len(data.query_ids) if n_queries is None else n_queries
    tell(choices, f"{name}: searching", 0, None)
    began = time.perf_counter()
    found = [_to_docs(search, rows, data, choices) for rows in _blocks(total, data, choices)]
    seconds = time.perf_counter() - began
    tell(choices, f"{name}: searching", total, total)
    return _joined(found), seconds


def _blocks(n_queries: int, data: Prepared, choices: Choices) -> Iterator[slice]:
    """All queries at once, unless every chunk of every document is needed."""
    step = n_queries
    if data.chunked and choices.fold.best > 1:
        step = max(1, _MOST_SCORES // data.n_units)
    for start in range(0, n_queries, step):
        yield slice(start, min(start + step, n_queries))


def _to_docs(search: Search, rows: slice, data: Prepared, choices: Choices) -> Ranking:
    """The ranking of documents, from that of units."""
    if not data.chunked:
        made = search(rows, min(choices.depth, data.n_units))
        docs = data.unit_doc[made.docs].astype(np.int32)
        return replace(
            made,
            doc_ids=data.doc_ids,
            given_docs=docs,
            given_scores=made.scores,
            in_order=True,
            n_docs=len(data.doc_ids),
            tiebreak=choices.tiebreak,
            has_ids=True,
        )
    k = data.n_units if choices.fold.best > 1 else min(4 * choices.depth, data.n_units)
    while True:
        made = search(rows, k)
        folded = fold_chunks(
            replace(made, has_ids=True),
            data.unit_doc,
            doc_ids=data.doc_ids,
            fold=choices.fold,
            depth=choices.depth,
        )
        full = (folded.lengths >= choices.depth) | (made.lengths < k)
        if k >= data.n_units or full.all():
            return replace(folded, tiebreak=choices.tiebreak)
        k = min(4 * k, data.n_units)  # some query has found too few documents yet


def _joined(parts: list[Ranking]) -> Ranking:
    """Rankings of different queries as one."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([part.lengths for part in parts])
    divided = [
        np.zeros(len(part), bool) if part.divided is None else part.divided for part in parts
    ]
    return replace(
        parts[0],
        query_ids=Ids.concat([part.query_ids for part in parts]),
        offsets=offsets_of(lengths),
        given_docs=np.concatenate([part.docs for part in parts]),
        given_scores=np.concatenate([part.scores for part in parts]),
        in_order=True,
        divided=np.concatenate(divided),
    )


def _bytes_of(fitted: Any) -> int | None:
    """How much memory a sparse matrix takes."""
    matrix = getattr(fitted, "matrix", None)
    parts = [getattr(matrix, name, None) for name in ("data", "indices", "indptr")]
    known = [part.nbytes for part in parts if isinstance(part, np.ndarray)]
    return cast("int", sum(known)) if known else None


def tell(choices: Choices, what: str, done: int, total: int | None) -> None:
    """Say how far a contestant is, where somebody listens."""
    if choices.watch is not None:
        choices.watch(what, done, total)


def _progress(choices: Choices, what: str) -> Callable[[int, int], None] | None:
    watch = choices.watch
    if watch is None:
        return None
    return lambda done, total: watch(what, done, total)


@dataclass(frozen=True)
class Fold:
    """What a document is worth: the sum of its `best` chunks; 1 is its best chunk alone.

    >>> Fold.parse("max"), str(Fold.parse("sum:3"))
    (Fold(best=1), 'sum:3')
    """

    best: int = 1

    @classmethod
    def parse(cls, text: str) -> Fold:
        """From `max` or `sum:N`."""
        if text == "max":
            return cls(1)
        kind, _, number = text.partition(":")
        if kind != "sum" or not number.isascii() or not number.isdigit() or int(number) < 1:
            raise UsageError(f"Chunks are folded by 'max' or 'sum:N', such as sum:3, not {text!r}.")
        return cls(int(number))

    def __str__(self) -> str:
        """As it is written."""
        return "max" if self.best == 1 else f"sum:{self.best}"


def fold_chunks(
    chunks: Ranking, doc_of_chunk: Any, *, doc_ids: Ids, fold: Fold, depth: int
) -> Ranking:
    """The ranking of documents; chunk i belongs to document `doc_of_chunk[i]`.

    A document counts with the chunks that were retrieved; those that were not add nothing.

    >>> chunks = Ranking.from_scores([[0.2, 0.9, 0.8]])
    >>> fold_chunks(chunks, [0, 0, 1], doc_ids=Ids.count(2), fold=Fold(2), depth=2).row(0)
    [(0, 1.1), (1, 0.8)]
    """
    owner = checks.check_numbers(doc_of_chunk, len(doc_ids), "doc_of_chunk")
    rows, docs = order.rows_of(chunks.offsets), owner[chunks.docs]
    key = rows * len(doc_ids) + docs
    by_key = np.argsort(key, kind="stable")  # chunks of one document stay best first
    firsts, place = _places_in_group(key[by_key])
    counted = by_key[place < fold.best]
    group = np.searchsorted(firsts, np.flatnonzero(place < fold.best), side="right") - 1
    scores = np.zeros(len(firsts))
    np.add.at(scores, group, chunks.scores[counted])  # one by one, in the order of ranks
    heads = by_key[firsts]
    folded = Ranking(
        chunks.query_ids,
        doc_ids,
        np.searchsorted(rows[heads], np.arange(chunks.n_queries + 1)).astype(np.int64),
        docs[heads].astype(np.int32),
        scores,
        in_order=False,
        n_docs=len(doc_ids),
        has_ids=chunks.has_ids,
        search=chunks.search,
    )
    return replace(folded.first(depth), name=chunks.name)


def _places_in_group(keys: Ints) -> tuple[Ints, Ints]:
    """Where each run of equal keys begins, and the place of every element in its run."""
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    firsts = np.flatnonzero(new)
    return firsts, np.arange(len(keys)) - np.repeat(firsts, np.diff([*firsts, len(keys)]))
