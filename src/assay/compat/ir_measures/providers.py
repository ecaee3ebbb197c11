"""Who computes which measure: ir_measures' providers, its registry of them, and its pipeline.

ir_measures takes each measure from the first package that has it, and these do not order ties
alike; each provider has the conventions of its package. A query without a value counts 0, as does
a judged query that the run does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from assay.compat.ir_measures.measures import NOT_PROVIDED, Measure, ParamInfo, SetP, SetR
from assay.compat.ir_measures.util import CalcResults, Metric, QrelsConverter, RunConverter
from assay.compat.pytrec_eval import keep_judged
from assay.core.conventions import Conventions, preset
from assay.measures import Measure as OwnMeasure
from assay.measures.names import INSTEAD, from_ir_measures
from assay.scoring.evaluate import evaluate
from assay.stats.effects import auroc

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
        """Yield the values of single queries.

        Those that the run does not hold come last.
        """
        seen = set()
        for metric in self._values(run):
            seen.add((metric.measure, metric.query_id))
            yield metric
        for measure in self.measures if self._fill else ():
            for query in self.qrel_qids:
                if (measure, query) not in seen:
                    yield Metric(query, measure, measure.DEFAULT)

    def calc_aggregate(self, run: Any) -> dict[Measure, float]:
        """Return one number for each measure."""
        return self.calc(run).aggregated  # type: ignore[no-any-return]

    def calc(self, run: Any) -> CalcResults:
        """Return one number for each measure, and the values of single queries."""
        metrics = list(self.iter_calc(run))
        parts = {measure: measure.aggregator() for measure in self.measures}
        for metric in metrics:
            parts[metric.measure].add(metric.value)
        return CalcResults({measure: part.result() for measure, part in parts.items()}, metrics)


class Provider:
    """What computes some measures; a subclass says which."""

    NAME: ClassVar[str] = ""
    SUPPORTED: ClassVar[Mapping[str, Mapping[str, Test]]] = {}  # measures, tests of parameters
    INSTEAD: ClassVar[str] = ""  # of a provider that is not here

    def supports(self, measure: Measure) -> bool:
        """Return whether this provider has the measure with these parameters."""
        measure.validate_params()
        tests = self.SUPPORTED.get(str(measure.NAME))
        return tests is not None and all(test(measure[key]) for key, test in tests.items())

    def is_available(self) -> bool:
        """Return whether it computes anything."""
        return not self.INSTEAD

    def install_instructions(self) -> str | None:
        """Return what to use where the provider is not here."""
        return self.INSTEAD or None

    def evaluator(self, measures: Iterable[Measure], qrels: Any) -> Evaluator:
        """Return an evaluator of runs.

        A provider that is not here says what to use instead.
        """
        if self.INSTEAD:
            raise RuntimeError(f"assay.compat.ir_measures has no {self.NAME}. {self.INSTEAD}")
        return self._evaluator(list(dict.fromkeys(measures)), qrels)

    def _evaluator(self, measures: list[Measure], qrels: Any) -> Evaluator:
        raise NotImplementedError

    def iter_calc(self, measures: Iterable[Measure], qrels: Any, run: Any) -> Iterator[Metric]:
        """Return the values of single queries."""
        return self.evaluator(measures, qrels).iter_calc(run)

    def calc_aggregate(
        self, measures: Iterable[Measure], qrels: Any, run: Any
    ) -> dict[Measure, float]:
        """Return one number for each measure."""
        return self.evaluator(measures, qrels).calc_aggregate(run)

    def calc(self, measures: Iterable[Measure], qrels: Any, run: Any) -> CalcResults:
        """Return one number for each measure, and the values of single queries."""
        return self.evaluator(measures, qrels).calc(run)

    def run_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """Return the fields that the measures need of a run."""
        return ["query_id", "doc_id", "score"]

    def qrel_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """Return the fields that the measures need of judgments."""
        return ["query_id", "doc_id", "relevance"]


def is_absent(value: Any) -> bool:
    """Return whether a parameter has no value."""
    return value is NOT_PROVIDED


def is_given(value: Any) -> bool:
    """Return whether a parameter has a value."""
    return value is not NOT_PROVIDED


def is_one_of(*values: Any) -> Test:
    """Return a test for one of these values."""
    return lambda value: value in values


Grades = dict[str, dict[str, Any]]

_ANY: Final[dict[str, Test]] = {}
_ALL: Final[dict[str, Test]] = {"judged_only": is_one_of(False)}


class _OwnProvider(Provider):
    """Measures of Assay under the conventions of some package."""

    RULES: ClassVar[Conventions]

    def _evaluator(self, measures: list[Measure], qrels: Any) -> Evaluator:
        grades = QrelsConverter(qrels).as_dict_of_dict()

        def values(run: Any) -> Iterator[Metric]:
            return self._values(measures, grades, RunConverter(run).as_dict_of_dict())

        return Evaluator(measures, grades, values)

    def _values(self, measures: list[Measure], grades: Grades, run: Grades) -> Iterator[Metric]:
        """Yield the values of queries that are judged and in the run.

        Measures of like data together.
        """
        queries = [query for query in run if grades.get(query)]
        alike: dict[tuple[bool, str], list[Measure]] = {}
        for measure in measures:
            key = (bool(measure.params.get("judged_only")), repr(measure.params.get("gains")))
            alike.setdefault(key, []).append(measure)
        for group in alike.values():
            parts = {measure: self.parts(measure) for measure in group}
            scores = self._score(group[0], parts, {query: grades[query] for query in queries}, run)
            for query in queries:
                for measure in group:
                    value = math.prod(scores[part][query] for part in parts[measure])
                    yield Metric(query, measure, self.as_printed(value))

    def _score(
        self,
        example: Measure,
        parts: dict[Measure, tuple[OwnMeasure, ...]],
        grades: Grades,
        run: Grades,
    ) -> dict[OwnMeasure, dict[str, float]]:
        """Return the values of each query by each of the parts.

        0 where there is none.
        """
        needed = list(dict.fromkeys(part for some in parts.values() for part in some))
        if not needed or not grades:
            return {}
        docs = {query: run[query] for query in grades}
        if example.params.get("judged_only"):
            docs = {query: keep_judged(lines, grades[query]) for query, lines in docs.items()}
        judged = self.grades(grades, example.params.get("gains") or {})
        scores = evaluate(docs, judged, needed, conventions=self.RULES, allow_mismatch=True)
        ids = list(map(str, scores.query_ids))
        values = {part: np.nan_to_num(scores[part]).tolist() for part in needed}
        return {part: dict(zip(ids, row, strict=True)) for part, row in values.items()}

    def grades(self, grades: Grades, gains: Mapping[int, int]) -> Grades:
        """Return the grades, replaced by the gains that are given."""
        if not gains:
            return grades
        return {
            query: {doc: gains.get(grade, grade) for doc, grade in docs.items()}
            for query, docs in grades.items()
        }

    def parts(self, measure: Measure) -> tuple[OwnMeasure, ...]:
        """Return the measures of Assay whose product is this one."""
        if measure.NAME == "NumQ":
            return ()
        names = measure.SUPPORTED_PARAMS.keys() - {"judged_only", "gains"}
        params = {key: value for key, value in measure.params.items() if key in names}
        if measure.NAME == "SetAP":
            return (from_ir_measures(SetP(**params)), from_ir_measures(SetR(**params)))
        return (from_ir_measures(type(measure)(**params)),)

    def as_printed(self, value: float) -> float:
        """Return the value as the package gives it."""
        return value


class PytrecEvalProvider(_OwnProvider):
    """trec_eval 9: ties by id descending, scores as 32-bit floats."""

    NAME = "pytrec_eval"
    RULES = preset("trec_eval_9")
    SUPPORTED: ClassVar = {
        **dict.fromkeys(("P", "R", "AP", "Rprec", "Success", "IPrec", "Bpref", "NumRet"), _ANY),
        "infAP": _ANY,
        **dict.fromkeys(("NumQ", "NumRel", "SetAP", "SetF", "SetP", "SetR"), _ANY),
        "RR": {"cutoff": is_absent},
        "nDCG": {"dcg": is_one_of("log2")},
    }


class JudgedProvider(_OwnProvider):
    """Judged: ties by id ascending, any grade is a judgment."""

    NAME = "judged"
    RULES = preset("trec_eval").replace(tiebreak="id-ascending")
    SUPPORTED: ClassVar = {"Judged": {}}

    def grades(self, grades: Grades, gains: Mapping[int, int]) -> Grades:
        """Raise grades below 0: Assay takes such a document for not judged."""
        return {query: dict.fromkeys(docs, 0) for query, docs in grades.items()}


class MsMarcoProvider(_OwnProvider):
    """RR as the script of MS MARCO has it: ties by id ascending."""

    NAME = "msmarco"
    RULES = preset("trec_eval").replace(tiebreak="id-ascending")
    SUPPORTED: ClassVar = {"RR": _ALL}


class GdevalProvider(_OwnProvider):
    """gdeval: ties by id descending, values with five digits."""

    NAME = "gdeval"
    RULES = preset("trec_eval")
    SUPPORTED: ClassVar = {
        "nDCG": {"cutoff": is_given, "dcg": is_one_of("exp-log2"), "gains": is_absent, **_ALL},
        "ERR": {"cutoff": is_given},
    }

    def parts(self, measure: Measure) -> tuple[OwnMeasure, ...]:
        """Return the parts; its nDCG always has exponential gains."""
        return super().parts(measure(dcg="exp-log2") if measure.NAME == "nDCG" else measure)

    def as_printed(self, value: float) -> float:
        """Return the value with five digits, which is all that gdeval prints."""
        return float(f"{value:.5f}")


class CwlEvalProvider(_OwnProvider):
    """What cwl_eval and Assay share, over the first 1000 documents; ties in the order of lines."""

    NAME = "cwl_eval"
    RULES = preset("ranx").replace(depth=1000)
    SUPPORTED: ClassVar = {
        "P": _ALL,
        **{name: {"cutoff": is_absent, **_ALL} for name in ("RR", "AP")},
        "RBP": {"cutoff": is_absent, "rel": is_given},
    }


class RanxProvider(_OwnProvider):
    """ranx: ties in the order of lines."""

    NAME = "ranx"
    RULES = preset("ranx")
    SUPPORTED: ClassVar = {
        **dict.fromkeys(("P", "SetP", "RR", "Rprec", "AP", "R", "Success"), _ALL),
        "nDCG": {"gains": is_absent, **_ALL},
        "SetR": {},
        "NumRet": {"rel": is_given},
    }


class AccuracyProvider(Provider):
    """The share of pairs of a relevant and another document of the list that are in order.

    Queries without such a pair have no value, and are in no mean.
    """

    NAME = "accuracy"
    SUPPORTED: ClassVar = {"Accuracy": {}}

    def _evaluator(self, measures: list[Measure], qrels: Any) -> Evaluator:
        grades = QrelsConverter(qrels).as_dict_of_dict()

        def values(run: Any) -> Iterator[Metric]:
            lists = RunConverter(run).as_sorteddict()
            for measure in measures:
                cut = None if is_absent(measure["cutoff"]) else measure["cutoff"]
                for query in lists:
                    judged = grades.get(query, {})
                    levels = [judged.get(line.doc_id, 0) for line in lists[query][:cut]]
                    good = np.array(levels, np.float64) >= measure["rel"]
                    if judged and good.any() and not good.all():
                        place = -np.arange(len(good), dtype=np.float64)
                        yield Metric(query, measure, auroc(place[good], place[~good]))

        return Evaluator(measures, grades, values, fill=False)


class RuntimeProvider(Provider):
    """Measures that a script defines, over pandas data frames."""

    NAME = "runtime"

    def supports(self, measure: Measure) -> bool:
        """Return whether a script defined it."""
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
        """Return the fields that the measures need of a run."""
        return join_fields(getattr(measure, "RUN_INPUTS", ()) for measure in measures)

    def qrel_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """Return the fields that the measures need of judgments."""
        return join_fields(getattr(measure, "QREL_INPUTS", ()) for measure in measures)


def _sorted_frame(data: QrelsConverter | RunConverter, by: tuple[str, str]) -> Any:
    frame = data.as_pd_dataframe()
    if "query_id" not in frame.columns:
        raise ValueError(f"No column query_id among {list(frame.columns)}. Add it.")
    columns = [name for name in by if name in frame.columns]
    return frame.sort_values(by=columns, ascending=[name != "score" for name in columns])


def join_fields(fields: Iterable[Iterable[str]]) -> list[str]:
    """Return every field once."""
    return list(dict.fromkeys(name for some in fields for name in some))


class _RuntimeMeasure(Measure):
    IMPLEMENTATION: ClassVar[Any] = None
    RUN_INPUTS: ClassVar[list[str]]
    QREL_INPUTS: ClassVar[list[str]]

    def runtime_impl(self, qrels: Any, run: Any) -> Iterator[Metric]:
        """Yield the values of queries by the script's function, down to the cut."""
        cut = self.params.get("cutoff")
        lines = run if cut is None else run.groupby("query_id").head(cut).reset_index(drop=True)
        for query, value in type(self).IMPLEMENTATION(qrels, lines):
            yield Metric(query, self, value)

    def __repr__(self) -> str:
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
    """Define a measure by a function of two data frames to (query, value) pairs."""
    fields = {
        "NAME": name,
        "SUPPORTED_PARAMS": {"cutoff": ParamInfo(int)} if support_cutoff else {},
        "IMPLEMENTATION": staticmethod(impl),
        "RUN_INPUTS": run_inputs or ["query_id", "doc_id", "score"],
        "QREL_INPUTS": qrel_inputs or ["query_id", "doc_id", "relevance"],
        "PRETTY_NAME": pretty_name,
        "SHORT_DESC": short_desc,
    }
    measure: Measure = type("_RuntimeMeasure", (_RuntimeMeasure,), fields)()
    return measure


