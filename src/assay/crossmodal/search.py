"""One direction, searched and scored in blocks of queries, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints, offsets_of
from assay.core import checks
from assay.core.conventions import Conventions, Settings, as_settings, preset
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Labels, Qrels
from assay.core.ranking import Ranking
from assay.crossmodal.results import DirectionResult, FirstRanks
from assay.crossmodal.samples import (
    PROTOTYPE,
    Direction,
    Prototypes,
    Samples,
    average_by_label,
    check_vectors,
    without_labels,
)
from assay.crossmodal.tables import LabelConfusion
from assay.errors import MismatchError, UsageError
from assay.measures import Measure
from assay.scoring import chance as limits
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.search.engine import rank

Metric = Literal["cosine", "dot", "l2"]
Zero = Literal["error", "drop", "last"]

# MAP@R looks at as many places as a label has items; beyond this it is left out unless asked for.
DEEPEST: Final = 1000


@dataclass(frozen=True)
class RetrievalSettings:
    """The choices of one evaluation; see `label_retrieval` for what each means."""

    k_values: tuple[int, ...] = (10, 50, 100)
    metric: Metric = "cosine"
    ties: str = "order"
    truncate: bool = False
    full: bool = False
    depth: int | None = None
    exclude_paired: bool = False
    confusion_k: int | None = None
    zero: Zero = "error"
    threads: int | None = None
    named: tuple[Measure, ...] = ()
    first_ranks: bool = False

    def __post_init__(self) -> None:
        checks.check_choice(self.metric, get_args(Metric), "metric")
        checks.check_choice(self.zero, get_args(Zero), "zero")
        for name in ("depth", "confusion_k", "threads"):
            if getattr(self, name) is not None:
                checks.check_cutoff(getattr(self, name), name)
        preset("label_retrieval").replace(ties=self.ties)

    def conventions(self, *, exclude_own: bool) -> Conventions:
        """Return the conventions: empty queries left out, own items where excluded."""
        rules = preset("label_retrieval").replace(ties=self.ties)
        if self.depth and any(_looks_everywhere(measure) for measure in self.named):
            rules = rules.replace(depth=self.depth)
        return rules.replace(self_match="exclude") if exclude_own else rules

    def headlines(self, *, prototypes: bool) -> dict[int, str]:
        """Return by cutoff the measure that the document calls Label-Recall@K."""
        name = "P(trunc=true)" if self.truncate and prototypes else "P"
        return {k: f"{name}@{k}" for k in self.k_values}

    def measures(self, most_relevant: int, *, prototypes: bool) -> list[str]:
        """List the measures for labels of at most `most_relevant` items."""
        names = list(self.headlines(prototypes=prototypes).values())
        if self.full:
            names += [f"P@{k}" for k in self.k_values]
            names += [f"P(trunc=true)@{k}" for k in self.k_values if prototypes]
            names += [f"{name}@{k}" for name in ("R", "nDCG") for k in self.k_values]
            names += ["MAP@R"] * (most_relevant <= (self.depth or DEEPEST))
        return list(dict.fromkeys([*names, *map(str, self.named)]))

    def depth_for(self, most_relevant: int, n_docs: int) -> int:
        """Return the depth that the measures need."""
        if self.first_ranks:
            return n_docs
        depths = [1, *self.k_values, self.depth or 1, self.counted_places]
        if self.full and most_relevant <= (self.depth or DEEPEST):
            depths.append(most_relevant)
        for measure in self.named:
            cut = measure.cutoff if isinstance(measure.cutoff, int) else most_relevant
            depths.append(self.depth or n_docs if _looks_everywhere(measure) else cut)
        return max(depths)

    @property
    def counted_places(self) -> int:
        """Depth of the confusion: the smallest cutoff unless named."""
        cuts = [measure.cutoff for measure in self.named if isinstance(measure.cutoff, int)]
        return self.confusion_k or min([*self.k_values, *cuts], default=10)


def _looks_everywhere(measure: Measure) -> bool:
    """Return whether places beyond any cutoff may count."""
    return measure.cutoff is None or measure.definition.cutoff == "level"


def check_k_values(k_values: Any, *, needed: bool = True) -> tuple[int, ...]:
    """Return cutoffs in rising order, each once.

    >>> check_k_values([50, 10, 10])
    (10, 50)
    """
    single = isinstance(k_values, int)
    values: Iterable[Any] = [k_values] if single else checks.as_list(k_values, "k_values")
    cutoffs = sorted({checks.check_cutoff(k, "Each of k_values") for k in values})
    if not cutoffs and needed:
        raise UsageError("k_values is empty. Give at least one cutoff, such as 10.")
    return tuple(cutoffs)


QRELS: Final = "qrels"


@dataclass(frozen=True, eq=False)
class SearchTask:
    """A direction with its vectors and, for every level, the labels of queries and items.

    With `qrels` these say what is relevant, and labels only which queries belong together.
    `settings` say which labels were dropped and how prototypes were made; `paired` is whether equal
    ids of queries and items are the same sample.
    """

    direction: Direction
    queries: Any
    docs: Any
    levels: dict[str, Labels]
    settings: Settings
    paired: bool = True
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
        """Return whether an item with the query's own id is left out."""
        paired = settings.exclude_paired and PROTOTYPE not in self.direction.ends
        return self.direction.within or paired

    def most_relevant(self) -> int:
        """Return the largest number of relevant items of a query."""
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
        """Make one search for each set of samples that some levels share."""
        groups: dict[tuple[int, int], tuple[Samples, Samples, list[str]]] = {}
        for level in self.levels:
            queries, docs = (self._take_left(end, level) for end in direction.ends)
            if direction.target == PROTOTYPE:
                docs = average_by_label(docs, level, unit=unit)
            groups.setdefault((id(queries), id(docs)), (queries, docs, []))[2].append(level)
        return [self._make_task(direction, *group) for group in groups.values()]

    def make_judged(self, direction: Direction, qrels: Qrels) -> SearchTask:
        """Return the search of the judged queries.

        The first labels say which of them belong together.
        """
        queries, docs = (self.sides[end] for end in direction.ends)
        rows = _match(qrels.query_ids, queries.ids, direction.name, direction.source)
        doc_rows = _match(qrels.doc_ids, docs.ids, direction.name, direction.target)
        judged = queries.take(np.isin(np.arange(len(queries.ids)), rows))
        row = np.repeat(np.searchsorted(np.sort(rows), rows), np.diff(qrels.offsets))
        pairs = Judgments.from_pairs(judged.ids, docs.ids, row, doc_rows[qrels.docs], qrels.grades)
        task = self._make_task(direction, judged, docs, self.levels[:1])
        levels = {QRELS: next(iter(task.levels.values()))}
        return replace(task, levels=levels, qrels=replace(pairs, exhaustive=True))

    def _take_left(self, side: str, level: str) -> Samples:
        """Return the samples of a modality whose labels are not dropped.

        The same ones are one object.
        """
        samples = self.sides[side]
        rows = without_labels(samples.levels[level], self.dropped)
        if not rows.any():
            what = "prototype" if side == PROTOTYPE else f"sample of the labels {level!r}"
            raise UsageError(f"No {what} is left: all labels were dropped. Drop fewer labels.")
        key = id(samples), rows.tobytes()
        if key not in self._taken:
            left = samples.take(rows)
            if side == PROTOTYPE and left is not samples:
                left = replace(left, ids=Ids.count(len(left.ids)))
            self._taken[key] = left
        return self._taken[key]

    def _make_task(
        self, direction: Direction, queries: Samples, docs: Samples, levels: list[str]
    ) -> SearchTask:
        settings = as_settings(drop_labels=sorted(self.dropped))
        if PROTOTYPE in direction.ends:
            settings |= self.made_by
        ids = {"query_ids": queries.ids, "doc_ids": docs.ids}
        sides = {level: (queries.levels[level], docs.levels[level]) for level in levels}
        judged = {level: Judgments.from_labels(*both, **ids) for level, both in sides.items()}
        vectors = queries.modalities[direction.source], docs.modalities[direction.target]
        paired = queries is docs or not (queries.ids.numbered or docs.ids.numbered)
        return SearchTask(direction, *vectors, judged, settings, paired)


