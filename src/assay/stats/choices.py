"""Names and defaults that settings of statistics take; commands read them without numpy."""

from __future__ import annotations

from typing import Final

TESTS: Final = ("randomisation", "t", "wilcoxon", "sign", "bootstrap")
CORRECTIONS: Final = ("max-t", "holm", "bonferroni", "bh", "tukey", "none")
INTERVALS: Final = ("auto", "score", "bca", "percentile", "studentised", "t")
UNITS: Final = ("queries", "tasks")  # what a comparison over tasks resamples
MISSING: Final = ("refuse", "drop-task", "drop-system")  # tasks that a system lacks
MOST_PAIRS: Final = 45  # all pairs of ten systems; a longer table is not readable

# The defaults of every interval and test; nothing else states them.
INTERVAL: Final = "auto"
CONFIDENCE: Final = 0.95
LEVEL: Final = 0.05
RESAMPLES: Final = 10_000
SEED: Final = 0
