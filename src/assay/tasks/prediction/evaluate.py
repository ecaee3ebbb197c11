"""Predictions of one class for each sample: the next place, the next item, the right label.

Scores or logits (samples × classes) with the true class of each sample give ranks over the whole
vocabulary; lists of candidates give ranks down to their end. Both lead to a `PredictionResult`.
A list may name a class again: the first mention counts, and the later one still takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.hits import Hits, judge_ranks
from assay.core.id_hints import check_labels_match
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.measures import Measure
from assay.measures.classes import Confusion
from assay.search.engine.score_ranks import (
    masked_targets,
    ranks_and_best,
    score_matrix,
    target_columns,
)
from assay.search.engine.target_search import TargetRanks
from assay.search.engine.workers import Progress
from assay.tasks.prediction.result import PredictionResult, make_result, name_targets

__all__ = ["Accumulator", "as_array", "evaluate_candidates", "evaluate_predictions"]


Measures = str | Measure | Iterable[str | Measure]
KS = (1, 3, 5, 10)


def evaluate_predictions(
    scores: Any,
    targets: Any,
    *,
    measures: Measures | None = None,
    name: str = "model",
    class_names: Any = None,
    query_ids: Any = None,
    groups: Mapping[str, Any] | None = None,
    conventions: str | Conventions = "next_location",
    threads: int | None = None,
    progress: Progress | None = None,
) -> PredictionResult:
    """Evaluate scores or logits, samples × classes, against the true class of each sample.

    Numpy arrays, memory maps and torch tensors will do. A target of −1 is a sample without one; it
    is counted and left out. A score of −inf marks a class that was ruled out: it ranks last, also
    where it is the true one. Without `measures`: Success@1, 3, 5, 10, RR over all classes, nDCG@10.

    >>> result = evaluate_predictions([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1]], [2, 0])
    >>> result.mean()["Acc@1"], result.mean()["MRR"], round(result.confusion.f1("macro"), 4)
    (0.5, 0.75, 0.3333)
    """
    batches = Accumulator(threads=threads, progress=progress)
    batches.add(scores, targets, query_ids=query_ids)
    return batches.result(
        measures=measures,
        name=name,
        class_names=class_names,
        groups=groups,
        conventions=conventions,
    )


def evaluate_candidates(
    candidates: Any,
    targets: Any,
    *,
    measures: Measures | None = None,
    name: str = "model",
    n_classes: int | None = None,
    query_ids: Any = None,
    groups: Mapping[str, Any] | None = None,
    conventions: str | Conventions = "next_location",
    allow_mismatch: bool = False,
) -> PredictionResult:
    """Evaluate lists of candidates, best first, against the true class of each sample.

    Classes are text or integers. Where a list names a class again, the first mention counts and the
    later one still takes its place. A target beyond the list is not found; so the reciprocal rank
    ends with the list and is called RR@10 for lists of ten. The result's `remarks` tell how many
    targets no list names at all, how many lists are empty, and how many places repeat a class.
    `n_classes` is needed for chance only. Classes that lists and targets write differently, as `1`
    and `01`, are refused unless `allow_mismatch`.

    >>> result = evaluate_candidates([["home", "work"], ["gym", "gym", "home"]], ["work", "home"])
    >>> result.mean()["RR@3"], result.repeated
    (0.41666666666666663, 1)
    """
    found = rank_in_lists(
        candidates,
        targets,
        query_ids=query_ids,
        n_classes=n_classes,
        allow_mismatch=allow_mismatch,
    )
    return make_result(
        found.hits,
        found.confusion,
        targets=found.targets,
        predicted=found.predicted,
        query_ids=query_ids,
        measures=list_measures(found) if measures is None else measures,
        name=name,
        groups=groups,
        conventions=conventions,
        depth=found.depth,
        **found.counts,
    )


def full_measures() -> tuple[str, ...]:
    """The default measures of scores of all classes."""
    return (*(f"Success@{k}" for k in KS), "RR", "nDCG@10")


def list_measures(found: ListRanks) -> tuple[str, ...]:
    """The default measures of lists; no cut-off lies beyond the end of the longest."""
    depth = found.depth
    cuts = [k for k in KS if k <= depth] or [depth]
    return (*(f"Success@{k}" for k in cuts), f"RR@{depth}", f"nDCG@{min(10, depth)}")


class Accumulator:
    """Collects batches of scores and targets; the result has the same bytes as in one go.

    >>> batches = Accumulator()
    >>> for scores, target in (([[0.1, 0.9]], [1]), ([[0.3, 0.2]], [1])):
    ...     batches.add(scores, target)
    >>> batches.result().mean()["MRR"]
    0.75
    """

    def __init__(self, *, threads: int | None = None, progress: Progress | None = None) -> None:
        self._threads, self._progress = threads, progress
        self._ranks: list[TargetRanks] = []
        self._targets: list[Ints] = []
        self._best: list[Ints] = []
        self._ids: list[Any] = []
        self._masked = 0

    def add(self, scores: Any, targets: Any, *, query_ids: Any = None) -> None:
        """Count the ranks of one batch; the scores themselves are not stored."""
        matrix = score_matrix(as_array(scores))
        wanted = target_columns(as_array(targets), *matrix.shape)
        ranks, best = ranks_and_best(matrix, wanted, threads=self._threads, progress=self._progress)
        ids = None if query_ids is None else checks.as_list(query_ids, "query_ids")
        if ids is not None:
            checks.check_lengths(scores=len(ranks), query_ids=len(ids))
        self._refuse_strangers(ranks, ids)
        self._ranks.append(ranks)
        self._targets.append(wanted)
        self._best.append(best)
        self._ids.append(ids)
        self._masked += int(masked_targets(matrix, wanted).sum())

    def _refuse_strangers(self, ranks: TargetRanks, ids: list[Any] | None) -> None:
        if self._ranks and ranks.n_docs != self._ranks[0].n_docs:
            raise MismatchError(
                f"This batch has {ranks.n_docs} classes, those before have "
                f"{self._ranks[0].n_docs}. All batches must have the same classes."
            )
        if self._ids and (ids is None) != (self._ids[0] is None):
            raise MismatchError("Some batches have query_ids and some do not. Give all or none.")

    def merge(self, *others: Accumulator) -> Accumulator:
        """All batches of this one, then those of the others, in a new one."""
        whole = Accumulator(threads=self._threads, progress=self._progress)
        for part in (self, *others):
            checks.require(part, Accumulator, "every part", "an Accumulator")
            for ranks, ids in zip(part._ranks, part._ids, strict=True):
                whole._refuse_strangers(ranks, ids)
            whole._ranks += part._ranks
            whole._targets += part._targets
            whole._best += part._best
            whole._ids += part._ids
            whole._masked += part._masked
        return whole

    def result(
        self,
        *,
        measures: Measures | None = None,
        name: str = "model",
        class_names: Any = None,
        groups: Mapping[str, Any] | None = None,
        conventions: str | Conventions = "next_location",
    ) -> PredictionResult:
        """The result of all batches so far; without ids the samples are numbered through."""
        if not self._ranks:
            raise UsageError("Nothing was added to this Accumulator yet.")
        n_classes = self._ranks[0].n_docs
        above, tied, before = (
            np.concatenate([getattr(part, key) for part in self._ranks])
            for key in ("above", "tied", "before")
        )
        whole = TargetRanks(above, tied, before, n_classes)
        ids = None if self._ids[0] is None else [one for part in self._ids for one in part]
        true, best = np.concatenate(self._targets), np.concatenate(self._best)
        known = true >= 0
        confusion = Confusion.count(true[known], best[known])
        names = None if class_names is None else _distinct_names(class_names, n_classes)
        return make_result(
            whole.hits(ids),
            confusion if names is None else _rename_classes(confusion, names),
            targets=true if names is None else name_targets(true, names),
            predicted=best if names is None else name_targets(best, names),
            query_ids=ids,
            measures=full_measures() if measures is None else measures,
            name=name,
            groups=groups,
            conventions=conventions,
            masked=self._masked,
        )


def _distinct_names(names: Any, n_classes: int) -> NDArray[Any]:
    labels = checks.check_labels(names, "class_names")
    checks.check_lengths(class_names=len(labels), classes=n_classes)
    distinct, counts = np.unique(labels, return_counts=True)
    if len(distinct) < len(labels):
        twice = distinct[counts > 1][0]
        raise MismatchError(f"class_names holds {twice!r} twice; each class needs its own name.")
    return labels


def _rename_classes(confusion: Confusion, names: NDArray[Any]) -> Confusion:
    """The counts under the names of the classes, in the order of these."""
    order = np.argsort(names[confusion.classes])
    return Confusion(
        names[confusion.classes][order],
        confusion.right[order],
        confusion.predicted[order],
        confusion.actual[order],
    )


def as_array(values: Any) -> Any:
    """What numpy can read: a torch tensor is detached and brought to main memory, the rest kept.

    Numpy has no bfloat16, so such a tensor is widened to float32, which holds it exactly.
    """
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


_UNUSED = -1
_FEW = 10  # of so few classes, lists may well name none


@dataclass(frozen=True, eq=False)
class ListRanks:
    """Hits, targets and first candidates by name, counts by class, the longest list, and counts
    of what is remarkable.
    """

    hits: Hits
    targets: NDArray[Any]
    predicted: NDArray[Any]
    confusion: Confusion
    depth: int
    counts: dict[str, int]


def rank_in_lists(
    candidates: Any,
    targets: Any,
    *,
    query_ids: Any = None,
    n_classes: int | None = None,
    allow_mismatch: bool = False,
) -> ListRanks:
    """Find each target in its list. −1 marks an unused place or, as None does, no target."""
    lists = _candidate_rows(as_array(candidates))
    given = checks.as_list(as_array(targets), "targets")
    checks.check_lengths(candidates=len(lists), targets=len(given))
    names, codes, true = _number_classes(lists, given)
    if not codes.shape[1]:
        raise ShapeError("All candidate lists are empty: there is nothing to evaluate.")
    known = true >= 0
    remarks = check_labels_match(
        names[np.unique(true[known])].tolist(),
        names[np.unique(codes[codes != _UNUSED])].tolist(),
        "true classes",
        "the candidate lists",
        allow=allow_mismatch,
        none=min(len(np.unique(true[known])), int(known.sum())) >= _FEW,
    )
    found = (codes == true[:, None]) & known[:, None]
    hits = judge_ranks(
        np.where(found.any(axis=1), found.argmax(axis=1) + 1, 0),
        n_docs=_vocabulary(n_classes, len(names)),
        has_target=known,
        query_ids=query_ids,
    )
    confusion = _top1(names, true[known], codes[known, 0])
    counts = {
        "repeated": _repeats(codes),
        "unlisted": int((known & ~np.isin(true, codes)).sum()),
        "empty": int((known & (codes == _UNUSED).all(axis=1)).sum()),
    }
    hits = replace(hits, remarks=(*hits.remarks, *remarks))
    wanted, first = (name_targets(column, names) for column in (true, codes[:, 0]))
    return ListRanks(hits, wanted, first, confusion, codes.shape[1], counts)


def _repeats(codes: Ints) -> int:
    """How many places name a class that their list has named before."""
    ordered = np.sort(codes, axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != _UNUSED)
    return int(again.sum())


def _candidate_rows(candidates: Any) -> list[list[Any]]:
    rows = checks.as_list(candidates, "candidates")
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


def _number_classes(lists: list[list[Any]], targets: list[Any]) -> tuple[NDArray[Any], Ints, Ints]:
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
