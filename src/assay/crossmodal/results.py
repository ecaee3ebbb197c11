"""Results of a search across modalities: every level of labels × every direction.

`result["label"]["text2sensor"][10]` is a number, and more stands behind it: scores of every query,
chance and ceiling, the labels that were confused, the ranks of the first positives.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, numbers_or_none, or_none
from assay.comparison.paper import paper_page
from assay.core.hits import Hits
from assay.core.ids import Ids
from assay.core.text import remark_about
from assay.crossmodal import tables
from assay.crossmodal.plugin import PROTOCOLS
from assay.crossmodal.samples import PROTOTYPE, Direction
from assay.crossmodal.tables import LabelConfusion
from assay.errors import UsageError
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate, aggregates_of
from assay.scoring.output import limit_remarks, tied_remark, zero_remark
from assay.scoring.scores import Mean, Scores, signature_of
from assay.stats import Interval, interval, intervals
from assay.tables.table import Page, Shown, Table, Words, columns_of


@dataclass(frozen=True, eq=False)
class FirstRanks:
    """Rank of each query's first relevant item; NaN if no item is relevant.

    A relevant item that no list holds stands at the end. `n_relevant` items of `n_docs` were
    relevant. Queries are in order of their ids.
    """

    query_ids: Ids
    values: Floats
    n_relevant: Ints
    n_docs: Ints

    @classmethod
    def of(cls, hits: Hits, ties: str) -> FirstRanks:
        """Find the first positives of hits in whole lists.

        Of a tie group with g items from rank a on, m of them relevant, the first relevant one
        stands at a + (g + 1) / (m + 1) − 1 on the mean over orders.
        """
        at = np.flatnonzero(hits.grade >= 1)
        row, first = np.unique(hits.row[at], return_index=True)
        low, high = hits.rank_lo[at[first]], hits.rank_hi[at[first]]
        lowest = np.zeros(hits.n_queries, np.int64)
        lowest[row] = low
        same = hits.rank_lo[at] == lowest[hits.row[at]]
        relevant = np.bincount(hits.row[at[same]], minlength=hits.n_queries)[row]
        placed = {
            "order": hits.rank[at[first]],
            "best": low,
            "worst": high - relevant + 1,
            "expected": low + (high - low + 2) / (relevant + 1) - 1,
            "midrank-up": low + (high - low + 1) // 2,
        }[ties]
        rows, counts = (part[hits.pool_grade >= 1] for part in (hits.pool_row, hits.pool_count))
        n_relevant = np.bincount(rows, counts, minlength=hits.n_queries).astype(np.int64)
        values = np.where(n_relevant > 0, hits.n_docs, np.nan)
        values[row] = placed
        return cls(hits.query_ids, values, n_relevant, hits.n_docs)

    @classmethod
    def merge(cls, parts: Sequence[FirstRanks]) -> FirstRanks:
        """Merge the ranks of several blocks of queries."""
        ids = Ids.concat([part.query_ids for part in parts])
        by_id = ids.order()
        columns = [
            np.concatenate([getattr(part, name) for part in parts])[by_id]
            for name in ("values", "n_relevant", "n_docs")
        ]
        return cls(ids.take(by_id), *columns)

    @property
    def median(self) -> float:
        """The median rank, rounded down as the field does."""
        ranks = self.values[np.isfinite(self.values)]
        return float(np.floor(np.median(ranks))) if len(ranks) else math.nan

    def chance_mean(self) -> float:
        """Return the mean of (N + 1) / (R + 1), the rank by chance."""
        some = self.n_relevant > 0
        if not some.any():
            return math.nan
        return float(((self.n_docs[some] + 1) / (self.n_relevant[some] + 1)).mean())

    def chance_median(self) -> float:
        """Return the rank by which half of shuffled queries have a positive.

        P(rank > m) = C(N − m, R) / C(N, R), averaged over queries.
        """
        some = self.n_relevant > 0
        if not some.any():
            return math.nan
        counts = (self.n_docs[some].tolist(), self.n_relevant[some].tolist())
        sizes = Counter(zip(*counts, strict=True))
        low, high = 1, max(n for n, _ in sizes)
        while low < high:
            middle = (low + high) // 2
            later = sum(
                count * (math.comb(max(n - middle, 0), r) / math.comb(n, r))
                for (n, r), count in sorted(sizes.items())
            )
            low, high = (low, middle) if later <= some.sum() / 2 + 1e-9 else (middle + 1, high)
        return float(low)


_RESAMPLES: Final = 1000
_FEWEST: Final = 8  # pairs; with fewer a bootstrap is too narrow


def _draw_medians(values: Floats, pairs: NDArray[Any], rng: np.random.Generator) -> Floats:
    """Return medians, rounded down, of resamples of whole pairs."""
    finite = np.isfinite(values)
    by_rank = np.argsort(values[finite], kind="stable")
    ranks = values[finite][by_rank]
    names, codes = np.unique(pairs[finite][by_rank], return_inverse=True)
    medians = np.full(_RESAMPLES, np.nan)
    for i in range(_RESAMPLES if len(names) else 0):
        times = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        total = np.cumsum(times[codes])
        middle = np.searchsorted(total, [(total[-1] + 1) // 2, total[-1] // 2 + 1])
        medians[i] = np.floor(ranks[middle].mean())
    return medians


@dataclass(frozen=True, eq=False)
class DirectionResult(Shown, Mapping[int, float]):
    """One direction at one level of labels.

    As a mapping it holds the document's Label-Recall@K, which is P@k, by cutoff.

    Args:
        direction: Which modality searches which.
        level: Level of the labels.
        headlines: The measure that is Label-Recall@K, by cutoff.
        scores: Every measure of every query, with the group column `label`.
        chance: Scores of a random order.
        ceiling: Scores of a perfect order.
        confusion: Which labels were retrieved for which.
        n_docs: Number of items.
        targets: Number of items that carry each label.
        skipped: Why a measure was left out.
        zero_rows: Number of queries and of items that are vectors of zeros, where that matters.
        ranks: Ranks of the first positives, by fold.
        folds: The results of each gallery, where the direction was searched in several.

    >>> from assay.crossmodal import label_retrieval
    >>> vectors = [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]]
    >>> result = label_retrieval({"image": vectors}, ["cat", "cat", "dog", "dog"], k_values=[1])
    >>> round(result.direction("image2image").chance.mean()["P@1"], 4)
    0.3333
    """

    direction: Direction
    level: str
    headlines: dict[int, str]
    scores: Scores
    chance: Scores
    ceiling: Scores
    confusion: LabelConfusion
    n_docs: int
    targets: dict[str, int]
    skipped: str = ""
    zero_rows: tuple[int, int] = (0, 0)
    ranks: tuple[FirstRanks, ...] = ()
    folds: tuple[DirectionResult, ...] = ()

    @classmethod
    def merge(
        cls, folds: Sequence[DirectionResult], settings: Mapping[str, Any]
    ) -> DirectionResult:
        """Return one direction from its folds.

        Args:
            folds: The same direction, searched in one gallery after the other. Their labels
                differ.
            settings: Further settings of the scores, for the signature.
        """
        first = folds[0]
        kinds: dict[str, Any] = {
            kind: Scores.merge(*(getattr(fold, kind).but_settings(**settings) for fold in folds))
            for kind in ("scores", "chance", "ceiling")
        }
        return replace(
            first,
            **kinds,
            confusion=LabelConfusion.merge([fold.confusion for fold in folds]),
            targets={label: n for fold in folds for label, n in fold.targets.items()},
            ranks=tuple(ranks for fold in folds for ranks in fold.ranks),
            folds=tuple(folds),
        )

    def __getitem__(self, k: int) -> float:
        return self.micro[self.headlines[k]]

    def __iter__(self) -> Iterator[int]:
        return iter(self.headlines)

    def __len__(self) -> int:
        return len(self.headlines)

    def __repr__(self) -> str:
        values = ", ".join(f"{k}: {value:.4f}" for k, value in self.items())
        return f"DirectionResult({self.direction.name}, {{{values}}})"

    def page(self) -> Page:
        """Return the measures as a table, then the signature."""
        return [tables.measure_table([self]), Words(self.scores.signature, "signature")]

    @cached_property
    def micro(self) -> Mean:
        """Means over queries."""
        return self.scores.mean()

    @cached_property
    def macro(self) -> Mean:
        """Means over labels, and those of each label in `groups`."""
        return self.scores.mean(by="label")

    @cached_property
    def queries(self) -> Counter[str]:
        """Number of queries by label."""
        return Counter(self.scores.groups["label"].tolist())

    def intervals(self, *, level: float = 0.95, seed: int = 0) -> list[Interval]:
        """Return an interval for each measure's mean over other queries.

        The labels' mix stays the same. The method is that for the kind of values; see
        `assay.stats.interval`.
        """
        bounds = [measure.bounds for measure in self.scores.measures]
        return intervals(self.scores.values, level=level, seed=seed, bounds=bounds)

    @property
    def empty_labels(self) -> list[str]:
        """Labels of queries that no item carries."""
        undefined = np.isnan(self.scores.values[0])
        return sorted(set(self.scores.groups["label"][undefined].tolist()))

    @property
    def pairs(self) -> NDArray[Any]:
        """Label of each query: with a protocol, the pair it belongs to."""
        return self.scores.groups["label"]

    @property
    def clusters(self) -> str:
        """Group whose queries are not independent: captions of one image."""
        return "label" if len(np.unique(self.pairs)) < len(self.pairs) else ""

    @cached_property
    def numbers(self) -> list[Aggregate]:
        """Every measure, then MedR and MeanR, with interval, chance and ceiling."""
        bare = replace(self.scores, groups={"label": self.pairs} if self.clusters else {})
        means = aggregates_of(
            bare, chance=self.chance.mean(), ceiling=self.ceiling.mean(), clusters=self.clusters
        )
        return [*(mean for mean in means if mean.average == "micro"), *self.rank_numbers]

    @cached_property
    def rank_numbers(self) -> list[Aggregate]:
        """Median and mean rank of the first positive; lower is better."""
        if not self.ranks:
            return []
        values, groups = FirstRanks.merge(self.ranks).values, self.pairs if self.clusters else None
        mean = interval(values, clusters=groups, bounds=(1.0, float(self.n_docs)))
        numbers = []
        for name, span in (("MedR", self._median_interval()), ("MeanR", mean)):
            by_chance = FirstRanks.chance_median if name == "MedR" else FirstRanks.chance_mean
            facts: Any = {"chance": float(np.mean([by_chance(fold) for fold in self.ranks]))}
            facts |= {"empty": span.n_removed, "ceiling": 1.0, "clusters": self.clusters}
            numbers.append(Aggregate.of_interval(name, span, **facts))
        return numbers

    def _median_interval(self) -> Interval:
        """Bootstrap whole pairs within each fold."""
        rng = np.random.default_rng(0)
        pair_of = dict(zip(self.scores.query_ids.to_list(), self.pairs.tolist(), strict=True))
        medians = np.zeros(_RESAMPLES)
        for fold in self.ranks:
            pairs = np.array([pair_of[query] for query in fold.query_ids.to_list()])
            medians += _draw_medians(fold.values, pairs, rng) / len(self.ranks)
        low, high = np.quantile(medians, (0.025, 0.975), method="closest_observation")
        if len(np.unique(self.pairs)) < _FEWEST:
            low = high = np.nan
        value = float(np.mean([fold.median for fold in self.ranks]))
        n = sum(int(np.isfinite(fold.values).sum()) for fold in self.ranks)
        empty = len(self.pairs) - n
        return Interval(value, float(low), float(high), 0.95, "percentile", n, _RESAMPLES, 0, empty)

    def remarks(self) -> Iterator[str]:
        """Yield one remark per line for readers of the numbers."""
        if self.folds:
            yield from dict.fromkeys(remark for fold in self.folds for remark in fold.remarks())
            return
        counts = next(iter(self.micro.counts.values()))
        what = "prototypes" if self.direction.source == PROTOTYPE else "queries"
        yield from self.scores.remarks
        if counts.empty:
            some = ", ".join(map(repr, self.empty_labels[:5]))
            more = f", … ({len(self.empty_labels)} labels)" if len(self.empty_labels) > 5 else ""
            yield f"{counts.empty} {what} whose label no item carries were left out: {some}{more}"
        zeros = zero_remark(self.scores.settings.get("zero", "error"), *self.zero_rows, "items")
        yield from filter(None, (tied_remark(self.scores, what), zeros))
        yield from limit_remarks(self.scores, self.chance.mean())
        if self.skipped:
            yield f"{self.skipped} and was left out. Raise depth to include it."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: means, intervals, limits, labels, confusion."""
        micro, macro = self.micro, self.macro
        chance, ceiling = self.chance.mean(), self.ceiling.mean()
        measures: dict[str, dict[str, Any]] = {}
        for name, span in zip(micro, self.intervals(), strict=True):
            means = {"micro": micro[name], "macro": macro[name], "low": span.low, "high": span.high}
            limits = {"chance": chance[name], "ceiling": ceiling[name]}
            measures[name] = {**numbers_or_none(means), "interval": span.method}
            measures[name] |= numbers_or_none(limits)
            for key in ("n", "empty", "tied", "tied_share"):
                measures[name][key] = getattr(micro.counts[name], key)
        labels = {}
        for label, values in macro.groups.items():
            counts = {"queries": self.queries[label], "docs": self.targets[label]}
            labels[label] = {**counts, "measures": numbers_or_none(values)}
        return {
            "direction": self.direction.name,
            "level": self.level,
            "signature": self.scores.signature,
            "settings": dict(self.scores.settings),
            "queries": self.scores.n_queries,
            "docs": self.n_docs,
            "zero_vectors": dict(zip(("queries", "docs"), self.zero_rows, strict=True)),
            "label_recall_at_k": {str(k): or_none(value) for k, value in self.items()},
            "measures": measures,
            "empty_labels": self.empty_labels,
            "labels": labels,
            "confusion": self.confusion.to_dict(),
        }


