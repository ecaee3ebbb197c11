"""From a spec such as `wordllama` or `st:all-MiniLM-L6-v2` to an encoder."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Final

from assay import checks
from assay.encoders.base import Encoder
from assay.errors import UsageError

__all__ = ["KINDS", "encoder"]

# The module of this package that knows each kind, and how a spec of it is written.
KINDS: Final[dict[str, tuple[str, str]]] = {
    "wordllama": ("wordllama", "wordllama"),
    "st": ("sentence_transformers", "st:MODEL"),
    "model2vec": ("model2vec", "model2vec:MODEL"),
    "py": ("python_function", "py:MODULE:FUNCTION"),
    "checkpoint": ("checkpoint", "checkpoint:FILE"),
}
_CHECKPOINTS: Final = (".pt", ".pth", ".safetensors")


def encoder(spec: str, *, device: str | None = None) -> Encoder:
    """The encoder that a spec names; `device` is for the kinds that run on one."""
    checks.require(spec, str, "An encoder", "a spec such as 'wordllama' or 'st:MODEL'")
    kind, _, argument = spec.partition(":")
    if kind not in KINDS and Path(spec).suffix.lower() in _CHECKPOINTS:
        kind, argument = "checkpoint", spec
    if kind not in KINDS:
        raise UsageError(_unknown(spec, kind))
    module, form = KINDS[kind]
    if ("MODEL" in form or "FILE" in form) and not argument:
        raise UsageError(f"The encoder {spec!r} names no model. Write {form}.")
    load = import_module(f"assay.encoders.{module}").load
    return Encoder(spec, load(argument, device))


def _unknown(spec: str, kind: str) -> str:
    near = get_close_matches(kind, KINDS, n=1)
    hint = f" Did you mean {KINDS[near[0]][1]}?" if near else ""
    forms = ", ".join(form for _, form in KINDS.values())
    return f"Unknown encoder {spec!r}.{hint} An encoder is one of: {forms}."
