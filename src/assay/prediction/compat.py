"""Functions and result files of the next-location projects, by their own names and shapes.

Their JSON is in percent; nothing else in Assay is. `legacy_json` writes it and `import_results`
reads it, from files that the caller names, in the unit that the caller states.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay import __version__
from assay.arrays import Floats, Ints, as_array, log2, numbers_or_none
from assay.comparison.paper import paper_page
from assay.core import checks
from assay.core.text import LARGEST_WHOLE, did_you_mean, finite_or_none
from assay.errors import FormatError, InputError, MismatchError, UsageError, ValueRangeError
from assay.io.plain_data import parse_json
from assay.io.streams import FilePath, read_text
from assay.prediction.result import SeedReport, compare_seed_means, for_people, name_in_field
from assay.search.engine.targets import ranks_and_best
from assay.stats.choices import CONFIDENCE
from assay.tables.table import Cell, Page, Table, Words, table_of

if TYPE_CHECKING:
    from assay.prediction.result import PredictionResult

__all__ = ["CUTS", "SUMS", "ImportedResults", "calculate_correct_total_prediction", "get_mrr"]
__all__ += ["get_ndcg", "get_performance_dict", "import_results", "legacy_json", "top_k_accuracy"]

CUTS = (1, 3, 5, 10)
SUMS = (*(f"correct@{k}" for k in CUTS), "rr", "ndcg", "total")

_WELCH_NOTE: Final = (
    "±: standard deviation over seeds. Superscripts: significantly better than the models with "
    f"these numbers (Welch t-test over seeds, not corrected; level {100 - 100 * CONFIDENCE:g} %)."
)


def calculate_correct_total_prediction(logits: Any, true_y: Any) -> tuple[Floats, Ints, Ints]:
    """Return sums over a batch of logits, the true classes, and the top-1 classes.

    The sums are correct@1, correct@3, correct@5, correct@10, the sum of reciprocal ranks, the sum
    of nDCG@10 and the number of samples; add them over batches and divide by the last. Ranks are
    over all classes; of equal logits the lower class comes first. Samples whose true class is −1
    are left out of all three.

    >>> sums, true, top1 = calculate_correct_total_prediction([[0.1, 0.7, 0.2]], [2])
    >>> sums.tolist()[:5], true.tolist(), top1.tolist()
    ([0.0, 1.0, 1.0, 1.0, 0.5], [2], [1])
    """
    targets = as_array(true_y)
    ranks, best = ranks_and_best(as_array(logits), targets)
    has_target = ranks.has_target
    rank = ranks.rank[has_target]
    hits = [int((rank <= k).sum()) for k in CUTS]
    sums = np.array([*hits, _sum_rr(rank), _sum_ndcg(rank, CUTS[-1]), len(rank)], np.float64)
    return sums, np.asarray(targets, np.int64)[has_target], best[has_target]


def top_k_accuracy(logits: Any, targets: Any, k: int) -> int:
    """Count the samples whose true class is among the first k.

    >>> top_k_accuracy([[0.1, 0.7, 0.2], [0.9, 0.1, 0.0]], [2, 2], 2)
    1
    """
    return int((_rank_targets(logits, targets) <= checks.check_cutoff(k)).sum())


def get_mrr(prediction: Any, targets: Any) -> float:
    """Return the sum of 1 / rank over a batch; divide it by the samples.

    >>> get_mrr([[0.1, 0.7, 0.2], [0.9, 0.1, 0.0]], [2, 0])
    1.5
    """
    return _sum_rr(_rank_targets(prediction, targets))


def get_ndcg(prediction: Any, targets: Any, k: int = 10) -> float:
    """Return the sum of nDCG@k over a batch; divide it by the samples.

    >>> round(get_ndcg([[0.1, 0.7, 0.2], [0.9, 0.1, 0.0]], [2, 0]), 4)
    1.6309
    """
    return _sum_ndcg(_rank_targets(prediction, targets), checks.check_cutoff(k))


def _rank_targets(logits: Any, targets: Any) -> Ints:
    ranks, _ = ranks_and_best(as_array(logits), as_array(targets))
    return ranks.rank[ranks.has_target]


def _sum_rr(ranks: Ints) -> float:
    distinct, counts = np.unique(ranks, return_counts=True)
    return math.fsum((counts / distinct).tolist())


def _sum_ndcg(ranks: Ints, k: int) -> float:
    distinct, counts = np.unique(ranks[ranks <= k], return_counts=True)
    return math.fsum((counts / log2(distinct + 1)).tolist())


def get_performance_dict(return_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Return percentages from the sums of all batches.

    Takes correct@1, correct@3, correct@5, correct@10, rr, ndcg (sums), total and, if it is there,
    f1 as a fraction. Gives the counts back with acc@1, acc@3, acc@5, acc@10, mrr, ndcg and f1, all
    in percent.

    >>> sums = {"correct@1": 1, "correct@3": 2, "correct@5": 2, "correct@10": 2,
    ...         "rr": 1.5, "ndcg": 1.63, "total": 2, "f1": 0.5}
    >>> perf = get_performance_dict(sums)
    >>> perf["acc@1"], perf["mrr"], perf["f1"]
    (50.0, 75.0, 50.0)
    """
    checks.require(return_dict, Mapping, "return_dict", "a dictionary of sums")
    sums = {key: _read_sum(return_dict, key) for key in SUMS}
    total = sums["total"]
    if not total > 0:
        raise ValueRangeError(f"total is {total:g}. Percentages need samples.")
    for key in SUMS[:-1]:
        if not 0 <= sums[key] <= total * (1 + 1e-9):
            raise ValueRangeError(f"{key} is {sums[key]:g} of {total:g} (total). Pass counts.")
    performance = {key: return_dict[key] for key in SUMS if key != "ndcg"}
    rates = {**{f"acc@{k}": f"correct@{k}" for k in CUTS}, "mrr": "rr", "ndcg": "ndcg"}
    performance |= {rate: 100 * sums[key] / total for rate, key in rates.items()}
    if "f1" in return_dict:
        f1 = _read_sum(return_dict, "f1")
        if not 0 <= f1 <= 1:
            raise ValueRangeError(f"f1 is {f1:g}. Pass a fraction from 0 to 1.")
        performance["f1"] = 100 * f1
    return performance


