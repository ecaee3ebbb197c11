"""ClusterBatches: batches of texts encoded by the workers of a cluster, for `text_model`.

A task is a batch as the model would get it on one machine. What a worker made goes back to the
driver, which alone writes the embedding cache.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from assay.cluster.executors.base import worker_name
from assay.cluster.journal import Step
from assay.cluster.settings import Cluster
from assay.errors import AssayError, ClusterError, UsageError, error_text
from assay.models import Encoder, EncoderSettings, TextModel, text_model
from assay.models.encoder import Batch, Done
from assay.models.text_model import ComputedModel

__all__ = ["ClusterBatches", "worker_model"]

_HELD: Final = threading.local()  # packages do not promise that threads may share a model


def worker_model(spec: str, settings: EncoderSettings, device: str | None = None) -> TextModel:
    """The text model, from the last call of this worker if that named the same one."""
    wanted = spec, settings, device
    if getattr(_HELD, "name", None) != wanted:
        _HELD.name = _HELD.model = None  # never two models at a time
        _HELD.model = text_model(spec, settings=settings, device=device)
        _HELD.name = wanted
    model: TextModel = _HELD.model
    return model


class _Model(NamedTuple):
    """Which model a worker must have."""

    spec: str
    settings: EncoderSettings
    device: str | None
    fingerprint: str


class _Made(NamedTuple):
    """A batch, and what it took."""

    batch: Batch
    seconds: float
    worker: str


@dataclass(frozen=True)
class ClusterBatches:
    """Sends the batches of one text model to a cluster: the `elsewhere` of `text_model`."""

    cluster: Cluster
    spec: str
    settings: EncoderSettings
    device: str | None = None

    def __call__(
        self, fingerprint: str, batches: Iterable[tuple[int, list[str]]]
    ) -> Iterator[Done]:
        """What becomes of the batches, as they end; `in_flight` of them at the most are there."""
        model = _Model(self.spec, self.settings, self.device, fingerprint)
        executor, journal = self.cluster.executor, self.cluster.journal
        tasks = ((model, first, texts) for first, texts in batches)
        found = executor.map(_encoded, tasks, in_flight=self.cluster.in_flight)
        for number, made in found:
            journal.blocks += 1
            journal.computed += 1
            size = made.batch.vectors.nbytes
            journal.steps.append(Step("encode", 0, number, made.seconds, 0, size, made.worker))
            yield Done(number, made.batch, made.seconds)


def _encoded(model: _Model, first: int, texts: list[str]) -> _Made:
    """Encode a batch; runs on a worker."""
    encoder = _loaded(model)
    start = time.perf_counter()
    try:
        batch = encoder.encode_batch(texts, first)
    except UsageError as error:
        raise _located(error, encoder, texts) from error
    except AssayError:
        raise
    except OSError as error:  # which says nothing of the model
        raise ClusterError(
            f"Encoder {model.spec!r} failed on the worker {worker_name()}: {error_text(error)}; on "
            f"{_which(texts)}."
        ) from error
    return _Made(batch, time.perf_counter() - start, worker_name())


def _loaded(model: _Model) -> Encoder:
    """This worker's model; it must be the one whose vectors are asked for."""
    try:
        found = cast("ComputedModel", worker_model(model.spec, model.settings, model.device))
        fingerprint = found.fingerprint
    except Exception as error:  # models are not ours: loading one can fail in any way
        words = str(error) if isinstance(error, AssayError) else f"{error_text(error)}."
        raise ClusterError(
            f"The worker {worker_name()} cannot load the model {model.spec!r}: {words}"
        ) from error
    if fingerprint != model.fingerprint:
        raise ClusterError(
            f"The worker {worker_name()} has another {model.spec!r} than the machine that asks: "
            "versions, weights, source or address differ. Install the same on all nodes."
        )
    return found.encoder


def _located(error: UsageError, encoder: Encoder, texts: list[str]) -> UsageError:
    """The error of a model, with the text on which it fails: found by halving the batch."""
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
