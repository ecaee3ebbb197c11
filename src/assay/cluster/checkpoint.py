"""Checkpoint: a folder of finished blocks, from which a killed driver goes on.

    job.json            what is computed: settings, queries, and fingerprints of all shards
    started             a line for each block that was handed to a worker
    b00002-s00007.part  block 2 of the queries, searched in shard 7
    b00001.done         block 1, searched in all shards; its parts are deleted

Files are written whole or not at all, and begin with the SHA-256 of the rest: what is damaged is
noticed and computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from assay.errors import MismatchError, StorageError
from assay.io.atomic import atomic_write
from assay.io.json_text import parse_json
from assay.io.streams import read_text

__all__ = ["Checkpoint", "Stored", "digest_of"]

_SCHEMA: Final = 1
Key = tuple[int, int | None]  # block and shard; None for all shards


class Stored(Protocol):
    """A partial result that can be written."""

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Plain arrays."""


Part = TypeVar("Part", bound=Stored)


class Checkpoint:
    """Finished blocks of one job in one folder."""

    def __init__(self, folder: str | os.PathLike[str], job: Mapping[str, Any]) -> None:
        self.folder = os.fspath(folder)
        self.damaged = 0
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"The checkpoint {self.folder} cannot be made: {error.strerror}."
            ) from None
        self._adopt({"schema": _SCHEMA, **job})
        self.started = self._read_started()

    def _adopt(self, job: Mapping[str, Any]) -> None:
        """Take the folder for this job; one that holds another job is refused."""
        path = os.path.join(self.folder, "job.json")
        wanted = json.loads(json.dumps(job))
        if os.path.exists(path):
            _refuse_other_job(self.folder, parse_json(read_text(path), path), wanted)
            return
        if os.listdir(self.folder):
            raise StorageError(
                f"{self.folder} is no checkpoint: it has files, but no job.json. Give a folder "
                "that is empty or does not exist."
            )
        with atomic_write(path) as file:
            file.write(json.dumps(wanted, indent=1).encode())

    def _read_started(self) -> frozenset[tuple[int, int]]:
        lines = []
        with suppress(FileNotFoundError), open(self._path("started"), encoding="ascii") as file:
            lines = [line.split() for line in file if line.endswith("\n")]
        return frozenset((int(block), int(shard)) for block, shard in lines)

    def start(self, block: int, shard: int) -> None:
        """Note that a worker got a block."""
        with open(self._path("started"), "a", encoding="ascii") as file:
            file.write(f"{block} {shard}\n")

    def save(self, block: int, shard: int | None, part: Stored) -> None:
        """Write a block, whole or not at all."""
        buffer = io.BytesIO()
        np.savez(buffer, **part.arrays())  # type: ignore[arg-type]
        data = buffer.getvalue()
        with atomic_write(self._file((block, shard))) as file:
            file.write(hashlib.sha256(data).digest())
            file.write(data)

    def load(self, block: int, shard: int | None) -> dict[str, NDArray[Any]] | None:
        """The arrays of a block; None where it is not there, or not sound."""
        try:
            with open(self._file((block, shard)), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return None
        digest, data = content[:32], content[32:]
        if hashlib.sha256(data).digest() != digest:
            self.damaged += 1
            return None
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return dict(arrays)

    def forget_parts(self, block: int, n_shards: int) -> None:
        """Delete the parts of a block that is done."""
        for shard in range(n_shards):
            with suppress(FileNotFoundError):
                os.unlink(self._file((block, shard)))

    def _file(self, key: Key) -> str:
        block, shard = key
        return self._path(f"b{block:05}.done" if shard is None else f"b{block:05}-s{shard:05}.part")

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


def _refuse_other_job(folder: str, found: Any, wanted: Mapping[str, Any]) -> None:
    if not isinstance(found, dict):
        raise StorageError(f"{folder} is no checkpoint: its job.json is not one.")
    _refuse_changed_shards(folder, found.get("shards"), wanted["shards"])
    for key, value in wanted.items():
        if key != "shards" and found.get(key) != value:
            raise MismatchError(
                f"The checkpoint {folder} belongs to another job: {key} was "
                f"{found.get(key)!r:.80}, and is {value!r:.80} now. Give the same request, or "
                "another folder."
            )


def _refuse_changed_shards(folder: str, before: Any, now: list[dict[str, Any]]) -> None:
    """Shards may move, but what they hold stays; a changed one is named."""
    if not isinstance(before, list) or len(before) != len(now):
        count = len(before) if isinstance(before, list) else 0
        raise MismatchError(
            f"The checkpoint {folder} was made of {count} shards, and there are {len(now)} now. "
            "Give the same shards, or another folder."
        )
    for old, new in zip(before, now, strict=True):
        if (old.get("rows"), old.get("sha256")) != (new["rows"], new["sha256"]):
            raise MismatchError(
                f"Shard {new['path']} changed since the checkpoint {folder} was made: it had "
                f"{old.get('rows')} rows and SHA-256 {str(old.get('sha256'))[:12]}…, now "
                f"{new['rows']} and {new['sha256'][:12]}…. Restore it, or give another folder."
            )


def digest_of(*arrays: NDArray[Any]) -> str:
    """SHA-256 of the content and the shape of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
