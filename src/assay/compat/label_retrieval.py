"""Instance and prototype retrieval between sensors and texts, by the names of a guide."""

from assay.crossmodal.compat import *  # noqa: F403
