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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from assay.core import checks
from assay.core.conventions import Conventions, preset
from assay.core.ids import Ids
from assay.core.text import parse_whole
from assay.errors import MismatchError, UsageError
from assay.io.columns import read_groups, split_column
from assay.io.streams import open_chunks
from assay.prediction import files
from assay.prediction.baselines import (
    Predictability,
    evaluate_baselines,
    mark_new_places,
    measure_predictability,
)
from assay.prediction.confidence import (
    Confidence,
    ConfidenceResult,
    decide_score_kind,
    evaluate_confidence,
)
from assay.prediction.evaluate import (
    Accumulator,
    DistanceResult,
    distance_errors,
    evaluate_candidates,
)
from assay.prediction.plugin import SCORE_KINDS
from assay.prediction.result import (
    PredictionResult,
    SeedReport,
    class_table,
    compare_models,
    group_table,
    mistake_table,
    rank_table,
    summary_table,
)
from assay.runs.record import RunRecord
from assay.scoring.scores import signature_of
from assay.search.engine.workers import Progress
from assay.tables.svg import Drawing
from assay.tables.table import Page, Table, Words

# Makes a progress bar with a title; it gives None where nobody watches.
ProgressBar = Callable[[str], AbstractContextManager[Progress | None]]

_OF_CLASSES: Final = ("accuracy", "f1", "f1_macro", "f1_weighted", "f1_micro", "f1-score")


@dataclass(frozen=True)
class PredictionRequest:
    """Which files hold predictions, and what is computed from them.

    Args:
        files: `FILE` or `NAME=FILE`; the same name before several files makes them seeds of one
            model.
        targets: A .npy of true classes, for files that hold scores only.
        candidates: Columns or arrays with lists of candidates; several are several models.
        target: Column or array of the true classes.
        ids: Column of the sample ids.
        measures: Measures of the ranking.
        ks: Cut-offs of the accuracy.
        by: Columns of the table, or `FILE:COLUMN`, whose values group the samples.
        new_places: Group samples by whether the true class was in training.
        confidence: Look at the scores themselves: calibration, samples without a class.
        scores: "logits", "probabilities" or "similarities"; None decides from all rows.
        coordinates: CSV of class, lat, lon: look at errors in metres.
        predictability: Look at the entropy of the training labels.
        train: Training labels in order of time (`FILE` or `FILE:COLUMN`), for baselines.
        train_users: Users of the training labels.
        users: Users of the samples.
        previous: The class before each sample.
        history: Instead of `previous`: the list of all classes before each sample.
        n_classes: Size of the vocabulary, for lists.
        per_class: Show each class.
        histogram: Show the histogram of target ranks.
        ties: How tied scores count; None is the order of the classes.
        threads: Number of threads.
        allow_mismatch: Accept classes or users that are written differently.

    Raises:
        UsageError: An option has no effect without another, or contradicts it.

    Example:
        request = PredictionRequest(("net=a.npz", "net=b.npz"), ks=(1, 5), train="train.npy")
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
        if self.scores is not None:
            checks.check_choice(self.scores, SCORE_KINDS, "scores")
        if self.scores and not self.confidence:
            raise UsageError("--scores has no effect without --confidence. Add it.")
        if self.users and not self.train_users:
            raise UsageError("--users needs --train-users: whose the training labels are.")
        if self.previous and self.history:
            raise UsageError("Give --previous or --history, not both.")

    @cached_property
    def train_labels(self) -> list[Any]:
        """The training labels; none without `train`."""
        return [] if self.train is None else files.read_labels(self.train)

    @cached_property
    def train_owners(self) -> list[Any] | None:
        """The users of the training labels, where they are known."""
        return None if self.train_users is None else files.read_labels(self.train_users)

    @property
    def rules(self) -> Conventions:
        """The conventions of next-location prediction, with other ties where these are given."""
        return preset("next_location").replace(ties=self.ties)

    def named_files(self) -> list[tuple[str, str]]:
        """Return (model, path) of each file; without a name the file's own is taken."""
        return files.name_files(self.files)

    def paths(self) -> list[str | None]:
        """Return all files that are read."""
        sources = (self.train, self.train_users, self.users, self.previous, self.history, *self.by)
        return [
            *(path for _, path in self.named_files()),
            self.targets,
            self.coordinates,
            *(None if source is None else split_column(source)[0] for source in sources),
        ]


