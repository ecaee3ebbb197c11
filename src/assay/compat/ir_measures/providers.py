"""Who computes which measure: ir_measures' registry of providers, and its pipeline over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from assay.compat.ir_measures.base import Evaluator, Provider
from assay.compat.ir_measures.measures import Measure
from assay.compat.ir_measures.packages import (
    AccuracyProvider,
    CwlEvalProvider,
    GdevalProvider,
    JudgedProvider,
    MsMarcoProvider,
    PytrecEvalProvider,
    RanxProvider,
)
from assay.compat.ir_measures.runtime import (
    RuntimeProvider,
    define,
    define_byquery,
    join_fields,
)
from assay.compat.ir_measures.util import Metric, QrelsConverter, RunConverter
from assay.measures.foreign import INSTEAD

__all__ = [
    "AccuracyProvider",
    "CwlEvalProvider",
    "DefaultPipeline",
    "Evaluator",
    "FallbackProvider",
    "GdevalProvider",
    "JudgedProvider",
    "MsMarcoProvider",
    "Provider",
    "PytrecEvalProvider",
    "RanxProvider",
    "RuntimeProvider",
    "define",
    "define_byquery",
    "registry",
]


class _Absent(Provider):
    """A provider that Assay has nothing for."""

    INSTEAD = "Take it from ir_measures itself."


class CompatProvider(_Absent):
    """Overlap with an ideal list."""

    NAME = "compat"


class PyndevalProvider(_Absent):
    """Measures of diversity."""

    NAME = "pyndeval"


class TrectoolsProvider(_Absent):
    """A package whose measures pytrec_eval has too."""

    NAME = "trectools"


registry: dict[str, Provider] = {
    kind.NAME: kind()
    for kind in (
        *(RuntimeProvider, PytrecEvalProvider, CwlEvalProvider, CompatProvider),
        *(PyndevalProvider, TrectoolsProvider, JudgedProvider, MsMarcoProvider),
        *(GdevalProvider, AccuracyProvider, RanxProvider),
    )
}


class FallbackProvider(Provider):
    """Several providers; a measure is taken from the first that has it."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self.providers = list(providers)

    def supports(self, measure: Measure) -> bool:
        """Whether any of them has it."""
        return any(one.supports(measure) for one in self.providers)

    def _share_out(self, measures: Iterable[Measure]) -> dict[Provider, list[Measure]]:
        shares: dict[Provider, list[Measure]] = {}
        for measure in measures:
            first = next((one for one in self.providers if one.supports(measure)), None)
            if first is None:
                instead = _HINTS.get(str(measure.NAME), "take it from ir_measures itself")
                raise ValueError(f"assay.compat.ir_measures does not have {measure}: {instead}.")
            shares.setdefault(first, []).append(measure)
        return shares

    def _evaluator(self, measures: list[Measure], qrels: Any) -> Evaluator:
        kept = QrelsConverter(qrels, strict=False).data
        parts = [one.evaluator(some, kept) for one, some in self._share_out(measures).items()]
        if len(parts) == 1:
            return parts[0]

        def values(run: Any) -> Iterator[Metric]:
            lines = RunConverter(run, strict=False).data
            for part in parts:
                yield from part.iter_calc(lines)

        return Evaluator(measures, (), values)

    def run_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """The fields that the measures need of a run."""
        shares = self._share_out(measures).items()
        return join_fields(one.run_inputs(some) for one, some in shares)

    def qrel_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """The fields that the measures need of judgments."""
        shares = self._share_out(measures).items()
        return join_fields(one.qrel_inputs(some) for one, some in shares)


_HINTS: Final = {
    **INSTEAD,
    "ERR": "give it a cut-off, such as ERR@20",
    "RBP": "give it a rel, such as RBP(rel=1), and no cut-off",
    "RR": "leave judged_only or the cut-off out",
    "nDCG": "leave gains or judged_only out",
}


DefaultPipeline = FallbackProvider(registry.values())
Measure.PIPELINE = DefaultPipeline
