"""Vectors and codes from .npy and .npz files, with their ids from the same file or a text file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from assay.core.ids import Ids
from assay.errors import FormatError, UsageError
from assay.io.arrays import load_npy, load_npz, npz_keys
from assay.io.streams import FilePath, read_lines

__all__ = ["ROW_IDS", "VectorFile", "load_keyed", "read_ids", "read_vectors"]

ROW_IDS: Final = "sample_ids"


def load_keyed(
    path: str | os.PathLike[str], key: str | None = None, *, usual: tuple[str, ...] = ()
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The array and, from a .npz that holds `sample_ids`, the ids of its rows.

    Without a key a .npz is asked for one of its `usual` names, or for its only array.
    """
    name = os.fspath(path)
    ending = Path(name).suffix.lower()
    if ending == ".npy":
        if key is not None:
            raise UsageError(f"{name} holds one array without a name; the key {key!r} is for .npz.")
        return load_npy(path), None
    if ending != ".npz":
        raise FormatError(f"{name}: arrays are read from .npy and .npz files.")
    chosen = _chosen_key(npz_keys(path), key, usual, name)
    arrays = load_npz(path, (chosen, ROW_IDS), others="ignore")
    return arrays[chosen], arrays.get(ROW_IDS)


def _chosen_key(found: list[str], key: str | None, usual: tuple[str, ...], name: str) -> str:
    if key is not None:
        if key in found:
            return key
        raise UsageError(f"{name} has no array {key!r}; it holds {', '.join(map(repr, found))}.")
    candidates = [other for other in found if other != ROW_IDS]
    known = [other for other in usual if other in candidates]
    if known or len(candidates) == 1:
        return (known or candidates)[0]
    or_name = f", or call it {usual[0]!r}" if usual else ""
    raise UsageError(
        f"{name} holds {', '.join(map(repr, candidates)) or 'no arrays'}. Say which one is meant "
        f"by its key{or_name}."
    )


_USUAL: Final = {
    "doc": ("docs", "doc_embeddings", "corpus", "embeddings", "vectors", "codes"),
    "query": ("queries", "query_embeddings", "embeddings", "vectors", "codes"),
}


@dataclass(frozen=True, eq=False)
class VectorFile:
    """The rows of one side, and their ids if the file holds any."""

    vectors: NDArray[Any]
    ids: Ids | None


def read_vectors(path: FilePath, side: str, *, key: str | None = None) -> VectorFile:
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


def _ids(given: NDArray[Any], side: str, path: FilePath, name: str) -> Ids:
    if given.ndim != 1 or given.dtype.kind not in "iuU":
        raise FormatError(
            f"{os.fspath(path)}: {name} must be text or whole numbers in one dimension, found "
            f"shape {given.shape} of {given.dtype}."
        )
    return Ids.of(given if given.dtype.kind in "iu" else given.tolist(), what=side)


def read_ids(path: FilePath, side: str) -> Ids:
    """Ids from a text file, one a line, in the order of the vectors; they stay text."""
    return Ids.of([line.rstrip("\r\n") for line in read_lines(path)], what=side)
