"""Values that several threads need and one of them computes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["Once"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Once(Generic[K, V]):
    """A value for each key, computed by the first who asks; others wait for that one key only.

    >>> squares = Once()
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 1 / 0)
    (9, 9)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._locks: dict[K, Lock] = {}
        self._values: dict[K, V] = {}

    def get(self, key: K, compute: Callable[[], V]) -> V:
        """The value; what `compute` raises is not kept, so that the next one tries again."""
        with self._lock:
            own = self._locks.setdefault(key, Lock())
        with own:
            with self._lock:  # others may be forgetting, which walks over all values
                if key in self._values:
                    return self._values[key]
            value = compute()
            with self._lock:
                self._values[key] = value
            return value

    def forget(self, which: Callable[[K], bool]) -> None:
        """Drop values that nobody will ask for any more."""
        with self._lock:
            for key in [key for key in self._values if which(key)]:
                del self._values[key]
                self._locks.pop(key, None)  # one that waited for the lock may have come after
