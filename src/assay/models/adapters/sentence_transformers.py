"""`st:MODEL`: a sentence-transformers model, by name or by folder."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import need
from assay.io.fingerprints import version_of, weights_of
from assay.models.encoder import Batch, Encoder, EncoderRequest

__all__ = ["load"]


def load(request: EncoderRequest) -> Encoder:
    """Load the model; one that is not on this machine is fetched by the package."""
    package = need("sentence_transformers", "The encoder 'st:'", "sentence-transformers")
    model = package.SentenceTransformer(request.argument, device=request.device)
    if request.settings.max_length is not None:
        model.max_seq_length = request.settings.max_length
    return Encoder(
        request.spec,
        partial(_encode, model),
        lambda: {
            "sentence-transformers": version_of("sentence-transformers"),
            **weights_of(request.argument),
        },
        repeatable=True,
        batch_size=256,
    )


def _encode(model: Any, texts: list[str]) -> Batch:
    made = model.encode(texts, convert_to_numpy=True, show_progress_bar=False)
    return Batch(made, _truncated(model, texts))


def _truncated(model: Any, texts: list[str]) -> NDArray[np.bool_] | None:
    """Which texts have more tokens than the model reads, if it has a tokenizer of transformers."""
    most, tokenizer = getattr(model, "max_seq_length", None), getattr(model, "tokenizer", None)
    if not isinstance(most, int) or not callable(tokenizer):
        return None
    tokens = tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    return np.array([len(row) > most for row in tokens])
