"""Indexes among some documents, and options of a search that are set without building again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.errors import UsageError
from assay.search.indexes import build_index, measure_index

ENGINES = {
    "exact": "engine",
    "faiss:Flat": "engine",
    "faiss:HNSW8?efSearch=32": "engine",
    "faiss:IVF4,Flat?nprobe=2": "engine",
    "faiss:OPQ4,IVF4,PQ4x4?nprobe=2": "after",  # its parts are not told apart here
    "usearch": "after",
    "lancedb": "engine",
    "qdrant": "engine",
    "sqlite-vec": "engine",
}


def vectors(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(n, 8)).astype(np.float32)


def exact_among(queries: Any, docs: Any, numbers: Any, k: int) -> list[list[int]]:
    scores = queries @ docs.T / np.linalg.norm(queries, axis=1)[:, None]
    scores = scores / np.linalg.norm(docs, axis=1)
    return [sorted(numbers, key=lambda doc, row=row: -row[doc])[:k] for row in scores]


def check_filtered(spec: str, filtered: str) -> None:
    docs, queries = vectors(400, 1), vectors(12, 2)
    sets = [np.sort(np.random.default_rng(3).permutation(400)[:n]) for n in (150, 40, 3, 0)]
    among = [sets[row % 4] for row in range(12)]
    with build_index(spec, docs, threads=1) as index:
        for numbers in sets[:3]:
            ranking = index.rank(queries, 10, among=numbers)
            assert np.isin(ranking.docs, numbers).all()
            truth = exact_among(queries, docs, numbers.tolist(), 10)
            lists = np.split(ranking.docs, ranking.offsets[1:-1])
            if index.exactness != "approximate":
                assert [part.tolist() for part in lists] == truth
        report = measure_index(index, queries, 10, among=among)
        assert index.filtered == filtered
        assert report.short >= 0
        for row, numbers in enumerate(among):
            if not len(numbers):
                assert np.isnan(report.recalls[row])
                continue
            hits = index.rank(queries[row : row + 1], 10, among=numbers).docs.tolist()
            best = exact_among(queries[row : row + 1], docs, numbers.tolist(), 10)[0]
            assert report.recalls[row] == len(set(hits) & set(best)) / min(10, len(numbers))
        assert report.recall == pytest.approx(np.nanmean(report.recalls))
        assert report.recall == 1 or index.exactness == "approximate"


@pytest.mark.parametrize(("spec", "filtered"), ENGINES.items())
def test_an_index_ranks_among_some_documents(spec: str, filtered: str) -> None:
    check_filtered(spec, filtered)


@pytest.mark.parametrize("options", ["", "&index=hnsw&ef_search=40", "&index=ivfflat&lists=4"])
def test_postgresql_ranks_among_some_documents(options: str, postgres_url: str) -> None:
    check_filtered(f"pgvector:{postgres_url}{options}", "engine")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("faiss:HNSW8?efSearch=4", "faiss:HNSW8?efSearch=64"),
        ("faiss:IVF4,Flat?nprobe=1", "faiss:IVF4,Flat?nprobe=4"),
        ("usearch?expansion_search=4", "usearch?expansion_search=64"),
        (
            "lancedb:IVF_FLAT?nprobes=1",
            "lancedb:IVF_FLAT?nprobes=4",
        ),
    ],
)
def test_options_of_a_search_need_no_other_index(first: str, second: str) -> None:
    docs, queries = vectors(300, 4), vectors(20, 5)
    with build_index(first, docs, threads=1) as index, build_index(second, docs, threads=1) as new:
        seconds = index.build_seconds
        assert index.tune(second)
        assert (index.spec, index.exactness, index.build_seconds) == (
            new.spec,
            new.exactness,
            seconds,
        )
        ours, others = index.rank(queries, 5), new.rank(queries, 5)
        if "lancedb" not in first:  # whose clusters are drawn anew
            assert ours.docs.tolist() == others.docs.tolist()
        assert ours.search == others.search
        before = index.spec
        assert not index.tune("faiss:Flat")
        assert not index.tune(second.split("?", maxsplit=1)[0])
        assert index.spec == before


def test_other_options_build_again() -> None:
    with build_index("faiss:HNSW8?efConstruction=20&efSearch=8", vectors(50, 6)) as index:
        assert not index.tune("faiss:HNSW8?efConstruction=40&efSearch=8")
        assert not index.tune("faiss:HNSW16?efConstruction=20&efSearch=8")
        with pytest.raises(UsageError, match="efSearch"):
            index.tune("faiss:HNSW8?efConstruction=20&efSearch=x")
