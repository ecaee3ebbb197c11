"""The search in numpy: the twins of native/search.

Here are the state and the decisions of a search, rows rounded to 8 bits or 16, and ranks of targets
in a matrix of scores. Candidates come from products by BLAS: there is no fused product.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np

from assay.arrays import Array, Bytes, Floats, Floats32, Ints, Ints32, Words32, offsets_of
from assay.native.tie_order import rank_order, sides_of
from assay.native.twins.exact import canonical_norms, canonical_scores
from assay.native.twins.trec import check_codes, require

_METRICS: Final[tuple[Literal["cosine", "dot", "l2"], ...]] = ("cosine", "dot", "l2")
_STORED: Final = ("float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16")
_ZERO_SCORE: Final = -2.0
_NOBODY: Final = np.iinfo(np.int64).max  # the number of the documents of `seed`: after all others
# Below the bound of documents of which nothing is known: no limit is ever beyond these.
_LARGEST: Final = np.finfo(np.float32).max / 8
_NO_FLOOR: Final = -_LARGEST
_SLACK: Final = 2.0**-21
_PANEL: Final = 32  # documents that lie together
_STEP: Final = 4  # columns of one document that lie together
_LANES: Final = 8
_BLOCK_LIMIT: Final = np.float32(203.0)  # the norm of 16 codes: see coarse_kernels.hpp
_WIDE_NORM: Final = np.float32(46200.0)  # the norm of codes of 16 bits
_ROUNDOFF: Final = np.float32(2.0**-24)
_ROWS_AT_ONCE: Final = 4096
_CELLS = 1 << 18  # cells at a time, so that the comparisons stay in cache


def widen(rows: Array, stored: int, wide: Floats32, threads: int) -> None:
    """Widen elements of a narrower type, given by their bits."""
    name = _STORED[stored]
    if name == "bfloat16":
        wide[:] = (rows.astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(-1)
    else:
        wide[:] = rows.view(name).reshape(-1)


class QueryBlock(NamedTuple):
    """Queries: their rows for canonical scores, and those for the product."""

    exact: Array
    exponents: Ints32
    norm_hi: Floats
    norm_lo: Floats
    rows: Floats32
    weight: Floats
    shift: Floats


class DocBlock(NamedTuple):
    """Documents: their rows for canonical scores, and those for the product."""

    exact: Array
    exponents: Ints32
    norm_hi: Floats
    norm_lo: Floats
    rows: Floats32
    scale: Floats32
    bias: Floats32
    bound: Floats32
    unit: float
    first: int


def fused_rows() -> int:
    """Return 0: there is no fused product here."""
    return 0


coarse_rows = fused_rows


def square_norms(rows: Array, exponents: Ints32, threads: int) -> tuple[Floats, Floats]:
    """Return square norms as pairs; see `signatures.Kernels.square_norms`."""
    return canonical_norms(rows, exponents)


def pair_scores(
    metric: int, queries: QueryBlock, docs: DocBlock, offsets: Ints, candidates: Words32
) -> Floats:
    """Score each query with its candidates; see `signatures.Kernels.pair_scores`."""
    at_query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    at_doc = candidates.astype(np.int64)
    scores = canonical_scores(
        _METRICS[metric],
        queries.exact,
        queries.exponents,
        (queries.norm_hi, queries.norm_lo),
        docs.exact,
        docs.exponents,
        (docs.norm_hi, docs.norm_lo),
        at_query,
        at_doc,
    )
    if metric == 0:
        nowhere = (queries.norm_hi[at_query] == 0.0) | (docs.norm_hi[at_doc] == 0.0)
        scores[nowhere] = _ZERO_SCORE
    return scores


class TopK:
    """The best documents of each query of a block, kept over many blocks of documents."""

    def __init__(self, n_queries: int, k: int, keep_ties: bool) -> None:
        self.n_queries, self.k, self.keep_ties = n_queries, k, keep_ties
        self.rows = np.empty(0, np.int64)
        self.docs = np.empty(0, np.int64)
        self.scores = np.empty(0)

    def scan(self, *_: object) -> None:
        """Refuse: there is no fused product here."""
        raise ValueError("no fused product on this machine")

    scan_coarse = scan

    def decide(
        self, metric: int, queries: QueryBlock, docs: DocBlock, offsets: Ints, candidates: Words32
    ) -> None:
        """Take over candidates of a block, by their canonical scores."""
        scores = pair_scores(metric, queries, docs, offsets, candidates)
        rows = np.repeat(np.arange(self.n_queries), np.diff(offsets))
        self.add(rows, candidates.astype(np.int64) + docs.first, scores)

    def seed(self, least: Floats) -> None:
        """Start with the certainty that documents below a score, if it is finite, do not matter."""
        rows = np.repeat(np.flatnonzero(np.isfinite(least)), self.k)
        self.add(rows, np.full(len(rows), _NOBODY), least[rows])

    def absorb(self, other: TopK) -> None:
        """Take over what was found in other documents."""
        self.add(other.rows, other.docs, other.scores)

    def floors(self, queries: QueryBlock, docs: DocBlock) -> Floats32:
        """Return for each query a product score below which no document matters."""
        counts = np.bincount(self.rows, minlength=self.n_queries)
        full = counts >= self.k
        last = (np.cumsum(counts) - counts + self.k - 1)[full]
        floors = np.full(self.n_queries, _NO_FLOOR, np.float32)
        limits = limits_of(self.scores[last], docs.unit, queries.weight[full], queries.shift[full])
        floors[full] = limits[0]
        return floors

    def result(self, most: int) -> tuple[Ints, Ints32, Floats, Bytes]:
        """Return offsets, documents and scores in rank order, and where the cut splits a tie."""
        is_doc = self.docs != _NOBODY
        counts = np.bincount(self.rows[is_doc], minlength=self.n_queries)
        offsets, all_docs, all_scores = offsets_of(counts), self.docs[is_doc], self.scores[is_doc]
        lengths = np.diff(offsets)
        longer = np.flatnonzero(lengths > most)
        beyond = offsets[longer + 1] - 1
        tie_split = np.zeros(len(lengths), np.uint8)
        tie_split[longer] = all_scores[beyond] == all_scores[beyond - 1]
        docs = np.delete(all_docs, beyond).astype(np.int32)
        scores = np.delete(all_scores, beyond)
        return offsets_of(np.minimum(lengths, most)), docs, scores, tie_split

    def add(self, rows: Ints, docs: Ints, scores: Floats) -> None:
        """Merge, sort by the tie rule, and cut each row after its k-th document."""
        rows = np.concatenate([self.rows, rows])
        docs = np.concatenate([self.docs, docs])
        scores = np.concatenate([self.scores, scores])
        order = rank_order(scores, tiebreak=docs, row=rows)
        rows, docs, scores = rows[order], docs[order], scores[order]
        first = np.searchsorted(rows, np.arange(self.n_queries))
        mask = np.arange(len(rows)) - first[rows] < self.k
        if self.keep_ties:
            kth = np.minimum(first + self.k, np.searchsorted(rows, np.arange(self.n_queries) + 1))
            mask |= scores == scores[kth[rows] - 1]
        self.rows, self.docs, self.scores = rows[mask], docs[mask], scores[mask]


def limits_of(
    scores: Floats, unit: float, weight: Floats, shift: Floats
) -> tuple[Floats32, Floats32]:
    """Return product scores that are certainly below and above canonical ones."""
    with np.errstate(all="ignore"):
        units = unit * weight
        middle = units * (scores + shift)
        slack = units * (np.abs(scores) + np.abs(shift)) * _SLACK + np.finfo(np.float32).tiny
        sound = (units >= np.finfo(np.float64).tiny) & (np.abs(middle) + slack < _LARGEST)
        low = np.where(sound, middle - slack, _NO_FLOOR)
        high = np.where(sound, middle + slack, np.inf)
    return low.astype(np.float32), high.astype(np.float32)


def count_targets(*_: object) -> None:
    """Refuse: there is no fused product here."""
    raise ValueError("no fused product on this machine")


count_coarse_targets = count_targets


def decide_targets(
    metric: int,
    queries: QueryBlock,
    docs: DocBlock,
    targets: Ints,
    target_scores: Floats,
    offsets: Ints,
    candidates: Words32,
    above: Ints,
    tied: Ints,
    before: Ints,
    weight: int,
) -> None:
    """Add `weight` for each candidate on its side of the target."""
    scores = pair_scores(metric, queries, docs, offsets, candidates)
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    doc = candidates.astype(np.int64) + docs.first
    aimed = targets[rows] >= 0
    sides = sides_of(scores, doc, target_scores[rows], targets[rows])
    np.add.at(above, rows[aimed & sides.above], weight)
    np.add.at(tied, rows[aimed & sides.tied & (doc != targets[rows])], weight)
    np.add.at(before, rows[aimed & sides.before], weight)


class CoarseBlock(NamedTuple):
    """Documents with their coarse rows."""

    docs: DocBlock
    codes: Bytes
    step: Floats32
    residual: Floats32
    norm: Floats32
    lean: Floats32
    axis: Floats32
    signs: Floats32


def coarsen(
    rows: Floats32, axis: Floats32, signs: Floats32, threads: int
) -> tuple[Bytes, Floats32, Floats32, Floats32, Floats32]:
    """Round rows to 8 bits; see `signatures.Kernels.coarsen`."""
    parts = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        rest, lean = _off_axis(rows[start : start + _ROWS_AT_ONCE] * signs, axis * signs)
        parts.append((*_quantise(rotate_rows(rest, rows.shape[1]), rows.shape[1]), lean))
    codes, *bounds_of = (np.concatenate(column) for column in zip(*parts, strict=True))
    step, residual, norm, lean = bounds_of
    return _in_panels(codes, 128), step, residual, norm, lean


@np.errstate(all="ignore")
def coarsen_wide(rows: Floats32) -> tuple[Bytes, Floats32, Floats32, Floats32]:
    """Round rows to 16 bits; see `signatures.Kernels.coarsen_wide`."""
    columns = rows.shape[1]
    x = np.pad(rows, ((0, 0), (0, -columns % 32)))
    most, square = np.abs(x).max(axis=1), _wide_sum(x)
    sane = (most > np.float32(2.0**-50)) & (most < np.float32(2.0**50))
    step = np.maximum(np.sqrt(square) / _WIDE_NORM, most / np.float32(32767))
    values = np.where(sane[:, None], x * (np.float32(1) / step)[:, None], np.float32(0))
    whole = np.rint(values)
    step = np.where(sane, step, np.float32(0))
    unit = np.float32(1)
    bounds = _bounds(
        step, square, _wide_sum(values - whole), unit, np.where(sane, 0, most), columns
    )
    codes = whole[:, : columns + columns % 2].astype("<i2").view(np.uint8)
    return _in_panels(codes, 0), step, *bounds


def _off_axis(rows: Floats32, axis: Floats32) -> tuple[Floats32, Floats32]:
    """Pad rows to blocks of 32, and take off what lies along the axis; with how much."""
    more = ((0, 0), (0, -rows.shape[1] % 32))
    padded, along = np.pad(rows, more), np.pad(axis[None], more)
    if not axis.any():
        return padded, np.zeros(len(rows), np.float32)
    lean = _folded(_lane_sums(padded, along))
    return padded - along * lean[:, None], lean


def rotate_rows(turned: Floats32, columns: int) -> Floats32:
    """Turn blocks of 64 columns, then of 16 and 4, by Hadamard matrices in place."""
    n_rows = len(turned)
    width = -(-columns // _STEP) * _STEP
    start = 0
    for block, sides in ((64, (8, 8)), (16, (4, 4)), (4, (4, 1))):
        while width - start >= block:
            square = turned[:, start : start + block].reshape(n_rows, *sides)
            square = _butterflies(square).swapaxes(1, 2)
            if sides[1] > 1:
                square = _butterflies(square)
            flat = square.reshape(n_rows, block)
            turned[:, start : start + block] = flat * np.float32(block**-0.5)
            start += block
    return turned


def _butterflies(x: Floats32) -> Floats32:
    """Replace pairs by sums and differences in turn, along the second axis."""
    half = 1
    while half < x.shape[1]:
        pairs = x.reshape(len(x), -1, 2, half, x.shape[2])
        left, right = pairs[:, :, 0], pairs[:, :, 1]
        x = np.stack([left + right, left - right], axis=2).reshape(x.shape)
        half *= 2
    return x


def _quantise(x: Floats32, columns: int) -> tuple[Bytes, Floats32, Floats32, Floats32]:
    most = np.abs(x).max(axis=1)
    sane = (most > np.float32(2.0**-110)) & (most < np.float32(2.0**110))
    with np.errstate(all="ignore"):
        top = most * _excess(x * (np.float32(127) / most)[:, None])
        values = np.where(sane[:, None], x * (np.float32(127) / top)[:, None], np.float32(0))
    whole = np.rint(values)
    step = np.where(sane, top / np.float32(127), np.float32(0))
    squares, rests = (_folded(_lane_sums(part, part)) for part in (values, values - whole))
    bounds = _bounds(step, squares, rests, step, np.where(sane, 0, most), columns)
    width = -(-columns // _STEP) * _STEP
    codes = (whole[:, :width].astype(np.int16) + 128).astype(np.uint8)
    return codes, step, *bounds


def _bounds(
    step: Floats32,
    squares: Floats32,
    rests: Floats32,
    unit: Floats32 | np.float32,
    left: Floats32,
    columns: int,
) -> tuple[Floats32, Floats32]:
    """Bound residuals and norms; `left` is the largest number of an unrounded row, else 0."""
    more = np.float32(1) + np.float32(columns + 128) * _ROUNDOFF
    norm = unit * np.sqrt(squares) * more
    residual = step * np.sqrt(rests) * more + np.float32(32) * _ROUNDOFF * norm
    left_over = left * np.sqrt(np.float32(columns)) * more
    return np.where(left > 0, left_over, residual), np.where(left > 0, left_over, norm)


def _excess(values: Floats32) -> Floats32:
    """Return how much smaller codes must be to keep blocks of 16 within their limit."""
    blocks = values.reshape(len(values), -1, 32)
    lanes = _lane_sums(blocks, blocks)
    left = (lanes[..., 0] + lanes[..., 4]) + (lanes[..., 1] + lanes[..., 5])
    right = (lanes[..., 2] + lanes[..., 6]) + (lanes[..., 3] + lanes[..., 7])
    block = np.maximum(left, right).max(axis=1)
    excess: Floats32 = np.maximum(np.sqrt(block) / _BLOCK_LIMIT, np.float32(1))
    return excess


def _lane_sums(x: Floats32, y: Floats32, lanes: int = _LANES) -> Floats32:
    """Add up products of every eighth number of the last axis, one after the other."""
    left, right = (each.reshape(*each.shape[:-1], -1, lanes) for each in (x, y))
    sums = np.zeros((*left.shape[:-2], lanes), np.float32)
    for at in range(left.shape[-2]):
        sums += left[..., at, :] * right[..., at, :]
    return sums


def _wide_sum(x: Floats32) -> Floats32:
    """Add up squares in 32 lanes."""
    first, two, three, four = _lane_sums(x, x, 4 * _LANES).reshape(len(x), 4, _LANES).swapaxes(0, 1)
    return _folded((first + two) + (three + four))


def _folded(lanes: Floats32) -> Floats32:
    even = (lanes[:, 0] + lanes[:, 4]) + (lanes[:, 2] + lanes[:, 6])
    return even + ((lanes[:, 1] + lanes[:, 5]) + (lanes[:, 3] + lanes[:, 7]))


def _in_panels(codes: Bytes, zero: int) -> Bytes:
    """Lay out four bytes of 32 documents together; the last panel is filled up."""
    n_panels = -(-len(codes) // _PANEL)
    full = np.full((n_panels * _PANEL, codes.shape[1]), zero, np.uint8)
    full[: len(codes)] = codes
    panels = full.reshape(n_panels, _PANEL, -1, _STEP)
    return np.ascontiguousarray(panels.swapaxes(1, 2)).reshape(-1)


def count_score_ranks(
    scores: Array, targets: Ints, above: Ints, tied: Ints, before: Ints, best: Ints | None
) -> tuple[int, int]:
    """Count ranks row by row; see `signatures.Kernels.count_score_ranks`."""
    columns = scores.shape[1]
    require(1 <= columns < 1 << 31, "columns must be from 1 to 2^31 - 1")
    lengths = {
        len(part) for part in (scores, targets, above, tied, before, best) if part is not None
    }
    require(len(lengths) == 1, "scores, targets and counts must have one length")
    check_codes(targets, -1, columns, "target out of range")
    step = max(1, _CELLS // columns)
    for start in range(0, len(scores), step):
        rows = slice(start, start + step)
        block, aims = scores[rows], targets[rows]
        target_scores = block[np.arange(len(block)), np.maximum(aims, 0)]
        bad = _bad_cell(block, aims, target_scores)
        if bad is not None:
            return start + bad[0], bad[1]
        sides = sides_of(block, np.arange(columns), target_scores[:, None], aims[:, None])
        above[rows] = sides.above.sum(axis=1)
        tied[rows] = sides.tied.sum(axis=1) - 1
        before[rows] = sides.before.sum(axis=1)
        for counts in (above, tied, before):
            counts[rows][aims < 0] = -1
        if best is not None:
            best[rows] = block.argmax(axis=1)
    return -1, -1


def _bad_cell(scores: Array, targets: Ints, target_scores: Array) -> tuple[int, int] | None:
    """Return the first row with a cell that is no score, and its first such cell."""
    cells = ~(scores <= np.finfo(scores.dtype).max)
    masked = (targets >= 0) & np.isneginf(target_scores)
    rows = np.flatnonzero(cells.any(axis=1) | masked)
    if not len(rows):
        return None
    row = int(rows[0])
    return row, int(cells[row].argmax()) if cells[row].any() else int(targets[row])
