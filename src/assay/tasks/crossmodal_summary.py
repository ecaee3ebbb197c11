"""The document's console summary and JSON, byte for byte in its layout."""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Mapping
from typing import Any

from assay.errors import UsageError
from assay.report.tables import printable
from assay.tasks.crossmodal_directions import Direction
from assay.tasks.crossmodal_results import DirectionResult

__all__ = ["as_document_json", "print_results_summary", "save_results", "summary"]

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
    from assay.io.atomic import atomic_write

    text = as_document_json(results)
    with atomic_write(output_path) as stream:
        stream.write(text.encode())
