"""Anything that can encode texts, taken as an Encoder."""

from __future__ import annotations

from typing import Any, cast

from assay.encoders.base import Encode, Encoder
from assay.encoders.specs import encoder
from assay.errors import UsageError

__all__ = ["as_encoder"]


def as_encoder(model: Any, *, device: str | None = None) -> Encoder:
    """From a spec, an Encoder, an object with `encode` or `encode_texts_clip`, or a function.

    >>> as_encoder(lambda texts: [[len(text)] for text in texts]).encode(["abc"]).tolist()
    [[3.0]]
    """
    if isinstance(model, Encoder):
        return model
    if isinstance(model, str):
        return encoder(model, device=device)
    return Encoder(_name_of(model), _function_of(model, device))


def _function_of(model: Any, device: str | None) -> Encode:
    clip = getattr(model, "encode_texts_clip", None)
    if callable(clip):
        return lambda texts: clip(texts, device or "cpu")
    encode = getattr(model, "encode", None)
    if callable(encode):
        return cast("Encode", encode)
    if callable(model):
        return cast("Encode", model)
    raise UsageError(
        f"A text encoder is a spec such as 'wordllama', an object with a method encode(texts) or "
        f"encode_texts_clip(texts, device), or a function, found {type(model).__name__}."
    )


def _name_of(model: Any) -> str:
    return str(getattr(model, "__qualname__", type(model).__qualname__))
