"""The result of a bench: systems, their scores and costs, their comparison, tables and pages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import Floats, numbers_or_none
from assay.bench.chunkings import ChunkSummary
from assay.bench.explain import SnippetBuilder
from assay.bench.findings import count_of, diagnose
from assay.bench.plan import PreparedCollection, Rerank
from assay.bench.search import ChunkAggregation, SearchResult
from assay.comparison.compare import Comparison, compare
from assay.comparison.standings import standings_table
from assay.comparison.verdict import verdict_words
from assay.core.conventions import as_settings, setting_parts
from assay.core.hits import Hits
from assay.core.ranking import Ranking
from assay.core.text import Remark, format_bytes, format_rate, format_time
from assay.errors import InputError, UsageError
from assay.io.collections import CONVENTION, Collection
from assay.io.streams import make_folder
from assay.io.texts import ChunkRule, TextFolder
from assay.io.writers import write_run
from assay.plugins import find_hook
from assay.runs.leaderboard import Leaderboard, rank_records
from assay.runs.record import RunRecord
from assay.runs.results import LazyResults
from assay.scoring.scores import Scores
from assay.tables.table import Cell, Page, Shown, Table, Words, table_of

if TYPE_CHECKING:
    from assay.inspect.check import CheckReport
    from assay.models import EmbeddingCache


_BY_ANSWERS: Final = f"By answers: relevant is a document in which {CONVENTION}."
# Columns of the table of costs that are there where no system has a value, too.
_COSTS: Final = ("model", "dimension", "texts/s", "memory", "search/query")
# Findings by their codes, where one line is for all of them.
_LATER: Final = "recall may be lower for documents added later."
_IN_SHORT: Final = {
    "absent-docs": ("judged document", "not in the collection (cannot be retrieved)"),
    "absent-queries": ("judged query", "without a text (excluded)"),
    "duplicate-docs": ("group", "of duplicate documents (unjudged copies count as not relevant)"),
    "empty-docs": ("document", "without text (cannot be retrieved)"),
    "empty-queries": ("judged query", "with empty text (score 0)"),
    "left-out": ("system", "left out (cannot run here)"),
    "zero-vectors": ("text", "without a vector (cannot be retrieved)"),
}


@dataclass(frozen=True, eq=False)
class System:
    """A model, a fusion, or a model behind an index: what it retrieved, judged and scored.

    `exact` is the name of the model whose exact search an index is to be compared with,
    `lower_cased` the first measure of some queries in small letters and as they are, in capitals,
    `first` the name of the first stage, where this is a reranker of it, `members` are those of a
    fusion, and `chunking` counts the chunks that it searches.
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
    chunking: ChunkSummary | None = None

    @property
    def ranking(self) -> Ranking:
        """The documents it retrieved."""
        return self.result.ranking

    @property
    def seconds_per_query(self) -> float | None:
        """Time of its search; None of a run, which has none."""
        seconds, serving = self.result.costs.search_seconds, self.result.costs.serving or {}
        answered = len(self.ranking) - serving.get("failed", 0)
        return None if seconds is None else seconds / max(answered, 1)

    def details(self) -> dict[str, str]:
        """Return what a report shows beside the numbers."""
        costs, seconds = self.result.costs, self.seconds_per_query
        return {
            "model": self.spec,
            "dimension": "" if costs.dimension is None else str(costs.dimension),
            "texts/s": format_rate(costs.texts_per_second)
            or ("cached" * bool(self.result.n_texts)),
            "memory": format_bytes(costs.bytes) or "",
            "search, each query": "" if seconds is None else format_time(seconds),
            "fingerprint": self.result.fingerprint[:16],
        }

    def to_dict(self, *, per_query: bool) -> dict[str, Any]:
        """Return plain data for JSON."""
        scores, result = self.scores.to_dict(per_query=per_query), self.result
        texts = {"n": result.n_texts, "cut_off": result.n_cut, "without_vector": result.n_without}
        data = {
            "name": self.name,
            "model": self.spec,
            "fingerprint": result.fingerprint,
            "measures": scores["measures"],
            "costs": result.costs.to_dict(),
            "texts": texts,
        }
        if self.chunking is not None:
            data["chunks"] = self.chunking.to_dict()
        if self.first:
            data["reranker_of"] = self.first
        if result.tuning is not None:
            data["tuning"] = {"members": list(self.members), **result.tuning.to_dict()}
        if result.index is not None:
            data["index"] = result.index.as_dict()
        if per_query:
            data["per_query"] = scores["per_query"]
        return data


