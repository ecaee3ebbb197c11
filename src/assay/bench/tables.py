"""Tables of a bench: leaderboard, costs, indexes, queries; and all of it as a page or as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, cast

from assay.arrays import numbers_or_none
from assay.bench.plan import Rerank
from assay.core.text import Remark, format_bytes, format_rate, format_time
from assay.io.answers import CONVENTION
from assay.stats.corrections import split_letters
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.bench.result import BenchResult, System
    from assay.comparison.compare import Comparison
    from assay.comparison.standings import Standing
    from assay.runs.leaderboard import Leaderboard
    from assay.search.fusion_tuning import Tuning
    from assay.search.indexes import IndexReport


_BY_ANSWERS: Final = f"By answers: relevant is a document in which {CONVENTION}."


def leaderboard(result: BenchResult, board: Leaderboard) -> Table:
    """Return systems best first, with intervals and group letters.

    On each measure those that may be the best are marked; the last row is a random order.
    """
    first, *further = map(str, board.measures)
    columns = {measure: _of_measure(board, measure) for measure in (first, *further)}
    rows = []
    for standing in board.standings_on(first):
        more = [columns[measure][standing.name] for measure in further]
        rows.append(
            (
                Cell(standing.name),
                columns[first][standing.name],
                _interval(standing),
                Cell(_last(board, standing)),
                *more,
            )
        )
    chances = [Cell(board.chance_on(measure), "fraction") for measure in (first, *further)]
    rows.append((Cell("chance"), chances[0], Cell("", "figure"), Cell(""), *chances[1:]))
    level = f"{100 * (1 - board.settings.level):g} % interval"
    last = "group letters" if board.baseline is None else f"vs {board.baseline}"
    return Table(("model", first, level, last, *further), tuple(rows))


def _of_measure(board: Leaderboard, measure: str) -> dict[str, Cell]:
    standings = board.standings_on(measure)
    top = set(split_letters(standings[0].letters))
    return {
        standing.name: Cell(
            standing.mean.estimate, "fraction", bool(top & set(split_letters(standing.letters)))
        )
        for standing in standings
    }


def _interval(standing: Standing) -> Cell:
    if math.isnan(standing.mean.low):
        return Cell(None, "figure")
    return Cell(f"[{standing.mean.low:.4f}, {standing.mean.high:.4f}]", "figure")


def _last(board: Leaderboard, standing: Standing) -> str:
    comparison = board.comparison
    if comparison is None or comparison.baseline is None:
        return standing.letters
    if standing.name == comparison.baseline:
        return "baseline"
    return comparison.pair(standing.name, comparison.baseline, measure=standing.measure).outcome


def data_table(result: BenchResult, board: Leaderboard) -> Table:
    """Return every number with all digits, a row for each system, best first; for CSV.

    Models behind an index come last and have no group letters.
    """
    measures = list(map(str, board.measures))
    standings = {
        (system.measure, system.name): system
        for indexes in _indexed(result, board)
        for system in indexes.standings
        if system.name != indexes.baseline
    }
    behind = dict.fromkeys(name for _, name in standings)
    for measure in measures:
        standings |= {(measure, system.name): system for system in board.standings_on(measure)}
    rows = []
    for name in [*(place.name for place in board.standings_on(measures[0])), *behind]:
        system = result[name]
        costs = system.result.costs
        cells = [Cell(system.name), Cell(system.spec)]
        for measure in measures:
            standing = standings[measure, name]
            mean = standing.mean
            cells += [Cell(value, "fraction") for value in (mean.estimate, mean.low, mean.high)]
            cells.append(Cell(standing.letters))
        cells += [
            Cell(costs.dimension, "count"),
            Cell(costs.bytes, "count"),
            Cell(costs.texts_per_second, "fraction"),
            Cell(costs.search_seconds / max(len(system.ranking), 1), "fraction"),
        ]
        rows.append(tuple(cells))
    of_measures = [
        f"{measure}{what}"
        for measure in measures
        for what in ("", " low", " high", " group letters")
    ]
    cost_names = ("dimension", "bytes", "texts_per_second", "search_seconds_per_query")
    return Table(("name", "model", *of_measures, *cost_names), tuple(rows))


def cost_table(result: BenchResult) -> Table:
    """Return dimension, encoding speed, memory, search time and truncated texts.

    Where they are known of a system: bytes per vector (where there are codes), tokens, price.
    """
    more: dict[str, Callable[[System], Cell]] = {
        "bytes/vector": lambda system: Cell(_bytes_per_vector(result, system), "count"),
        "truncated": _cut,
        "tokens": lambda system: Cell(result.tokens_of(system.name), "count"),
        "price": lambda system: Cell(_price(result.price_of(system.name)), "figure"),
    }
    cells = {name: [make(system) for system in result.systems] for name, make in more.items()}
    if not any(system.result.costs.bytes_per_vector for system in result.systems):
        del cells["bytes/vector"]
    further = {
        name: column for name, column in cells.items() if any(system.value for system in column)
    }
    rows = [
        (*_costs(system), *(column[row] for column in further.values()))
        for row, system in enumerate(result.systems)
    ]
    columns = ("model", "dimension", "texts/s", "memory", "search/query")
    return Table((*columns, *further), tuple(rows))


def _bytes_per_vector(result: BenchResult, system: System) -> int | None:
    """Return the bytes of a code, or of numbers of 4 bytes.

    A fusion and what is behind an index have none.
    """
    costs = system.result.costs
    if system.exact or system.first or costs.dimension is None:
        return None
    return costs.bytes_per_vector or 4 * costs.dimension


def _price(amount: float | None) -> str | None:
    """Format a price with as many digits as tell something.

    >>> _price(0.000123), _price(12.5), _price(None)
    ('0.00012', '12.50', None)
    """
    if amount is None:
        return None
    return f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.2g}"


def _costs(system: System) -> tuple[Cell, ...]:
    costs = system.result.costs
    each = costs.search_seconds / max(len(system.ranking), 1)
    return (
        Cell(system.name),
        Cell(costs.dimension, "count"),
        Cell(format_rate(costs.texts_per_second) or _not_encoded(system), "figure"),
        Cell(format_bytes(costs.bytes), "figure"),
        Cell(format_time(each), "figure"),
    )


def _not_encoded(system: System) -> str | None:
    """Return why nothing was encoded: vectors are cached, unless made elsewhere."""
    return None if system.spec.startswith("npy:") else "cached"


def _cut(system: System) -> Cell:
    n_cut = system.result.n_cut
    return Cell(None if n_cut is None else f"{n_cut / system.result.n_texts:.1%}", "figure")


def _indexed(result: BenchResult, board: Leaderboard) -> list[Comparison]:
    """Compare indexes with their exact search, by the settings of the leaderboard."""
    return result.indexed(**asdict(board.settings))


def rerank_page(result: BenchResult, board: Leaderboard) -> Page:
    """Describe what the rerankers of each first stage gain, and their time."""
    page: Page = []
    for comparison in result.reranked(**asdict(board.settings)):
        page += [
            Words(f"Gain over {comparison.baseline}: {said}")
            for said in comparison.verdicts.values()
        ]
        baseline, family = comparison.baseline, comparison.family
        page.append(Words(f"Rerankers of {baseline} are a family of their own: {family}."))
    return [
        *page,
        *(Words(_rerank_cost(result, system)) for system in result.systems if system.first),
    ]


def _rerank_cost(result: BenchResult, system: System) -> str:
    first = result[system.first]
    n_queries = max(len(system.ranking), 1)
    before, after = (each.result.costs.search_seconds / n_queries for each in (first, system))
    tokens = system.result.costs.tokens
    cost = format_time(after - before)
    if tokens is not None:
        cost += f" and {tokens / n_queries:,.0f} tokens"
    return (
        f"{system.name} puts the first {Rerank.parse(system.spec).depth} documents of each query "
        f"in order, which takes {cost} after the {format_time(before)} of {first.name}."
    )


def describe_tuning(result: BenchResult) -> list[str]:
    """Describe the weights of each tuned fusion and their range over folds."""
    return [_tuned(system) for system in result.systems if system.result.tuning is not None]


def _tuned(system: System) -> str:
    tuning = cast("Tuning", system.result.tuning)
    parts = [
        f"{name} {sum(weights) / len(weights):.2f} [{min(weights):.2f}, {max(weights):.2f}]"
        for name, weights in zip(system.members, zip(*tuning.weights, strict=True), strict=True)
    ]
    overall = " : ".join(f"{weight:g}" for weight in tuning.overall)
    return (
        f"{system.name}: weights by {tuning.folds}-fold cross-validation on {tuning.measure} (seed "
        f"{tuning.seed}), mean and range over the folds: {', '.join(parts)}. Each query is scored "
        f"by weights of the other folds: {tuning.held_out:.4f}. Fitted to all queries they are "
        f"{overall}, and show {tuning.in_sample:.4f} on what they were fitted to."
    )


def answer_page(result: BenchResult, board: Leaderboard) -> Page:
    """Return the leaderboard by answers, where there are some beside judgments."""
    other = result.answer_board(board)
    if other is None or result.by_answers is None:
        return []
    verdicts = [Words(verdict, "verdict") for verdict in other.verdicts.values()]
    table = leaderboard(result.by_answers, other)
    return [Words(_BY_ANSWERS), *verdicts, table, Words(other.aligned.signature, "signature")]


def index_page(result: BenchResult, board: Leaderboard) -> Page:
    """Describe the loss, recall and speed of each model's indexes."""
    page: Page = []
    for comparison in _indexed(result, board):
        page += [Words(verdict) for verdict in comparison.verdicts.values()]
        family = f"a family of their own: {comparison.family}"
        page.append(Words(f"The indexes of {comparison.baseline} are {family}."))
    table = index_table(result)
    return [*page, table] if table is not None else page


