"""Records in experiment trackers: MLflow and Weights & Biases.

Numbers with the ends of their intervals become metrics; what decides them (signature, conventions,
digests of files, settings) parameters; the record as JSON, which `assay runs import` reads, and its
report are kept as files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from assay.errors import UsageError, need
from assay.integrations.cards import metric_name, overall_means
from assay.plugins import find_hook
from assay.runs.record import HasRecord, RunRecord, fingerprint_files

_LONGEST_PARAM: Final = 500  # of MLflow's oldest servers
_LONGEST_TAG: Final = 5000
_ABOUT: Final = ("task", "dataset", "model", "batch")
_FILES: Final = "assay"


def log_mlflow(record: HasRecord, *, report: bool = True, **start: Any) -> str:
    """Log a record to MLflow and return the id of its run.

    `start` are arguments of `mlflow.start_run` for a new run. MLflow's names have no @: nDCG@10 is
    nDCG_at_10, and its interval nDCG_at_10_low to nDCG_at_10_high. Without `report` the page is
    left out.
    """
    mlflow = need("mlflow", "logging to MLflow", "mlflow")
    source = fingerprint_files([record.record()])[0]
    metrics = {metric_name(name): value for name, value in _metrics(source, "_")}
    active = mlflow.active_run()
    if active is not None and start:
        raise UsageError("There is an active run of MLflow: arguments of a new one have no effect.")
    run = active or mlflow.start_run(**{"run_name": source.name, **start})
    try:
        mlflow.log_metrics(metrics)
        mlflow.log_params({key: text[:_LONGEST_PARAM] for key, text in _params(source).items()})
        mlflow.set_tags({key: text[:_LONGEST_TAG] for key, text in _tags(source).items()})
        with TemporaryDirectory() as folder:
            _write_files(source, Path(folder), report)
            mlflow.log_artifacts(folder, _FILES)
    finally:
        if active is None:
            mlflow.end_run()
    return str(run.info.run_id)


def log_wandb(record: HasRecord, *, report: bool = True, **init: Any) -> str:
    """Log a record to Weights & Biases and return its run's id.

    `init` are arguments of `wandb.init` for a new run (project, mode, dir, …). Measures keep their
    names: nDCG@10, nDCG@10/low, nDCG@10/high. Without `report` the page is left out.
    """
    wandb = need("wandb", "logging to Weights & Biases", "wandb")
    source = fingerprint_files([record.record()])[0]
    active = wandb.run
    if active is not None and init:
        raise UsageError("There is a running run of wandb: arguments of a new one have no effect.")
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
        ends = (("low", number.low), ("high", number.high), ("n", number.n))
        named = ((f"{name}{joint}{end}", value) for end, value in ends)
        every = ((name, number.value), *named)
        yield from ((key, value) for key, value in every if value is not None)


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
    return "/".join(
        part.strip() or "_" for part in letters.split("/") if part not in ("", ".", "..")
    )


def _tags(record: RunRecord) -> dict[str, str]:
    signature = "" if record.scores is None else record.scores.signature
    tags = {
        "assay.signature": signature,
        "assay.tags": ", ".join(record.tags),
        "mlflow.note.content": record.notes,
    }
    return {key: text for key, text in tags.items() if text}


def _write_files(record: RunRecord, folder: Path, report: bool) -> None:
    find_hook("write_records")([record], folder / "record.json")
    if report and record.scores is not None:
        find_hook("make_report")([record]).save(folder / "report.html")
