"""Label retrieval across modalities: do the neighbours of an item carry its label?

`label_retrieval` searches embeddings of one modality with those of another, or with descriptions
of labels (`Prototypes`); `paired_retrieval` scores images and captions as their papers do, and
`zero_shot_classification` classifies by descriptions. `read_modalities`, `read_labels` and
`read_prototypes` read files. The results' `records()` go into a store or a report.
"""

from __future__ import annotations

from assay.tasks.crossmodal.evaluate import LabelRetrievalResult, label_retrieval
from assay.tasks.crossmodal.inputs import read_labels, read_modalities, read_prototypes
from assay.tasks.crossmodal.pair_results import PairedDirection, PairedResult
from assay.tasks.crossmodal.pairs import PROTOCOLS, paired_retrieval
from assay.tasks.crossmodal.prototypes import (
    encode_text_prototypes,
    load_text_prototypes_from_metadata,
)
from assay.tasks.crossmodal.results import DirectionResult, LabelResults
from assay.tasks.crossmodal.samples import Prototypes, SampleRows
from assay.tasks.crossmodal.zero_shot import ZeroShotResult, zero_shot_classification

__all__ = [
    "PROTOCOLS",
    "DirectionResult",
    "LabelResults",
    "LabelRetrievalResult",
    "PairedDirection",
    "PairedResult",
    "Prototypes",
    "SampleRows",
    "ZeroShotResult",
    "encode_text_prototypes",
    "label_retrieval",
    "load_text_prototypes_from_metadata",
    "paired_retrieval",
    "read_labels",
    "read_modalities",
    "read_prototypes",
    "zero_shot_classification",
]
