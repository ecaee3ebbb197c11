"""`st:MODEL`: a sentence-transformers model, by name or by folder."""

from __future__ import annotations

from functools import partial
from typing import Any

from assay.encoders.base import Batch, Encoder
from assay.encoders.fingerprints import version_of, weights_of
from assay.encoders.specs import Request
from assay.io.packages import need

__all__ = ["load"]


def load(request: Request) -> Encoder:
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
        batch_size=256,
    )


def _encode(model: Any, texts: list[str]) -> Batch:
    return Batch(model.encode(texts, convert_to_numpy=True, show_progress_bar=False))
