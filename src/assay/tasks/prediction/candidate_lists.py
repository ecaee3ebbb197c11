"""Where the targets stand in lists of candidates.

A list may name a class again: the first mention counts, and the later one still takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core import checks
from assay.core.hits import Hits, judge_ranks
from assay.errors import ShapeError, ValueRangeError
from assay.measures.classes import Confusion
from assay.tasks.prediction.result import named_targets

__all__ = ["FoundInLists", "as_array", "find_in_lists"]


def as_array(values: Any) -> Any:
    """What numpy can read: a torch tensor is detached and brought to main memory, the rest kept.

    Numpy has no bfloat16, so such a tensor is widened to float32, which holds it exactly.
    """
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


_UNUSED = -1


@dataclass(frozen=True, eq=False)
class FoundInLists:
    """Hits, targets by name, top-1 counts, the longest list, how many places repeat a class."""

    hits: Hits
    targets: NDArray[Any]
    confusion: Confusion
    depth: int
    repeated: int


def find_in_lists(
    candidates: Any, targets: Any, *, query_ids: Any = None, n_classes: int | None = None
) -> FoundInLists:
    """Find each target in its list. −1 marks an unused place or, as None does, no target."""
    lists = _lists(as_array(candidates))
    wanted = checks.listed(as_array(targets), "targets")
    checks.check_lengths(candidates=len(lists), targets=len(wanted))
    names, codes, true = _numbered(lists, wanted)
    if not codes.shape[1]:
        raise ShapeError("All candidate lists are empty: there is nothing to evaluate.")
    known = true >= 0
    found = (codes == true[:, None]) & known[:, None]
    hits = judge_ranks(
        np.where(found.any(axis=1), found.argmax(axis=1) + 1, 0),
        n_docs=_vocabulary(n_classes, len(names)),
        has_target=known,
        query_ids=query_ids,
    )
    confusion = _top1(names, true[known], codes[known, 0])
    return FoundInLists(
        hits, named_targets(true, names), confusion, codes.shape[1], _repeats(codes)
    )


def _repeats(codes: Ints) -> int:
    """How many places name a class that their list has named before."""
    ordered = np.sort(codes, axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != _UNUSED)
    return int(again.sum())


def _lists(candidates: Any) -> list[list[Any]]:
    rows = checks.listed(candidates, "candidates")
    if not rows:
        raise ShapeError("candidates hold no samples.")
    found = []
    for number, row in enumerate(rows):
        if isinstance(row, str | bytes) or not hasattr(row, "__iter__"):
            raise ShapeError(
                f"candidates must be a list for each sample; row {number} is {row!r}. "
                "For scores of all classes use evaluate_predictions."
            )
        found.append([item for item in row if not _is_none(item)])
    return found


def _is_none(label: Any) -> bool:
    return label is None or (isinstance(label, int | np.integer) and label == _UNUSED)


def _numbered(lists: list[list[Any]], targets: list[Any]) -> tuple[NDArray[Any], Ints, Ints]:
    """The names of all classes, the lists as a matrix of their numbers, and the targets."""
    lengths = np.array([len(row) for row in lists])
    has = np.array([not _is_none(target) for target in targets], bool)
    listed = checks.check_labels(list(chain.from_iterable(lists)), "candidates")
    wanted = checks.check_labels([target for target in targets if not _is_none(target)], "targets")
    if len(listed) and len(wanted):
        checks.check_one_kind_of_label(wanted, listed)
    elif not len(wanted):
        raise ValueRangeError("No sample has a target: there is nothing to evaluate.")
    names, codes = np.unique(
        np.concatenate([listed, wanted]) if len(listed) else wanted, return_inverse=True
    )
    matrix = np.full((len(lists), int(lengths.max(initial=0))), _UNUSED, np.int64)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = codes[: len(listed)]
    true = np.full(len(targets), _UNUSED, np.int64)
    true[has] = codes[len(listed) :]
    return names, matrix, true


def _vocabulary(n_classes: int | None, n_named: int) -> int | None:
    if n_classes is None:
        return None
    size = checks.check_cutoff(n_classes, "n_classes")
    if size < n_named:
        raise ValueRangeError(
            f"n_classes is {size}, but lists and targets name {n_named} different classes."
        )
    return size


def _top1(names: NDArray[Any], true: Ints, first: Ints) -> Confusion:
    """Counts of the first candidates; an empty list is a miss, but no class of its own."""
    counts = Confusion.count(true, first)
    used = counts.classes != _UNUSED
    return Confusion(
        names[counts.classes[used]],
        counts.right[used],
        counts.predicted[used],
        counts.actual[used],
    )