def _read_sum(sums: Mapping[str, Any], key: str) -> float:
    if key not in sums:
        raise MismatchError(f"return_dict lacks {key!r}. It holds: {', '.join(map(str, sums))}.")
    try:
        value = float(sums[key])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueRangeError(f"{key} must be a finite number, found {sums[key]!r}.")
    return value


def legacy_json(result: PredictionResult) -> dict[str, float]:
    """Return the result as the projects' JSON: percentages, F1 weighted by support."""
    named = {f"acc@{k}": f"Success@{k}" for k in CUTS}
    named |= {"mrr": f"RR@{result.depth}" if result.depth else "RR", "ndcg": "nDCG@10"}
    means = result.mean()
    absent = [measure for measure in named.values() if measure not in means]
    if absent:
        raise InputError(
            f"The old JSON needs {', '.join(named.values())}; {', '.join(absent)} was not computed."
        )
    percentages = {key: 100 * means[measure] for key, measure in named.items()}
    return {**percentages, "f1": 100 * result.confusion.f1("weighted")}


UNITS: Final = ("percent", "fraction")
# Files hold percentages with two digits, and the laws below add two of them.
_ROUNDING: Final = 1.2e-4
_RATES: Final = {
    **{f"acc@{k}": f"Success@{k}" for k in CUTS},
    "mrr": "RR",
    "ndcg": "nDCG@10",
    "f1": "F1(avg=weighted)",
}
_ABOUT: Final = ("dataset", "split")
_COUNTS: Final = {**{f"correct@{k}": f"Success@{k}" for k in CUTS}, "rr": "RR"}
_ALIASES: Final = {
    "ndcg@10": "ndcg",
    **dict.fromkeys(("f1_weighted", "weighted_f1", "f1-score", "f1_score"), "f1"),
    "hit@1": "acc@1",
    **dict.fromkeys(("n", "total_samples", "num_samples", "n_samples", "samples"), "total"),
}


@dataclass(frozen=True)
class ImportedResult:
    """One result file: its model, its values as fractions, and its samples as far as stated."""

    path: str
    model: str
    values: dict[str, float]
    total: int | None = None
    dataset: str | None = None
    split: str | None = None


