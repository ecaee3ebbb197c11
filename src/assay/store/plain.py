"""Settings as plain data that JSON can hold, and nothing else."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from assay.errors import UsageError

__all__ = ["as_text", "plain"]


def plain(value: Any, where: str) -> Any:
    """The value made of dictionaries, lists, texts, numbers, booleans and None.

    >>> import pathlib
    >>> plain({"k": (1, np.float32(0.5)), "path": pathlib.PurePosixPath("a/b")}, "config")
    {'k': [1, 0.5], 'path': 'a/b'}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON has neither NaN nor infinity
    if isinstance(value, os.PathLike | date):
        return value.isoformat() if isinstance(value, date) else os.fsdecode(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each, f"{where}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return [plain(each, f"{where}[{i}]") for i, each in enumerate(items)]
    raise UsageError(
        f"{where} holds a {type(value).__name__}, which cannot be stored. "
        "Give texts, numbers, lists and dictionaries."
    )


def as_text(value: Any, where: str) -> str:
    """The value as JSON text of ASCII characters."""
    try:
        return json.dumps(plain(value, where), allow_nan=False)
    except RecursionError:
        raise UsageError(f"{where} is nested too deeply to be stored.") from None