def index_table(result: BenchResult) -> Table | None:
    """Return recall of the exact result and speed of each index; None where there is none."""
    rows = [
        _index_row(system.name, system.result.index)
        for system in result.systems
        if system.result.index is not None
    ]
    if not rows:
        return None
    columns = ("index", "recall", "overlap", "build", "queries/s", *rows[0][1])
    return Table(columns, tuple(cells for cells, _ in rows))


def _index_row(name: str, report: IndexReport) -> tuple[tuple[Cell, ...], list[str]]:
    percentiles = {key: f"{value:.2f} ms" for key, value in report.latency_ms.items()}
    cells = (
        Cell(name),
        Cell(report.recall, "fraction"),
        Cell(report.overlap, "fraction"),
        Cell(format_time(report.build_seconds), "figure"),
        Cell(format_rate(report.queries_per_second), "figure"),
        *(Cell(value, "figure") for value in percentiles.values()),
    )
    return cells, list(percentiles)


def query_table(result: BenchResult) -> Table:
    """Return a row for each query: id, text, and every measure of every system."""
    first = result.systems[0].scores
    texts = dict(zip(result.collection.query_ids, result.collection.query_texts, strict=True))
    measures = list(map(str, first.measures))
    head = [
        f"{system.name} {measure}" if len(measures) > 1 else system.name
        for measure in measures
        for system in result.systems
    ]
    rows = []
    for row, query in enumerate(first.query_ids):
        values = [
            Cell(float(system.scores.values[number, row]), "fraction")
            for number in range(len(measures))
            for system in result.systems
        ]
        rows.append((Cell(str(query)), Cell(texts.get(query, "")), *values))
    return Table(("query", "text", *head), tuple(rows))


