"""Measures that a script defines, over pandas data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from assay.compat.ir_measures.base import Evaluator, Provider
from assay.compat.ir_measures.measures import Measure, ParamInfo
from assay.compat.ir_measures.util import Metric, QrelsConverter, RunConverter

__all__ = ["RuntimeProvider", "define", "define_byquery", "join_fields"]


class RuntimeProvider(Provider):
    """Measures that a script defines, over pandas data frames."""

    NAME = "runtime"

    def supports(self, measure: Measure) -> bool:
        """Whether a script defined it."""
        measure.validate_params()
        return isinstance(measure, _RuntimeMeasure)

    def _evaluator(self, measures: list[Measure], qrels: Any) -> Evaluator:
        frame = _sorted_frame(QrelsConverter(qrels, strict=False), ("query_id", "doc_id"))

        def values(run: Any) -> Iterator[Metric]:
            lines = _sorted_frame(RunConverter(run, strict=False), ("query_id", "score"))
            for measure in measures:
                if isinstance(measure, _RuntimeMeasure):
                    yield from measure.runtime_impl(frame, lines)

        return Evaluator(measures, frame["query_id"].unique(), values)

    def run_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """The fields that the measures need of a run."""
        return join_fields(getattr(measure, "RUN_INPUTS", ()) for measure in measures)

    def qrel_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """The fields that the measures need of judgments."""
        return join_fields(getattr(measure, "QREL_INPUTS", ()) for measure in measures)


def _sorted_frame(data: QrelsConverter | RunConverter, by: tuple[str, str]) -> Any:
    frame = data.as_pd_dataframe()
    if "query_id" not in frame.columns:
        raise ValueError(f"There is no column query_id among {list(frame.columns)}.")
    known = [name for name in by if name in frame.columns]
    return frame.sort_values(by=known, ascending=[name != "score" for name in known])


def join_fields(fields: Iterable[Iterable[str]]) -> list[str]:
    """Every field once."""
    return list(dict.fromkeys(one for some in fields for one in some))


class _RuntimeMeasure(Measure):
    IMPLEMENTATION: ClassVar[Any] = None
    RUN_INPUTS: ClassVar[list[str]]
    QREL_INPUTS: ClassVar[list[str]]

    def runtime_impl(self, qrels: Any, run: Any) -> Iterator[Metric]:
        """The values of queries by the script's function, of the first lines if there is a cut."""
        cut = self.params.get("cutoff")
        lines = run if cut is None else run.groupby("query_id").head(cut).reset_index(drop=True)
        for query, value in type(self).IMPLEMENTATION(qrels, lines):
            yield Metric(query, self, value)

    def __repr__(self) -> str:
        """As it is written, if it has a name."""
        return object.__repr__(self) if self.NAME is None else super().__repr__()


def define(
    impl: Callable[[Any, Any], Iterable[tuple[str, float]]],
    name: str | None = None,
    support_cutoff: bool = True,
    *,
    run_inputs: list[str] | None = None,
    qrel_inputs: list[str] | None = None,
    pretty_name: str | None = None,
    short_desc: str | None = None,
) -> Measure:
    """A measure from a function of judgments and run, data frames, to (query, value) pairs."""
    fields = {
        "NAME": name,
        "SUPPORTED_PARAMS": {"cutoff": ParamInfo(int)} if support_cutoff else {},
        "IMPLEMENTATION": staticmethod(impl),
        "RUN_INPUTS": run_inputs or ["query_id", "doc_id", "score"],
        "QREL_INPUTS": qrel_inputs or ["query_id", "doc_id", "relevance"],
        "PRETTY_NAME": pretty_name,
        "SHORT_DESC": short_desc,
    }
    made: Measure = type("_RuntimeMeasure", (_RuntimeMeasure,), fields)()
    return made


def define_byquery(
    impl: Callable[[Any, Any], float], name: str | None = None, *args: Any, **options: Any
) -> Measure:
    """A measure from a function of one query's judgments and run, data frames, to a value."""

    def values(qrels: Any, run: Any) -> Iterator[tuple[str, float]]:
        for query, lines in run.groupby("query_id"):
            yield query, impl(qrels[qrels["query_id"] == query], lines)

    return define(values, name or getattr(impl, "__name__", repr(impl)), *args, **options)
