"""Result files of next-location projects: a folder of JSON becomes one table of fractions.

Each file shows the units of its values, or they are declared, or left out; each result is of one
set of samples (dataset, split, how many), and only results of one set are averaged or compared.
What contradicts the counts in the same file, or arithmetic itself, is reported, not repaired.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.core.checks import check_choice
from assay.core.numbers import LARGEST_WHOLE, finite_or_none
from assay.errors import AssayError, FormatError, StorageError, UsageError
from assay.io.json_text import parse_json
from assay.io.streams import read_text
from assay.tasks.prediction.imported import ImportedResult, ImportedResults
from assay.tasks.prediction.result_names import (
    SPLITS,
    Configurations,
    PathPattern,
    ResultName,
    known_split,
    name_result,
    tell_models_apart,
)
from assay.tasks.prediction.units import (
    CUTS,
    MEASURES,
    RATES,
    ROUNDED,
    UNITS,
    broken_laws,
    possible_units,
    scaled,
)

__all__ = ["import_results"]

# Other spellings of a key in files that are around.
_ALIASES = {
    "ndcg@10": "ndcg",
    "f1_weighted": "f1",
    "weighted_f1": "f1",
    "f1-score": "f1",
    "f1_score": "f1",
    "hit@1": "acc@1",
    **dict.fromkeys(("n", "total_samples", "num_samples", "n_samples", "samples"), "total"),
}
_COUNTS = {**{f"correct@{k}": f"Success@{k}" for k in CUTS}, "rr": "RR"}


@dataclass
class _Findings:
    unit: str | None
    f1_unit: str | None
    split: str | None
    others: Counter[str] = field(default_factory=Counter)
    results: list[ImportedResult] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    duplicates: list[tuple[str, str]] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    names: list[ResultName] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    configurations: Configurations = field(default_factory=Configurations)


def import_results(
    folder: str | os.PathLike[str],
    *,
    unit: str | None = None,
    f1_unit: str | None = None,
    pattern: str | Sequence[str] = (),
    split: str | None = None,
    baseline: str | None = None,
    pairs: Iterable[tuple[str, str]] = (),
) -> ImportedResults:
    """Read the .json files of a folder and its folders; keys are acc@k, mrr, ndcg, f1 or counts.

    `unit`, percent or fraction, is that of values of which no file shows it; `f1_unit` that of F1,
    which is often in the other one. `pattern` chooses files by the end of their path, with wild
    cards and {model}, {seed}, {split}, {dataset}; `split` results by what was predicted. Models are
    compared with `baseline`, or in `pairs`; without either all of them, if they are few.
    """
    for name, value in (("unit", unit), ("f1_unit", f1_unit)):
        if value is not None:
            check_choice(value, UNITS, name)
    if split is not None:
        split = SPLITS[check_choice(split, tuple(SPLITS), "split")]
    found = _Findings(unit, f1_unit or unit, split)
    patterns = [pattern] if isinstance(pattern, str) else list(pattern)
    for path, said in _result_files(os.fspath(folder), patterns, found.configurations):
        try:
            _add_file(found, os.fspath(folder), path, said)
        except StorageError:
            raise
        except AssayError as error:
            found.unreadable.append(str(error))
    _check_split(found)
    imported = ImportedResults(
        tuple(_named_results(found)),
        tuple(found.empty),
        tuple(found.duplicates),
        tuple(found.contradictions),
        tuple(found.unreadable),
        found.unit,
        found.f1_unit,
        found.others.total(),
    )
    return imported.compare(baseline=baseline, pairs=pairs)


def _result_files(
    folder: str, patterns: Sequence[str], configurations: Configurations
) -> list[tuple[str, dict[str, str]]]:
    """The files to read, and what a pattern says of each; what is hidden are copies of editors."""
    if not os.path.isdir(folder):
        raise UsageError(f"{folder} is not a folder. Give the folder that holds the result files.")
    compiled = [PathPattern(pattern) for pattern in patterns] or [PathPattern("*.json")]
    found, n_files = [], 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        configurations.note(place, names)
        for name in sorted(name for name in names if name.endswith(".json")):
            n_files += 1
            path = os.path.join(place, name)
            inside = os.path.relpath(path, folder).replace(os.sep, "/")
            said = next((m for one in compiled if (m := one.match(inside)) is not None), None)
            found += [] if said is None else [(path, said)]
    if n_files and not found:
        raise UsageError(
            f"None of the {n_files} .json files in {folder} matches {' or '.join(patterns)}. The "
            "pattern is compared with the end of each path: 'test_*.json', '{model}_{seed}/*.json'."
        )
    if not found:
        raise FormatError(f"{folder} holds no .json files. Is it the right folder?")
    return found


def _named_results(found: _Findings) -> list[ImportedResult]:
    """The results under names that tell apart what is no repetition of one model."""
    names = tell_models_apart(found.names, found.folders, found.configurations)
    return [
        replace(one, model=name.model, seed=name.seed)
        for one, name in zip(found.results, names, strict=True)
    ]


def _check_split(found: _Findings) -> None:
    if found.others and not found.results:
        known = (split or "of unknown split" for split in sorted(found.others))
        raise UsageError(
            f"No result is of the split {found.split}; they are {', '.join(known)}. Splits are "
            "told by a key split, or by test, val or train in names of files and folders."
        )


def _add_file(found: _Findings, folder: str, path: str, said: Mapping[str, str]) -> None:
    data = parse_json(read_text(path), path)
    if not isinstance(data, dict):
        raise FormatError(f"{path}: expected a JSON object of results, found {repr(data)[:40]}.")
    parts = list(_parts(data, (), {}, path))
    if not parts:
        found.empty.append(path)
        return
    print_of = json.dumps(data, sort_keys=True)
    if print_of in found.seen:
        found.duplicates.append((path, found.seen[print_of]))
        return
    found.seen[print_of] = path
    shown = _shown_in_file(parts)
    for part in parts:
        name = _name(folder, path, part, said)
        if found.split not in (None, name.split):
            found.others[name.split] += 1
            continue
        found.names.append(name)
        found.folders.append(os.path.dirname(path))
        found.results.append(_result(found, path, part, shown, name))


def _name(folder: str, path: str, part: _ResultPart, said: Mapping[str, str]) -> ResultName:
    """By the path, and by what the pattern or the file itself says of it."""
    inside = os.path.relpath(path, folder).removesuffix(".json").replace(os.sep, "/")
    name = name_result(inside, part.keys, os.path.basename(os.path.abspath(folder)))
    if model := said.get("model"):
        keys = [key for key in part.keys if key.lower() not in SPLITS]
        name = replace(name, model=(whole := "/".join((model, *keys))), run=whole)
    told = {**said, **part.said}
    return replace(
        name,
        seed=told.get("seed") or name.seed,
        split=known_split(told.get("split") or name.split),
        dataset=told.get("dataset", ""),
    )


@dataclass(frozen=True)
class _ResultPart:
    """Numbers at some depth of a file: the keys that lead there, and what is said of them."""

    numbers: dict[str, float]
    keys: tuple[str, ...]
    said: dict[str, str]


def _parts(
    data: Any, keys: tuple[str, ...], said: dict[str, str], place: str
) -> Iterator[_ResultPart]:
    """Each object with results; `dataset`, `split` and `seed` hold for all that is inside."""
    if isinstance(data, list):
        data = {str(number): value for number, value in enumerate(data)}
    if not isinstance(data, dict):
        return
    own = {key: data[key] for key in ("dataset", "split") if isinstance(data.get(key), str)}
    if isinstance(data.get("seed"), int | str):
        own["seed"] = str(data["seed"])
    said = {**said, **own}
    if numbers := _numbers(data, place):
        yield _ResultPart(numbers, keys, said)
    for key, value in data.items():
        yield from _parts(value, (*keys, key), said, place)


def _numbers(data: Mapping[str, Any], place: str) -> dict[str, float]:
    """The known keys with a number; one that no rate or count can be is refused."""
    found = {}
    for key, value in data.items():
        name = key.strip().lower()
        name = _ALIASES.get(name, name)
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if real and (name in RATES or name in _COUNTS or name == "total"):
            number = finite_or_none(value)
            if number is None or abs(number) > LARGEST_WHOLE:
                raise FormatError(f"{place}: {key} is beyond 10^15, no rate and no count.")
            found[name] = number
    return {} if set(found) <= {"total"} else found


def _shown_in_file(parts: list[_ResultPart]) -> dict[str, str]:
    """The unit of each family that some result of a file shows, if all that do agree."""
    found: dict[str, set[str]] = {}
    for part in parts:
        for family, units in possible_units(*_possible("", part.numbers, [])).items():
            found.setdefault(family, set()).update(units if len(units) == 1 else ())
    return {family: next(iter(units)) for family, units in found.items() if len(units) == 1}


def _result(
    found: _Findings, path: str, part: _ResultPart, shown: Mapping[str, str], name: ResultName
) -> ImportedResult:
    place = f"{path}, {'/'.join(part.keys)!r}" if part.keys else path
    rates, counted = _possible(place, part.numbers, found.contradictions)
    units = _chosen_units(place, rates, counted, found, shown)
    values = {
        RATES[key][0]: scaled(value, units[RATES[key][1]])
        for key, value in rates.items()
        if RATES[key][1] in units
    }
    for measure, value in counted.items():
        stated = values.setdefault(measure, value)
        if abs(stated - value) > ROUNDED:
            found.contradictions.append(
                f"{place}: {measure} is {stated:.6g} as stated and {value:.6g} by its counts"
            )
    found.contradictions.extend(f"{place}: {words}" for words in broken_laws(values))
    total = part.numbers.get("total", 0.0)
    return ImportedResult(
        place,
        name.model,
        {measure: values[measure] for measure in MEASURES if measure in values},
        int(total) if total > 0 else None,
        name.split,
        name.dataset,
        units,
    )


def _possible(
    place: str, numbers: Mapping[str, float], contradictions: list[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """The rates as they stand, and fractions from the counts; what cannot be is named."""
    rates = {key: numbers[key] for key in RATES if key in numbers}
    for key, value in list(rates.items()):
        if not 0 <= value <= 100 * (1 + 1e-9):
            contradictions.append(
                f"{place}: {key} is {value:g}, neither a fraction nor a percentage; left out"
            )
            del rates[key]
    counted = _from_counts(place, numbers, contradictions)
    total = numbers.get("total", 0.0)
    if "ndcg" in numbers and total > 0 and not any(key in rates for key in ("mrr", "acc@1")):
        summed = numbers["ndcg"] / total  # beside counts alone this one is a sum, too
        if 0 <= summed <= 1 and not list(broken_laws({**counted, "nDCG@10": summed})):
            rates.pop("ndcg", None)
            counted["nDCG@10"] = summed
    return rates, counted


def _from_counts(
    place: str, numbers: Mapping[str, float], contradictions: list[str]
) -> dict[str, float]:
    total = numbers.get("total", 0.0)
    counts = {name: numbers[key] for key, name in _COUNTS.items() if key in numbers}
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


def _chosen_units(
    place: str,
    rates: Mapping[str, float],
    counted: Mapping[str, float],
    found: _Findings,
    shown: Mapping[str, str],
) -> dict[str, str]:
    """The unit that a family shows, here or elsewhere in its file, or else the declared one.

    Percent that never exceeds 1 is not believed on a declaration: a whole file of fractions would
    pass for a model that is a hundred times worse.
    """
    chosen, unsure = {}, []
    for family, units in possible_units(rates, counted).items():
        declared = found.f1_unit if family == "f1" else found.unit
        if len(units) == 1 or shown.get(family) in units:
            chosen[family] = units[0] if len(units) == 1 else shown[family]
        elif declared == "fraction":
            chosen[family] = declared
        else:
            unsure += [key for key in rates if RATES[key][1] == family]
    if unsure:
        found.contradictions.append(
            f"{place}: {', '.join(f'{key} {rates[key]:g}' for key in unsure)}: fractions, or "
            "percentages below 1? Nothing in the file shows it; left out. Declare the unit "
            "fraction, or add the counts (correct@1, total)"
        )
    return chosen
