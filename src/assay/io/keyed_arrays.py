"""One array of a .npy or .npz file by its key, with the ids of its rows where there are any."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from assay.errors import FormatError, UsageError
from assay.io.arrays import load_npy, load_npz, npz_keys

__all__ = ["ROW_IDS", "load_keyed"]

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
