"""Encoders: what they promise, by brute force and by seed."""

from __future__ import annotations

import numpy as np
import pytest

from assay.codes import encoders
from assay.codes.encoders import METHODS, make_encoder, unit_rows
from assay.errors import UsageError, ValueRangeError
from assay.search.engine import Codes, rank, rank_codes


@pytest.fixture
def vectors() -> np.ndarray:
    rng = np.random.default_rng(7)
    return (rng.normal(size=(300, 4)) @ rng.normal(size=(4, 20)) + 0.3).astype(np.float32)


def unpacked(codes: Codes) -> np.ndarray:
    return np.unpackbits(codes.packed, axis=1, count=codes.bits)


def test_sign_is_one_bit_per_dimension(vectors):
    encoder = make_encoder("sign", vectors)
    assert (encoder.bits, encoder.bytes_per_vector) == (20, 3)
    assert (unpacked(encoder.encode(vectors)) == (vectors > 0)).all()


def test_a_longer_gaussian_code_begins_with_the_shorter_one(vectors):
    short, long = (make_encoder("gaussian", vectors, bits=n, seed=3) for n in (9, 40))
    found = unpacked(long.encode(vectors))
    assert (unpacked(short.encode(vectors)) == found[:, :9]).all()
    other = make_encoder("gaussian", vectors, bits=40, seed=4).encode(vectors)
    assert (unpacked(other) != found).mean() > 0.3


def test_gaussian_bits_differ_as_often_as_the_angle_says():
    """A random direction separates two vectors with probability angle / π."""
    pair = np.array([[1.0, 0.0], [np.cos(1.0), np.sin(1.0)]])
    codes = unpacked(make_encoder("gaussian", pair, bits=20_000).encode(pair))
    assert (codes[0] != codes[1]).mean() == pytest.approx(1 / np.pi, abs=0.015)


def quantisation_error(vectors, encoder) -> float:
    """Mean squared distance of the rotated vectors from the corners that stand for them."""
    made = encoder.doc_block
    turned = (unit_rows(vectors.astype(float)) - made.centre) @ made.directions
    return float(((turned - np.sign(turned) * np.abs(turned).mean()) ** 2).mean())


