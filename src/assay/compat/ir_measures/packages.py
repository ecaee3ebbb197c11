"""The providers that Assay's own measures stand behind, each under its package's conventions.

ir_measures takes each measure from the first package that has it, and these do not order ties
alike. A query without a value counts 0, as does a judged query that the run does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from assay.compat.ir_measures.base import (
    Evaluator,
    Provider,
    Test,
    is_absent,
    is_given,
    is_one_of,
)
from assay.compat.ir_measures.measures import Measure, SetP, SetR
from assay.compat.ir_measures.util import Metric, QrelsConverter, RunConverter
from assay.compat.pytrec_eval import keep_judged
from assay.core.conventions import Conventions, preset
from assay.measures import Measure as OwnMeasure
from assay.measures.foreign import from_ir_measures
from assay.scoring.evaluate import evaluate
from assay.stats.separation import auroc

__all__ = [
    "AccuracyProvider",
    "CwlEvalProvider",
    "GdevalProvider",
    "JudgedProvider",
    "MsMarcoProvider",
    "PytrecEvalProvider",
    "RanxProvider",
]

Grades = dict[str, dict[str, Any]]

_ANY: Final[dict[str, Test]] = {}
_ALL: Final[dict[str, Test]] = {"judged_only": is_one_of(False)}


class _OwnProvider(Provider):
    """Measures of Assay under the conventions of some package."""

    RULES: ClassVar[Conventions]

    def _evaluator(self, measures: list[Measure], qrels: Any) -> Evaluator:
        grades = QrelsConverter(qrels).as_dict_of_dict()
        return Evaluator(
            measures,
            grades,
            lambda run: self._values(measures, grades, RunConverter(run).as_dict_of_dict()),
        )

    def _values(self, measures: list[Measure], grades: Grades, run: Grades) -> Iterator[Metric]:
        """The values of queries that are judged and in the run; measures of like data together."""
        queries = [query for query in run if grades.get(query)]
        alike: dict[tuple[bool, str], list[Measure]] = {}
        for measure in measures:
            gains = measure.params.get("gains")
            key = (bool(measure.params.get("judged_only")), repr(gains))
            alike.setdefault(key, []).append(measure)
        for group in alike.values():
            parts = {measure: self.parts(measure) for measure in group}
            found = self._score(group[0], parts, {query: grades[query] for query in queries}, run)
            for query in queries:
                for measure in group:
                    value = math.prod(found[part][query] for part in parts[measure])
                    yield Metric(query, measure, self.shown(value))

    def _score(
        self,
        example: Measure,
        parts: dict[Measure, tuple[OwnMeasure, ...]],
        grades: Grades,
        run: Grades,
    ) -> dict[OwnMeasure, dict[str, float]]:
        """The values of each query by each of the parts; 0 where there is none."""
        wanted = list(dict.fromkeys(part for some in parts.values() for part in some))
        if not wanted or not grades:
            return {}
        docs = {query: run[query] for query in grades}
        if example.params.get("judged_only"):
            docs = {query: keep_judged(lines, grades[query]) for query, lines in docs.items()}
        judged = self.grades(grades, example.params.get("gains") or {})
        scores = evaluate(docs, judged, wanted, conventions=self.RULES, allow_mismatch=True)
        ids = list(map(str, scores.query_ids))
        return {
            part: dict(zip(ids, np.nan_to_num(scores[part]).tolist(), strict=True))
            for part in wanted
        }

    def grades(self, grades: Grades, gains: Mapping[int, int]) -> Grades:
        """The grades, with those that are given another gain replaced by it."""
        if not gains:
            return grades
        return {
            query: {doc: gains.get(grade, grade) for doc, grade in docs.items()}
            for query, docs in grades.items()
        }

    def parts(self, measure: Measure) -> tuple[OwnMeasure, ...]:
        """Measures of Assay whose product is this one."""
        if measure.NAME == "NumQ":
            return ()
        known = measure.SUPPORTED_PARAMS.keys() - {"judged_only", "gains"}
        params = {key: value for key, value in measure.params.items() if key in known}
        if measure.NAME == "SetAP":
            return (from_ir_measures(SetP(**params)), from_ir_measures(SetR(**params)))
        return (from_ir_measures(type(measure)(**params)),)

    def shown(self, value: float) -> float:
        """The value as the package gives it."""
        return value


class PytrecEvalProvider(_OwnProvider):
    """trec_eval 9: ties by id descending, scores as 32-bit floats."""

    NAME = "pytrec_eval"
    RULES = preset("trec_eval_9")
    SUPPORTED: ClassVar = {
        **dict.fromkeys(("P", "R", "AP", "Rprec", "Success", "IPrec", "Bpref", "NumRet"), _ANY),
        **dict.fromkeys(("NumQ", "NumRel", "SetAP", "SetF", "SetP", "SetR"), _ANY),
        "RR": {"cutoff": is_absent},
        "nDCG": {"dcg": is_one_of("log2")},
    }


class JudgedProvider(_OwnProvider):
    """Judged: ties by id ascending, any grade is a judgment."""

    NAME = "judged"
    RULES = preset("trec_eval").but(tiebreak="id-ascending")
    SUPPORTED: ClassVar = {"Judged": {}}

    def grades(self, grades: Grades, gains: Mapping[int, int]) -> Grades:
        """No grade below 0: Assay takes such a document for not judged."""
        return {query: dict.fromkeys(docs, 0) for query, docs in grades.items()}


class MsMarcoProvider(_OwnProvider):
    """RR as the script of MS MARCO has it: ties by id ascending."""

    NAME = "msmarco"
    RULES = preset("trec_eval").but(tiebreak="id-ascending")
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
        """Its nDCG has exponential gains, whatever is asked for."""
        return super().parts(measure(dcg="exp-log2") if measure.NAME == "nDCG" else measure)

    def shown(self, value: float) -> float:
        """The value with five digits, which is all that gdeval prints."""
        return float(f"{value:.5f}")


class CwlEvalProvider(_OwnProvider):
    """What cwl_eval and Assay share, over the first 1000 documents; ties in the order of lines."""

    NAME = "cwl_eval"
    RULES = preset("ranx").but(depth=1000)
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