@dataclass(frozen=True, eq=False, repr=False)
class BenchResult(Shown):
    """Systems on one collection, in the order in which they were named.

    `orders` computes what a random and a perfect order of all documents would score.
    Beside the `cache` lies what was found out about the texts of the collection before. `prices`
    are those of a million tokens by name; `by_answers` is the same judged by answers, where there
    are some beside judged documents. `data` is what systems without a chunking of their own
    search, and `left_out` has the systems that cannot run on this collection, with the reasons;
    `folder` is where the documents are texts in a folder. `bases` names the system that each
    variant is compared with, and `look` is the number of the gate's look.
    """

    collection: Collection
    systems: tuple[System, ...]
    orders: Callable[[], tuple[Scores, Scores]]
    chunk: ChunkRule | None = None
    aggregation: ChunkAggregation = field(default_factory=ChunkAggregation)
    metric: str = "cosine"
    depth: int = 0
    judged: str = "documents"
    cache: EmbeddingCache | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    by_answers: BenchResult | None = None
    data: PreparedCollection | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    folder: TextFolder | None = None
    bases: Mapping[str, str] = field(default_factory=dict)
    look: int | None = None

    @cached_property
    def _orders(self) -> tuple[Scores, Scores]:
        return self.orders()

    @property
    def chance(self) -> Scores:
        """Scores of a random order of all documents."""
        return self._orders[0]

    @property
    def ceiling(self) -> Scores:
        """Scores of a perfect order of all documents."""
        return self._orders[1]

    def __getitem__(self, name: str) -> System:
        for system in self.systems:
            if system.name == name:
                return system
        raise KeyError(name)

    def with_groups(self, **groups: Any) -> BenchResult:
        """Return a copy with group columns of the queries, as in `Scores.with_groups`."""
        systems = [replace(s, scores=s.scores.with_groups(**groups)) for s in self.systems]
        by_answers = self.by_answers and self.by_answers.with_groups(**groups)
        return replace(self, systems=tuple(systems), by_answers=by_answers)

    def tokens_of(self, name: str) -> int | None:
        """Return the tokens that a system and its parts used now, if known."""
        counts = [self[part].result.costs.tokens for part in self._parts_of(name)]
        return sum(filter(None, counts)) if any(n is not None for n in counts) else None

    def price_of(self, name: str) -> float | None:
        """Return the cost of tokens; None without a price or count."""
        paid = [part for part in self._parts_of(name) if part in self.prices]
        tokens = [(self.prices[part], self[part].result.costs.tokens) for part in paid]
        costs = [price * n / 1e6 for price, n in tokens if n is not None]
        return fsum(costs) if paid and len(costs) == len(paid) else None

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
        runs = self.by_answers._runs()
        return rank_records(runs, baseline=board.baseline, **asdict(board.settings))

    @property
    def rivals(self) -> tuple[System, ...]:
        """The systems that are variants of no other, which are compared with each other."""
        return tuple(system for system in self.systems if system.name not in self.bases)

    @cached_property
    def standing(self) -> Leaderboard:
        """The comparison of models and fusions with the default settings; `report` takes others."""
        return rank_records(self._runs())

    def report(self, *, title: str = "", command: str = "", **settings: Any) -> Any:
        """Return the comparison of models and fusions with intervals, group letters and verdicts.

        Variants, each compared with what it is a variant of, are among the remarks.
        """
        baseline = str(settings.get("baseline"))
        if baseline in self.left_out:
            reason = self.left_out[baseline]
            raise InputError(f"The baseline {baseline!r} cannot run: {reason}. Choose another.")
        if baseline in self.bases:
            base = self.bases[baseline]
            raise UsageError(f"The baseline {baseline!r} is a variant of {base!r}. Name {base!r}.")
        if len(self.rivals) < 2 and baseline in self.bases.values():
            settings.pop("baseline")  # it is that of its variants alone
        of_compare = {key: value for key, value in settings.items() if key != "baseline"}
        families = self.variants(**of_compare)
        varied = [verdict for family in families for verdict in family.verdicts.values()]
        notes = [str(finding).removesuffix(".") for finding in self.diagnosis.findings]
        notes += [sentence.removesuffix(".") for sentence in _describe_tuning(self)]
        if self.by_answers is not None:
            other = rank_records(self.by_answers._runs(), **settings)
            notes += [f"By answers: {verdict}" for verdict in other.verdicts.values()]
        words = {"title": title or self.title, "command": command, "notes": [*notes, *varied]}
        return find_hook("make_report")(self._runs(), **words, **settings)

    def variants(self, **settings: Any) -> list[Comparison]:
        """Compare variants (index, codes, depth of reranking) with their base, a family each.

        `settings` are those of `compare`.
        """
        return self._families(self.bases, settings)

    def reranked(self, **settings: Any) -> list[Comparison]:
        """Compare the rerankers of each first stage with it, a family each."""
        return self._families({system.name: system.first for system in self.systems}, settings)

    def _families(self, bases: Mapping[str, str], settings: dict[str, Any]) -> list[Comparison]:
        families = []
        for model in self.systems:
            variants = [other for other in self.systems if bases.get(other.name) == model.name]
            if variants:
                names = [system.name for system in (model, *variants)]
                scores = (model.scores, *(other.scores for other in variants))
                families.append(compare(*scores, names=names, baseline=names[0], **settings))
        return families

    def _runs(self) -> list[RunRecord]:
        snippets = SnippetBuilder(self.collection)
        return [self._record(system, snippets) for system in self.rivals]

    def _record(self, system: System, snippets: SnippetBuilder, **more: Any) -> RunRecord:
        build = partial(snippets.build_all, system.ranking, system.result.chunks)
        record: dict[str, Any] = {
            "config": {"costs": system.result.costs.to_dict()},
            "chance": self.chance,
            "hits": system.hits,
            "provenance": system.details(),
            "results": LazyResults(build),
        }
        return RunRecord(system.name, system.scores, **{**record, **more})

    def records(self, *, seed: int = 0, clusters: str = "", **config: Any) -> list[RunRecord]:
        """Return a record for each system, its best documents and missed ones with snippets.

        `clusters` is the group column that was drawn; `config` is stored with all of them.
        """
        snippets = SnippetBuilder(self.collection)
        chance, ceiling = self.chance.mean(), self.ceiling.mean()
        records = [
            self._record(
                system,
                snippets,
                task="bench",
                dataset=self.collection.name,
                model=system.spec,
                config={
                    "spec": system.spec,
                    "fingerprint": system.result.fingerprint,
                    "collection": self.collection.fingerprint,
                    "chunk": None if self.chunk is None else str(self.chunk),
                    **self._variant_of(system),
                    **({"reranker_of": system.first} if system.first else {}),
                    "costs": system.result.costs.to_dict(),
                    **config,
                },
                seeds={"seed": seed},
                chance=chance,
                ceiling=ceiling,
                clusters=clusters,
            )
            for system in self.systems
        ]
        if self.by_answers is None:
            return records
        answered = self.by_answers.records(seed=seed, clusters=clusters, **config)
        return [*records, *(replace(run, name=f"{run.name} by answers") for run in answered)]

    def _variant_of(self, system: System) -> dict[str, str]:
        base = self.bases.get(system.name)
        return {} if base is None else {"variant_of": base}

    def sign(self, board: Leaderboard) -> str:
        """Return the signature of a comparison, with what makes the variants, and the look."""
        parts = []
        for system in self.systems:
            if system.name in self.bases:
                base = self[self.bases[system.name]]
                settings, of_base = (
                    {"search": scores.search or "", **scores.settings}
                    for scores in (system.scores, base.scores)
                )
                new = [f"{k}={value}" for k, value in settings.items() if value != of_base.get(k)]
                parts.append(f"{system.name}({','.join(new)})")
        added = as_settings(variants=";".join(parts) or None, look=self.look)
        text = "".join(f"{part}|" for part in setting_parts(added))
        return board.aligned.signature.replace("|queries:", f"|{text}queries:")

    @property
    def title(self) -> str:
        """Systems and collection, in words."""
        number = len(self.systems)
        who = self.systems[0].name if number == 1 else f"{number} systems"
        return f"{who} on {self.collection.name or 'a collection'}"

    @cached_property
    def diagnosis(self) -> CheckReport:
        """Problems of the collection and the results, most severe first."""
        return diagnose(self)

    def leaderboard(self, board: Leaderboard | None = None) -> Table:
        """Return systems best first: means with intervals, group letters, and chance below.

        On each measure those that may be the best are marked; the last row is a random order.
        """
        board = board or self.standing
        first, *further = map(str, board.measures)
        standings = board.standings_on(first)
        headings = {"system": "model", "mean": first}
        table = standings_table(standings, headings=headings, without=("rank",))
        rows, columns = [list(row) for row in table.rows], list(table.columns)
        # A random order has a mean, and nothing in the other columns.
        last = [Cell("", "text" if cell.kind == "text" else "figure") for cell in rows[0]]
        last[0] = Cell("chance")
        last[columns.index(first)] = Cell(board.chance_on(first), "fraction")
        for measure in further:
            others_by_name = {other.name: other for other in board.standings_on(measure)}
            for row, standing in zip(rows, standings, strict=True):
                other = others_by_name[standing.name]
                row.append(Cell(other.mean.estimate, "fraction", other.leads))
            last.append(Cell(board.chance_on(measure), "fraction"))
        return Table((*columns, *further), tuple(map(tuple, [*rows, last])))

    def cost_table(self) -> Table:
        """Return dimension, speed, memory and search time of each system.

        Where they are known of a system: bytes per vector (where there are codes) or per document
        (of token and sparse vectors), texts that were truncated, tokens and price.
        """
        coded = any(system.result.costs.bytes_per_vector for system in self.systems)
        rows = [self._cost_cells(system, coded) for system in self.systems]
        valued = {name for row in rows for name, cell in row.items() if cell.value}
        columns = [name for name in rows[0] if name in _COSTS or name in valued]
        return Table(tuple(columns), tuple(tuple(row[name] for name in columns) for row in rows))

    def _cost_cells(self, system: System, coded: bool) -> dict[str, Cell]:
        costs, n_cut = system.result.costs, system.result.n_cut
        cached = "cached" if system.result.n_texts and not system.spec.startswith("npy:") else None
        width = None  # a fusion and what is behind an index have no vectors of their own
        one_vector = costs.dimension is not None and costs.bytes_per_document is None
        if coded and one_vector and not (system.exact or system.first):
            width = costs.bytes_per_vector or 4 * (costs.dimension or 0)
        per_doc = None
        if costs.bytes_per_document is not None and not system.first:
            per_doc = round(costs.bytes_per_document)
        cut = None if n_cut is None else f"{100 * n_cut / system.result.n_texts:.1f} %"
        return {
            "model": Cell(system.name),
            "dimension": Cell(costs.dimension, "count"),
            "texts/s": Cell(format_rate(costs.texts_per_second) or cached, "figure"),
            "memory": Cell(format_bytes(costs.bytes), "figure"),
            "search/query": Cell(_format_search(system), "figure"),
            "bytes/vector": Cell(width, "count"),
            "bytes/document": Cell(per_doc, "count"),
            "truncated": Cell(cut, "figure"),
            "pairs": Cell(costs.pairs, "count"),
            "tokens": Cell(self.tokens_of(system.name), "count"),
            "price": Cell(_format_price(self.price_of(system.name)), "figure"),
        }

    def serving_table(self) -> Table | None:
        """Return latency with intervals, throughput and failures of systems that are asked."""
        costs = {system.name: system.result.costs.serving for system in self.systems}
        serving = {name: data for name, data in costs.items() if data is not None}
        counts: tuple[str, ...] = ("errors", "timeouts", "failed")
        counts = tuple(key for key in counts if any(data[key] for data in serving.values()))
        rows: list[tuple[Any, ...]] = []
        for system, data in serving.items():
            once = [format_rate(data["queries_per_second"]), *(str(data[key]) for key in counts)]
            for name, ends in data["latency"].items():
                time, *interval = (end and format_time(end) for end in ends.values())
                figures = (time, _format_ends(*interval), *once)
                rows.append((system, name, *(Cell(figure, "figure") for figure in figures)))
                once = [""] * len(once)
        columns = ("system", "latency", "time", "95 % CI", "queries/s", *counts)
        return table_of(columns, rows) if rows else None

    def chunk_table(self) -> Table | None:
        """Return number and length of the chunks of systems that cut documents, in tokens."""

        def sizes(*texts: str) -> list[Cell]:
            return [Cell(text, "figure") for text in texts]

        cut = [(system.name, system.chunking) for system in self.systems if system.chunking]
        rows = [
            (name, c.rule, c.number, *sizes(f"{c.mean:.1f}", f"{c.median:g}"), c.longest)
            for name, c in cut
        ]
        columns = ("model", "rule", "chunks", "tokens/chunk", "median", "longest")
        return table_of(columns, rows) if rows else None

    def tables_of_costs(self) -> list[Table]:
        """Return tables of costs, serving and chunks."""
        tables = self.cost_table(), self.serving_table(), self.chunk_table()
        return [table for table in tables if table is not None]

    def table(self, board: Leaderboard | None = None) -> Table:
        """Return every number with all digits, a row for each system, best first; for CSV.

        Variants come last and have no group letters.
        """
        board = board or self.standing
        measures = list(map(str, board.measures))
        standings = {
            (standing.measure, standing.name): standing
            for family in self.variants(**asdict(board.settings))
            for standing in family.standings
            if standing.name != family.baseline
        }
        behind = dict.fromkeys(name for _, name in standings)
        for measure in measures:
            standings |= {(measure, place.name): place for place in board.standings_on(measure)}
        rows = []
        for name in [*(place.name for place in board.standings_on(measures[0])), *behind]:
            system = self[name]
            costs = system.result.costs
            cells = [Cell(system.name), Cell(system.spec)]
            for measure in measures:
                mean = standings[measure, name].mean
                cells += [Cell(value, "fraction") for value in (mean.estimate, mean.low, mean.high)]
                cells.append(Cell(standings[measure, name].letters))
            speeds = costs.texts_per_second, system.seconds_per_query
            cells += [Cell(number, "count") for number in (costs.dimension, costs.bytes)]
            rows.append((*cells, *(Cell(speed, "fraction") for speed in speeds)))
        ends = ("", " low", " high", " group")
        of_measures = [f"{measure}{end}" for measure in measures for end in ends]
        cost_names = ("dimension", "bytes", "texts_per_second", "search_seconds_per_query")
        return Table(("name", "model", *of_measures, *cost_names), tuple(rows))

    def query_table(self) -> Table:
        """Return a row for each query: id, text, and every measure of every system."""
        first = self.systems[0].scores
        texts = dict(zip(self.collection.query_ids, self.collection.query_texts, strict=True))
        columns = {
            f"{system.name} {measure}" if len(first.measures) > 1 else system.name: (
                system.scores.values[number].tolist()
            )
            for number, measure in enumerate(first.measures)
            for system in self.systems
        }
        rows = (
            (str(query), texts.get(query, ""), *(values[row] for values in columns.values()))
            for row, query in enumerate(first.query_ids)
        )
        return table_of(("query", "text", *columns), rows)

    def page(self, board: Leaderboard | None = None) -> Page:
        """Return verdict, leaderboard, costs and diagnosis as words and tables."""
        board = board or self.standing
        page: Page = [*verdict_words(board.verdicts.values())]
        page += [self.leaderboard(board), *self.tables_of_costs()]
        page += [Words(sentence) for sentence in _describe_tuning(self)]
        page += [*_rerank_page(self, board), *_variant_page(self, board)]
        other = self.answer_board(board)
        if other is not None and self.by_answers is not None:
            page.append(Words(_BY_ANSWERS))
            page += verdict_words(other.verdicts.values())
            page.append(self.by_answers.leaderboard(other))
            page.append(Words(other.aligned.signature, "signature"))
        for finding in self.diagnosis.findings:
            noun, rest = _IN_SHORT.get(finding.code, ("", ""))
            short = f"{count_of(finding.count, noun)} {rest}" if noun else finding.message
            remark = Remark(str(finding), short, n=finding.severity != "note")
            page.append(Words(remark, "remark"))
        page += [Words(remark, "remark") for remark in board.run_remarks]
        if board.comparison is not None:
            page.append(Words(board.comparison.power_note(board.measures[0]), "method"))
        page += [Words(line, "method") for line in (*_describe_search(self), board.method)]
        return [*page, Words(self.sign(board), "signature")]

    def to_dict(
        self, *, per_query: bool = False, board: Leaderboard | None = None
    ) -> dict[str, Any]:
        """Return plain data for JSON."""
        board = board or self.standing
        collection = self.collection
        data: dict[str, Any] = {
            "collection": {
                "name": collection.name,
                "fingerprint": collection.fingerprint,
                "documents": len(collection.doc_ids),
                "queries": self.systems[0].scores.n_queries,
                "judgments": len(collection.qrels.docs),
            },
            "settings": {
                "depth": self.depth,
                "metric": self.metric,
                "chunk": None if self.chunk is None else str(self.chunk),
                "fold": str(self.aggregation),
                "judged": self.judged,
            },
            "verdicts": board.verdicts,
            "systems": [
                system.to_dict(per_query=per_query) | self._variant_of(system)
                for system in self.systems
            ],
            "chance": numbers_or_none(self.chance.mean()),
            "ceiling": numbers_or_none(self.ceiling.mean()),
            "diagnosis": self.diagnosis.to_dict()["findings"],
            "remarks": list(board.run_remarks),
            "signature": self.sign(board),
        }
        if board.comparison is not None:
            compared = board.comparison.to_dict()
            keys = ("family", "settings", "measures", "remarks")
            data["comparison"] = {key: compared[key] for key in keys}
        keys = ("baseline", "family", "measures", "remarks")
        for name, find in {"variants": self.variants, "rerankers": self.reranked}.items():
            if plain := [family.to_dict() for family in find(**asdict(board.settings))]:
                data[name] = [{key: family[key] for key in keys} for family in plain]
        for system, entry in zip(self.systems, data["systems"], strict=True):
            tokens, price = self.tokens_of(system.name), self.price_of(system.name)
            priced = {"tokens_in_all": tokens, "price": price}.items()
            entry["costs"] |= {key: value for key, value in priced if value is not None}
        other = self.answer_board(board)
        if other is not None and self.by_answers is not None:
            answered = self.by_answers.to_dict(per_query=per_query, board=other)
            parts = ("verdicts", "systems", "chance", "ceiling", "comparison", "signature")
            answered = {key: answered[key] for key in parts if key in answered}
            data["by_answers"] = {"convention": CONVENTION, **answered}
        return data


