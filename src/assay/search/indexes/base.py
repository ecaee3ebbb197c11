"""What an adapter is: a function that opens an engine, which takes vectors and finds documents."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, Protocol

from numpy.typing import NDArray

from assay.arrays import Floats32
from assay.core.text import did_you_mean
from assay.errors import UsageError

Metric = Literal["cosine", "dot", "l2"]

# "certified": the answers are the exact ones; "exact": they are, but for the rounding of float32
# and the order of ties, which the index sees to; "approximate": documents may be lost.
Exactness = Literal["certified", "exact", "approximate"]


class EngineBytes(NamedTuple):
    """Size of an engine in bytes; None where it is not known."""

    memory: int | None = None
    disk: int | None = None


class Options:
    """The options of a spec; each is read by its name, and one that was not read is refused."""

    def __init__(self, spec: str, values: dict[str, str]) -> None:
        self._spec = spec
        self._left = dict(values)
        self._known: list[str] = []

    def whole(self, name: str, default: int | None = None) -> int | None:
        """A whole number ≥ 1."""
        value = self._take(name)
        if value is None:
            return default
        if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) < 1:
            raise UsageError(f"{name} must be a whole number ≥ 1, found {value!r}: {self._spec}")
        return int(value)

    def flag(self, name: str) -> bool:
        """True or false; false where it is not given."""
        return self.choice(name, ("false", "true")) == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words; the first where it is not given."""
        value = self._take(name)
        if value is None:
            return choices[0]
        if value not in choices:
            words = ", ".join(choices)
            raise UsageError(f"{name} must be one of {words}, found {value!r}: {self._spec}")
        return value

    def rest(self) -> dict[str, str]:
        """All that were not read yet."""
        left, self._left = self._left, {}
        return left

    def finish(self) -> None:
        """Refuse options that were not read."""
        for name in self._left:
            hint = did_you_mean(name, self._known)
            names = ", ".join(self._known) or "none"
            raise UsageError(f"Unknown option {name!r} in {self._spec}.{hint} Known: {names}.")

    def _take(self, name: str) -> str | None:
        self._known.append(name)
        return self._left.pop(name, None)


@dataclass(frozen=True)
class Setup:
    """What an engine is opened with; its vectors are float32, of length 1 under cosine."""

    argument: str
    options: Options
    dimension: int
    metric: Metric
    threads: int | None
    spec: str  # for messages


class Engine(Protocol):
    """A search engine that holds the vectors 0, 1, …"""

    version: str
    exactness: Exactness

    def add(self, vectors: Floats32) -> None:
        """Take in all vectors and make the engine ready to search; called once."""

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        """The numbers of the k best vectors for each query, in any order; -1 for none."""

    def size(self) -> EngineBytes:
        """The size of the engine."""

    def close(self) -> None:
        """Release everything; may be called at any time, and twice."""


Opener = Callable[[Setup], Engine]


def own_folder() -> TemporaryDirectory[str]:
    """A folder that is deleted with the index, or else with the process."""
    return TemporaryDirectory(prefix="assay-index-", ignore_cleanup_errors=True)


def folder_bytes(folder: str) -> int:
    """The size of all files in a folder."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
