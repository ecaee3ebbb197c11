"""What codes learn from: never from what they encode, unless it is said."""

from __future__ import annotations

import numpy as np
import pytest

from assay import rank
from assay.bench.plan import Model, make_codes
from assay.codes import evaluate_codes
from assay.codes.encoders import CodeTraining, FoldedCodes, make_encoder
from assay.errors import AssayError
from assay.search.engine import Codes, rank_codes

FEW = {"k": [5], "resamples": 100}
METRICS = ("cosine", "dot", "l2")


@pytest.fixture
def docs() -> np.ndarray:
    rng = np.random.default_rng(5)
    return (rng.normal(size=(640, 12)) @ rng.normal(size=(12, 12))).astype(np.float32)


@pytest.fixture
def queries(docs) -> np.ndarray:
    rng = np.random.default_rng(6)
    return (docs[:30] + rng.normal(size=(30, 12))).astype(np.float32)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 0.8, 0.9])
def test_no_document_is_in_the_lesson_of_its_own_code(share):
    allowed = np.arange(0, 200, 2)
    dealt = list(CodeTraining(share, rows=allowed).deal(200, seed=3))
    assert sorted(np.concatenate([part for part, _ in dealt])) == list(range(200))
    for part, lesson in dealt:
        assert not set(part) & set(lesson)
        assert set(lesson) <= set(allowed)
        assert 0 < len(lesson) <= round(share * 200)
    everything = list(CodeTraining(share).deal(200, seed=3))
    assert all(len(lesson) == round(share * 200) for _, lesson in everything)


def hamming_by_hand(code, docs, queries):
    """Distances of each pair by the encoder that did not see the document."""
    table = np.empty((len(queries), len(docs)), int)
    for encoder, part in zip(code.encoders, code.parts, strict=True):
        left, right = encoder.encode_queries(queries), encoder.encode(docs[part])
        bits = [np.unpackbits(side.packed, axis=1, count=side.bits) for side in (left, right)]
        table[:, part] = (bits[0][:, None] != bits[1][None]).sum(axis=2)
    return table


@pytest.mark.parametrize("bits", [5, 8, 12])
@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize("metric", METRICS)
def test_folded_codes_have_the_distances_of_each_pair_of_codes(docs, queries, bits, share, metric):
    code = CodeTraining(share).fit("itq", docs, bits=bits, metric=metric)
    of_docs, of_queries = code.encode(docs), code.encode_queries(queries)
    assert isinstance(of_docs, FoldedCodes)
    ranking = of_docs.unfold(rank_codes(of_queries, of_docs, len(docs)))
    expected = hamming_by_hand(code, docs, queries)
    found = np.empty_like(expected)
    found[np.repeat(np.arange(30), len(docs)), ranking.docs] = -ranking.scores
    np.testing.assert_array_equal(found, expected)
    order = np.argsort(expected, axis=1, kind="stable")
    np.testing.assert_array_equal(ranking.docs.reshape(30, -1), order)


@pytest.mark.parametrize("method", ["pq:4", "rabitq:2"])
@pytest.mark.parametrize("metric", METRICS)
def test_a_document_is_encoded_as_by_an_encoder_of_the_other_half(docs, queries, method, metric):
    if method == "pq:4":
        pytest.importorskip("faiss")
    code = CodeTraining().fit(method, docs, metric=metric)
    whole = code.encode(docs)
    for part, lesson in CodeTraining().deal(len(docs), 0):
        alone = make_encoder(method, docs, rows=lesson, metric=metric)
        np.testing.assert_array_equal(whole[part], alone.encode(docs[part]))
        np.testing.assert_array_equal(code.encode_queries(queries), alone.encode_queries(queries))


@pytest.mark.parametrize("method", ["itq", "pq:4"])
def test_half_of_the_documents_shows_less_than_the_documents_themselves(docs, queries, method):
    if method == "pq:4":
        pytest.importorskip("faiss")
    few = docs[:560]
    means = {}
    for train in (None, 0.5, 0.8, 1, docs[560:] if method == "itq" else docs[300:]):
        report = evaluate_codes(few, queries, methods=[method], bits=[12], train=train, **FEW)
        code = report.codes[1]
        key = train if isinstance(train, int | float | None) else "file"
        means[key] = (code.similarity.overlap[5]["expected"].mean(), report.signature)
    assert means[None] == means[0.5]
    assert means[0.5][0] < means[1][0]
    signatures = {signature for _, signature in means.values()}
    assert len(signatures) == 4  # None is 0.5


