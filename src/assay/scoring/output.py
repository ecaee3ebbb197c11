"""Scores for readers: what a mean hides, in sentences.

trec_eval's own layout: a name, a query or `all`, and a value with four digits.

Measures stand in trec_eval's order, whatever the order of the request, and carry its names; one
that trec_eval does not have comes last, under its own name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from assay.core.checks import name_few
from assay.core.ids import Ids
from assay.core.text import Remark, format_share
from assay.errors import UsageError
from assay.measures import GROUPS, Measure, parse
from assay.measures.registry import Value, format_value
from assay.scoring.scores import Scores


def disclosures(scores: Scores, chance: Mapping[str, float] | None = None) -> Iterator[str]:
    """Return a sentence for each thing that a mean alone would hide; `chance` by measure if known.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 1, "b": 1, "c": 0}}
    >>> list(disclosures(evaluate(run, {"q": {"a": 1}}, "RR")))
    ['100 % of queries have a value that depends on ties (ties: order)']
    """
    yield from scores.remarks
    for describe in (_missing, _extra, _empty, tied_remark):
        remark = describe(scores)
        if remark:
            yield remark
    yield from limit_remarks(scores, chance)


def limit_remarks(scores: Scores, chance: Mapping[str, float] | None = None) -> Iterator[str]:
    """Warn of cutoffs beyond the collection and of means that chance reaches or beats."""
    n_docs = int(scores.settings.get("n_docs", 0))
    deep = [str(m) for m in scores.measures if isinstance(m.cutoff, int) and m.cutoff > n_docs > 0]
    if deep:
        short = f"{', '.join(deep)}: the cutoff exceeds the {n_docs} documents"
        yield Remark(f"{short} of the collection", short)
    of_one = {str(measure) for measure in scores.measures if measure.definition.high == 1.0}
    sure = [name for name, v in (chance or {}).items() if v > 1 - 1e-12 and name in of_one]
    if sure:
        words = f"always 1 in a complete ranking: {', '.join(sure)}"
        yield Remark(f"{words} (chance 100 %)", words)
    yield from _below_chance(scores, chance or {})
    unknown = [m for m in scores.measures if math.isnan((chance or {}).get(str(m), 0.0))]
    hard = [str(m) for m in unknown if not m.is_order_free and np.isfinite(scores[m]).any()]
    if hard:
        short = f"chance of {', '.join(hard)} is not computed"
        yield Remark(f"{short}: the exact value would take too long", short)


def _below_chance(scores: Scores, chance: Mapping[str, float]) -> Iterator[str]:
    means = scores.mean() if chance else {}
    low = {
        str(m): chance[str(m)]
        for m in scores.measures
        if is_below_chance(m, means.get(str(m), 1.0), chance.get(str(m), 0.0))
    }
    if low:
        below = [f"{name} ({means[name]:.4f}, chance {value:.4f})" for name, value in low.items()]
        words = f"worse than a random order: {', '.join(below)}"
        many = f"{{}} systems are worse than a random order on {next(iter(low))}"
        yield Remark(words, words, many)


def is_below_chance(measure: Measure, mean: float, chance: float) -> bool:
    """Return whether a random order is better than this mean, by more than rounding."""
    if measure.definition.high != 1.0 or not measure.is_quality:
        return False
    return mean < chance * (1 - 1e-9)


def zero_remark(policy: str, n_queries: int, n_docs: int, what: str = "documents") -> str:
    """Return what became of vectors of zeros under cosine; empty where there are none."""
    dropped = policy == "drop"
    parts = [
        f"{n_queries} of the queries, to which " + ("nothing is found" if dropped else "all tie")
    ]
    parts += [f"{n_docs} of the {what}, " + ("never found" if dropped else "always last")]
    some = [part for part, n in zip(parts, (n_queries, n_docs), strict=True) if n]
    return f"vectors of zeros (zero: {policy}): {'; '.join(some)}" if some else ""


def _missing(scores: Scores) -> str:
    ids = scores.query_ids.take(scores.missing.nonzero()[0])
    if not len(ids):
        return ""
    fate = "left out" if scores.conventions.missing == "skip" else "counted as 0"
    number = _queries(len(ids))
    words = f"{number} judged but not in the run, {fate}: {name_few(ids)}"
    short = f"judged queries are missing ({len(ids)}, {fate})"
    return Remark(words, short, f"judged queries are missing in {{}} runs ({fate})")


def _extra(scores: Scores) -> str:
    if not len(scores.extra):
        return ""
    number = _queries(len(scores.extra))
    words = f"{number} in the run but not judged, left out: {name_few(scores.extra)}"
    many = "{} runs have queries without judgments (left out)"
    return Remark(words, f"{number} in the run not judged (left out)", many)


def _empty(scores: Scores) -> str:
    counts = scores.mean().counts
    number = max((c.empty for c in counts.values()), default=0)
    if not number:
        return ""
    fate = "counted as 0" if scores.conventions.empty == "zero" else "left out"
    return f"{_queries(number)} without a relevant document, {fate}"


def tied_remark(scores: Scores, what: str = "queries") -> str:
    """Return how many of the queries depend on the order of documents with equal scores, if any."""
    number, total = int(scores.tied.any(axis=0).sum()), len(scores.query_ids)
    if not number:
        return ""
    share = format_share(number, total, what)
    verb = "has" if share.startswith("1 of") else "have"
    words = f"{share} {verb} a value that depends on ties (ties: {scores.conventions.ties})"
    return Remark(words, f"tied scores affect {share}", "tied scores affect {} systems")


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number} queries"


_NAME_WIDTH: Final = 22

# The defaults of trec_eval; giving them as parameters of a measure does not change its name.
_PLAIN: Final[dict[str, Value]] = {
    "cap": False,
    "over": "R",
    "gain": "linear",
    "ideal": "judged",
    "iprec": "round",
}

# Names that depend on which parameters are set: (measure, parameters, has a cutoff).
_TEMPLATES: Final[dict[tuple[str, tuple[str, ...], bool], str]] = {
    ("AP", (), False): "map",
    ("nDCG", (), False): "ndcg",
    ("nDCG", ("gains",), False): "ndcg_{gains}",
    ("R", ("cap",), True): "relative_P_{k}",
    ("SetR", ("cap",), False): "set_relative_P",
    ("Rprec", ("mult",), False): "Rprec_mult_{mult:.2f}",
    ("iAP", ("levels",), False): "11pt_avg_{levels}",
    ("RBP", ("graded", "p"), False): "rbp",
    ("RBPresid", ("p",), False): "rbp_resid",
}
_RBP: Final[dict[str, tuple[tuple[str, Value], ...]]] = {
    "RBP": (("graded", True), ("p", 0.9)),
    "RBPresid": (("p", 0.9),),
}


def trec_name(measure: Measure) -> str:
    """Return trec_eval's name of a measure, or its canonical name.

    >>> trec_name(parse("nDCG@10")), trec_name(parse("AP(rel=2)")), trec_name(parse("ERR@20"))
    ('ndcg_cut_10', 'map', 'ERR@20')
    """
    bare = _without_rel(measure)
    template = _template(bare)
    if template is None:
        return str(bare)
    params = dict(bare.params)
    return template.format(
        k=bare.cutoff,
        level=f"{bare.cutoff:.2f}" if isinstance(bare.cutoff, int | float) else "",
        mult=params.get("mult"),
        gains=format_value(params.get("gains", ())).replace(":", "=").replace("/", ","),
        levels=_levels(params.get("levels", ())),
    )


def _levels(levels: Value) -> str:
    """Return recall levels as trec_eval's manual writes them: .25,.5,.75."""
    numbers = levels if isinstance(levels, tuple) else (levels,)
    return ",".join(f"{number:g}".removeprefix("0") or "0" for number in numbers)


