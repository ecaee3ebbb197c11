"""The measures: values with names, computed by one decorated function each."""

from assay.measures import ranked, sets
from assay.measures.names import GROUPS, MeasureLike, MeasuresLike, parse, parse_many
from assay.measures.registry import REGISTRY, Definition, Measure

__all__ = [
    "GROUPS",
    "REGISTRY",
    "Definition",
    "Measure",
    "MeasureLike",
    "MeasuresLike",
    "parse",
    "parse_many",
    "ranked",
    "sets",
]
