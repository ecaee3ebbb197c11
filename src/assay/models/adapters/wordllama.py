"""`wordllama`: static token vectors, averaged; the package ships its weights (256 dimensions).

Vectors are those of the package's own `embed`, bit for bit, made without padding: a long text
does not make its neighbours long.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.errors import UsageError, need
from assay.io.fingerprints import version_of
from assay.models.encoding import Batch, Encoder, EncoderRequest

_TEXTS_AT_ONCE: Final = 64  # bounds the rows of token vectors that are held at a time


def load(request: EncoderRequest) -> Encoder:
    """Load the weights from the package's own folder; nothing is downloaded."""
    if request.argument:
        raise UsageError(f"'wordllama' takes no model name. Omit {request.argument!r}.")
    package = need("wordllama", "The encoder 'wordllama'", "wordllama")
    model = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    model.tokenizer.no_padding()
    return Encoder(
        request.spec,
        partial(_encode, model, request.settings.max_length),
        lambda: {"wordllama": version_of("wordllama")},
        repeatable=True,
        batch_size=4096,
    )


def _encode(model: Any, max_length: int | None, texts: list[str]) -> Batch:
    """Average each text's token vectors; NaN for a text without tokens."""
    table: NDArray[np.float32] = model.embedding
    vectors = np.full((len(texts), table.shape[1]), np.nan, np.float32)
    truncated = np.zeros(len(texts), bool)
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        encodings = model.tokenize(texts[start : start + _TEXTS_AT_ONCE])
        for row, tokens in enumerate((encoding.ids for encoding in encodings), start):
            ids = tokens[:max_length]
            truncated[row] = len(ids) < len(tokens)
            if ids:
                rows = table[np.minimum(ids, len(table) - 1)]
                vectors[row] = np.add.reduce(rows, axis=0) / np.float32(len(rows))
    return Batch(vectors, truncated)