_CAVEAT: Final = (
    "The bound is Song et al.'s (2010) for a predictor that knows the sequence of places alone; "
    "short sequences overestimate the entropy, and other knowledge may exceed it."
)


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Confidence, distances and predictability by model; empty where nobody asked for them."""

    confidence: dict[str, ConfidenceResult] = field(default_factory=dict)
    distances: dict[str, DistanceResult] = field(default_factory=dict)
    predictability: Predictability | None = None

    def page(self) -> Page:
        """Return each diagnostic with its sentence."""
        page: Page = []
        for name, result in self.confidence.items():
            if result.calibration is not None:
                page.append(Words(f"{name}: {result.calibration.verdict}", "verdict"))
            page += [Words(f"{name}: {result.decision}"), *result.tables()]
        page += [result.table() for result in self.distances.values()]
        if self.predictability is not None:
            page += [self.predictability.table(), Words(_CAVEAT)]
        return page

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; only what was asked for."""
        data: dict[str, Any] = {
            "confidence": {name: result.to_dict() for name, result in self.confidence.items()},
            "distances": {name: result.to_dict() for name, result in self.distances.items()},
            "predictability": self.predictability and self.predictability.to_dict(),
        }
        return {name: values for name, values in data.items() if values}

    def reliability_picture(self) -> str:
        """Return the reliability diagrams of all models as one SVG."""
        if not self.confidence:
            raise UsageError("A reliability diagram needs scores of all classes, not lists.")
        return Drawing.stack([result.drawing() for result in self.confidence.values()]).to_svg()

    @property
    def score_kinds(self) -> str | None:
        """What the scores of all models were read as; each in turn where they differ."""
        kinds = [result.kind.name for result in self.confidence.values()]
        return ";".join(kinds if len(set(kinds)) > 1 else kinds[:1]) or None


