"""Shards: a corpus in many files, in an order that does not depend on how they were listed.

A manifest is a JSON file, its paths relative to itself:

    {"shards": [{"path": "part-0.npy", "ids": "part-0.ids.txt", "key": null, "rows": 1000,
                 "sha256": "…"}, …]}

Only `path` is needed. Shards are numbered in the order of their names, in which numbers count as
numbers (part-2 before part-10); so the order of a list or a manifest changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple

from assay.cluster.remote_files import expand, join, local_file
from assay.core.text import did_you_mean
from assay.errors import FormatError, StorageError, UsageError
from assay.io.json_text import parse_json
from assay.io.streams import read_text

__all__ = ["Shard", "natural_order", "open_shards"]

_ENDINGS: Final = (".npy", ".npz", ".parquet", ".pq", ".safetensors")
_PATTERN: Final = re.compile(r"[*?\[]")


class Shard(NamedTuple):
    """One file of vectors or codes; `ids` is a text file with one id a line."""

    path: str
    ids: str | None = None
    key: str | None = None  # of the array, where the file holds several
    rows: int | None = None
    sha256: str | None = None


def open_shards(source: Any) -> tuple[Shard, ...]:
    """The shards of a manifest (.json), a pattern, one file, or a list of files, in their order.

    >>> [shard.path for shard in open_shards(["b/part-10.npy", "b/part-2.npy"])]
    ['b/part-2.npy', 'b/part-10.npy']
    """
    shards = _listed(source)
    if not shards:
        raise StorageError(f"{source!r} names no shards: no file matches. Check the pattern.")
    for shard in shards:
        if not shard.path.lower().endswith(_ENDINGS):
            raise FormatError(
                f"{shard.path} is no shard: shards are {', '.join(_ENDINGS)} files of vectors."
            )
    ordered = sorted(shards, key=lambda shard: natural_order(shard.path))
    for before, after in pairwise(ordered):
        if before.path == after.path:
            raise UsageError(f"The shard {after.path} is listed twice. List it once.")
    return tuple(ordered)


def _listed(source: Any) -> list[Shard]:
    if isinstance(source, Shard):
        return [source]
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if not isinstance(name, str):
            raise UsageError(f"A shard is named by text, found {name!r}.")
        if name.lower().endswith(".json"):
            return _of_manifest(name)
        if not _PATTERN.search(name) or os.path.exists(name):
            return [Shard(name)]
        return [Shard(path) for path in expand(name)]
    if isinstance(source, Iterable):
        return [shard for one in source for shard in _listed(one)]
    raise UsageError(
        f"Shards are a manifest (.json), a pattern such as 'docs-*.npy', or a list of files; "
        f"found {type(source).__name__}."
    )


def natural_order(path: str) -> list[tuple[int, int, str]]:
    """A key to sort by: numbers in a name compare as numbers.

    >>> sorted(["part-10", "part-9"], key=natural_order)
    ['part-9', 'part-10']
    """
    parts = re.split(r"(\d+)", path)
    return [(int(p), 1, p) if p.isdigit() and p.isascii() else (-1, 0, p) for p in parts]


def _of_manifest(name: str) -> list[Shard]:
    with local_file(name) as copy:
        content = parse_json(read_text(copy), name)
    entries = content.get("shards") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise FormatError(f'{name}: a manifest is {{"shards": [{{"path": "…"}}, …]}}.')
    folder = name.rpartition("/")[0] if "/" in name else ""
    return [_entry(entry, folder, f"{name}, shard {row}") for row, entry in enumerate(entries)]


_KINDS: Final[dict[str, type]] = {
    "path": str,
    "ids": str,
    "key": str,
    "rows": int,
    "sha256": str,
}


def _entry(entry: Any, folder: str, place: str) -> Shard:
    if isinstance(entry, str):
        entry = {"path": entry}
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise FormatError(f"{place}: expected an object with a path, found {entry!r:.80}.")
    for key, value in entry.items():
        if key not in _KINDS:
            hint = did_you_mean(key, _KINDS)
            raise FormatError(f"{place}: unknown key {key!r}.{hint} Keys: {', '.join(_KINDS)}.")
        if value is not None and (not isinstance(value, _KINDS[key]) or isinstance(value, bool)):
            raise FormatError(f"{place}: {key} must be {_KINDS[key].__name__}, found {value!r}.")
    paths = {key: join(folder, entry[key]) for key in ("path", "ids") if entry.get(key)}
    return Shard(**{**entry, **paths})
