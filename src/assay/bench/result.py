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
from assay.bench.collection import ChunkAggregation
from assay.bench.explain import SnippetBuilder
from assay.bench.findings import diagnose
from assay.bench.search import SearchResult
from assay.bench.tables import (
    bench_data,
    bench_page,
    cost_table,
    data_table,
    describe_tuning,
    leaderboard,
    query_table,
)
from assay.comparison.compare import Comparison, compare
from assay.core.hits import Hits
from assay.core.ranking import Ranking
from assay.core.text import format_bytes, format_rate, format_time
from assay.errors import StorageError, UsageError
from assay.io.collections import Collection
from assay.io.texts import ChunkRule
from assay.io.writers import write_run
from assay.models.encoding import add_tokens
from assay.plugins import find_hook
from assay.runs.leaderboard import Leaderboard, rank_records
from assay.runs.record import RunRecord
from assay.runs.results import LazyResults
from assay.scoring.scores import Scores
from assay.tables.table import html_page, text_page

if TYPE_CHECKING:
    from assay.inspect.check import CheckReport
    from assay.models import EmbeddingCache
    from assay.tables.table import Page, Table


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
        """Return what a report shows beside the numbers."""
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
        for system in self.systems:
            if system.name == name:
                return system
        raise KeyError(name)

    def with_groups(self, **groups: Any) -> BenchResult:
        """Return a copy with group columns of the queries, as in `Scores.with_groups`."""
        systems = [
            replace(system, scores=system.scores.with_groups(**groups)) for system in self.systems
        ]
        by_answers = self.by_answers and self.by_answers.with_groups(**groups)
        return replace(self, systems=tuple(systems), by_answers=by_answers)

    def tokens_of(self, name: str) -> int | None:
        """Return the tokens that a system and its parts used now, if known."""
        return add_tokens(*(self[part].result.costs.tokens for part in self._parts_of(name)))

    def price_of(self, name: str) -> float | None:
        """Return what these tokens cost; None where a price or a count is not known."""
        paid = [part for part in self._parts_of(name) if part in self.prices]
        counts = [self[part].result.costs.tokens for part in paid]
        if not paid or None in counts:
            return None
        return sum(
            self.prices[part] * (count or 0) / 1e6 for part, count in zip(paid, counts, strict=True)
        )

    def _parts_of(self, name: str) -> list[str]:
        """Return the system and the systems that it is made of, each once."""
        system = self[name]
        below = (*system.members, *filter(None, (system.first, system.exact)))
        every = [name, *(part for other in below for part in self._parts_of(other))]
        return list(dict.fromkeys(every))

    def answer_board(self, board: Leaderboard) -> Leaderboard | None:
        """Return the comparison by answers, with the settings of another."""
        if self.by_answers is None:
            return None
        return rank_records(
            self.by_answers._runs(), baseline=board.baseline, **asdict(board.settings)
        )

    @property
    def rivals(self) -> tuple[System, ...]:
        """The models and fusions, which are compared with each other."""
        return tuple(system for system in self.systems if not system.exact)

    @cached_property
    def standing(self) -> Leaderboard:
        """The comparison of models and fusions with the default settings; `report` takes others."""
        return rank_records(self._runs())

    def report(self, *, title: str = "", command: str = "", **settings: Any) -> Any:
        """Return the comparison of models and fusions with intervals, group letters and verdicts.

        Indexes, each compared with its own exact search, are among the remarks.
        """
        if settings.get("baseline") in [system.name for system in self.systems if system.exact]:
            raise UsageError(
                f"The baseline {settings['baseline']!r} is a model behind an index, which is "
                "compared with its own exact search. Name the model."
            )
        of_compare = {key: value for key, value in settings.items() if key != "baseline"}
        indexed = [
            text for system in self.indexed(**of_compare) for text in system.verdicts.values()
        ]
        notes = [str(finding).removesuffix(".") for finding in self.diagnosis.findings]
        notes += [sentence.removesuffix(".") for sentence in describe_tuning(self)]
        if self.by_answers is not None:
            other = rank_records(self.by_answers._runs(), **settings)
            notes += [f"By answers: {verdict}" for verdict in other.verdicts.values()]
        return find_hook("make_report")(
            self._runs(),
            title=title or self.title,
            command=command,
            notes=[*notes, *indexed],
            **settings,
        )

    def indexed(self, **settings: Any) -> list[Comparison]:
        """Compare the indexes of each model with its exact search, a family each.

        `settings` are those of `compare`.
        """
        return self._families("exact", settings)

    def reranked(self, **settings: Any) -> list[Comparison]:
        """Compare the rerankers of each first stage with it, a family each."""
        return self._families("first", settings)

    def _families(self, of: str, settings: dict[str, Any]) -> list[Comparison]:
        families = []
        for model in self.rivals:
            systems = [
                model,
                *(system for system in self.systems if getattr(system, of) == model.name),
            ]
            if len(systems) > 1:
                first, second, *more = (system.scores for system in systems)
                names = [system.name for system in systems]
                families.append(
                    compare(first, second, *more, names=names, baseline=model.name, **settings)
                )
        return families

    def _runs(self) -> list[RunRecord]:
        snippets = SnippetBuilder(self.collection)
        return [
            RunRecord(
                system.name,
                system.scores,
                config={"costs": system.result.costs.to_dict()},
                chance=self.chance,
                hits=system.hits,
                provenance=system.details(),
                results=LazyResults(partial(snippets.build_all, system.ranking)),
            )
            for system in self.rivals
        ]

    def records(self, *, seed: int = 0, clusters: str = "", **config: Any) -> list[RunRecord]:
        """Return a record for each system, its best documents and missed ones with snippets.

        `clusters` is the group column that was drawn; `config` is stored with all of them.
        """
        snippets = SnippetBuilder(self.collection)
        chance, ceiling = self.chance.mean(), self.ceiling.mean()
        return [
            RunRecord(
                system.name,
                system.scores,
                task="bench",
                dataset=self.collection.name,
                model=system.spec,
                config={
                    "spec": system.spec,
                    "fingerprint": system.result.fingerprint,
                    "collection": self.collection.fingerprint,
                    "chunk": None if self.chunk is None else str(self.chunk),
                    **({"index_of": system.exact} if system.exact else {}),
                    **({"reranker_of": system.first} if system.first else {}),
                    "costs": system.result.costs.to_dict(),
                    **config,
                },
                seeds={"seed": seed},
                chance=chance,
                ceiling=ceiling,
                clusters=clusters,
                results=snippets.build_all(system.ranking),
                hits=system.hits,
                provenance=system.details(),
            )
            for system in self.systems
        ] + self._answer_records(seed=seed, clusters=clusters, **config)

    def _answer_records(self, **config: Any) -> list[RunRecord]:
        """Return the records by answers, under names of their own."""
        if self.by_answers is None:
            return []
        every = self.by_answers.records(**config)
        return [replace(record, name=f"{record.name} by answers") for record in every]

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
        """Return systems best first: means with intervals, group letters, and chance below."""
        return leaderboard(self, board or self.standing)

    def cost_table(self) -> Table:
        """Return dimension, speed, memory and search time of each system."""
        return cost_table(self)

    def table(self, board: Leaderboard | None = None) -> Table:
        """Return every number with all digits, a row for each system."""
        return data_table(self, board or self.standing)

    def query_table(self) -> Table:
        """Return a row for each query: its text and the values of each system."""
        return query_table(self)

    def page(self, board: Leaderboard | None = None) -> Page:
        """Return verdict, leaderboard, costs and diagnosis as words and tables."""
        return bench_page(self, board or self.standing)

    def to_dict(
        self, *, per_query: bool = False, board: Leaderboard | None = None
    ) -> dict[str, Any]:
        """Return plain data for JSON."""
        return bench_data(self, board or self.standing, per_query=per_query)

    def __repr__(self) -> str:
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
    names = _file_names([system.name for system in result.systems])
    for system, name in zip(result.systems, names, strict=True):
        write_run(system.ranking, home / f"{name}.run", format="trec", tag=name)
    return [home / f"{name}.run" for name in names]


def _file_names(names: list[str]) -> list[str]:
    """Return names that any file system takes, each once.

    >>> _file_names(["st:a/b", "st:a-b", "rrf(a+b)"])
    ['st-a-b', 'st-a-b-2', 'rrf-a+b']
    """
    unique_names: list[str] = []
    for name in names:
        plain = _ODD.sub("-", name).strip("-.")[:100] or "run"
        number = 1
        unique = plain
        while unique in unique_names:
            number += 1
            unique = f"{plain}-{number}"
        unique_names.append(unique)
    return unique_names
