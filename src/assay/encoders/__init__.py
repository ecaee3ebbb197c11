"""Text to vectors: `encoder(spec)` gives an `Encoder`, whatever package makes the vectors.

    wordllama               static vectors of the package wordllama, no download
    st:MODEL                a sentence-transformers model, by name or folder
    model2vec:MODEL         a model2vec model, by name or folder
    py:MODULE:FUNCTION      your own function from a list of texts to an array
    checkpoint:FILE         the text tower of a .pt or .safetensors file; FILE alone will do

Each kind is one file; its package is imported when it is used.
"""

from assay.encoders.base import Encoder
from assay.encoders.specs import KINDS, encoder

__all__ = ["KINDS", "Encoder", "encoder"]
