"""Vectors and codes from .npy and .npz files, with their ids from the same file or a text file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from assay.errors import FormatError
from assay.ids import Ids
from assay.io.arrays import npz_keys
from assay.io.keyed_arrays import ROW_IDS, load_keyed
from assay.io.text_lines import read_lines

__all__ = ["VectorFile", "read_ids", "read_vectors"]

Path = str | os.PathLike[str]

_USUAL: Final = {
    "doc": ("docs", "doc_embeddings", "corpus", "embeddings", "vectors", "codes"),
    "query": ("queries", "query_embeddings", "embeddings", "vectors", "codes"),
}


@dataclass(frozen=True, eq=False)
class VectorFile:
    """The rows of one side, and their ids if the file holds any."""

    vectors: NDArray[Any]
    ids: Ids | None


def read_vectors(path: Path, side: str, *, key: str | None = None) -> VectorFile:
    """Vectors of documents (side "doc") or queries ("query") from a .npy or .npz file.

    A .npz may hold both sides, as `docs` and `queries`, and ids: `doc_ids`, `query_ids`, or `ids`
    and `sample_ids` where it holds one side only. A `key` names the array.
    """
    vectors, rows = load_keyed(path, key, usual=_USUAL[side])
    if not os.fspath(path).lower().endswith(".npz"):
        return VectorFile(vectors, None)
    keys = npz_keys(path)
    both = any(name in keys for name in _USUAL["doc"][:3]) and "queries" in keys
    names = (f"{side}_ids",) if both else (f"{side}_ids", "ids")
    found = next((name for name in names if name in keys), None)
    given = load_keyed(path, found)[0] if found else None if both else rows
    return VectorFile(vectors, None if given is None else _ids(given, side, path, found or ROW_IDS))


def _ids(given: NDArray[Any], side: str, path: Path, name: str) -> Ids:
    if given.ndim != 1 or given.dtype.kind not in "iuU":
        raise FormatError(
            f"{os.fspath(path)}: {name} must be text or whole numbers in one dimension, found "
            f"shape {given.shape} of {given.dtype}."
        )
    return Ids.of(given if given.dtype.kind in "iu" else given.tolist(), what=side)


def read_ids(path: Path, side: str) -> Ids:
    """Ids from a text file, one a line, in the order of the vectors; they stay text."""
    return Ids.of([line.rstrip("\r\n") for line in read_lines(path)], what=side)
