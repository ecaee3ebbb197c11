"""Top-k and recall of two embedding models, by the names of a guide."""

from assay.bench.compat import *  # noqa: F403
