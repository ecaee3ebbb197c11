"""Results in the model cards of Hugging Face: `model-index` in the head of README.md.

    model-index → name, results → task, dataset, metrics → type, name, value

`huggingface_hub` reads it as `eval_results`. The interval of a value and how many queries stand
behind it are the `args` of its metric; the signature, by which a reader can compute it again, is
among those of the dataset.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from assay.errors import FormatError, UsageError
from assay.io.plain_data import parse_yaml, to_yaml
from assay.io.streams import FilePath, read_text
from assay.runs.record import HasRecord, RunRecord, as_records
from assay.runs.results import Aggregate, aggregates_of_record

_EDGE: Final = "---"
_ARGS: Final = {"low": "low", "high": "high", "level": "level", "method": "method", "queries": "n"}
_WHERE: Final = ("config", "split", "revision")


def metric_name(measure: str) -> str:
    """Return a measure's name in letters that trackers and the Hub take.

    >>> metric_name("nDCG@10"), metric_name("P(rel=2)@5")
    ('nDCG_at_10', 'P_rel_2_at_5')
    """
    return re.sub(r"\W+", "_", measure.replace("@", "_at_")).replace("__", "_").strip("_")


def overall_means(record: RunRecord) -> dict[str, Aggregate]:
    """Return the numbers over all queries by measure.

    A second average of a measure is named with it.
    """
    means: dict[str, Aggregate] = {}
    for number in aggregates_of_record(record):
        if number.is_overall and number.value is not None:
            taken = number.measure in means
            means[f"{number.measure} {number.average}" if taken else number.measure] = number
    return means


@dataclass(frozen=True)
class CardResult:
    """One number of a model card; `args` are what else the card says of the metric."""

    model: str
    task: str
    dataset: str
    dataset_name: str
    metric: str
    value: Any
    metric_name: str = ""
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    signature: str = ""


def model_card(
    runs: Iterable[HasRecord],
    *,
    model: str | None = None,
    dataset: str | None = None,
    config: str | None = None,
    split: str | None = None,
    revision: str | None = None,
) -> str:
    """Return the head of a card with one model's means.

    Args:
        runs: Records, or what has them.
        model: Name of the model; by default the records'.
        dataset: Id of the data on the Hub; by default the records'.
        config: Configuration of the data.
        split: Split of the data.
        revision: Revision of the data.

    Raises:
        UsageError: The records are of several models.
    """
    records = as_records(runs)
    names = sorted({model or record.model or record.name for record in records})
    if len(names) != 1:
        several = ", ".join(names) or "none"
        raise UsageError(f"A model card is of one model; found {several}. Choose one, or name it.")
    place = dict(zip(_WHERE, (config, split, revision), strict=True))
    results = [_result(record, dataset, place) for record in records]
    index = [{"name": names[0], "results": results}]
    return f"{_EDGE}\n{to_yaml({'model-index': index})}{_EDGE}\n"


def _result(
    record: RunRecord, dataset: str | None, place: Mapping[str, str | None]
) -> dict[str, Any]:
    named = record.dataset or dataset or "unnamed"
    where = {key: value for key, value in place.items() if value is not None}
    args = {} if record.scores is None else {"args": {"signature": record.scores.signature}}
    return {
        "task": {"type": record.task or "retrieval"},
        "dataset": {"type": dataset or named, "name": named, **where, **args},
        "metrics": [_metric(name, number) for name, number in overall_means(record).items()],
    }


def _metric(name: str, number: Aggregate) -> dict[str, Any]:
    args = {key: getattr(number, field) for key, field in _ARGS.items()}
    return {
        "type": metric_name(name).lower(),
        "name": name,
        "value": number.value,
        "args": {key: value for key, value in args.items() if value not in (None, "")},
    }


def read_model_card(path: FilePath) -> list[CardResult]:
    """Read the results in the head of a model card.

    Needs the extra `yaml`.
    """
    name = os.fspath(path)
    data = parse_yaml(_head(read_text(path), name), name, dates=False)
    index = data.get("model-index") if isinstance(data, dict) else None
    try:
        return list(_results(index or []))
    except (LookupError, TypeError, AttributeError) as error:
        raise FormatError(f"{name}: its model-index lacks something: {error!r}.") from None


def _head(text: str, name: str) -> str:
    """Return what stands between the first two lines of dashes."""
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != _EDGE:
        if name.lower().endswith((".yaml", ".yml")):
            return text
        raise FormatError(f"{name} is no model card: it does not begin with a line of {_EDGE}.")
    ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _EDGE]
    if not ends:
        raise FormatError(f"{name}: the head of the model card has no second line of {_EDGE}.")
    return "\n".join(lines[1 : ends[0]])


def _results(index: Sequence[Mapping[str, Any]]) -> Iterator[CardResult]:
    for model in index:
        for result in model["results"]:
            dataset = result["dataset"]
            for metric in result["metrics"]:
                yield CardResult(
                    model=str(model["name"]),
                    task=str(result["task"]["type"]),
                    dataset=str(dataset["type"]),
                    dataset_name=str(dataset["name"]),
                    metric=str(metric["type"]),
                    value=metric["value"],
                    metric_name=str(metric.get("name") or ""),
                    args=metric.get("args") or {},
                    signature=str((dataset.get("args") or {}).get("signature", "")),
                    **{key: dataset.get(key) for key in _WHERE},
                )
