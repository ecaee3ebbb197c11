"""Sums, percentages and JSON of next-location prediction (document 001's names)."""

from assay.prediction.compat import *  # noqa: F403
