"""Models and their seeds from files: each evaluated, compared with the others and with baselines.

What `assay predict` does. In a notebook:

    request = PredictionRequest(("a=a1.npz", "a=a2.npz", "b=b1.npz", "b=b2.npz"), ks=(1, 5))
    models = evaluate_files(request)
    store.save_all(models.records())
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from assay.core.checks import name_few
from assay.core.conventions import Conventions, preset
from assay.core.ids import Ids
from assay.core.text import parse_whole
from assay.errors import MismatchError, UsageError
from assay.io.columns import read_groups, split_column
from assay.io.streams import open_chunks
from assay.prediction.baselines import evaluate_baselines
from assay.prediction.diagnostics import (
    Diagnostics,
    confidence_of_file,
    distances_of,
    mark_new_places,
    measure_predictability,
    read_coordinates,
)
from assay.prediction.evaluate import Accumulator, check_score_kind, evaluate_candidates
from assay.prediction.files import (
    PredictionFile,
    as_lists,
    name_files,
    read_labels,
    read_prediction_file,
)
from assay.prediction.result import (
    PredictionResult,
    class_table,
    group_table,
    mistake_table,
    model_records,
    rank_table,
    summary_table,
)
from assay.prediction.seeds import SeedReport, compare_models
from assay.runs.record import RunRecord
from assay.scoring.scores import signature_of
from assay.search.engine.workers import Progress
from assay.tables.table import Page, Table, Words

# Makes a progress bar with a title; it gives None where nobody watches.
ProgressBar = Callable[[str], AbstractContextManager[Progress | None]]

_OF_CLASSES: Final = ("accuracy", "f1", "f1_macro", "f1_weighted", "f1_micro", "f1-score")


@dataclass(frozen=True)
class PredictionRequest:
    """Which files hold predictions, and what is computed from them.

    `files` are `FILE` or `NAME=FILE`; the same name before several files makes them seeds of one
    model. `targets` is a .npy of true classes for files that hold scores only. `candidates`,
    `target` and `ids` name columns or arrays, `by` columns of the table or `FILE:COLUMN` whose
    values group the samples; `new_places` groups them by whether the true class was in training.
    `confidence` looks at the scores themselves, which are the `scores` logits, probabilities or
    similarities, decided from all rows where it is None; `coordinates` (a file) looks at metres,
    and `predictability` at the training labels. With `train`, labels in order of time (`FILE` or
    `FILE:COLUMN`), baselines are evaluated beside the models; `users` are those of the samples,
    `previous` is the class before each sample and `history` the list of all before it.
    """

    files: tuple[str, ...]
    targets: str | None = None
    candidates: tuple[str, ...] = ()
    target: str | None = None
    ids: str | None = None
    measures: tuple[str, ...] = ()
    ks: tuple[int, ...] = ()
    by: tuple[str, ...] = ()
    new_places: bool = False
    confidence: bool = False
    scores: str | None = None
    coordinates: str | None = None
    predictability: bool = False
    train: str | None = None
    train_users: str | None = None
    users: str | None = None
    previous: str | None = None
    history: str | None = None
    n_classes: int | None = None
    per_class: bool = False
    histogram: bool = False
    ties: str | None = None
    threads: int | None = None
    allow_mismatch: bool = False

    def __post_init__(self) -> None:
        """Refuse options without effect, and measures that are always reported."""
        for name in self.measures:
            if re.split(r"[(@]", name)[0].lower() in _OF_CLASSES:
                raise UsageError(
                    f"-m {name}: Accuracy, F1, precision and recall over classes are always "
                    "reported, with every average. Leave it out."
                )
        needing = ("train_users", "users", "previous", "history", "new_places", "predictability")
        for name in needing:
            if getattr(self, name) and not self.train:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} has no effect without --train. Add it.")
        if check_score_kind(self.scores) and not self.confidence:
            raise UsageError("--scores has no effect without --confidence. Add it.")
        if self.users and not self.train_users:
            raise UsageError("--users needs --train-users: whose the training labels are.")
        if self.previous and self.history:
            raise UsageError("Give --previous or --history, not both.")

    @cached_property
    def train_labels(self) -> list[Any]:
        """The training labels; none without `train`."""
        return [] if self.train is None else read_labels(self.train)

    @cached_property
    def train_owners(self) -> list[Any] | None:
        """The users of the training labels, where they are known."""
        return None if self.train_users is None else read_labels(self.train_users)

    @property
    def rules(self) -> Conventions:
        """The conventions of next-location prediction, with other ties where these are given."""
        return preset("next_location").but(ties=self.ties)

    def named_files(self) -> list[tuple[str, str]]:
        """Return (model, path) of each file; without a name the file's own is taken."""
        return name_files(self.files)

    def paths(self) -> list[str | None]:
        """All files that are read."""
        sources = (self.train, self.train_users, self.users, self.previous, self.history, *self.by)
        return [
            *(path for _, path in self.named_files()),
            self.targets,
            self.coordinates,
            *(None if text is None else split_column(text)[0] for text in sources),
        ]


