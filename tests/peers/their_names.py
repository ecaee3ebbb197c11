"""Measures of ir_measures by name, on every Python."""

from __future__ import annotations

import warnings
from typing import Any

import pytest


def parse_theirs(package: Any, name: str) -> Any:
    """Return their measure of this name; skip the test where their parser cannot run.

    Version 0.4.3 parses with `ast.Num`, which Python warns of from 3.12 and lacks from 3.14 on.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"ast\.|Attribute [ns] is", DeprecationWarning)
        try:
            return package.parse_measure(name)
        except AttributeError as error:
            pytest.skip(f"ir_measures cannot parse {name} on this Python: {error}")
