"""How large a difference is, beside how sure it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from assay.stats.samples import FEWEST, clean_pairs, spell

__all__ = ["Effect", "effect"]


@dataclass(frozen=True)
class Effect:
    """Size of the difference between two systems on the same queries.

    `standardised` is the mean difference over the standard deviation of the differences (Cohen's
    d_z), NaN where that is 0 or unknown; `superiority` is the chance that a beats b on a random
    query, a tie counted half.
    """

    mean_difference: float
    standardised: float
    wins: int
    ties: int
    losses: int
    superiority: float
    n_removed: int = 0

    @property
    def n(self) -> int:
        """How many queries were compared."""
        return self.wins + self.ties + self.losses

    def __repr__(self) -> str:
        """The numbers in one line."""
        return (
            f"Effect({spell(self.mean_difference)}, standardised {spell(self.standardised)}, "
            f"{self.wins} wins, {self.ties} ties, {self.losses} losses, "
            f"superiority {spell(self.superiority)})"
        )


def effect(a: Any, b: Any) -> Effect:
    """Measure how much better a is than b on the same queries.

    >>> effect([0.3, 0.5, 0.6, 0.9], [0.1, 0.5, 0.3, 0.5])
    Effect(0.2250, standardised 1.3175, 3 wins, 1 ties, 0 losses, superiority 0.8750)
    """
    pairs = clean_pairs(a, b)
    differences = pairs.differences
    n = len(differences)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    mean = math.fsum(differences.tolist()) / n if n else math.nan
    spread = float(differences.std(ddof=1)) if n >= FEWEST else math.nan
    return Effect(
        mean_difference=mean,
        standardised=mean / spread if spread > 0 else math.nan,
        wins=wins,
        ties=n - wins - losses,
        losses=losses,
        superiority=(wins + (n - wins - losses) / 2) / n if n else math.nan,
        n_removed=pairs.n_removed,
    )