def bench_page(result: BenchResult, board: Leaderboard) -> Page:
    """Return verdicts, leaderboard, costs, indexes, diagnosis and method."""
    page: Page = [Words(verdict, "verdict") for verdict in board.verdicts.values()]
    page += [leaderboard(result, board), cost_table(result)]
    page += further_pages(result, board)
    page += [Words(remark, "remark") for remark in _list_remarks(result, board)]
    if board.comparison is not None:
        page.append(Words(board.comparison.power_note(board.measures[0]), "method"))
    page += [Words(line, "method") for line in (*describe_search(result), board.method)]
    return [*page, Words(board.aligned.signature, "signature")]


# Findings by their codes, where one line is for all of them.
_IN_SHORT: Final = {
    "all-fail": "{:,} queries nobody solves",
    "disagreement": "{:,} queries with systems far apart",
    "duplicate-docs": "{:,} duplicate groups",
    "near-duplicate-docs": "{:,} near-duplicate pairs",
    "unjudged": "unjudged documents among the first",
    "zero-vectors": "{:,} texts without a vector",
}


def _list_remarks(result: BenchResult, board: Leaderboard) -> Iterator[str]:
    """Yield findings in texts and results, the gravest first, then remarks."""
    for finding in result.diagnosis.findings:
        short = _IN_SHORT.get(finding.code, "")
        yield Remark(str(finding), short.format(finding.count) or finding.message)
    yield from board.run_remarks