def _match(judged: Ids, samples: Ids, direction: str, side: str) -> Ints:
    """Return the places of judged ids; samples without ids are named by their row's number."""
    places = judged.match(samples.as_text() if samples.numbered else samples)
    if (places < 0).any():
        strange = checks.name_few(judged.take(np.flatnonzero(places < 0)))
        raise MismatchError(f"qrels of {direction}: {strange} is not in {side!r}. Use its ids.")
    return places


def check_tasks(tasks: list[SearchTask], settings: RetrievalSettings) -> None:
    """Look at every array once, before the first search."""
    directions_needed = settings.metric == "cosine" and settings.zero == "error"
    seen: set[int] = set()
    for task in tasks:
        sizes = task.queries.shape[1], task.docs.shape[1]
        if sizes[0] != sizes[1]:
            raise MismatchError(
                f"{task.direction.name}: the queries have {sizes[0]} dimensions and the items "
                f"{sizes[1]}. Encode both with one model."
            )
        if task.excludes_own(settings) and not task.paired:
            raise UsageError(
                f"{task.direction.name}: rows are not aligned. Pass sample_ids of both sides, "
                "or omit exclude_paired."
            )
        if task.excludes_own(settings) and len(task.doc_ids) < 2:
            raise UsageError(f"{task.direction.name}: one sample cannot find itself. Pass two.")
        sides = (task.queries, task.query_ids), (task.docs, task.doc_ids)
        for (vectors, ids), name in zip(sides, task.direction.ends, strict=True):
            if id(vectors) not in seen:
                what = f"The embeddings {name!r}"
                kind = "prototype" if name == PROTOTYPE else "sample"
                check_vectors(vectors, ids, what, directions_needed=directions_needed, each=kind)
                seen.add(id(vectors))


