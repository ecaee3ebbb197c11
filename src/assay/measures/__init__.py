"""The measures: values with names, computed by one decorated function each."""

from assay.measures import ranked, sets
from assay.measures.base import REGISTRY, Definition, Measure
from assay.measures.names import GROUPS, parse, parse_many

__all__ = ["GROUPS", "REGISTRY", "Definition", "Measure", "parse", "parse_many", "ranked", "sets"]