def _format_ends(low: str | None, high: str | None) -> str | None:
    """Format the ends of an interval; one is missing where there are too few queries for it.

    >>> _format_ends("11.0 ms", None), _format_ends("1 s", "2 s")
    ('≥ 11.0 ms', '1 s–2 s')
    """
    if low and high:
        return f"{low}–{high}"
    return f"≥ {low}" if low else f"≤ {high}" if high else None


def _format_price(amount: float | None) -> str | None:
    """Format a price with as many digits as tell something.

    >>> _format_price(0.000123), _format_price(12.5), _format_price(None)
    ('0.00012', '12.50', None)
    """
    if amount is None:
        return None
    return f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.2g}"


def _rerank_page(result: BenchResult, board: Leaderboard) -> Page:
    """Describe the gain and time of each first stage's rerankers."""
    page: Page = []
    for comparison in result.reranked(**asdict(board.settings)):
        baseline, family = comparison.baseline, comparison.family
        page += [Words(f"Gain over {baseline}: {said}") for said in comparison.verdicts.values()]
        page.append(Words(f"Rerankers of {baseline} form a separate family: {family}."))
    for system in result.systems:
        if not system.first:
            continue
        before, costs = result[system.first].seconds_per_query or 0.0, system.result.costs
        two, n_pairs, n_computed = Rerank.parse(system.spec), costs.pairs or 0, costs.pairs_computed
        sentence = f"{system.name} reranks the first {two.depth} {two.count} of each query"
        sentence += f": {n_pairs:,} pairs"
        if n_computed:
            least = f", {n_computed:,} computed now in at least "
            sentence += least if n_computed < n_pairs else ", in "
            sentence += format_time((system.seconds_per_query or before) - before)
            if costs.tokens is not None:
                sentence += f" and {costs.tokens / max(len(system.ranking), 1):,.0f} tokens"
            sentence += f" after the {format_time(before)} of {system.first}"
        else:
            sentence += ", all cached"
        page.append(Words(f"{sentence}."))
    return page


