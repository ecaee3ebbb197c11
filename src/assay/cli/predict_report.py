"""What `assay predict` found, as tables, words and plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from assay.cli.predict_request import Request
from assay.errors import UsageError
from assay.report.page import Page, Words
from assay.report.tables import Table
from assay.tasks import prediction_tables as tables
from assay.tasks.prediction import PredictionResult
from assay.tasks.prediction_legacy import legacy_json
from assay.tasks.prediction_seeds import SeedReport

__all__ = ["Evaluated"]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Models (each a list of seeds), baselines, and how the models compare."""

    request: Request
    models: dict[str, list[PredictionResult]]
    baselines: list[PredictionResult]
    column: str | None = None
    comparison: SeedReport | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def firsts(self) -> list[PredictionResult]:
        """The first seed of each model."""
        return [results[0] for results in self.models.values()]

    @property
    def signature(self) -> str:
        """The conventions, and which version computed the numbers."""
        return self.firsts[0].scores.signature

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        yield from self.notes
        for one in self.firsts:
            if one.n_without_target:
                yield f"{one.name}: samples without a target, left out: {one.n_without_target}"
            if one.repeated:
                yield (
                    f"{one.name}: places at which a list names a class again: {one.repeated}; "
                    "the first mention counts"
                )
            tied = one.scores.tied.any(axis=0)
            if tied.any():
                yield (
                    f"{one.name}: {tied.mean():.0%} of samples have a value that depends on ties "
                    f"(ties: {one.scores.conventions.ties})"
                )

    def page(self) -> Page:
        """The tables with words between them, for people."""
        page: Page = [tables.summary_table(self.models, self.baselines)]
        report = self.comparison
        if report is not None and report.paired is not None:
            page += [Words(words, "verdict") for words in report.paired.verdicts.values()]
            page += [Words(words) for words in report.paired.remarks]
        if report is not None and self._has_seeds:
            page.append(Words(report.advice))
        page += self._more_tables()
        return [*page, Words(self.signature, "signature")]

    def tables(self) -> list[Table]:
        """Everything that was asked for."""
        return [tables.summary_table(self.models, self.baselines), *self._more_tables()]

    def _more_tables(self) -> list[Table]:
        found = []
        if self.column is not None:
            found.append(tables.group_table(self.firsts, self.column))
        if self.comparison is not None and self._has_seeds:
            found.append(tables.seed_table(self.comparison))
            found += [tables.welch_table(self.comparison)] if self.comparison.welch else []
        if self.comparison is not None and self.comparison.paired is not None:
            found.append(self.comparison.paired.pair_table())
        found += [tables.rank_table(self.firsts)] if self.request.histogram else []
        found += [tables.class_table(self.firsts)] if self.request.per_class else []
        return found

    @property
    def _has_seeds(self) -> bool:
        return any(len(results) > 1 for results in self.models.values())

    def legacy(self) -> dict[str, Any]:
        """The old JSON of one model."""
        if len(self.models) > 1 or self._has_seeds:
            raise UsageError("--legacy-json holds one result. Give one file and one column.")
        return legacy_json(self.firsts[0])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        per_class = self.request.per_class
        return {
            "command": "predict",
            "signature": self.signature,
            "models": {
                name: [one.to_dict(per_class=per_class) for one in results]
                for name, results in self.models.items()
            },
            "baselines": [one.to_dict() for one in self.baselines],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "remarks": list(self.remarks),
        }
