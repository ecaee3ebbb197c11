"""Run a job over shards: its request, the flow of its blocks, and its checkpoint.

Every query block meets every shard, and what they give is merged in a tree. Blocks of queries are
taken in order; the shards of one block are searched in parallel, partial results merge as soon as
there are some, in the order in which they come, and never pass through the driver. No more than a
stated number of partial results are there at one time.

A checkpoint is a folder of finished blocks:

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, Ints
from assay.cluster.executors import Handle, Ticket
from assay.cluster.settings import Cluster, Step
from assay.cluster.shards import Corpus, Piece, survey
from assay.core.ids import Ids
from assay.errors import IdError, MismatchError, UsageError
from assay.io.arrays import open_rows
from assay.io.checkpoint import Checkpoint
from assay.io.fingerprints import digest_of_arrays, fingerprint_of
from assay.io.mapped import steady_files
from assay.search.engine import inputs
from assay.search.engine.blocks import Metric, measure_rows
from assay.search.engine.sparse_vectors import SparseVectors
from assay.search.engine.token_vectors import TokenVectors
from assay.search.engine.tokens import check_token_queries

_SCHEMA: Final = 1


class PartialResult(Protocol):
    """Describe what a task computes, and a file can hold."""

    def arrays(self) -> Mapping[str, Array]:
        """Return plain arrays."""


class ShardCheckpoint:
    """Keep finished blocks of one job in one folder; refuse a folder with another job."""

    def __init__(self, folder: str | os.PathLike[str], job: Mapping[str, Any]) -> None:
        job_now = json.loads(json.dumps({"schema": _SCHEMA, **job}))
        # The job but for where its shards lie: they may move.
        shards = [(shard["rows"], shard["sha256"]) for shard in job_now["shards"]]
        self._parts = Checkpoint(folder, fingerprint_of({**job_now, "shards": shards}))
        self._parts.make_folder()
        job_before = self._parts.read_job()
        if job_before is None:
            self._parts.write_job(job_now)
        else:
            _refuse_other_job(os.fspath(folder), job_before, job_now)
        self._started = os.path.join(folder, "started")
        text = b""
        with suppress(FileNotFoundError), open(self._started, "rb") as file:
            text = file.read()
        # Blocks that were begun, for the count of those begun again; a torn line is none.
        lines = re.findall(rb"^([0-9]{1,9}) ([0-9]{1,9})\n", text, re.MULTILINE)
        self.started = frozenset((int(block), int(shard)) for block, shard in lines)

    @property
    def damaged(self) -> int:
        """Count parts that were not what had been written."""
        return self._parts.damaged

    def start(self, block: int, shard: int) -> None:
        """Note that a worker got a block."""
        with open(self._started, "a", encoding="ascii") as file:
            file.write(f"{block} {shard}\n")

    def save(self, block: int, shard: int | None, part: PartialResult) -> None:
        """Write a block in one shard, or in all of them (None)."""
        self._parts.save(_name_of(block, shard), part.arrays())

    def load(self, block: int, shard: int | None) -> dict[str, Array] | None:
        """Return the arrays of a block; None where it is not there, or not sound."""
        part = self._parts.load(_name_of(block, shard))
        return None if part is None else part.arrays

    def forget_parts(self, block: int, n_shards: int) -> None:
        """Delete the parts of a block that is done."""
        self._parts.forget(_name_of(block, shard) for shard in range(n_shards))


def _name_of(block: int, shard: int | None) -> str:
    return f"b{block:05}.done" if shard is None else f"b{block:05}-s{shard:05}.part"


def _refuse_other_job(folder: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse another job; shards may move, but what they hold stays."""
    shards = before.get("shards")
    shards = shards if isinstance(shards, list) else []
    if len(shards) != len(now["shards"]):
        raise MismatchError(
            f"The checkpoint {folder} has {len(shards)} shards, this job "
            f"{len(now['shards'])}. Pass the same shards, or another folder."
        )
    for previous, new in zip(shards, now["shards"], strict=True):
        old = previous if isinstance(previous, dict) else {}
        if (old.get("rows"), old.get("sha256")) != (new["rows"], new["sha256"]):
            raise MismatchError(
                f"Shard {new['path']} changed since the checkpoint {folder} was made: it had "
                f"{old.get('rows')} rows and SHA-256 {str(old.get('sha256'))[:12]}…, now "
                f"{new['rows']} and {new['sha256'][:12]}…. Restore it, or pass another folder."
            )
    for key, value in now.items():
        if key != "shards" and before.get(key) != value:
            raise MismatchError(
                f"The checkpoint {folder} belongs to another job: {key} was "
                f"{before.get(key)!r:.80}, and is {value!r:.80} now. Repeat the same request, "
                "or pass another folder."
            )


