"""One direction, searched and scored in blocks of queries, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.chance import ceiling, chance
from assay.conventions import Conventions
from assay.evaluation import score
from assay.hits import Hits, judge
from assay.judgments import Labels
from assay.ranking import Ranking
from assay.scores import Scores
from assay.tasks.crossmodal_confusion import ConfusionCounter
from assay.tasks.crossmodal_directions import PROTOTYPE
from assay.tasks.crossmodal_plan import Plan
from assay.tasks.crossmodal_questions import Question
from assay.tasks.crossmodal_results import DirectionResult

__all__ = ["search_direction"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]

# Retrieved items that a block may hold. A label's items may all tie, so that what is kept can be
# far more than was asked for: the next block is as large as the last one says it may be.
_ITEMS_PER_BLOCK: Final = 1 << 22
_FIRST_BLOCK, _LARGEST_BLOCK, _GROWTH = 64, 16384, 8


def search_direction(
    question: Question, plan: Plan, *, progress: Progress | None = None
) -> dict[str, DirectionResult]:
    """The result of every level from one search."""
    rules = plan.conventions(exclude_own=question.excludes_own(plan))
    most = question.most_relevant()
    measures = plan.measures(most, prototypes=question.direction.source == PROTOTYPE)
    tallies = {
        level: _Tally(
            labels, tuple(measures), rules, ConfusionCounter(labels.names, plan.counted_places)
        )
        for level, labels in question.levels.items()
    }
    for rows, ranking in _blocks(question, plan, plan.depth_for(most), progress):
        for tally in tallies.values():
            tally.add(rows, ranking)
    return {level: tally.result(question, level, plan, most) for level, tally in tallies.items()}


def _blocks(
    question: Question, plan: Plan, depth: int, progress: Progress | None
) -> Iterator[tuple[Ints, Ranking]]:
    """Rankings of one block of queries after the other, with everything that ties at the end."""
    from assay.engine import rank

    n, size, start = len(question.query_ids), _FIRST_BLOCK, 0
    while start < n:
        rows = np.arange(start, min(start + size, n))
        ranking = rank(
            question.queries[rows[0] : rows[-1] + 1],
            question.docs,
            min(depth, len(question.doc_ids)),
            metric=plan.metric,
            exclude="self" if question.excludes_own(plan) else None,
            query_ids=question.query_ids.take(rows),
            doc_ids=question.doc_ids,
            keep_ties=True,
            zero=plan.zero,
            threads=plan.threads,
            progress=None if progress is None else _shifted(progress, rows, n),
        )
        yield rows, ranking
        start += len(rows)
        kept = max(len(ranking.given_docs) // len(rows), 1)
        size = min(size * _GROWTH, _LARGEST_BLOCK, max(_ITEMS_PER_BLOCK // kept, 1))


def _shifted(progress: Progress, rows: Ints, n: int) -> Callable[[int, int | None], None]:
    """Progress within a block, whatever it counts, as progress within all queries."""

    def report(done: int, total: int | None) -> None:
        progress(int(rows[0]) + len(rows) * done // max(total or 1, 1), n)

    return report


@dataclass
class _Tally:
    """What one level of labels has collected so far."""

    labels: Labels
    measures: tuple[str, ...]
    rules: Conventions
    counter: ConfusionCounter
    scores: list[Scores] = field(default_factory=list)
    limits: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)

    def add(self, rows: Ints, ranking: Ranking) -> None:
        """Judge, score and count one block of queries."""
        own = self.labels.query_labels[rows]
        hits = judge(ranking, self._labels_of(rows), conventions=self.rules)
        self.scores.append(score(hits, self.measures, conventions=self.rules))
        self._add_limits(hits, own)
        self.counter.add(ranking, own, self.labels.doc_labels)

    def _labels_of(self, rows: Ints) -> Labels:
        """The same judgments for the queries of one block."""
        labels = self.labels
        return replace(
            labels,
            query_ids=labels.query_ids.take(rows),
            query_labels=labels.query_labels[rows],
        )

    def _add_limits(self, hits: Hits, own: Ints) -> None:
        """Chance and ceiling are the same for all queries of a label: one of them will do."""
        new, first = np.unique(own, return_index=True)
        unseen = np.array([code not in self.limits for code in new.tolist()], bool)
        if unseen.any():
            some = hits.select(first[unseen])
            found = [
                limit(some, self.measures, conventions=self.rules).values.T
                for limit in (chance, ceiling)
            ]
            self.limits.update(zip(new[unseen].tolist(), zip(*found, strict=True), strict=True))

    def result(self, question: Question, level: str, plan: Plan, most: int) -> DirectionResult:
        """Everything together, with the label of each query as its group."""
        scores = Scores.merge(*self.scores).with_groups(label=self._label_of_query())
        prototypes = question.direction.source == PROTOTYPE
        return DirectionResult(
            direction=question.direction,
            level=level,
            headlines={k: plan.headline(k, prototypes=prototypes) for k in plan.k_values},
            scores=scores,
            chance=self._limit(scores, 0),
            ceiling=self._limit(scores, 1),
            confusion=self.counter.result(),
            n_docs=len(self.labels.doc_ids),
            targets=self._sizes(),
            undone="" if "MAP@R" in self.measures or not plan.full else f"MAP@R needs depth {most}",
        )

    def _label_of_query(self) -> dict[Any, str]:
        names = [str(name) for name in self.labels.names]
        groups = [names[code] for code in self.labels.query_labels.tolist()]
        return dict(zip(self.labels.query_ids.to_list(), groups, strict=True))

    def _limit(self, scores: Scores, which: int) -> Scores:
        """Chance (0) or ceiling (1) of every query, as scores of the same queries."""
        by_label = np.full((len(self.labels.names), len(self.measures)), np.nan)
        for code, found in self.limits.items():
            by_label[code] = found[which]
        values = by_label[self.labels.query_labels].T
        return replace(scores, values=values, tied=np.zeros_like(scores.tied))

    def _sizes(self) -> dict[str, int]:
        """How many items carry each label."""
        counts = np.bincount(self.labels.doc_labels, minlength=len(self.labels.names))
        return {str(name): int(n) for name, n in zip(self.labels.names, counts, strict=True)}