def further_pages(result: BenchResult, board: Leaderboard) -> Page:
    """Return what tuned weights, rerankers and indexes have to say, and answers."""
    tuned = [Words(sentence) for sentence in describe_tuning(result)]
    stages = [*rerank_page(result, board), *index_page(result, board)]
    return [*tuned, *stages, *answer_page(result, board)]


def describe_search(result: BenchResult) -> Iterator[str]:
    """Yield what was searched and how, a sentence each."""
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
    metrics = [
        (system.name, system.ranking.settings.get("metric", "")) for system in result.systems
    ]
    single = [(name, metric) for name, metric in metrics if metric and ";" not in metric]
    exceptions = [f", {name} by {metric}" for name, metric in single if metric != result.metric]
    yield f"{first}; vectors by {result.metric}{''.join(exceptions)}.{_cutting(result)}"


def _cutting(result: BenchResult) -> str:
    if result.chunk is None:
        return ""
    if result.judged == "chunks":
        return f" Documents are cut by {result.chunk}; the judgments name chunks."
    return f" Documents are cut by {result.chunk} and scored by {_describe_aggregation(result)}."


def _describe_aggregation(result: BenchResult) -> str:
    best = result.aggregation.best
    return "their best chunk" if best == 1 else f"the sum of their {best} best chunks"


def bench_data(result: BenchResult, board: Leaderboard, *, per_query: bool) -> dict[str, Any]:
    """Return plain data for JSON."""
    collection = result.collection
    data: dict[str, Any] = {
        "collection": {
            "name": collection.name,
            "fingerprint": collection.fingerprint,
            "documents": len(collection.doc_ids),
            "queries": result.systems[0].scores.n_queries,
            "judgments": len(collection.qrels.docs),
        },
        "settings": {
            "depth": result.depth,
            "metric": result.metric,
            "chunk": None if result.chunk is None else str(result.chunk),
            "fold": str(result.aggregation),
            "judged": result.judged,
        },
        "verdicts": board.verdicts,
        "systems": [_system_data(system, per_query) for system in result.systems],
        "chance": _mean(result.chance),
        "ceiling": _mean(result.ceiling),
        "diagnosis": result.diagnosis.to_dict()["findings"],
        "remarks": list(board.run_remarks),
        "signature": board.aligned.signature,
    }
    if board.comparison is not None:
        compared = board.comparison.to_dict()
        keys = ("family", "settings", "measures", "remarks")
        data["comparison"] = {key: compared[key] for key in keys}
    keys = ("baseline", "family", "measures", "remarks")
    families = {
        "indexes": _indexed(result, board),
        "rerankers": result.reranked(**asdict(board.settings)),
    }
    for name, comparisons in families.items():
        if comparisons:
            plain = [system.to_dict() for system in comparisons]
            data[name] = [{key: system[key] for key in keys} for system in plain]
    for system, entry in zip(result.systems, data["systems"], strict=True):
        priced = {
            "tokens_in_all": result.tokens_of(system.name),
            "price": result.price_of(system.name),
        }
        entry["costs"] |= {key: value for key, value in priced.items() if value is not None}
    other = result.answer_board(board)
    if other is not None and result.by_answers is not None:
        answered = bench_data(result.by_answers, other, per_query=per_query)
        data["by_answers"] = {"convention": CONVENTION} | {
            key: answered[key]
            for key in ("verdicts", "systems", "chance", "ceiling", "comparison", "signature")
            if key in answered
        }
    return data


def _system_data(system: System, per_query: bool) -> dict[str, Any]:
    scores = system.scores.to_dict(per_query=per_query)
    result = system.result
    data = {
        "name": system.name,
        "model": system.spec,
        "fingerprint": result.fingerprint,
        "measures": scores["measures"],
        "costs": result.costs.to_dict(),
        "texts": {"n": result.n_texts, "cut_off": result.n_cut, "without_vector": result.n_without},
    }
    if system.exact:
        data["index_of"] = system.exact
    if system.first:
        data["reranker_of"] = system.first
    if result.tuning is not None:
        data["tuning"] = {"members": list(system.members), **result.tuning.to_dict()}
    if result.index is not None:
        data["index"] = result.index.as_dict()
    if per_query:
        data["per_query"] = scores["per_query"]
    return data


def _mean(scores: Any) -> dict[str, float | None]:
    return numbers_or_none(scores.mean())
