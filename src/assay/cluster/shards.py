"""Shards: a corpus in many files, in an order that does not depend on how they were listed.

`open_shards` lists them, `open_shard` reads vectors and ids from one (.npy, .npz, .parquet,
.safetensors; sparse ones from .npz or .jsonl), `read_text_shard` reads texts.

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
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Array, Ints
from assay.cluster.executors import Executor
from assay.cluster.remote_files import (
    as_address,
    expand,
    file_facts,
    is_remote,
    join,
    local_file,
    without_query,
)
from assay.core import checks
from assay.core.ids import Ids
from assay.core.text import did_you_mean, mask_secrets, natural_order
from assay.errors import (
    AssayError,
    FormatError,
    IdError,
    InputError,
    MismatchError,
    StorageError,
    UsageError,
)
from assay.io.arrays import NpyRows, load_npz, read_ids, read_vectors
from assay.io.columns import read_columns
from assay.io.fingerprints import digest_of_file
from assay.io.plain_data import parse_json
from assay.io.streams import ending_of, read_lines, read_text, split_array
from assay.io.texts import find_text_columns, read_texts
from assay.search.engine.inputs import check_shape
from assay.search.engine.sparse_vectors import is_sparse, read_sparse_file
from assay.search.engine.token_vectors import is_tokens, read_tokens
from assay.search.safetensors import load_safetensors

TEXT_ENDINGS: Final = (".jsonl", ".ndjson", ".txt")
_PATTERN: Final = re.compile(r"[*?\[]")
# Keys of an entry of a manifest.
_KINDS: Final[dict[str, type]] = {"path": str, "ids": str, "key": str, "rows": int, "sha256": str}
_VECTORS: Final = (
    *("docs", "vectors", "vector", "embeddings", "embedding", "codes"),
    "doc_embeddings",
)
_IDS: Final = ("ids", "id", "doc_ids", "doc_id", "sample_ids", "_id", "docid")


class Shard(NamedTuple):
    """Name one file of vectors or codes; `ids` is a text file with one id a line.

    Example:
        >>> Shard("part-0.npy", rows=1000).rows
        1000
    """

    path: str
    ids: str | None = None
    key: str | None = None  # of the array, where the file holds several
    rows: int | None = None
    sha256: str | None = None


def open_shards(source: Any) -> tuple[Shard, ...]:
    """List the shards of a manifest (.json), a pattern, one file, or a list of files.

    Args:
        source: The manifest, pattern, file or list.

    Returns:
        The shards, in the order of their names.

    Raises:
        AssayError: No file matches, a file is no shard, or one is listed twice.

    Example:
        >>> [shard.path for shard in open_shards(["b/part-10.npy", "b/part-2.npy"])]
        ['b/part-2.npy', 'b/part-10.npy']
    """
    shards = _list_shards(source)
    if not shards:
        words = mask_secrets(repr(source))
        raise StorageError(f"{words} matches no shards. Check the pattern.")
    for shard in shards:
        if _ending(shard) not in _READ:
            raise FormatError(f"{shard.path} is not a shard. Use {', '.join(_READ)}.")
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
            raise UsageError(f"Invalid shard name {name!r}. Pass text.")
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
        f"Cannot read shards from {type(source).__name__}. Pass a manifest (.json), a pattern "
        "such as 'docs-*.npy', or a list of files."
    )


def _of_manifest(name: str) -> list[Shard]:
    with local_file(name) as copy:
        content = parse_json(read_text(copy), name)
    entries = content.get("shards") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise FormatError(f'{name}: a manifest is {{"shards": [{{"path": "…"}}, …]}}.')
    folder = without_query(name).rpartition("/")[0]
    return [_entry(entry, folder, f"{name}, shard {row}") for row, entry in enumerate(entries)]


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
                f"{place}: a manifest cannot name {path} outside its folder. Pass these "
                "shards directly."
            )
    return Shard(**{**entry, **paths})


def _shown(value: Any) -> str:
    return mask_secrets(repr(value))[:80]


class TextShard(NamedTuple):
    """Hold texts, and their ids where the file has some."""

    texts: Sequence[str]
    ids: Ids | None


def read_text_shard(name: str) -> TextShard:
    """Read a file; records without an id have none, since their numbers would repeat."""
    with local_file(name) as path:
        if ending_of(without_query(name)) == ".txt":
            return TextShard([line.rstrip("\r\n") for line in read_lines(path)], None)
        texts = read_texts(path, "doc")
        first = next((line for line in read_lines(path) if not line.isspace()), "")
        record = parse_json(first, name)
        if not isinstance(record, Mapping):
            raise FormatError(f"{name}: expected objects with id and text, found {record!r:.60}.")
        has_ids = find_text_columns(list(record), "doc", name).id is not None
        return TextShard(texts.texts, texts.ids if has_ids else None)


class ShardContent(NamedTuple):
    """Hold the rows of a shard as the engine takes them: an array, or the path of a .npy."""

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
                with local_file(shard.ids) as ids:
                    content = content._replace(ids=read_ids(ids, "doc"))
            rows = content.shape[0] if content.shape else 0
            if shard.rows is not None and rows != shard.rows:
                raise FormatError(f"it has {rows} rows, the manifest says {shard.rows}. Change it.")
            if content.ids is not None and len(content.ids) != rows:
                raise FormatError(f"it has {rows} rows and {len(content.ids)} ids.")
            yield content
    except (InputError, StorageError) as error:
        if str(error).startswith("Shard "):
            raise
        raise type(error)(f"Shard {shard.path}: {error}") from error
    except (OSError, ValueError) as error:
        if isinstance(error, AssayError):
            raise
        raise StorageError(f"Cannot read shard {shard.path}: {error}. Write it again.") from error


def _read_arrays(path: str, key: str | None) -> ShardContent:
    """Read .npz; of .npy only what is searched is mapped into memory, window by window."""
    if path.lower().endswith(".npy"):
        if key is not None:
            raise FormatError(f"a .npy file holds one array without a name. Omit the key {key!r}.")
        return ShardContent(path, NpyRows(path).shape, None)
    if key is None and is_tokens(path):
        return _read_tokens(path)
    if key is None and is_sparse(path):
        return _read_sparse(path, key)
    vectors = read_vectors(path, "doc", key=key)
    return ShardContent(vectors.vectors, vectors.vectors.shape, vectors.ids)


def _read_sparse(path: str, key: str | None) -> ShardContent:
    """Read sparse rows; terms with names may be others in each shard, so their number is not.

    Of .npz only shape and ids are read: the rows are read by the search that needs them.
    """
    if path.lower().endswith(".npz"):
        head = load_npz(path, ("shape", "ids"))
        shape, names = head.get("shape", np.zeros(0)), head.get("ids")
        if shape.shape == (2,) and shape.dtype.kind in "iu" and (shape > 0).all():
            ids = None if names is None else Ids.of(names, what="doc")
            return ShardContent(path, (int(shape[0]), int(shape[1])), ids)
    rows, ids = read_sparse_file(path)
    return ShardContent(rows, (len(rows), rows.width if rows.names is None else 1), ids)


def _read_tokens(path: str) -> ShardContent:
    tokens = read_tokens(path)
    return ShardContent(replace(tokens, ids=None), tokens.shape, tokens.ids)


def _read_safetensors(path: str, key: str | None) -> ShardContent:
    if key is None and is_tokens(path):
        return _read_tokens(path)
    tensors, _ = load_safetensors(path)
    vectors = tensors[_find_vectors(list(tensors), key)]
    name = next((name for name in _IDS if name in tensors), None)
    return ShardContent(vectors, vectors.shape, None if name is None else Ids.of(tensors[name]))


def _read_parquet(path: str, key: str | None) -> ShardContent:
    id_names: list[str] = []

    def choose(names: Sequence[str]) -> list[str]:
        id_names[:] = [name for name in _IDS if name in names][:1]
        return [_find_vectors(list(names), key), *id_names]

    table = read_columns(path, choose)
    vectors = _stack_lists(table.column(0), table.column_names[0])
    ids = Ids.of(table.column(1).to_pylist(), what="doc") if id_names else None
    return ShardContent(vectors, vectors.shape, ids)


def _stack_lists(column: Any, name: str) -> Array:
    """Stack a column of lists of numbers, all of one length, as rows."""
    lists = column.combine_chunks()
    if not hasattr(lists, "flatten") or lists.null_count:
        raise FormatError(f"the column {name!r} must hold a list of numbers in every row.")
    flat = lists.flatten().to_numpy(zero_copy_only=False)
    width, left = divmod(len(flat), max(len(lists), 1))
    lengths = {width}
    if hasattr(lists, "value_lengths"):
        lengths = set(lists.value_lengths().unique().to_pylist())
    if left or lengths != {width}:
        raise FormatError(f"the column {name!r} has lists of different lengths. Write equal ones.")
    return np.ascontiguousarray(flat).reshape(len(lists), width)


def _find_vectors(names: list[str], key: str | None) -> str:
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
    ".npy": _read_arrays,
    ".npz": _read_arrays,
    ".jsonl": _read_sparse,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".safetensors": _read_safetensors,
}


def list_manifest(file: str) -> Iterator[str]:
    """Yield the paths in a manifest of shards, as they are read; none for another file."""
    if file.lower().endswith(".json") and "://" not in file:
        with suppress(AssayError):  # the command says what is wrong with it
            for shard in open_shards(file):
                yield from filter(None, (shard.path, shard.ids))


class Piece(NamedTuple):
    """Place a shard in the corpus, and note what must not change meanwhile."""

    shard: Shard
    first: int
    rows: int
    n_bytes: int
    mark: str

    @contextmanager
    def open(self) -> Iterator[ShardContent]:
        """Open the shard that was surveyed; a change meanwhile is an error, whatever else fails."""
        with open_shard(self.shard) as content:
            self.check_unchanged()
            try:
                yield content
            except Exception:
                self.check_unchanged()
                raise
            self.check_unchanged()

    def check_unchanged(self) -> None:
        """Refuse a file that is not the one that was surveyed."""
        if file_facts(self.shard.path) != (self.n_bytes, self.mark):
            raise StorageError(f"Shard {self.shard.path} changed while it was read. Start again.")


class ShardFacts(NamedTuple):
    """Hold what a survey finds in one shard.

    `found` are (number of the requested id, row) by name.
    """

    shape: tuple[int, ...]
    n_bytes: int
    mark: str
    sha256: str
    id_kind: str
    found: dict[str, tuple[Ints, Ints]]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Hold all shards in order, and the numbers of documents that were requested by id."""

    pieces: tuple[Piece, ...]
    columns: int
    id_kind: str  # "text", "integer", or "" where documents have no ids
    sha256: tuple[str, ...]
    found: Mapping[str, Ints]  # the document's number for every requested id, or −1

    @property
    def n_docs(self) -> int:
        """Return the number of documents."""
        return self.pieces[-1].first + self.pieces[-1].rows

    @property
    def n_bytes(self) -> int:
        """Return the bytes of all shards."""
        return sum(piece.n_bytes for piece in self.pieces)

    def shard_of(self, docs: Ints) -> Ints:
        """Return the number of the shard that holds each document."""
        firsts = np.array([piece.first for piece in self.pieces])
        return np.searchsorted(firsts, docs, side="right") - 1


