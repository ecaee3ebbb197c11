"""What a bench found: contestants, their standing, what they cost, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.chunking import ChunkRule
from assay.folding import Fold
from assay.hits import Hits
from assay.io.collections import Collection
from assay.ranking import Ranking
from assay.report.contents import Report, make_report
from assay.report.report_run import ReportRun
from assay.scores import Scores
from assay.tasks.bench_search import Found

if TYPE_CHECKING:
    from assay.inspection import CheckReport
    from assay.report.page import Page
    from assay.report.tables import Table

__all__ = ["BenchResult", "Contestant"]


@dataclass(frozen=True, eq=False)
class Contestant:
    """One model, fusion, or model with an index: what it found and what that is worth."""

    name: str
    spec: str
    found: Found
    hits: Hits
    scores: Scores

    @property
    def ranking(self) -> Ranking:
        """The documents it retrieved."""
        return self.found.ranking

    def details(self) -> dict[str, str]:
        """What a report shows beside the numbers."""
        from assay.tasks.bench_tables import shown_bytes, shown_rate, shown_time

        costs, n_queries = self.found.costs, max(len(self.ranking), 1)
        return {
            "model": self.spec,
            "dimension": "" if costs.dimension is None else str(costs.dimension),
            "texts/s": shown_rate(costs.texts_per_second) or "cached",
            "memory": shown_bytes(costs.bytes) or "",
            "search, each query": shown_time(costs.search_seconds / n_queries),
            "fingerprint": self.found.fingerprint[:16],
        }


@dataclass(frozen=True, eq=False)
class BenchResult:
    """Contestants on one collection, in the order in which they were named.

    `chance` and `ceiling` are what a random and a perfect order of all documents would score.
    """

    collection: Collection
    contestants: tuple[Contestant, ...]
    chance: Scores
    ceiling: Scores
    chunk: ChunkRule | None = None
    fold: Fold = field(default_factory=Fold)
    metric: str = "cosine"
    depth: int = 0
    judged: str = "documents"

    def __getitem__(self, name: str) -> Contestant:
        """One contestant by name."""
        for one in self.contestants:
            if one.name == name:
                return one
        raise KeyError(name)

    @cached_property
    def standing(self) -> Report:
        """The comparison by its default settings; `report` takes others."""
        return self.report()

    def report(self, *, title: str = "", command: str = "", **settings: Any) -> Report:
        """The comparison of all contestants with intervals, tie groups and verdicts."""
        runs = [
            ReportRun(one.name, one.scores, self.chance, one.hits, one.details())
            for one in self.contestants
        ]
        notes = [str(finding).removesuffix(".") for finding in self.diagnosis.findings]
        return make_report(
            runs, title=title or self.title, command=command, notes=notes, **settings
        )

    @property
    def title(self) -> str:
        """What was run on what."""
        number = len(self.contestants)
        who = self.contestants[0].name if number == 1 else f"{number} contestants"
        return f"{who} on {self.collection.name or 'a collection'}"

    @cached_property
    def diagnosis(self) -> CheckReport:
        """What is wrong or suspicious in the collection and in what was found, gravest first."""
        from assay.tasks.bench_diagnosis import diagnose

        return diagnose(self)

    def leaderboard(self, report: Report | None = None) -> Table:
        """Contestants best first: means with intervals, tie groups, and chance below."""
        from assay.tasks.bench_tables import leaderboard

        return leaderboard(self, report or self.standing)

    def cost_table(self) -> Table:
        """What each contestant costs."""
        from assay.tasks.bench_tables import cost_table

        return cost_table(self)

    def data_table(self, report: Report | None = None) -> Table:
        """Every number with all digits, a row for each contestant."""
        from assay.tasks.bench_tables import data_table

        return data_table(self, report or self.standing)

    def query_table(self) -> Table:
        """A row for each query: its text and what it is worth to each contestant."""
        from assay.tasks.bench_tables import query_table

        return query_table(self)

    def page(self, report: Report | None = None) -> Page:
        """Verdict, leaderboard, costs and diagnosis as words and tables."""
        from assay.tasks.bench_tables import bench_page

        return bench_page(self, report or self.standing)

    def to_dict(self, *, per_query: bool = False, report: Report | None = None) -> dict[str, Any]:
        """Plain data for JSON."""
        from assay.tasks.bench_tables import bench_data

        return bench_data(self, report or self.standing, per_query=per_query)

    def __repr__(self) -> str:
        """The leaderboard as plain text."""
        from assay.report.page import text_page

        return text_page(self.page())

    def _repr_html_(self) -> str:
        from assay.report.page import html_page

        return html_page(self.page())
