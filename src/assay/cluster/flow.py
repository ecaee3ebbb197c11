"""The flow of blocks: every query block meets every shard, and what they give is merged in a tree.

Blocks of queries are taken in order; the shards of one block are searched in parallel, partial
results merge as soon as there are some, in the order in which they come, and never pass through
the driver. No more than a stated number of partial results are there at one time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from assay.cluster.checkpoint import ShardCheckpoint
from assay.cluster.corpus import Piece
from assay.cluster.executors.base import Handle, Receipt, Ticket
from assay.cluster.settings import Cluster, Step

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
