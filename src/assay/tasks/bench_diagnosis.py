"""Why is accuracy low? What is wrong with the texts, the judgments, or what was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.inspection import CheckReport, Finding

if TYPE_CHECKING:
    from assay.tasks.bench_result import BenchResult

__all__ = ["diagnose"]


def diagnose(result: BenchResult) -> CheckReport:
    """All findings, the gravest first."""
    from assay.tasks.bench_found import about_results
    from assay.tasks.bench_texts import about_texts

    grave = ["error", "warning", "note"]
    found: Iterator[Finding] = iter((*about_texts(result), *about_results(result)))
    return CheckReport(tuple(sorted(found, key=lambda one: grave.index(one.severity))))