Progress = Callable[[int, int], None]

# Retrieved items that a block may hold. A label's items may all tie, so that what is kept can be
# far more than the depth: the next block is as large as the last one says it may be.
ITEMS_PER_BLOCK: Final = 1 << 22
FIRST_BLOCK, _LARGEST_BLOCK, _GROWTH = 64, 16384, 8


def search_direction(
    task: SearchTask, settings: RetrievalSettings, *, progress: Progress | None = None
) -> dict[str, DirectionResult]:
    """Return the result of every level from one search."""
    rules = settings.conventions(exclude_own=task.excludes_own(settings))
    most = task.most_relevant()
    measures = settings.measures(most, prototypes=task.direction.source == PROTOTYPE)
    by_level = {}
    for level, labels in task.levels.items():
        counter = ConfusionCounter(labels.names, settings.counted_places)
        by_level[level] = _Accumulator(labels, task.qrels, tuple(measures), rules, counter)
    depth = settings.depth_for(most, len(task.doc_ids))
    for rows, ranking in rank_blocks(task, settings, depth, progress):
        for accumulator in by_level.values():
            accumulator.add(rows, ranking, first_ranks=settings.first_ranks)
    return {level: part.result(task, level, settings, most) for level, part in by_level.items()}


def rank_blocks(
    task: SearchTask, settings: RetrievalSettings, depth: int, progress: Progress | None
) -> Iterator[tuple[Ints, Ranking]]:
    """Yield rankings block by block, with everything that ties at the end."""
    n, size, start = len(task.query_ids), FIRST_BLOCK, 0
    shared = {name: getattr(settings, name) for name in ("metric", "zero", "threads")}
    shared |= {"doc_ids": task.doc_ids, "keep_ties": True}
    shared["exclude"] = "self" if task.excludes_own(settings) else None
    while start < n:
        rows = np.arange(start, min(start + size, n))
        block = task.queries[rows[0] : rows[-1] + 1]
        shared["progress"] = None if progress is None else partial(_report, progress, rows, n)
        shared["query_ids"] = task.query_ids.take(rows)
        ranking = rank(block, task.docs, min(depth, len(task.doc_ids)), **shared)
        yield rows, ranking
        start += len(rows)
        per_query = max(len(ranking.given_docs) // len(rows), 1)
        size = min(size * _GROWTH, _LARGEST_BLOCK, max(ITEMS_PER_BLOCK // per_query, 1))


def _report(progress: Progress, rows: Ints, n: int, done: int, total: int | None) -> None:
    """Report progress within a block as progress within all queries."""
    progress(int(rows[0]) + len(rows) * done // max(total or 1, 1), n)


class ConfusionCounter:
    """Count label pairs block by block; size grows with the pairs that occur."""

    def __init__(self, names: NDArray[Any], k: int) -> None:
        self.names, self.k = names, k
        self.codes, self.counts = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, ranking: Ranking, query_labels: Ints, doc_labels: Ints) -> None:
        """Count one block; `query_labels` has a label for each row."""
        first = ranking.first(self.k)
        pairs = np.repeat(query_labels, first.lengths) * len(self.names) + doc_labels[first.docs]
        codes, counts = np.unique(pairs, return_counts=True)
        self.codes, at = np.unique(np.concatenate([self.codes, codes]), return_inverse=True)
        weight = np.concatenate([self.counts, counts])
        self.counts = np.bincount(at, weight, minlength=len(self.codes)).astype(np.int64)

    def result(self) -> LabelConfusion:
        """Return the counts."""
        query, doc = np.divmod(self.codes, max(len(self.names), 1))
        return LabelConfusion(self.k, self.names, query, doc, self.counts)


_KINDS: Final[dict[str, Callable[..., Scores]]] = {
    "scores": score,
    "chance": limits.chance,
    "ceiling": limits.ceiling,
}


@dataclass
class _Accumulator:
    """Running totals of one level of labels."""

    labels: Labels
    qrels: Qrels | None
    measures: tuple[str, ...]
    rules: Conventions
    counter: ConfusionCounter
    parts: dict[str, list[Scores]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    first: list[FirstRanks] = field(default_factory=list)
    zero_rows: tuple[int, int] = (0, 0)

    def add(self, rows: Ints, ranking: Ranking, *, first_ranks: bool) -> None:
        """Judge, score and count one block of queries."""
        hits = judge(ranking, self._select_judgments(rows), conventions=self.rules)
        for kind, work in _KINDS.items():
            self.parts[kind].append(work(hits, self.measures, conventions=self.rules))
        if first_ranks:
            self.first.append(FirstRanks.of(hits, self.rules.ties))
        self.zero_rows = (self.zero_rows[0] + ranking.zero_rows[0], ranking.zero_rows[1])
        self.counter.add(ranking, self.labels.query_labels[rows], self.labels.doc_labels)

    def _select_judgments(self, rows: Ints) -> Judgments:
        """Return the judgments for the queries of one block."""
        query_ids = self.labels.query_ids.take(rows)
        if self.qrels is None:
            labels = self.labels.query_labels[rows]
            return replace(self.labels, query_ids=query_ids, query_labels=labels)
        offsets = self.qrels.offsets[rows[0] : rows[-1] + 2]
        part = slice(offsets[0], offsets[-1])
        docs, grades = self.qrels.docs[part], self.qrels.grades[part]
        rows_of = {"query_ids": query_ids, "offsets": offsets - offsets[0]}
        return replace(self.qrels, docs=docs, grades=grades, **rows_of)

    def result(
        self, task: SearchTask, level: str, settings: RetrievalSettings, most: int
    ) -> DirectionResult:
        """Return the result, with the label of each query as its group."""
        prototypes = task.direction.source == PROTOTYPE
        names = [str(name) for name in self.labels.names]
        groups = [names[code] for code in self.labels.query_labels.tolist()]
        label_of = dict(zip(self.labels.query_ids.to_list(), groups, strict=True))
        sizes = np.bincount(self.labels.doc_labels, minlength=len(names)).tolist()
        apart = not task.paired and PROTOTYPE not in task.direction.ends
        merged = {kind: Scores.merge(*parts) for kind, parts in self.parts.items()}
        scores = merged["scores"].with_groups(label=label_of)
        facts: Any = {"direction": task.direction.name, "labels": level}
        facts |= {
            "samples": "apart" if apart else None,
            "truncate": settings.truncate and prototypes,
        }
        facts |= {"confusion_k": settings.counted_places, **task.settings}
        scores = scores.but_settings(**facts)
        # Chance and ceiling are scores of the same queries.
        untied = replace(scores, tied=np.zeros_like(scores.tied))
        chance, ceiling = (
            replace(untied, values=limit.values, not_computed=limit.not_computed)
            for limit in (merged["chance"], merged["ceiling"])
        )
        lacking = settings.full and "MAP@R" not in self.measures
        return DirectionResult(
            direction=task.direction,
            level=level,
            headlines=settings.headlines(prototypes=prototypes),
            scores=scores,
            chance=chance,
            ceiling=ceiling,
            confusion=self.counter.result(),
            n_docs=len(self.labels.doc_ids),
            targets=dict(zip(names, sizes, strict=True)),
            skipped=f"MAP@R needs depth {most}" if lacking else "",
            zero_rows=self.zero_rows if settings.metric == "cosine" else (0, 0),
            ranks=(FirstRanks.merge(self.first),) if self.first else (),
        )
