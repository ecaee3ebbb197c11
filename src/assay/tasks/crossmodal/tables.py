"""The document's console summary and JSON, byte for byte in its layout."""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.core.text import printable
from assay.errors import UsageError
from assay.io.atomic import atomic_write
from assay.tables.heat_map import heat_map, stacked
from assay.tables.table import Cell, Table
from assay.tasks.crossmodal.confusion import Retrieved
from assay.tasks.crossmodal.directions import Direction
from assay.tasks.crossmodal.results import DirectionResult

__all__ = [
    "as_document_json",
    "confusion_picture",
    "confusion_table",
    "label_table",
    "measure_table",
    "mistake_table",
    "print_results_summary",
    "save_results",
    "summary",
]

Results = Mapping[str, Mapping[Any, float]]

_WIDTH, _RULE = 70, 40


def summary(results: Results, *, level: str = "") -> str:
    """The results as the document prints them; several levels of labels are told apart by name."""
    title = "LABEL-RECALL@K RESULTS SUMMARY" + (f" ({printable(level)})" if level else "")
    lines = ["=" * _WIDTH, title, "=" * _WIDTH, ""]
    for name, values in _checked(results).items():
        lines += [f"{printable(_title(name, values))}:", "-" * _RULE]
        lines += [_line(int(k), value) for k, value in values.items()]
        lines.append("")
    return "\n".join([*lines, "=" * _WIDTH])


def _checked(results: Results) -> Results:
    sound = isinstance(results, Mapping)
    if not sound or not all(isinstance(values, Mapping) for values in results.values()):
        raise UsageError("Results are {direction: {cut-off: value}}.")
    return results


def _title(name: str, values: Mapping[Any, float]) -> str:
    if isinstance(values, DirectionResult):
        return values.direction.title
    source, cut, target = name.partition("2")
    return Direction(source, target).title if cut else name


def _line(k: int, value: float) -> str:
    if value is None or math.isnan(value):
        return f"  K={k:3d}  =>  Label-Recall@K undefined: no query has an item of its label"
    return f"  K={k:3d}  =>  Label-Recall@K = {value:.4f} ({100 * value:.2f}%)"


def print_results_summary(results: Results) -> None:
    """Print Label-Recall@K by direction, from results or from what `save_results` wrote.

    >>> print_results_summary({"text2sensor": {10: 0.7}})  # doctest: +ELLIPSIS
    =====...
    Text -> Sensor:
    ----------------------------------------
      K= 10  =>  Label-Recall@K = 0.7000 (70.00%)
    ...
    """
    print(summary(results))


def as_document_json(results: Mapping[str, Any]) -> str:
    """The results as the document's JSON: cut-offs are text, undefined is null.

    >>> print(as_document_json({"text2sensor": {10: 0.7}}))
    {
      "text2sensor": {
        "10": 0.7
      }
    }
    """
    return json.dumps(_plain(results), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any, depth: int = 0) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, depth + 1) for key, inner in value.items()}
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not depth or not (number or value is None):
        raise UsageError(f"Results are {{direction: {{cut-off: value}}}}, found {value!r:.60}.")
    return None if value is None or math.isnan(value) else float(value)


def save_results(results: Mapping[str, Any], output_path: str | os.PathLike[str]) -> None:
    """Write the document's JSON, whole or not at all."""
    text = as_document_json(results)
    with atomic_write(output_path) as stream:
        stream.write(text.encode())


def measure_table(results: Iterable[DirectionResult], *, seed: int = 0) -> Table:
    """A row for each direction and measure: means, interval, chance, ceiling, counts."""
    columns = (
        "level",
        "direction",
        "measure",
        "micro",
        "95 % low",
        "95 % high",
        "macro",
        "chance",
        "ceiling",
        "queries",
        "empty",
        "tied share",
    )
    return Table(columns, tuple(row for one in results for row in _measure_rows(one, seed)))


def _measure_rows(one: DirectionResult, seed: int) -> list[tuple[Cell, ...]]:
    micro, macro = one.micro, one.macro
    chance, ceiling = one.chance.mean(), one.ceiling.mean()
    spans = zip(micro, one.intervals(seed=seed), strict=True)
    return [
        (
            Cell(one.level),
            Cell(one.direction.name),
            Cell(name),
            *(Cell(value, "fraction") for value in (micro[name], span.low, span.high)),
            *(Cell(mean[name], "fraction") for mean in (macro, chance, ceiling)),
            Cell(micro.counts[name].n, "count"),
            Cell(micro.counts[name].empty, "count"),
            Cell(micro.counts[name].tied_share, "fraction"),
        )
        for name, span in spans
    ]


def label_table(results: Iterable[DirectionResult]) -> Table:
    """A row for each direction and label: how many queries and items, and the label's means."""
    found = list(results)
    names = list(dict.fromkeys(name for one in found for name in one.micro))
    columns = ("level", "direction", "label", "queries", "items", *names)
    rows = [row for one in found for row in _label_rows(one, names)]
    return Table(columns, tuple(rows))


def _label_rows(one: DirectionResult, names: list[str]) -> list[tuple[Cell, ...]]:
    return [
        (
            Cell(one.level),
            Cell(one.direction.name),
            Cell(label),
            Cell(one.queries[label], "count"),
            Cell(one.targets[label], "count"),
            *(Cell(values.get(name), "fraction") for name in names),
        )
        for label, values in one.macro.groups.items()
    ]


_PAIRS = ("level", "direction", "k", "query label", "retrieved label", "count", "share")


def confusion_table(results: Iterable[DirectionResult]) -> Table:
    """Every pair of labels that occurs, with how often and which share of its query label."""
    return _pair_table((one, row) for one in results for row in one.confusion.rows())


def mistake_table(results: Iterable[DirectionResult], limit: int = 5) -> Table:
    """The labels that are most often retrieved for another label, a few of each direction."""
    return _pair_table((one, row) for one in results for row in one.confusion.mistakes(limit))


def _pair_table(pairs: Iterable[tuple[DirectionResult, Retrieved]]) -> Table:
    rows = [
        (
            Cell(one.level),
            Cell(one.direction.name),
            Cell(one.confusion.k, "count"),
            Cell(pair.query_label),
            Cell(pair.doc_label),
            Cell(pair.count, "count"),
            Cell(pair.share, "fraction"),
        )
        for one, pair in pairs
    ]
    return Table(_PAIRS, tuple(rows))


def confusion_picture(results: Sequence[DirectionResult]) -> str:
    """An SVG: row = label of the query, column = label of what it retrieved, shade = share."""
    levels = {one.level for one in results}
    drawings = []
    for one in results:
        names, shares = one.confusion.matrix()
        level = f", {one.level}" if len(levels) > 1 else ""
        title = f"{one.direction.title}{level}: labels of the first {one.confusion.k}"
        drawings.append(heat_map(names, shares, title=title, rows="query", columns="retrieved"))
    return stacked(drawings)
