"""`wordllama`: static token vectors, averaged; the package ships its weights (256 dimensions)."""

from __future__ import annotations

from pathlib import Path

from assay.encoders.base import Encode
from assay.errors import UsageError
from assay.io.packages import need

__all__ = ["load"]


def load(argument: str, device: str | None) -> Encode:
    """Load the weights from the package's own folder; nothing is downloaded."""
    if argument:
        raise UsageError(f"'wordllama' takes no model name, found {argument!r}.")
    package = need("wordllama", "The encoder 'wordllama'", "wordllama")
    model = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    embed: Encode = model.embed
    return embed
