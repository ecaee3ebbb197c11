"""Late interaction: exact MaxSim search among token vectors.

MaxSim(query, document) is the sum, over the query's tokens, of the largest product with a token of
the document. A score is canonical: each product is the exact one rounded once to float64, and the
largest are summed one after the other in the order of the query's tokens.

Find: 8-bit tokens give every score with a bound on its error. A document can be among the best k
only if its score and bound together reach the k-th best of score less bound. Decide: these few are
scored canonically. docs/exactness.md proves the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Floats32, IdsLike, Ints, offsets_of
from assay.core import checks
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import UsageError, ValueRangeError
from assay.io.mapped import steady_files
from assay.native import Engine
from assay.native.tie_order import sides_of
from assay.native.twins.search import TopK
from assay.search.engine import token_twin
from assay.search.engine.blocks import MOST_COLUMNS, Coarse, coarsen, signs_of
from assay.search.engine.inputs import (
    Excluded,
    check_columns,
    check_ids,
    choose_kernels,
    exclusions_of,
    refuse_short,
)
from assay.search.engine.plan import COARSE_BYTES, search_settings
from assay.search.engine.token_vectors import TokenVectors, read_tokens
from assay.search.engine.workers import Control, Progress, one_blas_thread, run

if TYPE_CHECKING:
    from assay.native.signatures import Kernels

_MOST_ROWS: Final = 4096  # tokens of queries at a time
_MOST_QUERIES: Final = 512
_CELLS: Final = 1 << 23  # scores at a time
_WIDENED_BYTES: Final = 64 << 20  # of a file, mapped at a time; or of rows that are widened
_LARGEST_NORM: Final = 2.0**90  # beyond these the products leave float32
_SMALLEST_NORM: Final = 2.0**-100
_SLACK: Final = 1.000001  # of the arithmetic with bounds


class _TokenBlock(NamedTuple):
    """Hold some documents: tokens, codes if there are any, largest norm and residual of each."""

    first: int
    rows: Floats32
    offsets: Ints
    norms: Floats
    residuals: Floats
    codes: Coarse | None
    code_offsets: Ints
    code_first: int

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.offsets) - 1


@dataclass(frozen=True)
class TokenSearch:
    """Hold checked inputs of a search among token vectors, and how it is cut."""

    kernels: Kernels
    engine: str
    queries: TokenVectors
    docs: TokenVectors
    query_ids: Ids | None
    doc_ids: Ids | None
    excluded: Excluded
    threads: int

    @classmethod
    def new(
        cls,
        queries: Any,
        docs: Any,
        *,
        zero: str = "error",
        exclude: Any = None,
        query_ids: IdsLike | None = None,
        doc_ids: IdsLike | None = None,
        threads: int | None = None,
        engine: Engine | None = None,
    ) -> TokenSearch:
        """Check the inputs of a search."""
        name, kernels = choose_kernels(engine)
        left, left_ids = check_token_queries(queries, query_ids, zero)
        right = read_tokens(docs, "docs")
        check_columns(right.shape[1], left.shape[1])
        names = left_ids, check_ids(right.ids if doc_ids is None else doc_ids, len(right), "doc")
        excluded = exclusions_of(exclude, len(left), len(right), *names)
        count = checks.thread_count(threads)
        return cls(kernels, name, left, right, *names, excluded, count)

    @cached_property
    def query_rows(self) -> Floats32:
        """Return the tokens of all queries."""
        return self.queries.rows(0, len(self.queries), "queries", self.query_ids)

    @cached_property
    def exponents(self) -> NDArray[np.int32]:
        """Return the exponent of each query: the largest norm of its tokens is about 2^exponent."""
        squares = np.einsum("tc,tc->t", self.query_rows, self.query_rows, dtype=np.float64)
        return np.frexp(np.sqrt(_largest_of(squares, self.queries.offsets)))[1].astype(np.int32)

    @cached_property
    def scaled_rows(self) -> Floats32:
        """Return the queries' tokens times 2^-exponent."""
        exponents = np.repeat(-self.exponents, self.queries.lengths)
        return np.ldexp(self.query_rows, exponents[:, None]).astype(np.float32)

    @property
    def fused(self) -> bool:
        """Tell whether compiled products of 8-bit numbers find candidates."""
        return self.kernels.coarse_rows() > 0 and self.docs.shape[1] <= MOST_COLUMNS

    def tiles(self) -> list[tuple[int, int]]:
        """Cut the queries: first, and one past the last."""
        count = len(self.queries)
        usual = max(1, len(self.query_rows) // count)
        step = min(max(1, _MOST_ROWS // usual), -(-count // self.threads), _MOST_QUERIES)
        return [(start, min(start + step, count)) for start in range(0, count, step)]

    def blocks(self) -> Iterator[_TokenBlock]:
        """Yield the documents, as many at a time as there is room for."""
        docs = self.docs
        tokens = (COARSE_BYTES if docs.lies_ready else _WIDENED_BYTES // 4) // docs.shape[1]
        if docs.lies_ready and docs.prepared is not None:
            tokens = docs.values.shape[0]  # nothing is copied or quantised
        most = _CELLS // max(stop - start for start, stop in self.tiles())
        for first, last in docs.windows(tokens):
            for start in range(first, last, most):
                yield self.block(start, min(last, start + most))

    @np.errstate(all="ignore")
    def block(self, first: int, last: int, find: bool = True) -> _TokenBlock:
        """Read some documents; measure and quantise them where candidates are to be found."""
        docs = self.docs
        rows = docs.rows(first, last, "docs", self.doc_ids)
        offsets = docs.offsets[first : last + 1] - docs.offsets[first]
        codes = None if docs.prepared is None else docs.prepared.coarse
        code_offsets, code_first = docs.offsets, first
        norms, residuals = np.zeros(last - first), np.zeros(last - first)
        if not (find and self.fused and len(rows)):
            codes = None
        elif codes is None:
            axis = np.zeros(docs.shape[1], np.float32)
            codes = coarsen(self.kernels, rows, axis, self.threads)
            code_offsets, code_first = offsets, 0
        if codes is not None:
            tokens = slice(code_offsets[code_first], code_offsets[code_first + last - first])
            norms = _largest_of(codes.norm[tokens], offsets)
            residuals = _largest_of(codes.residual[tokens], offsets)
        elif find:
            squares = np.einsum("tc,tc->t", rows, rows, dtype=np.float64)
            norms = np.sqrt(_largest_of(squares, offsets))
        strange = ~(norms < _LARGEST_NORM) | ((norms > 0) & (norms < _SMALLEST_NORM))
        norms[strange] = np.inf  # nothing is said of them but by exact scores
        return _TokenBlock(first, rows, offsets, norms, residuals, codes, code_offsets, code_first)

    def find(
        self, block: _TokenBlock, tile: tuple[int, int], part: tuple[int, int], control: Control
    ) -> tuple[Floats32, Floats, Floats]:
        """Score some queries with some documents, about; return what bounds the error, too."""
        start, stop = tile
        offsets = self.queries.offsets[start : stop + 1]
        rows, offsets = self.scaled_rows[offsets[0] : offsets[-1]], offsets - offsets[0]
        scores = np.zeros((stop - start, part[1] - part[0]), np.float32)
        by_norm, by_residual = np.zeros(stop - start), np.zeros(stop - start)
        if block.codes is None:
            arguments = (rows, offsets, block.rows, block.offsets, part, scores, by_norm)
            if len(rows):
                token_twin.find_tokens(*arguments, *control)
        else:
            first, last = (block.code_first + end for end in part)
            self.kernels.find_tokens(
                rows,
                offsets,
                signs_of(self.docs.shape[1]),
                block.codes.codes,
                block.codes.step,
                block.code_offsets,
                first,
                last,
                scores,
                by_norm,
                by_residual,
                *control,
            )
        return scores, by_norm, by_residual

    def decide(
        self,
        block: _TokenBlock,
        tile: tuple[int, int],
        pairs: Ints,
        candidates: Ints,
        control: Control,
    ) -> Floats:
        """Score candidates, which are numbers within the block, canonically."""
        start, stop = tile
        offsets = self.queries.offsets[start : stop + 1]
        rows, offsets = self.query_rows[offsets[0] : offsets[-1]], offsets - offsets[0]
        scores = np.empty(len(candidates))
        score: Any = (
            self.kernels.score_tokens if self.engine == "native" else token_twin.score_tokens
        )
        score(rows, offsets, block.rows, block.offsets, pairs, candidates, scores, control.stop)
        return scores

    def bounds(
        self, block: _TokenBlock, tile: tuple[int, int], part: tuple[int, int], control: Control
    ) -> Iterator[tuple[Floats, Floats, NDArray[np.bool_]]]:
        """Yield for each query what documents score at least and at most, and which it may find."""
        scores, by_norm, by_residual = self.find(block, tile, part, control)
        inside = slice(*part)
        there = (np.diff(block.offsets) > 0)[inside]
        norms, residuals = block.norms[inside], block.residuals[inside]
        excluded = self.excluded.part(*tile).within(block.first + part[0], part[1] - part[0])
        for row, (start, stop) in enumerate(pairwise(excluded[0])):
            searchable = there & bool(self.queries.lengths[tile[0] + row])
            searchable[excluded[1][start:stop]] = False
            with np.errstate(all="ignore"):
                off = _SLACK * (by_norm[row] * norms + by_residual[row] * residuals) + 2.0**-140
                middle = scores[row].astype(np.float64)
                yield middle - off, middle + off, searchable

    def run(self, tasks: list[Any], control: Control, progress: Progress | None) -> None:
        """Run tasks; numpy's BLAS is held at one thread where it does the products."""
        total = len(self.queries) * len(self.docs)
        with nullcontext() if self.fused else one_blas_thread():
            run(tasks, threads=self.threads, progress=progress, total=total, control=control)

    def ranges(self, n_docs: int, n_tiles: int) -> list[tuple[int, int]]:
        """Cut documents where there are fewer blocks of queries than threads."""
        parts = min(n_docs, -(-self.threads // n_tiles))
        return list(pairwise(n_docs * part // parts for part in range(parts + 1)))


def check_token_queries(
    queries: Any, query_ids: IdsLike | None, zero: str
) -> tuple[TokenVectors, Ids | None]:
    """Check queries and their ids; those without tokens are refused unless they are dropped."""
    tokens = read_tokens(queries, "queries")
    ids = check_ids(tokens.ids if query_ids is None else query_ids, len(tokens), "query")
    if checks.check_choice(zero, ("error", "drop", "last"), "zero") == "last":
        raise UsageError("MaxSim scores no empty texts. Pass zero='error' or 'drop'.")
    if zero == "error" and (empty := np.flatnonzero(tokens.lengths == 0)).size:
        row = int(empty[0])
        name = f"{row}" if ids is None else f"{row} (id {ids[row]!r})"
        raise ValueRangeError(
            f"queries row {name} has no tokens ({len(empty)} such queries). Remove them, or "
            "pass zero='drop'."
        )
    return tokens, ids


def _largest_of(values: Any, offsets: Ints) -> Floats:
    """Return the largest value of each segment; 0 where that is empty."""
    largest = np.zeros(len(offsets) - 1)
    some = np.flatnonzero(np.diff(offsets))
    if len(some):
        largest[some] = np.maximum.reduceat(values, offsets[some])
    return largest


def rank_tokens(
    queries: Any,
    docs: Any,
    k: int,
    *,
    keep_ties: bool,
    zero: str,
    exclude: Any,
    floors: Floats | None,
    progress: Progress | None,
    **options: Any,
) -> Ranking:
    """Rank the k best documents of each query, as `rank` does, by MaxSim."""
    left, right = read_tokens(queries, "queries"), read_tokens(docs, "docs")
    with steady_files(left, right):
        search = TokenSearch.new(left, right, zero=zero, exclude=exclude, **options)
        n_docs, depth = len(right), k if keep_ties else k + 1
        tiles = search.tiles()
        parts = len(search.ranges(n_docs, len(tiles)))
        tops = [[TopK(b - a, depth, keep_ties) for _ in range(parts)] for a, b in tiles]
        if floors is not None:
            checks.check_lengths(floors=floors.size, queries=len(left))
            for (start, stop), lists in zip(tiles, tops, strict=True):
                for top in lists:
                    top.seed(floors[start:stop])
        control = Control.new()
        for block in search.blocks():
            tasks = [
                partial(_search_part, search, top, tile, block, part)
                for tile, lists in zip(tiles, tops, strict=True)
                for top, part in zip(lists, search.ranges(len(block), len(tiles)), strict=False)
            ]
            search.run(tasks, control, progress)
    for first, *others in tops:
        for other in others:
            first.absorb(other)
    results = [lists[0].result(n_docs if keep_ties else min(k, n_docs)) for lists in tops]
    lengths = np.concatenate([np.diff(offsets) for offsets, *_ in results])
    numbers, scores, split = (
        np.concatenate(column) for column in list(zip(*results, strict=True))[1:]
    )
    empty = right.lengths == 0
    if floors is None:
        there = (
            n_docs
            - empty.sum()
            - np.add.reduceat(
                np.append(~empty[search.excluded.docs], False), search.excluded.offsets[:-1]
            )
            * (np.diff(search.excluded.offsets) > 0)
        )
        refuse_short(lengths, np.where(left.lengths > 0, np.minimum(k, there), 0))
    return Ranking(
        search.query_ids or Ids.count(len(left)),
        search.doc_ids or Ids.count(n_docs),
        offsets_of(lengths),
        numbers,
        scores,
        n_docs=n_docs,
        has_ids=search.query_ids is not None and search.doc_ids is not None,
        tie_split=split.astype(bool) if split.any() else None,
        search=f"{search.engine}-certified",
        settings=search_settings(
            metric="maxsim",
            zero=zero,
            exclude=exclude,
            k=min(k, n_docs),
            keep_ties=keep_ties,
            n_docs=n_docs,
            floors=None if floors is None else "given",
        ),
        zero_rows=(int((left.lengths == 0).sum()), int(empty.sum())),
    )


def _search_part(
    search: TokenSearch,
    top: TopK,
    tile: tuple[int, int],
    block: _TokenBlock,
    part: tuple[int, int],
    control: Control,
) -> None:
    """Search one range of documents for one block of queries."""
    counts = np.bincount(top.rows, minlength=top.n_queries)
    full = counts >= top.k
    floors = np.full(top.n_queries, -np.inf)
    floors[full] = top.scores[(np.cumsum(counts) - counts + top.k - 1)[full]]
    floors = np.ldexp(floors, -search.exponents[slice(*tile)])
    candidates = []
    for floor, bounds in zip(floors, search.bounds(block, tile, part, control), strict=True):
        low, high, searchable = bounds
        candidates.append(part[0] + select(low, high, searchable, floor, top.k))
    if control.stop[0]:
        return
    lengths = [len(numbers) for numbers in candidates]
    pairs, numbers = offsets_of(lengths), np.concatenate(candidates)
    scores = search.decide(block, tile, pairs, numbers, control)
    top.add(np.repeat(np.arange(len(lengths)), lengths), numbers + block.first, scores)


def select(
    low: Floats, high: Floats, searchable: NDArray[np.bool_], floor: float, depth: int
) -> Ints:
    """Return the documents that may be among the best: what they score at most reaches the floor.

    The floor is at least the depth-th best of what documents score at least.
    """
    if len(low) > depth:
        least = np.where(searchable & ~np.isnan(low), low, -np.inf)
        floor = max(floor, float(np.partition(least, -depth)[-depth]))
    return np.flatnonzero(searchable & ~(high < floor))


def score_ragged(search: TokenSearch, offsets: Ints, docs: Ints) -> Floats:
    """Score the documents docs[offsets[q]] … with query q canonically; −∞ without tokens."""
    scores = np.full(len(docs), -np.inf)
    lengths = np.diff(offsets)
    scorable = np.repeat(search.queries.lengths > 0, lengths) & (search.docs.lengths[docs] > 0)
    # all documents at once where nothing is copied
    tokens = 1 << 31 if search.docs.lies_ready else _WIDENED_BYTES // 4 // search.docs.shape[1]
    count = len(search.queries)
    step = -(-count // (4 * search.threads))
    for first, last in search.docs.windows(tokens):
        here = np.flatnonzero(scorable & (docs >= first) & (docs < last))
        if not len(here):
            continue
        block, places = search.block(first, last, find=False), np.searchsorted(here, offsets)
        work = partial(_score_some, search, block, here, places, docs, scores)
        tiles = [(start, min(start + step, count)) for start in range(0, count, step)]
        run([partial(work, tile) for tile in tiles], threads=search.threads)
    return scores


def _score_some(
    search: TokenSearch,
    block: _TokenBlock,
    here: Ints,
    places: Ints,
    docs: Ints,
    scores: Floats,
    tile: tuple[int, int],
    control: Control,
) -> None:
    """Score what some queries have in a block."""
    start, stop = tile
    some = here[places[start] : places[stop]]
    pairs = (places[start : stop + 1] - places[start]).astype(np.int64)
    candidates = docs[some].astype(np.int64) - block.first
    scores[some] = search.decide(block, tile, pairs, candidates, control)


def score_pairs(
    queries: Any,
    docs: Any,
    candidates: Iterable[Iterable[int]],
    *,
    threads: int | None = None,
    engine: Engine | None = None,
) -> list[Floats]:
    """Score some documents of each query by MaxSim exactly, as `rank` does.

    Args:
        queries: Token vectors of the queries, in whatever `read_tokens` takes.
        docs: Token vectors of the documents, likewise.
        candidates: Row numbers of documents for each query.
        threads: Number of threads, by default one for each core.
        engine: Compiled kernels or their numpy twins.

    Returns:
        The scores of each query's candidates; −∞ where query or document has no tokens.

    Raises:
        AssayError: Vectors and candidates do not fit.

    Example:
        >>> docs = [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5]]]
        >>> score_pairs([[[1.0, 0.0], [0.0, 2.0]]], docs, [[1, 0]])[0].tolist()
        [1.5, 3.0]
    """
    search = TokenSearch.new(queries, docs, zero="drop", threads=threads, engine=engine)
    rows = [checks.plain_array(list(row), "candidates") for row in candidates]
    checks.check_lengths(candidates=len(rows), queries=len(search.queries))
    offsets = offsets_of([len(row) for row in rows])
    if not offsets[-1]:
        return [np.empty(0) for _ in rows]
    numbers = np.concatenate([row for row in rows if len(row)])
    numbers = checks.check_numbers(numbers, len(search.docs), "candidates")
    with steady_files(search.queries, search.docs):
        scores = score_ragged(search, offsets, numbers)
    return [scores[start:stop] for start, stop in pairwise(offsets)]


def count_token_targets(
    search: TokenSearch, targets: Ints, scores: Floats, progress: Progress | None = None
) -> tuple[Ints, Ints, Ints]:
    """Count documents against targets whose scores are known: above, tied, before.

    A target that is not among these documents has a number beyond theirs.
    """
    above, tied, before = totals = tuple(np.zeros(len(targets), np.int64) for _ in range(3))
    tiles, control = search.tiles(), Control.new()
    for block in search.blocks():
        parts = search.ranges(len(block), len(tiles))
        jobs = [
            (tile, part, np.zeros((3, tile[1] - tile[0]), np.int64))
            for tile in tiles
            for part in parts
        ]
        tasks = [partial(_count_part, search, targets, scores, block, *job) for job in jobs]
        search.run(tasks, control, progress)
        for (start, stop), _, counts in jobs:
            for total, count in zip(totals, counts, strict=True):
                total[start:stop] += count
    return above, tied, before


def _count_part(
    search: TokenSearch,
    targets: Ints,
    scores: Floats,
    block: _TokenBlock,
    tile: tuple[int, int],
    part: tuple[int, int],
    counts: Ints,
    control: Control,
) -> None:
    """Count what is above for certain; decide what is near."""
    inside = slice(*tile)
    levels = np.ldexp(scores[inside], -search.exponents[inside])
    candidates: list[Ints] = []
    for row, bounds in enumerate(search.bounds(block, tile, part, control)):
        low, high, searchable = bounds
        searchable &= bool(targets[inside][row] >= 0)
        above = searchable & (low > levels[row])
        counts[0, row] = np.count_nonzero(above)
        candidates.append(part[0] + np.flatnonzero(searchable & ~above & ~(high < levels[row])))
    if control.stop[0]:
        return
    lengths = [len(numbers) for numbers in candidates]
    numbers, rows = np.concatenate(candidates), np.repeat(np.arange(len(lengths)), lengths)
    exact = search.decide(block, tile, offsets_of(lengths), numbers, control)
    docs, aims = numbers + block.first, targets[inside][rows]
    sides = sides_of(exact, docs, scores[inside][rows], aims)
    for place, side in enumerate((sides.above, sides.tied & (docs != aims), sides.before)):
        counts[place] += np.bincount(rows[side], minlength=len(lengths))


def check_targets(docs: TokenVectors, targets: Ints) -> None:
    """Refuse targets without tokens: they are never retrieved."""
    there = targets >= 0
    empty = there & (docs.lengths[np.where(there, targets, 0)] == 0)
    if empty.any():
        query = int(np.argmax(empty))
        raise ValueRangeError(
            f"The target of query row {query} is document {targets[query]}, which has no "
            "tokens. Set the target to −1."
        )
