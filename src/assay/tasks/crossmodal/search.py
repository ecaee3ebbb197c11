"""One direction, searched and scored in blocks of queries, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.conventions import Conventions
from assay.core.hits import Hits, judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Labels
from assay.core.ranking import Ranking
from assay.core.settings import Settings, as_settings
from assay.errors import UsageError
from assay.scoring.chance import ceiling, chance
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.search.engine import rank
from assay.tasks.crossmodal.confusion import ConfusionCounter
from assay.tasks.crossmodal.directions import PROTOTYPE, Direction, RetrievalSettings
from assay.tasks.crossmodal.results import DirectionResult
from assay.tasks.crossmodal.samples import (
    Prototypes,
    Samples,
    check_dimensions,
    check_vectors,
    without_labels,
)

__all__ = ["SearchTask", "check_tasks", "make_tasks", "search_direction"]


@dataclass(frozen=True, eq=False)
class SearchTask:
    """A direction with its vectors and, for every level, the labels of queries and items.

    `settings` say which labels were dropped and how prototypes were made.
    """

    direction: Direction
    queries: Any
    docs: Any
    levels: dict[str, Labels]
    settings: Settings

    @property
    def query_ids(self) -> Ids:
        """Ids of the queries, in rising order."""
        return next(iter(self.levels.values())).query_ids

    @property
    def doc_ids(self) -> Ids:
        """Ids of the items that are searched."""
        return next(iter(self.levels.values())).doc_ids

    def excludes_own(self, settings: RetrievalSettings) -> bool:
        """Whether an item with the query's own id is left out: in self directions, always."""
        paired = settings.exclude_paired and self.direction.source != PROTOTYPE
        return self.direction.within or paired

    def most_relevant(self) -> int:
        """The largest number of relevant items that a query of any level has."""
        return max(int(labels.n_relevant.max(initial=0)) for labels in self.levels.values())


def make_tasks(
    samples: Samples, directions: list[Direction], prototypes: Prototypes | None, dropped: list[str]
) -> list[SearchTask]:
    """One search for each direction and each set of samples that some levels share."""
    return [
        _make_task(direction, kept, levels, prototypes, dropped)
        for kept, levels in _group_levels(samples, dropped)
        for direction in directions
    ]


def check_tasks(tasks: list[SearchTask], settings: RetrievalSettings) -> None:
    """Look at every array once, before the first search."""
    directions_needed = settings.metric == "cosine" and settings.zero == "error"
    seen: set[int] = set()
    for one in tasks:
        check_dimensions(one.queries, one.docs, one.direction.name)
        if one.excludes_own(settings) and len(one.doc_ids) < 2:
            raise UsageError(
                f"{one.direction.name}: there is one sample, and it cannot find itself. "
                "Give at least two."
            )
        each = "prototype" if one.direction.source == PROTOTYPE else "sample"
        for vectors, ids, name, kind in (
            (one.queries, one.query_ids, one.direction.source, each),
            (one.docs, one.doc_ids, one.direction.target, "sample"),
        ):
            if id(vectors) not in seen:
                what = f"The embeddings {name!r}"
                check_vectors(vectors, ids, what, directions_needed=directions_needed, each=kind)
                seen.add(id(vectors))


def _group_levels(samples: Samples, dropped: list[str]) -> list[tuple[Samples, list[str]]]:
    """Levels that leave out the same samples are searched together."""
    groups: dict[bytes, list[str]] = {}
    for level, labels in samples.levels.items():
        kept = without_labels(labels, dropped)
        if not kept.any():
            raise UsageError(f"No sample of the labels {level!r} is left: all have dropped labels.")
        groups.setdefault(kept.tobytes(), []).append(level)
    return [
        (samples.take(without_labels(samples.levels[levels[0]], dropped)), levels)
        for levels in groups.values()
    ]


def _make_task(
    direction: Direction,
    samples: Samples,
    levels: list[str],
    prototypes: Prototypes | None,
    dropped: list[str],
) -> SearchTask:
    settings = as_settings(drop_labels=sorted(dropped))
    if prototypes is None or direction.source != PROTOTYPE:
        vectors, ids, own = samples.modalities[direction.source], samples.ids, None
    else:
        settings |= prototypes.settings
        vectors, ids, own = prototypes.vectors, Ids.count(len(prototypes.labels)), prototypes.labels
    judged = {
        level: Judgments.from_labels(
            samples.levels[level] if own is None else own,
            samples.levels[level],
            query_ids=ids,
            doc_ids=samples.ids,
        )
        for level in levels
    }
    return SearchTask(direction, vectors, samples.modalities[direction.target], judged, settings)


