"""Corpus: what the shards hold, found out by one task for each shard before anything is searched.

A survey tells sizes, fingerprints, and where documents stand that a request names by id: those of
the queries themselves, targets, exclusions. The ids of the corpus never travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from assay.arrays import Ints
from assay.cluster.executors.base import Executor
from assay.cluster.remote_files import file_facts, local_file
from assay.cluster.shards import Shard, ShardContent, open_shard, open_shards
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import IdError, MismatchError, StorageError, UsageError
from assay.io.fingerprints import digest_of_file
from assay.search.engine.inputs import check_shape


class Piece(NamedTuple):
    """A shard, where its documents begin in the corpus, and what must not change meanwhile."""

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
            raise StorageError(
                f"Shard {self.shard.path} changed while the work was going on. Start again."
            )


class ShardFacts(NamedTuple):
    """What a survey finds in one shard; `found` are (number of the requested id, row) by name."""

    shape: tuple[int, ...]
    n_bytes: int
    mark: str
    sha256: str
    id_kind: str
    found: dict[str, tuple[Ints, Ints]]


@dataclass(frozen=True, eq=False)
class Corpus:
    """All shards in order, and the numbers of documents that were requested by id."""

    pieces: tuple[Piece, ...]
    columns: int
    id_kind: str  # "text", "integer", or "" where documents have no ids
    sha256: tuple[str, ...]
    found: Mapping[str, Ints]  # the document's number for every requested id, or −1

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return self.pieces[-1].first + self.pieces[-1].rows

    @property
    def n_bytes(self) -> int:
        """Bytes of all shards."""
        return sum(piece.n_bytes for piece in self.pieces)

    def shard_of(self, docs: Ints) -> Ints:
        """The number of the shard that holds each document."""
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
        raise UsageError("Give the shards: a manifest, a pattern, or a list of files.")
    shards = open_shards(source)
    if not verified:
        shards = tuple(shard._replace(sha256=None) for shard in shards)
    requested = dict(requested or {})
    shared = executor.put(requested)
    facts: list[ShardFacts | None] = [None] * len(shards)
    for number, fact in executor.map(_survey_shard, [(shard, shared, hashed) for shard in shards]):
        facts[number] = fact
    return _corpus(shards, [fact for fact in facts if fact is not None], requested)


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
    """SHA-256 of the bytes, and of the ids beside them; the manifest's must be the same."""
    with local_file(shard.path) as path:
        digest = digest_of_file(path)
    if shard.sha256 is not None and shard.sha256.lower() != digest:
        raise StorageError(
            f"Shard {shard.path} has the SHA-256 {digest}, but the manifest says {shard.sha256}. "
            "It was changed or damaged: fetch or write it again."
        )
    if shard.ids is None:
        return digest
    with local_file(shard.ids) as path:
        return f"{digest}+{digest_of_file(path)}"


def _corpus(
    shards: tuple[Shard, ...], facts: list[ShardFacts], requested: Mapping[str, Ids]
) -> Corpus:
    _refuse_differences(shards, facts)
    rows = [fact.shape[0] for fact in facts]
    firsts = np.concatenate([[0], np.cumsum(rows)]).tolist()
    pieces = tuple(
        Piece(shard, first, fact.shape[0], fact.n_bytes, fact.mark)
        for shard, first, fact in zip(shards, firsts, facts, strict=False)
    )
    places = {name: _places(name, ids, pieces, facts) for name, ids in requested.items()}
    digests = tuple(fact.sha256 for fact in facts)
    return Corpus(pieces, facts[0].shape[1], facts[0].id_kind, digests, places)


def _refuse_differences(shards: tuple[Shard, ...], facts: list[ShardFacts]) -> None:
    for shard, fact in zip(shards, facts, strict=True):
        if fact.shape[1] != facts[0].shape[1]:
            raise MismatchError(
                f"Shard {shard.path} has {fact.shape[1]} columns, and {shards[0].path} has "
                f"{facts[0].shape[1]}. All shards of a corpus have the same."
            )
        if fact.id_kind != facts[0].id_kind:
            kinds = [kind or "no" for kind in (fact.id_kind, facts[0].id_kind)]
            raise MismatchError(
                f"Shard {shard.path} has {kinds[0]} ids, and {shards[0].path} has {kinds[1]} ids. "
                "All shards of a corpus have ids of one kind, or none."
            )


def _places(name: str, ids: Ids, pieces: tuple[Piece, ...], facts: list[ShardFacts]) -> Ints:
    """The document of each id, or −1; an id in two shards is refused."""
    places = np.full(len(ids), -1, np.int64)
    for piece, fact in zip(pieces, facts, strict=True):
        numbers, rows = fact.found.get(name, (np.zeros(0, np.int64),) * 2)
        again = numbers[places[numbers] >= 0]
        if len(again):
            other = next(p for p in pieces if p.first + p.rows > places[again[0]])
            raise IdError(
                f"The doc id {ids[int(again[0])]!r} is in shard {other.shard.path} and in "
                f"{piece.shard.path}. Each doc id must be unique."
            )
        places[numbers] = rows + piece.first
    return places
