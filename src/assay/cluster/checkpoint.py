"""The checkpoint of a search over shards: a folder of finished blocks.

    job.json            what is computed: settings, queries, and fingerprints of all shards
    started             a line for each block that was handed to a worker
    b00002-s00007.part  block 2 of the queries, searched in shard 7
    b00001.done         block 1, searched in all shards; its parts are deleted

Parts are those of `assay.io.checkpoint`: what is damaged is noticed and computed again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from assay.arrays import Array
from assay.errors import MismatchError
from assay.io.checkpoint import Checkpoint
from assay.io.fingerprints import fingerprint_of

_SCHEMA: Final = 1


class PartialResult(Protocol):
    """What a task computes, and a file can hold."""

    def arrays(self) -> Mapping[str, Array]:
        """Plain arrays."""


class ShardCheckpoint:
    """Finished blocks of one job in one folder; a folder that holds another job is refused."""

    def __init__(self, folder: str | os.PathLike[str], job: Mapping[str, Any]) -> None:
        job_now = json.loads(json.dumps({"schema": _SCHEMA, **job}))
        self._parts = Checkpoint(folder, fingerprint_of(_without_paths(job_now)))
        self._parts.make_folder()
        job_before = self._parts.read_job()
        if job_before is None:
            self._parts.write_job(job_now)
        else:
            _refuse_other_job(os.fspath(folder), job_before, job_now)
        self._started = os.path.join(folder, "started")
        self.started = self._read_started()

    @property
    def damaged(self) -> int:
        """Parts that were not what had been written."""
        return self._parts.damaged

    def _read_started(self) -> frozenset[tuple[int, int]]:
        """Blocks that were begun, for the count of those begun again; a torn line is none."""
        text = b""
        with suppress(FileNotFoundError), open(self._started, "rb") as file:
            text = file.read()
        lines = re.findall(rb"^([0-9]{1,9}) ([0-9]{1,9})\n", text, re.MULTILINE)
        return frozenset((int(block), int(shard)) for block, shard in lines)

    def start(self, block: int, shard: int) -> None:
        """Note that a worker got a block."""
        with open(self._started, "a", encoding="ascii") as file:
            file.write(f"{block} {shard}\n")

    def save(self, block: int, shard: int | None, part: PartialResult) -> None:
        """Write a block in one shard, or in all of them (None)."""
        self._parts.save(_name_of(block, shard), part.arrays())

    def load(self, block: int, shard: int | None) -> dict[str, Array] | None:
        """The arrays of a block; None where it is not there, or not sound."""
        part = self._parts.load(_name_of(block, shard))
        return None if part is None else part.arrays

    def forget_parts(self, block: int, n_shards: int) -> None:
        """Delete the parts of a block that is done."""
        self._parts.forget(_name_of(block, shard) for shard in range(n_shards))


def _name_of(block: int, shard: int | None) -> str:
    return f"b{block:05}.done" if shard is None else f"b{block:05}-s{shard:05}.part"


def _without_paths(job: Mapping[str, Any]) -> dict[str, Any]:
    """The job but for where its shards lie: they may move."""
    shards = [(shard["rows"], shard["sha256"]) for shard in job["shards"]]
    return {**job, "shards": shards}


def _refuse_other_job(folder: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    _refuse_changed_shards(folder, before.get("shards"), now["shards"])
    for key, value in now.items():
        if key != "shards" and before.get(key) != value:
            raise MismatchError(
                f"The checkpoint {folder} belongs to another job: {key} was "
                f"{before.get(key)!r:.80}, and is {value!r:.80} now. Give the same request, or "
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
    for previous, new in zip(before, now, strict=True):
        old = previous if isinstance(previous, dict) else {}
        if (old.get("rows"), old.get("sha256")) != (new["rows"], new["sha256"]):
            raise MismatchError(
                f"Shard {new['path']} changed since the checkpoint {folder} was made: it had "
                f"{old.get('rows')} rows and SHA-256 {str(old.get('sha256'))[:12]}…, now "
                f"{new['rows']} and {new['sha256'][:12]}…. Restore it, or give another folder."
            )
