"""Encode texts by the workers of a cluster.

`encode_shards` maps a text model over shards of texts and writes shards of vectors. Beside each
part-N.npy are its ids and a receipt, part-N.json, which says what it was made of. A shard whose
receipt fits is not made again; manifest.json lists them all for `rank_shards`. `ClusterBatches`
encodes the batches of one `text_model`; the driver alone writes the embedding cache.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import numpy as np

from assay.cluster.executors import worker_name
from assay.cluster.remote_files import as_address, expand, is_remote, local_file, without_query
from assay.cluster.settings import Cluster, Step
from assay.cluster.shards import TEXT_ENDINGS, read_text_shard
from assay.core import checks
from assay.core.ids import Ids
from assay.core.text import mask_secrets, natural_order
from assay.errors import AssayError, ClusterError, InputError, StorageError, UsageError, error_text
from assay.io.fingerprints import digest_of_file, fingerprint_of
from assay.io.plain_data import parse_json
from assay.io.streams import atomic_write, ending_of, make_folder, read_text
from assay.models import Encoder, EncoderSettings, TextModel, text_model
from assay.models.encoding import Batch, ComputedModel, EncodedBatch
from assay.models.ragged import count_bytes
from assay.search.engine import SparseVectors, TokenVectors

_MANIFEST: Final = "manifest.json"
_IDS: Final = ".ids.txt"


class _ShardTask(NamedTuple):
    source: str
    target: str  # path of the vectors, without its ending
    spec: str
    settings: EncoderSettings


@dataclass(frozen=True)
class Encoding:
    """Tell what was made: the manifest's path, texts in all, shards made now and found ready.

    `empty` texts have nothing in them; their vectors are zero (see `zero` of `rank_shards`).

    Example:
        >>> Encoding("manifest.json", n_texts=9, empty=0, made=2, resumed=1).made
        2
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

    Token vectors are written as .npz with offsets, sparse ones as scipy.sparse.save_npz does.

    Called again, it makes only what is missing, damaged, or made of other texts or by another
    model. A function of your own needs a fingerprint for that.

    Args:
        texts: Files of texts, or patterns.
        spec: Spec of the text model.
        folder: Folder that all workers reach.
        settings: Prefixes of the model and the like.
        cluster: Where this runs, and how; by default here.

    Returns:
        The manifest, and what was made.

    Raises:
        AssayError: Texts cannot be read or encoded, or the folder cannot be written.

    Example:
        encode_shards("corpus-*.jsonl", "wordllama", "vectors").manifest
    """
    cluster = cluster or Cluster()
    checks.require(spec, str, "A text model", "a spec such as 'wordllama'")
    target = os.path.abspath(make_folder(folder))
    tasks = [
        _ShardTask(
            source, os.path.join(target, f"part-{number:05}"), spec, settings or EncoderSettings()
        )
        for number, source in enumerate(_sources(texts))
    ]
    shards: dict[int, _EncodedShard] = {}
    cluster.journal.blocks += len(tasks)
    for number, shard in cluster.executor.map(_encode_shard, [(task,) for task in tasks]):
        shards[number] = shard
        cluster.journal.computed += shard.is_new
        cluster.journal.resumed += not shard.is_new
        cluster.journal.steps.append(
            Step("encode", 0, number, shard.seconds, 0, shard.n_bytes, shard.worker)
        )
        if cluster.progress is not None:
            cluster.progress(len(shards), len(tasks))
    listed = [shards[number].entry for number in range(len(tasks))]
    manifest = os.path.join(target, _MANIFEST)
    with atomic_write(manifest) as file:
        file.write(json.dumps({"shards": listed}, indent=1).encode())
    n_new = sum(shard.is_new for shard in shards.values())
    empty = sum(shard.empty for shard in shards.values())
    rows = sum(entry["rows"] for entry in listed)
    return Encoding(manifest, rows, empty, n_new, len(tasks) - n_new)


def _sources(texts: Any) -> list[str]:
    named = [texts] if isinstance(texts, str | os.PathLike) else list(texts)
    files: list[str] = []
    for name in named:
        url = as_address(os.fspath(name))
        pattern = any(sign in without_query(url) for sign in "*?[") and not os.path.exists(url)
        files += expand(url) if pattern else [url]
    if not files:
        words = mask_secrets(repr(texts))
        raise StorageError(f"{words} matches no file of texts. Check the pattern.")
    ordered = sorted(
        {os.path.abspath(url) if not is_remote(url) else url for url in files}, key=natural_order
    )
    for url in ordered:
        if ending_of(without_query(url)) not in TEXT_ENDINGS:
            raise UsageError(f"{url}: unknown ending. Use {', '.join(TEXT_ENDINGS)}.")
    return ordered


class _EncodedShard(NamedTuple):
    """Hold one shard: its entry in the manifest, and what making it took."""

    entry: dict[str, Any]
    empty: int
    is_new: bool
    seconds: float
    n_bytes: int
    worker: str


def _encode_shard(task: _ShardTask) -> _EncodedShard:
    """Make one shard, unless it is there."""
    start, worker = time.perf_counter(), worker_name()
    try:
        model = worker_model(task.spec, task.settings)
        identity = {"source_sha256": _digest_of(task.source), "model": model.fingerprint}
        ready = _load_receipt(task, identity) if model.repeatable else None
        if ready is not None:
            empty = ready.pop("empty")
            return _EncodedShard(ready, empty, False, time.perf_counter() - start, 0, worker)
        texts = read_text_shard(task.source)
        encoded = model.encode_docs(texts.texts, ids=texts.ids)
    except (InputError, UsageError) as error:
        if f"{task.source}" in str(error):
            raise
        raise type(error)(f"{task.source}: {error}") from error
    entry, files = _write_shard(task, encoded.vectors, texts.ids)
    empty = int(encoded.empty.sum())
    receipt = {**identity, **entry, "empty": empty, "files": files}
    with atomic_write(f"{task.target}.json") as file:
        file.write(json.dumps({**receipt, "digest": fingerprint_of(receipt)}, indent=1).encode())
    seconds = time.perf_counter() - start
    return _EncodedShard(entry, empty, True, seconds, count_bytes(encoded.vectors), worker)


def _load_receipt(task: _ShardTask, identity: dict[str, str]) -> dict[str, Any] | None:
    """Return the entry of a shard made before, if it is what would be made now, and sound."""
    path = f"{task.target}.json"
    if not os.path.exists(path):
        return None
    with suppress(InputError, StorageError, OSError):
        receipt = parse_json(read_text(path), path)
        if not isinstance(receipt, dict) or receipt.pop("digest", None) != fingerprint_of(receipt):
            return None
        entry = {key: value for key, value in receipt.items() if key not in identity}
        files = entry.pop("files", {})
        fits = all(receipt.get(key) == value for key, value in identity.items())
        if files and fits and all(_digest_of(task.target + end) == files[end] for end in files):
            return entry
    return None


def _write_shard(
    task: _ShardTask, vectors: Any, ids: Ids | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Write a shard; return its entry in the manifest, and digests of its files."""
    buffer, kind = io.BytesIO(), ".npz"
    arrays: dict[str, Any] = {}
    if isinstance(vectors, TokenVectors):
        arrays = {"embeddings": vectors.values, "offsets": vectors.offsets}
    elif isinstance(vectors, SparseVectors):
        arrays = {"indptr": vectors.offsets, "indices": vectors.columns, "data": vectors.weights}
        arrays |= {"format": np.array("csr"), "shape": np.array(vectors.shape)}
    if arrays:
        np.savez(buffer, **arrays)
    else:
        kind = ".npy"
        np.save(buffer, vectors)
    contents = {kind: buffer.getvalue()}
    if ids is not None:
        contents[_IDS] = "".join(f"{id_text}\n" for id_text in ids).encode()
    for ending, content in contents.items():
        with atomic_write(f"{task.target}{ending}") as file:
            file.write(content)
    files = {ending: hashlib.sha256(content).hexdigest() for ending, content in contents.items()}
    name = os.path.basename(task.target)
    entry: dict[str, Any] = {"path": f"{name}{kind}", "rows": len(vectors), "sha256": files[kind]}
    return entry if ids is None else {**entry, "ids": f"{name}{_IDS}"}, files


