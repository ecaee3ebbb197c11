"""Paths with fields: descriptors/{scene}/{image}.npz."""

from __future__ import annotations

import os
from collections.abc import Mapping

from assay.errors import UsageError

__all__ = ["filled_path"]


def filled_path(path: str, names: Mapping[str, object]) -> str:
    """The path with the names put in; one that would lead to another folder is refused.

    >>> filled_path("{scene}/{image}.csv", {"scene": "v_wall", "image": 2})
    'v_wall/2.csv'
    """
    for key, name in names.items():
        text, field = str(name), f"{{{key}}}"
        if field in path and (text in ("", ".", "..") or os.path.basename(text) != text):
            raise UsageError(f"The {key} {text!r} cannot be part of a path.")
        path = path.replace(field, text)
    return path
