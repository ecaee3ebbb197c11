"""Top-k and recall of two embedding models (document 004's names)."""

from assay.bench.compat import *  # noqa: F403
