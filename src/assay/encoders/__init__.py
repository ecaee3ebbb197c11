"""Text to vectors, whatever package makes them.

    wordllama               static vectors of the package wordllama, no download
    minilm                  all-MiniLM-L6-v2 in numpy, from a package that ships its weights
    st:MODEL                a sentence-transformers model, by name or folder
    onnx:FOLDER             an exported model and its tokenizer, by onnxruntime
    model2vec:MODEL         a model2vec model, by name or folder
    openai:MODEL            an endpoint that speaks OpenAI's /v1/embeddings
    npy:FILE                vectors that were computed before (text_model only)
    py:MODULE:FUNCTION      your own function from a list of texts to an array
    checkpoint:FILE         the text tower of a .pt or .safetensors file; FILE alone will do

`text_model(spec)` encodes documents and queries under settings, each text once, through a cache;
`encoder(spec)` is the bare model. Each kind is one file; its package is imported when it is used.
"""

from assay.encoders.base import Encoder
from assay.encoders.cache import CacheSize, EmbeddingCache
from assay.encoders.settings import EncoderSettings
from assay.encoders.specs import KINDS, encoder
from assay.encoders.text_model import Encoded, TextModel, text_model

__all__ = [
    "KINDS",
    "CacheSize",
    "EmbeddingCache",
    "Encoded",
    "Encoder",
    "EncoderSettings",
    "TextModel",
    "encoder",
    "text_model",
]