@dataclass(frozen=True)
class ImportedResults:
    """Result files of several models, all of the same samples; `import_results` reads them.

    Args:
        results: A result per file, with its values as fractions.
        unit: Unit of the rates in the files.
        f1_unit: Unit of F1 in the files.
        baseline: The model that the others are compared with; None compares all pairs.
        duplicates: (file, the file of the same model that it repeats), which counts once.
        contradictions: Sentences that name the file, the value and what it contradicts.

    Example:
        results = import_results({"mhsa": ["seed1.json", "seed2.json"], "lstm": "lstm.json"})
        results.seeds().rows, results.contradictions
    """

    results: tuple[ImportedResult, ...]
    unit: str = "percent"
    f1_unit: str = "percent"
    baseline: str | None = None
    duplicates: tuple[tuple[str, str], ...] = ()
    contradictions: tuple[str, ...] = ()

    @property
    def signature(self) -> str:
        """The units of the files, and the version of Assay that read them."""
        return f"imported|unit:{self.unit}|f1_unit:{self.f1_unit}|version:{__version__}"

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that at least one file has."""
        stated = {measure for result in self.results for measure in result.values}
        return tuple(measure for measure in _RATES.values() if measure in stated)

    def seeds(self, *, level: float = 0.95) -> SeedReport:
        """Return mean ± sd of each model over its files, and Welch's test between models."""
        means: dict[str, dict[str, list[float]]] = {}
        for result in self.results:
            by_measure = means.setdefault(result.model, {})
            for measure, value in result.values.items():
                by_measure.setdefault(measure, []).append(value)
        totals = {result.total for result in self.results}
        samples = f"{totals.pop()} samples" if len(totals) == 1 and None not in totals else ""
        return compare_seed_means(means, level=level, data=samples, baseline=self.baseline)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Repeated files, files of unknown samples and contradictions, a line each."""
        repeated = "{}: repeats {} exactly, counted once"
        remarks = [repeated.format(*pair) for pair in self.duplicates]
        if unknown := [result.path for result in self.results if result.total is None]:
            share = f"{len(unknown)} of {len(self.results)} files"
            remarks.append(f"{share} lack the number of samples (first: {unknown[0]})")
        return (*remarks, *self.contradictions)

    def tables(self) -> list[Table]:
        """Return a row per file; then means over seeds and Welch's tests, where there are any."""
        report, measures = self.seeds(), self.measures
        rows = (
            (result.path, result.model, *map(result.values.get, measures), result.total)
            for result in self.results
        )
        tables = [table_of(("file", "model", *measures, "samples"), rows)]
        tables += [report.seed_table()] if any(row.n_seeds > 1 for row in report.rows) else []
        tables += [report.welch_table()] if report.welch else []
        return tables

    def paper(self) -> Page:
        """Return one table for a paper: models × measures in percent, with Welch's tests."""
        report = self.seeds()
        models = dict.fromkeys(row.model for row in report.rows)
        numbers = {model: str(number) for number, model in enumerate(models, 1)}
        beaten: dict[tuple[str, str], list[str]] = {}
        for each in report.welch:
            best, worst = (each.a, each.b) if each.difference > 0 else (each.b, each.a)
            if each.test.p <= 1 - CONFIDENCE:
                beaten.setdefault((best, each.measure), []).append(numbers[worst])
        cells = {}
        for row in report.rows:
            key, spread = (row.model, row.measure), f"±{100 * row.sd:.2f}" * (row.n_seeds > 1)
            marks = ",".join(beaten.get(key, ()))
            cells[key] = Cell(f"{100 * row.mean:.2f}{spread}", "figure", marks=marks)
        lines = [
            (numbers[model], model, *(cells.get((model, name)) for name in self.measures))
            for model in models
        ]
        table = replace(
            table_of(("", "Model", *map(name_in_field, self.measures)), lines),
            caption="Predicted classes, in percent.",
            label="tab:predict",
            notes=(_WELCH_NOTE,),
        )
        return paper_page(table, [Words(self.signature, "signature")])

    def page(self) -> Page:
        """Return the tables as people read them, and the signature."""
        return [*map(for_people, self.tables()), Words(self.signature, "signature")]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        results = [{**vars(part), "values": numbers_or_none(part.values)} for part in self.results]
        return {
            "signature": self.signature,
            "results": results,
            "duplicates": [{"path": path, "repeats": first} for path, first in self.duplicates],
            "contradictions": list(self.contradictions),
            "seeds": self.seeds().to_dict(),
        }