def define_byquery(
    impl: Callable[[Any, Any], float], name: str | None = None, *args: Any, **options: Any
) -> Measure:
    """Define a measure by a function of one query's two data frames."""

    def values(qrels: Any, run: Any) -> Iterator[tuple[str, float]]:
        for query, lines in run.groupby("query_id"):
            yield query, impl(qrels[qrels["query_id"] == query], lines)

    return define(values, name or getattr(impl, "__name__", repr(impl)), *args, **options)


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
        """Return whether any of them has it."""
        return any(provider.supports(measure) for provider in self.providers)

    def _share_out(self, measures: Iterable[Measure]) -> dict[Provider, list[Measure]]:
        shares: dict[Provider, list[Measure]] = {}
        for measure in measures:
            able = [provider for provider in self.providers if provider.supports(measure)]
            if not able:
                instead = _HINTS.get(str(measure.NAME), "take it from ir_measures itself")
                raise ValueError(f"assay.compat.ir_measures does not have {measure}: {instead}.")
            shares.setdefault(able[0], []).append(measure)
        return shares

    def _evaluator(self, measures: list[Measure], qrels: Any) -> Evaluator:
        judgments = QrelsConverter(qrels, strict=False).data
        shares = self._share_out(measures).items()
        parts = [provider.evaluator(some, judgments) for provider, some in shares]
        if len(parts) == 1:
            return parts[0]

        def values(run: Any) -> Iterator[Metric]:
            lines = RunConverter(run, strict=False).data
            for part in parts:
                yield from part.iter_calc(lines)

        return Evaluator(measures, (), values)

    def run_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """Return the fields that the measures need of a run."""
        shares = self._share_out(measures).items()
        return join_fields(provider.run_inputs(some) for provider, some in shares)

    def qrel_inputs(self, measures: Iterable[Measure]) -> list[str]:
        """Return the fields that the measures need of judgments."""
        shares = self._share_out(measures).items()
        return join_fields(provider.qrel_inputs(some) for provider, some in shares)


_HINTS: Final = {
    **INSTEAD,
    "ERR": "add a cutoff, such as ERR@20",
    "RBP": "add rel, such as RBP(rel=1), and omit the cutoff",
    "RR": "omit judged_only or the cutoff",
    "nDCG": "omit gains or judged_only",
}


DefaultPipeline = FallbackProvider(registry.values())
Measure.PIPELINE = DefaultPipeline
