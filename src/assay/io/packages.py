"""Optional packages, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from assay.errors import MissingPackageError

__all__ = ["need"]


def need(module: str, purpose: str, extra: str) -> Any:
    """Import an optional module, or say which extra of Assay installs it."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingPackageError(module.partition(".")[0], purpose, extra) from None
