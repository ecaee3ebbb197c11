"""Finished parts of a bench that is not finished: kept in a folder until it is.

A part is one contestant's ranking. It is found by a digest of all that could change it, carries a
checksum, and is thrown away with its folder when the bench is complete: embeddings stay in their
cache, rankings do not.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay.core.ranking import Ranking
from assay.errors import AssayError
from assay.io.atomic import atomic_write
from assay.tasks.bench.collection import Prepared
from assay.tasks.bench.search import Costs, Found

__all__ = ["Parts"]

_LAYOUT: Final = "bench-1"
_DIGEST: Final = 32


class Parts:
    """The parts of one bench; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, identity: str, data: Prepared) -> None:
        name = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._folder = None if folder is None else folder / _LAYOUT / name
        self._data = data

    def none(self) -> Parts:
        """Parts that keep nothing, for what cannot be known again."""
        return Parts(None, "", self._data)

    def get_or(self, key: str, compute: Callable[[], Found | None]) -> Found | None:
        """The part of this key if it is there and sound; else it is computed and kept."""
        if self._folder is None:
            return compute()
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.part"
        kept = self._read(path)
        if kept is not None:
            return kept
        found = compute()
        if found is not None and found.index is None:  # a report on an index is made anew
            self._write(path, found)
        return found

    def clear(self) -> None:
        """Throw all parts away: the bench is complete."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, path: Path, found: Found) -> None:
        """Keep a part; where that fails the bench goes on, it only cannot be resumed there."""
        with suppress(OSError, AssayError):
            os.makedirs(path.parent, exist_ok=True)
            body = _packed(found)
            with atomic_write(path) as file:
                file.write(hashlib.sha256(body).digest() + body)

    def _read(self, path: Path) -> Found | None:
        """A part that is damaged is as good as none."""
        try:
            data = path.read_bytes()
        except OSError:
            return None
        digest, body = data[:_DIGEST], data[_DIGEST:]
        if hashlib.sha256(body).digest() != digest:
            return None
        return _unpacked(body, self._data)


def _packed(found: Found) -> bytes:
    ranking = found.ranking
    head = {
        "costs": asdict(found.costs),
        "fingerprint": found.fingerprint,
        "counts": [found.n_texts, found.n_cut, found.n_without],
        "ranking": [ranking.tiebreak, ranking.search],
    }
    arrays: dict[str, Any] = {
        "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
        "offsets": ranking.offsets,
        "docs": ranking.docs,
        "scores": ranking.scores,
    }
    if ranking.divided is not None:
        arrays["divided"] = ranking.divided
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _unpacked(body: bytes, data: Prepared) -> Found:
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        head = json.loads(arrays["head"].tobytes())
        tiebreak, search = head["ranking"]
        ranking = Ranking(
            data.query_ids,
            data.doc_ids,
            arrays["offsets"],
            arrays["docs"],
            arrays["scores"],
            n_docs=len(data.doc_ids),
            tiebreak=tiebreak,
            search=search,
        )
        if "divided" in arrays:
            ranking = replace(ranking, divided=arrays["divided"])
    n_texts, n_cut, n_without = head["counts"]
    costs = Costs(**head["costs"])
    return Found(ranking, costs, head["fingerprint"], n_texts, n_cut, n_without)