def test_itq_turns_the_principal_directions_and_fits_better_than_none(vectors, monkeypatch):
    learned = make_encoder("itq", vectors, bits=4)
    monkeypatch.setattr(encoders, "ROUNDS", 0)
    unlearned = make_encoder("itq", vectors, bits=4)
    assert quantisation_error(vectors, learned) < quantisation_error(vectors, unlearned)
    centre, directions = learned.doc_block.centre, learned.doc_block.directions
    unit = unit_rows(vectors.astype(float))
    np.testing.assert_allclose(centre, unit.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(directions.T @ directions, np.eye(4), atol=1e-10)
    held = (((unit - centre) @ directions) ** 2).sum() / ((unit - centre) ** 2).sum()
    most = np.linalg.eigvalsh(np.cov(unit.T))
    assert held == pytest.approx(most[-4:].sum() / most.sum())


def test_itq_makes_at_most_one_bit_per_dimension(vectors):
    with pytest.raises(UsageError, match=r"itq makes at most one bit per dimension, not 21"):
        make_encoder("itq", vectors, bits=21)


def test_int8_has_a_scale_for_each_vector_by_angle(vectors):
    encoder = make_encoder("int8", vectors)
    found = encoder.encode(vectors)
    steps = 127 * vectors / np.abs(vectors).max(axis=1, keepdims=True)
    assert found.dtype == np.int8
    assert encoder.bytes_per_vector == 20
    assert np.abs(found - steps).max() <= 0.5 + 1e-4
    assert (np.abs(found.astype(int)).max(axis=1) == 127).all()
    assert not encoder.encode(np.zeros((1, 20))).any()


def test_int8_has_one_scale_for_all_documents_otherwise(vectors):
    encoder = make_encoder("int8", vectors, metric="dot")
    found = encoder.encode(vectors)
    assert np.abs(found - vectors * (127 / np.abs(vectors).max())).max() <= 0.5 + 1e-4
    assert encoder.encode(100 * vectors).min() == -127
    assert encoder.encode(vectors).tobytes() != encoder.encode_queries(vectors).tobytes()
    steps = make_encoder("int8", vectors, metric="l2").encode_queries(100 * vectors)
    assert np.abs(steps - vectors * (12700 / np.abs(vectors).max())).max() <= 0.5 + 1e-2
    with pytest.raises(ValueRangeError, match="All documents are zero"):
        make_encoder("int8", np.zeros((2, 3)), metric="dot")


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_float16_keeps_eleven_bits(vectors, metric):
    found = make_encoder("float16", vectors, metric=metric).encode(vectors)
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    size = 2.0 ** np.frexp(largest)[1] if metric == "cosine" else largest.max()
    assert found.dtype == np.float16
    unscaled = found.astype(float) * size / 2**15
    np.testing.assert_allclose(unscaled, vectors, rtol=2**-10, atol=1e-9)


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
@pytest.mark.parametrize("method", METHODS)
def test_tiny_and_huge_vectors_are_encoded_alike(method, metric, vectors):
    vectors = vectors.astype(np.float64)
    plain = make_encoder(method, vectors, bits=10, metric=metric).encode(vectors)
    for size in (2.0**-900, 2.0**900):
        encoder = make_encoder(method, vectors * size, bits=10, metric=metric)
        found = encoder.encode(vectors * size)
        left, right = (x.packed if isinstance(x, Codes) else x for x in (plain, found))
        assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_blocks_and_repetition_change_nothing(method, vectors, monkeypatch):
    def made() -> bytes:
        found = make_encoder(method, vectors, bits=12, seed=1).encode(vectors)
        return (found.packed if isinstance(found, Codes) else found).tobytes()

    whole = made()
    assert made() == whole
    for size in (1, 60, 1000):
        monkeypatch.setattr(encoders, "BLOCK_SIZE", size)
        assert made() == whole


def test_many_documents_are_sampled(vectors, monkeypatch):
    monkeypatch.setattr(encoders, "SAMPLE_SIZE", 50)
    first = make_encoder("itq", vectors, bits=4, seed=1).encode(vectors)
    again = make_encoder("itq", vectors, bits=4, seed=1).encode(vectors)
    assert first.packed.tobytes() == again.packed.tobytes()


def test_unknown_methods_are_refused(vectors):
    with pytest.raises(UsageError, match="Known: sign"):
        make_encoder("pq", vectors)
    for bits in (0, None, 2.5):
        with pytest.raises(UsageError, match="bits must be"):
            make_encoder("gaussian", vectors, bits=bits)


SCALED = [("cosine", 10.0, 1.0), ("cosine", 1.0, 1e6), ("dot", 10.0, 1.0), ("dot", 1.0, 1e6)]
SCALED += [("dot", 1e-9, 1e30), ("l2", 10.0, 10.0), ("l2", 1e-6, 1e-6)]


@pytest.mark.parametrize(("metric", "of_queries", "of_docs"), SCALED)
@pytest.mark.parametrize("method", METHODS)
def test_what_cannot_change_a_ranking_cannot_change_its_codes(method, metric, of_queries, of_docs):
    rng = np.random.default_rng(5)
    docs = rng.normal(size=(200, 12)) + 0.3
    queries = docs[:40] + 0.4 * rng.normal(size=(40, 12))
    found = []
    for left, right in ((queries, docs), (queries * of_queries, docs * of_docs)):
        encoder = make_encoder(method, right, bits=10, metric=metric)
        sides = encoder.encode_queries(left), encoder.encode(right)
        if encoder.is_binary:
            found.append(rank_codes(*sides, 10, keep_ties=True))
        else:
            found.append(rank(*sides, 10, metric=metric, keep_ties=True))
    if (method, metric) == ("float16", "cosine"):  # scaled by powers of two, which lose nothing
        assert (found[0].docs == found[1].docs).mean() > 0.95
    else:
        assert found[0].docs.tolist() == found[1].docs.tolist()


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
@pytest.mark.parametrize("method", ["int8", "float16"])
def test_shorter_vectors_find_what_the_vectors_find_at_any_size(method, metric):
    rng = np.random.default_rng(6)
    docs, queries = rng.normal(size=(300, 16)), 1000 * rng.normal(size=(30, 16))
    for of_queries, of_docs in ((1.0, 1.0), (1.0, 1e6), (1e-8, 1.0)):
        left, right = queries * of_queries, docs * of_docs
        encoder = make_encoder(method, right, metric=metric)
        found = rank(encoder.encode_queries(left), encoder.encode(right), 10, metric=metric)
        wanted = rank(left, right, 10, metric=metric)
        shared = [
            len({doc for doc, _ in found.row(q)} & {doc for doc, _ in wanted.row(q)})
            for q in range(30)
        ]
        assert np.mean(shared) > 9.3, (of_queries, of_docs)
