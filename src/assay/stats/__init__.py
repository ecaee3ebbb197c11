"""Intervals, tests, corrections, effect sizes, power and seeds.

Functions take one number per query and return a frozen result that states its method.
"""

from assay.stats.corrections import CORRECTIONS, TukeyResult, adjust, levels_of_one, tukey_hsd
from assay.stats.effects import (
    Effect,
    effect,
    guess_queries,
    minimum_detectable_difference,
    queries_needed,
)
from assay.stats.intervals import (
    INTERVAL_METHODS,
    INTERVAL_NAMES,
    Interval,
    difference_interval,
    interval,
    intervals,
)
from assay.stats.inverted import INVERTIBLE, inverted_interval
from assay.stats.joint import JointPairs, compare_jointly
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
    "INTERVAL_NAMES",
    "INVERTIBLE",
    "TEST_METHODS",
    "Effect",
    "Interval",
    "JointPairs",
    "RankInterval",
    "SeedComparison",
    "TestResult",
    "TukeyResult",
    "adjust",
    "compact_letters",
    "compare_jointly",
    "compare_seeds",
    "difference_interval",
    "effect",
    "equivalent",
    "guess_queries",
    "interval",
    "intervals",
    "inverted_interval",
    "levels_of_one",
    "minimum_detectable_difference",
    "non_inferior",
    "paired_test",
    "queries_needed",
    "rank_intervals",
    "tukey_hsd",
    "welch_test",
]
