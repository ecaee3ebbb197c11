"""Two text models for the recorded commands.

Their fingerprint is that of this file: a change here changes recorded numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["bag", "short_bag"]


def bag(texts: Sequence[str]) -> NDArray[np.float64]:
    """How often each letter stands in a text."""
    return np.array([[text.count(chr(97 + i)) + 0.01 * i for i in range(26)] for text in texts])


def short_bag(texts: Sequence[str]) -> NDArray[np.float64]:
    """A worse one, which reads the beginning only."""
    return bag([text[:20] for text in texts])
