"""Sums, percentages and JSON of next-location prediction, by the names of a guide."""

from assay.prediction.compat import *  # noqa: F403