def import_results(
    files: Mapping[str, FilePath | Sequence[FilePath]],
    *,
    unit: str | None = None,
    f1_unit: str | None = None,
    baseline: str | None = None,
) -> ImportedResults:
    """Read result files of models: several files of one model are its seeds.

    A file is a JSON object with acc@k, mrr, ndcg and f1, or the counts correct@k, rr and total.

    Args:
        files: {model: its file, or a list of the files of its seeds}.
        unit: "percent" or "fraction". Without it, percent; files in which no rate exceeds 1 are
            then refused.
        f1_unit: The unit of F1, which many files hold as a fraction beside percentages. Without
            it, that of the other rates.
        baseline: The model that the others are compared with. Without it, all pairs are compared.

    Returns:
        The values as fractions, with means over seeds and Welch's test between models.

    Raises:
        FormatError: A file is not a JSON object of results.
        MismatchError: The files are of different numbers of samples, datasets or splits.
        UsageError: A unit or the baseline is unknown, or the unit is in doubt.
        ValueRangeError: A value is beyond the range of its unit, or a count above the total.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for seed, value in enumerate((29.61, 30.12)):
    ...     _ = (folder / f"{seed}.json").write_text(json.dumps({"acc@1": value}))
    >>> results = import_results({"mhsa": [folder / "0.json", folder / "1.json"]})
    >>> round(results.seeds().rows[0].mean, 5), results.seeds().rows[0].n_seeds
    (0.29865, 2)
    """
    checks.require(files, Mapping, "files", "{model: result files}")
    for name, value in (("unit", unit), ("f1_unit", f1_unit)):
        if value is not None:
            checks.check_choice(value, UNITS, name)
    if baseline is not None and baseline not in files:
        hint = did_you_mean(baseline, files, most=2, fallback=5)
        raise UsageError(f"The baseline {baseline!r} is not a model.{hint}")
    results: list[ImportedResult] = []
    duplicates: list[tuple[str, str]] = []
    contradictions: list[str] = []
    for model, paths in files.items():
        seen: dict[str, str] = {}
        for file in [paths] if isinstance(paths, str | os.PathLike) else paths:
            path = os.fspath(file)
            data = parse_json(read_text(path), path)
            text = json.dumps(data, sort_keys=True)
            if text in seen:
                duplicates.append((path, seen[text]))
                continue
            seen[text] = path
            result, broken = _parse_result(data, path, model, unit, f1_unit)
            results.append(result)
            contradictions += broken
    if not results:
        raise UsageError("No result files. Pass at least one per model.")
    _check_same_samples(results)
    units = unit or "percent", f1_unit or unit or "percent"
    problems = tuple(duplicates), tuple(contradictions)
    return ImportedResults(tuple(results), *units, baseline, *problems)


def _parse_result(
    data: Any, path: str, model: str, unit: str | None, f1_unit: str | None
) -> tuple[ImportedResult, list[str]]:
    """Return the result, and where its values contradict its counts or what a ranking can do."""
    if not isinstance(data, dict):
        raise FormatError(f"{path}: expected a JSON object of results, found {repr(data)[:40]}.")
    numbers = _read_numbers(data, path)
    if not numbers.keys() - {"total"}:
        raise FormatError(
            f"{path} holds no results: expected {', '.join((*_RATES, *_COUNTS))} at the top of the "
            f"file, found {checks.name_few(list(data)) if data else 'nothing'}."
        )
    counted = _divide_counts(numbers, path)
    rates = {key: numbers[key] for key in _RATES if key in numbers}
    if "nDCG@10" in counted:
        del rates["ndcg"]
    f1 = {"f1": rates.pop("f1")} if "f1" in rates else {}
    stated = _scale_rates(rates, path, unit, "--unit")
    stated |= _scale_rates(f1, path, f1_unit or unit, "--f1-unit")
    values = {**counted, **stated}
    contradictions = [
        f"{path}: {measure} is {stated[measure]:.6g} in the file, but {value:.6g} by its counts"
        for measure, value in counted.items()
        if measure in stated and abs(stated[measure] - value) > _ROUNDING
    ]
    contradictions += [f"{path}: {words}" for words in broken_laws(values)]
    total = numbers.get("total", 0.0)
    ordered = {measure: values[measure] for measure in _RATES.values() if measure in values}
    about = [data.get(key) if isinstance(data.get(key), str) else None for key in _ABOUT]
    n_samples = int(total) if total > 0 else None
    return ImportedResult(path, model, ordered, n_samples, *about), contradictions


def _read_numbers(data: Mapping[str, Any], path: str) -> dict[str, float]:
    """Return the numbers under known keys; refuse what no rate or count can be."""
    numbers = {}
    for key, value in data.items():
        name = key.strip().lower()
        name = _ALIASES.get(name, name)
        counts = name in _RATES or name in _COUNTS or name == "total"
        if not counts or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        number = finite_or_none(value)
        if number is None or abs(number) > LARGEST_WHOLE:
            raise FormatError(f"{path}: {key} is not a number up to 10^15. Write a count.")
        numbers[name] = number
    return numbers