@dataclass(frozen=True, eq=False)
class ModelResults:
    """Models (each a list of seeds), baselines, and how the models compare.

    Args:
        request: The files, and what was computed from them.
        models: Results of the seeds of each model.
        baselines: A result per baseline; none without training labels.
        columns: Columns that group the samples.
        comparison: Comparison of models and seeds, where there are several.
        diagnostics: Confidence, distances and predictability, as far as asked for.
        notes: Remarks on the files.

    Example:
        results = evaluate_files(PredictionRequest(("a=a.npz", "b=b.npz")))
        results.comparison.paired.verdicts
    """

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
    def _seeds(self) -> Iterator[tuple[str, str, int, PredictionResult]]:
        """Every seed: its model, its name, its number and its result."""
        for model, results in self.models.items():
            for number, result in enumerate(results, 1):
                yield model, model if len(results) == 1 else f"{model} ({number})", number, result

    @property
    def signature(self) -> str:
        """The conventions and the settings of all models, listed where they differ."""
        looks = {"by": ",".join(self.columns) or None, "score_kind": self.diagnostics.score_kinds}
        return signature_of([result.scores for *_, result in self._seeds], looks)

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        yield from self.notes
        for _, name, _, result in self._seeds:
            yield from (f"{name}: {remark}" for remark in result.remarks)
        for name, confidence in self.diagnostics.confidence.items():
            yield from (f"{name}: {remark}" for remark in confidence.remarks)

    def page(self) -> Page:
        """Return the tables with words between them, for people."""
        first, *more = self._tables()
        page: Page = [first]
        report = self.comparison
        if report is not None and report.paired is not None:
            page += [Words(words, "verdict") for words in report.paired.verdicts.values()]
            page += [Words(words, "remark") for words in report.paired.remarks]
        if report is not None and self._has_seeds:
            page.append(Words(report.advice))
        return [*page, *more, *self.diagnostics.page(), Words(self.signature, "signature")]

    def tables(self) -> list[Table]:
        """Return the summary and every other table of the request."""
        more = [part for part in self.diagnostics.page() if isinstance(part, Table)]
        return [*self._tables(), *more]

    def _tables(self) -> list[Table]:
        tables = [summary_table(self.models, self.baselines)]
        tables += [group_table(self.firsts, column) for column in self.columns]
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
        return [
            record.replace(model=model)
            for model, name, number, result in self._seeds
            for record in result.records(name=name, number=number)
        ]

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

    Example:
        request = PredictionRequest(("a=a1.npz", "a=a2.npz", "b=b1.npz"), ks=(1, 5))
        evaluate_files(request).comparison.rows
    """
    bar = progress_bar or (lambda title: nullcontext())
    targets = None if request.targets is None else files.read_labels(request.targets)
    models: dict[str, list[PredictionResult]] = {}
    notes: list[str] = []
    first: files.PredictionFile | None = None
    columns: tuple[str, ...] = ()
    diagnostics = Diagnostics()
    for model, path in _without_duplicates(request.named_files(), notes):
        read = files.read_prediction_file(
            path,
            targets=targets,
            candidates=request.candidates,
            target=request.target,
            ids=request.ids,
        )
        first = first or read
        groups = _read_groups(request, read)
        columns = tuple(groups)
        for name, result in _evaluate_file(request, model, read, groups, bar):
            models.setdefault(name, []).append(result)
        if request.confidence and model not in diagnostics.confidence:
            diagnostics.confidence[model] = _evaluate_confidence(read, model, request.scores)
    if first is None:
        raise UsageError("No file is left to evaluate.")
    firsts = [results[0] for results in models.values()]
    baselines = _evaluate_baselines(request, first, firsts[0])
    if baselines:
        # Remarks on the join with training; those of the model itself stand beside it.
        notes += [
            f"baselines: {remark}"
            for remark in baselines[0].scores.remarks
            if remark not in firsts[0].scores.remarks
        ]
    several = len(models) > 1 or any(len(results) > 1 for results in models.values())
    comparison = compare_models(models) if several else None
    if request.coordinates:
        coordinates = files.read_coordinates(request.coordinates)
        for result in firsts:
            diagnostics.distances[result.name] = distance_errors(
                _as_places(result.predicted),
                _as_places(result.targets),
                coordinates,
                name=result.name,
            )
    if request.predictability:
        predictability = measure_predictability(request.train_labels, request.train_owners)
        diagnostics = replace(diagnostics, predictability=predictability)
    return ModelResults(request, models, baselines, columns, comparison, diagnostics, notes)


def _as_places(classes: Any) -> list[str | None]:
    """Return classes as text, as the file of coordinates has them."""
    return [None if label in (-1, "") else str(label) for label in classes.tolist()]


def _without_duplicates(
    named_files: list[tuple[str, str]], notes: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield the files without copies: equal bytes are one seed of a model."""
    seen: dict[tuple[str, str], str] = {}
    counts = Counter(model for model, _ in named_files)
    for model, path in named_files:
        if counts[model] > 1:
            digest = hashlib.sha256()
            for chunk in open_chunks(path):
                digest.update(chunk)
            key = (model, digest.hexdigest())
            if key in seen:
                notes.append(f"{path} repeats {seen[key]} exactly and is not counted as a seed")
                continue
            seen[key] = path
        yield model, path


def _evaluate_file(
    request: PredictionRequest,
    model: str,
    read: files.PredictionFile,
    groups: dict[str, Any],
    progress_bar: ProgressBar,
) -> Iterator[tuple[str, PredictionResult]]:
    """Yield the scores' result, or that of each column of candidates, by the model's name."""
    measures = (*request.measures, *(f"Success@{k}" for k in request.ks))
    if request.ks and not request.measures:
        top = max(request.ks)
        measures = (*measures, f"RR@{top}" if read.candidates else "RR", f"nDCG@{top}")
    shared: dict[str, Any] = {
        "groups": groups or None,
        "conventions": request.rules,
        "measures": measures or None,
    }
    if not read.candidates:
        batches = _rank_scores(request, read, progress_bar)
        yield model, batches.result(name=model, class_names=read.class_names, **shared)
    for column, lists in read.candidates.items():
        name = model
        if len(read.candidates) > 1:
            name = column if len(request.files) == 1 else f"{model}/{column}"
        result = evaluate_candidates(
            lists,
            read.targets,
            name=name,
            n_classes=request.n_classes,
            query_ids=read.query_ids,
            allow_mismatch=request.allow_mismatch,
            **shared,
        )
        yield name, result


