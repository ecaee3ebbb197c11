"""The orders of the tied documents of one query: all of them, some of them, or the extreme ones.

What `explain` needs to work a value over tied documents out apart from `score`.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from assay.arrays import Floats
from assay.core.hits import Hits
from assay.measures import Measure
from assay.measures.derivations import Derivation, derive, show
from assay.measures.views import RankView, TieView

__all__ = ["orders_by_count", "over_all_orders"]

Gain = Callable[[Floats], Floats]

_MOST_ORDERS = 5000
_SAMPLE = 1000
_DOUBT = math.log(2e6)  # the exact value is farther away than the error in one case of a million


def over_all_orders(
    one: Hits, measure: Measure, arguments: dict[str, Any], gain: Gain
) -> Derivation:
    """The mean over all orders: by the measure's own derivation, or by going through them."""
    own = measure.definition.tied_derivation
    made = None if own is None else own(TieView(one, gain), **arguments)
    if made is not None:
        return made
    groups = _tied_groups(one, gain)
    number = math.prod(_number(size, gains) for _, size, gains in groups)
    every = number <= _MOST_ORDERS
    orders = _all_orders(groups) if every else _some_orders(groups)
    views = (RankView(_arranged(one, gain, ranks), gain, "order") for ranks in orders)
    values = [derive(measure, view, **arguments).value for view in views]
    mean = math.fsum(values) / len(values)
    if every:
        line = f"mean of the values of all {number} orders: {measure} = {show(mean)}"
        return Derivation(mean, (line,))
    error = _sampling_error(values, measure.definition.high)
    line = (
        f"mean of the values of {len(values)} random orders, of too many to go through: "
        f"{show(mean)}, within {error:.2g} of the mean of all"
    )
    return Derivation(mean, (line,), error=error)


def _sampling_error(values: list[float], high: float | None) -> float:
    """By how much the mean of a sample may be off (Maurer & Pontil, COLT 2009), also if skewed."""
    n, width = len(values), max(values) - min(values) if high is None else high
    spread = math.sqrt(2 * float(np.var(values, ddof=1)) * _DOUBT / n)
    return spread + 7 * width * _DOUBT / (3 * (n - 1))


Group = tuple[int, int, tuple[float, ...]]  # first rank, size, gains that are not 0


def _tied_groups(one: Hits, gain: Gain) -> list[Group]:
    """The tie groups, in the order of the list."""
    gains = gain(one.grade)
    rows = zip(one.rank_lo.tolist(), one.rank_hi.tolist(), gains.tolist(), strict=True)
    counted = [row for row in rows if row[2] != 0]
    return [
        (lo, hi - lo + 1, tuple(value for _, _, value in members))
        for (lo, hi), members in itertools.groupby(counted, key=lambda row: row[:2])
    ]


def _number(size: int, gains: tuple[float, ...]) -> int:
    """How many orders of a group are gone through."""
    return (math.comb if len(set(gains)) == 1 else math.perm)(size, len(gains))


def _all_orders(groups: list[Group]) -> Iterator[list[int]]:
    each = []
    for first, size, gains in groups:
        choose = itertools.combinations if len(set(gains)) == 1 else itertools.permutations
        each.append(list(choose(range(first, first + size), len(gains))))
    for choice in itertools.product(*each):
        yield list(itertools.chain.from_iterable(choice))


def _some_orders(groups: list[Group]) -> Iterator[list[int]]:
    draw = random.Random(0)
    for _ in range(_SAMPLE):
        yield [
            rank
            for first, size, gains in groups
            for rank in draw.sample(range(first, first + size), len(gains))
        ]


def _arranged(one: Hits, gain: Gain, ranks: Iterable[int]) -> Hits:
    """The same hits with the documents that count at these ranks, and no ties."""
    counted = np.flatnonzero(gain(one.grade))
    rank = np.fromiter(ranks, np.int64, len(counted))
    order = np.argsort(rank, kind="stable")
    rank = rank[order]
    grade = one.grade[counted[order]]
    return replace(
        one,
        rank=rank,
        rank_lo=rank,
        rank_hi=rank,
        grade=grade,
        offsets=np.array([0, len(rank)]),
    )


def orders_by_count(one: Hits, measure: Measure, gain: Gain) -> Iterator[Hits]:
    """Where more hits may lower a value: the best and worst order for each number of them.

    Of the group that the cut-off divides, 0, 1, 2, … documents are inside of it.
    """
    cut = measure.cutoff if isinstance(measure.cutoff, int) else math.inf
    for ties in ("best", "worst"):
        each = [_extreme_places(group, cut, ties) for group in _tied_groups(one, gain)]
        for choice in itertools.product(*each):
            yield _arranged(one, gain, itertools.chain.from_iterable(choice))


def _extreme_places(group: Group, cut: float, ties: str) -> list[list[int]]:
    """The places of the counted documents of one group, for each number of them before the cut."""
    first, size, gains = group
    m, inside = len(gains), int(min(max(cut - first + 1, 0), size))
    places = []
    for x in range(max(0, m + inside - size), min(m, inside) + 1):
        start = first if ties == "best" else first + inside - x
        places.append([*range(start, start + x), *range(first + size - m + x, first + size)])
    return places