_ARITY: Final = 8  # how many partial results are merged at once


class BlockTask(Protocol):
    """Describe what is done with blocks; all of it runs on workers and can be pickled."""

    def search(self, queries: Any, piece: Piece, /, *extra: Any) -> Any:
        """Search a block of queries in one shard; return a partial result."""

    def merge(self, *parts: Any) -> Any:
        """Merge partial results of different shards."""

    def finish(self, part: Any, /, *extra: Any) -> Any:
        """Turn the result of all shards into what comes back."""

    def restore(self, arrays: Any) -> Any:
        """Restore a partial result from the arrays of a checkpoint."""


class _Job(NamedTuple):
    kind: str
    block: int
    shard: int
    inputs: tuple[Handle, ...]


@dataclass
class _Block:
    """Follow a block of queries: shards left, tasks that run, results that wait."""

    number: int
    queries: Handle
    left: deque[int]
    running: int = 0
    waiting: list[Handle] = field(default_factory=list)

    @property
    def is_searched(self) -> bool:
        """Tell whether nothing more will come."""
        return not self.left and not self.running


@dataclass
class Flow:
    """Run one job: `queries(block)` and the extras are called when they are needed."""

    cluster: Cluster
    work: BlockTask
    pieces: tuple[Piece, ...]
    sizes: list[int]  # of the query blocks
    queries: Callable[[int], Any]
    search_extra: Callable[[int, int], tuple[Any, ...]]
    finish_extra: Callable[[int], tuple[Any, ...]] = lambda block: ()
    checkpoint: ShardCheckpoint | None = None

    def __post_init__(self) -> None:
        """Start with nothing open."""
        self._open: dict[int, _Block] = {}
        self._jobs: dict[int, tuple[Ticket, _Job]] = {}
        self._next = 0
        self._pairs_done = 0
        self._total = sum(self.sizes) * sum(piece.rows for piece in self.pieces)

    def in_order(self) -> list[Any]:
        """Return what `finish` made of every block."""
        results = dict(self.results())
        return [results[number] for number in range(len(self.sizes))]

    def results(self) -> Iterator[tuple[int, Any]]:
        """Yield (block, what `finish` made of it), as blocks get ready."""
        self.cluster.journal.blocks += len(self.sizes) * len(self.pieces)
        executor = self.cluster.executor
        while self._fill():
            for ticket, receipt in executor.wait([ticket for ticket, _ in self._jobs.values()]):
                _, job = self._jobs.pop(ticket.number)
                receipt.check()
                read = self.pieces[job.shard].n_bytes if job.kind == "search" else 0
                self.cluster.journal.steps.append(
                    Step(*job[:3], receipt.seconds, read, receipt.n_bytes, receipt.worker)
                )
                if job.kind == "finish":
                    del self._open[job.block]
                    yield job.block, executor.fetch(executor.result(ticket))
                else:
                    self._take(job, executor.result(ticket))
        if self.checkpoint is not None:
            self.cluster.journal.damaged += self.checkpoint.damaged

    def _fill(self) -> bool:
        """Hand in what can be; tell whether anything runs."""
        while job := self._ready():
            block = self._open[job.block]
            block.running += 1
            ticket = self._submit(job, block)
            self._jobs[ticket.number] = ticket, job
            journal = self.cluster.journal
            journal.most_held = max(journal.most_held, self._held())
        return bool(self._jobs)

    def _ready(self) -> _Job | None:
        """Return the next task: what frees results before what makes more."""
        while True:
            for block in self._open.values():
                job = self._free(block)
                if job is not None:
                    return job
            # More searches in the queue would keep merges from their turn. One place is reserved
            # for the result of a merge, without which nothing could continue.
            searches = sum(job.kind == "search" for _, job in self._jobs.values())
            if (
                self._held() + 1 >= self.cluster.most_held
                or searches >= 2 * self.cluster.executor.workers
            ):
                return None
            current = next((opened for opened in self._open.values() if opened.left), None)
            current = current or self._open_next()
            if current is None:
                return None
            if current.left:
                shard = current.left.popleft()
                if not self._restore(current, shard, [shard]):
                    return _Job("search", current.number, shard, ())

    def _free(self, block: _Block) -> _Job | None:
        """Return a merge, or the end of a block, if there is room for its result."""
        if self._held() >= self.cluster.most_held:
            return None
        full = self._held() + 1 >= self.cluster.most_held
        enough = 2 if full or block.is_searched else _ARITY
        if len(block.waiting) >= enough:
            inputs, block.waiting = block.waiting[:_ARITY], block.waiting[_ARITY:]
            return _Job("merge", block.number, -1, tuple(inputs))
        if block.is_searched and block.waiting:
            (whole,), block.waiting = block.waiting, []
            if self.checkpoint is not None:
                self.checkpoint.save(block.number, None, self.cluster.executor.fetch(whole))
                self.checkpoint.forget_parts(block.number, len(self.pieces))
            return _Job("finish", block.number, -1, (whole,))
        return None

    def _held(self) -> int:
        """Count partial results that are there or being made."""
        waiting = sum(len(block.waiting) for block in self._open.values())
        return waiting + sum(len(job.inputs) + 1 for _, job in self._jobs.values())

    def _open_next(self) -> _Block | None:
        """Open the next block of queries; one that was done before needs no shard any more."""
        if self._next == len(self.sizes):
            return None
        number, self._next = self._next, self._next + 1
        block = self._open[number] = _Block(number, None, deque())
        if not self._restore(block, None, range(len(self.pieces))):
            block.queries = self.cluster.executor.put(self.queries(number))
            block.left.extend(range(len(self.pieces)))
        return block

    def _restore(self, block: _Block, shard: int | None, shards: Sequence[int]) -> bool:
        """Take a part of some shards from the checkpoint, if it is there and sound."""
        part = None if self.checkpoint is None else self.checkpoint.load(block.number, shard)
        if part is None:
            return False
        block.waiting.append(self.cluster.executor.put(self.work.restore(part)))
        self.cluster.journal.resumed += len(shards)
        self._count(block.number, shards)
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
        """Take a partial result."""
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

    def _count(self, block: int, shards: Sequence[int]) -> None:
        """Tell how many pairs of query and document are done."""
        self._pairs_done += self.sizes[block] * sum(self.pieces[shard].rows for shard in shards)
        if self.cluster.progress is not None:
            self.cluster.progress(self._pairs_done, self._total)


