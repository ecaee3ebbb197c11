"""Result files of next-location projects: a folder of JSON becomes one table of fractions.

The unit of a file is declared by whoever imports it, never guessed; what contradicts the
declaration, the counts in the same file, or arithmetic itself is reported, not repaired.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from assay import __version__
from assay.arrays import numbers_or_none
from assay.core.checks import check_choice
from assay.errors import AssayError, FormatError, StorageError, UsageError
from assay.io.json_text import parse_json
from assay.io.streams import read_text
from assay.tables.table import Table
from assay.tasks.prediction.seeds import SeedReport, compare_seed_means
from assay.tasks.prediction.tables import import_table, seed_table, welch_table

__all__ = ["CUTS", "UNITS", "ImportedResult", "ImportedResults", "import_results"]

UNITS = ("percent", "fraction")
CUTS = (1, 3, 5, 10)  # the cut-offs of next-location result files
MEASURES = (*(f"Success@{k}" for k in CUTS), "RR", "nDCG@10", "F1(avg=weighted)")

# Other spellings of a key in files that are around.
_ALIASES = {
    "ndcg@10": "ndcg",
    "f1_weighted": "f1",
    "weighted_f1": "f1",
    "f1-score": "f1",
    "f1_score": "f1",
    "hit@1": "acc@1",
    "n": "total",
}
_RATES = {
    **{f"acc@{k}": f"Success@{k}" for k in CUTS},
    "mrr": "RR",
    "ndcg": "nDCG@10",
    "f1": "F1(avg=weighted)",
}
_COUNTS = {**{f"correct@{k}": f"Success@{k}" for k in CUTS}, "rr": "RR"}
_SEED = re.compile(r"[-_. ]*(?:seed|run)?[-_. ]*\d+$", re.I)
_LARGEST = 1e300
_ROUNDED = 6e-5  # files hold percentages with two digits
# What holds for every ranking of one target per sample.
_LAWS = [
    *((f"Success@{a}", f"Success@{b}") for a, b in combinations(CUTS, 2)),
    ("Success@1", "RR"),
    ("Success@1", "nDCG@10"),
    ("nDCG@10", "Success@10"),
]


@dataclass(frozen=True)
class ImportedResult:
    """One result: where it stands, which model it belongs to, and its values as fractions."""

    path: str
    model: str
    values: dict[str, float]
    total: int | None = None


@dataclass(frozen=True)
class ImportedResults:
    """All results of a folder, and remarks on the files that hold none.

    `empty` files hold no result, `duplicates` are (file, the file it repeats) and count once,
    `contradictions` name the file, the value and what it contradicts.
    """

    results: tuple[ImportedResult, ...]
    empty: tuple[str, ...] = ()
    duplicates: tuple[tuple[str, str], ...] = ()
    contradictions: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    unit: str = "fraction"
    f1_unit: str = "fraction"

    @property
    def signature(self) -> str:
        """The units that were declared, and which version has read the files."""
        return f"imported|unit:{self.unit}|f1_unit:{self.f1_unit}|version:{__version__}"

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that at least one file has."""
        return tuple(name for name in MEASURES if any(name in r.values for r in self.results))

    def seeds(self, *, level: float = 0.95) -> SeedReport:
        """Mean ± standard deviation of each model, and Welch's test between models."""
        means: dict[str, dict[str, list[float]]] = {}
        for result in self.results:
            for name, value in result.values.items():
                means.setdefault(result.model, {}).setdefault(name, []).append(value)
        return compare_seed_means(means, level=level)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Everything to know about the files, a line each."""
        return (
            *(f"{path}: no results, left out" for path in self.empty),
            *(
                f"{path}: repeats {first} exactly, not counted again"
                for path, first in self.duplicates
            ),
            *self.unreadable,
            *self.contradictions,
        )

    def tables(self) -> list[Table]:
        """Every result; then means over seeds and Welch's tests, where there are any."""
        seeds = self.seeds()
        found = [import_table(self)]
        found += [seed_table(seeds)] if seeds.rows else []
        found += [welch_table(seeds)] if seeds.welch else []
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "signature": self.signature,
            "results": [
                {
                    "path": r.path,
                    "model": r.model,
                    "total": r.total,
                    "values": numbers_or_none(r.values),
                }
                for r in self.results
            ],
            "empty": list(self.empty),
            "duplicates": [{"path": path, "repeats": first} for path, first in self.duplicates],
            "contradictions": list(self.contradictions),
            "unreadable": list(self.unreadable),
            "seeds": self.seeds().to_dict(),
        }


@dataclass
class _Findings:
    results: list[ImportedResult] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    duplicates: list[tuple[str, str]] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)


def import_results(
    folder: str | os.PathLike[str], *, unit: str, f1_unit: str | None = None
) -> ImportedResults:
    """Read all .json files of a folder and its folders; `unit` is percent or fraction.

    `f1_unit` is for files in which F1 alone is in the other unit, as it often is. Keys are acc@k,
    mrr, ndcg and f1, or the counts correct@k, rr and total. Files in a folder of their own are
    seeds of one model; else a number at the end of the name is taken for the seed.
    """
    check_choice(unit, UNITS, "unit")
    scales = dict.fromkeys(_RATES, unit)
    scales["f1"] = check_choice(f1_unit or unit, UNITS, "f1_unit")
    found = _Findings()
    files = list(_json_files(os.fspath(folder)))
    if not files:
        raise FormatError(f"{os.fspath(folder)} holds no .json files. Is it the right folder?")
    for path in files:
        try:
            _add_file(found, os.fspath(folder), path, scales)
        except StorageError:
            raise
        except AssayError as error:
            found.unreadable.append(str(error))
    return ImportedResults(
        tuple(found.results),
        tuple(found.empty),
        tuple(found.duplicates),
        tuple(found.contradictions),
        tuple(found.unreadable),
        unit,
        f1_unit or unit,
    )