def _number_data(number: Aggregate) -> dict[str, Any]:
    keys = ("value", "low", "high", "chance", "ceiling", "n", "empty", "tied")
    return {key: or_none(getattr(number, key)) for key in keys} | {"interval": number.method}


RECALLS: Final = ("Success@1", "Success@5", "Success@10")
_PAGE_TITLE: Final = "Zero-shot classification by the nearest mean of class descriptions"
_PAPER_NOTE: Final = (
    "R@K: share of queries with a positive among the first K, in percent (VSE++). MedR and "
    "MeanR: rank of the first positive. Intervals resample images with their captions."
)


class CrossmodalResult(Shown, Mapping[str, Any]):
    """Results of every level of labels in every direction.

    `label_retrieval`, `zero_shot_classification` and `paired_retrieval` return it. As a mapping
    it has the directions of each level: `result["label"]["text2sensor"]`; a direction's name
    alone is that of the first level. Pages, tables and JSON are those of the evaluation: labels,
    accuracies (`zero_shot`) or the row that papers print (`protocol`).

    >>> from assay.crossmodal import label_retrieval
    >>> vectors = [[1, 0], [1, 1], [0, 1]]
    >>> result = label_retrieval({"image": vectors}, ["a", "a", "b"], k_values=[1])
    >>> [record.name for record in result.records()]
    ['image2image']

    Args:
        directions: The result of each level and direction.
        zero_shot: Samples were classified by prototypes.
        protocol: Name of the protocol of paired retrieval.
        folds: Number of galleries, with a protocol.
        n_images: Number of pairs, with a protocol.
    """

    def __init__(
        self,
        directions: Iterable[DirectionResult],
        *,
        zero_shot: bool = False,
        protocol: str = "",
        folds: int = 1,
        n_images: int = 0,
    ) -> None:
        self.directions = list(directions)
        self.levels: dict[str, dict[str, DirectionResult]] = {}
        for result in self.directions:
            self.levels.setdefault(result.level, {})[result.direction.name] = result
        self.zero_shot, self.protocol = zero_shot, protocol
        self.folds, self.n_images = folds, n_images

    def __getitem__(self, name: str) -> Any:
        return self.levels[name] if name in self.levels else next(iter(self.values()))[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.levels)

    def __len__(self) -> int:
        return len(self.levels)

    def direction(self, name: str, level: str | None = None) -> DirectionResult:
        """Return one direction, such as `image2text`.

        Args:
            name: Name of the direction.
            level: Level of labels; the first one by default.

        Raises:
            UsageError: There is no such level or direction.
        """
        level = next(iter(self)) if level is None else level
        results = self.levels.get(level, {})
        if name not in results:
            raise UsageError(f"No direction {name!r} at {level!r}. Known: {', '.join(results)}.")
        return results[name]

    def means(self, direction: str, level: str | None = None) -> Mean:
        """Return the means over queries of one direction."""
        return self.direction(direction, level).scores.mean()

    def rsum(self, level: str | None = None) -> Aggregate:
        """Return the sum of the six R@K in percent.

        As each query belongs to one image, the sum is a mean over images of what their queries
        add to it, and images are what is drawn anew.

        Raises:
            UsageError: The level has one direction only.
        """
        level = next(iter(self)) if level is None else level
        both = list(self.levels[level].values())
        if len(both) != 2:
            raise UsageError(f"rSum needs both directions; {level!r} has {len(both)}.")
        images = np.unique(np.concatenate([result.pairs for result in both]))
        added = np.zeros(len(images))
        for result in both:
            place = np.searchsorted(images, result.pairs)
            for measure in RECALLS:
                values = result.scores[measure]
                finite = np.isfinite(values)
                np.add.at(added, place[finite], 100 * len(images) * values[finite] / finite.sum())
        value, chance, ceiling = (
            math.fsum(100 * getattr(each, kind).mean()[name] for each in both for name in RECALLS)
            for kind in ("scores", "chance", "ceiling")
        )
        facts: dict[str, Any] = {"average": "both directions", "clusters": "label"}
        facts |= {"value": value, "chance": chance, "ceiling": ceiling, "n": len(images)}
        return Aggregate.of_interval("rSum", interval(added).within(0.0, 600.0), **facts)

    @property
    def signature(self) -> str:
        """Conventions and settings of all directions, listed where they differ."""
        return signature_of([result.scores for result in self.directions])

    @property
    def remarks(self) -> Iterator[str]:
        """Remarks for a reader of the numbers, a line each."""
        expected = PROTOCOLS[self.protocol].images if self.protocol else None
        if expected not in (None, self.n_images):
            yield (
                f"{self.protocol} has {expected} images, this data {self.n_images}: not "
                "comparable with published numbers"
            )
        for result in self.directions:
            start = f"{result.level}, " if len(self) > 1 else ""
            for remark in result.remarks():
                yield remark_about(f"{start}{result.direction.name}", remark)

    def table(self) -> Table:
        """Return the main table: a row for each level, direction and number."""
        if self.protocol:
            return tables.number_table(self)
        work = tables.accuracy_table if self.zero_shot else tables.measure_table
        return work(self.directions)

    def paper_table(self) -> Table:
        """Return one row per level as papers print it, in percent."""
        return tables.paper_table(self)

    def tables(self) -> list[Table]:
        """Return the tables that are not empty.

        With a protocol these are the paper's row and every number; else measures or accuracies,
        labels, and the most frequent mistakes.
        """
        if self.protocol:
            return [self.paper_table(), self.table()]
        works = (tables.label_table, tables.mistake_table)
        parts = [self.table(), *(work(self.directions) for work in works)]
        start = 0 if len(self) > 1 else 1
        return [columns_of(part, range(start, len(part.columns))) for part in parts if part.rows]

    def screen(self) -> Page:
        """Return the numbers on one screen; labels and mistakes are on the page."""
        if self.protocol or self.zero_shot:
            return self.page()
        return [tables.screen_table(self.directions), Words(self.signature, "signature")]

    def page(self) -> Page:
        """Return the tables, with what they show."""
        title = _PAGE_TITLE if self.zero_shot else ""
        note = []
        if self.protocol:
            title = f"{self.protocol}: {PROTOCOLS[self.protocol].about}"
            note = [Words(_PAPER_NOTE)]
        parts = map(tables.join_ends, self.tables())
        return [Words(title, "verdict"), *parts, *note, Words(self.signature, "signature")]

    def paper(self) -> Page:
        """Return one table for a paper: directions × measures, with intervals and chance."""
        table, note = tables.direction_table(self.directions), tables.CHANCE_NOTE
        if self.protocol:
            table, note = self.paper_table(), _PAPER_NOTE
        elif self.zero_shot:
            table, note = tables.join_ends(self.table()), "No differences were tested."
        n = max(result.scores.n_queries for result in self.directions)
        caption = f"Retrieval across modalities (n = {n:,} queries)."
        table = replace(table, caption=caption, label="tab:crossmodal", notes=(note,))
        return paper_page(table, self.page())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        if self.protocol:
            return self._paper_data()
        levels = {
            level: {name: result.to_dict() for name, result in results.items()}
            for level, results in self.items()
        }
        if not self.zero_shot:
            return {"levels": levels}
        table = self.table()
        values = ([cell.value for cell in row] for row in table.rows)
        rows = [dict(zip(table.columns, row, strict=True)) for row in values]
        return {"zero_shot": rows, "levels": levels}

    def _paper_data(self) -> dict[str, Any]:
        levels: dict[str, dict[str, Any]] = {}
        for level, results in self.items():
            levels[level] = {}
            for name, result in results.items():
                sizes = {"queries": result.scores.n_queries, "docs": result.n_docs}
                numbers = {number.measure: _number_data(number) for number in result.numbers}
                facts = {"signature": result.scores.signature, "measures": numbers}
                levels[level][name] = {**sizes, **facts}
            if len(results) == 2:
                levels[level]["rSum"] = _number_data(self.rsum(level))
        facts = {"protocol": self.protocol, "images": self.n_images, "folds": self.folds}
        facts |= {"signature": self.signature, "levels": levels, "remarks": list(self.remarks)}
        return facts

    def records(self) -> list[RunRecord]:
        """Return a record for each level and direction."""
        records = []
        for result in self.directions:
            name = result.direction.name
            config = {"level": result.level, "direction": name}
            facts: dict[str, Any] = {"task": "crossmodal", "chance": result.chance.mean()}
            facts["ceiling"] = result.ceiling.mean()
            if self.protocol:
                config = {"protocol": self.protocol, **config}
                sums = [self.rsum(result.level)] if len(self.levels[result.level]) == 2 else []
                facts |= {"clusters": result.clusters, "aggregates": [*result.rank_numbers, *sums]}
            title = f"{result.level}: {name}" if len(self) > 1 else name
            records.append(RunRecord(title, result.scores, config=config, **facts))
        return records


# Names from when each evaluation had a result of its own.
LabelRetrievalResult = ZeroShotResult = PairedResult = CrossmodalResult
PairedDirection = DirectionResult
