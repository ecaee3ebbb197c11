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
from assay.core.numbers import parse_whole
from assay.errors import MismatchError, UsageError
from assay.io.streams import open_chunks
from assay.io.tables import groups_path, read_groups
from assay.runs.record import RunRecord
from assay.runs.run_files import unique_names
from assay.scoring.scores import signature_of
from assay.search.engine.workers import Progress
from assay.tables.page import Page, Words
from assay.tables.table import Table
from assay.tasks.prediction import tables
from assay.tasks.prediction.baselines import evaluate_baselines
from assay.tasks.prediction.evaluate import Accumulator, evaluate_candidates
from assay.tasks.prediction.files import (
    PredictionFile,
    as_lists,
    read_labels,
    read_prediction_file,
)
from assay.tasks.prediction.further import (
    Further,
    confidence_of_file,
    distances_of,
    mark_new_places,
    read_coordinates,
)
from assay.tasks.prediction.places import DistanceResult, Predictability, measure_predictability
from assay.tasks.prediction.result import PredictionResult, model_records
from assay.tasks.prediction.seeds import SeedReport, compare_models

__all__ = ["ModelResults", "PredictionRequest", "ProgressBar", "evaluate_files"]

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
    `confidence` looks at the scores themselves, `coordinates` (a file) at metres, and
    `predictability` at the training labels. With `train`, labels in order of time (`FILE` or
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
        """(model, path) of each file; without a name the file's own is taken."""
        plain = unique_names([_split(text)[1] for text in self.files])
        return [
            (_split(text)[0] or name, _split(text)[1])
            for text, name in zip(self.files, plain, strict=True)
        ]

    def paths(self) -> list[str | None]:
        """All files that are read."""
        others = (self.train, self.train_users, self.users, self.previous, self.history, *self.by)
        return [
            *(path for _, path in self.named_files()),
            self.targets,
            self.coordinates,
            *(None if text is None else groups_path(text) for text in others),
        ]


def _split(text: str) -> tuple[str, str]:
    """NAME=FILE; a file whose own name holds = is meant as it is."""
    name, equals, path = text.partition("=")
    return ("", text) if not equals or os.path.exists(text) else (name, path)


@dataclass(frozen=True, eq=False)
class ModelResults:
    """Models (each a list of seeds), baselines, and how the models compare."""

    request: PredictionRequest
    models: dict[str, list[PredictionResult]]
    baselines: list[PredictionResult]
    columns: tuple[str, ...] = ()
    comparison: SeedReport | None = None
    further: Further = field(default_factory=Further)
    notes: list[str] = field(default_factory=list)

    @property
    def firsts(self) -> list[PredictionResult]:
        """The first seed of each model."""
        return [results[0] for results in self.models.values()]

    @property
    def signature(self) -> str:
        """The conventions and the settings of all models, listed where they differ."""
        seeds = [one.scores for results in self.models.values() for one in results]
        return signature_of(seeds, {"by": ",".join(self.columns) or None})

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        yield from self.notes
        for name, seeds in self.models.items():
            for number, one in enumerate(seeds, 1):
                label = name if len(seeds) == 1 else f"{name} ({number})"
                yield from (f"{label}: {remark}" for remark in one.remarks)

    def page(self) -> Page:
        """The tables with words between them, for people."""
        page: Page = [tables.summary_table(self.models, self.baselines)]
        report = self.comparison
        if report is not None and report.paired is not None:
            page += [Words(words, "verdict") for words in report.paired.verdicts.values()]
            page += [Words(words, "remark") for words in report.paired.remarks]
        if report is not None and self._has_seeds:
            page.append(Words(report.advice))
        page += [*self._more_tables(), *self.further.page()]
        return [*page, Words(self.signature, "signature")]

    def tables(self) -> list[Table]:
        """The summary and every further table of the request."""
        first = tables.summary_table(self.models, self.baselines)
        return [first, *self._more_tables(), *self.further.tables()]

    def _more_tables(self) -> list[Table]:
        found = [tables.group_table(self.firsts, column) for column in self.columns]
        if self.comparison is not None and self._has_seeds:
            found.append(tables.seed_table(self.comparison))
            found += [tables.welch_table(self.comparison)] if self.comparison.welch else []
        if self.comparison is not None and self.comparison.paired is not None:
            found.append(self.comparison.paired.pair_table())
        found += [tables.rank_table(self.firsts)] if self.request.histogram else []
        if self.request.per_class:
            found += [tables.class_table(self.firsts), tables.mistake_table(self.firsts)]
        return found

    @property
    def _has_seeds(self) -> bool:
        return any(len(results) > 1 for results in self.models.values())

    def only_result(self) -> PredictionResult:
        """The result of one model with one seed; an error where there are more."""
        if len(self.models) > 1 or self._has_seeds:
            raise UsageError("--legacy-json holds one result. Give one file and one column.")
        return self.firsts[0]

    def records(self) -> list[RunRecord]:
        """A record for each model and seed."""
        return model_records(self.models)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        per_class = self.request.per_class
        return {
            "signature": self.signature,
            "models": {
                name: [one.to_dict(per_class=per_class) for one in results]
                for name, results in self.models.items()
            },
            "baselines": [one.to_dict() for one in self.baselines],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            **self.further.to_dict(),
            "remarks": list(self.remarks),
        }


def evaluate_files(
    request: PredictionRequest, *, progress_bar: ProgressBar | None = None
) -> ModelResults:
    """Read the files and evaluate them, seed by seed; compare where there is something to."""
    bar = progress_bar or _no_bar
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
            confidence[model] = confidence_of_file(read, _numbers(read.targets), model)
    if first is None:
        raise UsageError("No file is left to evaluate.")
    found = next(iter(models.values()))[0]
    baselines = _baselines(request, first, found)
    several = len(models) > 1 or any(len(results) > 1 for results in models.values())
    comparison = compare_models(models) if several else None
    firsts = [results[0] for results in models.values()]
    further = Further(confidence, _distances(request, firsts), _predictability(request))
    return ModelResults(request, models, baselines, columns, comparison, further, notes)


def _distances(
    request: PredictionRequest, results: list[PredictionResult]
) -> dict[str, DistanceResult]:
    if request.coordinates is None:
        return {}
    return distances_of(results, read_coordinates(request.coordinates))


def _predictability(request: PredictionRequest) -> Predictability | None:
    if not request.predictability or request.train is None:
        return None
    return measure_predictability(request.train_labels, request.train_owners)


def _no_bar(title: str) -> AbstractContextManager[None]:
    return nullcontext()


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
    request: PredictionRequest,
    model: str,
    read: PredictionFile,
    groups: dict[str, Any],
    progress_bar: ProgressBar,
) -> Iterator[tuple[str, PredictionResult]]:
    if not read.candidates:
        yield model, _from_scores(request, model, read, groups, progress_bar)
        return
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
            groups=groups or None,
            conventions=request.rules,
            measures=_measures(request, lists=True),
            allow_mismatch=request.allow_mismatch,
        )
        yield named, result


