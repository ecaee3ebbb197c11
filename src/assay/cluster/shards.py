"""Shards: a corpus in many files, in an order that does not depend on how they were listed.

`open_shards` lists them, `open_shard` reads vectors and ids from one (.npy, .npz, .parquet,
.safetensors), `read_text_shard` reads texts.

A manifest is a JSON file, its paths relative to itself. Those elsewhere on the net are refused, and
absolute ones, too, where the manifest is not on this disk:

    {"shards": [{"path": "part-0.npy", "ids": "part-0.ids.txt", "key": null, "rows": 1000,
                 "sha256": "…"}, …]}

Only `path` is needed. Shards are numbered in the order of their names, in which numbers count as
numbers (part-2 before part-10); so the order of a list or a manifest changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Array
from assay.cluster.remote_files import (
    as_address,
    expand,
    is_remote,
    join,
    local_file,
    without_query,
)
from assay.core.ids import Ids
from assay.core.text import did_you_mean, mask_secrets, natural_order
from assay.errors import AssayError, FormatError, InputError, StorageError, UsageError
from assay.io.arrays import NpyRows, read_ids, read_vectors
from assay.io.columns import read_columns
from assay.io.plain_data import parse_json
from assay.io.streams import ending_of, read_lines, read_text, split_array
from assay.io.texts import find_text_columns, read_texts
from assay.models.safetensors import load_safetensors

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
    shards = _list_shards(source)
    if not shards:
        words = mask_secrets(repr(source))
        raise StorageError(f"{words} names no shards: no file matches. Check the pattern.")
    for shard in shards:
        if _ending(shard) not in _READ:
            raise FormatError(
                f"{shard.path} is not a shard: shards are {', '.join(_READ)} files of vectors."
            )
    ordered = sorted(shards, key=lambda shard: natural_order(shard.path))
    for before, after in pairwise(ordered):
        if before.path == after.path:
            raise UsageError(f"The shard {after.path} is listed twice. List it once.")
    return tuple(ordered)


def _ending(shard: Shard) -> str:
    return os.path.splitext(without_query(shard.path))[1].lower()


def _list_shards(source: Any) -> list[Shard]:
    if isinstance(source, Shard):
        ids = None if source.ids is None else as_address(source.ids)
        return [source._replace(path=as_address(source.path), ids=ids)]
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if not isinstance(name, str):
            raise UsageError(f"A shard is named by text, found {name!r}.")
        name = as_address(name)
        if without_query(name).lower().endswith(".json"):
            return _of_manifest(name)
        file, key = split_array(name)
        file = as_address(file)
        if not _PATTERN.search(without_query(file)) or os.path.exists(file):
            return [Shard(file, key=key)]
        return [Shard(path, key=key) for path in expand(file)]
    if isinstance(source, Iterable):
        return [shard for part in source for shard in _list_shards(part)]
    raise UsageError(
        f"Shards are a manifest (.json), a pattern such as 'docs-*.npy', or a list of files; "
        f"found {type(source).__name__}."
    )


def _of_manifest(name: str) -> list[Shard]:
    with local_file(name) as copy:
        content = parse_json(read_text(copy), name)
    entries = content.get("shards") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise FormatError(f'{name}: a manifest is {{"shards": [{{"path": "…"}}, …]}}.')
    folder = without_query(name).rpartition("/")[0]
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
        raise FormatError(f"{place}: expected an object with a path, found {_shown(entry)}.")
    for key, value in entry.items():
        if key not in _KINDS:
            hint = did_you_mean(key, _KINDS)
            raise FormatError(f"{place}: unknown key {key!r}.{hint} Keys: {', '.join(_KINDS)}.")
        if value is not None and (not isinstance(value, _KINDS[key]) or isinstance(value, bool)):
            raise FormatError(
                f"{place}: {key} must be {_KINDS[key].__name__}, found {_shown(value)}."
            )
    paths = {key: as_address(join(folder, entry[key])) for key in ("path", "ids") if entry.get(key)}
    for path in paths.values():
        inside = is_remote(folder) and path.startswith(f"{folder}/") and "::" not in path
        if (is_remote(path) or is_remote(folder)) and not inside:
            raise UsageError(
                f"{place}: a manifest may not send you to {path}, which is outside its own folder. "
                "If you want these shards, name them yourself."
            )
    return Shard(**{**entry, **paths})


def _shown(value: Any) -> str:
    return mask_secrets(repr(value))[:80]


TEXT_ENDINGS: Final = (".jsonl", ".ndjson", ".txt")


class TextShard(NamedTuple):
    """Texts, and their ids where the file has some."""

    texts: Sequence[str]
    ids: Ids | None


def read_text_shard(name: str) -> TextShard:
    """Read a file; records without an id have none, since their numbers would repeat."""
    with local_file(name) as path:
        if ending_of(without_query(name)) == ".txt":
            return TextShard([line.rstrip("\r\n") for line in read_lines(path)], None)
        texts = read_texts(path, "doc")
        return TextShard(texts.texts, texts.ids if _has_ids(path, name) else None)


def _has_ids(path: str, name: str) -> bool:
    """Whether the first record has an id."""
    first = next((line for line in read_lines(path) if not line.isspace()), "")
    record = parse_json(first, name)
    if not isinstance(record, Mapping):
        raise FormatError(f"{name}: expected objects with id and text, found {record!r:.60}.")
    return find_text_columns(list(record), "doc", name).id is not None


_VECTORS: Final = (
    "docs",
    "vectors",
    "vector",
    "embeddings",
    "embedding",
    "codes",
    "doc_embeddings",
)
_IDS: Final = ("ids", "id", "doc_ids", "doc_id", "sample_ids", "_id", "docid")


class ShardContent(NamedTuple):
    """The rows of a shard, as the engine takes them (an array, or the path of a .npy file)."""

    docs: Any
    shape: tuple[int, ...]
    ids: Ids | None


@contextmanager
def open_shard(shard: Shard) -> Iterator[ShardContent]:
    """Open a shard for reading; errors inside carry its name."""
    try:
        with local_file(shard.path) as path:
            content = _READ[_ending(shard)](path, shard.key)
            if shard.ids is not None:
                content = content._replace(ids=_ids_of_file(shard.ids))
            _check(content, shard)
            yield content
    except AssayError as error:
        raise _with_shard_name(error, shard) from error
    except (OSError, ValueError) as error:
        raise StorageError(f"Shard {shard.path} cannot be read: {error}.") from error


def _with_shard_name(error: AssayError, shard: Shard) -> AssayError:
    message = str(error)
    if isinstance(error, InputError | StorageError) and not message.startswith("Shard "):
        return type(error)(f"Shard {shard.path}: {message}")
    return error


def _check(content: ShardContent, shard: Shard) -> None:
    rows = content.shape[0] if content.shape else 0
    if shard.rows is not None and rows != shard.rows:
        raise FormatError(f"it has {rows} rows, but the manifest says {shard.rows}.")
    if content.ids is not None and len(content.ids) != rows:
        raise FormatError(f"it has {rows} rows and {len(content.ids)} ids.")


def _ids_of_file(name: str) -> Ids:
    with local_file(name) as path:
        return read_ids(path, "doc")


def _of_npy(path: str, key: str | None) -> ShardContent:
    """Only what is searched is mapped into memory, window by window."""
    if key is not None:
        raise FormatError(f"a .npy file holds one array without a name; the key {key!r} is none.")
    return ShardContent(path, NpyRows(path).shape, None)


def _of_npz(path: str, key: str | None) -> ShardContent:
    vectors = read_vectors(path, "doc", key=key)
    return ShardContent(vectors.vectors, vectors.vectors.shape, vectors.ids)


def _of_safetensors(path: str, key: str | None) -> ShardContent:
    tensors, _ = load_safetensors(path)
    vectors = tensors[_chosen(list(tensors), key)]
    name = next((name for name in _IDS if name in tensors), None)
    return ShardContent(vectors, vectors.shape, None if name is None else Ids.of(tensors[name]))


def _of_parquet(path: str, key: str | None) -> ShardContent:
    ids: list[str] = []

    def choose(names: Sequence[str]) -> list[str]:
        ids[:] = [name for name in _IDS if name in names][:1]
        return [_chosen(list(names), key), *ids]

    table = read_columns(path, choose)
    vectors = _matrix(table.column(0), table.column_names[0])
    return ShardContent(vectors, vectors.shape, _ids_of(table.column(1)) if ids else None)


def _matrix(column: Any, name: str) -> Array:
    """A column of lists of numbers, all of one length, as rows."""
    lists = column.combine_chunks()
    if not hasattr(lists, "flatten") or lists.null_count:
        raise FormatError(f"the column {name!r} must hold a list of numbers in every row.")
    flat = lists.flatten().to_numpy(zero_copy_only=False)
    width, left = divmod(len(flat), max(len(lists), 1))
    lengths = (
        {width}
        if not hasattr(lists, "value_lengths")
        else set(lists.value_lengths().unique().to_pylist())
    )
    if left or lengths != {width}:
        raise FormatError(f"the column {name!r} has lists of different lengths.")
    return np.ascontiguousarray(flat).reshape(len(lists), width)


def _ids_of(column: Any) -> Ids:
    values = column.to_pylist()
    return Ids.of(values, what="doc")


def _chosen(names: list[str], key: str | None) -> str:
    if key is not None:
        if key not in names:
            raise FormatError(f"it has no {key!r}; it holds {', '.join(map(repr, names))}.")
        return key
    usual = [name for name in _VECTORS if name in names]
    rest = [name for name in names if name not in _IDS]
    if usual or len(rest) == 1:
        return (usual or rest)[0]
    raise FormatError(
        f"it holds {', '.join(map(repr, names)) or 'nothing'}; say by a key in the manifest which "
        f"are the vectors, or call them {_VECTORS[1]!r}."
    )


_READ: Final = {
    ".npy": _of_npy,
    ".npz": _of_npz,
    ".parquet": _of_parquet,
    ".pq": _of_parquet,
    ".safetensors": _of_safetensors,
}


def list_manifest(file: str) -> Iterator[str]:
    """Yield the paths in a manifest of shards, as they are read; none for another file."""
    if file.lower().endswith(".json") and "://" not in file:
        with suppress(AssayError):  # the command says what is wrong with it
            for shard in open_shards(file):
                yield from filter(None, (shard.path, shard.ids))
