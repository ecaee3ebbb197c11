"""trec_eval 10 as a function: its flags as arguments, its lines as the answer.

Most numbers are those of Assay's own measures. What only trec_eval has (binG, G, ndcg_rel,
Rndcg, utility, …) is computed here from the same hits, because a script that reads its output
expects every line. Measures of preferences and of several assessors are not there.
Source: the source code of trec_eval 10.0, and what it prints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints, log, log2
from assay.core.conventions import Conventions, preset
from assay.core.hits import Hits, condense, judge
from assay.core.text import did_you_mean
from assay.errors import MeasureError, MismatchError
from assay.io.formats import QrelsLike, RunLike, as_judgments, as_ranking
from assay.measures import Measure, parse
from assay.scoring.evaluate import score
from assay.scoring.output import TrecColumn, trec_lines
from assay.scoring.scores import GEOMETRIC_FLOOR

_LARGEST: Final = 1e12  # of parameters: sums of as large gains are exact
_CUTS: Final = "5,10,15,20,30,100,200,500,1000"
_TENTHS: Final = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1"


# The measures that only trec_eval has, for the list of one query. Each takes the list and its
# parameters as they were typed. Their formulas and the order of their sums are those of trec_eval
# 10.0, whose output they have to match in the last printed digit.


class QueryList(NamedTuple):
    """The judged documents of one query's list in rank order, and what the pool holds."""

    rank: Ints
    grade: Floats
    n_ret: int
    pool_grade: Floats
    pool_count: Ints
    level: int
    n_docs: int

    @property
    def good(self) -> Ints:
        """The ranks of relevant documents."""
        return self.rank[(self.grade >= 0) & (self.grade >= self.level)]

    @property
    def n_rel(self) -> int:
        """Number of relevant documents, retrieved or not."""
        relevant = (self.pool_grade >= 0) & (self.pool_grade >= self.level)
        return int(self.pool_count[relevant].sum())

    def gains(self, params: tuple[str, ...]) -> tuple[Ints, Floats, Floats]:
        """Return ranks and gains, and the gains of the ideal list."""
        table = {float(grade): float(gain) for grade, _, gain in (p.partition("=") for p in params)}
        judged = self.grade >= 0
        gain, ideal = (
            np.array([table.get(level, level) for level in grades.tolist()], np.float64)
            for grades in (self.grade[judged], self.pool_grade)
        )
        ideal = np.repeat(ideal, np.where(self.pool_grade >= 0, self.pool_count, 0))
        return self.rank[judged], gain, -np.sort(-ideal[ideal > 0])


def relstring(query: QueryList, length: int) -> str:
    """Return the grades of the first documents, a sign each."""
    signs = ["-"] * min(length, query.n_ret)
    for rank, grade in zip(query.rank.tolist(), query.grade.tolist(), strict=True):
        if rank <= len(signs):
            signs[rank - 1] = "." if grade < 0 else ">" if grade > 9 else str(int(grade))
    return "".join(signs)


def _binary_g(query: QueryList, params: tuple[str, ...]) -> float:
    good = query.good
    above = good - np.arange(1, len(good) + 1)
    return float((1 / log2(2.0 + above)).sum() / query.n_rel) if len(good) else 0.0


