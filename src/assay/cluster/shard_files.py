"""What a shard holds: vectors, and ids where it has some, from .npy, .npz, parquet, safetensors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Array
from assay.cluster.remote_files import local_file
from assay.cluster.shards import Shard
from assay.core.ids import Ids
from assay.errors import AssayError, FormatError, InputError, StorageError, need
from assay.io.arrays import NpyRows
from assay.io.formats import ending_of
from assay.io.json_text import parse_json
from assay.io.streams import read_lines
from assay.io.texts import find_text_columns, read_texts
from assay.io.vectors import read_ids, read_vectors
from assay.models.safetensors import load_safetensors

__all__ = ["ENDINGS", "Content", "TextShard", "opened", "read_text_shard"]

ENDINGS: Final = (".jsonl", ".ndjson", ".txt")


class TextShard(NamedTuple):
    """Texts, and their ids where the file has some."""

    texts: Sequence[str]
    ids: Ids | None


def read_text_shard(name: str) -> TextShard:
    """Read a file; records without an id have none, since their numbers would repeat."""
    with local_file(name) as path:
        if ending_of(name) == ".txt":
            return TextShard([line.rstrip("\r\n") for line in read_lines(path)], None)
        found = read_texts(path, "doc")
        return TextShard(found.texts, found.ids if _has_ids(path, name) else None)


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


class Content(NamedTuple):
    """The rows of a shard, as the engine takes them (an array, or the path of a .npy file)."""

    docs: Any
    shape: tuple[int, ...]
    ids: Ids | None


@contextmanager
def opened(shard: Shard) -> Iterator[Content]:
    """Open a shard for reading; whatever goes wrong inside is told with its name."""
    try:
        with local_file(shard.path) as path:
            content = _READ[os.path.splitext(shard.path)[1].lower()](path, shard.key)
            if shard.ids is not None:
                content = content._replace(ids=_ids_of_file(shard.ids))
            _check(content, shard)
            yield content
    except AssayError as error:
        raise _named(error, shard) from error
    except (OSError, ValueError) as error:
        raise StorageError(f"Shard {shard.path} cannot be read: {error}.") from error


def _named(error: AssayError, shard: Shard) -> AssayError:
    message = str(error)
    if isinstance(error, InputError | StorageError) and not message.startswith("Shard "):
        return type(error)(f"Shard {shard.path}: {message}")
    return error


def _check(content: Content, shard: Shard) -> None:
    rows = content.shape[0] if content.shape else 0
    if shard.rows is not None and rows != shard.rows:
        raise FormatError(f"it has {rows} rows, but the manifest says {shard.rows}.")
    if content.ids is not None and len(content.ids) != rows:
        raise FormatError(f"it has {rows} rows and {len(content.ids)} ids.")


def _ids_of_file(name: str) -> Ids:
    with local_file(name) as path:
        return read_ids(path, "doc")


def _of_npy(path: str, key: str | None) -> Content:
    """Only what is searched is mapped into memory, window by window."""
    if key is not None:
        raise FormatError(f"a .npy file holds one array without a name; the key {key!r} is none.")
    return Content(path, NpyRows(path).shape, None)


def _of_npz(path: str, key: str | None) -> Content:
    found = read_vectors(path, "doc", key=key)
    return Content(found.vectors, found.vectors.shape, found.ids)


def _of_safetensors(path: str, key: str | None) -> Content:
    tensors, _ = load_safetensors(path)
    vectors = tensors[_chosen(list(tensors), key)]
    name = next((name for name in _IDS if name in tensors), None)
    return Content(vectors, vectors.shape, None if name is None else Ids.of(tensors[name]))


def _of_parquet(path: str, key: str | None) -> Content:
    arrow = need("pyarrow", "reading parquet files", "parquet")
    parquet = need("pyarrow.parquet", "reading parquet files", "parquet")
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            chosen = _chosen(names, key)
            ids = next((name for name in _IDS if name in names), None)
            table = file.read(columns=[chosen] if ids is None else [chosen, ids])
    except (arrow.ArrowException, OSError) as error:
        raise FormatError(f"it is no sound parquet file ({str(error)[:120]}).") from None
    vectors = _matrix(table.column(chosen), chosen)
    return Content(vectors, vectors.shape, None if ids is None else _ids_of(table.column(ids)))


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
    known = [name for name in _VECTORS if name in names]
    rest = [name for name in names if name not in _IDS]
    if known or len(rest) == 1:
        return (known or rest)[0]
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
