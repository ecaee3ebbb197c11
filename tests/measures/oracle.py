"""Every measure once more, in plain Python, on one explicit list: the judge of the fast ones.

Written from the definitions, not from the package. A list is given as `gains`: the gain of the
document at rank 1, 2, … (above 0 it counts for the measure, below 0 against it), `pool` holds
the gains of all judged documents, retrieved or not. `settings_of` names the settings under test.

A measure that has no plain definition here is compared with itself: its values in the list's own
order, over every order of the tied documents.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Grade = float | None  # None: nobody judged the document


@dataclass(frozen=True)
class Listing:
    """One query: tie groups in rank order, each a tuple of grades; and all judged grades."""

    groups: tuple[tuple[Grade, ...], ...]
    pool: tuple[float, ...]

    @property
    def n_ret(self) -> int:
        return sum(map(len, self.groups))


# Parameter settings of each measure: every branch, and cutoffs that go through tie groups.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "P": ("P@1", "P@3", "P(rel=2)@4", "P(trunc=true)@3", "P(rel=0.5)@2", "P@1000"),
    "R": ("R@1", "R@4", "R(cap=true)@2", "R(cap=false)@2", "R(rel=0)@3", "R(cap=true)@50"),
    "Success": ("Success@1", "Success@3", "Success(rel=3)@5", "Success@100"),
    "RR": ("RR", "RR@1", "RR@3", "RR(rel=2)", "RR(rel=-1)@4"),
    "AP": (
        *("AP", "AP@1", "AP@3", "AP@5", "AP(rel=2)@4"),
        *(f"AP(over={over})" for over in ("R", "min", "hits", "k")),
        *(f"AP(over={over})@{k}" for over in ("min", "hits", "k") for k in (1, 2, 3, 5, 40)),
    ),
    "MAP": ("MAP@R", "MAP(rel=2)@R"),
    "GMAP": ("GMAP", "GMAP(rel=2)"),
    "DCG": ("DCG", "DCG@2", "DCG(gain=exp)@4", "DCG(gains=1:3/2:0.5/3:0)", "DCG(gains=0:1)@3"),
    "nDCG": (
        *("nDCG", "nDCG@1", "nDCG@3", "nDCG(gain=exp)", "nDCG(gain=exp)@4", "nDCG(gain=linear)@2"),
        *("nDCG(gains=1:3/2:0.5/3:0)", "nDCG(gains=-1:2/0:1)@3", "nDCG(ideal=retrieved)"),
        *("nDCG(gain=exp,ideal=retrieved)@3", "nDCG@99"),
    ),
    "Rprec": ("Rprec", "Rprec(mult=0.5)", "Rprec(mult=1.5)", "Rprec(mult=2,rel=2)"),
    "RBP": (
        *("RBP", "RBP@2", "RBP(p=0.5,rel=2)@4", "RBP(graded=true)", "RBP(graded=true,p=0.9)@3"),
        *("RBP(p=0)", "RBP(p=1)"),
    ),
    "ERR": ("ERR", "ERR@1", "ERR@3", "ERR(gmax=3)@5", "ERR(gmax=10)"),
    "bpref": ("bpref", "bpref(rel=2)", "bpref(rel=0)"),
    "Judged": ("Judged", "Judged@1", "Judged@3", "Judged@50"),
    "RBPresid": ("RBPresid", "RBPresid(p=0.5)", "RBPresid(p=0)", "RBPresid(p=1)"),
    "Unjudged": ("Unjudged@1", "Unjudged@4", "Unjudged@50"),
    "iprec": (
        *(f"iprec@{level}" for level in (0, 0.2, 0.35, 0.5, 0.8, 1)),
        *("iprec(iprec=ceil)@0.35", "iprec(iprec=ceil,rel=2)@0.5", "iprec(iprec=round)@0.5"),
    ),
    "iAP": ("iAP", "iAP(levels=0.25/0.5/0.75)", "iAP(iprec=ceil,rel=2)", "iAP(levels=1)"),
    "SetP": ("SetP", "SetP(rel=2)"),
    "SetR": ("SetR", "SetR(cap=true)", "SetR(cap=false,rel=2)"),
    "SetF": ("SetF", "SetF(beta=2)", "SetF(beta=0)", "SetF(beta=0.5,rel=2)"),
    "num_ret": ("num_ret",),
    "num_rel": ("num_rel", "num_rel(rel=2)"),
    "num_rel_ret": ("num_rel_ret", "num_rel_ret@1", "num_rel_ret@3", "num_rel_ret(rel=2)@4"),
    "num_nonrel_judged_ret": ("num_nonrel_judged_ret", "num_nonrel_judged_ret(rel=2)"),
}


# The gain of a grade


def gain_of(name: str, params: dict[str, Any]) -> Callable[[Grade], float]:
    """From a grade to its gain for one measure; a grade below 0 has none."""
    rel = max(params.get("rel", 1), 0)

    def gain(grade: Grade) -> float:
        if grade is None:
            return 0.0
        if name in ("DCG", "nDCG", "ERR") or params.get("graded"):
            return _graded_gain(name, grade, params)
        if name in ("Judged", "Unjudged", "RBPresid"):
            return float(grade >= 0)
        if name in ("bpref", "num_nonrel_judged_ret") and 0 <= grade < rel:
            return -1.0
        return float(grade >= rel)

    return gain


def _graded_gain(name: str, grade: float, params: dict[str, Any]) -> float:
    if name in ("DCG", "nDCG"):
        return _ndcg_gain(grade, params)
    if name == "ERR":
        return (2.0 ** max(grade, 0.0) - 1.0) / 2.0 ** params.get("gmax", 4)
    return max(grade, 0.0)


def _ndcg_gain(grade: float, params: dict[str, Any]) -> float:
    own = dict(params.get("gains", ()))
    if grade in own:
        return float(own[grade])
    positive = max(grade, 0.0)
    return 2.0**positive - 1.0 if params.get("gain") == "exp" else positive


# The measures, each on the gains in rank order


@dataclass(frozen=True)
class Case:
    """One explicit order of one query, and the parameters of the measure."""

    gains: Sequence[float]
    retrieved: Sequence[float]  # what was retrieved, in any order
    pool: Sequence[float]
    k: Any
    params: dict[str, Any]

    @property
    def n_good(self) -> int:
        return sum(gain > 0 for gain in self.pool)

    @property
    def n_ret(self) -> int:
        return len(self.gains)

    def good(self, k: float | None) -> int:
        top = self.gains if k is None else self.gains[: int(k)]
        return sum(gain > 0 for gain in top)

    def ranks(self, k: float | None = None) -> list[int]:
        limit = math.inf if k is None else k
        return [r for r, gain in enumerate(self.gains, 1) if gain > 0 and r <= limit]


def _over(top: float, bottom: float) -> float:
    return top / bottom if bottom else 0.0


def _p(c: Case) -> float:
    cut = min(c.k, c.n_good) if c.params.get("trunc") else c.k
    return _over(c.good(cut), cut)


def _r(c: Case) -> float:
    return _over(c.good(c.k), min(c.k, c.n_good) if c.params.get("cap") else c.n_good)


def _success(c: Case) -> float:
    return float(c.good(c.k) > 0)


def _rr(c: Case) -> float:
    ranks = c.ranks(c.k)
    return 1.0 / ranks[0] if ranks else 0.0


def _precisions(c: Case, k: float | None) -> float:
    return sum(i / r for i, r in enumerate(c.ranks(k), 1))


def _ap(c: Case) -> float:
    over = c.params.get("over", "R")
    if over == "hits":
        return _over(_precisions(c, c.k), c.good(c.k))
    if c.k is None or over == "R":
        return _over(_precisions(c, c.k), c.n_good)
    return _over(_precisions(c, c.k), min(c.k, c.n_good) if over == "min" else c.k)


def _map_at_r(c: Case) -> float:
    return _over(_precisions(c, c.n_good), c.n_good)


def _dcg(gains: Sequence[float], k: int | None) -> float:
    top = gains if k is None else gains[:k]
    return sum(gain / math.log2(1 + r) for r, gain in enumerate(top, 1))


def _ndcg(c: Case) -> float:
    known = c.retrieved if c.params.get("ideal") == "retrieved" else c.pool
    return _over(_dcg(c.gains, c.k), _dcg(sorted(known, reverse=True), c.k))


def _rprec(c: Case) -> float:
    cut = int(c.params.get("mult", 1) * c.n_good + 0.9)
    return _over(c.good(cut), cut)


def _rbp(c: Case) -> float:
    p, top = c.params.get("p", 0.8), max([1.0, *c.pool])
    ranked = c.gains if c.k is None else c.gains[: c.k]
    return (1 - p) * sum(gain / top * p ** (r - 1) for r, gain in enumerate(ranked, 1))


def _err(c: Case) -> float:
    alive, total = 1.0, 0.0
    for r, stop in enumerate(c.gains if c.k is None else c.gains[: c.k], 1):
        total += alive * stop / r
        alive *= 1 - stop
    return total


def _bpref(c: Case) -> float:
    bad = sum(gain < 0 for gain in c.pool)
    above, total = 0, 0.0
    for gain in c.gains:
        above += gain < 0
        if gain > 0:
            total += 1 - (min(above, c.n_good) / min(bad, c.n_good) if above else 0)
    return _over(total, c.n_good)


def _judged(c: Case) -> float:
    return _over(c.good(c.k), c.n_ret if c.k is None else min(c.k, c.n_ret))


def _unjudged(c: Case) -> float:
    return sum(gain <= 0 for gain in c.gains[: c.k]) / c.k


def _rbp_residual(c: Case) -> float:
    p = c.params.get("p", 0.8)
    unjudged = [p ** (r - 1) for r, gain in enumerate(c.gains, 1) if gain <= 0]
    return p**c.n_ret + (1 - p) * sum(unjudged) if unjudged else 0.0


def _iprec_at(c: Case, level: float) -> float:
    added = 0.9 if c.params.get("iprec") == "ceil" else 0.5
    needed = math.floor(level * c.n_good + added)
    return max((i / r for i, r in enumerate(c.ranks(), 1) if i >= needed), default=0.0)


def _iap(c: Case) -> float:
    levels = c.params.get("levels", [step / 10 for step in range(11)])
    return sum(_iprec_at(c, level) for level in levels) / len(levels)


def _set_r(c: Case) -> float:
    return _over(c.good(None), min(c.n_ret, c.n_good) if c.params.get("cap") else c.n_good)


def _set_f(c: Case) -> float:
    p, r = _over(c.good(None), c.n_ret), _over(c.good(None), c.n_good)
    b2 = c.params.get("beta", 1) ** 2
    return _over((1 + b2) * p * r, b2 * p + r)


ORACLES: dict[str, Callable[[Case], float]] = {
    "P": _p,
    "R": _r,
    "Success": _success,
    "RR": _rr,
    "AP": _ap,
    "MAP": _map_at_r,
    "GMAP": lambda c: _over(_precisions(c, None), c.n_good),
    "DCG": lambda c: _dcg(c.gains, c.k),
    "nDCG": _ndcg,
    "Rprec": _rprec,
    "RBP": _rbp,
    "ERR": _err,
    "bpref": _bpref,
    "Judged": _judged,
    "RBPresid": _rbp_residual,
    "Unjudged": _unjudged,
    "iprec": lambda c: _iprec_at(c, c.k),
    "iAP": _iap,
    "SetP": lambda c: _over(c.good(None), c.n_ret),
    "SetR": _set_r,
    "SetF": _set_f,
    "num_ret": lambda c: float(c.n_ret),
    "num_rel": lambda c: float(c.n_good),
    "num_rel_ret": lambda c: float(c.good(c.k)),
    "num_nonrel_judged_ret": lambda c: float(sum(gain < 0 for gain in c.gains)),
}

_ALWAYS_DEFINED = {"num_ret", "num_rel", "num_rel_ret", "num_nonrel_judged_ret", "Unjudged"}
_ALWAYS_DEFINED |= {"RBPresid"}


def is_defined(name: str, case: Case) -> bool:
    """Whether the measure has a value: most need a document that counts for them."""
    if name == "Judged":
        return case.n_ret > 0
    return name in _ALWAYS_DEFINED or case.n_good > 0


# Orders of tied documents


@lru_cache(1024)
def values_over_orders(measure: Any, listing: Listing) -> list[float]:
    """The value under every order of the tied documents; each counts equally."""
    params, gain = dict(measure.params), gain_of(measure.name, dict(measure.params))
    pool = [gain(grade) for grade in listing.pool]
    values = []
    for gains in _orders(listing, gain):
        case = Case(gains, gains, pool, measure.cutoff, params)
        values.append(ORACLES[measure.name](case) if is_defined(measure.name, case) else math.nan)
    return values


def _orders(listing: Listing, gain: Callable[[Grade], float]) -> Iterator[list[float]]:
    """Every order of gains; documents of equal gain are exchanged without loss."""
    each = [sorted(set(itertools.permutations(map(gain, group)))) for group in listing.groups]
    for choice in itertools.product(*each):
        yield list(itertools.chain.from_iterable(choice))


def value_in_order(measure: Any, listing: Listing) -> float:
    """The value of the list exactly as it stands."""
    alone = Listing(tuple((g,) for group in listing.groups for g in group), listing.pool)
    return values_over_orders(measure, alone)[0]


def midrank_up(measure: Any, listing: Listing) -> float:
    """The value with the j-th of m counted documents of a group of n at place ⌈j(n+1)/(m+1)⌉.

    Each of them carries the group's mean gain; a value beyond what any order can give (mean gains
    in ERR) is brought back to the nearest that one can. bpref passes over documents that count
    neither for nor against it, so there a group is made of the others only.
    """
    params, gain = dict(measure.params), gain_of(measure.name, dict(measure.params))
    gains: list[float] = []
    for group in listing.groups:
        gains += _place_group([gain(grade) for grade in group], measure.name == "bpref")
    retrieved = [gain(grade) for group in listing.groups for grade in group]
    pool = [gain(grade) for grade in listing.pool]
    case = Case(gains, retrieved, pool, measure.cutoff, params)
    if not is_defined(measure.name, case):
        return math.nan
    possible = values_over_orders(measure, listing)
    return min(max(ORACLES[measure.name](case), min(possible)), max(possible))


def _place_group(gains: list[float], preference: bool) -> list[float]:
    if preference:
        gains = [gain for gain in gains if gain]
    good = [gain for gain in gains if gain > 0]
    rest = [gain for gain in gains if gain <= 0]
    n, m = len(gains), len(good)
    places = {math.ceil(j * (n + 1) / (m + 1)) for j in range(1, m + 1)}
    assert len(places) == m
    others = iter(rest)
    return [sum(good) / m if place in places else next(others) for place in range(1, n + 1)]