@dataclass(frozen=True, eq=False)
class ModelResults:
    """Models (each a list of seeds), baselines, and how the models compare."""

    request: PredictionRequest
    models: dict[str, list[PredictionResult]]
    baselines: list[PredictionResult]
    columns: tuple[str, ...] = ()
    comparison: SeedReport | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    notes: list[str] = field(default_factory=list)

    @property
    def firsts(self) -> list[PredictionResult]:
        """The first seed of each model."""
        return [results[0] for results in self.models.values()]

    @property
    def signature(self) -> str:
        """The conventions and the settings of all models, listed where they differ."""
        seeds = [result.scores for results in self.models.values() for result in results]
        looks = {"by": ",".join(self.columns) or None, "score_kind": self.diagnostics.score_kinds}
        return signature_of(seeds, looks)

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        yield from self.notes
        for name, seeds in self.models.items():
            for number, result in enumerate(seeds, 1):
                label = name if len(seeds) == 1 else f"{name} ({number})"
                yield from (f"{label}: {remark}" for remark in result.remarks)
        yield from self.diagnostics.remarks

    def page(self) -> Page:
        """Return the tables with words between them, for people."""
        page: Page = [summary_table(self.models, self.baselines)]
        report = self.comparison
        if report is not None and report.paired is not None:
            page += [Words(words, "verdict") for words in report.paired.verdicts.values()]
            page += [Words(words, "remark") for words in report.paired.remarks]
        if report is not None and self._has_seeds:
            page.append(Words(report.advice))
        page += [*self._more_tables(), *self.diagnostics.page()]
        return [*page, Words(self.signature, "signature")]

    def tables(self) -> list[Table]:
        """Return the summary and every other table of the request."""
        first = summary_table(self.models, self.baselines)
        return [first, *self._more_tables(), *self.diagnostics.tables()]

    def _more_tables(self) -> list[Table]:
        tables = [group_table(self.firsts, column) for column in self.columns]
        if self.comparison is not None and self._has_seeds:
            tables.append(self.comparison.seed_table())
            tables += [self.comparison.welch_table()] if self.comparison.welch else []
        if self.comparison is not None and self.comparison.paired is not None:
            tables.append(self.comparison.paired.pair_table())
        tables += [rank_table(self.firsts)] if self.request.histogram else []
        if self.request.per_class:
            tables += [class_table(self.firsts), mistake_table(self.firsts)]
        return tables

    @property
    def _has_seeds(self) -> bool:
        return any(len(results) > 1 for results in self.models.values())

    def only_result(self) -> PredictionResult:
        """Return the result of one model with one seed; refuse several."""
        if len(self.models) > 1 or self._has_seeds:
            raise UsageError("--legacy-json holds one result. Give one file and one column.")
        return self.firsts[0]

    def records(self) -> list[RunRecord]:
        """Return a record for each model and seed."""
        return model_records(self.models)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        per_class = self.request.per_class
        return {
            "signature": self.signature,
            "models": {
                name: [result.to_dict(per_class=per_class) for result in results]
                for name, results in self.models.items()
            },
            "baselines": [result.to_dict() for result in self.baselines],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            **self.diagnostics.to_dict(),
            "remarks": list(self.remarks),
        }


