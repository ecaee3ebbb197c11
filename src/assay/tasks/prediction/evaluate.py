"""Predictions of one class for each sample: the next place, the next item, the right label.

Scores or logits (samples × classes) with the true class of each sample give ranks over the whole
vocabulary; lists of candidates give ranks down to their end. Both lead to a `PredictionResult`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core import checks
from assay.core.conventions import Conventions
from assay.errors import MismatchError, UsageError
from assay.measures import Measure
from assay.measures.classes import Confusion
from assay.search.engine.score_ranks import ranks_and_best, score_matrix, target_columns
from assay.search.engine.target_search import TargetRanks
from assay.search.engine.workers import Progress
from assay.tasks.prediction.baselines import evaluate_baselines
from assay.tasks.prediction.candidate_lists import FoundInLists, as_array, find_in_lists
from assay.tasks.prediction.result import PredictionResult, make_result, named_targets

__all__ = [
    "Accumulator",
    "PredictionResult",
    "evaluate_baselines",
    "evaluate_candidates",
    "evaluate_predictions",
]


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
    conventions: str | Conventions = "document_001",
    threads: int | None = None,
    progress: Progress | None = None,
) -> PredictionResult:
    """Evaluate scores or logits, samples × classes, against the true class of each sample.

    Numpy arrays, memory maps and torch tensors will do. A target of −1 is a sample without one; it
    is counted and left out. Without `measures`: Success@1, 3, 5, 10, RR over all classes, nDCG@10.

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
    conventions: str | Conventions = "document_001",
) -> PredictionResult:
    """Evaluate lists of candidates, best first, against the true class of each sample.

    Classes are text or integers. Where a list names a class again, the first mention counts and the
    later one still takes its place; the result tells how many. A target beyond the list is not
    found; so the reciprocal rank ends with the list and is called RR@10 for lists of ten.
    `n_classes` is needed for chance only.

    >>> result = evaluate_candidates([["home", "work"], ["gym", "gym", "home"]], ["work", "home"])
    >>> result.mean()["RR@3"], result.repeated
    (0.41666666666666663, 1)
    """
    found = find_in_lists(candidates, targets, query_ids=query_ids, n_classes=n_classes)
    return make_result(
        found.hits,
        found.confusion,
        targets=found.targets,
        query_ids=query_ids,
        measures=list_measures(found) if measures is None else measures,
        name=name,
        groups=groups,
        conventions=conventions,
        depth=found.depth,
        repeated=found.repeated,
    )


def full_measures() -> tuple[str, ...]:
    """What is computed from scores of all classes unless something else is asked for."""
    return (*(f"Success@{k}" for k in KS), "RR", "nDCG@10")


def list_measures(found: FoundInLists) -> tuple[str, ...]:
    """What is computed from lists; no cut-off lies beyond the end of the longest."""
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

    def add(self, scores: Any, targets: Any, *, query_ids: Any = None) -> None:
        """Count the ranks of one batch; nothing of the scores is kept."""
        matrix = score_matrix(as_array(scores))
        wanted = target_columns(as_array(targets), *matrix.shape)
        ranks, best = ranks_and_best(matrix, wanted, threads=self._threads, progress=self._progress)
        ids = None if query_ids is None else checks.listed(query_ids, "query_ids")
        if ids is not None:
            checks.check_lengths(scores=len(ranks), query_ids=len(ids))
        self._refuse_strangers(ranks, ids)
        self._ranks.append(ranks)
        self._targets.append(wanted)
        self._best.append(best)
        self._ids.append(ids)

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
        return whole

    def result(
        self,
        *,
        measures: Measures | None = None,
        name: str = "model",
        class_names: Any = None,
        groups: Mapping[str, Any] | None = None,
        conventions: str | Conventions = "document_001",
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
            confusion if names is None else _renamed(confusion, names),
            targets=true if names is None else named_targets(true, names),
            query_ids=ids,
            measures=full_measures() if measures is None else measures,
            name=name,
            groups=groups,
            conventions=conventions,
        )


def _distinct_names(names: Any, n_classes: int) -> NDArray[Any]:
    labels = checks.check_labels(names, "class_names")
    checks.check_lengths(class_names=len(labels), classes=n_classes)
    distinct, counts = np.unique(labels, return_counts=True)
    if len(distinct) < len(labels):
        twice = distinct[counts > 1][0]
        raise MismatchError(f"class_names holds {twice!r} twice; each class needs its own name.")
    return labels


def _renamed(confusion: Confusion, names: NDArray[Any]) -> Confusion:
    """The counts under the names of the classes, in the order of these."""
    order = np.argsort(names[confusion.classes])
    return Confusion(
        names[confusion.classes][order],
        confusion.right[order],
        confusion.predicted[order],
        confusion.actual[order],
    )
