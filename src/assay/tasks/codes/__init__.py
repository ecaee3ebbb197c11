"""What do shorter vectors lose? Binary codes, int8 and float16 against the float vectors."""

from assay.tasks.codes.encoders import FLOAT, METHODS, CodeEncoder, make_encoder
from assay.tasks.codes.evaluate import BITS, evaluate_codes
from assay.tasks.codes.hashing import HASHING, RadiusCurve
from assay.tasks.codes.result import CodeCost, CodesReport, CodesSettings, QuantizationResult

__all__ = [
    "BITS",
    "FLOAT",
    "HASHING",
    "METHODS",
    "CodeCost",
    "CodeEncoder",
    "CodesReport",
    "CodesSettings",
    "QuantizationResult",
    "RadiusCurve",
    "evaluate_codes",
    "make_encoder",
]
