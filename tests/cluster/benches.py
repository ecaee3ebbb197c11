"""Benches whose models get small batches, and what they find as bytes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.bench import BenchResult, run_bench
from assay.cluster import Cluster
from assay.io.collections import Collection
from assay.models import EmbeddingCache, text_model
from tests.bench.samples import small
from tests.cluster.corpora import ranking_bytes

LETTERS = "letters=py:tests.cluster.encoders:letters"
STRICT = "strict=py:tests.cluster.encoders:strict"
MODELS = ("bm25", "wordllama", LETTERS)
N_TEXTS = 37 + 25  # documents that have a text, and queries: no two are the same
_BATCH = 5


def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models ask for a few texts at once, so that there are many batches."""
    module = sys.modules[text_model.__module__]
    loaded = module.encoder  # type: ignore[attr-defined]
    monkeypatch.setattr(
        module, "encoder", lambda *spec, **how: replace(loaded(*spec, **how), batch_size=_BATCH)
    )


def collection() -> Collection:
    return small(n_docs=40, n_queries=25, empty=3)


def with_text(text: str) -> Collection:
    data = collection()
    texts = list(data.doc_texts)
    texts[30] = text
    return replace(data, doc_texts=texts)


def bench(
    cluster: Cluster | None, cache: Path | None = None, models: Any = MODELS, data: Any = None
) -> BenchResult:
    kept = None if cache is None else EmbeddingCache(cache)
    return run_bench(data or collection(), models, measures="nDCG@10", cache=kept, cluster=cluster)


def found(result: BenchResult) -> dict[str, tuple[Any, ...]]:
    """What all systems retrieved, and by which model."""
    return {
        one.name: (*ranking_bytes(one.ranking), one.result.fingerprint) for one in result.systems
    }


def encoded(result: BenchResult) -> dict[str, int]:
    """How many texts each model was given."""
    return {one.name: one.result.costs.n_encoded for one in result.systems[1:]}


def check(cluster: Cluster, cache: Path) -> None:
    """The bytes of one process, all texts computed once, and none of them again."""
    want = bench(None)
    got = bench(cluster, cache)
    assert found(got) == found(want)
    assert encoded(got) == encoded(want) == {"wordllama": N_TEXTS, "letters": N_TEXTS}
    assert cluster.journal.computed == 2 * (8 + 5)
    for again in (bench(cluster, cache), bench(None, cache)):
        assert found(again) == found(want)
        assert encoded(again) == {"wordllama": 0, "letters": 0}
    assert cluster.journal.computed == 2 * (8 + 5)