def test_other_vectors_are_all_that_is_learnt_from(docs, queries, tmp_path):
    other = docs[::-1] * 2 + 1
    np.save(tmp_path / "other.npy", other)
    how = {"methods": ["itq", "rabitq:1", "int8"], "bits": [8], "metric": "dot", **FEW}
    told = evaluate_codes(docs, queries, train=other, **how)
    read = evaluate_codes(docs, queries, train=tmp_path / "other.npy", **how)
    assert str(told.to_dict()["codes"][1]["float_ranking"]) == str(
        read.to_dict()["codes"][1]["float_ranking"]
    )
    assert told.signature == read.signature
    encoder = make_encoder("int8", other, metric="dot")
    top = rank(encoder.encode_queries(queries), encoder.encode(docs), 5, metric="dot")
    plain = rank(queries, docs, 5, metric="dot")
    shared = [
        len({doc for doc, _ in top.row(row)} & {doc for doc, _ in plain.row(row)}) / 5
        for row in range(30)
    ]
    assert told["int8"].similarity.overlap[5]["order"].mean() == pytest.approx(np.mean(shared))
    assert "itq-8, rabitq:1: trained on 640 other vectors" in told.remarks


def test_vectors_to_learn_from_that_are_documents_are_counted(docs, queries):
    mixed = np.concatenate([docs[:30], docs[:50] + 1])
    report = evaluate_codes(docs, queries, methods=["rabitq:1"], train=mixed, **FEW)
    assert "30 of the 80 training vectors are searched documents" in report.remarks


def test_points_and_bytes_of_the_codebook_are_shown(docs, queries):
    pytest.importorskip("faiss")
    report = evaluate_codes(docs, queries, methods=["pq:4", "itq", "sign"], bits=[8], **FEW)
    sizes = {code["name"]: code["codebook_bytes"] for code in report.to_dict()["codes"]}
    assert sizes == {"float": 0, "sign": 0, "itq-8": 4 * 12 * 9, "pq:4": 4 * 256 * 12}
    said = (
        "pq:4: 1.2 points per centroid, faiss asks for 39; "
        "the codebook adds 19.2 bytes to each document here"
    )
    assert said in report.remarks
    assert "codebook bytes" in str(report)
    assert "|train:-;-;0.5;0.5|codebook:-;-;432;12288|" in report.signature


@pytest.mark.parametrize("train", [0, -0.5, 1.5, float("nan"), "no.npy", np.ones((4, 3)), [], {}])
def test_what_cannot_be_learnt_from_is_refused(docs, queries, train):
    with pytest.raises(AssayError):
        evaluate_codes(docs, queries, methods=["rabitq:1"], train=train, **FEW)
    bad = docs.astype(float)
    bad[7, 2] = np.nan
    with pytest.raises(AssayError, match=r"train holds nan at row 7"):
        evaluate_codes(docs, queries, methods=["rabitq:1"], train=bad, **FEW)


def test_too_few_vectors_for_centroids_say_what_to_do(docs, queries):
    pytest.importorskip("faiss")
    with pytest.raises(AssayError, match=r"needs 256 training vectors, found 200.*train 1"):
        evaluate_codes(docs[:400], queries, methods=["pq:4"], train=0.5, **FEW)
    with pytest.raises(AssayError, match="needs 256 training vectors, found 200"):
        make_codes("pq:4&train=0.5", docs[:400], "cosine")
    with pytest.raises(AssayError, match="needs 256 training vectors, found 200"):
        evaluate_codes(docs[:200], queries, methods=["pq:4"], **FEW)


def test_where_half_is_too_few_for_centroids_all_are_learnt_from_and_it_is_said(docs, queries):
    pytest.importorskip("faiss")
    report = evaluate_codes(docs[:400], queries, methods=["pq:4"], **FEW)
    assert any("trained on the 400 documents that are searched" in r for r in report.remarks)
    assert report["pq:4"].cost.train == "1"
    assert len(make_codes("pq:4", docs[:400], "cosine").encoders) == 1


def test_equal_vectors_have_a_ceiling_that_no_code_passes(docs):
    twice = np.concatenate([docs[:80]] * 3)
    report = evaluate_codes(twice, docs[80:120], methods=["float16", "sign"], **FEW)
    ceiling = report.ceiling("Overlap@5")
    # Three copies of each: the first five are one whole triple and two of the next three.
    assert ceiling == pytest.approx((3 + 2 * 2 / 3) / 5)
    for code in report.codes:
        assert report.intervals[code.name]["Overlap@5"].estimate <= ceiling + 1e-12
        assert report.to_dict()["codes"][0]["float_ranking"]["Overlap@5"]["ceiling"] == ceiling
    assert any("Overlap@5 is at most 0.8667" in r for r in report.remarks)
    assert "\nceiling " in str(report)
    assert "ceiling" not in str(evaluate_codes(docs[:80], docs[80:90], methods=["sign"], **FEW))


def test_the_codes_of_a_bench_learn_likewise(docs):
    whole, half = (make_codes(code, docs, "cosine") for code in ("rabitq:1&train=1", "rabitq:1"))
    assert (len(whole.encoders), len(half.encoders)) == (1, 2)
    assert Model.parse("a=npy:x.npy?codes=pq:4&train=0.8").codes == "pq:4&train=0.8"
    assert not isinstance(make_codes("sign", docs, "cosine").encode(docs), FoldedCodes)
    assert isinstance(make_codes("binary", docs, "cosine").encode(docs), Codes)
    for share in ("0", "2", "1.5"):
        with pytest.raises(AssayError, match=r"train is [\d.]+\. Pass a share"):
            Model("a", "wordllama", codes=f"pq:4&train={share}")
