"""`model2vec:MODEL`: static vectors distilled from a larger model, by name or by folder."""

from __future__ import annotations

from typing import Any

from assay.errors import need
from assay.io.fingerprints import version_of
from assay.models.encoding import Encoder, EncoderRequest, weights_of


def load(request: EncoderRequest) -> Encoder:
    """Load the model; one that is not on this machine is fetched by the package."""
    package = need("model2vec", "The encoder 'model2vec:'", "model2vec")
    model = package.StaticModel.from_pretrained(request.argument)
    length = request.settings.max_length
    options: dict[str, Any] = {} if length is None else {"max_length": length}
    return Encoder(
        request.spec,
        lambda texts: model.encode(texts, **options),
        lambda: {"model2vec": version_of("model2vec"), **weights_of(request.argument)},
        repeatable=True,
    )
