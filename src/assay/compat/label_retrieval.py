"""Instance and prototype retrieval between sensors and texts (document 000's names)."""

from assay.crossmodal.compat import *  # noqa: F403
