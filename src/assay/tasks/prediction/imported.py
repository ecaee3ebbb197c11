"""Results of other projects as values: what was read, what to know about it, and its tables.

Only results of one set of samples (dataset, split, how many) are averaged or compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from assay import __version__
from assay.arrays import numbers_or_none
from assay.tables.table import Table
from assay.tasks.prediction.seeds import SeedReport, compare_seed_means
from assay.tasks.prediction.tables import import_table, seed_table, welch_table
from assay.tasks.prediction.units import MEASURES

__all__ = ["ImportedResult", "ImportedResults"]

_SHOWN = 8  # names in a remark


@dataclass(frozen=True)
class ImportedResult:
    """One result: where it stands, its model, its set of samples, and its values as fractions.

    `units` tells in which unit each family of columns (acc, mrr, ndcg, f1) was read.
    """

    path: str
    model: str
    values: dict[str, float]
    total: int | None = None
    split: str = ""
    dataset: str = ""
    units: dict[str, str] = field(default_factory=dict)

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
    `contradictions` name the file, the value and what it contradicts.
    """

    results: tuple[ImportedResult, ...]
    empty: tuple[str, ...] = ()
    duplicates: tuple[tuple[str, str], ...] = ()
    contradictions: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    unit: str | None = None
    f1_unit: str | None = None

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
        reports = [
            compare_seed_means(
                {model: _means_of(group) for model, group in models.items()}, level=level, data=data
            )
            for data, models in self._repeated().items()
        ]
        rows = chain.from_iterable(report.rows for report in reports)
        return SeedReport(tuple(rows), tuple(test for one in reports for test in one.welch))

    def _repeated(self) -> dict[str, dict[str, list[ImportedResult]]]:
        """{set of samples: {model: its results}}, where a model has several."""
        found: dict[str, dict[str, list[ImportedResult]]] = {}
        for one in self.results:
            found.setdefault(one.data, {}).setdefault(one.model, []).append(one)
        several = {
            data: {model: group for model, group in models.items() if len(group) > 1}
            for data, models in found.items()
        }
        return {data: models for data, models in several.items() if models}

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
            *self._about_units(),
            *self._about_samples(),
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
        groups = [
            f"{model} ({len(group)})"
            for models in self._repeated().values()
            for model, group in models.items()
        ]
        if groups:
            more = f", … ({len(groups)} in all)" if len(groups) > _SHOWN else ""
            yield f"taken for seeds of one model by their names: {', '.join(groups[:_SHOWN])}{more}"

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
