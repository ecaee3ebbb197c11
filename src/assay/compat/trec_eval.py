"""trec_eval 10 as a function: its flags as arguments, its lines as the answer.

Most numbers are those of Assay's own measures. What only trec_eval has (infAP, binG, G, ndcg_rel,
Rndcg, utility, …) is computed here from the same hits, because a script that reads its output
expects every line. Measures of preferences and of several assessors are not there.
Source: the source code of trec_eval 10.0, and what it prints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints, offsets_of
from assay.compat.trec_only import FORMULAS, QueryList, relstring
from assay.core.conventions import Conventions, preset
from assay.core.hits import Hits, judge
from assay.core.text import did_you_mean
from assay.errors import MeasureError, MismatchError
from assay.io.formats import QrelsLike, RunLike, as_judgments, as_ranking
from assay.measures import Measure, parse
from assay.measures.views import nth_in_row
from assay.scoring.evaluate import score
from assay.scoring.scores import GEOMETRIC_FLOOR
from assay.scoring.trec_layout import TrecColumn, trec_lines

__all__ = ["at_level", "trec_eval", "trec_only_values"]

_LARGEST: Final = 1e12  # of parameters: sums of as large gains are exact
_CUTS: Final = "5,10,15,20,30,100,200,500,1000"
_TENTHS: Final = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1"


class _TrecFamily(NamedTuple):
    """A name of trec_eval that stands for one line or several.

    `params` says what may follow the name: cuts, levels (a line each), gains or numbers (in the
    line's name); `default` what holds where nothing does. `measure` is the measure of a line, with
    its parameter in `{}`; where it is empty, `trec_only` has the formula.
    """

    measure: str = ""
    params: str = ""
    default: str = ""
    kind: str = "mean"


# In the order in which trec_eval prints them.
FAMILIES: Final[dict[str, _TrecFamily]] = {
    "runid": _TrecFamily(),
    "num_q": _TrecFamily(),
    "num_ret": _TrecFamily("num_ret", kind="sum"),
    "num_rel": _TrecFamily("num_rel", kind="sum"),
    "num_rel_ret": _TrecFamily("num_rel_ret", kind="sum"),
    "map": _TrecFamily("AP"),
    "gm_map": _TrecFamily("AP", kind="geometric"),
    "Rprec": _TrecFamily("Rprec"),
    "bpref": _TrecFamily("bpref"),
    "recip_rank": _TrecFamily("RR"),
    "iprec_at_recall": _TrecFamily("iprec@{}", "levels", _TENTHS),
    "P": _TrecFamily("P@{}", "cuts", _CUTS),
    "relstring": _TrecFamily("", "numbers", "10", kind="text"),
    "recall": _TrecFamily("R@{}", "cuts", _CUTS),
    "infAP": _TrecFamily(),
    "gm_bpref": _TrecFamily("bpref", kind="geometric"),
    "Rprec_mult": _TrecFamily("Rprec(mult={})", "levels", "0.2,0.4,0.6,0.8,1,1.2,1.4,1.6,1.8,2"),
    "utility": _TrecFamily("", "numbers", "1,-1,0,0"),
    "11pt_avg": _TrecFamily("iAP(levels={})", "numbers", _TENTHS),
    "binG": _TrecFamily(),
    "G": _TrecFamily("", "gains"),
    "dcg": _TrecFamily("", "gains"),
    "ideal_dcg": _TrecFamily("", "gains"),
    "ndcg": _TrecFamily("", "gains"),
    "ndcg_rel": _TrecFamily("", "gains"),
    "Rndcg": _TrecFamily("", "gains"),
    "ndcg_cut": _TrecFamily("nDCG@{}", "cuts", _CUTS),
    "map_cut": _TrecFamily("AP@{}", "cuts", _CUTS),
    "relative_P": _TrecFamily("R(cap=true)@{}", "cuts", _CUTS),
    "success": _TrecFamily("Success@{}", "cuts", "1,5,10"),
    "set_P": _TrecFamily("SetP"),
    "set_relative_P": _TrecFamily("SetR(cap=true)"),
    "set_recall": _TrecFamily("SetR"),
    "set_map": _TrecFamily(),
    "set_F": _TrecFamily("", "numbers", "1"),
    "num_nonrel_judged_ret": _TrecFamily("num_nonrel_judged_ret", kind="sum"),
    "yaap": _TrecFamily(),
    "rbp": _TrecFamily("", "persistence", "0.9"),
    "rbp_resid": _TrecFamily("", "persistence", "0.9"),
    "unj": _TrecFamily("Unjudged@{}", "cuts", "5,10,20"),
}
_OFFICIAL: Final = tuple(FAMILIES)[:12]
_BEYOND: Final = ("dcg", "ideal_dcg", "yaap")  # known, but of no nickname
NICKNAMES: Final[dict[str, tuple[str, ...]]] = {
    "official": _OFFICIAL,
    "set": (*_OFFICIAL[:5], "utility", *(name for name in FAMILIES if name[:4] == "set_")),
    "all_trec": tuple(name for name in FAMILIES if name not in _BEYOND),
}
# What trec_eval takes back of the document that it gives to a missing query.
_TAKEN_BACK: Final = ("num_ret", "utility", "relstring", "rbp_resid")
_UNSUPPORTED: Final = re.compile(r"(all_)?prefs(_.*)?|qrels_jg|.*_avgjg")


class _Line(NamedTuple):
    """One line to print: its name, its family and its parameters."""

    name: str
    family: str
    params: tuple[str, ...] = ()


def trec_eval(
    qrels: QrelsLike,
    run: RunLike,
    measures: Iterable[str] = ("official",),
    *,
    per_query: bool = False,
    summary: bool = True,
    complete: bool = False,
    level: int = 1,
    depth: int | None = None,
    judged_only: bool = False,
    n_docs: int = 0,
    tell: Callable[[str], object] = lambda _: None,
) -> str:
    """What `trec_eval` prints for judgments and a run.

    The arguments are its flags -m, -q, -n (`summary`), -c, -l, -M, -J and -N. Judged queries that
    are not in the run are left out unless `complete`. `tell` hears what is odd about the input.

    >>> print(trec_eval({"q": {"a": 1}}, {"q": {"b": 2, "a": 1}}, ["map", "P.1,5"]))
    map                   	all	0.5000
    P_1                   	all	0.0000
    P_5                   	all	0.2000
    """
    lines = _lines_of(measures)
    rules = preset("trec_eval").but(depth=depth, missing="zero" if complete else "skip")
    ranking = as_ranking(run, rules)
    hits = judge(ranking, as_judgments(qrels), conventions=rules, allow_mismatch=True)
    for remark in hits.remarks:
        tell(remark)
    if not complete and hits.missing.any():
        tell(f"{int(hits.missing.sum())} judged queries are not in the run; -c counts them as 0")
        hits = hits.select(np.flatnonzero(~hits.missing))
    if not hits.n_queries:
        raise MismatchError("No query is both in the run and judged, so there is nothing to score.")
    hits = _keep_judged(hits) if judged_only else hits
    # trec_eval gives a missing query one document of nowhere, which -J drops again.
    n_ret = hits.n_ret if judged_only else np.where(hits.missing, 1, hits.n_ret)
    answers = _Answers(hits, n_ret, level, n_docs, ranking.name or "")
    columns = [column for line in lines for column in answers.column(line, complete=complete)]
    return trec_lines(hits.query_ids, columns, per_query=per_query, summary=summary)


def trec_only_values(
    qrels: QrelsLike, run: RunLike, names: Iterable[str], *, rules: Conventions, level: int
) -> dict[str, dict[str, float]]:
    """For each of these measures that only trec_eval has, its value of each judged query."""
    hits = judge(as_ranking(run, rules), as_judgments(qrels), conventions=rules)
    answers = _Answers(hits, hits.n_ret, level, 0, "")
    ids = list(map(str, hits.query_ids))
    lines = [line for name in names for line in _expand(name, "")]
    return {line.name: dict(zip(ids, answers.values(line).tolist(), strict=True)) for line in lines}


def _lines_of(measures: Iterable[str]) -> list[_Line]:
    """The lines to print. Where a measure is named twice, the first parameters hold."""
    wanted: dict[str, str] = {}
    for asked in measures:
        name, dot, params = asked.partition(".")
        if name not in FAMILIES and name not in NICKNAMES:
            raise MeasureError(_unknown(name))
        if dot and (name in NICKNAMES or not FAMILIES[name].params or not params):
            raise MeasureError(f"{asked!r}: {name} takes no such parameters.")
        for family in NICKNAMES.get(name, (name,)):
            wanted[family] = wanted.get(family) or params
    return [
        line for family in FAMILIES if family in wanted for line in _expand(family, wanted[family])
    ]


def _unknown(name: str) -> str:
    if _UNSUPPORTED.fullmatch(name):
        return (
            f"The measure {name!r} of trec_eval is not supported: it needs preferences, or the "
            "judgments of several assessors."
        )
    hint = did_you_mean(name, [*FAMILIES, *NICKNAMES], most=3)
    return f"trec_eval has no measure {name!r}.{hint} Parameters follow a dot: P.5,10."


def _expand(family: str, given: str) -> list[_Line]:
    kind, params = FAMILIES[family].params, tuple(given.split(",")) if given else ()
    default = tuple(FAMILIES[family].default.split(",")) if FAMILIES[family].default else ()
    if kind not in ("cuts", "levels"):
        name = f"{family}_{given}" if given else family
        return [_Line(name, family, _check(family, params, kind) or default)]
    numbers = sorted({_number(family, one) for one in params or default})
    if len(numbers) < len(params or default) or (kind == "cuts" and numbers[0] < 1):
        raise MeasureError(f"{family}.{given}: cut-offs are above 0, and each is given once.")
    if kind == "cuts":
        return [_Line(f"{family}_{int(k)}", family, (str(int(k)),)) for k in numbers]
    return [_Line(f"{family}_{x:.2f}", family, (f"{x:g}",)) for x in numbers]


def _number(family: str, text: str) -> float:
    """A number as trec_eval reads it: a rank may have decimals, which do not count."""
    if not re.fullmatch(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)", text):
        raise MeasureError(f"{text!r:.40}, a parameter of {family}, is not a number.")
    if abs(float(text)) > _LARGEST:
        raise MeasureError(f"{text:.20}…, a parameter of {family}, is beyond 10^12.")
    return float(int(float(text)) if FAMILIES[family].params == "cuts" else float(text))


def _check(family: str, params: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The parameters of one line, if they have the form that the measure takes."""
    if kind == "persistence":
        params = tuple(one.removeprefix("p=") for one in params)
    for one in params:
        level, equals, gain = one.partition("=") if kind == "gains" else ("0", "=", one)
        if not equals:
            raise MeasureError(f"{family}.{one}: write the gains of grades, as in 1=3,2=9.")
        _number(family, level)
        if not 0 <= _number(family, gain) <= 1 and kind == "persistence":
            raise MeasureError(f"{family}.{one}: the persistence is from 0 to 1.")
    counts = {"relstring": 1, "set_F": 1, "utility": 4, "rbp": 1, "rbp_resid": 1}
    if params and len(params) != counts.get(family, len(params)):
        raise MeasureError(f"{family} takes {counts[family]} numbers, found {len(params)}.")
    return params


def at_level(measure: Measure, level: int) -> Measure:
    """The measure with this smallest relevant grade, where it takes one."""
    takes = "rel" in measure.definition.params
    return measure(rel=level) if takes and level != 1 else measure


def _keep_judged(hits: Hits) -> Hits:
    """The hits of the lists without the documents that were not judged (-J)."""
    kept = hits.grade >= 0
    row = hits.row[kept]
    rank = nth_in_row(row)
    counts = np.bincount(row, minlength=hits.n_queries)
    return replace(
        hits,
        offsets=offsets_of(counts),
        rank=rank,
        rank_lo=rank,
        rank_hi=rank,
        grade=hits.grade[kept],
        n_ret=counts,
        tie_split=None,
    )


class _Answers:
    """The values of lines for some hits."""

    def __init__(self, hits: Hits, n_ret: Ints, level: int, n_docs: int, run_id: str) -> None:
        self.hits, self.n_ret = hits, n_ret
        self.level, self.n_docs, self.run_id = level, n_docs, run_id

    def column(self, line: _Line, *, complete: bool) -> Iterator[TrecColumn]:
        """The column of a line, with what stands in the summary."""
        kind = FAMILIES[line.family].kind
        if line.family in ("runid", "num_q"):
            n_queries = str(self.hits.n_queries)
            yield TrecColumn(line.name, None, self.run_id if line.family == "runid" else n_queries)
        elif kind == "text":
            yield TrecColumn(line.name, [f"'{text}'" for text in self._texts(line)], None)
        else:
            values = self.values(line)
            total = _summary(kind, values)
            if line.family == "num_rel" and complete:
                # trec_eval counts again here, and forgets the level.
                total = float(self.hits.pool_count[self.hits.pool_grade > 0].sum())
            write = "{:.0f}".format if kind == "sum" else "{:6.4f}".format
            shown = None if kind == "geometric" else [write(one) for one in values.tolist()]
            yield TrecColumn(line.name, shown, write(total))

    def values(self, line: _Line) -> Floats:
        """The value of each query."""
        family = FAMILIES[line.family]
        if not family.measure:
            compute = FORMULAS[line.family]
            found = np.array([compute(query, line.params) for query in self._queries()])
            return found if line.name not in _TAKEN_BACK else np.where(self.hits.missing, 0, found)
        measure = at_level(parse(_own_name(family, line.params)), self.level)
        return np.nan_to_num(score(self.hits, measure)[measure])

    def _texts(self, line: _Line) -> list[str]:
        length = int(float(line.params[0]))
        found = [relstring(query, length) for query in self._queries()]
        return [
            "" if gone and line.name in _TAKEN_BACK else text
            for gone, text in zip(self.hits.missing, found, strict=True)
        ]

    def _queries(self) -> Iterator[QueryList]:
        """The list of each query."""
        hits = self.hits
        for q in range(hits.n_queries):
            inside = slice(hits.offsets[q], hits.offsets[q + 1])
            pool = slice(hits.pool_offsets[q], hits.pool_offsets[q + 1])
            yield QueryList(
                hits.rank[inside],
                hits.grade[inside],
                int(self.n_ret[q]),
                hits.pool_grade[pool],
                hits.pool_count[pool],
                self.level,
                self.n_docs,
            )


def _own_name(family: _TrecFamily, params: tuple[str, ...]) -> str:
    """The name of the measure that is Assay's, with the parameters of a line."""
    if family.measure == "Rprec(mult={})" and float(params[0]) == 1:
        return "Rprec"
    return family.measure.format("/".join(params))


def _summary(kind: str, values: Floats) -> float:
    """The sum or mean, added up in the order of the queries as trec_eval does."""
    if kind == "geometric":
        logs = np.log(np.maximum(values, GEOMETRIC_FLOOR))
        return math.exp(float(np.cumsum(logs)[-1]) / len(values))
    total = float(np.cumsum(values)[-1])
    return total if kind == "sum" else total / len(values)
