"""One direction, searched and scored in blocks of queries, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from assay.arrays import Ints, offsets_of
from assay.core.checks import name_few
from assay.core.conventions import Conventions
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Labels, Qrels
from assay.core.ranking import Ranking
from assay.core.settings import Settings, as_settings
from assay.errors import MismatchError, UsageError
from assay.scoring.chance import ceiling, chance
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.search.engine import rank
from assay.tasks.crossmodal.confusion import ConfusionCounter
from assay.tasks.crossmodal.directions import PROTOTYPE, Direction, RetrievalSettings
from assay.tasks.crossmodal.first_ranks import FirstRanks
from assay.tasks.crossmodal.results import DirectionResult
from assay.tasks.crossmodal.samples import (
    Prototypes,
    Samples,
    average_by_label,
    check_dimensions,
    check_vectors,
    without_labels,
)

__all__ = ["QRELS", "SearchTask", "TaskMaker", "check_tasks", "search_direction"]


QRELS: Final = "qrels"


@dataclass(frozen=True, eq=False)
class SearchTask:
    """A direction with its vectors and, for every level, the labels of queries and items.

    With `qrels` these say what is relevant, and labels only which queries belong together.
    `settings` say which labels were dropped and how prototypes were made; `own` is whether equal
    ids of queries and items are the same sample.
    """

    direction: Direction
    queries: Any
    docs: Any
    levels: dict[str, Labels]
    settings: Settings
    own: bool = True
    qrels: Qrels | None = None

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
        paired = settings.exclude_paired and PROTOTYPE not in self.direction.ends
        return self.direction.within or paired

    def most_relevant(self) -> int:
        """The largest number of relevant items that a query of any level has."""
        if self.qrels is not None:
            return int(np.diff(offsets_of(self.qrels.grades >= 1)[self.qrels.offsets]).max())
        return max(int(labels.n_relevant.max(initial=0)) for labels in self.levels.values())


class TaskMaker:
    """Makes the searches of all directions from the samples of each modality."""

    def __init__(
        self, sides: Mapping[str, Samples], prototypes: Prototypes | None, dropped: list[str]
    ) -> None:
        self.levels = list(next(iter(sides.values())).levels)
        self.sides = dict(sides)
        self.made_by: Settings = {}
        if prototypes is not None:
            self.sides[PROTOTYPE] = prototypes.as_samples(self.levels)
            self.made_by = prototypes.settings
        self.dropped = dropped
        self._taken: dict[tuple[int, bytes], Samples] = {}

    def make(self, direction: Direction, *, unit: bool) -> list[SearchTask]:
        """One search for each set of samples that some levels share."""
        groups: dict[tuple[int, int], tuple[Samples, Samples, list[str]]] = {}
        for level in self.levels:
            queries, docs = (self._left(end, level) for end in direction.ends)
            if direction.target == PROTOTYPE:
                docs = average_by_label(docs, PROTOTYPE, level, unit=unit)
            groups.setdefault((id(queries), id(docs)), (queries, docs, []))[2].append(level)
        return [self._task(direction, *group) for group in groups.values()]

    def make_judged(self, direction: Direction, qrels: Qrels) -> SearchTask:
        """The search of the judged queries; the first labels say which of them belong together."""
        queries, docs = (self.sides[end] for end in direction.ends)
        rows = _judged_rows(queries.ids, docs.ids, qrels, direction)
        judged = _in_order_of(qrels, queries.ids.take(rows), docs.ids)
        kept = np.isin(np.arange(len(queries.ids)), rows)
        task = self._task(direction, queries.take(kept), docs, self.levels[:1])
        levels = {QRELS: next(iter(task.levels.values()))}
        return replace(task, levels=levels, qrels=judged)

    def _left(self, side: str, level: str) -> Samples:
        """The samples of a modality whose labels are not dropped; the same ones are one object."""
        samples = self.sides[side]
        kept = without_labels(samples.levels[level], self.dropped)
        if not kept.any():
            what = "prototype" if side == PROTOTYPE else f"sample of the labels {level!r}"
            raise UsageError(f"No {what} is left: all have dropped labels.")
        key = id(samples), kept.tobytes()
        if key not in self._taken:
            left = samples.take(kept)
            if side == PROTOTYPE and left is not samples:
                left = replace(left, ids=Ids.count(len(left.ids)))
            self._taken[key] = left
        return self._taken[key]

    def _task(
        self, direction: Direction, queries: Samples, docs: Samples, levels: list[str]
    ) -> SearchTask:
        settings = as_settings(drop_labels=sorted(self.dropped))
        if PROTOTYPE in direction.ends:
            settings |= self.made_by
        judged = {
            level: Judgments.from_labels(
                queries.levels[level],
                docs.levels[level],
                query_ids=queries.ids,
                doc_ids=docs.ids,
            )
            for level in levels
        }
        return SearchTask(
            direction,
            queries.modalities[direction.source],
            docs.modalities[direction.target],
            judged,
            settings,
            own=queries is docs or not (queries.ids.numbered or docs.ids.numbered),
        )


def _judged_rows(query_ids: Ids, doc_ids: Ids, qrels: Qrels, direction: Direction) -> Ints:
    """The rows of the judged queries in order; every judged id must be a sample's."""
    rows = _match(qrels.query_ids, query_ids)
    for ids, places, side in (
        (qrels.query_ids, rows, direction.source),
        (qrels.doc_ids, _match(qrels.doc_ids, doc_ids), direction.target),
    ):
        if (places < 0).any():
            strange = ids.take(np.flatnonzero(places < 0))
            raise MismatchError(
                f"qrels of {direction.name}: {name_few(strange)} is no sample of {side!r}."
            )
    return np.sort(rows)


