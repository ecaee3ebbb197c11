"""Names of models, for completion in a shell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.models.specs import ENCODERS, LEXICAL


def offer_models(_: Any) -> Iterator[str]:
    """Yield the specs of models, with a colon where something follows."""
    for name, kind in {**LEXICAL, **ENCODERS}.items():
        yield f"{name}:" if ":" in kind.form.partition("[")[0] else name
