"""The tie rule: score descending, then the tie-break ascending; `-0.0` equals `0.0`.

Whatever ranks documents goes by this rule, and it is written in two places only:

    native/exact/tie_order.hpp   for the compiled kernels: trec/sorted_rows.cpp (`sort_rows` and
                                 `order_rows`), trec/judgments.cpp and objects/join.hpp (ranks of
                                 judged documents), search/float32_search.cpp (top k and targets),
                                 search/score_ranks.cpp (targets in a matrix of scores)
    native/tie_order.py          the same in numpy: `rank_order`, `nearest_order` for distances, and
                                 `sides_of` for counting what ranks before a target

hamming/search.cpp compares nothing: it puts documents into bins by distance, in the order of their
numbers. The tie-break is the place of the document's id among all ids, by their text (`Ids.order`),
or that of its row or line (`Ranking`). `sort_rows` below sorts ragged rows by whichever kernel the
machine has; `tie_groups` finds where equal scores begin and end. tests/core/test_order.py fails
where another comparison is written.
"""

from __future__ import annotations

import numpy as np

from assay.arrays import Floats, Ints
from assay.native import kernels, tie_order

nearest_order = tie_order.nearest_order
rank_order = tie_order.rank_order


def rows_of(offsets: Ints) -> Ints:
    """Return the row number of every element of a ragged array.

    >>> rows_of(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(offsets) - 1), offsets[1:] - offsets[:-1])


def sort_rows(offsets: Ints, scores: Floats, tiebreak: Ints | None) -> Ints:
    """Permutation that puts each row in order: score descending, then tiebreak ascending.

    Without a tiebreak, equal scores keep the order they stand in.
    """
    return kernels().order_rows(offsets, np.ascontiguousarray(scores), tiebreak)


def tie_groups(offsets: Ints, scores: Floats, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Rank, first and last rank of the tie group, for the elements at these positions."""
    row = np.searchsorted(offsets, at, side="right") - 1
    start, stop = offsets[row], offsets[row + 1]
    rank = at - start + 1
    same = np.zeros(len(scores) + 1, bool)
    np.equal(scores[1:], scores[:-1], out=same[1:-1])
    if not same.any():
        return rank, rank, rank
    breaks = ~same
    breaks[offsets] = True
    edges = np.flatnonzero(breaks)
    group = np.searchsorted(edges, at, side="right") - 1
    return rank, edges[group] - start + 1, np.minimum(edges[group + 1], stop) - start
