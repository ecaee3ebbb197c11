"""encode_shards: a text model mapped over shards of texts, giving shards of vectors.

Beside each part-N.npy lie its ids and a receipt, part-N.json, which says what it was made of. A
shard whose receipt fits is not made again; manifest.json lists them all for `rank_shards`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from assay.cluster.batches import worker_model
from assay.cluster.executors.base import worker_name
from assay.cluster.journal import Step
from assay.cluster.remote_files import expand, is_remote, local_file
from assay.cluster.settings import Cluster
from assay.cluster.shard_files import ENDINGS, read_text_shard
from assay.cluster.shards import natural_order
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import AssayError, InputError, StorageError, UsageError
from assay.io.atomic import atomic_write
from assay.io.fingerprints import digest_of_file
from assay.io.formats import ending_of
from assay.io.json_text import parse_json
from assay.io.streams import read_text
from assay.models import EncoderSettings

__all__ = ["Encoding", "encode_shards"]

_MANIFEST: Final = "manifest.json"


class _Task(NamedTuple):
    source: str
    target: str  # path of the vectors, without its ending
    spec: str
    settings: EncoderSettings

    @property
    def name(self) -> str:
        """The part's name in the manifest."""
        return os.path.basename(self.target)


@dataclass(frozen=True)
class Encoding:
    """What was made: the manifest's path, texts in all, shards made now and found ready.

    `empty` texts have nothing in them; their vectors are zero (see `zero` of `rank_shards`).
    """

    manifest: str
    n_texts: int
    empty: int
    made: int
    resumed: int


def encode_shards(
    texts: Any,
    spec: str,
    folder: str | os.PathLike[str],
    *,
    settings: EncoderSettings | None = None,
    cluster: Cluster | None = None,
) -> Encoding:
    """Encode shards of texts (.jsonl, .txt) into shards of float32 vectors in a folder.

    `spec` names the text model, `settings` its prefixes and the like; the folder must be one that
    all workers reach. Called again, it makes only what is missing, damaged, or made of other texts
    or by another model. A model of your own must tell its fingerprint for that.
    """
    cluster = cluster or Cluster()
    checks.require(spec, str, "A text model", "a spec such as 'wordllama'")
    target = os.path.abspath(os.fspath(folder))
    try:
        os.makedirs(target, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{target} cannot be made: {error.strerror}.") from None
    tasks = [
        _Task(
            source, os.path.join(target, f"part-{number:05}"), spec, settings or EncoderSettings()
        )
        for number, source in enumerate(_sources(texts))
    ]
    entries = dict(_encoded(tasks, cluster))
    listed = [entries[number][0] for number in range(len(tasks))]
    manifest = os.path.join(target, _MANIFEST)
    with atomic_write(manifest) as file:
        file.write(json.dumps({"shards": listed}, indent=1).encode())
    made = sum(is_new for _, is_new, _ in entries.values())
    empty = sum(count for _, _, count in entries.values())
    rows = sum(one["rows"] for one in listed)
    return Encoding(manifest, rows, empty, made, len(tasks) - made)


def _encoded(tasks: list[_Task], cluster: Cluster) -> Iterator[tuple[int, Any]]:
    """(number, (entry of the manifest, whether it was made now)), as shards get ready."""
    cluster.journal.blocks += len(tasks)
    for done, (number, result) in enumerate(
        cluster.executor.map(_encode, [(task,) for task in tasks]), 1
    ):
        cluster.journal.computed += result.is_new
        cluster.journal.resumed += not result.is_new
        cluster.journal.steps.append(
            Step("encode", 0, number, result.seconds, 0, result.n_bytes, result.worker)
        )
        if cluster.progress is not None:
            cluster.progress(done, len(tasks))
        yield number, (result.entry, result.is_new, result.empty)


def _sources(texts: Any) -> list[str]:
    named = [texts] if isinstance(texts, str | os.PathLike) else list(texts)
    found: list[str] = []
    for given in named:
        one = os.fspath(given)
        pattern = any(sign in one for sign in "*?[") and not os.path.exists(one)
        found += expand(one) if pattern else [one]
    if not found:
        raise StorageError(f"{texts!r} names no texts: no file matches. Check the pattern.")
    ordered = sorted(
        {os.path.abspath(one) if not is_remote(one) else one for one in found}, key=natural_order
    )
    for one in ordered:
        if ending_of(one) not in ENDINGS:
            raise UsageError(f"{one}: texts are read from {', '.join(ENDINGS)} files.")
    return ordered


class _Made(NamedTuple):
    """One shard: its entry in the manifest, and what making it took."""

    entry: dict[str, Any]
    empty: int
    is_new: bool
    seconds: float
    n_bytes: int
    worker: str


def _encode(task: _Task) -> _Made:
    """Make one shard, unless it is there."""
    start, worker = time.perf_counter(), worker_name()
    try:
        model = worker_model(task.spec, task.settings)
        wanted = {"source_sha256": _digest_of(task.source), "model": model.fingerprint}
        ready = _ready(task, wanted) if model.repeatable else None
        if ready is not None:
            empty = ready.pop("empty")
            return _Made(ready, empty, False, time.perf_counter() - start, 0, worker)
        found = read_text_shard(task.source)
        encoded = model.encode_docs(found.texts, ids=found.ids)
    except AssayError as error:
        raise _named(error, task.source) from error
    entry = _written(task, encoded.vectors, found.ids)
    empty = int(encoded.empty.sum())
    with atomic_write(f"{task.target}.json") as file:
        file.write(json.dumps({**wanted, **entry, "empty": empty}, indent=1).encode())
    seconds = time.perf_counter() - start
    return _Made(entry, empty, True, seconds, encoded.vectors.nbytes, worker)


def _named(error: AssayError, source: str) -> AssayError:
    message = str(error)
    if isinstance(error, InputError | UsageError) and source not in message:
        return type(error)(f"{source}: {message}")
    return error


def _ready(task: _Task, wanted: dict[str, str]) -> dict[str, Any] | None:
    """The entry of a shard that was made before, if it is what would be made now, and sound."""
    path = f"{task.target}.json"
    if not os.path.exists(path):
        return None
    with suppress(InputError, StorageError, OSError, KeyError, TypeError):
        receipt = parse_json(read_text(path), path)
        entry = {key: value for key, value in receipt.items() if key not in wanted}
        fits = all(receipt[key] == value for key, value in wanted.items())
        if fits and _digest_of(f"{task.target}.npy") == entry["sha256"] and "empty" in entry:
            return entry
    return None


def _written(task: _Task, vectors: Any, ids: Ids | None) -> dict[str, Any]:
    buffer = io.BytesIO()
    np.save(buffer, vectors)
    data = buffer.getvalue()
    with atomic_write(f"{task.target}.npy") as file:
        file.write(data)
    entry: dict[str, Any] = {
        "path": f"{task.name}.npy",
        "rows": len(vectors),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    if ids is not None:
        with atomic_write(f"{task.target}.ids.txt") as file:
            file.write("".join(f"{one}\n" for one in ids).encode())
        entry["ids"] = f"{task.name}.ids.txt"
    return entry


def _digest_of(name: str) -> str:
    with local_file(name) as path:
        return digest_of_file(path)