def _from_scores(
    request: PredictionRequest,
    model: str,
    read: PredictionFile,
    groups: dict[str, Any],
    progress_bar: ProgressBar,
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
        measures=_measures(request, lists=False),
        name=model,
        class_names=read.class_names,
        groups=groups or None,
        conventions=request.rules,
    )


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


def _measures(request: PredictionRequest, lists: bool) -> Any:
    """The chosen measures; with cut-offs alone also RR, and nDCG at the largest."""
    accuracies = [f"Success@{k}" for k in request.ks]
    if request.measures:
        return (*request.measures, *accuracies)
    if not accuracies:
        return None
    top = max(request.ks)
    return (*accuracies, f"RR@{top}" if lists else "RR", f"nDCG@{top}")


def _groups(request: PredictionRequest, read: PredictionFile) -> dict[str, Any]:
    """{column: {sample id: group}} of every column that was asked for."""
    found: dict[str, Any] = {}
    for wanted in request.by:
        found |= _group_column(wanted, read)
    if request.new_places and request.train is not None:
        users = _users(request, read)
        train = _like(request.train_labels, read.targets)
        marks = mark_new_places(
            list(read.targets), train, users.get("users"), users.get("sample_users")
        )
        found["place"] = _by_id(marks, read)
    return found


def _by_id(values: list[Any], read: PredictionFile) -> dict[Any, Any]:
    ids = range(len(values)) if read.query_ids is None else read.query_ids
    return dict(zip(ids, values, strict=True))


def _group_column(wanted: str, read: PredictionFile) -> dict[str, Any]:
    if wanted in read.columns:
        return {wanted: _by_id(read.columns[wanted], read)}
    if not os.path.exists(groups_path(wanted)):
        have = name_few(list(read.columns)) if read.columns else "none"
        raise UsageError(
            f"--by {wanted}: not a column of {read.name} (it has: {have}), and not a file."
        )
    count = len(read.targets)
    ids = Ids.count(count) if read.query_ids is None else Ids.of(read.query_ids, what="sample")
    column, groups = read_groups(wanted, ids)
    return {column: groups}


def _baselines(
    request: PredictionRequest, read: PredictionFile, result: PredictionResult
) -> list[PredictionResult]:
    if request.train is None:
        return []
    return evaluate_baselines(
        _like(request.train_labels, read.targets),
        read.targets,
        measures=result.scores.measures,
        n_classes=result.n_classes or None,
        previous=_previous(request, read),
        history=_history(request, read),
        **_users(request, read),
        query_ids=read.query_ids,
        conventions=request.rules,
        allow_mismatch=request.allow_mismatch,
    )


def _users(request: PredictionRequest, read: PredictionFile) -> dict[str, Any]:
    """Users of the training labels and of the samples, as text: a CSV holds nothing else."""
    if request.train_owners is None:
        return {}
    found = {"users": request.train_owners}
    if request.users is not None:
        found["sample_users"] = _column(request.users, read)
    return {name: [str(user) for user in users] for name, users in found.items()}


def _column(name: str, read: PredictionFile) -> list[Any]:
    """A column of the predictions, or one of another file."""
    return read.columns[name] if name in read.columns else read_labels(name)


def _previous(request: PredictionRequest, read: PredictionFile) -> Any:
    if request.previous is None:
        return None
    labels = _like(_column(request.previous, read), read.targets)
    return [None if label in ("", None) else label for label in labels]


def _history(request: PredictionRequest, read: PredictionFile) -> Any:
    if request.history is None:
        return None
    rows = as_lists(_column(request.history, read), request.history, read.name)
    return [_like(row, read.targets) if row else [] for row in rows]


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
    return parse_whole(text) is not None
