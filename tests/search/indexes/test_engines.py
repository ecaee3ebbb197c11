"""One suite for all engines: exhaustive ones equal exact search bit by bit, others come near."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay import rank
from assay.errors import InputError, UsageError
from assay.search.indexes import build_index, measure_index
from tests.search.indexes.places import clustered, same_bytes, with_url

EXHAUSTIVE = [
    "exact",
    "faiss:Flat",
    "faiss:IVF4,Flat?nprobe=4",
    "usearch?exact=true",
    "sqlite-vec",
    "qdrant",
    "lancedb",
    "pgvector:URL",
]
NEAR = [
    ("faiss:HNSW32?efSearch=64&efConstruction=80", 0.95),
    ("faiss:IVF20,Flat?nprobe=5", 0.9),
    ("faiss:SQ8", 0.9),
    ("faiss:PCA12,Flat", 0.5),
    ("usearch?connectivity=16&expansion_search=64", 0.9),
    ("usearch?dtype=f16", 0.9),
    ("lancedb:IVF_FLAT?num_partitions=8&nprobes=4", 0.9),
    ("lancedb:HNSW_SQ?num_partitions=1&ef=64", 0.8),
    ("pgvector:URL&index=hnsw&m=16&ef_construction=64", 0.9),
    ("pgvector:URL&index=ivfflat&lists=8&probes=4", 0.9),
]
METRICS = ["cosine", "dot", "l2"]


def built(spec: str, request: pytest.FixtureRequest, vectors: Any, **options: Any) -> Any:
    return build_index(with_url(spec, request), vectors, **options)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("spec", EXHAUSTIVE)
def test_exhaustive_engines_answer_as_exact_search_does(
    spec: str, metric: Any, request: pytest.FixtureRequest
) -> None:
    """Few distinct values, so that ties run through every cut; and some vectors many times."""
    rng = np.random.default_rng(1)
    docs = rng.integers(1, 4, size=(300, 6)).astype(np.float32)
    docs[50:120] = docs[7]
    queries = np.concatenate([docs[[7, 20]], rng.integers(1, 4, size=(4, 6))]).astype(np.float32)
    if (spec, metric) == ("sqlite-vec", "dot"):
        with pytest.raises(UsageError, match="no inner product"):
            build_index(spec, docs, metric=metric)
        return
    with built(spec, request, docs, metric=metric) as index:
        for k in (1, 10, 299):
            assert same_bytes(index.search(queries, k), rank(queries, docs, k, metric=metric))


@pytest.mark.parametrize(("spec", "floor"), NEAR)
def test_approximate_engines_come_near(
    spec: str, floor: float, request: pytest.FixtureRequest
) -> None:
    docs, queries = clustered(800, seed=1), clustered(25, seed=2)
    with built(spec, request, docs, metric="l2", threads=1) as index:
        assert index.exactness == "approximate"
        report = measure_index(index, queries, 10, latency_queries=3)
        assert floor <= report.recall <= 1.0
        indices, scores = index.search(queries, 10)
    assert (np.diff(scores, axis=1) <= 0).all()
    exact = -((queries[0] - docs[indices[0]]).astype(np.float64) ** 2).sum(axis=1)
    np.testing.assert_allclose(scores[0], exact, rtol=1e-5)


@pytest.mark.parametrize("spec", [*EXHAUSTIVE, "faiss:HNSW8", "usearch", "pgvector:URL&index=hnsw"])
class TestHostileInput:
    """What every engine must take, or refuse by name."""

    def test_one_document(self, spec: str, request: pytest.FixtureRequest) -> None:
        if "IVF" in spec:
            with pytest.raises(UsageError, match=r"IVF4.*1.*4"):
                built(spec, request, [[1.0, 2.0]])
            return
        with built(spec, request, [[1.0, 2.0]]) as index:
            for k in (1, 2, 10**15):
                indices, scores = index.search([[2.0, 4.0], [-1.0, -2.0]], k)
                assert indices.tolist() == [[0], [0]]
                assert scores.tolist() == [[1.0], [-1.0]]

    def test_more_than_there_are_and_all_alike(
        self, spec: str, request: pytest.FixtureRequest
    ) -> None:
        docs = np.tile(np.float32([0.3, 0.7]), (100, 1))
        with built(spec, request, docs) as index:
            indices, scores = index.search(docs[:1], 1000)
            assert indices.shape == scores.shape == (1, 100)
            found = indices[indices >= 0]
            assert found.tolist() == sorted(set(found.tolist()))
            assert len(set(scores[indices >= 0].tolist())) == 1
            if index.exactness != "approximate":
                assert indices.tolist() == [list(range(100))]
                assert index.search(docs[:1], 3)[0].tolist() == [[0, 1, 2]]

    def test_other_types_and_layouts(self, spec: str, request: pytest.FixtureRequest) -> None:
        docs = clustered(60, seed=3).astype(np.float16)
        odd = np.asfortranarray(docs.astype(">f8"))
        strided = np.repeat(docs.astype(np.float32), 2, axis=0)[::2, ::-1][:, ::-1]
        wanted = None
        for vectors in (docs, odd, strided):
            vectors.setflags(write=False)
            with built(spec, request, vectors, threads=1) as index:
                found = index.search(vectors[:3], 5)
            wanted = found if wanted is None else wanted
            assert found[0].tolist() == wanted[0].tolist()
            assert found[1].tobytes() == wanted[1].tobytes()

    def test_what_cannot_be_searched(self, spec: str, request: pytest.FixtureRequest) -> None:
        good = clustered(20, seed=4)
        for bad, words in (
            (np.where(np.eye(20, 16) > 0, np.nan, good), "docs holds nan at row 0"),
            (np.vstack([good, np.zeros((1, 16))]), "docs row 20 is all zeros"),
            (good[:0], r"shape \(0, 16\)"),
            (good[0], r"shape \(16,\)"),
            (np.array([["a"]]), "real numbers"),
        ):
            with pytest.raises(InputError, match=words):
                built(spec, request, bad)
        with built(spec, request, good) as index:
            with pytest.raises(InputError, match=r"queries holds -?inf"):
                index.search(good[:1] * np.inf, 1)
            with pytest.raises(InputError, match="queries row 0 is all zeros"):
                index.search(good[:1] * 0, 1)
            with pytest.raises(InputError, match="queries have 3 columns"):
                index.search(good[:1, :3], 1)
            for k in (0, -1, 2.5, True):
                with pytest.raises(UsageError, match="k must be"):
                    index.search(good[:1], k)
            assert index.search(good[:1], 1)[0].tolist() == [[0]]
        index.close()
        with pytest.raises(UsageError, match="is closed"):
            index.search(good[:1], 1)


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e200])
@pytest.mark.parametrize("spec", ["faiss:Flat", "qdrant", "lancedb", "sqlite-vec"])
def test_tiny_and_huge_vectors(spec: str, scale: float) -> None:
    docs, queries = (clustered(n, seed=n).astype(float) * scale for n in (50, 4))
    for metric in ("cosine", "l2") if scale < 1e100 else ("cosine",):
        with build_index(spec, docs, metric=metric) as index:  # type: ignore[arg-type]
            exact = rank(queries, docs, 5, metric=metric)  # type: ignore[arg-type]
            assert same_bytes(index.search(queries, 5), exact)


def test_zero_vectors_where_they_have_a_score() -> None:
    docs = np.float32([[0, 0], [1, 0], [-1, 0], [0, 0]])
    for spec in ("faiss:Flat", "usearch?exact=true", "qdrant", "lancedb"):
        for metric in ("dot", "l2"):
            exact = rank([[1.0, 0.0]], docs, 3, metric=metric)  # type: ignore[arg-type]
            with build_index(spec, docs, metric=metric) as index:  # type: ignore[arg-type]
                assert same_bytes(index.search([[1.0, 0.0]], 3), exact)


def test_sqlite_vec_gives_more_than_its_search_does() -> None:
    docs = clustered(4300, seed=7, dimension=2)
    with build_index("sqlite-vec", docs, metric="l2") as index:
        assert same_bytes(index.search(docs[:1], 4200), rank(docs[:1], docs, 4200, metric="l2"))
    with pytest.raises(UsageError, match="at most 8192 dimensions, found 8193"):
        build_index("sqlite-vec", np.ones((1, 8193)))


def test_qdrant_in_a_folder_leaves_no_collection(tmp_path: Path) -> None:
    docs = clustered(30, seed=8)
    for _ in range(2):
        with build_index(f"qdrant:{tmp_path}/q", docs) as index:
            assert same_bytes(index.search(docs[:2], 3), rank(docs[:2], docs, 3))
    assert not [path for path in (tmp_path / "q" / "collection").glob("*") if any(path.iterdir())]


def test_product_quantisation_is_quiet_on_few_points(capfd: pytest.CaptureFixture[str]) -> None:
    docs = clustered(64, seed=9, dimension=4)
    for spec in ("faiss:PQ2x4", "faiss:IVF4,PQ2x4", "faiss:PCA2,PQ1x4"):
        with build_index(spec, docs, metric="l2", threads=1) as index:
            assert index.search(docs[:2], 5)[0].shape == (2, 5)
    said = capfd.readouterr()
    assert said.out == said.err == ""


def test_ids_in_ids_out() -> None:
    docs = clustered(20, seed=10)
    names = [f"doc{i}" for i in range(20)]
    with build_index("faiss:Flat", docs, doc_ids=names) as index:
        ranking = index.rank(docs[:2], 3, query_ids=["a", "b"])
        wanted = rank(docs[:2], docs, 3, query_ids=["a", "b"], doc_ids=names)
        assert ranking.row("b") == wanted.row("b")
        assert ranking.search.startswith("faiss:Flat@faiss-")
        assert ranking.n_docs == 20
    for wrong in (names[:-1], names[:-1] + names[:1]):
        with pytest.raises(InputError):
            build_index("faiss:Flat", docs, doc_ids=wrong)


def test_one_thread_builds_the_same_graph_again() -> None:
    docs, queries = clustered(500, seed=11), clustered(20, seed=12)
    for spec in ("faiss:HNSW4?efSearch=4", "usearch?connectivity=4&expansion_search=4"):
        answers = set()
        for _ in range(2):
            with build_index(spec, docs, threads=1) as index:
                answers.add(index.search(queries, 10)[0].tobytes())
        assert len(answers) == 1


@pytest.mark.parametrize(
    ("metric", "size"),
    [
        *(("l2", 1e-30), ("dot", 1e30)),
        *(
            pytest.param(*other, marks=pytest.mark.slow)
            for other in product(METRICS, (1e-30, 1e30))
        ),
    ],
)
def test_faiss_clusters_vectors_of_any_size(size: float, metric: Any) -> None:
    """Its clustering ends the process where squares overflow: vectors are scaled before."""
    rng = np.random.default_rng(0)
    docs, queries = (rng.normal(size=(n, 8)).astype(np.float32) * size for n in (200, 5))
    for spec in ("faiss:IVF4,Flat?nprobe=4", "faiss:IVF4,PQ2x4?nprobe=4"):
        with build_index(spec, docs, metric=metric) as index:
            found = index.search(queries, 200)
        exact = rank(queries, docs, 200, metric=metric)
        assert (np.sort(found[0], axis=1) == np.arange(200)).all()
        assert "PQ" in spec or same_bytes(found, exact)


@pytest.mark.parametrize(
    ("factory", "points"),
    [
        ("IVF16,Flat", "25.0 per centroid (faiss asks for 39)"),
        ("IVF4,Flat", "100.0 per centroid"),
        ("PQ4x4", "25.0 per centroid (faiss asks for 39)"),
        ("OPQ4,IVF4,PQ4x5", "12.5 per centroid (faiss asks for 39)"),
        ("SQ8", ""),
        ("HNSW8", None),
        ("Flat", None),
    ],
)
def test_faiss_says_what_it_learnt_from(factory, points):
    pytest.importorskip("faiss")
    docs = np.random.default_rng(4).normal(size=(400, 8)).astype(np.float32)
    with build_index(f"faiss:{factory}", docs, threads=1) as index:
        report = measure_index(index, docs[:5], 3)
    said = "" if points is None else f"trained on the 400 documents it holds, {points}".rstrip(", ")
    assert report.learnt == said
    assert ("learnt" in report.as_dict()) == (points is not None)