def _format_search(system: System) -> str:
    """Format the time of a search, of which pairs in the cache take no part."""
    if system.seconds_per_query is None:
        return ""
    n_pairs, n_computed = system.result.costs.pairs or 0, system.result.costs.pairs_computed or 0
    if n_pairs and not n_computed:
        return "cached"
    return "≥ " * (n_computed < n_pairs) + format_time(system.seconds_per_query)


def _describe_tuning(result: BenchResult) -> Iterator[str]:
    """Yield the weights of each tuned fusion and their range over folds."""
    for system in result.systems:
        if (tuning := system.result.tuning) is None:
            continue
        parts = [
            f"{name} {fsum(weights) / len(weights):.2f} [{min(weights):.2f}, {max(weights):.2f}]"
            for name, weights in zip(system.members, zip(*tuning.weights, strict=True), strict=True)
        ]
        overall = " : ".join(f"{weight:g}" for weight in tuning.overall)
        yield (
            f"{system.name}: weights by {tuning.folds}-fold cross-validation on {tuning.measure} "
            f"(seed {tuning.seed}), mean and range over the folds: {', '.join(parts)}. Each query "
            f"is scored by weights of the other folds: {tuning.held_out:.4f}. Fitted to all "
            f"queries they are {overall}, and show {tuning.in_sample:.4f} on what they were fitted "
            "to."
        )


