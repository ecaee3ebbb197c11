"""Cosine and Hamming neighbours, recall and nDCG, by the names of a guide to binary codes."""

from assay.codes.compat import *  # noqa: F403
