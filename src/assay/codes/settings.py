"""Names and defaults of the settings of codes, once; the command reads them without numpy."""

from __future__ import annotations

from typing import Final, Literal, get_args

Metric = Literal["cosine", "dot", "l2"]
Zero = Literal["error", "drop", "last"]
METRICS: Final = get_args(Metric)
METHODS: Final[dict[str, str]] = {  # what is made unless methods are named
    "sign": "one bit per dimension: is it above 0?",
    "gaussian": "one bit per random direction: which side of it?",
    "itq": "one bit per principal direction, rotated to fit the bits (iterative quantisation)",
    "int8": "one byte per dimension",
    "float16": "two bytes per dimension",
}
ON_REQUEST: Final[dict[str, str]] = {
    "int4": "half a byte per dimension",
    "asymmetric": "one bit per dimension of a document, compared with the numbers of the query",
}
SPECS: Final[dict[str, str]] = {
    "mrl:D": "the first D dimensions (Matryoshka)",
    "mrl:D+METHOD": "of those, sign, asymmetric, int4, int8 or float16",
    "pq:M": "product quantisation, M bytes (needs the extra faiss)",
    "rabitq:B": "RaBitQ, B bits per dimension, 1 to 8",
}
BITS: Final = (64, 128, 256, 512, 1024)
HELD_OUT: Final = 0.5  # share of the documents that codes learn from
CUTOFFS: Final = (10, 50)
PERSISTENCE: Final = 0.9  # of RBO
TIES: Final = ("expected", "order", "best", "worst")  # the first is the default
# How deep the field cuts the list on each collection; None is the whole list.
HASHING: Final[dict[str, int | None]] = {
    "all": None,
    "cifar10": None,
    "mirflickr": None,
    "imagenet": 1000,
    "nuswide": 5000,
    "coco": 5000,
}