def _rank_scores(
    request: PredictionRequest, read: files.PredictionFile, progress_bar: ProgressBar
) -> Accumulator:
    if request.n_classes is not None:
        raise UsageError("--n-classes is for lists; scores name all classes themselves.")
    targets, done = read.target_numbers, 0
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


def _evaluate_confidence(
    read: files.PredictionFile, name: str, kind: str | None
) -> ConfidenceResult:
    """Evaluate the confidence of a file's scores, batch by batch where it is read so.

    Batches are read twice, because all rows decide what the scores are unless `kind` states it.
    """
    if read.candidates:
        raise UsageError(
            f"{read.name} holds lists of candidates, which have no probabilities: --confidence "
            "needs scores or logits of all classes."
        )
    decision = decide_score_kind(read.score_batches(), kind, place=read.name)
    targets, parts, done = read.target_numbers, [], 0
    for scores in read.score_batches():
        parts.append(Confidence.of(scores, targets[done : done + len(scores)], kind=decision))
        done += len(scores)
    return evaluate_confidence(Confidence.merge(parts), targets, name=name)


def _read_groups(request: PredictionRequest, read: files.PredictionFile) -> dict[str, Any]:
    """Return {column: {sample id: group}} of every column of --by, and of --new-places."""
    groups: dict[str, Any] = {}
    for source in request.by:
        if source in read.columns:
            groups[source] = read.by_id(read.columns[source])
            continue
        if not os.path.exists(split_column(source)[0]):
            have = checks.name_few(list(read.columns)) if read.columns else "none"
            raise UsageError(
                f"--by {source}: not a column of {read.name} (it has: {have}), and not a file."
            )
        ids = Ids.count(len(read.targets))
        if read.query_ids is not None:
            ids = Ids.of(read.query_ids, what="sample")
        column, groups_of = read_groups(source, ids)
        groups[column] = groups_of
    if request.new_places:
        marks = mark_new_places(
            list(read.targets),
            _as_kind_of(read.targets, request.train_labels),
            **_read_users(request, read),
            allow_mismatch=request.allow_mismatch,
        )
        groups["place"] = read.by_id(marks)
    return groups


def _evaluate_baselines(
    request: PredictionRequest, read: files.PredictionFile, result: PredictionResult
) -> list[PredictionResult]:
    if request.train is None:
        return []
    previous = history = None
    if request.previous is not None:
        labels = _as_kind_of(read.targets, read.labels(request.previous))
        previous = [None if label in ("", None) else label for label in labels]
    if request.history is not None:
        rows = files.as_lists(read.labels(request.history), request.history, read.name)
        history = [_as_kind_of(read.targets, row) if row else [] for row in rows]
    return evaluate_baselines(
        _as_kind_of(read.targets, request.train_labels),
        read.targets,
        measures=result.scores.measures,
        n_classes=result.n_classes or None,
        previous=previous,
        history=history,
        **_read_users(request, read),
        query_ids=read.query_ids,
        conventions=request.rules,
        allow_mismatch=request.allow_mismatch,
    )


def _read_users(request: PredictionRequest, read: files.PredictionFile) -> dict[str, Any]:
    """Return users of training and of samples, as text: a CSV holds nothing else."""
    if request.train_owners is None:
        return {}
    owners = {"users": request.train_owners}
    if request.users is not None:
        owners["sample_users"] = read.labels(request.users)
    return {name: [str(user) for user in users] for name, users in owners.items()}


def _as_kind_of(targets: Any, labels: list[Any]) -> list[Any]:
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