def _without_rel(measure: Measure) -> Measure:
    params = tuple(
        (key, value)
        for key, value in measure.params
        if key != "rel" and _PLAIN.get(key, None) != value
    )
    return Measure(measure.name, params, measure.cutoff)


def _template(bare: Measure) -> str | None:
    if bare.params != _RBP.get(bare.name, bare.params):
        return None
    has_cutoff = bare.cutoff is not None
    keys = tuple(key for key, _ in bare.params)
    special = _TEMPLATES.get((bare.name, keys, has_cutoff))
    if special is not None:
        return special
    plain = bare.definition.trec
    if keys or plain is None or ("{" in plain) != has_cutoff:
        return None
    return plain


def in_trec_order(measures: tuple[Measure, ...]) -> list[tuple[str, int]]:
    """Return (trec_eval's name, number of the measure) in trec_eval's order.

    Where multiples of R are requested, trec_eval prints R-precision among them once more.
    """
    templates = [_template(parse(name)) for name in GROUPS["all_trec"]]
    place = {template: i for i, template in reversed(list(enumerate(templates)))}
    place[_TEMPLATES["nDCG", ("gains",), False]] = place["ndcg"]
    place[_TEMPLATES["iAP", ("levels",), False]] = place["11pt_avg"]
    rows = [(*_place(measure, place), trec_name(measure), i) for i, measure in enumerate(measures)]
    multiples = place[_TEMPLATES["Rprec", ("mult",), False]]
    if any(row[0] == multiples for row in rows):
        plain = [row for row in rows if row[2] == "Rprec"]
        rows += [(multiples, 1.0, "Rprec_mult_1.00", row[3]) for row in plain]
    return [(name, i) for _, _, name, i in sorted(rows, key=lambda row: row[:2])]


