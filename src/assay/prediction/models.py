"""Models and their seeds from files: each evaluated, compared with the others and with baselines.

What `assay predict` does. In a notebook:

    request = PredictionRequest(("a=a1.npz", "a=a2.npz", "b=b1.npz", "b=b2.npz"), ks=(1, 5))
    models = evaluate_files(request)
    store.save_all(models.records())
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from types import SimpleNamespace
from typing import Any, Final

from assay.comparison.compare import Comparison
from assay.comparison.paper import paper_page, paper_table
from assay.comparison.verdict import verdict_words
from assay.core import checks
from assay.core.text import parse_whole, remark_about
from assay.errors import MismatchError, UsageError
from assay.io.fingerprints import digest_of_file
from assay.io.streams import split_array
from assay.measures import Measure, parse
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
from assay.prediction.request import PredictionRequest
from assay.prediction.result import (
    PredictionResult,
    SeedReport,
    average_means,
    class_table,
    compare_models,
    confusion_table,
    field_table,
    for_people,
    group_table,
    mistake_table,
    model_label,
    name_in_field,
    rank_table,
    summary_table,
)
from assay.runs.record import RunRecord
from assay.scoring.scores import signature_of
from assay.search.engine.workers import Progress
from assay.tables.svg import Drawing
from assay.tables.table import Cell, Page, Shown, Table, Words, as_csv, as_latex, as_markdown

# Makes a progress bar with a title; it gives None where nobody watches.
ProgressBar = Callable[[str], AbstractContextManager[Progress | None]]

_CAVEAT: Final = (
    "Bound of Song et al. (2010) for predictors that see only the sequence of places. Short "
    "sequences overestimate the entropy; further inputs may exceed the bound."
)


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics(Shown):
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
            raise UsageError("Lists have no reliability. Omit --reliability.")
        return Drawing.stack([result.drawing() for result in self.confidence.values()]).to_svg()

    @property
    def score_kinds(self) -> str | None:
        """Kind of scores of all models, or of each where they differ."""
        kinds = [result.kind.name for result in self.confidence.values()]
        return ";".join(kinds if len(set(kinds)) > 1 else kinds[:1]) or None


@dataclass(frozen=True, eq=False, repr=False)
class ModelResults(Shown):
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
    gate: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self.models)

    @property
    def baseline(self) -> str | None:
        """The model that the others are compared with."""
        return self.request.baseline

    @property
    def paired(self) -> Comparison | None:
        """The comparison of models sample by sample, where there are several."""
        return None if self.comparison is None else self.comparison.paired

    def standings_on(self, measure: str | Measure) -> Any:
        """Return the models with their means on a measure, for the conditions of a gate."""
        if self.paired is not None:
            return self.paired.standings_on(measure)
        means = {model: average_means(seeds) for model, seeds in self.models.items()}
        name = str(parse(measure) if isinstance(measure, str) else measure)
        if any(name not in values for values in means.values()):
            have = ", ".join(self.firsts[0].mean())
            raise UsageError(f"{name} was not computed (computed: {have}). Add -m {name}.")
        estimates = {model: SimpleNamespace(estimate=means[model][name]) for model in means}
        return tuple(SimpleNamespace(name=model, mean=mean) for model, mean in estimates.items())

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
        looks["baseline"] = self.baseline
        return signature_of([result.scores for *_, result in self._seeds], looks)

    @property
    def remarks(self) -> Iterator[str]:
        """Return the warnings."""
        yield from self.notes
        for _, name, _, result in self._seeds:
            yield from (remark_about(name, remark) for remark in result.remarks)
        looks: Any = (self.diagnostics.confidence, self.diagnostics.distances)
        for name, result in chain.from_iterable(look.items() for look in looks):
            yield from (remark_about(name, remark) for remark in result.remarks)

    def page(self) -> Page:
        """Return tables, verdicts and remarks as a page."""
        return self._lay_out(self._tables(), whole=True)

    def screen(self) -> Page:
        """Return the page without the table of every measure, and with one verdict."""
        return self._lay_out(self._tables(whole=False), whole=False)

    def _lay_out(self, tables: list[Table], *, whole: bool) -> Page:
        page: Page = []
        if (paired := self._named_paired()) is not None:
            guess = {name_in_field(name): p for name, p in (self.firsts[0].uniform() or {}).items()}
            # A measure on which any guess is right heads no verdict.
            names = sorted(paired.verdicts, key=lambda name: guess.get(name) == 1)
            selected = names if whole else names[:1]
            page += verdict_words(paired.verdicts[name] for name in selected)
        remarks = () if paired is None else paired.remarks
        page += [self._field_table(), *(Words(remark, "remark") for remark in remarks)]
        if self.comparison is not None and self._has_seeds:
            page.append(Words(self.comparison.advice, "method"))
        if (clusters := self.firsts[0].clusters) is not None:
            page.append(Words(clusters.sentence))
        gate = [] if self.gate is None else self.gate.page()
        page += [*tables, *self.diagnostics.page(), *gate, Words(self.signature, "signature")]
        return [for_people(part) if isinstance(part, Table) else part for part in page]

    def paper(self) -> Page:
        """Return models × measures in percent as the table of a paper, then what was asked for."""
        table, paired = self._field_table(), self._named_paired()
        n = f"n = {self.firsts[0].confusion.n:,} samples"
        notes: tuple[str, ...] = (f"{n}. No differences were tested.",)
        if paired is not None:
            tested = paper_table(paired)
            labels = (model_label(*model) for model in self.models.items())
            row_of = dict(zip(labels, tested.rows, strict=True))
            table, notes = _mark(table, tested.columns, row_of), tested.notes
        notes += ("±: standard deviation over seeds.",) if self._has_seeds else ()
        caption = f"Predicted classes, in percent ({n})."
        table = replace(table, caption=caption, label="tab:predict", notes=notes)
        extra = [part for part in self._tables(whole=False) if "pair" not in part.columns]
        return paper_page(table, self.page(), [*extra, *self.diagnostics.page()])

    def _named_paired(self) -> Comparison | None:
        """Return the comparison under the names of the field."""
        if self.paired is None:
            return None
        return self.paired.called({name: name_in_field(name) for name in self.paired.verdicts})

    def tables(self) -> list[Table]:
        """Return the summary and every other table of the request."""
        more = [part for part in self.diagnostics.page() if isinstance(part, Table)]
        return [*self._tables(), *more]

    def _field_table(self) -> Table:
        """Return what papers print: a row per model, in percent."""
        measures = [
            name
            for name in self.firsts[0].mean()
            if name != "Success@3" or self.request.ks or self.request.measures
        ]
        measures += [] if self.request.measures else ["F1(avg=weighted)"]
        return field_table(self.models, self.baselines, measures=measures, paired=self.paired)

    def _tables(self, *, whole: bool = True) -> list[Table]:
        """Return the tables of the request; a screen has no table of every measure and seed."""
        tables: list[Table] = []
        if whole:
            with_classes = not self.request.measures
            tables.append(summary_table(self.models, self.baselines, with_classes=with_classes))
        tables += [group_table(self.firsts, column) for column in self.columns]
        if whole and self.comparison is not None and self._has_seeds:
            tables.append(self.comparison.seed_table())
            tables += [self.comparison.welch_table()] if self.comparison.welch else []
        paired = self.paired if whole else self._named_paired()
        tables += [] if paired is None else [paired.pair_table()]
        tables += [rank_table(self.firsts)] if self.request.histogram else []
        if self.request.per_class:
            tables += [class_table(self.firsts), mistake_table(self.firsts)]
        return tables

    @property
    def _has_seeds(self) -> bool:
        return any(len(results) > 1 for results in self.models.values())

    def lay_out_confusion(self, ending: str) -> str:
        """Return the confusion matrices of all models: a picture (.svg) or a table."""
        if ending == ".svg":
            return Drawing.stack([result.draw_confusion() for result in self.firsts]).to_svg()
        table = confusion_table(self.firsts)
        if ending in (".csv", ".tsv"):
            return as_csv(table, "," if ending == ".csv" else "\t")
        return as_markdown(table) if ending == ".md" else as_latex(table)

    def only_result(self) -> PredictionResult:
        """Return the result of one model with one seed; refuse several."""
        if len(self.models) > 1 or self._has_seeds:
            raise UsageError("--legacy-json holds one result. Pass one file and one column.")
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
        options: Any = {"per_class": self.request.per_class, "columns": self.columns}
        models = self.models.items()
        return {
            "signature": self.signature,
            "models": {name: [seed.to_dict(**options) for seed in seeds] for name, seeds in models},
            "baselines": [result.to_dict() for result in self.baselines],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            **self.diagnostics.to_dict(),
            **({} if self.gate is None else self.gate.to_dict()),
            "remarks": list(self.remarks),
        }


def _mark(table: Table, columns: Sequence[str], tested: Mapping[str, Sequence[Cell]]) -> Table:
    """Add the letter of each model in front, and its superscripts behind the values."""
    rows = []
    for first, *cells in table.rows:
        row = dict(zip(columns, tested.get(first.text, ()), strict=False))
        marks = (row[name].marks if name in row else "" for name in table.columns[1:])
        marked = (replace(cell, marks=each) for cell, each in zip(cells, marks, strict=True))
        rows.append((row.get("", Cell("")), first, *marked))
    return replace(table, columns=("", *table.columns), rows=tuple(rows))


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
    return _FileEvaluation(request, progress_bar or (lambda title: nullcontext())).run()


class _FileEvaluation:
    """Files of one request, evaluated one after the other."""

    def __init__(self, request: PredictionRequest, bar: ProgressBar) -> None:
        self.request, self.bar = request, bar
        self.train = [] if request.train is None else files.read_labels(request.train)
        self.train_users: list[str] | None = None
        if request.train_users is not None:
            labels = files.read_labels(request.train_users)
            self.train_users = _as_users(labels, "--train-users")
        self.notes: list[str] = []
        self.clusters = ""
        self.users: list[str] | None = None

    def run(self) -> ModelResults:
        """Evaluate every file, then compare the models and look at them as asked."""
        request, models = self.request, dict[str, list[PredictionResult]]()
        targets = None if request.targets is None else files.read_labels(request.targets)
        first: files.PredictionFile | None = None
        columns: tuple[str, ...] = ()
        diagnostics = Diagnostics()
        for model, path in _without_duplicates(request.named_files(), self.notes):
            columns_read = {key: getattr(request, key) for key in ("candidates", "target", "ids")}
            read = files.read_prediction_file(path, targets=targets, **columns_read)
            if request.users is not None:  # as text: a CSV holds nothing else
                column = self._join(read, request.users, "--users")
                self.clusters = column.name or "user"
                self.users = _as_users(column.values, "--users")
            groups = self._join_groups(read)
            columns = tuple(groups)
            for name, result in self._evaluate_file(model, read, groups):
                models.setdefault(name, []).append(result)
            if request.confidence and model not in diagnostics.confidence:
                diagnostics.confidence[model] = self._evaluate_confidence(read, model)
            if first is None:
                first, users_of_first = read, self.users
        if first is None:
            raise UsageError("No file to evaluate. Pass one.")
        self.users = users_of_first
        firsts = [results[0] for results in models.values()]
        baselines = self._evaluate_baselines(first, firsts[0])
        if baselines:
            # Remarks on the join with training; those of the model itself stand beside it.
            remarks = firsts[0].scores.remarks
            joined = (note for note in baselines[-1].scores.remarks if note not in remarks)
            self.notes += [f"baselines: {note}" for note in joined]
        if request.baseline is not None and len(models) < 2:
            raise UsageError("--baseline needs other models. Pass their files.")
        several = sum(map(len, models.values())) > 1
        comparison = compare_models(models, baseline=request.baseline) if several else None
        if request.coordinates is not None:
            coordinates = files.read_coordinates(request.coordinates)
            for result in firsts:
                classes = _as_places(result.predicted), _as_places(result.targets), coordinates
                shared: Any = {"users": result.users, "allow_mismatch": request.allow_mismatch}
                errors = distance_errors(*classes, name=result.name, **shared)
                diagnostics.distances[result.name] = errors
        if request.predictability:
            predictability = measure_predictability(self.train, self.train_users)
            diagnostics = replace(diagnostics, predictability=predictability)
        notes = list(dict.fromkeys(self.notes))
        return ModelResults(request, models, baselines, columns, comparison, diagnostics, notes)

    def _join(self, read: files.PredictionFile, source: str, option: str) -> files.JoinedColumn:
        column = read.join(source, option, allow=self.request.allow_mismatch)
        self.notes += [f"{option}: {remark}" for remark in column.remarks]
        return column

    def _owners(self) -> dict[str, Any]:
        """Return users of training and of samples, where those of training are known."""
        owners = {"users": self.train_users, "sample_users": self.users}
        return {} if self.train_users is None else owners

    def _join_groups(self, read: files.PredictionFile) -> dict[str, Any]:
        """Return {column: {sample id: group}} of every column of --by, and of --new-places."""
        groups: dict[str, Any] = {}
        for source in self.request.by:
            column = self._join(read, source, "--by")
            groups[column.name or "group"] = read.by_id(column.values)
        if self.request.new_places:
            labels = list(read.targets), _as_kind_of(read.targets, self.train)
            shared = {**self._owners(), "allow_mismatch": self.request.allow_mismatch}
            groups["place"] = read.by_id(mark_new_places(*labels, **shared))
        return groups

    def _with_users(self, read: files.PredictionFile, groups: dict[str, Any]) -> dict[str, Any]:
        """Return arguments that name the groups, and the clusters among them."""
        if self.users is None:
            return {"groups": groups or None}
        users = read.by_id(self.users)
        same = {id: str(group) for id, group in groups.get(self.clusters, users).items()}
        if same != users:
            raise UsageError(
                f"--by and --users name different columns {self.clusters!r}. Rename one."
            )
        return {"groups": {**groups, self.clusters: users}, "clusters": self.clusters}

    def _evaluate_file(
        self, model: str, read: files.PredictionFile, groups: dict[str, Any]
    ) -> Iterator[tuple[str, PredictionResult]]:
        """Yield name and result of the scores, or of each column of candidates."""
        request = self.request
        measures = (*request.measures, *(f"Success@{k}" for k in request.ks))
        if request.ks and not request.measures:
            top = max(request.ks)
            measures = (*measures, f"RR@{top}" if read.candidates else "RR", f"nDCG@{top}")
        shared: dict[str, Any] = {
            **self._with_users(read, groups),
            "conventions": request.rules,
            "measures": measures or None,
        }
        if not read.candidates:
            batches = self._rank_scores(read)
            yield model, batches.result(name=model, class_names=read.class_names, **shared)
        for column, lists in read.candidates.items():
            name = model
            if len(read.candidates) > 1:
                name = column if len(request.files) == 1 else f"{model}/{column}"
            shared |= {key: getattr(request, key) for key in ("n_classes", "allow_mismatch")}
            shared |= {"name": name, "query_ids": read.query_ids}
            yield name, evaluate_candidates(lists, read.targets, **shared)

    def _rank_scores(self, read: files.PredictionFile) -> Accumulator:
        if self.request.n_classes is not None:
            raise UsageError("--n-classes applies to lists only. Omit it for scores.")
        targets, done = read.target_numbers, 0
        with self.bar(f"ranking {os.path.basename(read.name)}") as progress:
            batches = Accumulator(threads=self.request.threads, progress=progress)
            if read.batches is None:
                batches.add(read.scores, targets, query_ids=read.query_ids)
                return batches
            for scores in read.batches():
                rows = slice(done, done + len(scores))
                ids = None if read.query_ids is None else read.query_ids[rows]
                batches.add(scores, targets[rows], query_ids=ids)
                done += len(scores)
        if done != len(targets):
            raise MismatchError(f"{read.name} has {done} rows, {len(targets)} targets. Align them.")
        return batches

    def _evaluate_confidence(self, read: files.PredictionFile, name: str) -> ConfidenceResult:
        """Evaluate the confidence of a file's scores, batch by batch where it is read so.

        Batches are read twice, because all rows decide what the scores are unless stated.
        """
        if read.candidates:
            raise UsageError(f"{read.name} holds lists. --confidence needs scores or logits.")
        kind = decide_score_kind(read.score_batches(), self.request.scores, place=read.name)
        targets, parts, done = read.target_numbers, [], 0
        for scores in read.score_batches():
            parts.append(Confidence.of(scores, targets[done : done + len(scores)], kind=kind))
            done += len(scores)
        return evaluate_confidence(Confidence.merge(parts), targets, name=name, users=self.users)

    def _evaluate_baselines(
        self, read: files.PredictionFile, result: PredictionResult
    ) -> list[PredictionResult]:
        request = self.request
        if request.train is None:
            return []
        previous = history = None
        if request.previous is not None:
            column = self._join(read, request.previous, "--previous")
            labels = _as_kind_of(read.targets, column.values)
            previous = [None if label in ("", None) else label for label in labels]
        if request.history is not None:
            column = self._join(read, request.history, "--history")
            rows = files.as_lists(column.values, request.history, read.name)
            history = [_as_kind_of(read.targets, row) if row else [] for row in rows]
        return evaluate_baselines(
            _as_kind_of(read.targets, self.train),
            read.targets,
            measures=result.scores.measures,
            n_classes=result.n_classes or None,
            previous=previous,
            history=history,
            **self._owners(),
            **self._with_users(read, {}),
            query_ids=read.query_ids,
            conventions=request.rules,
            allow_mismatch=request.allow_mismatch,
        )


def _without_duplicates(
    named_files: list[tuple[str, str]], notes: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield the files without copies: equal bytes are one seed of a model."""
    seen: dict[tuple[str, str, str | None], str] = {}
    counts = Counter(model for model, _ in named_files)
    for model, path in named_files:
        if counts[model] > 1:
            file, array = split_array(path)
            key = (model, digest_of_file(file), array)
            if key in seen:
                notes.append(f"{path} repeats {seen[key]} exactly: not counted as a seed")
                continue
            seen[key] = path
        yield model, path


def _as_users(values: list[Any], option: str) -> list[str]:
    """Return users as text; refuse samples without one."""
    if absent := sum(value is None or value == "" for value in values):
        raise UsageError(f"{option}: {absent:,} of {len(values):,} rows lack a user. Fill them.")
    return [str(user) for user in checks.check_labels(values, option).tolist()]


def _as_places(classes: Any) -> list[str | None]:
    """Return classes as text, as the file of coordinates has them."""
    return [None if label in (-1, "") else str(label) for label in classes.tolist()]


def _as_kind_of(targets: Any, labels: list[Any]) -> list[Any]:
    """Convert labels to the targets' kind, text or numbers; CSV holds text only."""
    if any(isinstance(target, str) for target in list(targets)[:1]):
        return [str(label) if isinstance(label, int) else label for label in labels]
    if not all(isinstance(label, str) for label in labels):
        return labels
    wrong = next((label for label in labels if label and parse_whole(label) is None), None)
    if wrong is not None:
        raise UsageError(f"The targets are class numbers, but a label is {wrong!r}. Use one kind.")
    return [int(label) if label else None for label in labels]