def _variant_page(result: BenchResult, board: Leaderboard) -> Page:
    """Describe the loss of each model's variants, and of indexes their recall and speed."""
    page: Page = []
    for comparison in result.variants(**asdict(board.settings)):
        page += [Words(verdict) for verdict in comparison.verdicts.values()]
        sentence = f"Variants of {comparison.baseline} form a separate family: {comparison.family}."
        page.append(Words(sentence))
        first = str(board.measures[0])
        headings = {"system": "variant", "mean": first}
        standings = comparison.standings_on(first)
        page.append(standings_table(standings, headings=headings, without=("rank",)))
    rows = [
        {
            "index": Cell(system.name),
            "recall": Cell(report.recall, "fraction"),
            "overlap": Cell(report.overlap, "fraction"),
            "build": Cell(format_time(report.build_seconds), "figure"),
            "queries/s": Cell(format_rate(report.queries_per_second), "figure"),
            **{key: Cell(f"{ms:.2f} ms", "figure") for key, ms in report.latency_ms.items()},
        }
        for system in result.systems
        if (report := system.result.index) is not None
    ]
    for system in result.systems:
        if system.result.index is not None and system.result.index.learnt:
            remark = Remark(f"{system.name}: {system.result.index.learnt}; {_LATER}", n=0)
            page.append(Words(remark, "remark"))
    if rows:
        page.append(Table(tuple(rows[0]), tuple(tuple(row.values()) for row in rows)))
    return page