def cut(count: int, most: int) -> list[tuple[int, int]]:
    """Cut into blocks of at most `most`, all of about one size.

    >>> cut(10, 4)
    [(0, 3), (3, 6), (6, 10)]
    """
    n_blocks = -(-count // most)
    edges = [count * block // n_blocks for block in range(n_blocks + 1)]
    return list(pairwise(edges))


def check_queries(
    queries: Any, query_ids: Any, metric: str, zero: str, cluster: Cluster
) -> tuple[Any, Ids | None]:
    """Check queries and ids; NaN, Inf and zero rows are named before work begins."""
    if isinstance(metric, str) and metric == "maxsim":
        tokens, names = check_token_queries(queries, query_ids, zero)
        tokens.rows(0, len(tokens), "queries", names)
        return tokens, names
    metric_of_search = Metric.of(metric, zero)
    ids = None if query_ids is None else Ids.of(query_ids, what="query")
    matrix = inputs.matrix_of(open_rows(queries), "queries")
    _, kernels = inputs.choose_kernels(cluster.engine)
    for start, stop in cut(matrix.shape[0], cluster.query_block):
        rows = inputs.Rows(inputs.widen(matrix[start:stop], "queries"), start, "queries")
        measure_rows(kernels, rows, metric_of_search, ids=ids, threads=cluster.threads)
    return matrix, inputs.check_ids(ids, matrix.shape[0], "query")


def _find_excluded(
    exclude: Any, n_queries: int, query_ids: Ids | None, corpus: Corpus
) -> inputs.Excluded:
    """Read `exclude` as document numbers of the whole corpus."""
    if exclude is not None and (query_ids is None) != (not corpus.id_kind):
        raise UsageError(
            "exclude needs ids on both sides or on neither. Pass query ids and shards with "
            "ids, or none."
        )
    if query_ids is None or exclude is None:
        return inputs.exclusions_of(exclude, n_queries, corpus.n_docs, None, None)
    if isinstance(exclude, str):
        if exclude != "self":
            raise UsageError(f"exclude is {exclude!r}. Pass None, 'self' or a list of pairs.")
        self_docs = corpus.found["query"]
        there = np.flatnonzero(self_docs >= 0)
        pairs = np.stack([there, self_docs[there]], axis=1)
    else:
        pairs = _pairs_by_id(exclude, query_ids, corpus)
    return inputs.exclusions_of(pairs, n_queries, corpus.n_docs, None, None)


def distinct(ids: list[Any], what: str) -> list[Any]:
    """Return each id once, in the order in which they come first."""
    try:
        return list(dict.fromkeys(ids))
    except TypeError:
        raise IdError(f"{what} must be ids (text or whole numbers). Convert them.") from None


def _pairs_by_id(exclude: Any, query_ids: Ids, corpus: Corpus) -> Ints:
    listed = inputs.list_pairs(exclude)
    if not listed:
        return np.empty((0, 2), np.int64)
    queries = Ids.of([pair[0] for pair in listed], what="query").match(query_ids)
    place = {doc: row for row, doc in enumerate(distinct([doc for _, doc in listed], "exclude"))}
    docs = corpus.found["excluded"][[place[pair[1]] for pair in listed]]
    for side, numbers in enumerate((queries, docs)):
        if (numbers < 0).any():
            what = ("query", "doc")[side]
            stranger = listed[int(np.argmax(numbers < 0))][side]
            raise IdError(f"exclude names an unknown {what}, {stranger!r}. Drop that pair.")
    return np.stack([queries, docs], axis=1)


def contiguous(rows: Any) -> Any:
    """Return rows of an array side by side; token and sparse vectors are."""
    held = isinstance(rows, TokenVectors | SparseVectors)
    return rows if held else np.ascontiguousarray(rows)


def _digest(block: Any) -> str:
    held = isinstance(block, TokenVectors | SparseVectors)
    return digest_of_arrays(*(block.arrays() if held else (block,)))


@dataclass(frozen=True, eq=False)
class SearchRequest:
    """Hold checked queries, cut into blocks, and what they must not find."""

    queries: Any  # has len() and slices; a block of it is what workers get
    query_ids: Ids | None
    corpus: Corpus
    excluded: inputs.Excluded
    blocks: list[tuple[int, int]]

    @property
    def n_queries(self) -> int:
        """Return the number of queries."""
        return self.blocks[-1][1]

    @property
    def names(self) -> Ids:
        """Return the ids of the queries; their numbers where they have none."""
        return Ids.count(self.n_queries) if self.query_ids is None else self.query_ids

    @property
    def has_ids(self) -> bool:
        """Tell whether queries and documents have ids."""
        return self.query_ids is not None and bool(self.corpus.id_kind)

    @property
    def sizes(self) -> list[int]:
        """Return the number of queries of each block."""
        return [stop - start for start, stop in self.blocks]

    def block(self, number: int) -> Any:
        """Return the queries of a block."""
        start, stop = self.blocks[number]
        return contiguous(self.queries[start:stop])

    def pairs(self, block: int, shard: int) -> Ints | None:
        """Return what a block must not find in a shard: (query, document) from their first."""
        piece = self.corpus.pieces[shard]
        offsets, docs = self.excluded.part(*self.blocks[block]).within(piece.first, piece.rows)
        if not len(docs):
            return None
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        return np.stack([rows, docs.astype(np.int64)], axis=1)

    def run(
        self,
        cluster: Cluster,
        work: BlockTask,
        job: Mapping[str, Any],
        search_extra: Callable[[int, int], tuple[Any, ...]],
        finish_extra: Callable[[int], tuple[Any, ...]] = lambda block: (),
        digested: tuple[NDArray[Any], ...] = (),
    ) -> list[Any]:
        """Run a job for all blocks; `job` and `digested` arrays tell it from others."""
        checkpoint = None
        if cluster.checkpoint is not None:
            excluded = digest_of_arrays(self.excluded.offsets, self.excluded.docs, *digested)
            shards = [
                {"path": str(piece.shard.path), "rows": piece.rows, "sha256": sha256}
                for piece, sha256 in zip(self.corpus.pieces, self.corpus.sha256, strict=True)
            ]
            queries = [_digest(self.block(block)) for block in range(len(self.blocks))]
            about = {**job, "query_blocks": self.blocks, "queries": queries, "excluded": excluded}
            checkpoint = ShardCheckpoint(cluster.checkpoint, {**about, "shards": shards})
        flow = Flow(
            cluster,
            work,
            self.corpus.pieces,
            self.sizes,
            self.block,
            search_extra,
            finish_extra,
            checkpoint,
        )
        with steady_files(self.queries):
            return flow.in_order()


def make_request(
    queries: Any,
    query_ids: Ids | None,
    shards: Any,
    exclude: Any,
    cluster: Cluster,
    *,
    check: Callable[[Corpus], None],
    requested: Mapping[str, Ids] | None = None,
) -> SearchRequest:
    """Survey the shards, where documents are found by id, and cut checked queries into blocks."""
    ids = {} if query_ids is None else {"query": query_ids}
    if query_ids is not None and exclude is not None and not isinstance(exclude, str):
        named = distinct([doc for _, doc in inputs.list_pairs(exclude)], "exclude")
        ids |= {"excluded": Ids.of(named, what="doc")} if named else {}
    ids |= requested or {}
    corpus = survey(cluster.executor, shards, ids, hashed=cluster.checkpoint is not None)
    check(corpus)
    n_queries = queries.shape[0]
    barred = _find_excluded(exclude, n_queries, query_ids, corpus)
    return SearchRequest(queries, query_ids, corpus, barred, cut(n_queries, cluster.query_block))
