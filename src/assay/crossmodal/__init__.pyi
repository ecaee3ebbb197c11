from assay.crossmodal.evaluate import label_retrieval as label_retrieval
from assay.crossmodal.evaluate import paired_retrieval as paired_retrieval
from assay.crossmodal.evaluate import zero_shot_classification as zero_shot_classification
from assay.crossmodal.plugin import PROTOCOLS as PROTOCOLS
from assay.crossmodal.results import CrossmodalResult as CrossmodalResult
from assay.crossmodal.results import DirectionResult as DirectionResult
from assay.crossmodal.results import LabelRetrievalResult as LabelRetrievalResult
from assay.crossmodal.results import PairedDirection as PairedDirection
from assay.crossmodal.results import PairedResult as PairedResult
from assay.crossmodal.results import ZeroShotResult as ZeroShotResult
from assay.crossmodal.samples import Prototypes as Prototypes
from assay.crossmodal.samples import SampleRows as SampleRows
from assay.crossmodal.samples import encode_text_prototypes as encode_text_prototypes
from assay.crossmodal.samples import (
    load_text_prototypes_from_metadata as load_text_prototypes_from_metadata,
)
from assay.crossmodal.samples import read_labels as read_labels
from assay.crossmodal.samples import read_modalities as read_modalities
from assay.crossmodal.samples import read_prototypes as read_prototypes
