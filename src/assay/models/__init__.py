"""Text to vectors, whatever package makes them.

    wordllama               static vectors of the package wordllama, no download
    minilm:FOLDER           all-MiniLM-L6-v2 or another small BERT from its weights, by onnxruntime
    st:MODEL                a sentence-transformers model, by name or folder
    onnx:FOLDER             an exported model and its tokenizer, by onnxruntime
    model2vec:MODEL         a model2vec model, by name or folder
    openai:MODEL            an endpoint that speaks OpenAI's /v1/embeddings
    npy:FILE                vectors that were computed before (text_model only)
    py:MODULE:FUNCTION      your own function from a list of texts to an array
    checkpoint:FILE         the text tower of a .pt or .safetensors file; FILE alone will do
    NAME[:ARGUMENT]         an encoder of another package, by its entry point in `assay.models`

`text_model(spec)` encodes documents and queries under settings, each text once, through a cache;
`encoder(spec)` is the bare model. Each kind is one file; its package is imported when it is used.
"""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
