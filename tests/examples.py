"""How many generated examples a test tries: some by default, all where ASSAY_EXAMPLES is "all".

A slow test runs every test of generated examples with all of them.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

_ALL = os.environ.get("ASSAY_EXAMPLES") == "all"


def some_of(most: int) -> int:
    """How many of so many examples are tried in this run."""
    return most if _ALL else max(most // 6, 10)


def examples(most: int, **options: Any) -> settings:
    """Settings of a test that tries at most so many examples."""
    return settings(max_examples=some_of(most), **options)