def _digest_of(name: str) -> str:
    with local_file(name) as path:
        return digest_of_file(path)


_HELD: Final = threading.local()  # packages do not promise that threads may share a model


def worker_model(spec: str, settings: EncoderSettings, device: str | None = None) -> TextModel:
    """Return the text model, from the last call of this worker if that named the same."""
    key = spec, settings, device
    if getattr(_HELD, "name", None) != key:
        _HELD.name = _HELD.model = None  # never two models at a time
        _HELD.model = text_model(spec, settings=settings, device=device, ragged=True)
        _HELD.name = key
    model: TextModel = _HELD.model
    return model


class _WorkerModel(NamedTuple):
    """Name the model that a worker must have."""

    spec: str
    settings: EncoderSettings
    device: str | None
    fingerprint: str


@dataclass(frozen=True)
class ClusterBatches:
    """Send the batches of one text model to a cluster: the `elsewhere` of `text_model`.

    Args:
        cluster: Where batches are encoded.
        spec: Spec of the text model.
        settings: Settings of the model.
        device: Device, for the kinds that run on one.

    Example:
        batches = ClusterBatches(cluster, "wordllama", EncoderSettings())
        text_model("wordllama", elsewhere=batches)
    """

    cluster: Cluster
    spec: str
    settings: EncoderSettings
    device: str | None = None

    def __call__(
        self, fingerprint: str, batches: Iterable[tuple[int, list[str]]]
    ) -> Iterator[EncodedBatch]:
        """Yield encoded batches as they end; `in_flight` of them at the most are there."""
        model = _WorkerModel(self.spec, self.settings, self.device, fingerprint)
        executor, journal = self.cluster.executor, self.cluster.journal
        tasks = ((model, first, texts) for first, texts in batches)
        batches_done = executor.map(_encode_batch, tasks, in_flight=self.cluster.in_flight)
        for number, (batch, seconds, worker) in batches_done:
            journal.blocks += 1
            journal.computed += 1
            size = sum(row.nbytes for row in batch.vectors)
            journal.steps.append(Step("encode", 0, number, seconds, 0, size, worker))
            yield EncodedBatch(number, batch, seconds)


