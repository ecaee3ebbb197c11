"""Metrics of a keypoint experiment (document 003's names)."""

from assay.vision.compat import *  # noqa: F403
