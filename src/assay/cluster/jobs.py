"""The checkpoint of a search over shards: a folder of finished blocks.

    job.json            what is computed: settings, queries, and fingerprints of all shards
    started             a line for each block that was handed to a worker
    b00002-s00007.part  block 2 of the queries, searched in shard 7
    b00001.done         block 1, searched in all shards; its parts are deleted

Parts are those of `assay.io.checkpoint`: what is damaged is noticed and computed again.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, Ints
from assay.cluster.executors import Handle, Receipt, Ticket
from assay.cluster.settings import Cluster, Step
from assay.cluster.shards import Corpus, Piece
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import IdError, MismatchError, ShapeError, UsageError
from assay.io.arrays import open_rows
from assay.io.checkpoint import Checkpoint
from assay.io.fingerprints import digest_of_arrays, fingerprint_of
from assay.search.engine.blocks import Metric, measure_rows
from assay.search.engine.inputs import (
    Excluded,
    Rows,
    Vectors,
    check_ids,
    choose_kernels,
    exclusions_of,
    matrix_of,
    widen,
)

_SCHEMA: Final = 1


class PartialResult(Protocol):
    """What a task computes, and a file can hold."""

    def arrays(self) -> Mapping[str, Array]:
        """Plain arrays."""


class ShardCheckpoint:
    """Finished blocks of one job in one folder; a folder that holds another job is refused."""

    def __init__(self, folder: str | os.PathLike[str], job: Mapping[str, Any]) -> None:
        job_now = json.loads(json.dumps({"schema": _SCHEMA, **job}))
        self._parts = Checkpoint(folder, fingerprint_of(_without_paths(job_now)))
        self._parts.make_folder()
        job_before = self._parts.read_job()
        if job_before is None:
            self._parts.write_job(job_now)
        else:
            _refuse_other_job(os.fspath(folder), job_before, job_now)
        self._started = os.path.join(folder, "started")
        self.started = self._read_started()

    @property
    def damaged(self) -> int:
        """Parts that were not what had been written."""
        return self._parts.damaged

    def _read_started(self) -> frozenset[tuple[int, int]]:
        """Blocks that were begun, for the count of those begun again; a torn line is none."""
        text = b""
        with suppress(FileNotFoundError), open(self._started, "rb") as file:
            text = file.read()
        lines = re.findall(rb"^([0-9]{1,9}) ([0-9]{1,9})\n", text, re.MULTILINE)
        return frozenset((int(block), int(shard)) for block, shard in lines)

    def start(self, block: int, shard: int) -> None:
        """Note that a worker got a block."""
        with open(self._started, "a", encoding="ascii") as file:
            file.write(f"{block} {shard}\n")

    def save(self, block: int, shard: int | None, part: PartialResult) -> None:
        """Write a block in one shard, or in all of them (None)."""
        self._parts.save(_name_of(block, shard), part.arrays())

    def load(self, block: int, shard: int | None) -> dict[str, Array] | None:
        """The arrays of a block; None where it is not there, or not sound."""
        part = self._parts.load(_name_of(block, shard))
        return None if part is None else part.arrays

    def forget_parts(self, block: int, n_shards: int) -> None:
        """Delete the parts of a block that is done."""
        self._parts.forget(_name_of(block, shard) for shard in range(n_shards))


def _name_of(block: int, shard: int | None) -> str:
    return f"b{block:05}.done" if shard is None else f"b{block:05}-s{shard:05}.part"


def _without_paths(job: Mapping[str, Any]) -> dict[str, Any]:
    """The job but for where its shards lie: they may move."""
    shards = [(shard["rows"], shard["sha256"]) for shard in job["shards"]]
    return {**job, "shards": shards}


def _refuse_other_job(folder: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    _refuse_changed_shards(folder, before.get("shards"), now["shards"])
    for key, value in now.items():
        if key != "shards" and before.get(key) != value:
            raise MismatchError(
                f"The checkpoint {folder} belongs to another job: {key} was "
                f"{before.get(key)!r:.80}, and is {value!r:.80} now. Give the same request, or "
                "another folder."
            )


def _refuse_changed_shards(folder: str, before: Any, now: list[dict[str, Any]]) -> None:
    """Shards may move, but what they hold stays; a changed one is named."""
    if not isinstance(before, list) or len(before) != len(now):
        count = len(before) if isinstance(before, list) else 0
        raise MismatchError(
            f"The checkpoint {folder} was made of {count} shards, and there are {len(now)} now. "
            "Give the same shards, or another folder."
        )
    for previous, new in zip(before, now, strict=True):
        old = previous if isinstance(previous, dict) else {}
        if (old.get("rows"), old.get("sha256")) != (new["rows"], new["sha256"]):
            raise MismatchError(
                f"Shard {new['path']} changed since the checkpoint {folder} was made: it had "
                f"{old.get('rows')} rows and SHA-256 {str(old.get('sha256'))[:12]}…, now "
                f"{new['rows']} and {new['sha256'][:12]}…. Restore it, or give another folder."
            )


_ARITY: Final = 8  # how many partial results are merged at once


class BlockTask(Protocol):
    """What is done with blocks; all of it runs on workers and can be pickled."""

    def search(self, queries: Any, piece: Piece, /, *extra: Any) -> Any:
        """A block of queries in one shard: a partial result."""

    def merge(self, *parts: Any) -> Any:
        """Partial results of different shards, as one."""

    def finish(self, part: Any, /, *extra: Any) -> Any:
        """What becomes of the result of all shards."""

    def restore(self, arrays: Any) -> Any:
        """A partial result from the arrays of a checkpoint."""


class _Job(NamedTuple):
    kind: str
    block: int
    shard: int
    inputs: tuple[Handle, ...]


@dataclass
class _Block:
    """Where a block of queries is: shards left, tasks that run, results that wait."""

    number: int
    queries: Handle
    left: deque[int]
    running: int = 0
    waiting: list[Handle] = field(default_factory=list)

    @property
    def is_searched(self) -> bool:
        """Whether nothing more will come."""
        return not self.left and not self.running


@dataclass
class Flow:
    """One job: `queries(block)` and the extras are called when they are needed."""

    cluster: Cluster
    work: BlockTask
    pieces: tuple[Piece, ...]
    sizes: list[int]  # of the query blocks
    queries: Callable[[int], Any]
    search_extra: Callable[[int, int], tuple[Any, ...]]
    finish_extra: Callable[[int], tuple[Any, ...]] = lambda block: ()
    checkpoint: ShardCheckpoint | None = None

    def __post_init__(self) -> None:
        """Nothing is open yet."""
        self._open: dict[int, _Block] = {}
        self._jobs: dict[int, tuple[Ticket, _Job]] = {}
        self._next = 0
        self._pairs_done = 0
        self._total = sum(self.sizes) * sum(piece.rows for piece in self.pieces)

    def in_order(self) -> list[Any]:
        """What `finish` made of every block."""
        results = dict(self.results())
        return [results[number] for number in range(len(self.sizes))]

    def results(self) -> Iterator[tuple[int, Any]]:
        """(block, what `finish` made of it), as blocks get ready."""
        self.cluster.journal.blocks += len(self.sizes) * len(self.pieces)
        executor = self.cluster.executor
        while self._fill():
            for ticket, receipt in executor.wait([ticket for ticket, _ in self._jobs.values()]):
                _, job = self._jobs.pop(ticket.number)
                receipt.check()
                self._note(job, receipt)
                if job.kind == "finish":
                    del self._open[job.block]
                    yield job.block, executor.fetch(executor.result(ticket))
                else:
                    self._take(job, executor.result(ticket))
        if self.checkpoint is not None:
            self.cluster.journal.damaged += self.checkpoint.damaged

    def _fill(self) -> bool:
        """Hand in what can be; whether anything runs."""
        while job := self._ready():
            block = self._open[job.block]
            block.running += 1
            ticket = self._submit(job, block)
            self._jobs[ticket.number] = ticket, job
            journal = self.cluster.journal
            journal.most_held = max(journal.most_held, self._held())
        return bool(self._jobs)

    def _ready(self) -> _Job | None:
        """The next task: what frees results before what makes more."""
        while True:
            for block in self._open.values():
                job = self._freeing(block)
                if job is not None:
                    return job
            if not self._has_room():
                return None
            current = next((opened for opened in self._open.values() if opened.left), None)
            current = current or self._open_next()
            if current is None:
                return None
            if current.left:
                shard = current.left.popleft()
                if not self._restore(current, shard):
                    return _Job("search", current.number, shard, ())

    def _freeing(self, block: _Block) -> _Job | None:
        """A merge, or the end of a block."""
        if self._held() >= self.cluster.most_held:
            return None
        full = self._held() + 1 >= self.cluster.most_held
        enough = 2 if full or block.is_searched else _ARITY
        if len(block.waiting) >= enough:
            inputs, block.waiting = block.waiting[:_ARITY], block.waiting[_ARITY:]
            return _Job("merge", block.number, -1, tuple(inputs))
        if block.is_searched and block.waiting:
            (whole,), block.waiting = block.waiting, []
            self._save_whole(block.number, whole)
            return _Job("finish", block.number, -1, (whole,))
        return None

    def _has_room(self) -> bool:
        """Whether a search may start; more in the queue would keep merges from their turn.

        One place is reserved for the result of a merge, without which nothing could continue.
        """
        searches = sum(job.kind == "search" for _, job in self._jobs.values())
        return (
            self._held() + 1 < self.cluster.most_held
            and searches < 2 * self.cluster.executor.workers
        )

    def _held(self) -> int:
        """Partial results that are there or being made."""
        waiting = sum(len(block.waiting) for block in self._open.values())
        return waiting + sum(len(job.inputs) + 1 for _, job in self._jobs.values())

    def _open_next(self) -> _Block | None:
        """The next block of queries; one that was done before needs no shard any more."""
        if self._next == len(self.sizes):
            return None
        number, self._next = self._next, self._next + 1
        block = self._open[number] = _Block(number, None, deque())
        whole = None if self.checkpoint is None else self.checkpoint.load(number, None)
        if whole is not None:
            block.waiting.append(self.cluster.executor.put(self.work.restore(whole)))
            self.cluster.journal.resumed += len(self.pieces)
            self._count(number, range(len(self.pieces)))
        else:
            block.queries = self.cluster.executor.put(self.queries(number))
            block.left.extend(range(len(self.pieces)))
        return block

    def _restore(self, block: _Block, shard: int) -> bool:
        """Take a part from the checkpoint, if it is there and sound."""
        part = None if self.checkpoint is None else self.checkpoint.load(block.number, shard)
        if part is None:
            return False
        block.waiting.append(self.cluster.executor.put(self.work.restore(part)))
        self.cluster.journal.resumed += 1
        self._count(block.number, [shard])
        return True

    def _submit(self, job: _Job, block: _Block) -> Ticket:
        executor = self.cluster.executor
        if job.kind == "merge":
            return executor.submit(self.work.merge, *job.inputs)
        if job.kind == "finish":
            return executor.submit(self.work.finish, *job.inputs, *self.finish_extra(job.block))
        if self.checkpoint is not None:
            self.cluster.journal.recomputed += (job.block, job.shard) in self.checkpoint.started
            self.checkpoint.start(job.block, job.shard)
        extra = self.search_extra(job.block, job.shard)
        return executor.submit(self.work.search, block.queries, self.pieces[job.shard], *extra)

    def _take(self, job: _Job, result: Handle) -> None:
        """A partial result is there."""
        block = self._open[job.block]
        block.running -= 1
        block.waiting.append(result)
        if job.kind != "search":
            return
        self.cluster.journal.computed += 1
        if self.checkpoint is not None:
            part = self.cluster.executor.fetch(result)
            self.checkpoint.save(job.block, job.shard, part)
        self._count(job.block, [job.shard])

    def _save_whole(self, block: int, whole: Handle) -> None:
        if self.checkpoint is not None:
            self.checkpoint.save(block, None, self.cluster.executor.fetch(whole))
            self.checkpoint.forget_parts(block, len(self.pieces))

    def _note(self, job: _Job, receipt: Receipt) -> None:
        read = self.pieces[job.shard].n_bytes if job.kind == "search" else 0
        self.cluster.journal.steps.append(
            Step(
                job.kind,
                job.block,
                job.shard,
                receipt.seconds,
                read,
                receipt.n_bytes,
                receipt.worker,
            )
        )

    def _count(self, block: int, shards: Iterable[int]) -> None:
        """Tell how many pairs of query and document are done."""
        self._pairs_done += self.sizes[block] * sum(self.pieces[shard].rows for shard in shards)
        if self.cluster.progress is not None:
            self.cluster.progress(self._pairs_done, self._total)


def cut(count: int, most: int) -> list[tuple[int, int]]:
    """Blocks of at most `most`, all of about one size.

    >>> cut(10, 4)
    [(0, 3), (3, 6), (6, 10)]
    """
    n_blocks = -(-count // most)
    edges = [count * block // n_blocks for block in range(n_blocks + 1)]
    return list(pairwise(edges))


def check_queries(queries: Any, metric: Metric, cluster: Cluster, ids: Ids | None) -> Vectors:
    """Queries that can be searched for; NaN, Inf and zero rows are named before work begins."""
    matrix = matrix_of(open_rows(queries), "queries")
    _, kernels = choose_kernels(cluster.engine)
    for start, stop in cut(matrix.shape[0], cluster.query_block):
        rows = Rows(widen(matrix[start:stop], "queries"), start, "queries")
        measure_rows(kernels, rows, metric, ids=ids, threads=cluster.threads)
    return matrix


def wanted_ids(query_ids: Ids | None, exclude: Any) -> dict[str, Ids]:
    """Ids of documents that must be found in the shards before the search."""
    requested = {} if query_ids is None else {"query": query_ids}
    if exclude is None or isinstance(exclude, str) or query_ids is None:
        return requested
    named = distinct([doc for _, doc in _listed_pairs(exclude)], "exclude")
    return {**requested, "excluded": Ids.of(named, what="doc")} if named else requested


def find_excluded(
    exclude: Any, *, n_queries: int, query_ids: Ids | None, corpus: Corpus
) -> Excluded:
    """What `exclude` asks for, by document numbers of the whole corpus."""
    if exclude is not None and (query_ids is None) != (not corpus.id_kind):
        raise UsageError(
            "exclude goes by id where both sides have ids, by row where neither has. Give query "
            "ids and shards with ids, or none."
        )
    if query_ids is None or exclude is None:
        return exclusions_of(exclude, n_queries, corpus.n_docs, None, None)
    if isinstance(exclude, str):
        if exclude != "self":
            raise UsageError(f"exclude must be None, 'self' or a list of pairs, found {exclude!r}.")
        self_docs = corpus.found["query"]
        there = np.flatnonzero(self_docs >= 0)
        pairs = np.stack([there, self_docs[there]], axis=1)
    else:
        pairs = _pairs_by_id(exclude, query_ids, corpus)
    return exclusions_of(pairs, n_queries, corpus.n_docs, None, None)


def distinct(ids: list[Any], what: str) -> list[Any]:
    """Each id once, in the order in which they come first."""
    try:
        return list(dict.fromkeys(ids))
    except TypeError:
        raise IdError(f"{what} must name documents by ids: text or whole numbers.") from None


def _listed_pairs(exclude: Any) -> list[list[Any]]:
    """Pairs (query id, doc id), one by one."""
    pairs = checks.as_list(exclude, "exclude")
    listed = [checks.as_list(pair, "a pair in exclude") for pair in pairs]
    if any(len(pair) != 2 for pair in listed):
        raise ShapeError("exclude must hold pairs (query id, doc id).")
    return listed


def _pairs_by_id(exclude: Any, query_ids: Ids, corpus: Corpus) -> Ints:
    listed = _listed_pairs(exclude)
    if not listed:
        return np.empty((0, 2), np.int64)
    queries = Ids.of([pair[0] for pair in listed], what="query").match(query_ids)
    place = {doc: row for row, doc in enumerate(distinct([doc for _, doc in listed], "exclude"))}
    docs = corpus.found["excluded"][[place[pair[1]] for pair in listed]]
    for side, numbers in enumerate((queries, docs)):
        if (numbers < 0).any():
            what = ("query", "doc")[side]
            stranger = listed[int(np.argmax(numbers < 0))][side]
            raise IdError(f"exclude names the {what} {stranger!r}, which is not among the {what}s.")
    return np.stack([queries, docs], axis=1)


@dataclass(frozen=True, eq=False)
class SearchRequest:
    """Checked queries, cut into blocks, and what they must not find."""

    queries: Any  # has len() and slices; a block of it is what workers get
    query_ids: Ids | None
    corpus: Corpus
    excluded: Excluded
    blocks: list[tuple[int, int]]

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.blocks[-1][1]

    @property
    def names(self) -> Ids:
        """Ids of the queries; their numbers where they have none."""
        return Ids.count(self.n_queries) if self.query_ids is None else self.query_ids

    @property
    def has_ids(self) -> bool:
        """Whether queries and documents have ids."""
        return self.query_ids is not None and bool(self.corpus.id_kind)

    @property
    def sizes(self) -> list[int]:
        """Queries of each block."""
        return [stop - start for start, stop in self.blocks]

    def block(self, number: int) -> NDArray[Any]:
        """The queries of a block."""
        start, stop = self.blocks[number]
        return np.ascontiguousarray(self.queries[start:stop])

    def pairs(self, block: int, shard: int) -> Ints | None:
        """What a block must not find in a shard: (query, document), counted from their first."""
        piece = self.corpus.pieces[shard]
        offsets, docs = self.excluded.part(*self.blocks[block]).within(piece.first, piece.rows)
        if not len(docs):
            return None
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        return np.stack([rows, docs.astype(np.int64)], axis=1)


def open_checkpoint(
    cluster: Cluster, request: SearchRequest, job: Mapping[str, Any], *more: NDArray[Any]
) -> ShardCheckpoint | None:
    """The checkpoint of a request, where one is wanted."""
    if cluster.checkpoint is None:
        return None
    digests = [digest_of_arrays(request.block(block)) for block in range(len(request.blocks))]
    excluded = digest_of_arrays(request.excluded.offsets, request.excluded.docs, *more)
    shards = [
        {"path": str(piece.shard.path), "rows": piece.rows, "sha256": sha256}
        for piece, sha256 in zip(request.corpus.pieces, request.corpus.sha256, strict=True)
    ]
    about = {**job, "query_blocks": request.blocks, "queries": digests, "excluded": excluded}
    return ShardCheckpoint(cluster.checkpoint, {**about, "shards": shards})


def make_request(
    queries: Any, *, query_ids: Any, exclude: Any, corpus: Corpus, cluster: Cluster
) -> SearchRequest:
    """A request for queries that were checked."""
    n_queries = queries.shape[0]
    ids = check_ids(query_ids, n_queries, "query")
    barred = find_excluded(exclude, n_queries=n_queries, query_ids=ids, corpus=corpus)
    return SearchRequest(queries, ids, corpus, barred, cut(n_queries, cluster.query_block))
