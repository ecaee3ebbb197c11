"""Label retrieval across modalities: do the neighbours of an item carry its label?

`label_retrieval` searches embeddings of one modality with those of another, or with descriptions
of labels (`Prototypes`); `paired_retrieval` scores images and captions as their papers do, and
`zero_shot_classification` classifies by descriptions. `read_modalities`, `read_labels` and
`read_prototypes` read files. The results' `records()` go into a store or a report.
"""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
