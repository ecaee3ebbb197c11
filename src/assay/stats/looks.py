"""A gate that is asked again and again on the same queries: evidence that holds over all looks.

Each look tests another system on the same queries, so that the looks depend on each other in ways
that nobody knows, and many looks leave each a small level, at which no test is right that trusts
the shape of what was seen. What holds then is an e-value: what a gambler owns who began with 1 and
bets on scores within known bounds. If their mean is what he bets against, he owns 1 on average, and
1/α with probability α at most (Waudby-Smith & Ramdas 2024, JRSS B 86; a mixture of constant bets,
there "diversified Kelly", does not depend on the order of queries). The levels of the looks sum up
to that of all, which no dependence can break (Tian & Ramdas 2021, Statistical Methods in Medical
Research 30: alpha-spending).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.core.checks import check_cutoff
from assay.errors import ValueRangeError
from assay.stats.samples import clean_pairs
from assay.stats.units import units_table

__all__ = ["Bets", "look_share"]

_HALF_SPENT: Final = 100  # after so many looks half of the level is spent
_STAKES: Final = np.arange(1, 41) / 40  # shares of the largest bet that cannot ruin
_STEPS: Final = 30  # of bisection: 1e-9 of the range
_SMALLEST_P: Final = sys.float_info.min


def look_share(look: int) -> float:
    """The share of the level that one look may spend: 100 / ((99 + look) (100 + look)).

    All looks together, however many, spend the whole: t of them t / (100 + t).

    >>> round(1 / look_share(1)), round(1 / look_share(200))
    (101, 897)
    """
    number = check_cutoff(look, "look")
    share = _HALF_SPENT / ((_HALF_SPENT + number - 1) * (_HALF_SPENT + number))
    return max(share, _SMALLEST_P)


@dataclass(frozen=True, eq=False)
class Bets:
    """Bets on differences a − b of scores, none larger than `width`, being small on average.

    Valid for any distribution within the bounds, whatever the number of units (queries, or groups
    of dependent ones, of which none is larger than the largest here), if they are independent.
    """

    sums: Floats
    sizes: Floats
    width: float

    @classmethod
    def of(cls, a: Any, b: Any, width: float, clusters: Any = None) -> Bets:
        """Bets on the scores of two systems; undefined pairs are left out."""
        pairs = clean_pairs(a, b)
        largest = float(np.abs(pairs.differences).max(initial=0.0))
        if not 0 < width < math.inf or largest > width * (1 + 1e-9):
            raise ValueRangeError(
                f"Bets need scores within known bounds; found a difference of {largest:g} where "
                f"{width:g} is the largest possible."
            )
        labels = None if clusters is None else np.asarray(clusters)[pairs.kept]
        (sums,), sizes = units_table(pairs.differences[None, :], labels)
        return cls(sums, sizes, float(width))

    @property
    def n_units(self) -> int:
        """Number of queries, or of groups."""
        return len(self.sizes)

    @cached_property
    def difference(self) -> float:
        """Mean of a − b over all queries."""
        total = float(self.sizes.sum())
        return math.fsum(self.sums.tolist()) / total if total else math.nan

    def p(self, at: float = 0.0) -> float:
        """Test of the mean difference being `at` or more: 1 over the e-value, at most 1.

        >>> Bets.of([0.0] * 30, [0.5] * 30, 1.0).p() < 0.001 < Bets.of([0.0], [0.5], 1.0).p()
        True
        """
        return math.exp(-max(self._log_wealth(at), 0.0)) or _SMALLEST_P

    def smallest_p(self, at: float = 0.0) -> float:
        """p if every difference were as small as can be."""
        return Bets(-self.width * self.sizes, self.sizes, self.width).p(at)

    def highest(self, level: float, at: float = 0.0) -> float:
        """Upper bound of the mean difference: below `at` if p(at) ≤ level, else not."""
        low, high = (-self.width, at) if self.p(at) <= level else (at, self.width)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.p(middle) <= level else (middle, high)
        return high

    def _log_wealth(self, at: float) -> float:
        """Log of the mean over stakes of Π (1 − stake · (sum − at · size) / largest possible)."""
        if not self.n_units:
            return 0.0
        at = min(at, self.width * (1 - 1e-12))
        largest = (self.width - at) * float(self.sizes.max())
        gains = np.minimum((self.sums - at * self.sizes) / largest, 1.0)
        with np.errstate(divide="ignore"):  # the largest stake may be lost as a whole
            logs = np.array([np.log1p(-stake * gains).sum() for stake in _STAKES])
        top = float(logs.max())
        return top + math.log(float(np.exp(logs - top).mean())) if top > -math.inf else -math.inf
