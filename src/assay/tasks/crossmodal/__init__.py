"""Label retrieval across modalities: do the neighbours of an item carry its label?

`label_retrieval` searches embeddings of one modality with those of another, or with descriptions
of labels (`Prototypes`); `read_modalities`, `read_labels` and `read_prototypes` read them from
files. The result's `records()` go into a store or a report.
"""

from __future__ import annotations

from assay.tasks.crossmodal.evaluate import LabelRetrievalResult, label_retrieval
from assay.tasks.crossmodal.inputs import read_labels, read_modalities, read_prototypes
from assay.tasks.crossmodal.prototypes import (
    encode_text_prototypes,
    load_text_prototypes_from_metadata,
)
from assay.tasks.crossmodal.results import DirectionResult, LabelResults
from assay.tasks.crossmodal.samples import Prototypes, SampleRows

__all__ = [
    "DirectionResult",
    "LabelResults",
    "LabelRetrievalResult",
    "Prototypes",
    "SampleRows",
    "encode_text_prototypes",
    "label_retrieval",
    "load_text_prototypes_from_metadata",
    "read_labels",
    "read_modalities",
    "read_prototypes",
]