def _describe_search(result: BenchResult) -> Iterator[str]:
    """Yield one sentence each on the collection and the search."""
    collection = result.collection
    n_queries = result.systems[0].scores.n_queries
    yield (
        f"{collection.name or 'The collection'}: {len(collection.doc_ids):,} documents, "
        f"{n_queries:,} judged queries, {len(collection.qrels.docs):,} judgments; fingerprint "
        f"{collection.fingerprint}."
    )
    if collection.relevant == "answers":
        yield _BY_ANSWERS
    first = f"The first {result.depth:,} documents of each query count"
    metrics = {s.name: s.ranking.settings.get("metric", "") for s in result.systems}
    single = {name: metric for name, metric in metrics.items() if metric and ";" not in metric}
    endings = [
        f", {name} by {metric}" for name, metric in single.items() if metric != result.metric
    ]
    cutting, best = "", result.aggregation.best
    scored = "their best chunk" if best == 1 else f"the sum of their {best} best chunks"
    rules = {system.chunking.rule for system in result.systems if system.chunking}
    if result.judged == "chunks":
        cutting = f" Documents are cut by {result.chunk}; the judgments name chunks."
    elif rules:
        cutting = f" Documents are cut by {' or '.join(sorted(rules))} and scored by {scored}."
    yield f"{first}; vectors by {result.metric}{''.join(endings)}.{cutting}"
    if served := [s for s in result.systems if s.result.costs.serving is not None]:
        serving: Any = served[0].result.costs.serving
        yield (
            f"Systems are queried at concurrency {serving['concurrency']} after "
            f"{serving['warm_up']} warm-up queries; latencies have 95 % intervals by order "
            "statistics."
        )


_ODD: Final = re.compile(r"[^\w.+-]+")


def write_runs(result: BenchResult, folder: str | os.PathLike[str]) -> list[Path]:
    """Write one TREC run file for each system.

    Args:
        result: What `run_bench` returns.
        folder: Where the files go; it is created.

    Returns:
        The paths of the files.

    Raises:
        StorageError: The folder cannot be created.

    Example:
        write_runs(run_bench(collection, ["bm25"]), "runs")
    """
    home = make_folder(folder)
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
