"""What a contestant costs: time to encode and to search, dimension, memory."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["Costs", "Timer"]


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes; None where there is no such thing.

    `n_encoded` texts took `encode_seconds`; those that came from the cache count in neither.
    `search_seconds` is for all queries.
    """

    encode_seconds: float = 0.0
    n_encoded: int = 0
    dimension: int | None = None
    bytes: int | None = None
    build_seconds: float | None = None
    search_seconds: float = 0.0

    @property
    def texts_per_second(self) -> float | None:
        """How fast texts were encoded, or documents fitted; None where all came from the cache."""
        if not self.n_encoded or not self.encode_seconds:
            return None
        return self.n_encoded / self.encode_seconds

    def searched(self, seconds: float) -> Costs:
        """The same with the time of the search."""
        return replace(self, search_seconds=seconds)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "texts_per_second": self.texts_per_second}


class Timer:
    """Seconds between the beginning and the end of a `with` block."""

    seconds = 0.0

    def __enter__(self) -> Timer:
        """Begin."""
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self.seconds = time.perf_counter() - self._began