def _g(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, ideal = query.gains(params)
    if not len(ideal):
        return 0.0
    cost = np.concatenate([[0.0], np.cumsum(np.maximum(ideal, 1.0))])
    spent = cost[np.minimum(rank, len(ideal))] + np.maximum(rank - len(ideal), 0)
    some = gain != 0
    parts = gain[some] / log2(2 + spent - np.cumsum(gain))[some]
    return float(parts.sum() / ideal.sum())


def _dcg_after(rank: Ints, gain: Floats) -> Floats:
    """Return 0, and the DCG after each of the documents."""
    return np.concatenate([[0.0], np.cumsum(gain / log2(rank + 1.0))])


def _ideal_after(ideal: Floats) -> Floats:
    return _dcg_after(np.arange(1, len(ideal) + 1), ideal)


def _dcg(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, _ = query.gains(params)
    return float(_dcg_after(rank, gain)[-1])


def _ideal_dcg(query: QueryList, params: tuple[str, ...]) -> float:
    return float(_ideal_after(query.gains(params)[2])[-1])


def _ndcg(query: QueryList, params: tuple[str, ...]) -> float:
    best = _ideal_dcg(query, params)
    return _dcg(query, params) / best if best else 0.0


def _ndcg_at_relevant(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, ideal = query.gains(params)
    if not len(ideal):
        return 0.0
    dcg, best = _dcg_after(rank, gain), _ideal_after(ideal)
    at = np.flatnonzero(gain > 0)
    shares = dcg[at + 1] / best[np.minimum(rank[at], len(ideal))]
    rest = (len(ideal) - len(at)) * dcg[-1] / best[-1]
    return max(float((shares.sum() + rest) / len(ideal)), 0.0)


def _ndcg_at_levels(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, ideal = query.gains(params)
    if not query.n_rel or not len(ideal):
        return 0.0
    dcg, best = _dcg_after(rank, gain), _ideal_after(ideal)
    ends = [*(np.flatnonzero(np.diff(ideal)) + 1).tolist(), len(ideal)]
    points = [(end, end) for end in ends]
    if query.n_ret > len(ideal) + 1:
        points.append((query.n_ret, len(ideal)))
    shares = [dcg[int(np.searchsorted(rank, k, "right"))] / best[i] for k, i in points]
    return float(sum(shares) / len(shares))


def _set_map(query: QueryList, params: tuple[str, ...]) -> float:
    sizes = query.n_ret * query.n_rel
    return len(query.good) ** 2 / sizes if sizes else 0.0


def _set_f(query: QueryList, params: tuple[str, ...]) -> float:
    n_good, weight = len(query.good), float(params[0])
    if not n_good:
        return 0.0
    precision, recall = n_good / query.n_ret, n_good / query.n_rel
    below = weight * precision + recall
    return (weight + 1) * precision * recall / below if below else 0.0


def _utility(query: QueryList, params: tuple[str, ...]) -> float:
    good, bad, missed = len(query.good), query.n_ret - len(query.good), query.n_rel
    cells = (good, bad, missed - good, query.n_docs - bad - missed)
    return math.fsum(float(p) * n for p, n in zip(params, cells, strict=True))


def _yaap(query: QueryList, params: tuple[str, ...]) -> float:
    good = query.good
    total = float((np.arange(1, len(good) + 1) / good).sum())
    return math.log((1 + total) / (1 + query.n_rel - total))


def _rbp(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, ideal = query.gains(())
    gain = gain / max(ideal.max(initial=1.0), 1.0)
    parts = gain * _persistence(query, params)[rank - 1]
    return (1 - float(params[0])) * float(np.cumsum(np.append(parts, 0.0))[-1])


def _persistence(query: QueryList, params: tuple[str, ...]) -> Floats:
    """Return how likely a reader reaches each rank, and beyond."""
    return np.concatenate([[1.0], np.full(query.n_ret, float(params[0]))]).cumprod()


def _rbp_residual(query: QueryList, params: tuple[str, ...]) -> float:
    weights, p = _persistence(query, params), float(params[0])
    unjudged = np.ones(query.n_ret, bool)
    unjudged[query.rank[query.grade >= 0] - 1] = False
    if not unjudged.any():
        return 0.0
    return float(weights[-1] + (1 - p) * weights[:-1][unjudged].sum())


Formula = Callable[[QueryList, tuple[str, ...]], float]


class _TrecFamily(NamedTuple):
    """A name of trec_eval that stands for one line or several.

    `params` says what may follow the name: cuts, levels (a line each), gains or numbers (in the
    line's name); `default` what holds where nothing does. `measure` is the measure of a line, with
    its parameter in `{}`, or a formula; the families of texts have neither.
    """

    measure: str | Formula = ""
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
    "infAP": _TrecFamily("infAP"),
    "gm_bpref": _TrecFamily("bpref", kind="geometric"),
    "Rprec_mult": _TrecFamily("Rprec(mult={})", "levels", "0.2,0.4,0.6,0.8,1,1.2,1.4,1.6,1.8,2"),
    "utility": _TrecFamily(_utility, "numbers", "1,-1,0,0"),
    "11pt_avg": _TrecFamily("iAP(levels={})", "numbers", _TENTHS),
    "binG": _TrecFamily(_binary_g),
    "G": _TrecFamily(_g, "gains"),
    "dcg": _TrecFamily(_dcg, "gains"),
    "ideal_dcg": _TrecFamily(_ideal_dcg, "gains"),
    "ndcg": _TrecFamily(_ndcg, "gains"),
    "ndcg_rel": _TrecFamily(_ndcg_at_relevant, "gains"),
    "Rndcg": _TrecFamily(_ndcg_at_levels, "gains"),
    "ndcg_cut": _TrecFamily("nDCG@{}", "cuts", _CUTS),
    "map_cut": _TrecFamily("AP@{}", "cuts", _CUTS),
    "relative_P": _TrecFamily("R(cap=true)@{}", "cuts", _CUTS),
    "success": _TrecFamily("Success@{}", "cuts", "1,5,10"),
    "set_P": _TrecFamily("SetP"),
    "set_relative_P": _TrecFamily("SetR(cap=true)"),
    "set_recall": _TrecFamily("SetR"),
    "set_map": _TrecFamily(_set_map),
    "set_F": _TrecFamily(_set_f, "numbers", "1"),
    "num_nonrel_judged_ret": _TrecFamily("num_nonrel_judged_ret", kind="sum"),
    "yaap": _TrecFamily(_yaap),
    "rbp": _TrecFamily(_rbp, "persistence", "0.9"),
    "rbp_resid": _TrecFamily(_rbp_residual, "persistence", "0.9"),
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
    """Return what `trec_eval` prints for judgments and a run.

    Args:
        qrels: Judgments.
        run: Run.
        measures: Measures by trec_eval's names (-m).
        per_query: Whether there are lines for each query (-q).
        summary: Whether there are lines for all queries (without -n).
        complete: Count judged queries that are not in the run as 0 (-c), else they are left out.
        level: Smallest grade that is relevant (-l).
        depth: Number of documents of each query to evaluate (-M).
        judged_only: Drop unjudged documents first (-J).
        n_docs: Size of the collection, for utility (-N).
        tell: Called with what is odd about the input.

    Returns:
        The lines.

    Raises:
        MeasureError: trec_eval has no such measure, or it is not supported.
        MismatchError: No query is both in the run and judged.

    >>> print(trec_eval({"q": {"a": 1}}, {"q": {"b": 2, "a": 1}}, ["map", "P.1,5"]))
    map                   	all	0.5000
    P_1                   	all	0.0000
    P_5                   	all	0.2000
    """
    lines = _lines_of(measures)
    rules = preset("trec_eval").replace(depth=depth, missing="zero" if complete else "skip")
    ranking = as_ranking(run, rules)
    hits = judge(ranking, as_judgments(qrels), conventions=rules, allow_mismatch=True)
    for remark in hits.remarks:
        tell(remark)
    if not complete and hits.missing.any():
        tell(f"{int(hits.missing.sum())} judged queries are not in the run; -c counts them as 0")
        hits = hits.select(np.flatnonzero(~hits.missing))
    if not hits.n_queries:
        raise MismatchError("No query is both in the run and judged. Check the ids.")
    hits = condense(hits) if judged_only else hits
    # trec_eval gives a missing query one document of nowhere, which -J drops again.
    n_ret = hits.n_ret if judged_only else np.where(hits.missing, 1, hits.n_ret)
    answers = _Answers(hits, n_ret, level, n_docs, ranking.name or "")
    columns = [column for line in lines for column in answers.column(line, complete=complete)]
    return trec_lines(hits.query_ids, columns, per_query=per_query, summary=summary)


def trec_only_values(
    qrels: QrelsLike, run: RunLike, names: Iterable[str], *, rules: Conventions, level: int
) -> dict[str, dict[str, float]]:
    """Return measures that only trec_eval has: {measure: {query: value}}."""
    hits = judge(as_ranking(run, rules), as_judgments(qrels), conventions=rules)
    answers = _Answers(hits, hits.n_ret, level, 0, "")
    ids = list(map(str, hits.query_ids))
    lines = [line for name in names for line in _expand(name, "")]
    return {line.name: dict(zip(ids, answers.values(line).tolist(), strict=True)) for line in lines}


def _lines_of(measures: Iterable[str]) -> list[_Line]:
    """Return the lines to print; a measure's first parameters hold."""
    parameters: dict[str, str] = {}
    for spelt in measures:
        name, dot, params = spelt.partition(".")
        if name not in FAMILIES and name not in NICKNAMES:
            raise MeasureError(_unknown(name))
        if dot and (name in NICKNAMES or not FAMILIES[name].params or not params):
            raise MeasureError(f"{spelt!r}: {name} takes no such parameters. Omit them.")
        for family in NICKNAMES.get(name, (name,)):
            parameters[family] = parameters.get(family) or params
    ordered = (family for family in FAMILIES if family in parameters)
    return [line for family in ordered for line in _expand(family, parameters[family])]


def _unknown(name: str) -> str:
    if _UNSUPPORTED.fullmatch(name):
        return (
            f"The measure {name!r} of trec_eval is not supported (preferences or several "
            "assessors). Omit it."
        )
    hint = did_you_mean(name, [*FAMILIES, *NICKNAMES], most=3)
    return f"trec_eval has no measure {name!r}.{hint} Parameters follow a dot: P.5,10."


def _expand(family: str, text: str) -> list[_Line]:
    kind, params = FAMILIES[family].params, tuple(text.split(",")) if text else ()
    default = tuple(FAMILIES[family].default.split(",")) if FAMILIES[family].default else ()
    if kind not in ("cuts", "levels"):
        name = f"{family}_{text}" if text else family
        return [_Line(name, family, _check(family, params, kind) or default)]
    numbers = sorted({_number(family, number) for number in params or default})
    if len(numbers) < len(params or default) or (kind == "cuts" and numbers[0] < 1):
        raise MeasureError(f"{family}.{text}: invalid cutoffs. Pass each once, above 0.")
    if kind == "cuts":
        return [_Line(f"{family}_{int(k)}", family, (str(int(k)),)) for k in numbers]
    return [_Line(f"{family}_{x:.2f}", family, (f"{x:g}",)) for x in numbers]


def _number(family: str, text: str) -> float:
    """Read a number as trec_eval does: decimals of a rank do not count."""
    if not re.fullmatch(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)", text):
        raise MeasureError(f"{text!r:.40}, a parameter of {family}, is not a number. Write one.")
    if abs(float(text)) > _LARGEST:
        raise MeasureError(f"{text:.20}…, a parameter of {family}, exceeds 10^12. Lower it.")
    return float(int(float(text)) if FAMILIES[family].params == "cuts" else float(text))


def _check(family: str, params: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """Check the parameters of one line."""
    if kind == "persistence":
        params = tuple(param.removeprefix("p=") for param in params)
    for param in params:
        level, equals, gain = param.partition("=") if kind == "gains" else ("0", "=", param)
        if not equals:
            raise MeasureError(f"{family}.{param}: cannot read gains. Write 1=3,2=9.")
        _number(family, level)
        if not 0 <= _number(family, gain) <= 1 and kind == "persistence":
            raise MeasureError(f"{family}.{param}: the persistence is out of range. Use 0 to 1.")
    counts = {"relstring": 1, "set_F": 1, "utility": 4, "rbp": 1, "rbp_resid": 1}
    if params and len(params) != counts.get(family, len(params)):
        raise MeasureError(
            f"{family} takes {counts[family]} numbers, found {len(params)}. Pass {counts[family]}."
        )
    return params


def at_level(measure: Measure, level: int) -> Measure:
    """Return the measure with this smallest relevant grade, where it takes one."""
    takes = "rel" in measure.definition.params
    return measure(rel=level) if takes and level != 1 else measure


class _Answers:
    """The values of lines for some hits."""

    def __init__(self, hits: Hits, n_ret: Ints, level: int, n_docs: int, run_id: str) -> None:
        self.hits, self.n_ret = hits, n_ret
        self.level, self.n_docs, self.run_id = level, n_docs, run_id

    def column(self, line: _Line, *, complete: bool) -> Iterator[TrecColumn]:
        """Yield the column of a line, with what stands in the summary."""
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
            cells = None if kind == "geometric" else [write(value) for value in values.tolist()]
            yield TrecColumn(line.name, cells, write(total))

    def values(self, line: _Line) -> Floats:
        """Return the value of each query."""
        family = FAMILIES[line.family]
        if not isinstance(family.measure, str):
            with np.errstate(all="ignore"):  # as in C: grades near 1e308 give inf or NaN
                values = np.array([family.measure(query, line.params) for query in self._queries()])
            return np.where(self.hits.missing & (line.name in _TAKEN_BACK), 0, values)
        name = family.measure.format("/".join(line.params))
        if line.family == "Rprec_mult" and float(line.params[0]) == 1:
            name = "Rprec"
        measure = at_level(parse(name), self.level)
        return np.nan_to_num(score(self.hits, measure)[measure])

    def _texts(self, line: _Line) -> list[str]:
        length = int(float(line.params[0]))
        texts = [relstring(query, length) for query in self._queries()]
        gone = self.hits.missing & (line.name in _TAKEN_BACK)
        return ["" if empty else text for empty, text in zip(gone, texts, strict=True)]

    def _queries(self) -> Iterator[QueryList]:
        """Yield the list of each query."""
        hits = self.hits
        for q in range(hits.n_queries):
            inside = slice(hits.offsets[q], hits.offsets[q + 1])
            pool = slice(hits.pool_offsets[q], hits.pool_offsets[q + 1])
            ranked = hits.rank[inside], hits.grade[inside], int(self.n_ret[q])
            judged = hits.pool_grade[pool], hits.pool_count[pool]
            yield QueryList(*ranked, *judged, self.level, self.n_docs)


def _summary(kind: str, values: Floats) -> float:
    """Return the sum or mean, added up in the order of queries."""
    if kind == "geometric":
        logs = log(np.maximum(values, GEOMETRIC_FLOOR))
        return math.exp(float(np.cumsum(logs)[-1]) / len(values))
    total = float(np.cumsum(values)[-1])
    return total if kind == "sum" else total / len(values)
