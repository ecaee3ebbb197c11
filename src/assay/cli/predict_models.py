"""The work behind `assay predict`: models and their seeds from files, baselines, comparison."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.checks import named_few
from assay.cli.group_files import path_of, read_groups
from assay.cli.predict_report import Evaluated
from assay.cli.predict_request import Request
from assay.cli.progress import progress_bar
from assay.errors import MismatchError, UsageError
from assay.ids import Ids
from assay.io.streams import open_chunks
from assay.tasks.prediction import (
    Accumulator,
    PredictionResult,
    evaluate_baselines,
    evaluate_candidates,
)
from assay.tasks.prediction_files import PredictionFile, read_labels, read_prediction_file
from assay.tasks.prediction_seeds import compare_models

__all__ = ["evaluate_request"]


def evaluate_request(request: Request) -> Evaluated:
    """Read the files and evaluate them, seed by seed; compare where there is something to."""
    targets = None if request.targets is None else read_labels(request.targets)
    models: dict[str, list[PredictionResult]] = {}
    notes: list[str] = []
    first: PredictionFile | None = None
    column = None
    for model, path in _without_duplicates(request.named_files(), notes):
        read = read_prediction_file(
            path, targets=targets, candidates=request.candidates,
            target=request.target, ids=request.ids,
        )  # fmt: skip
        first = first or read
        groups = _groups(request, read)
        column = next(iter(groups), None)
        for name, result in _results(request, model, read, groups):
            models.setdefault(name, []).append(result)
    if first is None:
        raise UsageError("No file is left to evaluate.")
    found = next(iter(models.values()))[0]
    baselines = _baselines(request, first, found)
    several = len(models) > 1 or any(len(results) > 1 for results in models.values())
    comparison = compare_models(models) if several else None
    return Evaluated(request, models, baselines, column, comparison, notes)


def _without_duplicates(
    files: list[tuple[str, str]], notes: list[str]
) -> Iterator[tuple[str, str]]:
    """Seeds of a model whose files are equal byte for byte are one seed."""
    seen: dict[tuple[str, str], str] = {}
    several = {name for name, _ in files if sum(name == other for other, _ in files) > 1}
    for model, path in files:
        if model in several:
            key = (model, _digest(path))
            if key in seen:
                notes.append(f"{path} repeats {seen[key]} exactly and is not counted as a seed")
                continue
            seen[key] = path
        yield model, path


def _digest(path: str) -> str:
    found = hashlib.sha256()
    for chunk in open_chunks(path):
        found.update(chunk)
    return found.hexdigest()


def _results(
    request: Request, model: str, read: PredictionFile, groups: dict[str, Any]
) -> Iterator[tuple[str, PredictionResult]]:
    if not read.candidates:
        yield model, _from_scores(request, model, read, groups)
        return
    for column, lists in read.candidates.items():
        named = model
        if len(read.candidates) > 1:
            named = column if len(request.files) == 1 else f"{model}/{column}"
        result = evaluate_candidates(
            lists, read.targets, name=named, n_classes=request.n_classes,
            query_ids=read.query_ids, groups=groups or None, conventions=request.rules,
            measures=_wanted(request, lists=True),
        )  # fmt: skip
        yield named, result


def _from_scores(
    request: Request, model: str, read: PredictionFile, groups: dict[str, Any]
) -> PredictionResult:
    if request.n_classes is not None:
        raise UsageError("--n-classes is for lists; scores name all classes themselves.")
    with progress_bar(f"ranking {os.path.basename(read.name)}") as progress:
        batches = Accumulator(threads=request.threads, progress=progress)
        if read.batches is None:
            batches.add(read.scores, _numbers(read.targets), query_ids=read.query_ids)
        else:
            _add_batches(batches, read)
    return batches.result(
        measures=_wanted(request, lists=False), name=model, class_names=read.class_names,
        groups=groups or None, conventions=request.rules,
    )  # fmt: skip


def _add_batches(batches: Accumulator, read: PredictionFile) -> None:
    targets, done = _numbers(read.targets), 0
    for scores in read.batches():
        inside = slice(done, done + len(scores))
        ids = None if read.query_ids is None else read.query_ids[inside]
        batches.add(scores, targets[inside], query_ids=ids)
        done += len(scores)
    if done != len(targets):
        raise MismatchError(
            f"{read.name} has scores for {done} samples and {len(targets)} targets."
        )


def _numbers(targets: Any) -> Any:
    """Targets as an array; a missing one is −1."""
    if not isinstance(targets, list):
        return targets
    return np.asarray([-1 if target is None else target for target in targets])


def _wanted(request: Request, lists: bool) -> Any:
    """The measures asked for; with -k alone RR and nDCG at the largest cut-off beside them."""
    accuracies = [f"Success@{k}" for k in request.ks]
    if request.measures:
        return (*request.measures, *accuracies)
    if not accuracies:
        return None
    top = max(request.ks)
    return (*accuracies, f"RR@{top}" if lists else "RR", f"nDCG@{top}")


def _groups(request: Request, read: PredictionFile) -> dict[str, Any]:
    if request.by is None:
        return {}
    if request.by in read.columns:
        values = read.columns[request.by]
        ids = range(len(values)) if read.query_ids is None else read.query_ids
        return {request.by: dict(zip(ids, values, strict=True))}
    if not os.path.exists(path_of(request.by)):
        have = named_few(list(read.columns)) if read.columns else "none"
        raise UsageError(
            f"--by {request.by}: {read.name} has no such column (it has: {have}), and there is "
            "no such file."
        )
    count = len(read.targets)
    ids = Ids.count(count) if read.query_ids is None else Ids.of(read.query_ids, what="sample")
    column, groups = read_groups(request.by, ids)
    return {column: groups}


def _baselines(
    request: Request, read: PredictionFile, result: PredictionResult
) -> list[PredictionResult]:
    if request.train is None:
        return []
    return evaluate_baselines(
        _like(read_labels(request.train), read.targets),
        read.targets,
        measures=result.scores.measures,
        n_classes=result.n_classes or None,
        previous=_previous(request, read),
        users=None if request.train_users is None else read_labels(request.train_users),
        query_ids=read.query_ids,
        conventions=request.rules,
    )


def _previous(request: Request, read: PredictionFile) -> Any:
    if request.previous is None:
        return None
    if request.previous in read.columns:
        labels = read.columns[request.previous]
    else:
        labels = read_labels(request.previous)
    return [None if label in ("", None) else label for label in _like(labels, read.targets)]


def _like(labels: list[Any], targets: Any) -> list[Any]:
    """A CSV holds text only: numbers are written as in the targets, whichever side it is."""
    if any(isinstance(target, str) for target in list(targets)[:1]):
        return [str(label) if isinstance(label, int) else label for label in labels]
    if not all(isinstance(label, str) for label in labels):
        return labels
    wrong = next((label for label in labels if label and not _is_whole(label)), None)
    if wrong is not None:
        raise UsageError(
            f"The targets are class numbers, but a label is {wrong!r}. Give labels of one kind."
        )
    return [int(label) if label else None for label in labels]


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
