"""Records in other people's tools: model cards of Hugging Face, MLflow, Weights & Biases.

    model-index → name, results → task, dataset, metrics → type, name, value

is in the head of a card, README.md; `huggingface_hub` reads it as `eval_results`. The interval of a
value and how many queries stand behind it are the `args` of its metric; the signature, by which a
reader can compute it again, is among those of the dataset.

In trackers, numbers with the ends of their intervals become metrics; what decides them (signature,
conventions, digests of files, settings) parameters; the record as JSON, which `assay runs import`
reads, and its report are kept as files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from assay.errors import FormatError, UsageError, need
from assay.io.plain_data import parse_yaml, to_yaml
from assay.io.streams import FilePath, read_text
from assay.plugins import find_hook
from assay.runs.record import HasRecord, RunRecord, as_records, fingerprint_files
from assay.runs.results import Aggregate, aggregates_of_record

_LONGEST_PARAM: Final = 500  # of MLflow's oldest servers
_LONGEST_TAG: Final = 5000
_ABOUT: Final = ("task", "dataset", "model", "batch")
_FILES: Final = "assay"
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

    Returns:
        The head of README.md, with its lines of dashes.

    Raises:
        UsageError: The records are of several models.

    Example:
        Path("README.md").write_text(model_card([store.run(7)]))
    """
    records = as_records(runs)
    names = sorted({model or record.model or record.name for record in records})
    if len(names) != 1:
        several = ", ".join(names) or "none"
        raise UsageError(f"A model card holds one model, found {several}. Pass model=.")
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
    """Read the results in the head of a model card (needs the extra `yaml`).

    Args:
        path: README.md of a model, or its head alone as .yaml.

    Returns:
        One result for each number of the card.

    Raises:
        FormatError: It is not a model card, or its model-index lacks something.

    Example:
        [result.value for result in read_model_card("README.md")]
    """
    name = os.fspath(path)
    data = parse_yaml(_head(read_text(path), name), name, dates=False)
    index = data.get("model-index") if isinstance(data, dict) else None
    try:
        return list(_results(index or []))
    except (LookupError, TypeError, AttributeError) as error:
        raise FormatError(f"{name}: incomplete model-index: {error!r}. Complete it.") from None


def _head(text: str, name: str) -> str:
    """Return what stands between the first two lines of dashes."""
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != _EDGE:
        if name.lower().endswith((".yaml", ".yml")):
            return text
        raise FormatError(f"{name} is not a model card. Begin it with a line {_EDGE}.")
    ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _EDGE]
    if not ends:
        raise FormatError(f"{name}: the head of the card is not closed. Add a second {_EDGE}.")
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


def log_mlflow(record: HasRecord, *, report: bool = True, **start: Any) -> str:
    """Log a record to MLflow and return the id of its run.

    MLflow's names have no @: nDCG@10 is nDCG_at_10, and its interval nDCG_at_10_low to
    nDCG_at_10_high.

    Args:
        record: Record, or what has one.
        report: Whether the report is kept as a file, too.
        **start: Arguments of `mlflow.start_run` for a new run.

    Returns:
        The id of MLflow's run.

    Raises:
        UsageError: There is an active run, and arguments of a new one.

    Example:
        log_mlflow(store.run(7), experiment_id="3")
    """
    mlflow = need("mlflow", "logging to MLflow", "mlflow")
    source = fingerprint_files([record.record()])[0]
    metrics = {metric_name(name): value for name, value in _metrics(source, "_")}
    active = mlflow.active_run()
    if active is not None and start:
        raise UsageError("An MLflow run is active: arguments have no effect. Omit them.")
    run = active or mlflow.start_run(**{"run_name": source.name, **start})
    try:
        mlflow.log_metrics(metrics)
        mlflow.log_params({key: text[:_LONGEST_PARAM] for key, text in _params(source).items()})
        tags = {
            "assay.signature": "" if source.scores is None else source.scores.signature,
            "assay.tags": ", ".join(source.tags),
            "mlflow.note.content": source.notes,
        }
        mlflow.set_tags({key: text[:_LONGEST_TAG] for key, text in tags.items() if text})
        with TemporaryDirectory() as folder:
            _write_files(source, Path(folder), report)
            mlflow.log_artifacts(folder, _FILES)
    finally:
        if active is None:
            mlflow.end_run()
    return str(run.info.run_id)


def log_wandb(record: HasRecord, *, report: bool = True, **init: Any) -> str:
    """Log a record to Weights & Biases and return its run's id.

    Measures keep their names: nDCG@10, nDCG@10/low, nDCG@10/high.

    Args:
        record: Record, or what has one.
        report: Whether the report is kept as a file, too.
        **init: Arguments of `wandb.init` for a new run (project, mode, dir, …).

    Returns:
        The id of the run of Weights & Biases.

    Raises:
        UsageError: There is a running run, and arguments of a new one.

    Example:
        log_wandb(store.run(7), project="search")
    """
    wandb = need("wandb", "logging to Weights & Biases", "wandb")
    source = fingerprint_files([record.record()])[0]
    active = wandb.run
    if active is not None and init:
        raise UsageError("A wandb run is active: arguments have no effect. Omit them.")
    about = {"name": source.name, "tags": list(source.tags), "notes": source.notes or None}
    run = active or wandb.init(**{**about, **init})
    try:
        run.config.update(_params(source), allow_val_change=True)
        run.summary.update(dict(_metrics(source, "/")))
        with TemporaryDirectory() as folder:
            _write_files(source, Path(folder), report)
            artifact = wandb.Artifact(f"{_FILES}-{metric_name(source.name)}", type="evaluation")
            artifact.add_dir(folder)
            logged = run.log_artifact(artifact)
            if getattr(run, "offline", False) is False:
                logged.wait()  # the folder goes away
    finally:
        if active is None:
            run.finish()
    return str(run.id)


def _metrics(record: RunRecord, joint: str) -> Iterator[tuple[str, float]]:
    for name, number in overall_means(record).items():
        named = {f"{name}{joint}{end}": getattr(number, end) for end in ("low", "high", "n")}
        every = {name: number.value, **named}
        yield from ((key, value) for key, value in every.items() if value is not None)


def _params(record: RunRecord) -> dict[str, str]:
    """Return what decides the numbers, a text each."""
    params = {key: str(getattr(record, key)) for key in _ABOUT if getattr(record, key)}
    if record.scores is not None:
        params |= {"signature": record.scores.signature, "queries": record.scores.query_set}
        rules = record.scores.conventions.parts()
        params |= {f"conventions.{key}": str(value) for key, value in rules.items()}
    for part in ("config", "seeds", "data"):
        params |= {f"{part}.{key}": text for key, text in _flat(getattr(record, part))}
    return {_allowed(key): text for key, text in params.items()}


def _flat(data: Mapping[str, Any], front: str = "") -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{front}{key}.")
        else:
            yield f"{front}{key}", str(value)


def _allowed(key: str) -> str:
    """Replace what MLflow refuses in a key."""
    letters = "".join(letter if letter.isalnum() or letter in "_-. /" else "_" for letter in key)
    parts = (part for part in letters.split("/") if part not in ("", ".", ".."))
    return "/".join(part.strip() or "_" for part in parts)


def _write_files(record: RunRecord, folder: Path, report: bool) -> None:
    find_hook("write_records")([record], folder / "record.json")
    if report and record.scores is not None:
        find_hook("make_report")([record]).save(folder / "report.html")
