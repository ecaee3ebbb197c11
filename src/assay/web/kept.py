"""What was computed once: finished runs never change, so what follows from them does not either."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, TypeVar

__all__ = ["Kept"]

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """The values that were used last, up to a total weight.

    >>> kept = Kept(2)
    >>> [kept.get(key, lambda key=key: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    >>> kept.get("c", lambda: "C"), "b" in kept, "a" in kept
    ('C', False, True)
    """

    def __init__(self, most: int, weigh: Callable[[Value], int] = lambda _: 1) -> None:
        self._most = most
        self._weigh = weigh
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def __contains__(self, key: Hashable) -> bool:
        """Whether this was kept."""
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made where it is not there. Two threads may both make it."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._forget(self._values.pop(key, None))
            self._values[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._most and len(self._values) > 1:
                self._forget(self._values.popitem(last=False)[1])
        return value

    def drop(self, key: Hashable) -> None:
        """Keep this no longer."""
        with self._lock:
            self._forget(self._values.pop(key, None))

    def _forget(self, value: Any) -> None:
        if value is not None:
            self._weight -= self._weigh(value)