def evaluate_files(
    request: PredictionRequest, *, progress_bar: ProgressBar | None = None
) -> ModelResults:
    """Evaluate files of predictions, seed by seed, and compare models.

    Args:
        request: Files and what is computed from them.
        progress_bar: Makes a progress bar with a title.

    Returns:
        Results of each model and seed, baselines, the comparison and diagnostics.

    Raises:
        UsageError: Options contradict each other, or no file is left.
        MismatchError: Models predict different samples.
    """
    bar = progress_bar or (lambda title: nullcontext())
    targets = None if request.targets is None else read_labels(request.targets)
    models: dict[str, list[PredictionResult]] = {}
    notes: list[str] = []
    first: PredictionFile | None = None
    columns: tuple[str, ...] = ()
    confidence = {}
    for model, path in _without_duplicates(request.named_files(), notes):
        read = read_prediction_file(
            path,
            targets=targets,
            candidates=request.candidates,
            target=request.target,
            ids=request.ids,
        )
        first = first or read
        groups = _groups(request, read)
        columns = tuple(groups)
        for name, result in _results(request, model, read, groups, bar):
            models.setdefault(name, []).append(result)
        if request.confidence and model not in confidence:
            labels = _numbers(read.targets)
            confidence[model] = confidence_of_file(read, labels, model, request.scores)
    if first is None:
        raise UsageError("No file is left to evaluate.")
    first_result = next(iter(models.values()))[0]
    baselines = _baselines(request, first, first_result)
    if baselines:
        # Remarks on the join with training; those of the model itself stand beside it.
        notes += [
            f"baselines: {remark}"
            for remark in baselines[0].scores.remarks
            if remark not in first_result.scores.remarks
        ]
    several = len(models) > 1 or any(len(results) > 1 for results in models.values())
    comparison = compare_models(models) if several else None
    firsts = [results[0] for results in models.values()]
    diagnostics = Diagnostics(
        confidence,
        distances_of(firsts, read_coordinates(request.coordinates)) if request.coordinates else {},
        measure_predictability(request.train_labels, request.train_owners)
        if request.predictability
        else None,
    )
    return ModelResults(request, models, baselines, columns, comparison, diagnostics, notes)


