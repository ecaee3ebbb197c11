"""`model2vec:MODEL`: static vectors distilled from a larger model, by name or by folder."""

from __future__ import annotations

from assay.encoders.base import Encode
from assay.io.packages import need

__all__ = ["load"]


def load(argument: str, device: str | None) -> Encode:
    """Load the model; one that is not on this machine is fetched by the package."""
    package = need("model2vec", "The encoder 'model2vec:'", "model2vec")
    model = package.StaticModel.from_pretrained(argument)
    encode: Encode = model.encode
    return encode
