"""Chunkings as systems: one collection, cut by every rule that some system of a bench names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from assay.arrays import Ints
from assay.bench.plan import BenchPlan, PreparedCollection, Rule, prepare
from assay.io.texts import find_units

if TYPE_CHECKING:
    from assay.bench.filters import AllowedDocs
    from assay.bench.search import ChunkAggregation
    from assay.core.conventions import Conventions
    from assay.io.collections import Collection


class ChunkSummary(NamedTuple):
    """Number and length of the chunks of a system, and how their scores become a document's.

    Lengths are in words and punctuation marks.
    """

    rule: str
    aggregation: str
    number: int
    mean: float
    median: float
    longest: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        tokens = {"mean": self.mean, "median": self.median, "max": self.longest}
        return {"rule": self.rule, "fold": self.aggregation, "n": self.number, "tokens": tokens}


@dataclass(eq=False)
class Chunkings:
    """Hold the chunks that each system of a plan searches; `rule` is the one of the whole bench."""

    plan: BenchPlan
    collection: Collection
    rules: Conventions
    rule: Rule
    aggregation: ChunkAggregation
    _prepared: dict[Rule, PreparedCollection] = field(default_factory=dict)
    _lengths: dict[Rule, Ints] = field(default_factory=dict)
    _filters: dict[str, Any] = field(default_factory=dict)

    def cut(self, rule: Rule) -> PreparedCollection:
        """Return the collection cut by a rule, or whole; computed once."""
        if rule not in self._prepared:
            data = prepare(self.collection, self.rules, rule)
            self._prepared[rule] = replace(data, **self._filters)
        return self._prepared[rule]

    def add_filters(self, filters: str, allowed: AllowedDocs) -> None:
        """Let each query get only documents that pass the filters."""
        self._filters = {"filters": filters, "allowed": allowed}
        self._prepared.clear()

    def rule_of(self, name: str) -> Rule:
        """Return the rule of a system; of a fusion whose members differ, that of the bench."""
        rules = self.plan.chunkings_of(name, self.rule)
        return rules.pop() if len(rules) == 1 else self.rule

    def data_of(self, name: str) -> PreparedCollection:
        """Return what a system searches."""
        return self.cut(self.rule_of(name))

    def summarize(self, name: str) -> ChunkSummary | None:
        """Count the chunks of a system and their tokens; None where documents are whole.

        A fusion of different chunkings has no chunks of its own.
        """
        rule = self.rule_of(name)
        if rule is None or len(self.plan.chunkings_of(name, self.rule)) > 1:
            return None
        if rule not in self._lengths:
            texts = self.cut(rule).unit_texts
            self._lengths[rule] = np.array([len(find_units(text, "tokens")) for text in texts])
        sizes = self._lengths[rule]
        counts = len(sizes), float(sizes.mean()), float(np.median(sizes)), int(sizes.max())
        return ChunkSummary(str(rule), str(self.aggregation), *counts)
