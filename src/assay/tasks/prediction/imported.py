"""Results of other projects as values: what was read, what to know about it, and its tables.

Only results of one set of samples (dataset, split, how many) are averaged or compared.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any

from assay import __version__
from assay.arrays import numbers_or_none
from assay.core.text import did_you_mean
from assay.errors import UsageError
from assay.tables.table import Table
from assay.tasks.prediction.seeds import (
    SeedReport,
    SeedRow,
    WelchRow,
    compare_pairs,
    spread_over_seeds,
)
from assay.tasks.prediction.tables import import_table, seed_table, welch_table
from assay.tasks.prediction.units import MEASURES

__all__ = ["MOST_MODELS", "ImportedResult", "ImportedResults"]

_SHOWN = 8  # names in a remark
MOST_MODELS = 20  # of which all pairs are compared without being asked for


@dataclass(frozen=True)
class ImportedResult:
    """One result: where it stands, its model, its set of samples, and its values as fractions.

    `units` tells in which unit each family of columns (acc, mrr, ndcg, f1) was read; `seed` what
    tells this repetition of the model from others: its seed, or when it began.
    """

    path: str
    model: str
    values: dict[str, float]
    total: int | None = None
    split: str = ""
    dataset: str = ""
    units: dict[str, str] = field(default_factory=dict)
    seed: str = ""

    @property
    def data(self) -> str:
        """The set of samples in words: results of other sets are never averaged with it.

        >>> ImportedResult("a.json", "a", {}, 3502, "test", "geolife").data
        'geolife, test, 3502 samples'
        """
        count = "unknown number of samples" if self.total is None else f"{self.total} samples"
        return ", ".join(filter(None, (self.dataset, self.split, count)))


@dataclass(frozen=True)
class ImportedResults:
    """All results of a folder, and remarks on the files that hold none.

    `empty` files hold no result, `duplicates` are (file, the file it repeats) and count once,
    `contradictions` name the file, the value and what it contradicts. `n_other_splits` results
    were not asked for. Models are compared with `baseline`, or in `pairs`; see `compare`.
    """

    results: tuple[ImportedResult, ...]
    empty: tuple[str, ...] = ()
    duplicates: tuple[tuple[str, str], ...] = ()
    contradictions: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    unit: str | None = None
    f1_unit: str | None = None
    n_other_splits: int = 0
    baseline: str | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    _reports: dict[float, SeedReport] = field(default_factory=dict, repr=False, compare=False)

    def compare(
        self, *, baseline: str | None = None, pairs: Iterable[tuple[str, str]] = ()
    ) -> ImportedResults:
        """The same results, compared with one model or in the pairs named.

        Without either, all models with several seeds are compared, up to `MOST_MODELS` of them.
        """
        chosen = tuple((self._find_model(a), self._find_model(b)) for a, b in pairs)
        if chosen and baseline is not None:
            raise UsageError("A baseline and pairs exclude each other: name one of them.")
        base = None if baseline is None else self._find_model(baseline)
        return replace(self, baseline=base, pairs=chosen, _reports={})

    def _find_model(self, name: str) -> str:
        """A model by its name, or by the file or the folder of one of its results."""
        known = dict.fromkeys(one.model for one in self.results)
        if name in known:
            return name
        place = os.path.normpath(name)
        inside = [one.model for one in self.results if _lies_in(place, one.path)]
        if len(set(inside)) != 1:
            what = "one model" if inside else "a model, nor a file or folder of one"
            raise UsageError(
                f"{name!r} is not {what}; there are {len(known)}."
                f"{did_you_mean(name, known, most=2, fallback=5)}"
            )
        return inside[0]

    @property
    def signature(self) -> str:
        """The units that were declared, and which version has read the files."""
        unit, f1_unit = (one or "as-shown" for one in (self.unit, self.f1_unit))
        return f"imported|unit:{unit}|f1_unit:{f1_unit}|version:{__version__}"

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that at least one file has."""
        return tuple(name for name in MEASURES if any(name in r.values for r in self.results))

    def seeds(self, *, level: float = 0.95) -> SeedReport:
        """Mean ± standard deviation of each model with several results on one set of samples.

        Welch's test compares models on the same set only.
        """
        if level not in self._reports:
            self._reports[level] = self._report(level)
        return self._reports[level]

    def _report(self, level: float) -> SeedReport:
        rows: list[SeedRow] = []
        tests: list[WelchRow] = []
        for data, models in self._by_samples.items():
            means = {model: _means_of(group) for model, group in models.items()}
            repeated = {model: means[model] for model in means if len(models[model]) > 1}
            rows += spread_over_seeds(repeated, level, data)
            tests += compare_pairs(means, self._pairs_among(models), data)
        return SeedReport(tuple(rows), tuple(tests))

    @cached_property
    def _by_samples(self) -> dict[str, dict[str, list[ImportedResult]]]:
        """{set of samples: {model: its results, one of each seed}}."""
        found: dict[str, dict[str, dict[object, ImportedResult]]] = {}
        for place, one in enumerate(self.results):
            seeds = found.setdefault(one.data, {}).setdefault(one.model, {})
            seeds.setdefault(one.seed or place, one)
        return {
            data: {model: list(seeds.values()) for model, seeds in models.items()}
            for data, models in found.items()
        }

    def _pairs_among(self, models: Mapping[str, Sequence[object]]) -> list[tuple[str, str]]:
        """The pairs that were asked for; else all with several seeds, where these are few."""
        if self.pairs:
            return [(a, b) for a, b in self.pairs if a in models and b in models]
        if self.baseline is not None:
            others = (model for model in models if model != self.baseline)
            return [(one, self.baseline) for one in others if self.baseline in models]
        repeated = [model for model, group in models.items() if len(group) > 1]
        return list(combinations(repeated, 2)) if len(repeated) <= MOST_MODELS else []

    @property
    def remarks(self) -> tuple[str, ...]:
        """Everything to know about the files, a line each."""
        return (
            *_first_few([f"{path}: no results, left out" for path in self.empty], "empty"),
            *_first_few(
                [
                    f"{path}: repeats {first} exactly, not counted again"
                    for path, first in self.duplicates
                ],
                "duplicates",
            ),
            *self.unreadable,
            *self._about_units(),
            *self._about_samples(),
            *self._about_pairs(),
            *self.contradictions,
        )

    def _about_units(self) -> Iterator[str]:
        """Units that the files show and nobody declared, a line for each combination."""
        declared = {"f1": self.f1_unit}
        found: dict[str, list[str]] = {}
        for one in self.results:
            if any(unit != declared.get(key, self.unit) for key, unit in one.units.items()):
                words = ", ".join(f"{key} {unit}" for key, unit in one.units.items())
                found.setdefault(words, []).append(one.path)
        for words, paths in found.items():
            yield (
                f"units that the values show by themselves, in {len(paths)} of "
                f"{len(self.results)} results (first: {paths[0]}): {words}"
            )

    def _about_samples(self) -> Iterator[str]:
        """Which sets of samples there are, and what was taken for seeds."""
        sets = Counter(one.data for one in self.results)
        if len(sets) > 1:
            words = "; ".join(f"{data}: {count}" for data, count in sets.most_common(_SHOWN))
            more = f"; … ({len(sets)} in all)" if len(sets) > _SHOWN else ""
            yield f"results of other samples are not averaged or compared ({words}{more})"
        if self.n_other_splits:
            yield f"{self.n_other_splits} results of other splits were not asked for, left out"
        groups = [f"{group[0].model} ({len(group)})" for group in self._groups() if len(group) > 1]
        if groups:
            more = f", … ({len(groups)} in all)" if len(groups) > _SHOWN else ""
            yield f"taken for seeds of one model by their names: {', '.join(groups[:_SHOWN])}{more}"
        counted = {id(one) for group in self._groups() for one in group}
        again = [one for one in self.results if id(one) not in counted]
        if again:
            yield (
                f"{len(again)} results repeat a seed of their model and are not counted as further "
                f"seeds (first: {again[0].path}, seed {again[0].seed})"
            )

    def _groups(self) -> Iterator[list[ImportedResult]]:
        """The results of each model on each set of samples, one of each seed."""
        return chain.from_iterable(models.values() for models in self._by_samples.values())

    def _about_pairs(self) -> Iterator[str]:
        """Which comparisons there are none of, and why."""
        for data, models in self._by_samples.items():
            n = sum(len(group) > 1 for group in models.values())
            if n > MOST_MODELS and not self.pairs and self.baseline is None:
                yield (
                    f"{n} models on {data} make {math.comb(n, 2):,} pairs, and none was compared: "
                    "name a baseline, or the pairs"
                )
            if self.baseline is not None and self.baseline not in models:
                yield f"no result of {self.baseline} on {data}: nothing is compared there"
        for a, b in self.pairs:
            if not any(a in models and b in models for models in self._by_samples.values()):
                yield f"{a} and {b} have no samples in common and are not compared"

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
                    "dataset": r.dataset or None,
                    "split": r.split or None,
                    "total": r.total,
                    "seed": r.seed or None,
                    "units": r.units,
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


def _means_of(results: list[ImportedResult]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, value in chain.from_iterable(one.values.items() for one in results):
        found.setdefault(name, []).append(value)
    return found


def _lies_in(place: str, path: str) -> bool:
    inside = os.path.normpath(path)
    return inside == place or inside.startswith(place + os.sep)


def _first_few(lines: Sequence[str], key: str) -> Iterator[str]:
    """The first remarks of a kind; JSON lists all of them under `key`."""
    yield from lines[:_SHOWN]
    if len(lines) > _SHOWN:
        yield f"… and {len(lines) - _SHOWN} more like this; JSON lists all as {key!r}"
