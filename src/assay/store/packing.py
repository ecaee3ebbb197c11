"""Scores as arrays and back: the same bits in every value, the same ids, groups and conventions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from assay.conventions import CHOICES, Conventions
from assay.errors import StorageError
from assay.ids import Ids
from assay.measures import parse
from assay.scores import Scores
from assay.store.blobs import Blob, packed, packed_texts, unpacked, unpacked_texts

__all__ = ["conventions_of", "pack_scores", "unpack_scores"]


def pack_scores(scores: Scores) -> Iterator[Blob]:
    """One array for the ids, one for each measure and group column, and so on."""
    yield _packed_ids("ids", scores.query_ids)
    yield _packed_ids("extra", scores.extra)
    yield packed("missing", scores.missing)
    for number, measure in enumerate(scores.measures):
        yield packed("values", scores.values[number], position=number, name=str(measure))
        yield packed("tied", scores.tied[number], position=number, name=str(measure))
    for number, (name, column) in enumerate(scores.groups.items()):
        yield packed_texts("group", [str(g) for g in column.tolist()], position=number, name=name)


def _packed_ids(kind: str, ids: Ids) -> Blob:
    if ids.kind == "integer":
        return packed(kind, ids.numbers)
    return packed_texts(kind, [str(one) for one in ids.to_list()])


def unpack_scores(blobs: Iterable[Blob], conventions: str, *, search: str = "") -> Scores:
    """The scores that were packed."""
    found: dict[str, list[Blob]] = {}
    for blob in sorted(blobs, key=lambda blob: (blob.kind, blob.position)):
        found.setdefault(blob.kind, []).append(blob)
    values = found.get("values", [])
    if not values or not {"ids", "extra", "missing"} <= found.keys():
        raise StorageError("Per-query values of this run are not in the store.")
    scores = Scores(
        measures=tuple(parse(blob.name) for blob in values),
        query_ids=_ids(found["ids"][0], "query"),
        values=np.stack([unpacked(blob) for blob in values]),
        tied=np.stack([unpacked(blob) for blob in found["tied"]]),
        missing=unpacked(found["missing"][0]),
        conventions=conventions_of(conventions),
        extra=_ids(found["extra"][0], "query"),
        groups={blob.name: np.asarray(unpacked_texts(blob), np.str_) for blob in
                found.get("group", [])},
        search=search,
    )  # fmt: skip
    _check_shapes(scores)
    return scores


def _ids(blob: Blob, what: str) -> Ids:
    if blob.encoding == "int64":
        return Ids.of(unpacked(blob), what)
    if not blob.size:
        return Ids.from_utf8(np.zeros(0, np.uint8), np.zeros(1, np.int64))  # none, but of text
    return Ids.of(unpacked_texts(blob), what)


def _check_shapes(scores: Scores) -> None:
    shape = (len(scores.measures), scores.n_queries)
    whole = scores.values.shape == scores.tied.shape == shape
    columns = [scores.missing, *scores.groups.values()]
    if not whole or any(len(column) != scores.n_queries for column in columns):
        raise StorageError("The stored arrays of this run do not fit together: it is damaged.")


def conventions_of(signature: str) -> Conventions:
    """The conventions of a signature as it was written, also under a preset's name of one's own.

    >>> mine = Conventions(preset="mine", depth=7)
    >>> conventions_of(mine.signature()) == mine
    True
    """
    parts = dict(part.split(":", 1) for part in signature.split("|") if ":" in part)
    choices = {key: parts[key] for key in (*CHOICES, "preset") if key in parts}
    if "self" in choices:
        choices["self_match"] = choices.pop("self")
    depth = parts.get("depth", "all")
    return Conventions(**choices, depth=0 if depth == "all" else int(depth))
