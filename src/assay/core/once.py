"""Work that threads share: values that one of them computes, and parsing that they disturb."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock, RLock
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_PARSER: Final = RLock()  # a finaliser may parse in the middle of a parse
_TRIES: Final = 100


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
        """Return the value; what `compute` raises is not kept, so that the next one tries again."""
        with self._lock:
            lock = self._locks.setdefault(key, Lock())
        with lock:
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


def parse_python(parse: Callable[[], V]) -> V:
    """Parse Python source or a literal, undisturbed by other threads.

    CPython 3.11 keeps the depth of a syntax tree once for all threads: where another thread parses
    meanwhile, a sound parse ends in SystemError (python/cpython issue 106905).

    >>> import ast
    >>> parse_python(lambda: ast.literal_eval("(3, 4)"))
    (3, 4)
    """
    with _PARSER:  # our own threads take turns; those of other packages may still come between
        for _ in range(_TRIES - 1):
            try:
                return parse()
            except SystemError:
                continue
        return parse()