def survey(
    executor: Executor,
    source: Any,
    requested: Mapping[str, Ids] | None = None,
    *,
    hashed: bool,
    verified: bool = True,
) -> Corpus:
    """Look at every shard, and compare it with the SHA-256 that a manifest records.

    With `hashed`, compute the SHA-256 of the others, too; a plan needs none `verified`.
    """
    if isinstance(source, Corpus):
        raise UsageError("No shards. Pass a manifest, a pattern, or a list of files.")
    shards = open_shards(source)
    if not verified:
        shards = tuple(shard._replace(sha256=None) for shard in shards)
    requested = dict(requested or {})
    shared = executor.put(requested)
    facts: list[ShardFacts | None] = [None] * len(shards)
    for number, fact in executor.map(_survey_shard, [(shard, shared, hashed) for shard in shards]):
        facts[number] = fact
    return _join_facts(shards, [fact for fact in facts if fact is not None], requested)


def _survey_shard(shard: Shard, requested: Mapping[str, Ids], hashed: bool) -> ShardFacts:
    n_bytes, mark = file_facts(shard.path)
    with open_shard(shard) as content:
        check_shape(content.shape, "docs")
        numbers = {}
        if content.ids is not None:
            checks.check_unique(content.ids, "doc")
            for name, ids in requested.items():
                places = ids.match(content.ids)
                here = np.flatnonzero(places >= 0)
                numbers[name] = here, places[here]
        kind = "" if content.ids is None else content.ids.kind
        digest = _checked_digest(shard) if hashed or shard.sha256 is not None else ""
    if file_facts(shard.path) != (n_bytes, mark):  # the digest is that of what was read
        raise StorageError(f"Shard {shard.path} changed while it was read. Start again.")
    return ShardFacts(content.shape, n_bytes, mark, digest, kind, numbers)


