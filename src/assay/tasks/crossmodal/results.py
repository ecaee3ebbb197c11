"""Results by direction: `results["text2sensor"][10]` is a number, and more stands behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from assay.arrays import or_none
from assay.runs.record import RunRecord
from assay.scoring.output import limit_remarks, tied_remark, zero_remark
from assay.scoring.scores import Mean, Scores
from assay.stats import Interval, intervals
from assay.tasks.crossmodal.confusion import LabelConfusion
from assay.tasks.crossmodal.directions import PROTOTYPE, Direction
from assay.tasks.crossmodal.first_ranks import FirstRanks

__all__ = ["DirectionResult", "LabelResults"]


@dataclass(frozen=True, eq=False)
class DirectionResult(Mapping[int, float]):
    """Label retrieval in one direction, for one level of labels.

    As a mapping it holds the document's Label-Recall@K, which is P@k, by cut-off. `scores` has
    every measure of every query with the group column `label`; `chance` and `ceiling` the same
    for a random and a perfect order; `targets` says how many items carry each label, `zero_rows`
    how many queries and items are vectors of zeros, where that matters.
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
    first_ranks: FirstRanks | None = None

    def __getitem__(self, k: int) -> float:
        """Label-Recall@K, the mean over queries."""
        return self.micro[self.headlines[k]]

    def __iter__(self) -> Iterator[int]:
        """The cut-offs."""
        return iter(self.headlines)

    def __len__(self) -> int:
        """How many cut-offs there are."""
        return len(self.headlines)

    def __repr__(self) -> str:
        """Direction and values."""
        values = ", ".join(f"{k}: {value:.4f}" for k, value in self.items())
        return f"DirectionResult({self.direction.name}, {{{values}}})"

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
        """How many queries carry each label."""
        return Counter(self.scores.groups["label"].tolist())

    def intervals(self, *, level: float = 0.95, seed: int = 0) -> list[Interval]:
        """An interval for the mean of each measure over other queries of the same labels' mix.

        The method is that for the kind of values; see `assay.stats.interval`.
        """
        bounds = [measure.bounds for measure in self.scores.measures]
        return intervals(self.scores.values, level=level, seed=seed, bounds=bounds)

    @property
    def empty_labels(self) -> list[str]:
        """Labels of queries for which there is no item to find."""
        undefined = np.isnan(self.scores.values[0])
        return sorted(set(self.scores.groups["label"][undefined].tolist()))

    def remarks(self) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        counts = next(iter(self.micro.counts.values()))
        what = "prototypes" if self.direction.source == PROTOTYPE else "queries"
        yield from self.scores.remarks
        if counts.empty:
            some = ", ".join(map(repr, self.empty_labels[:5]))
            more = f", … ({len(self.empty_labels)} labels)" if len(self.empty_labels) > 5 else ""
            yield f"{counts.empty} {what} without an item of their label, left out: {some}{more}"
        zeros = zero_remark(self.scores.settings.get("zero", "error"), *self.zero_rows, "items")
        yield from filter(None, (tied_remark(self.scores, what), zeros))
        yield from limit_remarks(self.scores, self.chance.mean())
        if self.skipped:
            yield f"{self.skipped} and was left out; raise depth to have it"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: means with counts, intervals, chance, ceiling, labels, confusion."""
        micro, macro = self.micro, self.macro
        chance, ceiling = self.chance.mean(), self.ceiling.mean()
        spans = dict(zip(micro, self.intervals(), strict=True))
        return {
            "direction": self.direction.name,
            "level": self.level,
            "signature": self.scores.signature,
            "settings": dict(self.scores.settings),
            "queries": self.scores.n_queries,
            "docs": self.n_docs,
            "zero_vectors": dict(zip(("queries", "docs"), self.zero_rows, strict=True)),
            "label_recall_at_k": {str(k): or_none(value) for k, value in self.items()},
            "measures": {
                name: {
                    "micro": or_none(micro[name]),
                    "macro": or_none(macro[name]),
                    "low": or_none(spans[name].low),
                    "high": or_none(spans[name].high),
                    "interval": spans[name].method,
                    "chance": or_none(chance[name]),
                    "ceiling": or_none(ceiling[name]),
                    "n": micro.counts[name].n,
                    "empty": micro.counts[name].empty,
                    "tied": micro.counts[name].tied,
                    "tied_share": micro.counts[name].tied_share,
                }
                for name in micro
            },
            "empty_labels": self.empty_labels,
            "labels": {
                label: {
                    "queries": self.queries[label],
                    "docs": self.targets[label],
                    "measures": {name: or_none(value) for name, value in values.items()},
                }
                for label, values in macro.groups.items()
            },
            "confusion": self.confusion.to_dict(),
        }


class LabelResults(Mapping[str, DirectionResult]):
    """Results of one level of labels by the name of the direction."""

    def __init__(self, level: str, directions: list[DirectionResult]) -> None:
        self.level = level
        self._by_name = {found.direction.name: found for found in directions}

    def __getitem__(self, direction: str) -> DirectionResult:
        """The result of a direction."""
        return self._by_name[direction]

    def __iter__(self) -> Iterator[str]:
        """The names of the directions."""
        return iter(self._by_name)

    def __len__(self) -> int:
        """How many directions there are."""
        return len(self._by_name)

    def __repr__(self) -> str:
        """Every direction in a line."""
        lines = [f"LabelResults({self.level})", *map(repr, self._by_name.values())]
        return "\n  ".join(lines)

    def records(self, *, prefix: str = "") -> list[RunRecord]:
        """A record for each direction; `prefix` stands before their names."""
        return [
            RunRecord(
                f"{prefix}{name}",
                one.scores,
                task="crossmodal",
                config={"level": self.level, "direction": name},
                chance=one.chance.mean(),
                ceiling=one.ceiling.mean(),
            )
            for name, one in self.items()
        ]
