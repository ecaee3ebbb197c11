"""Evaluators and providers: what ir_measures' pipeline is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from assay.compat.ir_measures.measures import NOT_PROVIDED, Measure
from assay.compat.ir_measures.util import CalcResults, Metric

__all__ = ["Evaluator", "Provider", "is_absent", "is_given", "is_one_of"]

Test = Callable[[Any], bool]


class Evaluator:
    """Judgments and measures, against which runs are evaluated."""

    def __init__(
        self,
        measures: Iterable[Measure],
        qrel_qids: Iterable[str],
        values: Callable[[Any], Iterator[Metric]],
        *,
        fill: bool = True,
    ) -> None:
        self.measures, self.qrel_qids = list(measures), list(qrel_qids)
        self._values, self._fill = values, fill

    def iter_calc(self, run: Any) -> Iterator[Metric]:
        """The values of single queries; those that the run does not hold come last."""
        seen = set()
        for metric in self._values(run):
            seen.add((metric.measure, metric.query_id))
            yield metric
        for measure in self.measures if self._fill else ():
            for query in self.qrel_qids:
                if (measure, query) not in seen:
                    yield Metric(query, measure, measure.DEFAULT)

    def calc_aggregate(self, run: Any) -> dict[Measure, float]:
        """One number for each measure."""
        return self.calc(run).aggregated  # type: ignore[no-any-return]

    def calc(self, run: Any) -> CalcResults:
        """One number for each measure, and the values of single queries."""
        found = list(self.iter_calc(run))
        parts = {measure: measure.aggregator() for measure in self.measures}
        for metric in found:
            parts[metric.measure].add(metric.value)
        return CalcResults({measure: part.result() for measure, part in parts.items()}, found)


class Provider:
    """What computes some measures; a subclass says which."""

    NAME: ClassVar[str] = ""
    SUPPORTED: ClassVar[Mapping[str, Mapping[str, Test]]] = {}  # measures, tests of parameters
    INSTEAD: ClassVar[str] = ""  # of a provider that is not here

    def supports(self, measure: Measure) -> bool:
        """Whether the measure, with these parameters, is one of this provider's."""
        measure.validate_params()
        tests = self.SUPPORTED.get(str(measure.NAME))
        return tests is not None and all(test(measure[key]) for key, test in tests.items())

    def is_available(self) -> bool:
        """Whether it computes anything."""
        return not self.INSTEAD

    def install_instructions(self) -> str | None:
        """What to use where the provider is not here."""
        return self.INSTEAD or None

    def evaluator(self, measures: Iterable[Measure], qrels: Any) -> Evaluator:
        """An evaluator of runs; a provider that is not here says what to use instead."""
        if self.INSTEAD:
            raise RuntimeError(f"assay.compat.ir_measures has no {self.NAME}. {self.INSTEAD}")
        return self._evaluator(list(dict.fromkeys(measures)), qrels)

    def _evaluator(self, measures: list[Measure], qrels: Any) -> Evaluator:
        raise NotImplementedError

    def iter_calc(self, measures: Iterable[Measure], qrels: Any, run: Any) -> Iterator[Metric]:
        """The values of single queries."""
        return self.evaluator(measures, qrels).iter_calc(run)

    def calc_aggregate(
        self, measures: Iterable[Measure], qrels: Any, run: Any
    ) -> dict[Measure, float]:
        """One number for each measure."""
        return self.evaluator(measures, qrels).calc_aggregate(run)

    def calc(self, measures: Iterable[Measure], qrels: Any, run: Any) -> CalcResults:
        """One number for each measure, and the values of single queries."""
        return self.evaluator(measures, qrels).calc(run)

    def run_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """The fields that the measures need of a run."""
        return ["query_id", "doc_id", "score"]

    def qrel_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """The fields that the measures need of judgments."""
        return ["query_id", "doc_id", "relevance"]


def is_absent(value: Any) -> bool:
    """Whether a parameter has no value."""
    return value is NOT_PROVIDED


def is_given(value: Any) -> bool:
    """Whether a parameter has a value."""
    return value is not NOT_PROVIDED


def is_one_of(*wanted: Any) -> Test:
    """Whether a parameter has one of these values."""
    return lambda value: value in wanted
