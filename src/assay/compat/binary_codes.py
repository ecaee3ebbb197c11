"""Cosine and Hamming neighbours, recall and nDCG of index lists (document 002's names)."""

from assay.codes.compat import *  # noqa: F403