def _json_files(folder: str) -> Iterator[str]:
    if not os.path.isdir(folder):
        raise UsageError(f"{folder} is not a folder. Give the folder that holds the result files.")
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(place, name) for name in sorted(names) if name.endswith(".json"))


def _add_file(found: _Findings, folder: str, path: str, scales: Mapping[str, str]) -> None:
    data = parse_json(read_text(path), path)
    parts = list(_parts(data, path))
    if not parts:
        found.empty.append(path)
        return
    print_of = json.dumps(data, sort_keys=True)
    if print_of in found.seen:
        found.duplicates.append((path, found.seen[print_of]))
        return
    found.seen[print_of] = path
    for place, numbers, name in parts:
        model = _model_of(folder, path) + name
        found.results.append(_result(place, model, numbers, scales, found.contradictions))


def _parts(data: Any, path: str) -> Iterator[tuple[str, dict[str, float], str]]:
    """(place, numbers, suffix of the model's name) of each result in a file."""
    if not isinstance(data, dict):
        raise FormatError(f"{path}: expected a JSON object of results, found {repr(data)[:40]}.")
    numbers = _numbers(data)
    if numbers:
        yield path, numbers, ""
        return
    for key, value in data.items():
        if isinstance(value, dict) and (inner := _numbers(value)):
            yield f"{path}, {key!r}", inner, f"/{key}"


def _numbers(data: Mapping[str, Any]) -> dict[str, float]:
    """The known keys with a number."""
    found = {}
    for key, value in data.items():
        name = key.strip().lower()
        name = _ALIASES.get(name, name)
        if _is_number(value) and (name in _RATES or name in _COUNTS or name == "total"):
            found[name] = float(value)
    return {} if set(found) <= {"total"} else found


def _is_number(value: Any) -> bool:
    """Finite, and within what a float can hold."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and abs(value) < _LARGEST


def _model_of(folder: str, path: str) -> str:
    inside = os.path.relpath(path, folder)
    parent, stem = os.path.split(inside.removesuffix(".json"))
    return parent or _SEED.sub("", stem) or stem


def _result(
    place: str,
    model: str,
    numbers: dict[str, float],
    scales: Mapping[str, str],
    contradictions: list[str],
) -> ImportedResult:
    total = numbers.get("total")
    values = _from_rates(place, numbers, scales, contradictions)
    for name, value in _from_counts(place, numbers, contradictions).items():
        stated = values.setdefault(name, value)
        if abs(stated - value) > _ROUNDED:
            contradictions.append(
                f"{place}: {name} is {stated:.6g} as stated and {value:.6g} by its counts"
            )
    contradictions.extend(_broken_laws(place, values))
    ordered = {name: values[name] for name in MEASURES if name in values}
    return ImportedResult(place, model, ordered, None if total is None else int(total))


def _from_rates(
    place: str, numbers: dict[str, float], scales: Mapping[str, str], contradictions: list[str]
) -> dict[str, float]:
    values = {}
    sums_only = "total" in numbers and not any(key in numbers for key in ("mrr", "acc@1"))
    for key, name in _RATES.items():
        if key not in numbers or (key == "ndcg" and sums_only):
            continue
        value = numbers[key] / (100 if scales[key] == "percent" else 1)
        if not 0 <= value <= 1 + 1e-9:
            contradictions.append(
                f"{place}: {key} is {numbers[key]:g}, which is not a {scales[key]}; left out"
            )
            continue
        values[name] = value
    if scales["f1"] == "percent" and 0 < numbers.get("f1", 0) <= 1 < 100 * values.get(
        "Success@1", 0
    ):
        contradictions.append(
            f"{place}: f1 is {numbers['f1']:g}, declared as percent, beside an accuracy of "
            f"{100 * values['Success@1']:.4g} %. If it is a fraction, declare f1_unit='fraction'"
        )
    return values


def _from_counts(
    place: str, numbers: dict[str, float], contradictions: list[str]
) -> dict[str, float]:
    total = numbers.get("total", 0.0)
    counts = {name: numbers[key] for key, name in _COUNTS.items() if key in numbers}
    if "ndcg" in numbers and not any(key in numbers for key in ("mrr", "acc@1")):
        counts["nDCG@10"] = numbers["ndcg"]  # a file of sums holds this one as a sum, too
    if not total > 0:
        if counts and "total" in numbers:
            contradictions.append(f"{place}: total is {total:g}, but there are counts")
        return {}
    values = {}
    for name, count in counts.items():
        if 0 <= count <= total * (1 + 1e-9):
            values[name] = count / total
        else:
            contradictions.append(f"{place}: {count:g} of {total:g} for {name} is impossible")
    return values


def _broken_laws(place: str, values: Mapping[str, float]) -> Iterator[str]:
    for low, high in _LAWS:
        if low in values and high in values and values[low] > values[high] + _ROUNDED:
            yield (
                f"{place}: {low} ({values[low]:.4f}) is above {high} ({values[high]:.4f}), "
                "which no ranking can do"
            )
