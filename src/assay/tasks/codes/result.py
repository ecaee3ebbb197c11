"""What shorter vectors lose: similarity to the float ranking, scores and cost of each code."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from assay.arrays import Floats
from assay.comparison.compare import Comparison
from assay.errors import UsageError
from assay.measures.neighbours import RankingSimilarity
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.scoring.scores import Scores, signature_of
from assay.stats import Interval
from assay.tables.page import Page, text_page
from assay.tables.table import Table
from assay.tasks.codes.chart import report_chart
from assay.tasks.codes.hashing import RADIUS, RadiusCurve
from assay.tasks.codes.tables import data_table, report_data, report_page

__all__ = ["CodeCost", "CodesReport", "CodesSettings", "QuantizationResult"]


def rescored_name(name: str, factor: int) -> str:
    """What a code is called whose first documents are re-ranked by float."""
    return f"{name} ×{factor}"


@dataclass(frozen=True)
class CodesSettings:
    """How codes were compared."""

    k: tuple[int, ...]
    metric: str
    ties: str
    p: float
    rerank: int | None
    exclude_self: bool
    level: float
    resamples: int
    seed: int
    zero: str = "error"
    hashing: str | None = None
    oversample: tuple[int, ...] = ()


@dataclass(frozen=True)
class CodeCost:
    """The length of a code, and seconds to encode all vectors and to search for all queries."""

    bits: int
    bytes_per_vector: int
    encode_seconds: float = 0.0
    search_seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class QuantizationResult:
    """One kind of code: its cost, the similarity of its ranking to the float ranking, its scores.

    Values are in the order of query ids, that of rows where there are none.
    `kendall` and `spearman` compare whole orders, of a sample of queries and documents where there
    are many. `near` scores its ranking with the first documents of the float ranking as the
    relevant ones, `judged` with the judgments; `curve` is what lies within each Hamming radius.
    `oversample` says how many times the largest k documents were re-ranked by float.
    """

    name: str
    method: str
    cost: CodeCost
    similarity: RankingSimilarity
    kendall: Floats
    spearman: Floats
    near: Scores
    judged: Scores | None
    curve: RadiusCurve | None = None
    oversample: int | None = None

    def neighbour_values(self, settings: CodesSettings) -> dict[str, Floats]:
        """Values per query of every measure of similarity to the float ranking, by its name."""
        found = {f"Overlap@{k}": self.similarity.overlap[k][settings.ties] for k in settings.k}
        found[f"RBO(p={settings.p:g})"] = self.similarity.rbo
        found |= {str(measure): self.near[measure] for measure in self.near.measures}
        return {**found, "Kendall": self.kendall, "Spearman": self.spearman}


@dataclass(frozen=True, eq=False)
class CodesReport:
    """Codes compared with the vectors they were made from; made by `evaluate_codes`.

    `codes` has the float vectors first. `intervals` are of the means of `neighbour_values`, by
    code and measure, `radius_intervals` of precision within radius 2. `comparison` tests every
    code against float on the judgments; `chance_map` is mAP of a random order.
    `remarks` say what was left out and what to know.
    """

    codes: tuple[QuantizationResult, ...]
    settings: CodesSettings
    n_queries: int
    n_docs: int
    intervals: dict[str, dict[str, Interval]]
    comparison: Comparison | None
    remarks: tuple[str, ...]
    radius_intervals: dict[str, Interval] = field(default_factory=dict)
    chance_map: float | None = None

    @property
    def signature(self) -> str:
        """The conventions and the settings behind the numbers, listed where codes differ."""
        own = {name: getattr(self.settings, name) for name in ("p", "level", "resamples", "seed")}
        return signature_of([one.near for one in self.codes], own)

    def __getitem__(self, name: str) -> QuantizationResult:
        """One code by its name."""
        for one in self.codes:
            if one.name == name:
                return one
        have = ", ".join(one.name for one in self.codes)
        raise UsageError(f"Unknown code {name!r}. Known: {have}.")

    def chance(self, k: int) -> float:
        """Overlap@k of two random orders."""
        return k / self.n_docs

    @property
    def chance_rbo(self) -> float:
        """RBO of two random orders: at depth d they share d²/n documents, d/n of the depth."""
        p, depth = self.settings.p, self.settings.k[-1]
        shares = [(1 - p) * p ** (d - 1) * self.chance(d) for d in range(1, depth + 1)]
        return math.fsum(shares) + p**depth * self.chance(depth)

    def records(self) -> list[RunRecord]:
        """Records of the codes, the float vectors first.

        They are scored by the judgments, or by the float neighbours where there are none.
        """
        return [
            RunRecord(
                one.name,
                one.near if one.judged is None else one.judged,
                task="codes",
                config={
                    "method": one.method,
                    "bits": one.cost.bits,
                    "bytes_per_vector": one.cost.bytes_per_vector,
                    **({} if one.oversample is None else {"oversample": one.oversample}),
                    "relevant": "float neighbours" if one.judged is None else "judged",
                },
                seeds={"seed": self.settings.seed},
                aggregates=self._similarities(one),
                timings={"encode": one.cost.encode_seconds, "search": one.cost.search_seconds},
            )
            for one in self.codes
        ]

    def _similarities(self, one: QuantizationResult) -> list[Aggregate]:
        """Means of the similarity to the float ranking; measures in the scores are left out."""
        chance = {f"Overlap@{k}": self.chance(k) for k in self.settings.k}
        chance[f"RBO(p={self.settings.p:g})"] = self.chance_rbo
        near = set(map(str, one.near.measures))
        spans = {
            name: span
            for name, span in self.intervals[one.name].items()
            if one.judged is not None or name not in near
        }
        if one.name in self.radius_intervals:
            spans[f"P@radius {RADIUS}"] = self.radius_intervals[one.name]
        return [
            Aggregate(
                name,
                span.estimate,
                subset="float neighbours" if name in near else "",
                low=span.low,
                high=span.high,
                level=span.level,
                method=span.method,
                note=span.note,
                chance=chance.get(name),
                n=span.n,
            )
            for name, span in spans.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; undefined numbers are None."""
        return report_data(self)

    def table(self) -> Table:
        """A row for each code and measure, with every digit."""
        return data_table(self)

    def page(self) -> Page:
        """Similarity to the float ranking, scores, costs and remarks as words and tables."""
        return report_page(self)

    def screen(self) -> Page:
        """The same on one screen: of similarity, the overlap at the first cut."""
        return report_page(self, brief=True)

    def svg(self) -> str:
        """The curve: similarity to the float ranking and scores, over bytes per vector."""
        return report_chart(self)

    def __repr__(self) -> str:
        """The tables, as plain text."""
        return text_page(self.page())
