"""The result of a bench: systems, their scores and costs, their comparison and diagnosis."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import Floats
from assay.comparison.compare import Comparison, compare
from assay.core.hits import Hits
from assay.core.ranking import Ranking
from assay.core.text import format_bytes, format_rate, format_time
from assay.display import report_on
from assay.errors import StorageError, UsageError
from assay.io.chunking import ChunkRule
from assay.io.collections import Collection
from assay.io.writers import write_run
from assay.models.encoder import add_tokens
from assay.runs.leaderboard import Leaderboard, rank_records
from assay.runs.record import RunRecord
from assay.runs.results import LazyResults
from assay.scoring.scores import Scores
from assay.tables.page import html_page, text_page
from assay.tasks.bench.chunk_aggregation import ChunkAggregation
from assay.tasks.bench.explain import SnippetBuilder
from assay.tasks.bench.findings import diagnose
from assay.tasks.bench.search import SearchResult
from assay.tasks.bench.tables import (
    bench_data,
    bench_page,
    cost_table,
    data_table,
    describe_tuning,
    leaderboard,
    query_table,
)

if TYPE_CHECKING:
    from assay.inspect.check import CheckReport
    from assay.models import EmbeddingCache
    from assay.report.report import Report
    from assay.tables.page import Page
    from assay.tables.table import Table

__all__ = ["BenchResult", "System", "write_runs"]


@dataclass(frozen=True, eq=False)
class System:
    """A model, a fusion, or a model behind an index: what it retrieved, judged and scored.

    `exact` is the name of the model whose exact search an index is to be compared with,
    `lower_cased` the first measure of some queries in small letters and as they are, in capitals,
    `first` the name of the first stage, where this is a reranker of it, and `members` are those of
    a fusion.
    """

    name: str
    spec: str
    result: SearchResult
    hits: Hits
    scores: Scores
    exact: str = ""
    lower_cased: tuple[Floats, Floats] | None = None
    first: str = ""
    members: tuple[str, ...] = ()

    @property
    def ranking(self) -> Ranking:
        """The documents it retrieved."""
        return self.result.ranking

    def details(self) -> dict[str, str]:
        """What a report shows beside the numbers."""
        costs, n_queries = self.result.costs, max(len(self.ranking), 1)
        return {
            "model": self.spec,
            "dimension": "" if costs.dimension is None else str(costs.dimension),
            "texts/s": format_rate(costs.texts_per_second) or "cached",
            "memory": format_bytes(costs.bytes) or "",
            "search, each query": format_time(costs.search_seconds / n_queries),
            "fingerprint": self.result.fingerprint[:16],
        }


@dataclass(frozen=True, eq=False)
class BenchResult:
    """Systems on one collection, in the order in which they were named.

    `chance` and `ceiling` are what a random and a perfect order of all documents would score.
    Beside the `cache` lies what was found out about the texts of the collection before. `prices`
    are those of a million tokens by name; `by_answers` is the same judged by answers, where there
    are some beside judged documents.
    """

    collection: Collection
    systems: tuple[System, ...]
    chance: Scores
    ceiling: Scores
    chunk: ChunkRule | None = None
    aggregation: ChunkAggregation = field(default_factory=ChunkAggregation)
    metric: str = "cosine"
    depth: int = 0
    judged: str = "documents"
    cache: EmbeddingCache | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    by_answers: BenchResult | None = None

    def __getitem__(self, name: str) -> System:
        """One system by name."""
        for one in self.systems:
            if one.name == name:
                return one
        raise KeyError(name)

    def with_groups(self, **groups: Any) -> BenchResult:
        """The same with group columns of the queries, as `Scores.with_groups` takes them."""
        systems = [replace(one, scores=one.scores.with_groups(**groups)) for one in self.systems]
        others = self.by_answers and self.by_answers.with_groups(**groups)
        return replace(self, systems=tuple(systems), by_answers=others)

    def tokens_of(self, name: str) -> int | None:
        """The tokens that a system and what it is made of were counted now; None if unknown."""
        return add_tokens(*(self[one].result.costs.tokens for one in self._parts_of(name)))

    def price_of(self, name: str) -> float | None:
        """What these tokens cost; None where a price or a count is not known."""
        paid = [one for one in self._parts_of(name) if one in self.prices]
        counts = [self[one].result.costs.tokens for one in paid]
        if not paid or None in counts:
            return None
        return sum(
            self.prices[one] * (count or 0) / 1e6 for one, count in zip(paid, counts, strict=True)
        )

    def _parts_of(self, name: str) -> list[str]:
        """The system and the systems that it is made of, each once."""
        one = self[name]
        below = (*one.members, *filter(None, (one.first, one.exact)))
        every = [name, *(part for other in below for part in self._parts_of(other))]
        return list(dict.fromkeys(every))

    def answer_board(self, board: Leaderboard) -> Leaderboard | None:
        """The comparison by answers, with the settings of another."""
        if self.by_answers is None:
            return None
        return rank_records(
            self.by_answers._runs(), baseline=board.baseline, **asdict(board.settings)
        )

    @property
    def rivals(self) -> tuple[System, ...]:
        """The models and fusions, which are compared with each other."""
        return tuple(one for one in self.systems if not one.exact)

    @cached_property
    def standing(self) -> Leaderboard:
        """The comparison of models and fusions with the default settings; `report` takes others."""
        return rank_records(self._runs())

    def report(self, *, title: str = "", command: str = "", **settings: Any) -> Report:
        """The comparison of models and fusions with intervals, group letters and verdicts.

        Indexes, each compared with its own exact search, are among the remarks.
        """
        if settings.get("baseline") in [one.name for one in self.systems if one.exact]:
            raise UsageError(
                f"The baseline {settings['baseline']!r} is a model behind an index, which is "
                "compared with its own exact search. Name the model."
            )
        found = {key: value for key, value in settings.items() if key != "baseline"}
        indexed = [text for one in self.indexed(**found) for text in one.verdicts.values()]
        notes = [str(finding).removesuffix(".") for finding in self.diagnosis.findings]
        notes += [sentence.removesuffix(".") for sentence in describe_tuning(self)]
        if self.by_answers is not None:
            other = rank_records(self.by_answers._runs(), **settings)
            notes += [f"By answers: {verdict}" for verdict in other.verdicts.values()]
        return report_on(
            self._runs(),
            title=title or self.title,
            command=command,
            notes=[*notes, *indexed],
            **settings,
        )

    def indexed(self, **settings: Any) -> list[Comparison]:
        """For each model behind indexes: the indexes against its exact search, a family each.

        `settings` are those of `compare`.
        """
        return self._families("exact", settings)

    def reranked(self, **settings: Any) -> list[Comparison]:
        """For each first stage: its rerankers against it, a family each."""
        return self._families("first", settings)

    def _families(self, of: str, settings: dict[str, Any]) -> list[Comparison]:
        found = []
        for model in self.rivals:
            systems = [model, *(one for one in self.systems if getattr(one, of) == model.name)]
            if len(systems) > 1:
                first, second, *more = (one.scores for one in systems)
                names = [one.name for one in systems]
                found.append(
                    compare(first, second, *more, names=names, baseline=model.name, **settings)
                )
        return found

    def _runs(self) -> list[RunRecord]:
        snippets = SnippetBuilder(self.collection)
        return [
            RunRecord(
                one.name,
                one.scores,
                config={"costs": one.result.costs.to_dict()},
                chance=self.chance,
                hits=one.hits,
                provenance=one.details(),
                results=LazyResults(partial(snippets.build_all, one.ranking)),
            )
            for one in self.rivals
        ]

    def records(self, *, seed: int = 0, clusters: str = "", **config: Any) -> list[RunRecord]:
        """A record for each system, its best documents and missed ones with snippets.

        `clusters` is the group column that was drawn; `config` is stored with all of them.
        """
        snippets = SnippetBuilder(self.collection)
        chance, ceiling = self.chance.mean(), self.ceiling.mean()
        return [
            RunRecord(
                one.name,
                one.scores,
                task="bench",
                dataset=self.collection.name,
                model=one.spec,
                config={
                    "spec": one.spec,
                    "fingerprint": one.result.fingerprint,
                    "collection": self.collection.fingerprint,
                    "chunk": None if self.chunk is None else str(self.chunk),
                    **({"index_of": one.exact} if one.exact else {}),
                    **({"reranker_of": one.first} if one.first else {}),
                    "costs": one.result.costs.to_dict(),
                    **config,
                },
                seeds={"seed": seed},
                chance=chance,
                ceiling=ceiling,
                clusters=clusters,
                results=snippets.build_all(one.ranking),
                hits=one.hits,
                provenance=one.details(),
            )
            for one in self.systems
        ] + self._answer_records(seed=seed, clusters=clusters, **config)

    def _answer_records(self, **given: Any) -> list[RunRecord]:
        """The records by answers, under names of their own."""
        if self.by_answers is None:
            return []
        every = self.by_answers.records(**given)
        return [replace(one, name=f"{one.name} by answers") for one in every]

    @property
    def title(self) -> str:
        """What was run on what."""
        number = len(self.systems)
        who = self.systems[0].name if number == 1 else f"{number} systems"
        return f"{who} on {self.collection.name or 'a collection'}"

    @cached_property
    def diagnosis(self) -> CheckReport:
        """What is wrong or suspicious in the collection and in the results, most severe first."""
        return diagnose(self)

    def leaderboard(self, board: Leaderboard | None = None) -> Table:
        """Systems best first: means with intervals, group letters, and chance below."""
        return leaderboard(self, board or self.standing)

    def cost_table(self) -> Table:
        """Dimension, speed, memory and search time of each system."""
        return cost_table(self)

    def table(self, board: Leaderboard | None = None) -> Table:
        """Every number with all digits, a row for each system."""
        return data_table(self, board or self.standing)

    def query_table(self) -> Table:
        """A row for each query: its text and the values of each system."""
        return query_table(self)

    def page(self, board: Leaderboard | None = None) -> Page:
        """Verdict, leaderboard, costs and diagnosis as words and tables."""
        return bench_page(self, board or self.standing)

    def to_dict(
        self, *, per_query: bool = False, board: Leaderboard | None = None
    ) -> dict[str, Any]:
        """Plain data for JSON."""
        return bench_data(self, board or self.standing, per_query=per_query)

    def __repr__(self) -> str:
        """The leaderboard as plain text."""
        return text_page(self.page())

    def _repr_html_(self) -> str:
        return html_page(self.page())


_ODD: Final = re.compile(r"[^\w.+-]+")


def write_runs(result: BenchResult, folder: str | os.PathLike[str]) -> list[Path]:
    """Write one TREC run file for each system; the paths of the files."""
    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{home} cannot be created: {error.strerror or error}.") from error
    names = _file_names([one.name for one in result.systems])
    for one, name in zip(result.systems, names, strict=True):
        write_run(one.ranking, home / f"{name}.run", format="trec", tag=name)
    return [home / f"{name}.run" for name in names]


def _file_names(names: list[str]) -> list[str]:
    """Names that any file system takes, each once.

    >>> _file_names(["st:a/b", "st:a-b", "rrf(a+b)"])
    ['st-a-b', 'st-a-b-2', 'rrf-a+b']
    """
    made: list[str] = []
    for name in names:
        plain = _ODD.sub("-", name).strip("-.")[:100] or "run"
        number = 1
        unique = plain
        while unique in made:
            number += 1
            unique = f"{plain}-{number}"
        made.append(unique)
    return made