Progress = Callable[[int, int], None]

# Retrieved items that a block may hold. A label's items may all tie, so that what is kept can be
# far more than the depth: the next block is as large as the last one says it may be.
_ITEMS_PER_BLOCK: Final = 1 << 22
_FIRST_BLOCK, _LARGEST_BLOCK, _GROWTH = 64, 16384, 8


def search_direction(
    task: SearchTask, settings: RetrievalSettings, *, progress: Progress | None = None
) -> dict[str, DirectionResult]:
    """The result of every level from one search."""
    rules = settings.conventions(exclude_own=task.excludes_own(settings))
    most = task.most_relevant()
    measures = settings.measures(most, prototypes=task.direction.source == PROTOTYPE)
    by_level = {
        level: _Accumulator(
            labels, tuple(measures), rules, ConfusionCounter(labels.names, settings.counted_places)
        )
        for level, labels in task.levels.items()
    }
    for rows, ranking in _blocks(task, settings, settings.depth_for(most), progress):
        for accumulator in by_level.values():
            accumulator.add(rows, ranking)
    return {
        level: accumulator.result(task, level, settings, most)
        for level, accumulator in by_level.items()
    }


def _blocks(
    task: SearchTask, settings: RetrievalSettings, depth: int, progress: Progress | None
) -> Iterator[tuple[Ints, Ranking]]:
    """Rankings of one block of queries after the other, with everything that ties at the end."""
    n, size, start = len(task.query_ids), _FIRST_BLOCK, 0
    while start < n:
        rows = np.arange(start, min(start + size, n))
        ranking = rank(
            task.queries[rows[0] : rows[-1] + 1],
            task.docs,
            min(depth, len(task.doc_ids)),
            metric=settings.metric,
            exclude="self" if task.excludes_own(settings) else None,
            query_ids=task.query_ids.take(rows),
            doc_ids=task.doc_ids,
            keep_ties=True,
            zero=settings.zero,
            threads=settings.threads,
            progress=None if progress is None else _shift_progress(progress, rows, n),
        )
        yield rows, ranking
        start += len(rows)
        kept = max(len(ranking.given_docs) // len(rows), 1)
        size = min(size * _GROWTH, _LARGEST_BLOCK, max(_ITEMS_PER_BLOCK // kept, 1))


def _shift_progress(progress: Progress, rows: Ints, n: int) -> Callable[[int, int | None], None]:
    """Progress within a block, whatever it counts, as progress within all queries."""

    def report(done: int, total: int | None) -> None:
        progress(int(rows[0]) + len(rows) * done // max(total or 1, 1), n)

    return report


@dataclass
class _Accumulator:
    """What one level of labels has collected so far."""

    labels: Labels
    measures: tuple[str, ...]
    rules: Conventions
    counter: ConfusionCounter
    scores: list[Scores] = field(default_factory=list)
    limits: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)
    zero_rows: tuple[int, int] = (0, 0)

    def add(self, rows: Ints, ranking: Ranking) -> None:
        """Judge, score and count one block of queries."""
        own = self.labels.query_labels[rows]
        hits = judge(ranking, self._labels_of(rows), conventions=self.rules)
        self.scores.append(score(hits, self.measures, conventions=self.rules))
        self.zero_rows = (self.zero_rows[0] + ranking.zero_rows[0], ranking.zero_rows[1])
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

    def result(
        self, task: SearchTask, level: str, settings: RetrievalSettings, most: int
    ) -> DirectionResult:
        """Everything together, with the label of each query as its group."""
        prototypes = task.direction.source == PROTOTYPE
        scores = Scores.merge(*self.scores).with_groups(label=self._label_of_query())
        scores = scores.but_settings(
            direction=task.direction.name,
            labels=level,
            truncate=settings.truncate and prototypes,
            confusion_k=settings.counted_places,
            **task.settings,
        )
        lacking = settings.full and "MAP@R" not in self.measures
        return DirectionResult(
            direction=task.direction,
            level=level,
            headlines={k: settings.headline(k, prototypes=prototypes) for k in settings.k_values},
            scores=scores,
            chance=self._limit(scores, 0),
            ceiling=self._limit(scores, 1),
            confusion=self.counter.result(),
            n_docs=len(self.labels.doc_ids),
            targets=self._sizes(),
            skipped=f"MAP@R needs depth {most}" if lacking else "",
            zero_rows=self.zero_rows if settings.metric == "cosine" else (0, 0),
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
