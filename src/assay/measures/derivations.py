"""How each measure comes about, document by document, for the hits of one query.

These are second derivations, written the way one would work them out by hand; `explain` compares
their result with that of the registered function, bit by bit. A measure names its own by
`@measure(..., derivation=...)`; `derive` serves measures without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.measures.views import RankView, TieView, discount, documents_needed

if TYPE_CHECKING:
    from assay.measures.registry import Measure


Number = int | float


@dataclass(frozen=True)
class Derivation:
    """Columns with a value for each counted document, the lines that follow, and the result.

    `ranks` are those of the rows, where they are not those of the counted documents; `error` is by
    how much the value may differ from the exact one.
    """

    value: float
    working: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Number, ...], ...] = field(default=())
    ranks: tuple[int, ...] = ()
    error: float = 0.0


def show(number: Number) -> str:
    """Return a number as it stands in a line of working."""
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def division(name: str, top: Number, bottom: Number) -> tuple[float, str]:
    """Return a quotient, 0 where there is nothing to divide by, and the line that shows it."""
    value = top / bottom if bottom else 0.0
    return value, f"{name} = {show(top)} / {show(bottom)} = {show(value)}"


def _one(values: Any) -> int:
    return int(values[0])


def _inside(at: RankView, k: int | None) -> list[int]:
    """Ranks of the counted documents down to k."""
    return [rank for rank in at.rank.tolist() if k is None or rank <= k]


def up_to(k: int | None) -> str:
    """Down to which rank, in words; nothing without a cut-off."""
    return "" if k is None else f" at ranks ≤ {k}"


def _count_over(
    at: RankView, k: int | None, name: str, bottom: Number, what: str = "relevant"
) -> Derivation:
    """Return a count over something."""
    n_hits = len(_inside(at, k))
    value, line = division(name, n_hits, bottom)
    working = (f"{what} documents{up_to(k)}: {n_hits}", line)
    return Derivation(value, working, ("found",), tuple((i,) for i in range(1, n_hits + 1)))


def precision(at: RankView, k: int, trunc: bool) -> Derivation:
    cut = min(k, _one(at.n_good)) if trunc else k
    return _count_over(at, cut, f"P@{cut}", cut)


def recall(at: RankView, k: int, cap: bool) -> Derivation:
    bottom = min(k, _one(at.n_good)) if cap else _one(at.n_good)
    return _count_over(at, k, f"R@{k}", bottom)


def success(at: RankView, k: int) -> Derivation:
    n_hits = len(_inside(at, k))
    value = 1.0 if n_hits else 0.0
    working = (f"relevant documents at ranks ≤ {k}: {n_hits}", f"Success@{k} = {show(value)}")
    return Derivation(value, working, ("found",), tuple((i,) for i in range(1, n_hits + 1)))


def reciprocal_rank(at: RankView, k: int | None) -> Derivation:
    ranks = _inside(at, k)[:1]
    if not ranks:
        return Derivation(0.0, (f"no relevant document{up_to(k)}: RR = 0",))
    value, line = division("RR", 1, ranks[0])
    return Derivation(
        value, (f"first relevant document at rank {ranks[0]}", line), ("1/rank",), ((value,),)
    )


def _precision_sum(at: RankView, k: int | None) -> tuple[float, tuple[tuple[Number, ...], ...]]:
    total, rows = 0.0, []
    for nth, rank in enumerate(_inside(at, k), 1):
        total += nth / rank
        rows.append((nth, nth / rank, total))
    return total, tuple(rows)


def _average_precisions(
    at: RankView, k: int | None, bottom: Number, name: str, words: str
) -> Derivation:
    total, rows = _precision_sum(at, k)
    value, line = division(name, total, bottom)
    working = (f"sum of precisions: {show(total)}; divided by {words} = {bottom}", line)
    return Derivation(value, working, ("found", "precision", "sum"), rows)


def average_precision(at: RankView, k: int | None, over: str) -> Derivation:
    good = _one(at.n_good)
    if over == "hits":
        bottom, words = len(_inside(at, k)), "the hits"
    elif k is None or over == "R":
        bottom, words = good, "R"
    else:
        bottom, words = (min(k, good), "min(k, R)") if over == "min" else (k, "k")
    return _average_precisions(at, k, bottom, "AP", words)


def average_precision_at_r(at: RankView) -> Derivation:
    good = _one(at.n_good)
    return _average_precisions(at, good, good, "MAP@R", "R")


def geometric_map(at: RankView) -> Derivation:
    derivation = _average_precisions(at, None, _one(at.n_good), "AP", "R")
    note = "over queries the geometric mean of max(AP, 0.00001) is taken"
    return Derivation(
        derivation.value, (*derivation.working, note), derivation.columns, derivation.rows
    )


def _weigh(
    at: RankView, k: int | None, weights: Callable[[Any], Any]
) -> tuple[float, list[tuple[Number, ...]]]:
    n = len(_inside(at, k))
    weight = weights(at.rank[:n].astype(np.float64)).tolist()
    total = 0.0
    rows: list[tuple[Number, ...]] = []
    for gain, each in zip(at.gain[:n].tolist(), weight, strict=True):
        total += gain * each
        rows.append((gain, each, gain * each, total))
    return total, rows


def ndcg(at: RankView, k: int | None, ideal: str) -> Derivation:
    total, rows = _weigh(at, k, discount)
    best, line = _ideal(at, k, ideal)
    value, last = division("nDCG", total, best)
    rounded = ("above 1 by rounding alone, so it is 1",) if value > 1.0 else ()
    working = (f"DCG = {show(total)}", line, last, *rounded)
    return Derivation(
        min(value, 1.0), working, ("gain", "discount", "gain·discount", "DCG"), tuple(rows)
    )


def ideal_gains(at: RankView | TieView, k: int | None, ideal: str) -> list[float]:
    """Return the gains of the ideal order, the best first."""
    pool = at.pool if ideal == "judged" else at.retrieved_pool
    gains = sorted(np.repeat(pool.gain, pool.count).tolist(), reverse=True)
    return [gain for gain in gains if gain > 0][:k]


def _ideal(at: RankView, k: int | None, ideal: str) -> tuple[float, str]:
    gains = ideal_gains(at, k, ideal)
    discounts = discount(np.arange(1.0, len(gains) + 1)).tolist()
    total = 0.0
    for gain, each in zip(gains, discounts, strict=True):
        total += gain * each
    terms = " + ".join(
        f"{show(g)}·{each:.4f}" for g, each in zip(gains[:4], discounts, strict=False)
    )
    more = f" + … ({len(gains)} terms)" if len(gains) > 4 else ""
    return total, f"ideal DCG = {terms}{more} = {show(total)}"


def rank_biased_precision(at: RankView, k: int | None, p: float) -> Derivation:
    total, rows = _weigh(at, k, lambda rank: np.power(p, rank - 1.0))
    top = max([1.0, *at.pool.gain.tolist()])
    value = (1.0 - p) * total / top
    over = f" / {show(top)} (the highest grade)" if top > 1 else ""
    line = f"RBP = (1 − {show(p)}) · {show(total)}{over} = {show(value)}"
    return Derivation(
        value, (line,), ("gain", f"{show(p)}^(rank−1)", "product", "sum"), tuple(rows)
    )


def expected_reciprocal_rank(at: RankView, k: int | None) -> Derivation:
    total, alive, rows = 0.0, 1.0, []
    for rank, stop in zip(_inside(at, k), at.gain.tolist(), strict=False):
        term = alive * stop / rank
        total += term
        rows.append((stop, alive, term, total))
        alive *= 1.0 - stop
    line = f"ERR = {show(total)}; the reader is still looking with probability {show(alive)}"
    return Derivation(
        total, (line,), ("stops here", "got here", "product/rank", "sum"), tuple(rows)
    )


def binary_preference(at: RankView) -> Derivation:
    good, bad = _one(at.n_good), _one(at.n_bad)
    bottom = max(min(good, bad), 1)
    total, rows = 0.0, []
    for above in at.bad_above.tolist():
        term = 1.0 - min(above, good) / bottom
        total += term
        rows.append((above, term, total))
    value, line = division("bpref", total, good)
    counts = f"R = {good}, judged not relevant: {bad}, smaller of the two: {min(good, bad)}"
    return Derivation(value, (counts, line), ("bad above", "1 − share", "sum"), tuple(rows))


def _judged_count(at: RankView, k: int | None) -> tuple[int, int]:
    length = _one(at.n_ret) if k is None else min(_one(at.n_ret), k)
    return (length if at.hits.exhaustive else len(_inside(at, k))), length


def judged(at: RankView, k: int | None) -> Derivation:
    n_judged, length = _judged_count(at, k)
    value, line = division("Judged", n_judged, length)
    return Derivation(value, (f"judged documents{up_to(k)}: {n_judged} of {length}", line))


def unjudged(at: RankView, k: int) -> Derivation:
    n_judged, length = _judged_count(at, k)
    value, line = division(f"Unjudged@{k}", length - n_judged, k)
    return Derivation(value, (f"judged documents at ranks ≤ {k}: {n_judged} of {length}", line))


def _levels(at: RankView, levels: tuple[float, ...], iprec: str) -> tuple[list[float], list[str]]:
    precisions = [nth / rank for nth, rank in enumerate(at.rank.tolist(), 1)]
    needed = documents_needed(at.n_good, levels, iprec)[:, 0].tolist()
    values = [max(precisions[max(least, 1) - 1 :], default=0.0) for least in needed]
    lines = [
        f"recall {level:g} needs {least} of {_one(at.n_good)}: best precision from there on "
        f"= {show(value)}"
        for level, least, value in zip(levels, needed, values, strict=True)
    ]
    return values, lines


def interpolated_precision(at: RankView, k: float, iprec: str) -> Derivation:
    values, lines = _levels(at, (k,), iprec)
    _, rows = _precision_sum(at, None)
    return Derivation(
        values[0], tuple(lines), ("found", "precision"), tuple(row[:2] for row in rows)
    )


def eleven_point_average(at: RankView, levels: tuple[float, ...], iprec: str) -> Derivation:
    values, lines = _levels(at, levels, iprec)
    total = 0.0
    for value in values:
        total += value
    value, line = division("iAP", total, len(values))
    _, rows = _precision_sum(at, None)
    return Derivation(value, (*lines, line), ("found", "precision"), tuple(row[:2] for row in rows))


def r_precision(at: RankView, mult: float) -> Derivation:
    cut = int(np.floor(mult * at.n_good + 0.9)[0])
    return _count_over(at, cut, f"P@{cut}", cut)


def set_precision(at: RankView) -> Derivation:
    return _count_over(at, None, "SetP", _one(at.n_ret))


def set_recall(at: RankView, cap: bool) -> Derivation:
    bottom = min(_one(at.n_ret), _one(at.n_good)) if cap else _one(at.n_good)
    return _count_over(at, None, "SetR", bottom)


def set_f(at: RankView, beta: float) -> Derivation:
    p, r = set_precision(at), set_recall(at, cap=False)
    top, bottom = (1 + beta**2) * p.value * r.value, beta**2 * p.value + r.value
    value, line = division("SetF", top, bottom)
    return Derivation(value, (p.working[0], p.working[1], r.working[1], line), p.columns, p.rows)


def _count(value: Number, what: str) -> Derivation:
    return Derivation(float(value), (f"{what}: {show(int(value))}",))


def number_retrieved(at: RankView) -> Derivation:
    return _count(at.n_ret[0], "documents retrieved")


def number_relevant(at: RankView) -> Derivation:
    return _count(at.n_good[0], "relevant documents")


def number_relevant_retrieved(at: RankView, k: int | None) -> Derivation:
    return _count(len(_inside(at, k)), f"relevant documents retrieved{up_to(k)}")


def number_nonrelevant_judged(at: RankView) -> Derivation:
    return _count(at.bad_retrieved[0], "judged non-relevant documents retrieved")


def derive(measure: Measure, at: RankView, **arguments: Any) -> Derivation:
    """How a measure comes about for one query: by its own derivation, or what holds for any."""
    definition = measure.definition
    if definition.derivation is not None:
        return definition.derivation(at, **arguments)
    value = float(definition.function(at, **arguments)[0])
    ranks = _inside(at, _rank(measure))
    gains = at.gain.tolist()[: len(ranks)]
    listed = ", ".join(map(str, ranks)) or "none"
    working = (
        f"ranks of the documents that count{up_to(_rank(measure))}: {listed}; "
        f"R = {_one(at.n_good)}, retrieved: {_one(at.n_ret)}",
        f"formula: {definition.formula}",
        f"{measure} = {show(value)}",
    )
    rows = tuple((nth, gain) for nth, gain in enumerate(gains, 1))
    return Derivation(value, working, ("found", "gain"), rows)


def _rank(measure: Measure) -> int | None:
    """Return the cut-off of a measure, where it is a rank."""
    return measure.cutoff if isinstance(measure.cutoff, int) else None
