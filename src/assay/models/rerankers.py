"""Rerankers: a query and some texts in, one score for each text out (a cross-encoder).

py:MODULE:FUNCTION  your own function of a query and a list of texts
st:MODEL            a CrossEncoder of sentence-transformers, by name or folder
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.arrays import Floats
from assay.core import checks
from assay.errors import (
    AssayError,
    ShapeError,
    UsageError,
    ValueRangeError,
    error_text,
    need,
)
from assay.io.fingerprints import fingerprint_of, version_of, weights_of
from assay.models.adapters.python_function import named_callable
from assay.models.adapters.sentence_transformers import load_model
from assay.models.settings import EncoderSettings

__all__ = ["Reranker", "check_reranker", "load_reranker"]


@dataclass(frozen=True)
class Reranker:
    """`function` scores texts for a query; `identity` is None where nothing tells what it does."""

    spec: str
    function: Callable[[str, list[str]], Any]
    identity: Mapping[str, Any] | None = None

    @property
    def fingerprint(self) -> str:
        """The same for the same spec, settings, version and weights, as far as these are known."""
        return fingerprint_of({"reranker": self.spec, **(self.identity or {})})

    def score(self, query: str, texts: list[str]) -> Floats:
        """One finite score for each text, the higher the better."""
        try:
            made = self.function(query, texts)
        except (AssayError, MemoryError, OSError):
            raise
        except Exception as error:  # the function is not ours: it can fail in any way
            raise UsageError(f"Reranker {self.spec!r} failed: {error_text(error)}.") from error
        array = checks.plain_array(made, f"The result of reranker {self.spec!r}")
        if array.shape not in ((len(texts),), (len(texts), 1)) or array.dtype.kind not in "iuf":
            raise ShapeError(
                f"Reranker {self.spec!r} returned {array.dtype} of shape {array.shape} for "
                f"{len(texts)} texts; expected one number for each."
            )
        scores = array.astype(np.float64).ravel()
        if not np.isfinite(scores).all():
            raise ValueRangeError(
                f"Reranker {self.spec!r} returned NaN or infinite scores for the query "
                f"{query!r:.60}."
            )
        return scores


def check_reranker(spec: str) -> None:
    """Refuse a spec that names no reranker; nothing is loaded."""
    kind, _, argument = spec.partition(":")
    if kind not in _KINDS or not argument:
        raise UsageError(f"{spec!r} is no reranker. Write py:MODULE:FUNCTION or st:MODEL.")


def load_reranker(
    spec: str, *, settings: EncoderSettings | None = None, device: str | None = None
) -> Reranker:
    """The reranker that a spec names."""
    check_reranker(spec)
    kind, _, argument = spec.partition(":")
    return _KINDS[kind](spec, argument, settings or EncoderSettings(), device)


def _own_function(
    spec: str, argument: str, settings: EncoderSettings, device: str | None
) -> Reranker:
    settings.refuse_hub("py")
    settings.refuse("max_length", "py:", "cut the texts in your function")
    function = named_callable(argument, "py:MODULE:FUNCTION")
    given = getattr(function, "fingerprint", None)
    return Reranker(spec, function, {"function": given} if isinstance(given, str) else None)


def _cross_encoder(
    spec: str, argument: str, settings: EncoderSettings, device: str | None
) -> Reranker:
    package = need("sentence_transformers", "The reranker 'st:'", "sentence-transformers")
    model = load_model(
        package.CrossEncoder, argument, settings, device, max_length=settings.max_length
    )

    def predict(query: str, texts: list[str]) -> Any:
        pairs = [(query, text) for text in texts]
        return model.predict(pairs, batch_size=settings.batch_size or 32, show_progress_bar=False)

    return Reranker(spec, predict, _identity(model, argument, settings))


def _identity(model: Any, argument: str, settings: EncoderSettings) -> dict[str, Any] | None:
    """Version, settings and weights: the files of a folder, or the commit of the hub."""
    commit = getattr(getattr(model, "config", None), "_commit_hash", None)
    if Path(argument).exists():
        weights: Mapping[str, Any] = weights_of(argument)
    elif isinstance(commit, str) and commit:
        weights = {"revision": commit}
    else:
        return None
    version = version_of("sentence-transformers")
    return {"sentence-transformers": version, **settings.identity, **weights}


_KINDS = {"py": _own_function, "st": _cross_encoder}
