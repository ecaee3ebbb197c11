"""Metrics of a keypoint experiment, by the names of a guide."""

from assay.vision.compat import *  # noqa: F403
