"""Text models of workers: each of them, a process or a thread, loads its own, once."""

from __future__ import annotations

import threading
from typing import Final

from assay.encoders import EncoderSettings, TextModel, text_model

__all__ = ["worker_model"]

_HELD: Final = threading.local()  # packages do not promise that threads may share a model


def worker_model(spec: str, settings: EncoderSettings, device: str | None = None) -> TextModel:
    """The text model, from the last call of this worker if that named the same one."""
    wanted = spec, settings, device
    if getattr(_HELD, "name", None) != wanted:
        _HELD.name = _HELD.model = None  # never two models at a time
        _HELD.model = text_model(spec, settings=settings, device=device)
        _HELD.name = wanted
    model: TextModel = _HELD.model
    return model