def _match(judged: Ids, samples: Ids) -> Ints:
    """The places of judged ids; judgments name samples without ids by their row's number."""
    return judged.match(samples.as_text() if samples.numbered else samples)


def _in_order_of(qrels: Qrels, query_ids: Ids, doc_ids: Ids) -> Qrels:
    """The same judgments with the ids of the samples, in their order."""
    row = np.repeat(_match(qrels.query_ids, query_ids), np.diff(qrels.offsets))
    docs = _match(qrels.doc_ids, doc_ids)[qrels.docs]
    made = Judgments.from_pairs(query_ids, doc_ids, row, docs, qrels.grades)
    return replace(made, exhaustive=True)


def check_tasks(tasks: list[SearchTask], settings: RetrievalSettings) -> None:
    """Look at every array once, before the first search."""
    directions_needed = settings.metric == "cosine" and settings.zero == "error"
    seen: set[int] = set()
    for one in tasks:
        check_dimensions(one.queries, one.docs, one.direction.name)
        if one.excludes_own(settings) and not one.own:
            raise UsageError(
                f"{one.direction.name}: exclude_paired needs the sample_ids of both sides, because "
                "their rows are not in step."
            )
        if one.excludes_own(settings) and len(one.doc_ids) < 2:
            raise UsageError(
                f"{one.direction.name}: there is one sample, and it cannot find itself. "
                "Give at least two."
            )
        for vectors, ids, name in (
            (one.queries, one.query_ids, one.direction.source),
            (one.docs, one.doc_ids, one.direction.target),
        ):
            if id(vectors) not in seen:
                what = f"The embeddings {name!r}"
                kind = "prototype" if name == PROTOTYPE else "sample"
                check_vectors(vectors, ids, what, directions_needed=directions_needed, each=kind)
                seen.add(id(vectors))


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
            labels,
            task.qrels,
            tuple(measures),
            rules,
            ConfusionCounter(labels.names, settings.counted_places),
        )
        for level, labels in task.levels.items()
    }
    depth = settings.depth_for(most, len(task.doc_ids))
    for rows, ranking in _blocks(task, settings, depth, progress):
        for accumulator in by_level.values():
            accumulator.add(rows, ranking, first_ranks=settings.first_ranks)
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
    qrels: Qrels | None
    measures: tuple[str, ...]
    rules: Conventions
    counter: ConfusionCounter
    scores: list[Scores] = field(default_factory=list)
    chances: list[Scores] = field(default_factory=list)
    ceilings: list[Scores] = field(default_factory=list)
    first: list[FirstRanks] = field(default_factory=list)
    zero_rows: tuple[int, int] = (0, 0)

    def add(self, rows: Ints, ranking: Ranking, *, first_ranks: bool) -> None:
        """Judge, score and count one block of queries."""
        hits = judge(ranking, self._judgments_of(rows), conventions=self.rules)
        for kept, work in (
            (self.scores, score),
            (self.chances, chance),
            (self.ceilings, ceiling),
        ):
            kept.append(work(hits, self.measures, conventions=self.rules))
        if first_ranks:
            self.first.append(FirstRanks.of(hits, self.rules.ties))
        self.zero_rows = (self.zero_rows[0] + ranking.zero_rows[0], ranking.zero_rows[1])
        self.counter.add(ranking, self.labels.query_labels[rows], self.labels.doc_labels)

    def _judgments_of(self, rows: Ints) -> Judgments:
        """The same judgments for the queries of one block, which follow one another."""
        query_ids = self.labels.query_ids.take(rows)
        if self.qrels is None:
            labels = self.labels.query_labels[rows]
            return replace(self.labels, query_ids=query_ids, query_labels=labels)
        offsets = self.qrels.offsets[rows[0] : rows[-1] + 2]
        part = slice(offsets[0], offsets[-1])
        return replace(
            self.qrels,
            query_ids=query_ids,
            offsets=offsets - offsets[0],
            docs=self.qrels.docs[part],
            grades=self.qrels.grades[part],
        )

    def result(
        self, task: SearchTask, level: str, settings: RetrievalSettings, most: int
    ) -> DirectionResult:
        """Everything together, with the label of each query as its group."""
        prototypes = task.direction.source == PROTOTYPE
        scores = Scores.merge(*self.scores).with_groups(label=self._label_of_query())
        scores = scores.but_settings(
            direction=task.direction.name,
            labels=level,
            samples="apart" if not task.own and PROTOTYPE not in task.direction.ends else None,
            truncate=settings.truncate and prototypes,
            confusion_k=settings.counted_places,
            **task.settings,
        )
        lacking = settings.full and "MAP@R" not in self.measures
        return DirectionResult(
            direction=task.direction,
            level=level,
            headlines=settings.headlines(prototypes=prototypes),
            scores=scores,
            chance=_as_limit(scores, self.chances),
            ceiling=_as_limit(scores, self.ceilings),
            confusion=self.counter.result(),
            n_docs=len(self.labels.doc_ids),
            targets=self._sizes(),
            skipped=f"MAP@R needs depth {most}" if lacking else "",
            zero_rows=self.zero_rows if settings.metric == "cosine" else (0, 0),
            first_ranks=FirstRanks.merge(self.first) if self.first else None,
        )

    def _label_of_query(self) -> dict[Any, str]:
        names = [str(name) for name in self.labels.names]
        groups = [names[code] for code in self.labels.query_labels.tolist()]
        return dict(zip(self.labels.query_ids.to_list(), groups, strict=True))

    def _sizes(self) -> dict[str, int]:
        """How many items carry each label."""
        counts = np.bincount(self.labels.doc_labels, minlength=len(self.labels.names))
        return {str(name): int(n) for name, n in zip(self.labels.names, counts, strict=True)}


def _as_limit(scores: Scores, parts: list[Scores]) -> Scores:
    """Chance or ceiling of every query, as scores of the same queries."""
    limit = Scores.merge(*parts)
    return replace(
        scores,
        values=limit.values,
        tied=np.zeros_like(scores.tied),
        not_computed=limit.not_computed,
    )
