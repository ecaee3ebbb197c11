"""Descriptors of patches side by side: tables, comparisons, curves, plain data and records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.errors import MismatchError
from assay.runs.record import RunRecord
from assay.scoring.scores import Scores, signature_of
from assay.tables.page import Page, Words
from assay.tables.table import Table
from assay.tasks.descriptors.compare import compare_named
from assay.tasks.descriptors.hpatches import ProtocolResult, number_table
from assay.tasks.descriptors.patches import PatchResult
from assay.tasks.descriptors.pr_curves import PRCurve
from assay.tasks.descriptors.tables import category_data, category_table, timing_table

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison

__all__ = ["PatchReport"]


@dataclass(frozen=True, eq=False)
class PatchReport:
    """Results of one descriptor or several on the same patches; `timings` adds a table."""

    results: tuple[PatchResult, ...]
    timings: bool = False

    @property
    def signature(self) -> str:
        """The conventions and the settings behind the numbers."""
        first = self.results[0]
        settings = {"seed": first.seed, **first.resampling}
        return signature_of([one.result.scores for one in self.results], settings)

    @property
    def protocols(self) -> list[ProtocolResult]:
        """The results of HPatches' own tasks, where a split was asked for."""
        return [one.protocol for one in self.results if one.protocol is not None]

    @property
    def curves(self) -> list[PRCurve]:
        """Precision over recall of verification and matching."""
        return [curve for one in self.protocols for curve in one.curves]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Descriptors on the same patches, whole scenes resampled: a comparison for each number."""
        if len(self.results) < 2:
            return []
        judged: dict[str, list[Scores]] = {"patch AP": [one.result.scores for one in self.results]}
        if self.protocols:
            judged["matching AP"] = [one.matching for one in self.protocols]
            judged["retrieval AP"] = [one.retrieval for one in self.protocols]
        return [self._compare(name, scores) for name, scores in judged.items()]

    def _compare(self, name: str, scores: list[Scores]) -> Comparison:
        if len({one.result.query_set for one in self.results}) > 1:
            raise MismatchError(
                "These descriptors are of different patches, so their means are not comparable: "
                "each folder needs the same scenes and files, with as many patches."
            )
        names = [one.name for one in self.results]
        how = self.results[0].resampling
        level = round(1 - how.get("level", 0.95), 12)
        drawn = {key: how[key] for key in ("resamples", "seed") if key in how}
        return compare_named(name, "AP", scores, names, by="scene", level=level, **drawn)

    @property
    def remarks(self) -> list[str]:
        """What a reader of the numbers should know, a line each."""
        size = {one.name: one.cost.row_bytes for one in self.results}
        lines = ["bytes per descriptor: " + ", ".join(f"{a} {b}" for a, b in size.items())]
        for one in self.protocols[:1]:
            lines.append(f"split {one.tasks.split}: {len(one.tasks.scenes)} sequences")
            if one.tasks.drawn:
                lines.append(
                    f"drawn by seed {one.tasks.seed}, as there is no task file: "
                    f"{', '.join(one.tasks.drawn)}"
                )
        lines += [
            f"{one.name}: {one.empty_rows} descriptors are all zeros; HPatches' tasks take them as "
            "they are"
            for one in self.protocols
            if one.empty_rows
        ]
        return lines

    def tables(self) -> list[Table]:
        """Patch mAP by category; patch mAP, matching mAP and FPR@95; HPatches' own tasks; cost."""
        summaries = [row for one in self.results for row in one.summaries]
        names = [one.name for one in self.results]
        found = [category_table(summaries), number_table(names, [r.numbers for r in self.results])]
        if self.protocols:
            found.append(number_table(names, [one.numbers for one in self.protocols]))
        costs = [(one.name, {"describe": one.cost.seconds}, one.cost) for one in self.results]
        return [*found, timing_table(costs)] if self.timings else found

    def table(self) -> Table:
        """The categories with every digit, for programs."""
        return category_data([row for one in self.results for row in one.summaries])

    def page(self) -> Page:
        """Tables with words between them, for people."""
        page: Page = list(self.tables())
        for one in self.comparisons:
            page += [Words(words, "verdict") for words in one.verdicts.values()]
            page += [Words(words, "remark") for words in one.remarks]
            page.append(one.pair_table())
        page += [Words(line, "remark") for line in self.remarks]
        return [*page, Words(self.signature, "signature")]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "signature": self.signature,
            "results": [one.to_dict() for one in self.results],
            "comparisons": {str(one.measures[0]): one.to_dict() for one in self.comparisons},
            "remarks": self.remarks,
        }

    def records(self) -> list[RunRecord]:
        """A record for each descriptor."""
        return [record for one in self.results for record in one.records()]
