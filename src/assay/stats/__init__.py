"""Intervals, tests, corrections, effect sizes, power and seeds.

Functions take one number per query and return a frozen result that states its method.
"""

from assay.stats.corrections import CORRECTIONS, TukeyResult, adjust, tukey_hsd
from assay.stats.effects import (
    Effect,
    effect,
    minimum_detectable_difference,
    queries_needed,
)
from assay.stats.intervals import (
    INTERVAL_METHODS,
    Interval,
    difference_interval,
    interval,
    interval_method,
    intervals,
)
from assay.stats.ranks import RankInterval, compact_letters, rank_intervals
from assay.stats.seeds import SeedComparison, compare_seeds
from assay.stats.tests import (
    ALTERNATIVES,
    TEST_METHODS,
    TestResult,
    equivalent,
    non_inferior,
    paired_test,
    welch_test,
)

__all__ = [
    "ALTERNATIVES",
    "CORRECTIONS",
    "INTERVAL_METHODS",
    "TEST_METHODS",
    "Effect",
    "Interval",
    "RankInterval",
    "SeedComparison",
    "TestResult",
    "TukeyResult",
    "adjust",
    "compact_letters",
    "compare_seeds",
    "difference_interval",
    "effect",
    "equivalent",
    "interval",
    "interval_method",
    "intervals",
    "minimum_detectable_difference",
    "non_inferior",
    "paired_test",
    "queries_needed",
    "rank_intervals",
    "tukey_hsd",
    "welch_test",
]
