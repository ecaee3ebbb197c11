"""What an adapter is: a function that opens an engine, which takes vectors and finds documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from numpy.typing import NDArray

from assay.arrays import Floats32

if TYPE_CHECKING:
    from assay.search.indexes.specs import Options

__all__ = ["Bytes", "Engine", "Exactness", "Metric", "Opener", "Setup", "own_folder"]


Metric = Literal["cosine", "dot", "l2"]

# "certified": the answers are the exact ones; "exact": they are, but for the rounding of float32
# and the order of ties, which the index sees to; "approximate": documents may be lost.
Exactness = Literal["certified", "exact", "approximate"]


class Bytes(NamedTuple):
    """How much room an engine takes, where it can tell."""

    memory: int | None = None
    disk: int | None = None


@dataclass(frozen=True)
class Setup:
    """What an engine is opened with; its vectors are float32, of length 1 under cosine."""

    argument: str
    options: Options
    dimension: int
    metric: Metric
    threads: int | None
    shown: str


class Engine(Protocol):
    """A search engine that holds the vectors 0, 1, …"""

    version: str
    exactness: Exactness

    def add(self, vectors: Floats32) -> None:
        """Take in all vectors and make the engine ready to search; called once."""

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        """The numbers of the k best vectors for each query, in any order; -1 for none."""

    def size(self) -> Bytes:
        """How much room the engine takes."""

    def close(self) -> None:
        """Give up everything; may be called at any time, and twice."""


Opener = Callable[[Setup], Engine]


def own_folder() -> TemporaryDirectory[str]:
    """A folder that goes with the index, or else with the process."""
    return TemporaryDirectory(prefix="assay-index-", ignore_cleanup_errors=True)


def folder_bytes(folder: str) -> int:
    """The size of all files in a folder."""
    from pathlib import Path

    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
