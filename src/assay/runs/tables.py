"""Tables of scored records: by run, by measure, by query, by group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from assay.measures import Measure
from assay.runs.record import RunRecord
from assay.scoring.scores import describe_counts
from assay.tables.table import Cell, Table

__all__ = ["group_table", "measure_table", "query_table", "run_table", "title"]


def title(records: list[RunRecord], percent: bool) -> str:
    """What the table is about."""
    judged = records[0].scored().n_queries
    what = records[0].name if len(records) == 1 else f"{len(records)} runs"
    unit = ", values in percent" if percent else ""
    return f"{what}, {judged} judged {'query' if judged == 1 else 'queries'}{unit}"


def _kind(measure: Measure, percent: bool) -> str:
    if measure.definition.aggregate == "sum":
        return "count"
    return "percent" if percent and measure.definition.high == 1.0 else "fraction"


def _average(measure: Measure, average: str) -> str:
    return {"mean": average, "sum": "sum", "geometric": "geometric"}[measure.definition.aggregate]


def measure_table(one: RunRecord, percent: bool) -> Table:
    """One run: a row for each measure, with how many queries stand behind it."""
    mean = one.scored().mean()
    extra = [(key, end) for key, end in _ends(one) if end]
    rows = []
    for measure, (name, value) in zip(one.scored().measures, mean.items(), strict=True):
        kind = _kind(measure, percent)
        ends = [Cell(end[name], kind) for _, end in extra]
        rows.append(
            (
                Cell(name),
                Cell(value, kind),
                *ends,
                Cell(_average(measure, mean.average)),
                Cell(describe_counts(mean.counts[name])),
            )
        )
    columns = ("measure", "value", *(key for key, _ in extra), "average", "queries")
    return Table(columns, tuple(rows))


def run_table(records: list[RunRecord], percent: bool) -> Table:
    """Several runs: a row for each, the best value of each measure marked."""
    means = [dict(one.scored().mean()) for one in records]
    best = _best(records[0].scored().measures, means)
    rows = [
        (Cell(one.name), *_values(one, mean, percent, best))
        for one, mean in zip(records, means, strict=True)
    ]
    for label, end in _ends(records[0]):
        if end is not None:
            rows.append((Cell(label), *_values(records[0], end, percent)))
    return Table(("run", *map(str, records[0].scored().measures)), tuple(rows))


def _ends(one: RunRecord) -> list[tuple[str, Mapping[str, float] | None]]:
    return [("chance", one.chance_means()), ("ceiling", one.ceiling_means())]


def _best(measures: tuple[Measure, ...], means: list[dict[str, float]]) -> dict[str, float]:
    """The highest value of each measure that has a range; none where there is nothing to win."""
    if len(means) < 2:
        return {}
    ranged = [str(m) for m in measures if m.definition.high is not None and m.name != "Unjudged"]
    tops = {
        name: max((mean[name] for mean in means if not math.isnan(mean[name])), default=math.nan)
        for name in ranged
    }
    return {name: top for name, top in tops.items() if any(mean[name] != top for mean in means)}


def _values(
    one: RunRecord,
    values: Mapping[str, float],
    percent: bool,
    best: Mapping[str, float] | None = None,
) -> Iterator[Cell]:
    for measure in one.scored().measures:
        value = values[str(measure)]
        is_best = best is not None and best.get(str(measure)) == value
        yield Cell(value, _kind(measure, percent), is_best)


def query_table(records: list[RunRecord], percent: bool) -> Table:
    """A row for each query of each run, and the mean over all queries below them."""
    rows = []
    for one in records:
        front = [Cell(one.name)] if len(records) > 1 else []
        by_query = one.scored().values.T.tolist()
        for query, values in zip(one.scored().query_ids, by_query, strict=True):
            named = dict(zip(map(str, one.scored().measures), values, strict=True))
            rows.append((*front, Cell(query), *_values(one, named, percent)))
        mean = one.scored().mean()
        rows.append((*front, Cell(f"all ({mean.average})"), *_values(one, mean, percent)))
    head = ("run", "query") if len(records) > 1 else ("query",)
    return Table((*head, *map(str, records[0].scored().measures)), tuple(rows))


def group_table(records: list[RunRecord], by: str, percent: bool) -> Table:
    """For each run the mean over queries, the mean over groups, and the groups, each with n."""
    rows = []
    for one in records:
        front = [Cell(one.name)] if len(records) > 1 else []
        micro, macro = one.scored().mean(), one.scored().mean(by=by)
        labelled: list[tuple[str, int, Mapping[str, float]]] = [
            ("micro (over queries)", micro.n, micro),
            ("macro (over groups)", macro.n, macro),
            *((name, macro.sizes[name], values) for name, values in macro.groups.items()),
        ]
        rows += [
            (*front, Cell(label), Cell(n, "count"), *_values(one, values, percent))
            for label, n, values in labelled
        ]
    head = ("run", by) if len(records) > 1 else (by,)
    return Table((*head, "n", *map(str, records[0].scored().measures)), tuple(rows))