def _encode_batch(model: _WorkerModel, first: int, texts: list[str]) -> tuple[Batch, float, str]:
    """Encode a batch on a worker; return it, the seconds that took, and the worker."""
    encoder = _load_model(model)
    start = time.perf_counter()
    try:
        batch = encoder.encode_batch(texts, first)
    except UsageError as error:
        raise _locate(error, encoder, texts) from error
    except AssayError:
        raise
    except OSError as error:  # which says nothing of the model
        raise ClusterError(
            f"Encoder {model.spec!r} failed on the worker {worker_name()}: {error_text(error)}; on "
            f"{_which(texts)}."
        ) from error
    return batch, time.perf_counter() - start, worker_name()


def _load_model(model: _WorkerModel) -> Encoder:
    """Load this worker's model, which must be the same as the driver's."""
    try:
        loaded = cast("ComputedModel", worker_model(model.spec, model.settings, model.device))
        fingerprint = loaded.fingerprint
    except Exception as error:  # models are not ours: loading one can fail in any way
        words = str(error) if isinstance(error, AssayError) else f"{error_text(error)}."
        raise ClusterError(
            f"The worker {worker_name()} cannot load the model {model.spec!r}: {words}"
        ) from error
    if fingerprint != model.fingerprint:
        raise ClusterError(
            f"The worker {worker_name()} has another {model.spec!r} than the driver (version, "
            "weights, source or address). Install the same on all nodes."
        )
    return loaded.encoder


def _locate(error: UsageError, encoder: Encoder, texts: list[str]) -> UsageError:
    """Name the text on which a model fails, by halving the batch."""
    some = texts
    while len(some) > 1:
        half = some[: len(some) // 2]
        some = half if _fails(encoder, half) else some[len(half) :]
    if not _fails(encoder, some):  # only together, or not again
        some = texts
    return UsageError(f"{str(error).removesuffix('.')}; on {_which(some)}.")


def _which(texts: list[str]) -> str:
    which = "the text" if len(texts) == 1 else f"{len(texts)} texts, the first of them"
    return f"{which} {texts[0]!r:.60}"


def _fails(encoder: Encoder, texts: list[str]) -> bool:
    try:
        encoder.encode_batch(texts)
    except UsageError:
        return True
    return False