def _without_duplicates(
    files: list[tuple[str, str]], notes: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield the files without copies: equal bytes are one seed of a model."""
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
    digest = hashlib.sha256()
    for chunk in open_chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def _results(
    request: PredictionRequest,
    model: str,
    read: PredictionFile,
    groups: dict[str, Any],
    progress_bar: ProgressBar,
) -> Iterator[tuple[str, PredictionResult]]:
    shared: dict[str, Any] = {"groups": groups or None, "conventions": request.rules}
    measures = _measures(request, lists=bool(read.candidates))
    if not read.candidates:
        batches = _rank_scores(request, read, progress_bar)
        names = read.class_names
        yield model, batches.result(measures=measures, name=model, class_names=names, **shared)
    for column, lists in read.candidates.items():
        named = model
        if len(read.candidates) > 1:
            named = column if len(request.files) == 1 else f"{model}/{column}"
        result = evaluate_candidates(
            lists,
            read.targets,
            name=named,
            n_classes=request.n_classes,
            query_ids=read.query_ids,
            measures=measures,
            allow_mismatch=request.allow_mismatch,
            **shared,
        )
        yield named, result


def _rank_scores(
    request: PredictionRequest, read: PredictionFile, progress_bar: ProgressBar
) -> Accumulator:
    if request.n_classes is not None:
        raise UsageError("--n-classes is for lists; scores name all classes themselves.")
    targets, done = _numbers(read.targets), 0
    with progress_bar(f"ranking {os.path.basename(read.name)}") as progress:
        batches = Accumulator(threads=request.threads, progress=progress)
        if read.batches is None:
            batches.add(read.scores, targets, query_ids=read.query_ids)
            return batches
        for scores in read.batches():
            rows = slice(done, done + len(scores))
            ids = None if read.query_ids is None else read.query_ids[rows]
            batches.add(scores, targets[rows], query_ids=ids)
            done += len(scores)
    if done != len(targets):
        raise MismatchError(
            f"{read.name} has scores for {done} samples and {len(targets)} targets."
        )
    return batches


def _numbers(targets: Any) -> Any:
    """Return targets as an array; a missing one is −1."""
    if not isinstance(targets, list):
        return targets
    return np.asarray([-1 if target is None else target for target in targets])


def _measures(request: PredictionRequest, lists: bool) -> Any:
    """Return the measures; with cut-offs alone also RR, and nDCG at the largest."""
    accuracies = [f"Success@{k}" for k in request.ks]
    if request.measures:
        return (*request.measures, *accuracies)
    if not accuracies:
        return None
    top = max(request.ks)
    return (*accuracies, f"RR@{top}" if lists else "RR", f"nDCG@{top}")


def _groups(request: PredictionRequest, read: PredictionFile) -> dict[str, Any]:
    """Return {column: {sample id: group}} of every column of --by."""
    groups: dict[str, Any] = {}
    for column in request.by:
        groups |= _group_column(column, read)
    if request.new_places and request.train is not None:
        users = _users(request, read)
        train = _like(request.train_labels, read.targets)
        marks = mark_new_places(
            list(read.targets),
            train,
            users.get("users"),
            users.get("sample_users"),
            allow_mismatch=request.allow_mismatch,
        )
        groups["place"] = _by_id(marks, read)
    return groups


def _by_id(values: list[Any], read: PredictionFile) -> dict[Any, Any]:
    ids = range(len(values)) if read.query_ids is None else read.query_ids
    return dict(zip(ids, values, strict=True))


def _group_column(column_name: str, read: PredictionFile) -> dict[str, Any]:
    if column_name in read.columns:
        return {column_name: _by_id(read.columns[column_name], read)}
    if not os.path.exists(split_column(column_name)[0]):
        have = name_few(list(read.columns)) if read.columns else "none"
        raise UsageError(
            f"--by {column_name}: not a column of {read.name} (it has: {have}), and not a file."
        )
    count = len(read.targets)
    ids = Ids.count(count) if read.query_ids is None else Ids.of(read.query_ids, what="sample")
    column, groups = read_groups(column_name, ids)
    return {column: groups}


def _baselines(
    request: PredictionRequest, read: PredictionFile, result: PredictionResult
) -> list[PredictionResult]:
    if request.train is None:
        return []
    previous = history = None
    if request.previous is not None:
        labels = _like(_column(request.previous, read), read.targets)
        previous = [None if label in ("", None) else label for label in labels]
    if request.history is not None:
        rows = as_lists(_column(request.history, read), request.history, read.name)
        history = [_like(row, read.targets) if row else [] for row in rows]
    return evaluate_baselines(
        _like(request.train_labels, read.targets),
        read.targets,
        measures=result.scores.measures,
        n_classes=result.n_classes or None,
        previous=previous,
        history=history,
        **_users(request, read),
        query_ids=read.query_ids,
        conventions=request.rules,
        allow_mismatch=request.allow_mismatch,
    )


def _users(request: PredictionRequest, read: PredictionFile) -> dict[str, Any]:
    """Return users of training and of samples, as text: a CSV holds nothing else."""
    if request.train_owners is None:
        return {}
    owners = {"users": request.train_owners}
    if request.users is not None:
        owners["sample_users"] = _column(request.users, read)
    return {name: [str(user) for user in users] for name, users in owners.items()}


def _column(name: str, read: PredictionFile) -> list[Any]:
    """Return a column of the predictions, or one of another file."""
    return read.columns[name] if name in read.columns else read_labels(name)


def _like(labels: list[Any], targets: Any) -> list[Any]:
    """Return labels as text or numbers, like the targets: a CSV holds text only."""
    if any(isinstance(target, str) for target in list(targets)[:1]):
        return [str(label) if isinstance(label, int) else label for label in labels]
    if not all(isinstance(label, str) for label in labels):
        return labels
    wrong = next((label for label in labels if label and parse_whole(label) is None), None)
    if wrong is not None:
        raise UsageError(
            f"The targets are class numbers, but a label is {wrong!r}. Give labels of one kind."
        )
    return [int(label) if label else None for label in labels]
