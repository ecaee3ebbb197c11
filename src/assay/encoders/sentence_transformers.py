"""`st:MODEL`: a sentence-transformers model, by name or by folder."""

from __future__ import annotations

from assay.encoders.base import Encode
from assay.io.packages import need

__all__ = ["load"]


def load(argument: str, device: str | None) -> Encode:
    """Load the model; one that is not on this machine is fetched by the package."""
    package = need("sentence_transformers", "The encoder 'st:'", "sentence-transformers")
    model = package.SentenceTransformer(argument, device=device)
    return lambda texts: model.encode(texts, convert_to_numpy=True, show_progress_bar=False)