def _place(measure: Measure, place: dict[str | None, int]) -> tuple[int, float]:
    bare = _without_rel(measure)
    template = _template(bare)
    if template is None:
        return len(place) + len(GROUPS["all_trec"]), 0.0
    size = dict(bare.params).get("mult", bare.cutoff)
    number = float(size) if isinstance(size, int | float) else 0.0
    return place.get(template, len(GROUPS["all_trec"])), number


class TrecColumn(NamedTuple):
    """One measure as it is printed: a value for each query and one for all; None: no such line."""

    name: str
    values: Sequence[str] | None
    summary: str | None


def trec_lines(
    query_ids: Ids, columns: Sequence[TrecColumn], *, per_query: bool, summary: bool = True
) -> str:
    """Return the lines of columns: query by query, then the summary."""
    listed = [(name, values) for name, values, _ in columns if values is not None and per_query]
    lines = [
        _line(name, str(query), values[row])
        for row, query in enumerate(query_ids)
        for name, values in listed
    ]
    ends = [(name, total) for name, _, total in columns if total is not None and summary]
    return "\n".join([*lines, *(_line(name, "all", total) for name, total in ends)])


def trec_layout(
    scores: Scores, *, run_id: str = "", per_query: bool = False, header: bool = True
) -> str:
    """Return the scores as trec_eval 10.0 prints them.

    `header` adds the lines runid and num_q.
    """
    rels = {dict(m.params).get("rel", 1) for m in scores.measures if "rel" in m.definition.params}
    if len(rels) > 1:
        raise UsageError(
            "trec_eval's layout has one relevance threshold for all measures, found rel = "
            f"{', '.join(format_value(value) for value in sorted(rels, key=str))}. Use --rel for "
            "all of them, or another format."
        )
    used = np.flatnonzero(~scores.missing | (scores.conventions.missing != "skip"))
    top = [("runid", run_id), ("num_q", str(len(used)))] if header else []
    columns = [TrecColumn(name, None, value) for name, value in top]
    means = list(scores.mean().values())
    for name, i in in_trec_order(scores.measures):
        values = [_value(scores, i, value) for value in scores.values[i, used].tolist()]
        # Geometric means have no value of their own for a single query.
        alone = None if _aggregate(scores, i) == "geometric" else values
        columns.append(TrecColumn(name, alone, _value(scores, i, means[i])))
    return trec_lines(scores.query_ids.take(used), columns, per_query=per_query)


def _aggregate(scores: Scores, number: int) -> str:
    return scores.measures[number].definition.aggregate


def _value(scores: Scores, number: int, value: float) -> str:
    if math.isnan(value) and scores.conventions.empty == "zero":
        value = 0.0
    return f"{value:.0f}" if _aggregate(scores, number) == "sum" else f"{value:6.4f}"


def _line(name: str, query: str, value: str) -> str:
    return f"{name:<{_NAME_WIDTH}}\t{query}\t{value}"