def _scale_rates(
    rates: Mapping[str, float], path: str, unit: str | None, option: str
) -> dict[str, float]:
    """Return rates as fractions; percent is not assumed where no rate exceeds 1."""
    highest = max(rates.values(), default=0.0)
    if unit is None and 0 < highest <= 1:
        doubtful = ", ".join(f"{key} {value:g}" for key, value in rates.items())
        raise UsageError(
            f"{path}: {doubtful}: ambiguous unit. Pass {option} fraction or {option} percent."
        )
    scale, named = (1.0, "fraction") if unit == "fraction" else (100.0, "percentage")
    for key, value in rates.items():
        if not 0 <= value <= scale * (1 + 1e-9):
            raise ValueRangeError(
                f"{path}: {key} is {value:g}, which is not a valid {named} (0 to {scale:g}). "
                f"Correct it, or pass the other {option}."
            )
    return {_RATES[key]: value / scale for key, value in rates.items()}


def _divide_counts(numbers: Mapping[str, float], path: str) -> dict[str, float]:
    """Return counts divided by the number of samples."""
    total = numbers.get("total", 0.0)
    counts = {name: numbers[key] for key, name in _COUNTS.items() if key in numbers}
    # In a file of sums, as the projects add them up over batches, nDCG is a sum like the others.
    if "ndcg" in numbers and counts and not numbers.keys() & {"mrr", "acc@1"}:
        counts["nDCG@10"] = numbers["ndcg"]
    if counts and "total" in numbers and not total > 0:
        raise ValueRangeError(f"{path}: total is {total:g}. Write the number of samples.")
    for name, count in counts.items():
        if total and not 0 <= count <= total * (1 + 1e-9):
            raise ValueRangeError(f"{path}: {name} is {count:g} of {total:g}. Write a share of it.")
    return {name: count / total for name, count in counts.items()} if total else {}


def _check_same_samples(results: Sequence[ImportedResult]) -> None:
    """Refuse results whose files state other samples."""
    for key, what in (("total", "number of samples"), ("dataset", "dataset"), ("split", "split")):
        stated = [result for result in results if getattr(result, key) is not None]
        for other in stated[1:]:
            if getattr(other, key) != getattr(stated[0], key):
                raise MismatchError(
                    f"{stated[0].path} and {other.path} differ in the {what}: "
                    f"{getattr(stated[0], key)} and {getattr(other, key)}. Use results on the "
                    "same samples."
                )


def broken_laws(values: Mapping[str, float], slack: float = _ROUNDING) -> Iterator[str]:
    """Yield what no ranking of one target per sample can do, in words."""
    cuts = [(k, values[f"Success@{k}"]) for k in CUTS if f"Success@{k}" in values]
    unordered = [(low, high) for low, high in pairwise(cuts) if low[1] > high[1] + slack]
    for (k, share), (m, other) in unordered:
        yield f"Success@{k} ({share:.4f}) is above Success@{m} ({other:.4f})"
    if unordered or not cuts:
        return
    for name, (least, most) in _bound_measures(cuts).items():
        value = values.get(name, least)
        if not least - slack <= value <= most + slack:
            yield (f"{name} is {value:.4f}, but these accuracies imply {least:.4f} to {most:.4f}")


def _bound_measures(cuts: list[tuple[int, float]]) -> dict[str, tuple[float, float]]:
    """Return the least and the most that accuracies at cutoffs leave to other measures.

    A sample found between two cutoffs may stand at either end. Weighted F1 lies between
    2a²/(1 + a), where one class is always predicted, and 2a/(1 + a), where no prediction is wrong
    but those of classes that nobody has.
    """
    steps = [(0, 0.0), *cuts]
    gains = [(after - before, k, m) for (k, before), (m, after) in pairwise(steps)]
    last, share = cuts[-1]
    ranges = {}
    kinds = (("RR", float, math.inf), ("nDCG@10", lambda rank: math.log2(rank + 1), CUTS[-1]))
    for name, discount, deepest in kinds:
        most = [part / discount(k + 1) for part, k, _ in gains]
        most.append((1 - share) / discount(last + 1) if last < deepest else 0.0)
        least = math.fsum(part / discount(m) for part, _, m in gains)
        ranges[name] = (least, math.fsum(most))
    if cuts[0][0] == 1:
        a = cuts[0][1]
        ranges["F1(avg=weighted)"] = (2 * a * a / (1 + a), 2 * a / (1 + a))
    return ranges