def _checked_digest(shard: Shard) -> str:
    """Return the SHA-256 of the bytes, and of the ids; the manifest's must be the same."""
    with local_file(shard.path) as path:
        digest = digest_of_file(path)
    if shard.sha256 is not None and shard.sha256.lower() != digest:
        raise StorageError(
            f"Shard {shard.path} has the SHA-256 {digest}, but the manifest says "
            f"{shard.sha256}. Fetch or write it again."
        )
    if shard.ids is None:
        return digest
    with local_file(shard.ids) as path:
        return f"{digest}+{digest_of_file(path)}"


def _join_facts(
    shards: tuple[Shard, ...], facts: list[ShardFacts], requested: Mapping[str, Ids]
) -> Corpus:
    for shard, fact in zip(shards, facts, strict=True):
        if fact.shape[1] != facts[0].shape[1]:
            raise MismatchError(
                f"Shard {shard.path} has {fact.shape[1]} columns, and {shards[0].path} has "
                f"{facts[0].shape[1]}. Use the same for all shards."
            )
        if fact.id_kind != facts[0].id_kind:
            kinds = [kind or "no" for kind in (fact.id_kind, facts[0].id_kind)]
            raise MismatchError(
                f"Shard {shard.path} has {kinds[0]} ids, and {shards[0].path} has {kinds[1]} "
                "ids. Use ids of one kind, or none."
            )
    rows = [fact.shape[0] for fact in facts]
    firsts = np.concatenate([[0], np.cumsum(rows)]).tolist()
    pieces = tuple(
        Piece(shard, first, fact.shape[0], fact.n_bytes, fact.mark)
        for shard, first, fact in zip(shards, firsts, facts, strict=False)
    )
    places = {name: _find_places(name, ids, pieces, facts) for name, ids in requested.items()}
    digests = tuple(fact.sha256 for fact in facts)
    return Corpus(pieces, facts[0].shape[1], facts[0].id_kind, digests, places)


def _find_places(name: str, ids: Ids, pieces: tuple[Piece, ...], facts: list[ShardFacts]) -> Ints:
    """Return the document of each id, or −1; refuse an id in two shards."""
    places = np.full(len(ids), -1, np.int64)
    for piece, fact in zip(pieces, facts, strict=True):
        numbers, rows = fact.found.get(name, (np.zeros(0, np.int64),) * 2)
        again = numbers[places[numbers] >= 0]
        if len(again):
            other = next(p for p in pieces if p.first + p.rows > places[again[0]])
            raise IdError(
                f"The doc id {ids[int(again[0])]!r} is in shard {other.shard.path} and in "
                f"{piece.shard.path}. Make ids unique."
            )
        places[numbers] = rows + piece.first
    return places
